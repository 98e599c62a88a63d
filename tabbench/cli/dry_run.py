"""``tabbench run --dry-run``: what a run would do, share and reuse, and how long the rest may take."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tabbench.experiment.graph import Plan, Step
    from tabbench.experiment.spec import Spec
    from tabbench.registry import Registry
    from tabbench.results.store import Store
    from tabbench.running.launch import Launcher

KINDS = ("tune", "pretrain", "encode", "fit")


def print_plan(
    spec: Spec,
    registry: Registry,
    store: Store,
    launcher: Launcher,
    *,
    offline: bool = False,
    calibrate: bool = False,
) -> None:
    """Print the plan and what the executor would do.

    Datasets that are not cached are planned from their expected shape.
    """
    from tabbench.data.gather import expect_data
    from tabbench.experiment.plan import make_plan
    from tabbench.running.measurements import CALIBRATION_SECONDS, Calibration
    from tabbench.running.resources import jobs_at_a_time
    from tabbench.running.timings import Timings
    from tabbench.running.todo import what_to_do

    manifests, absent = expect_data(spec.data, registry, reading=spec.reading, rule=spec.rule, weighting=spec.weighting)
    plan = make_plan(spec, registry, manifests)
    todo = what_to_do(plan, store)
    trials = f", {spec.ssl_trials} + {spec.trials} tuning trials (SSL + model)" if spec.ssl_trials + spec.trials else ""
    splits = sorted({spec.rule.count(spec.splits, manifest.n_folds) for manifest in manifests})
    numbers = f"{splits[0]}-{splits[-1]}" if len(splits) > 1 else str(splits[0])
    print(f"preset {spec.preset}, {numbers} split(s), {spec.seeds} seed(s){trials}")
    print(f"protocol {', '.join(spec.protocol)}; labels {', '.join(spec.labels)}")
    print(f"datasets: {', '.join(manifest.name for manifest in manifests)}")
    print(f"{'step':<10} {'planned':>8} {'stored':>8} {'to run':>8}  shared")
    for kind in KINDS:
        steps = [step for step in plan.steps.values() if step.kind == kind]
        if steps:
            left = sum(step.key in todo for step in steps)
            print(f"{kind:<10} {len(steps):>8} {len(steps) - left:>8} {left:>8}  {_shared(plan, kind, steps)}")
    for skipped in plan.skipped:
        print(f"skipped: {skipped}")
    jobs = sum(step.study.n_trials if step.study else 1 for step in todo.values())
    print(f"{jobs} job(s) to run, {len(plan.records)} record(s) in the end")
    timings = Timings(store, spec.preset)
    if calibrate:
        timings = calibration = Calibration(plan, todo.values())
        trainings = f"a few epochs of {len(calibration.trainings)} training(s)"
        print(f"timing {trainings} for at most {CALIBRATION_SECONDS:.0f} s", file=sys.stderr)
        calibration.measure(launcher, store)
    print(timings.describe(todo.values(), launcher.jobs or jobs_at_a_time(spec.threads)))
    described = launcher.describe(store)
    if described:
        print(described)
    if absent:
        todo_first = "and --offline forbids fetching them" if offline else "to be fetched first"
        print(f"not in the cache yet, {todo_first}: {', '.join(absent)}")


def _shared(plan: Plan, kind: str, steps: list[Step]) -> str:
    if kind == "fit":
        return "each makes one record"
    keys = {step.key for step in steps}
    users = sum(len(keys.intersection(other.needs)) for other in plan.steps.values())
    return f"each serves {users / len(steps):.3g} step(s)"
