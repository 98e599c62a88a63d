"""How long a run will still take, judged by what it has done so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tabbench.job import Event
from tabbench.plan import Step

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
        self.begun: dict[str, float] = {}
        self.share: dict[str, float] = {}
        self.done: dict[tuple[str, ...], Done] = {}

    def begin(self, todo: list[Step], slots: int) -> None:
        self.todo = {step.key: step for step in todo}
        self.slots = slots

    def started(self, step: Step) -> None:
        self.begun[step.key] = self.now()

    def progress(self, step: Step, event: Event) -> None:
        self.share[step.key] = event.step / event.total if event.total else 0.0

    def finished(self, step: Step) -> None:
        self.todo.pop(step.key, None)
        share = self.share.pop(step.key, 1.0)
        begun = self.begun.pop(step.key, None)
        if begun is not None:
            for kin in kinship(step):
                self.done.setdefault(kin, Done()).add(self.now() - begun, share)

    def left(self) -> float | None:
        """Seconds, or None while nothing is known."""
        if not self.done and not any(self.share.values()):
            return None
        return sum(self._left(step) for step in self.todo.values()) / self.slots

    def _left(self, step: Step) -> float:
        like = next((self.done[kin] for kin in kinship(step) if kin in self.done), None)
        running = self.now() - self.begun[step.key] if step.key in self.begun else 0.0
        end, expected = (like.share / like.n, like.seconds / like.n) if like else (1.0, 0.0)
        share = self.share.get(step.key, 0.0)
        if share > ENOUGH * end:
            expected = running * end / share
        return max(expected - running, 0.0)


def kinship(step: Step) -> list[tuple[str, ...]]:
    """What a step has in common with others, closest first: its plugins on its data, its plugins, its kind, nothing."""
    payload = step.job.payload
    parts = (payload.get(part) for part in ("method", "joint", "model"))
    plugins = (step.job.kind, *(part["name"] if part else "" for part in parts))
    return [(*plugins, str(payload.get("manifest", {}).get("name"))), plugins, (step.job.kind,), ()]
