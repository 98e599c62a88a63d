"""The steps not started yet: which wait for others, which could start, and in what order.

Every question costs the same however many steps there are.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable

from tabbench.experiment.graph import Step


class Agenda:
    """Steps in order of urgency. A step is ready when everything it needs has ended."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.waiting: dict[str, Step] = {}
        """Steps that have not been started."""
        self.unsettled: set[str] = set()
        """Keys of steps that have not ended: those that wait, and those that run."""
        self._order: dict[str, int] = {}
        self._open_needs: dict[str, int] = {}
        self._dependents: dict[str, list[str]] = {}
        self._ready: dict[str, list[tuple[int, str]]] = {}
        """By kind, the most urgent first."""
        self._aside: list[Step] = []
        given = list(steps)
        self.unsettled.update(step.key for step in given)
        for step in given:
            self.add(step)

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, step: Step) -> None:
        """Add a step at the end of the agenda."""
        self.waiting[step.key] = step
        self.unsettled.add(step.key)
        self._order.setdefault(step.key, len(self._order))
        needs = [need for need in dict.fromkeys(step.needs) if need in self.unsettled]
        self._open_needs[step.key] = len(needs)
        for need in needs:
            self._dependents.setdefault(need, []).append(step.key)
        if not needs:
            self._push(step)

    def order(self, key: str) -> int:
        """Return how urgent a step is or was; the most urgent has the lowest number."""
        return self._order[key]

    def next(self, may_start: Callable[[str], bool], before: int | None = None) -> Step | None:
        """Take the most urgent ready step of a kind that may start. It is not ready again until ``bring_back``.

        Args:
            may_start: whether a kind may start.
            before: return only a step that is more urgent than this.
        """
        for heap in self._ready.values():
            while heap and heap[0][1] not in self.waiting:  # given up before it was given
                heapq.heappop(heap)
        kinds = [kind for kind, heap in self._ready.items() if heap and may_start(kind)]
        if not kinds or (before is not None and min(self._ready[kind][0][0] for kind in kinds) >= before):
            return None
        _, key = heapq.heappop(self._ready[min(kinds, key=lambda kind: self._ready[kind][0])])
        return self.waiting[key]

    def start(self, key: str) -> None:
        """Note that a step was started or given up."""
        del self.waiting[key]

    def set_aside(self, step: Step) -> None:
        """Set aside a step that ``next`` returned but that cannot start now: another driver works on it."""
        self._aside.append(step)

    def bring_back(self) -> None:
        """Make steps that were set aside ready again."""
        for step in self._aside:
            self._push(step)
        self._aside.clear()

    def settle(self, key: str) -> list[Step]:
        """Note that a step has ended, well or not; returns the steps that waited only for it."""
        self.unsettled.remove(key)
        freed = []
        for dependent in self._dependents.pop(key, ()):
            self._open_needs[dependent] -= 1
            if not self._open_needs[dependent] and dependent in self.waiting:
                freed.append(self.waiting[dependent])
        return freed

    def release(self, step: Step) -> None:
        """Let a step start that ``settle`` returned."""
        self._push(step)

    def ready(self) -> Counter[str]:
        """How many steps of each kind are ready."""
        return Counter({kind: len(heap) for kind, heap in self._ready.items() if heap})

    def clear(self) -> list[Step]:
        """Drop and return the steps that have not started."""
        left = list(self.waiting.values())
        self.waiting.clear()
        self._ready.clear()
        self._aside.clear()
        return left

    def _push(self, step: Step) -> None:
        heapq.heappush(self._ready.setdefault(step.kind, []), (self._order[step.key], step.key))
