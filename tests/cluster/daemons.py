"""Background processes of a test cluster: started with a log, ended for certain."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil


class ClusterError(Exception):
    """The cluster did not come up; the message has the end of the guilty log."""


class Daemons:
    """Processes that live as long as a cluster. They die with the test process, however that ends."""

    def __init__(self, folder: Path, marker: str) -> None:
        """Prepare.

        Args:
            folder: for the logs.
            marker: a text that only processes of this cluster have in their command line or environment.
        """
        self.folder, self.marker = folder, marker
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *command: str, **variables: str) -> subprocess.Popen[bytes]:
        die_with_us = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
        with (self.folder / f"{name}.out").open("ab") as log:
            process = subprocess.Popen(
                [*die_with_us, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **variables},
                start_new_session=True,
            )
        self.running[name] = process
        return process

    def wait_until(self, ready: Callable[[], bool], what: str, seconds: float = 30) -> None:
        """Wait; if a process ends meanwhile or the time is up, say so with the ends of the logs."""
        until = time.monotonic() + seconds
        while not ready():
            dead = [name for name, process in self.running.items() if process.poll() is not None]
            if dead or time.monotonic() > until:
                why = f"{', '.join(dead)} ended" if dead else f"{seconds:g} s have passed"
                raise ClusterError(f"{what}: {why}\n{self.logs()}")
            time.sleep(0.1)

    def logs(self, lines: int = 15) -> str:
        """The ends of all logs."""
        found = []
        for path in sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out")]):
            tail = path.read_text(errors="replace").splitlines()[-lines:]
            found.append("\n".join([f"--- {path.name}", *tail]))
        return "\n".join(found)

    def stop(self, name: str, seconds: float = 5) -> None:
        """End one process, first kindly."""
        process = self.running.pop(name)
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(seconds)

    def stop_all(self) -> None:
        """End everything, the last first; then whatever else belongs to the cluster."""
        for name in reversed(list(self.running)):
            self.stop(name)
        left = self.leftovers()
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=5)

    def leftovers(self) -> list[psutil.Process]:
        """Processes of the cluster that are not this one or its parents."""
        own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
        return [process for process in psutil.process_iter() if process.pid not in own and self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            if any(self.marker in argument for argument in process.cmdline()):
                return True
            return any(self.marker in value for value in process.environ().values())
        return False


def free_ports(count: int) -> list[int]:
    """Ports on which nobody listens at the moment, below the range that outgoing connections use."""
    found: list[int] = []
    for port in _candidates():
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise ClusterError("no free ports")


def _candidates() -> Iterator[int]:
    """Each process begins elsewhere, so that two clusters do not meet."""
    first = 20000 + os.getpid() * 37 % 10000
    yield from range(first, 32000)
    yield from range(20000, first)
