"""How often a job is restarted after its worker was killed or lost."""

from __future__ import annotations

from collections import Counter


class Retries:
    """Counts restarts by the key of a job."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """How many times in a row a job may end without getting further than before."""
        self.made: Counter[str] = Counter()
        self._in_vain: Counter[str] = Counter()
        self._reached: dict[str, int] = {}

    def allow(self, key: str, reached: int, *, lost: bool) -> bool:
        """Whether to restart a job that had ``reached`` an epoch.

        A lost job that got further than ever before is making progress, however little time it gets on each node.
        """
        moved_on = lost and reached > self._reached.get(key, 0)
        self._reached[key] = max(reached, self._reached.get(key, 0))
        if not moved_on and self._in_vain[key] >= self.limit:
            return False
        self._in_vain[key] = 0 if moved_on else self._in_vain[key] + 1
        self.made[key] += 1
        return True
