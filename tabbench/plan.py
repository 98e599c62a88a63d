"""Spec x Registry x data -> a graph of content-addressed steps. Pure: nothing is read, written or run.

A step's key is a hash of everything that determines its result and of nothing else. So one pretraining serves every
model and seed that stands on it, and resuming is "planned minus done".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tabbench.controls import NONE, UNTRAINED, untrained
from tabbench.errors import UsageError, did_you_mean, unknown
from tabbench.hookspecs import CONTRACT_VERSION
from tabbench.job import Job, content_key
from tabbench.registry import Entry, Registry
from tabbench.spec import Sampler, Spec

if TYPE_CHECKING:
    from tabbench.config import Config
    from tabbench.data.cache import Manifest

SPLIT_RULE = "80/10/10"


@dataclass(frozen=True)
class Choice:
    """A plugin with its resolved settings."""

    entry: Entry
    config: dict[str, Any]
    overrides: dict[str, Any]
    """What the user set, beyond the defaults of the preset."""
    tuned_raw: frozenset[str] = frozenset()
    """What a tuner may change on raw tables: neither what the user set, nor what has no effect."""
    tuned_encoded: frozenset[str] = frozenset()
    """The same on representations."""

    @property
    def name(self) -> str:
        return self.entry.name

    def identity(self) -> dict[str, Any]:
        """What decides the results of this plugin, for a key."""
        return {"name": self.name, "revision": self.entry.revision, "config": self.config}

    def with_config(self, config: dict[str, Any]) -> Choice:
        return replace(self, config=config)

    def address(self) -> dict[str, Any]:
        """What a job needs to find and configure the class."""
        file = str(self.entry.file) if self.entry.file else None
        return {
            "name": self.name,
            "target": self.entry.plugin.target,
            "distribution": self.entry.distribution,
            "version": self.entry.version,
            "revision": self.entry.revision,
            "file": file,
            "config": self.config,
        }


@dataclass(frozen=True)
class Source:
    """A row of the SSL side of the table: a method, its untrained control, or the raw features."""

    label: str
    method: Choice | None
    trained: bool = True

    @property
    def uses_labels(self) -> bool:
        return self.method is not None and self.method.entry.plugin.uses_labels

    @property
    def trains_model(self) -> bool:
        """A joint method that trains the downstream model itself: there is nothing to pretrain and encode."""
        return self.method is not None and self.method.entry.plugin.gives == "predictions"


@dataclass(frozen=True)
class StudyPlan:
    """Trials of one plugin's settings; which there will be is known only when they run."""

    choice: Choice
    """Trial 0."""
    n_trials: int
    sampler: Sampler
    make_job: Callable[[dict[str, Any]], Job]
    """The job of a trial with the given settings."""
    record: dict[str, Any]
    """What the record of each trial says from the start."""
    tuned: frozenset[str]
    """The settings that trials differ in."""


@dataclass(frozen=True)
class Step:
    """A job, what must be there before it, and (for the last of a chain) what its record says from the start."""

    job: Job
    needs: tuple[str, ...] = ()
    record: dict[str, Any] | None = None
    study: StudyPlan | None = None
    """For tuning: the driver itself does this step, by jobs of its own."""
    tuned: Mapping[str, str] = field(default_factory=dict)
    """Part of the payload (encoder, model or joint) to be taken from the best trial of a study."""

    @property
    def key(self) -> str:
        return self.job.key


@dataclass
class Plan:
    """The graph, in an order in which every step comes after what it needs."""

    steps: dict[str, Step] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)
    """How often each step was asked for: more than once means that it is shared."""

    def add(self, step: Step) -> str:
        self.steps.setdefault(step.key, step)
        self.wanted[step.key] = self.wanted.get(step.key, 0) + 1
        return step.key

    @property
    def records(self) -> list[Step]:
        """The steps that end in a record."""
        return [step for step in self.steps.values() if step.record is not None]


