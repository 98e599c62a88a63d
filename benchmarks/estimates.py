"""How good estimates of time are: predicted over actual, before a run and while it runs.

    python benchmarks/estimates.py [--only NAME] [--data FILE:TARGET] [--jobs 2] [--alone] [--moments]

Each run is calibrated first, as by ``--dry-run --calibrate``. While it runs, its estimate of the time left is written
down whenever a job ends, from the tenth on, and compared with the time that was left indeed. Moments with less than ten
seconds, or a twentieth of the run, to go are not counted: a second is a large factor then. ``--data`` is an own table
of some thousand rows for the run ``own``. Prints a Markdown table.

On a machine with other work, the pace changes as that comes and goes, and no estimate can foresee it. ``--alone``
counts time as if the run were alone: the CPU seconds of its workers, divided by the number of jobs that run (each has
one thread). What was said before the run is then compared in the same time.
"""

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tabbench.contracts import Event, Outcome
from tabbench.experiment.graph import Step
from tabbench.experiment.spec import Entries
from tabbench.registry import make_registry
from tabbench.results.store import Store
from tabbench.running.clock import Clock
from tabbench.running.measurements import Calibration
from tabbench.running.request import Conditions, plan_request, read_request, run_request
from tabbench.running.todo import urgency, what_to_do

FIRST = 10
"""Jobs that have ended before an estimate must be good."""
SECONDS, SHARE = 10.0, 0.05
"""What must be left, and of which share of the run, for a moment to count."""
TWO_METHODS: Entries = {"ssl": ["tjepa", "vime"], "model": ["mlp", "xgboost"], "preset": "quick"}
RUNS: dict[str, Entries] = {
    "small tables": {**TWO_METHODS, "data": ["demo"]},
    "own": {**TWO_METHODS, "splits": 3},
    "tuned": {
        "ssl": ["vime"],
        "model": ["mlp", "xgboost"],
        "data": ["diabetes", "breast_cancer"],
        "preset": "quick",
        "trials": 8,
        "ssl_trials": 4,
        "controls": ["none", "untrained"],
    },
    "tuned, others": {
        "ssl": ["binrecon"],
        "model": ["resnet", "catboost"],
        "data": ["wine", "diabetes"],
        "preset": "quick",
        "trials": 6,
        "ssl_trials": 4,
    },
    "demo": {"ssl": ["subtab"], "model": ["resnet", "catboost"], "data": ["demo"], "preset": "quick"},
    # Made up when all constants stood, so that none is chosen by them.
    "unseen": {
        "ssl": ["tjepa", "binrecon"],
        "model": ["autoint", "xgboost"],
        "data": ["demo"],
        "preset": "quick",
        "controls": ["none", "untrained"],
    },
    "unseen, tuned": {
        "ssl": ["switchtab"],
        "model": ["dcnv2", "xgboost"],
        "data": ["wine", "breast_cancer"],
        "preset": "quick",
        "trials": 6,
        "ssl_trials": 4,
    },
    "caps of 2,000 epochs": {
        "ssl": ["vime"],
        "model": ["mlp", "resnet"],
        "data": ["digits", "diabetes", "breast_cancer"],
        "preset": "quick",
        "splits": 2,
        "set": {name: {"max_epochs": 2000, "patience": 16, "schedule": "constant"} for name in ("mlp", "resnet")},
    },
}


