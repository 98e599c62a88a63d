"""What to run: an experiment file or command-line options, validated and frozen."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

import pydantic

from tabbench.config import PluginSettings
from tabbench.contracts.split_rule import SplitRule, make_rule
from tabbench.contracts.weighting import Weighting
from tabbench.data.labels import ALL_LABELS, LabelBudget
from tabbench.data.reading import Reading
from tabbench.errors import UsageError, did_you_mean, in_words, near_file, unknown
from tabbench.experiment.controls import method_of

if TYPE_CHECKING:
    from tabbench.registry import Registry

Preset = Literal["quick", "standard", "paper"]
Sampler = Literal["tpe", "gp", "random"]
Control = Literal["none", "untrained"]
Protocol = Literal["frozen", "finetune"]
"""``frozen``: a model is trained on the encoder's output. ``finetune``: both are trained together."""
ValidationLabels = Literal["same", "all"]
Probing = Literal["auto", "kept", "never"]
DEFAULT_DATA = "demo"
Entries = dict[str, Any]
"""What an experiment says, by the names of ``Spec``; checked when a Spec is made of it."""


class Budgets(TypedDict):
    """What a preset decides about a run."""

    splits: int
    seeds: int
    trials: int
    ssl_trials: int
    controls: tuple[Control, ...]


PRESETS: dict[Preset, Budgets] = {
    "quick": {"splits": 1, "seeds": 1, "trials": 0, "ssl_trials": 0, "controls": ("none",)},
    "standard": {"splits": 1, "seeds": 3, "trials": 15, "ssl_trials": 8, "controls": ("none", "untrained")},
    "paper": {"splits": 1, "seeds": 20, "trials": 50, "ssl_trials": 50, "controls": ("none", "untrained")},
}
"""Budgets of a run. Plugins may have presets of the same names for their own settings, such as epochs."""

MOST = 10_000
"""Limit on splits, seeds and trials: more is a typo, and the plan would not fit in memory."""