def make_plan(spec: Spec, registry: Registry, manifests: Sequence[Manifest]) -> Plan:
    """All steps of an experiment on the given datasets."""
    models, sources = choose_all(spec, registry)
    check_settings(spec, registry, [*models, *(source.method for source in sources if source.method)])
    plan = Plan()
    for manifest in manifests:
        models, sources = choose_all(spec, registry, manifest.name)
        for split in range(spec.splits):
            where = {
                "data": {"key": manifest.key},
                "split": {"rule": SPLIT_RULE, "seed": split, "rows": spec.rows},
            }
            payload = {**where, "manifest": manifest.to_json()}
            for source in sources:
                place = _Place(spec, plan, manifest, split, where, payload, source)
                features = place.add_features()
                for model in models:
                    for seed in range(spec.seeds):
                        place.add_record(features, model, seed)
    return plan


@dataclass
class _Place:
    """One dataset, split and row of the SSL side, while its steps are added."""

    spec: Spec
    plan: Plan
    manifest: Manifest
    split: int
    where: dict[str, Any]
    payload: dict[str, Any]
    source: Source

    def _job(self, kind: str, identity: Mapping[str, Any], label: str, payload: Mapping[str, Any]) -> Job:
        key = content_key({"contract": CONTRACT_VERSION, "step": kind, **identity})
        return Job(key, kind, f"{self.manifest.name}/{self.split} {label}", {**self.payload, **payload})

    def add_features(self) -> str | None:
        """Pretrain (or tune) and encode; the key of the encoded features, or None for raw ones."""
        method = self.source.method
        if method is None or self.source.trains_model:
            return None
        label = f"encode {self.source.label}"
        if self.spec.ssl_trials and method.tuned_raw:
            study = self._add_study(
                method, method.tuned_raw, self.spec.ssl_trials, self._pretrain_job, f"tune {self.source.label}"
            )
            encode = self._job("encode", {"of": study}, label, {"method": method.address(), "seed": self.split})
            return self.plan.add(Step(encode, (study,), tuned={"encoder": study}))
        pretrain = self._pretrain_job(method.config)
        self.plan.add(Step(pretrain))
        payload = {"method": method.address(), "seed": self.split, "encoder": pretrain.key}
        encode = self._job("encode", {"of": pretrain.key}, label, payload)
        return self.plan.add(Step(encode, (pretrain.key,)))

    def _pretrain_job(self, config: dict[str, Any]) -> Job:
        assert self.source.method is not None
        method = self.source.method.with_config(config)
        identity = {**self.where, "method": method.identity(), "trained": self.source.trained, "seed": self.split}
        payload = {"method": method.address(), "trained": self.source.trained, "seed": self.split}
        return self._job("pretrain", identity, f"pretrain {self.source.label}", payload)

    def _add_study(
        self,
        choice: Choice,
        tuned: frozenset[str],
        n_trials: int,
        make_job: Callable[[dict[str, Any]], Job],
        label: str,
        needs: tuple[str, ...] = (),
        model: str = "",
    ) -> str:
        """The key of a study: of its first trial, what the others change, and how many there will be."""
        identity = {
            "first": make_job(choice.config).key,
            "tuned": sorted(tuned),
            "trials": n_trials,
            "sampler": self.spec.sampler,
        }
        record = {
            "kind": "trial",
            "ssl": self.source.label,
            "model": model,
            "data": self.manifest.name,
            "split": self.split,
            "fidelity": fidelity_of(self.spec),
        }
        study = StudyPlan(choice, n_trials, self.spec.sampler, make_job, record, tuned)
        return self.plan.add(Step(self._job("tune", identity, label, {}), needs, study=study))

    def add_record(self, features: str | None, model: Choice, seed: int) -> None:
        # A joint method that trains the model itself is what there is to tune; the model's own settings only say
        # what its backbone looks like.
        role = "joint" if self.source.trains_model else "model"
        learner = self.source.method if self.source.trains_model else model
        assert learner is not None
        needs = (features,) if features else ()
        label = f"{self.source.label} + {model.name}"

        def trial_job(config: dict[str, Any]) -> Job:
            return self._fit_job("trial", features, model, 0, role, learner.with_config(config), f"tune {label}")

        tuned = learner.tuned_raw if features is None else learner.tuned_encoded
        if self.spec.trials and tuned:
            study = self._add_study(learner, tuned, self.spec.trials, trial_job, f"tune {label}", needs, model.name)
            job = self._fit_job("fit", features, model, seed, role, learner, f"{label} seed {seed}", study)
            step = Step(job, (*needs, study), self._record(model, seed), tuned={role: study})
        else:
            job = self._fit_job("fit", features, model, seed, role, learner, f"{label} seed {seed}")
            step = Step(job, needs, self._record(model, seed))
        self.plan.add(step)

    def _fit_job(
        self,
        kind: str,
        features: str | None,
        model: Choice,
        seed: int,
        role: str,
        learner: Choice,
        label: str,
        study: str | None = None,
    ) -> Job:
        choices = {"model": model, role: learner}
        identity: dict[str, Any] = {**self.where, "features": features, "seed": seed, "study": study}
        identity |= {name: choice.identity() for name, choice in choices.items()}
        if kind == "fit":
            identity |= {"fidelity": fidelity_of(self.spec)}
        payload: dict[str, Any] = {"features": features, "seed": seed, "joint": None}
        payload |= {name: choice.address() for name, choice in choices.items()}
        return self._job(kind, identity, label, payload)

    def _record(self, model: Choice, seed: int) -> dict[str, Any]:
        """What the record says before the job has run."""
        origins = {
            role: {
                "distribution": choice.entry.distribution,
                "version": choice.entry.version,
                "revision": choice.entry.revision,
            }
            for role, choice in (("ssl", self.source.method), ("model", model))
            if choice is not None
        }
        return {
            "kind": "result",
            "ssl": self.source.label,
            "model": model.name,
            "data": self.manifest.name,
            "data_key": self.manifest.key[:12],
            "split": self.split,
            "seed": seed,
            "fidelity": fidelity_of(self.spec),
            "preset": self.spec.preset,
            "rows_limit": self.spec.rows,
            "trials": self.spec.trials,
            "ssl_trials": self.spec.ssl_trials,
            "variant": _variant(self.source.method, model),
            "uses_labels": self.source.uses_labels,
            "plugins": origins,
        }


