"""Who works in a results folder: each driver writes a heartbeat that anyone can read.

    results/drivers/ID.json     what a driver is doing, renamed into place every few seconds

No lock is needed to read or write them. A sign of life is a number that grows, so the clocks of two machines need not
agree.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import socket
import sys
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tabbench.results.files import read_json
from tabbench.values import JsonObject

BEAT_EVERY = 5.0
"""Seconds between heartbeats."""
DEAD_AFTER = 60.0
"""Seconds without a heartbeat after which a driver counts as dead."""
KEEP = 7 * 86400.0
"""Seconds for which the last status of a driver is kept."""
End = Literal["", "done", "failed", "interrupted"]


@dataclass(frozen=True)
class RunningJob:
    """A job that is running."""

    label: str
    kind: str
    node: str
    since: float
    """Seconds since 1970."""
    step: int = 0
    total: int = 0
    queued: bool = False
    """A scheduler has it and has not started it yet."""


@dataclass(frozen=True)
class Driver:
    """The status of a driver, as it reports it."""

    id: str
    host: str
    pid: int
    executor: str
    command: str
    """What was typed to start it; empty in a notebook."""
    started: float
    time: float
    """When it reported this, by its own clock."""
    beat: int = 0
    ended: End = ""
    """How it ended; empty while it is running."""
    slots: int = 0
    total: int = 0
    done: int = 0
    failed: int = 0
    ready: int = 0
    """Jobs that could start if there were room."""
    blocked: int = 0
    """Steps that wait for other steps."""
    left: float | None = None
    """Estimated seconds left."""
    waiting_for: str = ""
    """Why ready jobs do not start, if they have not for a while."""
    last_error: str = ""
    remote: bool = False
    """Whether its jobs run on other machines and may outlive it."""
    jobs: tuple[RunningJob, ...] = field(default=())

    @classmethod
    def from_json(cls, value: JsonObject) -> Driver:
        known = {name: value[name] for name in cls.__dataclass_fields__ if name in value}
        jobs = tuple(RunningJob(**job) for job in known.pop("jobs", []))
        return cls(**known, jobs=jobs)

    def is_alive(self, now: float | None = None) -> bool:
        """Whether it is running: by its process if on this machine, otherwise by its last heartbeat."""
        if self.ended:
            return False
        if self.host == socket.gethostname():
            return _is_running(self.pid, self.started)
        return (now or time.time()) - self.time < DEAD_AFTER


def _is_running(pid: int, started: float) -> bool:
    import psutil

    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() <= started + 1
    except psutil.Error:
        return False


def own_command() -> str:
    """The command that started this process, as a user would type it."""
    program = Path(sys.argv[0])
    if "ipykernel" in program.name:
        return ""
    is_ours = program.name == "__main__.py" and program.parent.name == "tabbench"
    return shlex.join(["tabbench" if is_ours else program.name, *sys.argv[1:]])


def read_drivers(root: Path) -> list[Driver]:
    """All known drivers of a results folder, latest first."""
    found = [read_driver(root, path.stem) for path in (root / "drivers").glob("*.json")]
    known = [driver for driver in found if driver is not None]  # the others were removed meanwhile, or are not ours
    return sorted(known, key=lambda driver: driver.started, reverse=True)


def read_driver(root: Path, name: str) -> Driver | None:
    """One driver by id; None if unknown."""
    try:
        return Driver.from_json(read_json(root / "drivers" / f"{name}.json"))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


class Presence:
    """The heartbeat of this driver, in a separate thread so that a busy driver does not look dead."""

    def __init__(self, root: Path, executor: str = "") -> None:
        self.folder = root / "drivers"
        self.folder.mkdir(parents=True, exist_ok=True)
        _sweep(self.folder)
        host, pid, now = socket.gethostname(), os.getpid(), time.time()
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
        self.id = f"{stamp}-{host}-{pid}-{secrets.token_hex(3)}"
        self.state = Driver(self.id, host, pid, executor, own_command(), now, now)
        self.beats = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._write()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def update(self, **changes: Any) -> None:
        """Change the status, for the next heartbeat."""
        self.state = replace(self.state, **changes)

    def say(self, **changes: Any) -> None:
        """Change the status and write it at once."""
        self.update(**changes)
        self._write()

    def close(self, ended: End) -> None:
        """Write the final status."""
        self._stop.set()
        self._thread.join(BEAT_EVERY)
        self.update(ended=ended, jobs=(), ready=0, blocked=0, left=None, waiting_for="")
        self._write()

    def _run(self) -> None:
        while not self._stop.wait(BEAT_EVERY):
            self._write()

    def _write(self) -> None:
        with self._lock:
            self.beats += 1
            said = {**asdict(self.state), "beat": self.beats, "time": time.time()}
            draft = self.folder / f".{self.id}"
            with contextlib.suppress(OSError):  # a full disk must not end a run
                draft.write_text(json.dumps(said), encoding="utf-8")
                os.replace(draft, self.folder / f"{self.id}.json")


def _sweep(folder: Path) -> None:
    """Forget drivers that ended long ago."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > KEEP:
                path.unlink()
