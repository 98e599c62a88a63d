"""How much of a run's time is the harness's own: 20 jobs of a few seconds each, against the sum of their work.

    python benchmarks/overhead.py [--jobs 1,2] [--seconds 3] [--count 20]

Each job sleeps, so that the figure does not depend much on how busy the machine is. The start of worker processes (the
import of torch) is stated apart. The CPU time of driver and worker per job is that of 60 jobs without sleep, less that
of 10, so that neither the start nor other people's work on the machine counts.
"""

import argparse
import resource
import tempfile
import textwrap
import time
from pathlib import Path

from tabbench.contracts.job import Event, Outcome
from tabbench.data.sources import resolve_data
from tabbench.experiment.graph import Step
from tabbench.experiment.plan import make_plan
from tabbench.experiment.spec import make_spec
from tabbench.registry import make_registry
from tabbench.results.store import Store
from tabbench.running.clock import Clock
from tabbench.running.driver import run_plan
from tabbench.running.launch import make_launcher
from tabbench.running.observer import Summary

PLUGIN = """
    import time
    import numpy as np
    from tabbench import Config, DownstreamModel, Plugin, hookimpl

    class Sleeper(DownstreamModel):
        class Config(Config):
            seconds: float = 3.0
            "How long training takes."

        def fit(self, train, validation, task, context):
            self.classes = task.n_classes
            for epoch in range(20):
                time.sleep(self.config.seconds / 20)
                context.report(epoch + 1, 20, validation=0.0)

        def predict(self, features):
            return np.eye(self.classes, dtype=np.float32)[np.arange(len(features)) % self.classes]

    @hookimpl
    def tabbench_models():
        return [Plugin("sleeper", f"{__name__}:Sleeper", summary="sleeps")]
"""


class Stopwatch:
    """When the first job started: before it, workers import torch."""

    def __init__(self) -> None:
        self.first = 0.0

    def begin(self, todo: list[Step], done: int, slots: int, clock: Clock) -> None:
        self.begun = time.perf_counter()

    def started(self, step: Step) -> None:
        pass

    def progress(self, step: Step, event: Event) -> None:
        self.first = self.first or time.perf_counter()

    def finished(self, step: Step, outcome: Outcome) -> None:
        pass

    def waiting(self, why: str) -> None:
        pass

    def retried(self, step: Step, outcome: Outcome) -> None:
        pass

    def left_out(self, step: Step, why: str) -> None:
        pass

    def end(self) -> None:
        pass


def run(jobs: int, seconds: float, folder: Path, n_jobs: int = 20) -> tuple[Summary, float, float]:
    plugin = folder / "sleeper.py"
    plugin.write_text(textwrap.dedent(PLUGIN))
    registry = make_registry([plugin])
    given = {"ssl": ["none"], "model": ["sleeper"], "data": ["wine"], "preset": "quick", "seeds": n_jobs}
    spec = make_spec({**given, "set": {"sleeper": {"seconds": seconds}}})
    plan = make_plan(spec, registry, resolve_data("wine", registry, offline=True))
    store, watch = Store(folder / "results"), Stopwatch()
    summary = run_plan(plan, store, make_launcher(registry, jobs=jobs, threads=1, device="cpu"), watch)
    end = time.perf_counter()
    # The first report comes after a twentieth of the first job.
    start = watch.first - seconds / 20
    return summary, end - start, start - watch.begun


def cpu_per_job(few: int = 10, many: int = 60) -> float:
    """CPU seconds of driver and worker for a job that does nothing."""
    spent = []
    for count in (few, many):
        before = cpu_seconds()
        with tempfile.TemporaryDirectory() as folder:
            run(1, 0.0, Path(folder), count)
        spent.append(cpu_seconds() - before)
    return (spent[1] - spent[0]) / (many - few)


def cpu_seconds() -> float:
    """Of this process and of children that have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", default="1,2", help="at a time; several are compared (default 1,2)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each job")
    parser.add_argument("--count", type=int, default=20, help="of jobs")
    options = parser.parse_args()
    walls = []
    for jobs in map(int, options.jobs.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            summary, wall, start = run(jobs, options.seconds, Path(folder), options.count)
        ideal = options.count * options.seconds / jobs
        each = 1000 * (wall - ideal) * jobs / options.count
        print(f"{summary.done} jobs of {options.seconds:g} s, {jobs} at a time")
        print(f"  start of the workers: {start:.2f} s")
        print(f"  run after that: {wall:.2f} s, of which work: {ideal:.2f} s")
        print(f"  overhead {100 * (wall / ideal - 1):.1f} %, {each:.0f} ms per job", flush=True)
        walls.append(wall)
    print(f"CPU time of driver and worker per job: {1000 * cpu_per_job():.0f} ms")
    if len(walls) > 1:
        print(f"the last is {walls[0] / walls[-1]:.2f} times as fast as the first")


if __name__ == "__main__":
    main()