def fidelity_of(spec: Spec) -> str:
    """The name under which records may be ranked together."""
    return spec.preset if spec.rows is None else f"{spec.preset}, {spec.rows} rows"


def choose_all(spec: Spec, registry: Registry, dataset: str = "") -> tuple[list[Choice], list[Source]]:
    """The models and the SSL side of an experiment, with their settings for a dataset."""
    models = [choose(spec, registry, "model", name, dataset) for name in spec.model]
    return models, choose_sources(spec, registry, dataset)


def choose_sources(spec: Spec, registry: Registry, dataset: str = "") -> list[Source]:
    """The SSL side of the table: controls first, each once, then methods with their untrained encoders."""
    methods: list[Choice] = []
    extra: list[Source] = []
    raw = NONE in spec.controls
    for name in spec.ssl:
        lowered = name.lower()
        if lowered == NONE:
            raw = True
        elif lowered == UNTRAINED:
            raise UsageError(
                f"{UNTRAINED!r} is a control of a method: write {UNTRAINED}:METHOD, or --controls {UNTRAINED}"
            )
        elif lowered.startswith(f"{UNTRAINED}:"):
            entry = registry.find("ssl", name.partition(":")[2])
            if not entry.plugin.untrained:
                raise UsageError(f"{entry.name!r} has no encoder that could stay untrained")
            method = choose(spec, registry, "ssl", entry.name, dataset)
            extra.append(Source(untrained(method.name), method, trained=False))
        else:
            methods.append(choose(spec, registry, "ssl", name, dataset))
    sources = [Source(NONE, None)] if raw else []
    for method in methods:
        if UNTRAINED in spec.controls and method.entry.plugin.untrained:
            extra.append(Source(untrained(method.name), method, trained=False))
    seen: dict[str, Source] = {}
    for source in [*sources, *extra, *(Source(method.name, method) for method in methods)]:
        seen.setdefault(source.label, source)
    return list(seen.values())


