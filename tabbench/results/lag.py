"""Patience with shared file systems: what one machine writes, another may see only seconds later."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

FIRST_LOOK = 0.05
LONGEST_PAUSE = 2.0


def pauses(seconds: float) -> Iterator[float]:
    """Pauses between checks, each longer than the last, ``seconds`` in total."""
    pause, until = FIRST_LOOK, time.monotonic() + seconds
    while time.monotonic() < until:
        yield min(pause, max(0.0, until - time.monotonic()))
        pause = min(2 * pause, LONGEST_PAUSE)


def appears(is_there: Callable[[], bool], path: Path, seconds: float) -> bool:
    """Whether a condition on ``path`` holds now or within ``seconds``."""
    if look(is_there, path):
        return True
    for pause in pauses(seconds):
        time.sleep(pause)
        if look(is_there, path):
            return True
    return False


def look(is_there: Callable[[], bool], path: Path) -> bool:
    """Whether a condition on ``path`` holds. Lists folders first, which makes a network file system ask its server."""
    for folder in (path.parent, path):
        with contextlib.suppress(OSError):
            os.listdir(folder)
    return is_there()
