"""Spec x Registry -> the plugins of a run, each with its resolved settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tabbench.config import Config, Range, Settings, preset_settings
from tabbench.contracts.job import Identity
from tabbench.errors import UsageError, did_you_mean, unknown
from tabbench.experiment.controls import NONE, UNTRAINED, is_untrained, untrained
from tabbench.experiment.payloads import Address
from tabbench.experiment.spec import DEFAULT_DATA, Preset, Spec
from tabbench.registry import Entry, Registry

AN_HOUR = 3600.0


@dataclass(frozen=True)
class Configured:
    """A plugin with its resolved settings."""

    entry: Entry
    config_class: type[Config]
    config: Settings
    overrides: Settings
    """What the user set, beyond the defaults of the preset."""
    pinned: frozenset[str] = frozenset()
    """What the tuner may not change: settings given by the user, or by a preset the user named."""
    space: Mapping[str, Range] = field(default_factory=dict)
    """What the tuner may change, unless pinned."""
    searched: Mapping[str, Any] = field(default_factory=dict)
    """Search ranges of a preset that replace the plugin's own, as written."""

    def tuned(self, *, raw: bool, finetune: bool = False) -> frozenset[str]:
        """What the tuner may change: settings that are not pinned and have an effect on these features."""
        config = self.config_class.resolve(self.config, self.name)
        idle = config.unused(raw) | (frozenset() if finetune else self.config_class.of_finetuning())
        return frozenset(self.space.keys() - self.pinned - idle)

    def without_finetuning(self) -> Configured:
        """The same choice without the settings of fine-tuning, for runs that fine-tune nothing."""
        idle = self.config_class.of_finetuning()
        if not idle:
            return self
        kept = {name: value for name, value in self.config.items() if name not in idle}
        return replace(self, config=kept, overrides={k: v for k, v in self.overrides.items() if k not in idle})

    @property
    def name(self) -> str:
        return self.entry.name

    def identity(self) -> Identity:
        """What determines this plugin's results, for a key."""
        return {"name": self.name, "revision": self.entry.revision, "config": self.config}

    def with_config(self, config: Settings) -> Configured:
        return replace(self, config=config)

    def address(self) -> Address:
        """What a job needs to find and configure the class."""
        return Address(
            name=self.name,
            target=self.entry.plugin.target,
            distribution=self.entry.distribution,
            version=self.entry.version,
            revision=self.entry.revision,
            file=str(self.entry.file) if self.entry.file else None,
            config=self.config,
        )


@dataclass(frozen=True)
class Arm:
    """One arm of an experiment on the SSL side: a method, its untrained control, or the raw features."""

    label: str
    method: Configured | None
    trained: bool = True

    @property
    def uses_labels(self) -> bool:
        return self.method is not None and self.method.entry.plugin.uses_labels

    @property
    def trains_model(self) -> bool:
        """Whether a joint method trains the downstream model itself, with nothing to pretrain or encode."""
        return self.method is not None and self.method.entry.plugin.gives == "predictions"

    @property
    def pretrains_backbone(self) -> bool:
        """Whether the method pretrains the downstream model's own backbone, once per model."""
        return self.method is not None and self.method.entry.plugin.gives == "backbone"


def choose_all(spec: Spec, registry: Registry, dataset: str = "") -> tuple[list[Configured], list[Arm]]:
    """The models and the SSL side of an experiment, with their settings for a dataset."""
    models = [choose(spec, registry, "model", name, dataset) for name in spec.model]
    return models, choose_arms(spec, registry, dataset)


def choose_arms(spec: Spec, registry: Registry, dataset: str = "") -> list[Arm]:
    """The arms on the SSL side: each control once, then methods with their untrained encoders."""
    methods: list[Configured] = []
    extra: list[Arm] = []
    raw = NONE in spec.controls
    for name in spec.ssl:
        lowered = name.lower()
        if lowered == NONE:
            raw = True
        elif lowered == UNTRAINED:
            raise UsageError(
                f"{UNTRAINED!r} is a control of a method: write {UNTRAINED}:METHOD, or --controls {UNTRAINED}"
            )
        elif is_untrained(lowered):
            entry = registry.find("ssl", name.partition(":")[2])
            if not entry.plugin.untrained:
                raise UsageError(f"{entry.name!r} has no encoder, so it has no untrained control")
            method = choose(spec, registry, "ssl", entry.name, dataset)
            extra.append(Arm(untrained(method.name), method, trained=False))
        else:
            methods.append(choose(spec, registry, "ssl", name, dataset))
    arms = [Arm(NONE, None)] if raw else []
    for method in methods:
        if UNTRAINED in spec.controls and method.entry.plugin.untrained:
            extra.append(Arm(untrained(method.name), method, trained=False))
    seen: dict[str, Arm] = {}
    for arm in [*arms, *extra, *(Arm(method.name, method) for method in methods)]:
        seen.setdefault(arm.label, arm)
    return list(seen.values())