def choose(spec: Spec, registry: Registry, kind: str, name: str, dataset: str = "") -> Choice:
    """A plugin with its settings: its own defaults, the run's preset, a named preset, what the user set.

    Settings published for each table have a preset each, such as ``rtdl-CA``. Together they go by ``rtdl``: every
    dataset gets its own. So a run with ``--preset paper`` takes ``paper-CA`` on California, if there is one. Without
    a dataset only the name is checked. What a named preset sets is set by the user: it is not tuned.
    """
    entry = registry.find(kind, name)
    config_class = registry.load_config(entry)
    presets = config_class.presets()
    given = dict(_settings_of(spec, entry))
    named = given.pop("preset", None)
    overrides = {config_class.full_name(key): value for key, value in given.items()}
    codes = _codes(registry, dataset)
    if named is None:
        preset = _of_dataset(spec.preset, presets, codes) or spec.preset
    else:
        preset = _find_preset(str(named), entry, presets, dataset, codes)
    settings = {key: value for key, value in presets.get(preset, {}).items() if key != "source"}
    config: Config = config_class.resolve({**settings, **overrides}, entry.name)
    shown = {**({"preset": named} if named is not None else {}), **overrides}
    pinned = overrides.keys() | (settings.keys() if named is not None else set())
    tuned = [frozenset(config_class.search_space().keys() - pinned - config.unused(raw)) for raw in (True, False)]
    return Choice(entry, config.to_json(), shown, *tuned)


def _find_preset(named: str, entry: Entry, presets: Mapping[str, Any], dataset: str, codes: set[str]) -> str:
    """The preset that goes by a name, or that of a dataset in the family of that name."""
    family = [preset for preset in presets if preset.startswith(f"{named}-")]
    if named in presets or (family and not dataset):
        return named
    if not family:
        raise unknown(f"preset of {entry.name}", named, presets)
    found = _of_dataset(named, presets, codes)
    if found is None:
        raise UsageError(f"{entry.name} has no preset {named!r} for {dataset}. Available: {', '.join(family)}.")
    return found


def _of_dataset(family: str, presets: Iterable[str], codes: set[str]) -> str | None:
    """The preset of a family for the dataset that goes by ``codes``."""
    start = f"{family}-"
    return next((name for name in presets if name.startswith(start) and name[len(start) :].lower() in codes), None)


def _codes(registry: Registry, dataset: str) -> set[str]:
    """What a dataset goes by, in lower case."""
    known = [entry for entry in registry.entries("data") if entry.name == dataset]
    return {dataset.lower(), *(alias.lower() for entry in known for alias in entry.plugin.aliases)}


def _settings_of(spec: Spec, entry: Entry) -> Mapping[str, Any]:
    names = {entry.name, *(alias.lower() for alias in entry.plugin.aliases)}
    return {
        key: value for name, values in spec.settings.items() if name.lower() in names for key, value in values.items()
    }


def check_settings(spec: Spec, registry: Registry, used: Sequence[Choice]) -> None:
    """Refuse settings of a plugin that does not take part: a typing error must not pass unnoticed."""
    names = {choice.name for choice in used}
    aliases = {alias.lower() for choice in used for alias in choice.entry.plugin.aliases}
    for name in spec.settings:
        if name.lower() not in names | aliases:
            known = name.lower() in {*registry.names("ssl"), *registry.names("model")}
            why = "takes no part in this run" if known else "is no plugin"
            raise UsageError(f"--set {name}: {name!r} {why}.{did_you_mean(name, names)}")


def _variant(*choices: Choice | None) -> str:
    """What the user set, as a label that keeps differently configured rows of a table apart."""
    return " ".join(
        f"{choice.name}.{key}={value}"
        for choice in choices
        if choice is not None
        for key, value in sorted(choice.overrides.items())
    )
