"""What is planned but not done yet, and in what order to do it."""

from __future__ import annotations

from tabbench.experiment.controls import NONE
from tabbench.experiment.graph import Plan, Step
from tabbench.results.store import Store
from tabbench.running.artefacts import is_made


def is_done(step: Step, store: Store) -> bool:
    """Whether the result of a step is stored. A study is always opened again: its trials show whether it is done."""
    if step.planned is not None:
        return store.is_stored(step.key)
    return step.study is None and is_made(step, store) and not store.has_open_trials(step.tuned.values())


def what_to_do(plan: Plan, store: Store) -> dict[str, Step]:
    """Planned minus done: unfinished records, and the steps that they need and that are not stored."""
    store.refresh()
    needed: set[str] = set()
    for step in reversed(plan.steps.values()):
        asked_for = step.planned is not None or step.key in needed
        if asked_for and not is_done(step, store):
            needed.add(step.key)
            needed.update(step.needs)
    return {key: step for key, step in plan.steps.items() if key in needed and not is_done(step, store)}


def urgency(step: Step) -> tuple[int, int]:
    """Put steps that make a record first, then tuning of baselines, then the rest; small tables before large ones."""
    is_baseline = step.study is not None and not step.needs and step.study.planned.ssl == NONE
    kind = 0 if step.planned is not None else 1 if is_baseline else 2
    return kind, step.payload.manifest.rows * step.payload.manifest.n_features
