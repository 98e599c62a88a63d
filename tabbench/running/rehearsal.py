"""A dummy job for checks of executors: it reports, then succeeds or fails."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import Literal

from tabbench.context import Context
from tabbench.errors import Evicted
from tabbench.experiment.payloads import JsonValue


class RehearsalPayload(JsonValue):
    """What the job is to do."""

    epochs: int = 3
    """Number of epochs, with one report each."""
    seconds: float = 0.0
    """Seconds per epoch."""
    then: Literal["end", "fail", "lose", "crash", "hang", "eat"] = "end"
    """What comes after the last report."""
    echo: int = 0
    """Returned with the result."""
    seed: int = 0
    store: str = ""
    cache: str = ""
    trial: bool = True


def rehearse(payload: RehearsalPayload, context: Context) -> dict[str, int | str]:
    """Do what the payload says; returns which process did it, and where."""
    pid = os.getpid()
    me: dict[str, int | str] = {"pid": pid, "host": socket.gethostname(), "echo": payload.echo}
    for epoch in range(payload.epochs):
        time.sleep(payload.seconds)
        context.report(epoch + 1, payload.epochs, validation=float(epoch + 1), pid=pid)
    match payload.then:
        case "fail":
            raise RuntimeError("the rehearsal was told to fail")
        case "lose":
            raise Evicted("the rehearsal was told to lose its place")
        case "crash":
            os.kill(pid, signal.SIGKILL)
        case "hang":
            time.sleep(3600)
        case "eat":
            eaten = [bytearray(2**26)]
            while len(eaten) < 256:  # 16 GB, but the limit comes first
                eaten.append(bytearray(os.urandom(2**12)) * 2**14)
    return me