class Alone:
    """A clock that stands still while the workers wait for others: their CPU seconds by the number of jobs."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.begun, self.seconds = time.monotonic(), 0.0
        self.used: dict[int, float] = {}
        self.jobs = 1

    def __call__(self) -> float:
        used = {}
        for worker in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it has just ended
                times = worker.cpu_times()
                used[worker.pid] = times.user + times.system
        self.seconds += sum(now - self.used.get(pid, now) for pid, now in used.items()) / self.jobs
        self.used, self.jobs = used, max(1, len(self.clock.begun))
        return self.seconds

    @property
    def share(self) -> float:
        """Of the time since the beginning."""
        return self.seconds / (time.monotonic() - self.begun) or 1.0


@dataclass
class Diary:
    """Watches a run and notes what it said of the time left."""

    alone: bool = False
    jobs: int = 0
    share: float = 1.0
    """Of a core that a job had."""
    silent: int = 0
    """Moments without an estimate, from the tenth job on."""
    said: list[tuple[float, float]] = field(default_factory=list)
    """When, and how many seconds were said to be left, from the tenth job on."""

    def begin(self, todo: list[Step], done: int, slots: int, clock: Clock) -> None:
        self.clock = clock
        self.now: Callable[[], float] = time.monotonic
        if self.alone:
            self.now = clock.now = alone = Alone(clock)
            measured = clock.prior
            # Measurements of a few epochs are in the time of the wall.
            clock.prior = lambda step, trial=None: (
                None if (said := measured(step, trial)) is None else said * alone.share
            )
        self.begun, self.wall = self.now(), time.monotonic()

    def _note(self) -> None:
        ended = sum(done.n for kin, done in self.clock.done.items() if len(kin) == 1)
        left = self.clock.left()
        if ended > self.jobs:
            self.jobs = ended
            if ended >= FIRST and left is None:
                self.silent += 1
            elif ended >= FIRST and left is not None:
                self.said.append((self.now(), left))

    def started(self, step: Step) -> None: ...

    def progress(self, step: Step, event: Event) -> None:
        self._note()

    def finished(self, step: Step, outcome: Outcome) -> None:
        self._note()

    def waiting(self, why: str) -> None: ...

    def left_out(self, step: Step, why: str) -> None: ...

    def retried(self, step: Step, outcome: Outcome) -> None: ...

    def end(self) -> None:
        self.ended = self.now()
        self.share = (self.ended - self.begun) / (time.monotonic() - self.wall)

    def ratios(self) -> list[float]:
        """Predicted over actual, for every moment that counts."""
        least = max(SECONDS, SHARE * (self.ended - self.begun))
        return [left / (self.ended - when) for when, left in self.said if self.ended - when >= least]


def measure(name: str, entries: Entries, jobs: int, *, alone: bool, moments: bool = False) -> str:
    """One run: its line of the table, with the single moments if asked for."""
    registry = make_registry()
    terms = Conditions(jobs=jobs, offline=True)
    with tempfile.TemporaryDirectory(prefix="tabbench-estimates-") as folder:
        store = Store(Path(folder))
        spec, launcher = read_request(entries, registry, terms)
        plan = plan_request(spec, registry, store, lambda text: None, offline=True)
        todo = sorted(what_to_do(plan, store).values(), key=urgency)
        clock = Clock(prior=Calibration(plan, todo).measure(launcher, store).of_job)
        clock.begin(todo, jobs)
        calibrated = clock.left() or 0.0
        diary = Diary(alone)
        summary = run_request(plan, store, launcher, diary, terms)
    assert not summary.failures, summary.failures
    actual, ratios = diary.ended - diary.begun, diary.ratios()
    within = sum(1 / 2 <= ratio <= 2 for ratio in ratios)
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "-"
    middle = f"{statistics.median(ratios):.2f}" if ratios else "-"
    cells = [name, diary.jobs, f"{actual:.0f} s", f"{calibrated * diary.share / actual:.2f}", middle, spread]
    line = " | ".join(map(str, [*cells, f"{within} of {len(ratios)}"]))
    silent = f"no estimate at {diary.silent} of the moments from job {FIRST} on: each training was first measured"
    every = [
        f"{when - diary.begun:7.0f} s: {left:5.0f} s left, in truth {diary.ended - when:5.0f} s"
        for when, left in diary.said
    ]
    return "\n".join([f"| {line} |", *([silent, *every] if moments else ())])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=list(RUNS), help="one run")
    parser.add_argument("--data", metavar="FILE:TARGET", help="the table of the run 'own'")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--moments", action="store_true", help="print every moment")
    parser.add_argument("--alone", action="store_true", help="count time as if the run were alone on the machine")
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    counted = "time as if alone" if asked.alone else "time by the wall"
    print(
        f"{asked.jobs} jobs at a time, {os.cpu_count()} cores, load {load:.1f} before, {counted}; predicted / actual:\n"
    )
    print("| run | jobs | took | calibrated | from job 10: median | range | within a factor of 2 |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, entries in RUNS.items():
        if asked.only in (None, name) and (name != "own" or asked.data):
            given = {**entries, "data": [asked.data]} if name == "own" else entries
            print(measure(name, given, asked.jobs, alone=asked.alone, moments=asked.moments), flush=True)


if __name__ == "__main__":
    main()
