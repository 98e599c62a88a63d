"""The Python API: ``tabbench.run`` does what the command does, and returns the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabbench.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from tabbench.config import Settings
    from tabbench.results.face import Results

Names = str | PathLike[str] | Sequence[str | PathLike[str]]
EXAMPLE = '{"churn": (frame, "Exited")}'
LISTS = ("controls", "labels", "protocol")
"""Entries that may be given as one name, or several separated by commas."""


def run(
    ssl: Names,
    model: Names,
    data: Names | Mapping[str, tuple[pd.DataFrame, str]] = "demo",
    *,
    results: str | Path = "results",
    settings: Mapping[str, Settings] | None = None,
    plugins: Sequence[str | Path] = (),
    executor: str = "local",
    jobs: int | None = None,
    device: str = "auto",
    timeout: float | None = None,
    memory: float | None = None,
    retries: int = 2,
    budget: float | str | None = None,
    offline: bool = False,
    fail_fast: bool = False,
    progress: bool = True,
    **entries: Any,
) -> Results:
    """Run all combinations of SSL methods, models and datasets. Stored results are not run again.

    Args:
        ssl: SSL methods by name.
        model: downstream models by name.
        data: datasets by name, groups of datasets, FILE:TARGET, or tables in memory: ``{"churn": (frame, "Exited")}``.
        results: folder with records and artefacts.
        settings: settings of plugins: ``{"tjepa": {"epochs": 10}}``.
        plugins: Python files with unpublished plugins.
        executor: where jobs run; its settings are in ``settings``.
        jobs: parallel jobs; by default the number of cores divided by ``threads``.
        device: auto, cpu, cuda or mps.
        timeout: time limit per job, in seconds.
        memory: memory limit per job, in GB.
        retries: how many times to restart a job whose worker was killed or lost.
        budget: the time that the run may take, such as ``"10m"``, or seconds. What would take longer is left out by
            name, and the next run resumes.
        offline: never touch the network.
        fail_fast: stop at the first failure.
        progress: show the run's progress.
        **entries: other entries of an experiment file, such as ``preset``, ``splits`` or ``trials``.

    Raises:
        TabbenchError: with the same one-line message as on the command line.
    """
    from tabbench.registry import make_registry
    from tabbench.results.face import Results
    from tabbench.results.store import Store
    from tabbench.running.display import make_display
    from tabbench.running.request import Conditions, parse_duration, plan_request, read_request, run_request

    if "set" in entries:
        raise UsageError('set=...: in Python it is called settings, as in settings={"tjepa": {"epochs": 10}}')
    frames = _frames(data)
    registry, store, display = make_registry(plugins), Store(Path(results)), make_display(quiet=not progress)
    terms = Conditions(executor, jobs, device, timeout, memory, retries, parse_duration(budget), fail_fast, offline)
    entries = {name: _names(name, value) if name in LISTS else value for name, value in entries.items()}
    entries |= {"ssl": _names("ssl", ssl), "model": _names("model", model), "data": _names("data", data)}
    entries |= {"set": _settings(settings or {})}
    spec, launcher = read_request(entries, registry, terms)
    plan = plan_request(spec, registry, store, display.say, offline=offline, frames=frames)
    summary = run_request(plan, store, launcher, display, terms)
    display.summary(summary, Path(results))
    if summary.interrupted:
        raise KeyboardInterrupt
    failures = [f"{step.label}: {outcome.error}" for step, outcome in summary.failures]
    return Results(store, [step.key for step in plan.records], plan.names, failures, summary.places_left_out())


def _frames(data: object) -> Mapping[str, tuple[pd.DataFrame, str]] | None:
    """The tables in memory, by name; None if ``data`` holds names."""
    if isinstance(data, str | PathLike):
        return None
    if isinstance(data, Mapping):
        for name, given in data.items():
            if not (isinstance(name, str) and name.strip()):
                raise UsageError(f"data has a table with the name {name!r}: write {EXAMPLE}")
            if not (isinstance(given, tuple | list) and len(given) == 2 and _is_frame(given[0])):
                raise UsageError(f"data[{name!r}] is not a DataFrame with the name of its target: write {EXAMPLE}")
        return data
    if not isinstance(data, Sequence) or any(not isinstance(name, str | PathLike) for name in data):
        raise UsageError(f"data is neither names nor named tables: for a DataFrame, write {EXAMPLE}")
    return None


def _is_frame(given: object) -> bool:
    import pandas as pd

    return isinstance(given, pd.DataFrame)


def _names(what: str, given: object) -> list[str]:
    """``"a, b"`` or ``["a", "b"]`` as a list of names; numbers of labels may be numbers."""
    if isinstance(given, str):
        return [name.strip() for name in given.split(",") if name.strip()]
    plain = (str, PathLike, int) if what == "labels" else (str, PathLike)
    names = [given] if isinstance(given, plain) else given
    if isinstance(names, Mapping) and what != "data":
        names = None
    if not isinstance(names, Sequence | Mapping) or any(not isinstance(name, plain) for name in names):
        raise UsageError(f"{what}={given!r}: give a name, or a list of names")
    return [str(name) for name in names]


def _settings(given: object) -> dict[str, Settings]:
    if not isinstance(given, Mapping) or any(not isinstance(values, Mapping) for values in given.values()):
        raise UsageError(f'settings={given!r}: write {{"tjepa": {{"epochs": 10}}}}')
    return {str(name): {key: _plain(value) for key, value in values.items()} for name, values in given.items()}


def _plain(value: Any) -> Any:
    """A number of numpy as Python's own; settings are kept as JSON."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "tolist"):  # numbers and arrays of numpy and torch
        return value.tolist()
    return str(value) if isinstance(value, PathLike) else value
