"""The right to work on a key: one driver at a time among all that share a results folder.

``flock`` is the operating system's lock: it is released as soon as its holder dies. Some network file systems do not
support it, or only within one machine. There, use ``lease``: a file that names its holder and is valid as long as the
holder has a heartbeat (``drivers.py``). It only needs exclusive file creation.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol

import filelock

from tabbench.errors import UsageError
from tabbench.results.drivers import DEAD_AFTER, Presence, read_driver

LockKind = Literal["flock", "lease"]
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP)


class Lock(Protocol):
    """A lock that this process holds or does not hold."""

    def take(self) -> bool:
        """Try to acquire it without waiting; returns whether we hold it now."""

    def release(self) -> None: ...


class Flock:
    """A lock of the operating system on a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = filelock.FileLock(path)

    def take(self) -> bool:
        try:
            self.lock.acquire(timeout=0)
        except filelock.Timeout:
            return False
        except NotImplementedError:
            raise _no_locks(self.path) from None
        except OSError as error:
            if error.errno in NO_LOCKS:
                raise _no_locks(self.path) from None
            raise
        return True

    def release(self) -> None:
        self.lock.release()


def _no_locks(path: Path) -> UsageError:
    return UsageError(f"the file system of {path.parent} has no locks (flock): use --lock lease")


class Lease:
    """A lock by files ``KEY.1``, ``KEY.2``, ...: the highest number holds it, as long as its holder lives.

    Whoever finds the holder dead creates the next number, which only one process can do. The holder removes its file
    when it is done.
    """

    def __init__(self, folder: Path, key: str, presence: Presence, pulses: Pulses) -> None:
        self.folder, self.key = folder, key
        self.presence, self.pulses = presence, pulses
        self.held: Path | None = None

    def take(self) -> bool:
        highest = max(self._numbers(), default=0)
        if highest and not self._is_dead(self.folder / f"{self.key}.{highest}"):
            return False
        path = self.folder / f"{self.key}.{highest + 1}"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            return False
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(self.presence.id)
        self.held = path
        return True

    def release(self) -> None:
        if self.held is None:
            return
        for number in self._numbers():  # remove those of dead drivers first: ours must go last
            path = self.folder / f"{self.key}.{number}"
            if path != self.held:
                path.unlink(missing_ok=True)
        self.held.unlink(missing_ok=True)
        self.held = None

    def _numbers(self) -> list[int]:
        start = f"{self.key}."
        ends = [name.removeprefix(start) for name in os.listdir(self.folder) if name.startswith(start)]
        return sorted(int(end) for end in ends if end.isdigit())

    def _is_dead(self, path: Path) -> bool:
        try:
            holder = path.read_text(encoding="utf-8")
        except FileNotFoundError:  # released a moment ago: try again next time
            return False
        return self.pulses.is_dead(holder or path.name)


class Pulses:
    """Watches the heartbeats of other drivers. A driver without a new one for a minute is dead."""

    def __init__(self, root: Path, now: Callable[[], float] = time.monotonic) -> None:
        self.root, self.now = root, now
        self.seen: dict[str, tuple[int, float]] = {}

    def is_dead(self, holder: str) -> bool:
        driver = read_driver(self.root, holder)
        beat = driver.beat if driver is not None else 0
        if driver is not None and (driver.ended or driver.host == socket.gethostname()):
            return not driver.is_alive()  # nothing to wait for
        if holder not in self.seen or self.seen[holder][0] != beat:
            self.seen[holder] = (beat, self.now())
        return self.now() - self.seen[holder][1] > DEAD_AFTER
