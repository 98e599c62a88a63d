"""How good estimates of time are: predicted over actual, before a run and while it runs.

    python benchmarks/estimates.py [--only NAME] [--data FILE:TARGET] [--jobs 2]

Each run is calibrated first, as by ``--dry-run --calibrate``. While it runs, its estimate of the time left is written
down whenever a job ends, from the tenth on, and compared with the time that was left indeed. Moments with less than ten
seconds, or a twentieth of the run, to go are not counted: a second is a large factor then. ``--data`` is an own table
of some thousand rows for the run ``own``. Prints a Markdown table.
"""

import argparse
import os
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tabbench.contracts import Event, Outcome
from tabbench.experiment.graph import Step
from tabbench.experiment.spec import Entries
from tabbench.registry import make_registry
from tabbench.results.store import Store
from tabbench.running.clock import Clock
from tabbench.running.forecast import Calibration
from tabbench.running.request import Conditions, plan_request, read_request, run_request
from tabbench.running.todo import what_to_do

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
    "caps of 2,000 epochs": {
        "ssl": ["vime"],
        "model": ["mlp", "resnet"],
        "data": ["digits", "diabetes", "breast_cancer"],
        "preset": "quick",
        "splits": 2,
        "set": {name: {"max_epochs": 2000, "patience": 16, "schedule": "constant"} for name in ("mlp", "resnet")},
    },
}


@dataclass
class Diary:
    """Watches a run and notes what it said of the time left."""

    jobs: int = 0
    said: list[tuple[float, float]] = field(default_factory=list)
    """When, and how many seconds were said to be left, from the tenth job on."""

    def begin(self, todo: list[Step], done: int, slots: int, clock: Clock) -> None:
        self.clock = clock
        self.begun = time.monotonic()

    def _note(self) -> None:
        ended = sum(done.n for kin, done in self.clock.done.items() if len(kin) == 1)
        left = self.clock.left()
        if ended > self.jobs:
            self.jobs = ended
            if ended >= FIRST and left is not None:
                self.said.append((time.monotonic(), left))

    def started(self, step: Step) -> None: ...

    def progress(self, step: Step, event: Event) -> None:
        self._note()

    def finished(self, step: Step, outcome: Outcome) -> None:
        self._note()

    def waiting(self, why: str) -> None: ...

    def left_out(self, step: Step, why: str) -> None: ...

    def retried(self, step: Step, outcome: Outcome) -> None: ...

    def end(self) -> None:
        self.ended = time.monotonic()

    def ratios(self) -> list[float]:
        """Predicted over actual, for every moment that counts."""
        least = max(SECONDS, SHARE * (self.ended - self.begun))
        return [left / (self.ended - when) for when, left in self.said if self.ended - when >= least]


def measure(name: str, entries: Entries, jobs: int) -> str:
    """One run: its line of the table."""
    registry = make_registry()
    terms = Conditions(jobs=jobs, offline=True)
    with tempfile.TemporaryDirectory(prefix="tabbench-estimates-") as folder:
        store = Store(Path(folder))
        spec, launcher = read_request(entries, registry, terms)
        plan = plan_request(spec, registry, store, lambda text: None, offline=True)
        todo = list(what_to_do(plan, store).values())
        clock = Clock(prior=Calibration(plan, todo).measure(launcher, store).of_job)
        clock.begin(todo, jobs)
        calibrated = clock.left() or 0.0
        diary = Diary()
        summary = run_request(plan, store, launcher, diary, terms)
    assert not summary.failures, summary.failures
    actual, ratios = diary.ended - diary.begun, diary.ratios()
    within = sum(1 / 2 <= ratio <= 2 for ratio in ratios)
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "-"
    middle = f"{statistics.median(ratios):.2f}" if ratios else "-"
    cells = [name, diary.jobs, f"{actual:.0f} s", f"{calibrated / actual:.2f}", middle, spread]
    return " | ".join(map(str, [*cells, f"{within} of {len(ratios)}"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=list(RUNS), help="one run")
    parser.add_argument("--data", metavar="FILE:TARGET", help="the table of the run 'own'")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{asked.jobs} jobs at a time, {os.cpu_count()} cores, load {load:.1f} before; predicted / actual:\n")
    print("| run | jobs | took | calibrated | from job 10: median | range | within a factor of 2 |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, entries in RUNS.items():
        if asked.only in (None, name) and (name != "own" or asked.data):
            given = {**entries, "data": [asked.data]} if name == "own" else entries
            print(f"| {measure(name, given, asked.jobs)} |", flush=True)


if __name__ == "__main__":
    main()
