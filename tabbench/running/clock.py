"""Estimate the time left in a run from what it has done so far."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tabbench.contracts.job import Event
from tabbench.experiment.plan import Step

Kin = tuple[str, ...]
ENOUGH = 0.02
"""Share of a step, against steps like it, from which its own pace says more than theirs."""


@dataclass
class Done:
    """Sums over steps that have ended: a long run asks for their means at every report of every job."""

    n: int = 0
    seconds: float = 0.0
    share: float = 0.0
    """How much of what they announced they had done by then: a training that stops early announces more epochs."""

    def add(self, seconds: float, share: float) -> None:
        self.n += 1
        self.seconds += seconds
        self.share += share


class Clock:
    """Estimates the time left: of running steps by their pace, of the others by steps like them that are done."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.slots = 1
        self.todo: dict[str, Step] = {}
        self.idle: Counter[Kin] = Counter()
        """Steps that have not begun, by what they have in common with others: there are few kinds of them."""
        self.begun: dict[str, float] = {}
        self.share: dict[str, float] = {}
        self.done: dict[Kin, Done] = {}

    def begin(self, todo: list[Step], slots: int) -> None:
        self.todo = {step.key: step for step in todo}
        self.idle = Counter(kinship(step)[0] for step in todo)
        self.slots = slots

    def started(self, step: Step) -> None:
        if step.key in self.todo and step.key not in self.begun:
            self.idle[kinship(step)[0]] -= 1
        self.begun[step.key] = self.now()

    def progress(self, step: Step, event: Event) -> None:
        self.share[step.key] = event.step / event.total if event.total else 0.0

    def finished(self, step: Step) -> None:
        share = self.share.pop(step.key, 1.0)
        begun = self.begun.pop(step.key, None)
        if self.todo.pop(step.key, None) is not None and begun is None:
            self.idle[kinship(step)[0]] -= 1
        if begun is not None:
            for kin in kinship(step):
                self.done.setdefault(kin, Done()).add(self.now() - begun, share)

    def left(self) -> float | None:
        """Seconds, or None while nothing is known."""
        if not self.done and not any(self.share.values()):
            return None
        begun = sum(self._left(self.todo[key]) for key in self.begun if key in self.todo)
        idle = sum(count * self._usual(levels(kin))[1] for kin, count in self.idle.items() if count)
        return (begun + idle) / self.slots

    def _usual(self, kin: list[Kin]) -> tuple[float, float]:
        """What steps like this one had done of what they announced, and in how many seconds."""
        like = next((self.done[level] for level in kin if level in self.done), None)
        return (like.share / like.n, like.seconds / like.n) if like else (1.0, 0.0)

    def _left(self, step: Step) -> float:
        """Seconds that a running step still needs."""
        running = self.now() - self.begun[step.key]
        end, expected = self._usual(kinship(step))
        share = self.share.get(step.key, 0.0)
        if share > ENOUGH * end:
            expected = running * end / share
        return max(expected - running, 0.0)


def kinship(step: Step) -> list[Kin]:
    """What a step has in common with others, closest first: its plugins on its data, its plugins, its kind, nothing."""
    parts = (getattr(step.payload, part, None) for part in ("method", "joint", "model"))
    plugins = (step.kind, *(part.name if part else "" for part in parts))
    return levels((*plugins, step.payload.manifest.name))


def levels(closest: Kin) -> list[Kin]:
    """The closest kinship and the wider ones."""
    return [closest, closest[:-1], closest[:1], ()]
