"""What runs on a node: an actor that keeps one warm worker and passes messages on."""

from __future__ import annotations

import queue
import threading
import time
from pathlib import Path
from typing import Any

from tabbench import WorkerProcess, worker_command, worker_environment

Message = dict[str, Any]
CHECK_EVERY = 0.1


class Slot:
    """A place for one job at a time. Its worker dies with it: the worker's standard input ends."""

    def __init__(self, threads: int, log: str) -> None:
        self.news: queue.Queue[Message] = queue.Queue()
        path = Path(log)
        self.process = WorkerProcess(worker_command(path), worker_environment(threads), path, self.news.put)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.process.watch()
            time.sleep(CHECK_EVERY)

    def listen(self, seconds: float) -> list[Message]:
        """Return the worker's messages since the last call. Waits up to ``seconds`` for one."""
        messages: list[Message] = []
        try:
            messages.append(self.news.get(timeout=seconds))
            while True:
                messages.append(self.news.get_nowait())
        except queue.Empty:
            return messages

    def send(self, message: Message) -> None:
        self.process.pass_on(message)
