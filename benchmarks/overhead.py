"""How much of a run's time is the harness's own: 20 jobs of a few seconds each, against the sum of their work.

    python benchmarks/overhead.py [--jobs 2] [--seconds 3]

Each job sleeps, so that the figure does not depend on how busy the machine is. The start of worker processes (the
import of torch) is stated apart.
"""

import argparse
import tempfile
import textwrap
import time
from pathlib import Path

from tabbench.contracts.job import Event, Outcome
from tabbench.data.sources import resolve_data
from tabbench.experiment.plan import Step, make_plan
from tabbench.experiment.spec import make_spec
from tabbench.registry import make_registry
from tabbench.results.store import Store
from tabbench.running.driver import Summary, run_plan
from tabbench.running.launch import make_launcher

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

    def begin(self, todo: list[Step], done: int, slots: int) -> None:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        summary, wall, start = run(options.jobs, options.seconds, Path(folder))
    ideal = 20 * options.seconds / options.jobs
    print(f"{summary.done} jobs of {options.seconds:g} s, {options.jobs} at a time")
    print(f"start of the workers: {start:.2f} s")
    print(f"run after that: {wall:.2f} s, of which work: {ideal:.2f} s, overhead {100 * (wall / ideal - 1):.1f} %")


if __name__ == "__main__":
    main()
