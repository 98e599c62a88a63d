"""What a driver costs at scale: a plan of 100,000 jobs on 1,000 simulated slots, 1 % of the jobs lost on the way.

    python benchmarks/scale.py [--jobs 100000] [--slots 1000] [--lost 0.01] [--out FILE]

The executor is a stand-in: jobs take random times on a simulated clock, and nothing is computed. Everything else is
real: the plan, the driver, its locks, its records on disk with their fsync, its signs of life. Stated are the driver's
CPU time per job, its memory, the time to plan, and the time that the same command needs when everything is done.
"""

import argparse
import heapq
import json
import platform
import random
import resource
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from tabbench.contracts import Event, Executor, Job, Outcome
from tabbench.data.gather import find_data
from tabbench.experiment.graph import Plan, Step
from tabbench.experiment.plan import make_plan
from tabbench.experiment.spec import make_spec
from tabbench.registry import make_registry
from tabbench.results.store import Store
from tabbench.running.clock import Clock
from tabbench.running.driver import run_plan
from tabbench.running.jobs import run_job
from tabbench.running.launch import make_launcher

DATA = ("wine", "breast_cancer", "digits", "diabetes")
SSL = ("tjepa", "vime", "subtab", "binrecon")
MODELS = ("linear", "mlp", "resnet", "xgboost")
SPLITS = 10


class Simulation(Executor):
    """Slots on a simulated clock. A job takes a random time, and may be lost instead of ending."""

    n_slots: ClassVar[int] = 1000
    lost: ClassVar[float] = 0.01
    results: ClassVar[dict[str, dict[str, Any]]] = {}
    """By kind of job."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.random = random.Random(0)
        self.now = 0.0
        self.running: list[tuple[float, int, Job]] = []
        self.submitted = self.n_lost = 0
        self.most = 0

    @property
    def slots(self) -> int:
        return self.n_slots

    def expect(self, ready: Mapping[str, int]) -> None:
        pass

    def submit(self, job: Job) -> None:
        self.submitted += 1
        heapq.heappush(self.running, (self.now + self.random.expovariate(1 / 300), self.submitted, job))
        self.most = max(self.most, len(self.running))

    def wait(self, seconds: float) -> list[Event]:
        """All that ends within the next second of the simulated clock, or else the next that ends."""
        if not self.running:
            return []
        self.now = max(self.now, self.running[0][0]) + seconds
        events = []
        while self.running and self.running[0][0] <= self.now:
            job = heapq.heappop(self.running)[2]
            if self.random.random() < self.lost:
                self.n_lost += 1
                events.append(Event(job.key, outcome=Outcome("lost", error="its node is gone"), node="n1"))
                continue
            if job.kind in ("pretrain", "encode"):
                with Store(self.site.results).write_artefact(job.kind, job.key):
                    pass
            place = {"hostname": "n1", "executor": "simulation", "cpu": "none"}
            outcome = Outcome("ok", self.results[job.kind], seconds=300.0, place=place)
            events.append(Event(job.key, 1, 1, {"validation": 0.5}, node="n1"))
            events.append(Event(job.key, outcome=outcome, node="n1"))
        return events

    def close(self) -> None:
        self.running.clear()


class Silent:
    """An observer."""

    def begin(self, todo: list[Step], done: int, slots: int, clock: Clock) -> None: ...
    def started(self, step: Step) -> None: ...
    def progress(self, step: Step, event: Event) -> None: ...
    def finished(self, step: Step, outcome: Outcome) -> None: ...
    def retried(self, step: Step, outcome: Outcome) -> None: ...
    def waiting(self, why: str) -> None: ...
    def left_out(self, step: Step, why: str) -> None: ...
    def end(self) -> None: ...


def make(n_jobs: int) -> tuple[Plan, float, float]:
    """A plan of about so many jobs, and the seconds and the CPU seconds it took to make."""
    registry = make_registry()
    shared = len(DATA) * SPLITS * 2 * len(SSL)
    per_seed = len(DATA) * SPLITS * (len(SSL) + 1) * len(MODELS)
    seeds = max(1, round((n_jobs - shared) / per_seed))
    given = {"ssl": list(SSL), "model": list(MODELS), "data": list(DATA), "controls": ["none"], "preset": "quick"}
    spec = make_spec({**given, "splits": SPLITS, "seeds": seeds})
    manifests = find_data(spec.data, registry, offline=True)
    wall, cpu = time.perf_counter(), time.process_time()
    plan = make_plan(spec, registry, manifests)
    return plan, time.perf_counter() - wall, time.process_time() - cpu


def one_result(plan: Plan, folder: Path) -> dict[str, Any]:
    """The result of a real fit, to be given for every other."""
    store = Store(folder / "one")
    step = next(step for step in plan.records if step.planned is not None and step.planned.ssl == "none")
    from tabbench.contracts import Limits
    from tabbench.data.cache import cache_dir

    outcome = run_job(step.to_job(store=str(store.root), cache=str(cache_dir())), Limits())
    assert outcome.status == "ok", outcome.error
    return outcome.result


def peak_memory() -> float:
    """GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(n_jobs: int, folder: Path) -> dict[str, Any]:
    plan, planning, planning_cpu = make(n_jobs)
    result = one_result(plan, folder)
    Simulation.results = {"fit": result, "pretrain": {"seconds": 1.0, "value": 0.5}, "encode": {"seconds": 1.0}}
    launcher = replace(make_launcher(make_registry(), jobs=1), start=Simulation)
    before = peak_memory()
    wall, cpu = time.perf_counter(), time.process_time()
    summary = run_plan(plan, Store(folder / "results"), launcher, Silent())
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    resumed, resumed_cpu = time.perf_counter(), time.process_time()
    again = run_plan(plan, Store(folder / "results"), launcher, Silent())
    resumed, resumed_cpu = time.perf_counter() - resumed, time.process_time() - resumed_cpu
    n = len(plan.steps)
    return {
        "jobs": n,
        "records": summary.done,
        "failed": len(summary.failures),
        "slots": Simulation.n_slots,
        "lost": Simulation.lost,
        "plan_seconds": round(planning, 2),
        "plan_cpu_seconds": round(planning_cpu, 2),
        "driver_cpu_ms_per_job": round(1000 * cpu / n, 3),
        "driver_wall_seconds": round(wall, 1),
        "memory_gb_before": round(before, 2),
        "memory_gb": round(peak_memory(), 2),
        "resume_seconds": round(resumed, 2),
        "resume_cpu_seconds": round(resumed_cpu, 2),
        "resume_finds_done": again.done_before,
        "python": platform.python_version(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--slots", type=int, default=1000)
    parser.add_argument("--lost", type=float, default=0.01)
    parser.add_argument("--out", type=Path, help="write the figures there too, as JSON")
    options = parser.parse_args()
    Simulation.n_slots, Simulation.lost = options.slots, options.lost
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(options.jobs, Path(folder))
    text = json.dumps(figures, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
