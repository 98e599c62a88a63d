"""What tests of the harness share: the toy plugins, and ways to run them."""

import contextlib
import io
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from toys.toy_plugin import InProcess as InProcess

from tabbench import Context, DeadlineReached
from tabbench.cli.app import main
from tabbench.contracts import Executor, Job
from tabbench.contracts.job import Event, Outcome
from tabbench.data.gather import find_data
from tabbench.experiment.graph import Plan, Step
from tabbench.experiment.plan import check_spec, make_plan
from tabbench.experiment.spec import make_spec
from tabbench.registry import make_registry
from tabbench.results.lines import read_line
from tabbench.results.record import Record
from tabbench.results.store import Store
from tabbench.running.clock import Clock, Prior
from tabbench.running.driver import run_plan
from tabbench.running.forecast import Forecast
from tabbench.running.launch import Launcher, make_launcher
from tabbench.running.observer import Summary

TOYS = Path(__file__).parent / "toys" / "toy_plugin.py"
INLINE: tuple[str | Path, ...] = ("--plugin", TOYS, "--executor", "inline")
"""Options of a run whose jobs need no process of their own: most of what takes time is starting one."""
VOLATILE = ("time", "seconds", "environment")
"""What two equal runs may differ in."""


def tabbench_process(
    *arguments: str | Path, cwd: Path | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, for what only a process shows: signals, imports, the environment."""
    command = [sys.executable, "-P", "-m", "tabbench", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd, check=False, **options)


def tabbench(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command line in this process: the same words and exit code, without a second of imports."""
    words = [str(word) for word in arguments]
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["tabbench", *words]),
        mock.patch.object(sys, "excepthook", sys.excepthook),
        warnings.catch_warnings(),
        preserved_signals(),
    ):
        warnings.resetwarnings()  # as in a process: a warning is a line, not an error
        warnings.simplefilter("default")
        code: Any = None
        try:
            main()
        except SystemExit as left:
            code = left.code
    return subprocess.CompletedProcess(words, 0 if code is None else int(code), out.getvalue(), err.getvalue())


@contextlib.contextmanager
def preserved_signals() -> Iterator[None]:
    """Whatever a command does to the signals of the process is undone."""
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {name: signal.getsignal(name) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


@dataclass
class Stopping(Context):
    """Ends the training, as a deadline would, when the time is looked at for the ``looks``-th time."""

    looks: int = 0

    def check_deadline(self, where: str) -> None:
        self.looks -= 1
        if self.looks == 0:
            raise DeadlineReached(where)


class Watcher:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: dict[str, Outcome] = {}
        self.events: list[Event] = []
        self.again: list[str] = []
        self.omitted: dict[str, str] = {}

    def begin(self, todo: list[Step], done: int, slots: int, clock: Clock) -> None:
        self.todo = todo

    def started(self, step: Step) -> None:
        self.begun.append(step.label)

    def progress(self, step: Step, event: Event) -> None:
        self.events.append(event)

    def finished(self, step: Step, outcome: Outcome) -> None:
        self.ended[step.label] = outcome

    def waiting(self, why: str) -> None:
        pass

    def left_out(self, step: Step, why: str) -> None:
        self.omitted[step.label] = why

    def retried(self, step: Step, outcome: Outcome) -> None:
        self.again.append(f"{outcome.status}: {step.label}")

    def end(self) -> None:
        pass


class Foretold(Forecast):
    """A forecast that a test makes up."""

    def __init__(self, plan: Plan, store: Store, launcher: Launcher, prior: Prior) -> None:
        super().__init__(plan, store, launcher)
        self.prior = prior

    def of_job(self, step: Step, trial: int | None = None) -> float | None:
        return self.prior(step, trial)

    def next(self) -> Job | None:
        return None

    def is_ready(self) -> bool:
        return True


class Bench:
    """Runs experiments with the toy plugins in one results folder."""

    def __init__(self, results: Path, slots: int = 1, plugins: Sequence[Path] = (), inline: bool = False) -> None:
        """``inline``: jobs run in this process, for tests of what is stored and not of workers."""
        self.store = Store(results)
        self.executor: str | type[Executor] = InProcess if inline else "local"
        self.registry = make_registry([TOYS, *plugins])
        self.slots = slots
        self.watcher = Watcher()

    def plan(self, **entries: Any) -> Plan:
        given = {"ssl": ["projection"], "model": ["nearest"], "data": ["wine"], "preset": "quick", **entries}
        spec = make_spec(given)
        check_spec(spec, self.registry)
        manifests = find_data(
            spec.data, self.registry, offline=True, reading=spec.reading, rule=spec.rule, weighting=spec.weighting
        )
        return make_plan(spec, self.registry, manifests)

    def run(
        self,
        *,
        executor: str | type[Executor] | None = None,
        fail_fast: bool = False,
        budget: float | None = None,
        retries: int = 2,
        prior: Prior | None = None,
        **entries: Any,
    ) -> Summary:
        executor = executor or self.executor
        options = {"timeout": entries.pop("timeout", None), "memory": entries.pop("memory", None)}
        name = executor if isinstance(executor, str) else "local"
        launcher = make_launcher(self.registry, name, jobs=self.slots, device="cpu", **options)
        if not isinstance(executor, str):
            launcher = replace(launcher, start=executor)
        plan = self.plan(**entries)
        forecast = None if prior is None else Foretold(plan, self.store, launcher, prior)
        self.watcher = Watcher()
        how: dict[str, Any] = {"fail_fast": fail_fast, "budget": budget, "retries": retries, "forecast": forecast}
        return run_plan(plan, self.store, launcher, self.watcher, **how)

    def records(self) -> list[dict[str, Any]]:
        """The records of the folder, as they are written."""
        return saved(self.store)

    def stable_records(self) -> dict[str, Any]:
        return stable(self.store.records())


def saved(store: Store) -> list[dict[str, Any]]:
    """The records of a store as JSON."""
    return [record.to_json() for record in store.records()]


def add(store: Store, record: dict[str, Any]) -> None:
    """Append a record that is written as JSON."""
    store.add(Record.from_json(record))


def stable(records: list[Record]) -> dict[str, Any]:
    """Records by key without what two equal runs may differ in."""
    found: dict[str, Any] = {}
    for record in records:
        assert record.key not in found, "a record is there twice"
        found[record.key] = {name: value for name, value in record.to_json().items() if name not in VOLATILE}
    return found


def written_records(results: Path) -> list[dict[str, Any]]:
    """Every line that any writer has written, as it is on disk."""
    files = sorted((results / "records").glob("*.jsonl"))
    return [read_line(line) for file in files for line in file.read_bytes().splitlines()]