class Spec(pydantic.BaseModel):
    """One experiment: everything that decides which results it has, and nothing about how they are computed."""

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, serialize_by_alias=True
    )

    ssl: tuple[str, ...] = pydantic.Field(min_length=1)
    """SSL methods by name."""
    model: tuple[str, ...] = pydantic.Field(min_length=1)
    """Downstream models by name."""
    data: tuple[str, ...] = pydantic.Field(default=(DEFAULT_DATA,), min_length=1)
    """Datasets, groups of datasets, or FILE:TARGET."""
    preset: Preset = "standard"
    """Budgets and fidelity."""
    splits: int = pydantic.Field(default=1, ge=1, le=MOST)
    """Number of data splits."""
    seeds: int = pydantic.Field(default=1, ge=1, le=MOST)
    """Number of initialisations of each downstream model."""
    trials: int = pydantic.Field(default=0, ge=0, le=MOST)
    """Trials of Bayesian tuning per downstream model; 0 uses its default settings."""
    ssl_trials: int = pydantic.Field(default=0, ge=0, le=MOST)
    """Trials of Bayesian tuning per SSL method; 0 uses its default settings."""
    sampler: Sampler = "tpe"
    """How trials are proposed."""
    controls: tuple[Control, ...] = ("none",)
    """Controls to run with each SSL method."""
    protocol: tuple[Protocol, ...] = pydantic.Field(default=("frozen",), min_length=1)
    """How a pretrained encoder is used."""
    labels: tuple[str, ...] = pydantic.Field(default=(ALL_LABELS,), min_length=1)
    """Labelled training rows: shares such as ``10%``, or counts such as ``200``."""
    validation_labels: ValidationLabels = "same"
    """``same``: validation keeps the same share of its labels, at least 32. ``all``: it keeps them all."""
    probe: Probing = "auto"
    """Which labels choose an encoder's weights: ``kept``, the visible ones (one pretraining per label budget),
    or ``never`` any, so that one pretraining serves all budgets. ``auto``: never if some labels are hidden and
    methods are not tuned, else kept."""
    rows: int | None = pydantic.Field(default=None, ge=10)
    """Use only this many rows of each dataset; recorded as a separate fidelity."""
    categorical: tuple[str, ...] = ()
    """Columns of FILE:TARGET data to treat as categories."""
    numeric: tuple[str, ...] = ()
    """Columns of FILE:TARGET data to treat as numbers; anything else counts as missing."""
    drop: tuple[str, ...] = ()
    """Columns of FILE:TARGET data to leave out."""
    task: Literal["", "classification", "regression"] = ""
    """The task of FILE:TARGET data, if it should not be guessed from the target."""
    unlabelled: str = "keep"
    """Rows of FILE:TARGET data without a target: keep them for pretraining, drop them, or name a file with more."""
    split_column: str = ""
    """The column that assigns rows to training, validation and test, or to a test fold."""
    group: str = ""
    """Rows with the same value in this column stay on the same side of a split."""
    time: str = ""
    """Train on the earliest rows by this column, test on the latest."""
    folds: int | str = 0
    """Cross-validation with this many folds; ``server`` uses the folds that come with a dataset."""
    duplicates: Literal["keep", "group"] = "keep"
    """``group`` keeps identical rows on the same side of a split."""
    transductive: bool = False
    """Let pretraining use unlabelled rows from the test side; recorded and flagged."""
    class_weights: Literal["", "balanced"] = ""
    """``balanced``: in training every class counts the same. Scores are not weighted. Regression tables are run without
    it."""
    weights: str = ""
    """The column that holds the weights of training rows; it is not a feature. Scores are not weighted."""
    metric: str = ""
    """The metric for tuning, early stopping, probes and ranks; accuracy and RMSE by default. Tables whose task it
    does not fit keep their default."""
    threads: int = pydantic.Field(default=1, ge=1)
    """Threads per job. The number changes the order of sums, hence their last digits, and training amplifies
    these. So results with different numbers of threads are different results."""
    settings: PluginSettings = pydantic.Field(default_factory=dict, alias="set")
    """Settings of plugins: ``{"tjepa": {"dim_hidden": 64}}``."""

    @pydantic.field_validator("labels")
    @classmethod
    def _read_labels(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(LabelBudget.parse(text).text for text in labels))

    @property
    def budgets(self) -> list[LabelBudget]:
        return [LabelBudget.parse(text) for text in self.labels]

    @property
    def is_probed(self) -> bool:
        """Whether labels choose the weights of encoders."""
        hidden = any(not budget.is_all for budget in self.budgets)
        return not (hidden and not self.ssl_trials) if self.probe == "auto" else self.probe == "kept"

    @property
    def rule(self) -> SplitRule:
        """How rows are split."""
        return make_rule(
            split_column=self.split_column,
            group=self.group,
            time=self.time,
            folds=self.folds,
            duplicates=self.duplicates,
            transductive=self.transductive,
        )

    @property
    def reading(self) -> Reading:
        """How files are read; columns that decide the split are kept."""
        kept = self.rule.columns
        task = self.task or None
        return Reading(self.categorical, self.numeric, self.drop, task, kept, self.unlabelled, weights=self.weights)

    @property
    def weighting(self) -> Weighting:
        """How training rows are weighted."""
        return Weighting(self.weights, self.class_weights == "balanced")

    def to_json(self) -> Entries:
        value: Entries = self.model_dump(mode="json", by_alias=True)
        return value


NAMES = tuple(field.alias or name for name, field in Spec.model_fields.items())
"""The entries of an experiment."""
LISTS = ("ssl", "model", "data", "controls", "categorical", "numeric", "drop", "protocol", "labels")
READING_ENTRIES = ("categorical", "numeric", "drop", "task", "unlabelled")
"""Entries that say how files are read."""
SPLIT_ENTRIES = ("split_column", "group", "time", "folds", "duplicates", "transductive")
"""Entries that say how rows are split."""
WEIGHT_ENTRIES = ("weights", "class_weights")
"""Entries that say how training rows are weighted."""
WORDS = ("preset", "metric", "sampler", "validation_labels", "probe", "task", "unlabelled", "split_column", "group",
         "time", "duplicates", *WEIGHT_ENTRIES)  # fmt: skip
