"""From a user's request to a plan, in the same steps for the command and for ``tabbench.run``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tabbench.data.gather import find_data, freeze, store_frames
from tabbench.data.sources import Progress, find_dataset
from tabbench.errors import UsageError
from tabbench.experiment.graph import Plan
from tabbench.experiment.plan import check_spec, make_plan
from tabbench.experiment.settings import default_preset
from tabbench.experiment.spec import DEFAULT_DATA, Entries, Spec, make_spec, merge_entries
from tabbench.registry import Registry
from tabbench.results.store import Store
from tabbench.running.driver import RETRIES, run_plan
from tabbench.running.executors import refuse_unused, take_settings
from tabbench.running.forecast import Forecast
from tabbench.running.launch import Launcher, make_launcher
from tabbench.running.observer import Observer, Summary

if TYPE_CHECKING:
    import pandas as pd

Frames = Mapping[str, tuple["pd.DataFrame", str]]
"""Tables in memory by name, each with its target."""
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class Conditions:
    """How a run is done. Nothing here decides a result."""

    executor: str = "local"
    jobs: int | None = None
    device: str = "auto"
    timeout: float | None = None
    memory: float | None = None
    retries: int = RETRIES
    budget: float | None = None
    fail_fast: bool = False
    offline: bool = False


def read_request(
    entries: Entries, registry: Registry, terms: Conditions, experiment: Entries | None = None
) -> tuple[Spec, Launcher]:
    """Read what to run, and where. Wrong names are reported here, before anything is downloaded.

    Args:
        entries: what the user gave; it overrides the experiment.
        registry: the available plugins.
        terms: how the run is done.
        experiment: the entries of an experiment file.
    """
    executor = registry.find("executor", terms.executor)
    refuse_unused(entries.get("set", {}), executor, registry)
    given = merge_entries(experiment or {}, entries, registry)
    own = take_settings(given["set"], executor, registry)
    for kind in ("ssl", "model"):
        if not given.get(kind):
            raise UsageError(f"--{kind} is missing. Available: {', '.join(registry.names(kind))}.")
    spec = make_spec(given, default_preset(given.get("data", [DEFAULT_DATA]), registry, terms.budget))
    launcher = make_launcher(
        registry,
        executor.name,
        settings=own,
        jobs=terms.jobs,
        threads=spec.threads,
        device=terms.device,
        timeout=terms.timeout,
        memory=terms.memory,
    )
    check_spec(spec, registry)
    return spec, launcher


def plan_request(
    spec: Spec,
    registry: Registry,
    store: Store,
    say: Progress,
    *,
    offline: bool = False,
    frames: Frames | None = None,
) -> Plan:
    """Find the data and plan the run. The plan is stored with the results. ``say`` gets lines for the user."""
    if frames is not None:
        for name in frames:
            if find_dataset(name, registry) is not None:
                raise UsageError(f"{name!r} is a dataset that tabbench knows: give your DataFrame another name")
        manifests, tables = store_frames(frames, spec.reading, spec.rule, spec.weighting), []
    else:
        manifests = find_data(
            spec.data,
            registry,
            offline=offline,
            reading=spec.reading,
            rule=spec.rule,
            weighting=spec.weighting,
            frozen=store.frozen_tables(),
            say=say,
        )
        tables = freeze(spec.data, manifests, registry)
    plan = make_plan(spec, registry, manifests)
    for skipped in plan.skipped:
        say(f"skipped: {skipped}")
    store.save_experiment(spec.to_json(), plan.skipped, tables)
    return plan


def run_request(plan: Plan, store: Store, launcher: Launcher, observer: Observer, terms: Conditions) -> Summary:
    """Run a plan on the given terms."""
    forecast = Forecast(plan, store, launcher, terms.budget)
    return run_plan(
        plan,
        store,
        launcher,
        observer,
        fail_fast=terms.fail_fast,
        budget=terms.budget,
        retries=terms.retries,
        forecast=forecast,
    )


def parse_duration(given: str | float | None) -> float | None:
    """``2h`` as 7200 seconds."""
    if given is None:
        return None
    text = str(given)
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    try:
        seconds = float(number) * UNITS[unit]
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise UsageError(f"--budget {text!r}: write a number with s, m, h or d, for example 90m")
    return seconds
