"""What to run: an experiment file or command-line options, validated and frozen."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args

import pydantic

from tabbench.config import PluginSettings
from tabbench.contracts.split_rule import SplitRule, make_rule
from tabbench.contracts.weighting import Weighting
from tabbench.data.labels import ALL_LABELS, LabelBudget
from tabbench.data.reading import Reading
from tabbench.errors import UsageError, did_you_mean, unknown

Preset = Literal["quick", "standard", "paper"]
Sampler = Literal["tpe", "gp", "random"]
Control = Literal["none", "untrained"]
Protocol = Literal["frozen", "finetune"]
"""``frozen``: a model is trained on what the encoder makes of rows. ``finetune``: both are trained together."""
ValidationLabels = Literal["same", "all"]
Probing = Literal["auto", "kept", "never"]
DEFAULT_DATA = "demo"
Entries = dict[str, Any]
"""What an experiment says, by the names of ``Spec``; checked when a Spec is made of it."""


class Budgets(TypedDict):
    """What a preset decides of a run."""

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
"""Budgets of a run. Plugins have settings of the same names for what is theirs, such as the number of epochs."""

MOST = 10_000
"""Splits, seeds or trials: more are a slip of the finger, and a plan that no memory holds."""


class Spec(pydantic.BaseModel):
    """One experiment: everything that decides which results there will be, and nothing about how they are computed."""

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
    """Trials of Bayesian tuning for each downstream model; 0 takes its default settings."""
    ssl_trials: int = pydantic.Field(default=0, ge=0, le=MOST)
    """Trials of Bayesian tuning for each SSL method; 0 takes its default settings."""
    sampler: Sampler = "tpe"
    """How trials are proposed."""
    controls: tuple[Control, ...] = ("none",)
    """Controls that stand beside each SSL method."""
    protocol: tuple[Protocol, ...] = pydantic.Field(default=("frozen",), min_length=1)
    """How a pretrained encoder is used."""
    labels: tuple[str, ...] = pydantic.Field(default=(ALL_LABELS,), min_length=1)
    """How many training rows have a label: shares such as ``10%``, or numbers such as ``200``."""
    validation_labels: ValidationLabels = "same"
    """``same``: validation keeps the same share of its labels, at least 32. ``all``: it keeps all."""
    probe: Probing = "auto"
    """Which labels choose the weights of an encoder: those that are kept (one pretraining for each number of labels),
    or none, so that one pretraining serves them all. ``auto``: none if some labels are hidden and methods are not
    tuned, else those that are kept."""
    rows: int | None = pydantic.Field(default=None, ge=10)
    """Take only this many rows of each dataset; recorded as a fidelity of its own."""
    categorical: tuple[str, ...] = ()
    """Columns of FILE:TARGET data to take as categories."""
    numeric: tuple[str, ...] = ()
    """Columns of FILE:TARGET data to take as numbers; what is not one is missing."""
    drop: tuple[str, ...] = ()
    """Columns of FILE:TARGET data to leave out."""
    task: Literal["", "classification", "regression"] = ""
    """Of FILE:TARGET data, instead of what the target looks like."""
    unlabelled: str = "keep"
    """Rows of FILE:TARGET data without a target: keep them for pretraining, drop them, or a file with more of them."""
    split_column: str = ""
    """The column that says which rows are for training, validation and test, or in which fold a row is tested."""
    group: str = ""
    """Rows with the same value in this column stay on one side."""
    time: str = ""
    """Train on the rows that come first by this column, test on those that come last."""
    folds: int | str = 0
    """Cross-validation with this number of folds; ``server`` takes the folds that a dataset comes with."""
    duplicates: Literal["keep", "group"] = "keep"
    """``group`` keeps equal rows on one side."""
    transductive: bool = False
    """Pretraining may use unlabelled rows of the test side; recorded and flagged."""
    class_weights: Literal["", "balanced"] = ""
    """``balanced``: in training every class counts the same. Scores are not weighted; tables with numbers as targets
    are run without."""
    weights: str = ""
    """The column that holds the weights of training rows; it is not a feature. Scores are not weighted."""
    metric: str = ""
    """What tuning, early stopping, the probe and ranks look at; by default accuracy and RMSE. Tables of another kind of
    task keep their default."""
    threads: int = pydantic.Field(default=1, ge=1)
    """Threads of each job. Sums in another order have other last digits, and trainings make much of them: results with
    other threads are other results."""
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
        """How files are read; the columns that decide the split are kept."""
        kept = self.rule.columns
        task = self.task or None
        return Reading(self.categorical, self.numeric, self.drop, task, kept, self.unlabelled, self.weights)

    @property
    def weighting(self) -> Weighting:
        """How training rows are weighted."""
        return Weighting(self.weights, self.class_weights == "balanced")

    def to_json(self) -> Entries:
        value: Entries = self.model_dump(mode="json", by_alias=True)
        return value


NAMES = tuple(field.alias or name for name, field in Spec.model_fields.items())
"""What an experiment can say."""
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
    "duplicates": ("way with duplicates", ("keep", "group")),
    "class_weights": ("value of class_weights", ("balanced",)),
    "controls": ("control", get_args(Control)),
    "sampler": ("sampler", get_args(Sampler)),
    "protocol": ("protocol", get_args(Protocol)),
    "validation_labels": ("value of validation_labels", get_args(ValidationLabels)),
    "probe": ("value of probe", get_args(Probing)),
}
"""Entries with few possible values: what one of them is called, and which there are."""


def make_spec(given: Entries, default_preset: Preset = "standard") -> Spec:
    """A Spec from what was given; what was not comes from the preset."""
    _check_names(given)
    preset = given.get("preset", default_preset)
    if not isinstance(preset, str) or preset not in PRESETS:
        raise unknown("preset", str(preset), PRESETS)
    try:
        spec = Spec.model_validate({**PRESETS[preset], "preset": preset, **given})
    except pydantic.ValidationError as error:
        raise _explain(error) from None
    if spec.ssl_trials and not spec.is_probed:
        raise UsageError("--probe never: SSL methods are tuned by the probe; add --ssl-trials 0")
    spec.rule.count(spec.splits)  # rules that do not exist are refused before anything else is done
    assert spec.reading
    return spec


def _check_names(given: Entries) -> None:
    for name in given:
        if name not in NAMES:
            raise UsageError(f"Unknown entry {name!r} in the experiment.{did_you_mean(name, NAMES)}")


def _explain(error: pydantic.ValidationError) -> UsageError:
    """The first fault that pydantic found, in the words of the user."""
    first = error.errors()[0]
    entry = str(first["loc"][0])
    if first["type"] == "literal_error" and entry in CHOICES:
        what, possible = CHOICES[entry]
        return unknown(what, str(first["input"]), possible)
    if first["type"] == "too_short":
        return UsageError(f"The list {entry!r} of the experiment is empty: name at least one")
    place = ".".join(str(part) for part in first["loc"])
    return UsageError(f"Bad entry {place!r} in the experiment: {first['msg']} (given: {first['input']!r})")


def merge_entries(experiment: Entries, said: Entries) -> Entries:
    """The entries of an experiment file, with what the user says instead."""
    chosen = {name: value for name, value in said.items() if name != "set"}
    # Settings of a plugin go with it when the user leaves it out of the file's list.
    left_out = {
        name for kind in LISTS if kind in chosen for name in experiment.get(kind, []) if name not in chosen[kind]
    }
    settings = {name: dict(values) for name, values in experiment.get("set", {}).items() if name not in left_out}
    for name, values in said.get("set", {}).items():
        settings[name] = settings.get(name, {}) | values
    return {**experiment, **chosen, "set": settings}


def read_experiment(path: Path) -> Entries:
    """The entries of an experiment file (TOML), each of the type that ``Spec`` has; a lone name is a list of one.

    Raises:
        UsageError: the file cannot be read, or one of its entries is unknown or of another type.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"There is no experiment file {path}") from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder; an experiment file (TOML) is needed") from None
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
            raise _wrong_type(name, value, f'a list of names is needed, such as {name} = ["a", "b"]')
        return names
    if name in WORDS:
        if not isinstance(value, str):
            raise _wrong_type(name, value, f'one name is needed, such as {name} = "a"')
    elif name == "set":
        example = "write [set.NAME] and below it KEY = VALUE"
        if not isinstance(value, dict):
            raise _wrong_type(name, value, example)
        for plugin, settings in value.items():
            if not isinstance(settings, dict):
                raise _wrong_type(f"set.{plugin}", settings, example)
    elif name == "transductive":
        if not isinstance(value, bool):
            raise _wrong_type(name, value, "true or false is needed")
    elif name == "folds" and value == "server":
        return value
    elif not isinstance(value, int) or isinstance(value, bool):  # all that is left are numbers of something
        raise _wrong_type(name, value, "a whole number is needed")
    return value


def _wrong_type(name: str, value: Any, wanted: str) -> UsageError:
    return UsageError(f"{name} = {value!r}: {wanted}")


def parse_setting(text: str) -> tuple[str, str, Any]:
    """``"tjepa.dim_hidden=64"`` as ``("tjepa", "dim_hidden", 64)``. Values are JSON; what is not JSON is a string."""
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
        settings.setdefault(plugin, {})[key] = value
    return settings
