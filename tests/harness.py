"""What tests of the harness share: the toy plugins, and ways to run them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tabbench.contracts import Limits
from tabbench.data.cache import cache_dir
from tabbench.data.references import resolve_data
from tabbench.execution import Execution, Summary
from tabbench.job import Event, Outcome
from tabbench.plan import Plan, Step, make_plan
from tabbench.registry import make_registry
from tabbench.spec import make_spec
from tabbench.store import Store

TOYS = Path(__file__).parent / "toys" / "toy_plugin.py"
VOLATILE = ("time", "seconds", "environment")
"""What two equal runs may differ in."""


def tabbench(*arguments: str | Path, cwd: Path | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    command = [sys.executable, "-P", "-m", "tabbench", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd, check=False, **options)


class Watcher:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: dict[str, Outcome] = {}
        self.events: list[Event] = []

    def begin(self, todo: list[Step], done: int, slots: int) -> None:
        self.todo = todo

    def started(self, step: Step) -> None:
        self.begun.append(step.job.label)

    def progress(self, step: Step, event: Event) -> None:
        self.events.append(event)

    def finished(self, step: Step, outcome: Outcome) -> None:
        self.ended[step.job.label] = outcome

    def end(self) -> None:
        pass


class Bench:
    """Runs experiments with the toy plugins in one results folder."""

    def __init__(self, results: Path, slots: int = 1) -> None:
        self.store = Store(results)
        self.registry = make_registry([TOYS])
        self.slots = slots
        self.watcher = Watcher()

    def plan(self, **entries: Any) -> Plan:
        given = {"ssl": ["projection"], "model": ["nearest"], "data": ["wine"], "preset": "quick", **entries}
        spec = make_spec(given)
        manifests = [m for name in spec.data for m in resolve_data(name, self.registry, offline=True)]
        return make_plan(spec, self.registry, manifests)

    def run(self, *, fail_fast: bool = False, budget: float | None = None, **entries: Any) -> Summary:
        limits = Limits(1, "cpu", entries.pop("timeout", None), entries.pop("memory", None))
        executor = self.registry.load(self.registry.find("executor", "local"))
        plan = self.plan(**entries)
        self.watcher = Watcher()
        execution = Execution(
            plan,
            self.registry,
            self.store,
            self.watcher,
            cache=str(cache_dir().absolute()),
            fail_fast=fail_fast,
            budget=budget,
        )
        return execution.run(lambda: executor(self.slots, limits, self.store.root / "logs"))

    def stable_records(self) -> dict[str, Any]:
        return stable(self.store.records())


def stable(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Records by key without what two equal runs may differ in."""
    found: dict[str, Any] = {}
    for record in records:
        assert record["key"] not in found, "a record is there twice"
        found[record["key"]] = {name: value for name, value in record.items() if name not in VOLATILE}
    return found


def written_records(results: Path) -> list[dict[str, Any]]:
    """Every line that any writer has written, as it is on disk."""
    files = sorted((results / "records").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
