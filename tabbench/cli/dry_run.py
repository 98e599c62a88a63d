"""``tabbench run --dry-run``: what a run would do, what is shared, what is stored, and how long the rest may take."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tabbench.cli.display import duration
from tabbench.cli.run import check_names
from tabbench.contracts import Limits
from tabbench.data.cache import Manifest, cache_dir
from tabbench.data.references import is_file, peek_data, resolve_data
from tabbench.errors import DataError
from tabbench.execution import what_to_do
from tabbench.job import Job, content_key
from tabbench.plan import Plan, Step, make_plan
from tabbench.registry import Registry
from tabbench.resources import share_cores
from tabbench.spec import Spec
from tabbench.store import Store

KINDS = ("tune", "pretrain", "encode", "fit")
CALIBRATION_TIMEOUT = 30.0
"""Seconds after which a training that has not ended one epoch on few rows counts as unknown."""


def print_plan(spec: Spec, registry: Registry, store: Store, *, offline: bool = False, calibrate: bool = False) -> None:
    """Print the plan. Datasets that are not in the cache are planned by what is expected of them."""
    manifests, absent = find_manifests(spec, registry)
    plan = make_plan(spec, registry, manifests)
    todo = what_to_do(plan, store)
    trials = f", {spec.ssl_trials} + {spec.trials} tuning trials (SSL + model)" if spec.ssl_trials + spec.trials else ""
    print(f"preset {spec.preset}, {spec.splits} split(s), {spec.seeds} seed(s){trials}")
    print(f"datasets: {', '.join(manifest.name for manifest in manifests)}")
    print(f"{'step':<10} {'planned':>8} {'stored':>8} {'to run':>8}  shared")
    for kind in KINDS:
        steps = [step for step in plan.steps.values() if step.job.kind == kind]
        if steps:
            left = sum(step.key in todo for step in steps)
            print(f"{kind:<10} {len(steps):>8} {len(steps) - left:>8} {left:>8}  {_shared(plan, kind, steps)}")
    jobs = sum(step.study.n_trials if step.study else 1 for step in todo.values())
    print(f"{jobs} job(s) to run, {len(plan.records)} record(s) in the end")
    timings = Calibration(registry, list(todo.values())) if calibrate else Timings(store)
    print(timings.describe(todo.values()))
    if absent:
        todo_first = "and --offline forbids to fetch them" if offline else "to be fetched first"
        print(f"not in the cache yet, {todo_first}: {', '.join(absent)}")


def find_manifests(spec: Spec, registry: Registry) -> tuple[list[Manifest], list[str]]:
    """Manifests of all datasets; stand-ins for those that are not in the cache, whose names come second."""
    manifests: dict[str, Manifest] = {}
    absent = []
    for reference in spec.data:
        if is_file(reference, registry):  # it is read as a run would read it, mistakes included
            (manifest,) = resolve_data(reference, registry, offline=True, categorical=spec.categorical)
            manifests.setdefault(manifest.name, manifest)
            check_names(manifests.values(), manifest)
            continue
        for name, cached in peek_data(reference, registry):
            try:  # some datasets need no network
                found = [cached] if cached is not None else resolve_data(name, registry, offline=True)
            except DataError:
                absent.append(name)
                found = [expected_manifest(name, registry)]
            manifests.setdefault(name, found[0])
    return list(manifests.values()), absent


def expected_manifest(name: str, registry: Registry) -> Manifest:
    """A stand-in for a dataset that is not in the cache, with the counts its plugin expects, as far as it says."""
    arguments = next((entry.plugin.arguments for entry in registry.entries("data") if entry.name == name), {})
    classes = int(arguments.get("classes", 0))
    return Manifest(
        name=name,
        key=f"not fetched: {name}",
        sha256="",
        path="",
        rows=int(arguments.get("rows", 0)),
        n_numeric=int(arguments.get("numeric", 0)),
        n_categorical=int(arguments.get("categorical", 0)),
        task="regression" if not classes else "binary" if classes == 2 else "multiclass",
        n_classes=classes,
        class_names=(),
        target="",
        categorical=(),
        source="",
        notes=(),
        revision="",
    )


def _shared(plan: Plan, kind: str, steps: list[Step]) -> str:
    if kind == "fit":
        return "each ends in a record"
    users = sum(len({step.key for step in steps} & set(other.needs)) for other in plan.steps.values())
    return f"each serves {users / len(steps):.3g} step(s)"


class Timings:
    """What similar steps took on this machine, from the records of a results folder."""

    about = "about"
    source = "scaled by table size from what is stored here"

    def __init__(self, store: Store) -> None:
        self.seconds: dict[tuple[str, str], list[float]] = {}
        """Seconds per million table cells, by kind and plugin."""
        cells: dict[str, float] = {}
        for record in store.records():
            if record.get("kind") == "trial" or record["status"] != "ok":
                continue
            counts = record["counts"]
            size = (counts["train"] + counts["validation"] + counts["test"]) * counts["features"] / 1e6
            cells[record["data"]] = size
            self._add("fit", record["model"], record["seconds"]["fit"] / size)
            if record["seconds"]["pretrain"]:
                self._add("pretrain", record["ssl"], record["seconds"]["pretrain"] / size)

    def _add(self, kind: str, plugin: str, value: float) -> None:
        self.seconds.setdefault((kind, plugin), []).append(value)

    def of(self, step: Step) -> float | None:
        """Seconds that a step may take; None if nothing similar was run."""
        if step.job.kind == "encode":
            return 0.0
        choice = step.study.choice.name if step.study else None
        name = choice or (step.job.payload.get("model") or step.job.payload["method"])["name"]
        known = self.seconds.get(("fit", name)) or self.seconds.get(("pretrain", name))
        if known is None:
            return None
        manifest = step.job.payload["manifest"]
        size = float(manifest["rows"] * (manifest["n_numeric"] + manifest["n_categorical"]) / 1e6)
        return statistics.median(known) * size * (step.study.n_trials if step.study else 1)

    def describe(self, steps: Iterable[Step]) -> str:
        estimates = [self.of(step) for step in steps]
        known = [seconds for seconds in estimates if seconds is not None]
        slots, _ = share_cores(None)
        if not estimates:
            return "nothing to run"
        if not any(known):
            return (
                "time: unknown, as nothing similar is stored here; --calibrate measures a few epochs of each training"
            )
        missing = len(estimates) - len(known)
        beside = f", and {missing} step(s) of which nothing is known" if missing else ""
        return f"time: {self.about} {duration(sum(known) / slots)} with {slots} job(s) at a time, {self.source}{beside}"


class Calibration(Timings):
    """What a few epochs of each training take, on made-up rows of the same shape, in worker processes."""

    about = "at most about"
    source = "from a few epochs of each training, not counting early stopping and pruning"

    def __init__(self, registry: Registry, steps: list[Step]) -> None:
        self.measured: dict[str, float | None] = {}
        slots, threads = share_cores(None)
        jobs = {job.key: job for step in steps if (job := self._job(step)) is not None}
        executor = registry.load(registry.find("executor", "local"))(
            slots, Limits(threads, "auto", CALIBRATION_TIMEOUT), Path(tempfile.mkdtemp(prefix="tabbench-"))
        )
        waiting, running = list(jobs.values()), 0
        try:
            while waiting or running:
                while waiting and running < slots:
                    executor.submit(waiting.pop(0))
                    running += 1
                for event in executor.wait(1.0):
                    if event.outcome is not None:
                        running -= 1
                        self.measured[event.key] = event.outcome.result.get("seconds")
        finally:
            executor.close()

    def _job(self, step: Step) -> Job | None:
        """A calibration for the training of a step; steps that train the same on the same shape share one."""
        if step.job.kind == "encode" or step.job.payload.get("trained") is False:
            return None
        payload = (step.study.make_job(step.study.choice.config) if step.study else step.job).payload
        part = payload.get("joint") or payload.get("method")
        names = ("rows", "n_numeric", "n_categorical", "task", "n_classes")
        shape = {name: payload["manifest"][name] for name in names}
        identity = {"plugin": part, "model": payload.get("model"), "manifest": shape}
        places = {"seed": 0, "store": tempfile.gettempdir(), "cache": str(cache_dir())}
        return Job(content_key(identity), "calibrate", step.job.label, {**identity, **places})

    def of(self, step: Step) -> float | None:
        job = self._job(step)
        if job is None:
            return 0.0
        seconds = self.measured.get(job.key)
        return None if seconds is None else seconds * (step.study.n_trials if step.study else 1)