CHOICES: dict[str, tuple[str, tuple[str, ...]]] = {
    "task": ("task", ("classification", "regression")),
    "duplicates": ("handling of duplicates", ("keep", "group")),
    "class_weights": ("value of class_weights", ("balanced",)),
    "controls": ("control", get_args(Control)),
    "sampler": ("sampler", get_args(Sampler)),
    "protocol": ("protocol", get_args(Protocol)),
    "validation_labels": ("value of validation_labels", get_args(ValidationLabels)),
    "probe": ("value of probe", get_args(Probing)),
}
"""Entries with few possible values: what one is called, and which there are."""


def make_spec(given: Entries, default_preset: Preset = "standard") -> Spec:
    """A Spec from the given entries; the preset supplies the rest."""
    _check_names(given)
    for name, value in given.items():
        if isinstance(value, bool) and name != "transductive":  # pydantic takes true for 1
            raise _wrong_type(name, value, "true and false are for transductive alone")
    preset = given.get("preset", default_preset)
    if not isinstance(preset, str) or preset not in PRESETS:
        raise unknown("preset", str(preset), PRESETS)
    try:
        spec = Spec.model_validate({**PRESETS[preset], "preset": preset, **given})
    except pydantic.ValidationError as error:
        raise _explain(error) from None
    if spec.ssl_trials and not spec.is_probed:
        raise UsageError("--probe never: SSL methods are tuned by the probe; add --ssl-trials 0")
    spec.rule.count(spec.splits)  # refuse rules that do not exist before doing anything else
    assert spec.reading
    return spec


def _check_names(given: Entries) -> None:
    for name in given:
        if name not in NAMES:
            raise UsageError(f"Unknown entry {name!r} in the experiment.{did_you_mean(name, NAMES)}")


def _explain(error: pydantic.ValidationError) -> UsageError:
    """The first fault that pydantic found, in the user's terms."""
    first = error.errors()[0]
    entry = str(first["loc"][0])
    if first["type"] == "literal_error" and entry in CHOICES:
        what, possible = CHOICES[entry]
        return unknown(what, str(first["input"]), possible)
    if first["type"] == "too_short":
        return UsageError(f"The list {entry!r} of the experiment is empty: give at least one name")
    place = ".".join(str(part) for part in first["loc"])
    fault = in_words(first["msg"])
    if fault.startswith("--"):  # it says itself what was given
        return UsageError(fault)
    return UsageError(f"Bad entry {place!r} in the experiment: {fault} (given: {first['input']!r})")


def merge_entries(experiment: Entries, said: Entries, registry: Registry) -> Entries:
    """The entries of an experiment file, overridden by what the user says.

    Settings of a plugin go with it when the user leaves it out of the file's list.
    """
    chosen = {name: value for name, value in said.items() if name != "set"}
    left_out: set[str] = set()
    for kind in {"ssl", "model"} & chosen.keys():
        left_out |= _names(experiment.get(kind, ()), kind, registry)
    for kind in ("ssl", "model"):  # a method and a model may have the same name
        left_out -= _names({**experiment, **chosen}.get(kind, ()), kind, registry)
    settings = {
        name: dict(values) for name, values in experiment.get("set", {}).items() if name.lower() not in left_out
    }
    for name, values in said.get("set", {}).items():
        _forget(settings, name, values, registry)
    for name, values in said.get("set", {}).items():
        settings[name] = settings.get(name, {}) | values
    return {**experiment, **chosen, "set": settings}


