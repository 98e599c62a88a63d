"""The executor contract: the examples of the docs run, settings arrive, odd events do no harm."""

import os
import re
import socket
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest
from harness import Bench, InProcess, tabbench, written_records

from tabbench import Event, Job, Limits, Outcome, Site, run_job
from tabbench.contracts import Executor
from tabbench.errors import UsageError
from tabbench.registry import make_registry
from tabbench.results.locks import LockKind
from tabbench.running.executors import make_config

PAGE = Path(__file__).parent.parent / "docs" / "executors.md"


def example(name: str, folder: Path) -> Path:
    """A program of the page, as a file."""
    text = next(text for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S) if f"# {name}" in text)
    path = folder / name
    path.write_text(text)
    return path


def test_the_pool_of_the_page_starts_its_workers_as_it_says(tmp_path: Path) -> None:
    registry = make_registry([example("gentle.py", tmp_path)])
    entry = registry.find("executor", "gentle")
    executor = registry.load(entry)(Site(tmp_path, tmp_path, slots=2), make_config(registry, entry, {"niceness": 7}))
    try:
        executor.expect({"fit": 1})
        (worker,) = executor.workers
        for _ in range(600):
            executor.wait(0.1)
            if worker.about:
                break
        process = psutil.Process(worker.about["hello"])
        assert process.nice() == min(19, os.nice(0) + 7)
    finally:
        executor.close()
    assert not process.is_running()


def test_the_executor_of_the_page_makes_the_same_records(bench: Bench, tmp_path: Path) -> None:
    other = Bench(tmp_path / "other", plugins=[example("inprocess.py", tmp_path)])
    assert other.run(executor="inprocess").done == 2
    bench.run(executor=InProcess)
    assert other.stable_records() == bench.stable_records()


def test_a_record_says_where_its_job_ran(bench: Bench) -> None:
    bench.run(ssl=["none"])
    (record,) = bench.records()
    place = record["environment"]["place"]
    assert place["executor"] == "local"
    assert place["hostname"]
    assert place["cpu"]


def test_settings_of_an_executor_are_checked(tmp_path: Path) -> None:
    registry = make_registry([example("gentle.py", tmp_path)])
    entry = registry.find("executor", "gentle")
    with pytest.raises(UsageError, match=r"Unknown setting 'gentle.nicenes'. Did you mean: niceness\?"):
        make_config(registry, entry, {"nicenes": 3})


def test_settings_of_an_executor_that_is_not_used_are_refused(tmp_path: Path) -> None:
    plugin = example("gentle.py", tmp_path)
    options = ("--ssl", "none", "--model", "linear", "--plugin", plugin, "--set", "gentle.niceness=3")
    done = tabbench("run", *options, cwd=tmp_path)
    told = "tabbench: --set gentle: this run uses --executor local; add --executor gentle, or leave it out\n"
    assert (done.returncode, done.stderr) == (2, told)


class Odd(Executor):
    """Does no work, but reports ends of jobs: of unknown ones, twice, and late."""

    made: ClassVar[list["Odd"]] = []

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.made.append(self)
        self.jobs: list[Job] = []
        self.expected: list[dict[str, int]] = []

    @property
    def slots(self) -> int:
        return 1

    def expect(self, ready: Any) -> None:
        self.expected.append(dict(ready))

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def wait(self, seconds: float) -> list[Event]:
        failed = Outcome("failed", error="odd")
        first, last = self.jobs[0], self.jobs[-1]
        return [
            Event("nobody asked for this", outcome=failed),
            Event(last.key, state="queued"),
            Event(last.key, outcome=failed),
            Event(last.key, outcome=failed),
            Event(last.key, 1, 2, {"validation": 0.5}),
            Event(first.key, outcome=failed),
        ]

    def close(self) -> None:
        self.jobs.clear()


def test_unknown_late_and_duplicate_events_are_ignored(bench: Bench) -> None:
    summary = bench.run(executor=Odd, ssl=["none"], seeds=3)
    assert len(summary.failures) == 3
    assert Odd.made[-1].expected == [{"fit": 2}, {"fit": 1}, {}], "what is ready and only wants for room"