def choose(spec: Spec, registry: Registry, kind: str, name: str, dataset: str = "") -> Configured:
    """A plugin with its settings: its defaults, then the run's preset, a named preset, and what the user set.

    Settings published per table have one preset each, such as ``rtdl-CA``. The family name ``rtdl`` gives every
    dataset its own. So a run with ``--preset paper`` uses ``paper-CA`` on California, if there is one. Without
    a dataset, only the name is checked. Settings from a named preset count as set by the user and are not tuned, except
    those for which the preset has ranges.
    """
    entry = registry.find(kind, name)
    config_class = registry.load_config(entry)
    presets = config_class.presets()
    given = _settings_of(spec, entry, config_class)
    named = given.pop("preset", None)
    codes = _codes(registry, dataset)
    if named is None:
        preset = _of_dataset(spec.preset, presets, codes) or spec.preset
    else:
        preset = _find_preset(str(named), entry, presets, dataset, codes)
    settings = preset_settings(presets.get(preset, {}))
    searched = presets.get(preset, {}).get("search", {})
    config = config_class.resolve({**settings, **given}, entry.name).to_json()
    # As the plugin understood them: 1, 1.0 and "1" are the same learning rate, and the same row of a table.
    shown = {**({"preset": named} if named is not None else {}), **{name: config[name] for name in given}}
    pinned = frozenset(given.keys() | (settings.keys() - searched.keys() if named is not None else set()))
    space = config_class.preset_space(presets.get(preset, {}))
    return Configured(entry, config_class, config, shown, pinned, space, searched)


def _find_preset(named: str, entry: Entry, presets: Mapping[str, Any], dataset: str, codes: set[str]) -> str:
    """The preset with this name, or the dataset's preset in the family with this name."""
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
    """The preset of a family for the dataset known by ``codes``."""
    start = f"{family}-"
    return next((name for name in presets if name.startswith(start) and name[len(start) :].lower() in codes), None)


def _codes(registry: Registry, dataset: str) -> set[str]:
    """The names of a dataset, in lower case."""
    known = [entry for entry in registry.entries("data") if entry.name == dataset]
    return {dataset.lower(), *(alias.lower() for entry in known for alias in entry.plugin.aliases)}


def _settings_of(spec: Spec, entry: Entry, config_class: type[Config]) -> Settings:
    """What the user set, by the full names of the settings. One that is given twice, in two spellings, is refused."""
    given: Settings = {}
    written: dict[str, str] = {}
    for name, values in spec.settings.items():
        if name.lower() not in entry.names:
            continue
        for key, value in values.items():
            full, word = config_class.full_name(key), f"{name}.{key}"
            if full in given:
                raise UsageError(f"'{written[full]}' and '{word}' are the same setting: give one of them")
            given[full], written[full] = value, word
    return given


def check_settings(spec: Spec, registry: Registry, used: Sequence[Configured]) -> None:
    """Refuse settings of a plugin that is not in the run, so that a typo does not go unnoticed."""
    names = {choice.name for choice in used}
    aliases = {alias.lower() for choice in used for alias in choice.entry.plugin.aliases}
    for name in spec.settings:
        if name.lower() not in names | aliases:
            known = name.lower() in {*registry.names("ssl"), *registry.names("model")}
            why = "is not part of this run" if known else "is not a plugin"
            raise UsageError(f"--set {name}: {name!r} {why}.{did_you_mean(name, names)}")


def refuse_idle(spec: Spec, used: Sequence[Configured]) -> None:
    """Refuse a setting that the user gave and that changes nothing: the row would be named after it."""
    for choice in used:
        config = choice.config_class.resolve(choice.config, choice.name)
        without_effect = config.unused(raw=True) & config.unused(raw=False)
        for name in choice.overrides:
            if name in without_effect:
                raise UsageError(
                    f"--set {choice.name}.{name} has no effect with the other settings of {choice.name}: leave it out"
                )
            if name in choice.config_class.of_finetuning() and "finetune" not in spec.protocol:
                raise UsageError(
                    f"--set {choice.name}.{name} is for fine-tuning: add --protocol finetune, or leave it out"
                )


def describe_overrides(*configured: Configured | None) -> str:
    """What the user set, as a label that tells differently configured rows of a table apart."""
    return " ".join(
        f"{each.name}.{key}={value}"
        for each in configured
        if each is not None
        for key, value in sorted(each.overrides.items())
    )


def default_preset(data: Iterable[str], registry: Registry, budget: float | None = None) -> Preset:
    """``quick`` for a first look, on demo tables or with a budget below an hour; otherwise ``standard``."""
    if budget is not None and budget < AN_HOUR:
        return "quick"
    demo = {DEFAULT_DATA}.union(*(entry.names for entry in registry.groups().get(DEFAULT_DATA, [])))
    return "quick" if {name.lower() for name in data} <= demo else "standard"
