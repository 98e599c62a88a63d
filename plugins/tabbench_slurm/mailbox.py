"""Messages between a driver and its workers as files in the shared folder, without ports or locks.

    FOLDER/in/WORKER/NUMBER.jsonl     for a worker
    FOLDER/out/WORKER.NUMBER.jsonl    from the workers: one folder, so that the driver lists only one
    FOLDER/beat                       changes as long as the driver lives

Every file is written under another name and renamed, so nobody reads half of it. Whoever reads a file removes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
from pathlib import Path
from typing import Any

Message = dict[str, Any]
BEAT_EVERY = 5.0
"""Seconds between a driver's heartbeats."""
BEAT_LOST = 40.0
"""Seconds without one after which a worker considers its driver dead."""


def put(path: Path, text: str) -> None:
    """Write a file in one step."""
    draft = path.parent / f".{secrets.token_hex(8)}"
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)


class Outbox:
    """Where one side writes; ``prefix`` is the start of each name."""

    def __init__(self, folder: Path, prefix: str = "") -> None:
        self.folder, self.prefix, self.number = folder, prefix, 0

    def send(self, messages: list[Message]) -> None:
        """Write several messages into one file, in order."""
        self.number += 1
        text = "".join(json.dumps(message) + "\n" for message in messages)
        put(self.folder / f"{self.prefix}{self.number:08d}.jsonl", text)


def receive(folder: Path) -> list[tuple[str, Message]]:
    """Read and remove the messages that have come in, oldest first, each with its sender."""
    found = []
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".jsonl") and not name.startswith("."))
    except OSError:
        return []
    for name in names:
        path = folder / name
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError:  # listed, but not visible yet: try again next time
            continue
        with contextlib.suppress(OSError):
            path.unlink()
        sender = name.removesuffix(".jsonl").rpartition(".")[0]
        found += [(sender, json.loads(line)) for line in lines]
    return found


class Heart:
    """Writes heartbeats from a separate thread, so that a busy driver does not look dead."""

    def __init__(self, path: Path) -> None:
        self.path, self.count = path, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.beat()
        self._thread.start()

    def beat(self) -> None:
        self.count += 1
        with contextlib.suppress(OSError):  # a full disk must not end a run
            put(self.path, str(self.count))

    def _run(self) -> None:
        while not self._stop.wait(BEAT_EVERY):
            self.beat()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(5)


class Pulse:
    """Watches another process's heartbeat. Only changes count, so two machines' clocks need not agree."""

    def __init__(self, path: Path, now: float) -> None:
        self.path, self.seen, self.changed = path, "", now

    def is_lost(self, now: float) -> bool:
        try:
            seen = self.path.read_text(encoding="utf-8")
        except OSError:
            seen = self.seen
        if seen != self.seen:
            self.seen, self.changed = seen, now
        return now - self.changed > BEAT_LOST