class Evicting(Executor):
    """Lets each job get ``epochs`` further than before, then takes its place away."""

    epochs: ClassVar[int] = 2
    places: ClassVar[int] = 0

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.jobs: list[Job] = []
        self.reached: dict[str, int] = {}

    @property
    def slots(self) -> int:
        return 1

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def wait(self, seconds: float) -> list[Event]:
        if not self.jobs:
            return []
        job = self.jobs.pop()
        type(self).places += 1
        reached = self.reached[job.key] = self.reached.get(job.key, 0) + self.epochs
        outcome = run_job(job, self.site.limits) if reached >= 10 else Outcome("lost", error="its place was needed")
        return [Event(job.key, reached, 10, {"validation": 0.5}), Event(job.key, outcome=outcome)]

    def close(self) -> None:
        self.jobs.clear()


class Stuck(Evicting):
    """Takes the place away before anything is done."""

    epochs = 0
    places = 0


def test_a_job_that_gets_further_each_time_is_never_given_up(bench: Bench) -> None:
    Evicting.places = 0
    summary = bench.run(executor=Evicting, ssl=["none"], retries=1)
    assert (summary.done, Evicting.places) == (1, 5)
    (record,) = bench.store.records()
    assert record.environment is not None
    assert record.environment.retries == 4, "each start is counted"


def test_a_job_that_gets_nowhere_is_given_up(bench: Bench) -> None:
    Stuck.places = 0
    summary = bench.run(executor=Stuck, ssl=["none"], retries=1)
    assert (summary.done, Stuck.places) == (0, 2)
    assert summary.failures[0][1].error == "its place was needed"


class Narrow(Odd):
    """Has many slots and room for one job."""

    locked: ClassVar[list[int]] = []

    @property
    def slots(self) -> int:
        return 100

    def room(self, kind: str) -> int:
        return 0 if self.jobs else 1

    def wait(self, seconds: float) -> list[Event]:
        self.locked.append(len(list((self.site.results / "leases").iterdir())))
        job = self.jobs.pop()
        return [Event(job.key, outcome=Outcome("failed", error="odd"))]


def test_locks_are_taken_for_jobs_that_really_start(bench: Bench) -> None:
    bench.store.locks = "lease"
    bench.run(executor=Narrow, ssl=["none"], seeds=3)
    assert Narrow.locked == [1, 1, 1]


def test_a_job_reads_the_cache_and_never_the_network(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (step,) = bench.plan(ssl=["none"]).records
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("TABBENCH_CACHE", os.environ.get("TABBENCH_CACHE", ""))  # run_job sets it; put it back
    monkeypatch.setattr(socket.socket, "connect", lambda *arguments: pytest.fail("it asks the network"))
    outcome = run_job(step.to_job(store=str(tmp_path), cache=str(empty)), Limits())
    assert outcome.status == "failed"
    assert outcome.error.startswith("wine is not cached (")


class Impatient(InProcess):
    """Leaves as if by Ctrl-C when it has nothing to do: what is left is in the hands of another driver."""

    def wait(self, seconds: float) -> list[Event]:
        if not self.events:
            raise KeyboardInterrupt
        return super().wait(seconds)


class Interrupted(InProcess):
    """While it has its first job, another driver comes to the same folder."""

    other: ClassVar[Bench]
    found: ClassVar[list[int]] = []

    def wait(self, seconds: float) -> list[Event]:
        if not self.found:
            summary = self.other.run(executor=Impatient, ssl=["none"], seeds=3)
            self.found.append(summary.done)
        return super().wait(seconds)


@pytest.mark.parametrize("kind", ["flock", "lease"])
def test_two_drivers_do_nothing_twice(bench: Bench, kind: LockKind) -> None:
    Interrupted.other = Bench(bench.store.root)
    Interrupted.found.clear()
    bench.store.locks = Interrupted.other.store.locks = kind
    summary = bench.run(executor=Interrupted, ssl=["none"], seeds=3)
    assert Interrupted.found == [2], "the other leaves alone what the first one has"
    assert (summary.done, summary.elsewhere) == (1, 2)
    assert len(written_records(bench.store.root)) == 3
    assert not list(bench.store.root.glob("leases/*"))
