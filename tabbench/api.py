"""The Python face: ``tabbench.run`` does what the command of that name does, and returns the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from tabbench.results.face import Results

Names = str | Sequence[str]


def run(
    ssl: Names,
    model: Names,
    data: Names | Mapping[str, tuple[pd.DataFrame, str]] = "demo",
    *,
    results: str | Path = "results",
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    plugins: Sequence[str | Path] = (),
    executor: str = "local",
    jobs: int | None = None,
    device: str = "auto",
    timeout: float | None = None,
    memory: float | None = None,
    retries: int = 2,
    budget: float | None = None,
    offline: bool = False,
    fail_fast: bool = False,
    progress: bool = True,
    **entries: Any,
) -> Results:
    """Run the cross-product of SSL methods, models and datasets; what is stored already is not run again.

    Args:
        ssl: SSL methods by name.
        model: downstream models by name.
        data: datasets by name, groups of datasets, FILE:TARGET, or tables in memory: ``{"churn": (frame, "Exited")}``.
        results: folder of records and artefacts.
        settings: of plugins: ``{"tjepa": {"epochs": 10}}``.
        plugins: Python files with unpublished plugins.
        executor: where jobs run; its settings are in ``settings``.
        jobs: jobs at a time; by default as many as there are cores for their ``threads``.
        device: auto, cpu, cuda or mps.
        timeout: seconds that one job may take.
        memory: GB that one job may use.
        retries: how often a job is started again whose worker was killed or lost.
        budget: seconds after which no job is started.
        offline: never touch the network.
        fail_fast: stop at the first failure.
        progress: show how far the run is.
        **entries: what else an experiment file can say, such as ``preset``, ``splits`` or ``trials``.

    Raises:
        TabbenchError: as the command line would say it, on one line.
    """
    from tabbench.data.gather import find_data, freeze, store_frames
    from tabbench.experiment.plan import check_spec, make_plan
    from tabbench.experiment.settings import default_preset
    from tabbench.experiment.spec import make_spec
    from tabbench.registry import make_registry
    from tabbench.results.face import Results
    from tabbench.results.store import Store
    from tabbench.running.display import make_display
    from tabbench.running.driver import run_plan
    from tabbench.running.executors import take_settings
    from tabbench.running.launch import make_launcher

    registry = make_registry(plugins)
    given = {name: dict(values) for name, values in (settings or {}).items()}
    own = take_settings(given, registry.find("executor", executor), registry)
    names = list(data) if isinstance(data, Mapping) else _names(data)
    spec = make_spec(
        {"ssl": _names(ssl), "model": _names(model), "data": names, "set": given, **entries},
        default_preset(names, registry),
    )
    limits: dict[str, Any] = {"jobs": jobs, "threads": spec.threads, "device": device}
    launcher = make_launcher(registry, executor, settings=own, timeout=timeout, memory=memory, **limits)
    check_spec(spec, registry)
    store = Store(Path(results))
    display = make_display(quiet=not progress)
    about: dict[str, Any] = {"reading": spec.reading, "rule": spec.rule}
    if isinstance(data, Mapping):
        manifests, tables = store_frames(data, **about), []
    else:
        frozen = store.frozen_tables()
        manifests = find_data(spec.data, registry, offline=offline, say=display.say, frozen=frozen, **about)
        tables = freeze(spec.data, manifests, registry)
    plan = make_plan(spec, registry, manifests)
    store.save_experiment(spec.to_json(), tables=tables)
    how: dict[str, Any] = {"fail_fast": fail_fast, "budget": budget, "retries": retries}
    summary = run_plan(plan, store, launcher, display, **how)
    display.summary(summary, Path(results))
    if summary.interrupted:
        raise KeyboardInterrupt
    failures = [f"{step.label}: {outcome.error}" for step, outcome in summary.failures]
    return Results(store, [step.key for step in plan.records], plan.names, failures)


def _names(given: Names) -> list[str]:
    """``"a, b"`` or ``["a", "b"]`` as a list of names."""
    return [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)