def _forget(settings: PluginSettings, name: str, said: Iterable[str], registry: Registry) -> None:
    """Remove what the user says otherwise, however the names of the plugin and of its settings are written."""
    owners = [entry for kind in ("ssl", "model") for entry in registry.entries(kind) if name.lower() in entry.names]
    names = {name.lower()}.union(*(entry.names for entry in owners))
    configs = [registry.load_config(entry) for entry in owners]

    def meant(key: str) -> set[str]:
        return {key, *(config.full_name(key) for config in configs)}

    forgotten = set[str]().union(*map(meant, said))
    for other in settings:
        if other.lower() in names:
            settings[other] = {key: value for key, value in settings[other].items() if not meant(key) & forgotten}


def _names(given: Iterable[str], kind: str, registry: Registry) -> set[str]:
    """Every name of these plugins, in lower case. The untrained control of a method has the method's settings."""
    wanted = {method_of(name.lower()) for name in given}
    return wanted.union(*(entry.names for entry in registry.entries(kind) if wanted & entry.names))


def read_experiment(path: Path) -> Entries:
    """The entries of an experiment file (TOML), each of the type that ``Spec`` has; a lone name is a list of one.

    Raises:
        UsageError: the file cannot be read, or one of its entries is unknown or has the wrong type.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = near_file(path) or ("" if path.suffix else " Name methods with --ssl and models with --model.")
        raise UsageError(f"Experiment file {path} does not exist.{hint}") from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder; give an experiment file (TOML)") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not a TOML file: {error}") from None
    except RecursionError:
        raise UsageError(f"{path} is not an experiment: its tables are nested too deeply") from None
    try:
        _check_names(given)
        return {name: _check_type(name, value) for name, value in given.items()}
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _check_type(name: str, value: Any) -> Any:
    """The value of an entry, if it has the right type."""
    if name in LISTS:
        names = value if isinstance(value, list) else [value]
        names = [str(each) if name == "labels" and type(each) is int else each for each in names]
        if not all(isinstance(each, str) for each in names):
            raise _wrong_type(name, value, f'expected a list of names, such as {name} = ["a", "b"]')
        return names
    if name in WORDS:
        if not isinstance(value, str):
            raise _wrong_type(name, value, f'expected one name, such as {name} = "a"')
    elif name == "set":
        example = "write [set.NAME] and below it KEY = VALUE"
        if not isinstance(value, dict):
            raise _wrong_type(name, value, example)
        for plugin, settings in value.items():
            if not isinstance(settings, dict):
                raise _wrong_type(f"set.{plugin}", settings, example)
    elif name == "transductive":
        if not isinstance(value, bool):
            raise _wrong_type(name, value, "expected true or false")
    elif name == "folds" and value == "server":
        return value
    elif not isinstance(value, int) or isinstance(value, bool):  # only counts are left
        raise _wrong_type(name, value, "expected a whole number")
    return value


def _wrong_type(name: str, value: Any, wanted: str) -> UsageError:
    return UsageError(f"{name} = {value!r}: {wanted}")


def parse_setting(text: str) -> tuple[str, str, Any]:
    """``"tjepa.dim_hidden=64"`` as ``("tjepa", "dim_hidden", 64)``. Values are JSON; anything else is a string."""
    place, equals, value = text.partition("=")
    plugin, dot, key = place.strip().partition(".")
    if not (equals and dot and plugin and key):
        raise UsageError(f"--set {text!r}: write it as NAME.SETTING=VALUE, for example --set mlp.lr=0.001")
    try:
        return plugin, key, json.loads(value)
    except json.JSONDecodeError:
        constants = {"true": True, "false": False, "none": None}
        return plugin, key, constants.get(value.strip().lower(), value.strip())


def parse_settings(texts: Iterable[str]) -> PluginSettings:
    """Several such texts as ``{"tjepa": {"dim_hidden": 64}}``."""
    settings: PluginSettings = {}
    for text in texts:
        plugin, key, value = parse_setting(text)
        if key in settings.setdefault(plugin, {}):
            raise UsageError(f"--set {plugin}.{key} is given twice: give it once")
        settings[plugin][key] = value
    return settings
