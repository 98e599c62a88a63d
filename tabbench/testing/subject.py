"""The subject of a check: a class with settings, and everything a check needs to try it."""

from __future__ import annotations

import tempfile
import unittest
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from tabbench.config import Config, preset_settings
from tabbench.context import Context
from tabbench.contracts import DataScheme, Dataset, DownstreamModel, Executor, JointMethod, Reference, SSLMethod
from tabbench.errors import PluginError, TabbenchError, UsageError, unknown
from tabbench.experiment.controls import NONE, UNTRAINED
from tabbench.hookspecs import KIND_NAMES, KINDS, Plugin
from tabbench.registry import Entry, Registry, make_registry
from tabbench.testing.tables import make_labels, make_table
from tabbench.values import Features, Labelled, Table, Task

Value = TypeVar("Value")
Kind = Literal["ssl", "joint_representation", "joint_predictions", "model", "data", "executor", "reference", "scheme"]
KIND_OF_CLASS: tuple[tuple[type, str], ...] = (
    (SSLMethod, "ssl"),
    (JointMethod, "joint"),
    (DownstreamModel, "model"),
    (Dataset, "data"),
    (Executor, "executor"),
    (Reference, "reference"),
    (DataScheme, "scheme"),
)
CHECKED = ("ssl", "model", "data", "executor", "reference", "scheme")
"""Kinds of plugins that there are checks for."""
OTHER_WORDS = {"models": "model", "dataset": "data", "datasets": "data", "executors": "executor"}
CHECK_PRESETS = ("check", "quick")
"""A plugin is checked with the first of these presets that it has."""
SHAPES: Mapping[str, tuple[int, int]] = {"mixed": (4, 2), "numeric": (4, 0), "categorical": (0, 3)}
"""Numeric and categorical columns of the tables that checks use, the first that the plugin does not refuse."""


class CheckFailed(AssertionError):  # noqa: N818 - a verdict, not a mistake of the program
    """A promise was broken; the message says how."""


class CheckSkipped(unittest.SkipTest):
    """The promise does not apply, or cannot be judged; pytest takes it as a skip."""


@dataclass(eq=False)
class Subject:
    """A plugin's class with the settings it is checked with."""

    kind: Kind
    load: Callable[[], type]
    """Imports the class."""
    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What differs from the preset ``check`` or ``quick``."""
    entry: Entry | None = None
    """Its registration; None for a class that no plugin offers."""
    note: str = ""
    """What the last check adds, such as the sentence of a refusal."""
    time_limit: float = 120.0
    """Seconds that one check may take."""
    cannot_train: bool = False
    """Whether training failed: checks that need it are then skipped."""
    _memory: dict[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.kind == "executor":  # a cluster may have to find a place first
            self.time_limit = max(self.time_limit, 300.0)

    def __str__(self) -> str:
        return self.name

    @property
    def plugin(self) -> Plugin | None:
        return self.entry.plugin if self.entry is not None else None

    def once(self, what: str, make: Callable[[], Value]) -> Value:
        """The value of ``make()``, which only the first call computes."""
        if what not in self._memory:
            self._memory[what] = make()
        found: Value = self._memory[what]
        return found

    # Settings and objects.

    @property
    def config_class(self) -> type[Config]:
        found: type[Config] = self.load().Config  # type: ignore[attr-defined]
        return found

    def make(self) -> Any:
        """A new object with the settings of the check."""
        cls = self.load()
        if self.kind in ("data", "reference", "scheme"):
            return cls(**(self.plugin.arguments if self.plugin else {}), **self.settings)
        presets = self.config_class.presets()
        base = next((presets[name] for name in CHECK_PRESETS if name in presets), {})
        settings = preset_settings(base)
        return cls(self.config_class.resolve({**settings, **self.settings}, self.name))

    # Encoders.

    def train(self, table: Table, context: Context | None = None) -> Any:
        """A new encoder trained on ``table``; methods that use labels get some."""
        method = self.make()
        context = context or Context()
        method.device = context.device
        if isinstance(method, JointMethod):
            held_out = make_like(table, rows=24, seed=99)
            y, task = make_labels(table, "multiclass")
            method.fit(Labelled(table, y), Labelled(held_out, make_labels(held_out, "multiclass")[0]), task, context)
        else:
            method.pretrain(table, context)
        return method

    def shape(self) -> tuple[int, int]:
        """Columns of a table that the plugin does not refuse by name."""

        def try_all() -> tuple[int, int]:
            self.make()  # that the settings are refused is no refusal of a table
            refusal: TabbenchError | None = None
            for numeric, categorical in SHAPES.values():
                try:
                    self._try_shape(make_table(numeric=numeric, categorical=categorical))
                except TabbenchError as error:
                    refusal = refusal or error
                else:
                    return numeric, categorical
            raise CheckFailed(f"it refuses every table; the first refusal: {refusal}")

        return self.once("shape", try_all)

    def trained(self) -> Any:
        """The shared encoder or learner, whichever the plugin has."""
        return self.encoder() if self.kind in ("ssl", "joint_representation") else self.fitted()

    def _try_shape(self, table: Table) -> None:
        if self.kind in ("ssl", "joint_representation"):
            self.train(table)
        else:
            self.fit(table, "multiclass")

    def table(self, rows: int = 64, seed: int = 0) -> Table:
        """Rows of a table that the plugin does not refuse."""
        numeric, categorical = self.shape()
        return make_table(rows, numeric, categorical, seed=seed)

    def encoder(self) -> Any:
        """A trained encoder that checks share: they only encode with it."""
        return self.once("encoder", lambda: self.train(self.table()))

    def embed(self, table: Table, encoder: Any = None) -> NDArray[np.float32]:
        """What an encoder (the shared one) makes of rows."""
        array: NDArray[np.float32] = (self.encoder() if encoder is None else encoder).encode(table).array
        return array

    # Models.

    def learner(self) -> Any:
        """A new object with ``fit(train, validation, task, context)`` and ``predict(features)``."""
        return JointLearner(self.make()) if self.kind == "joint_predictions" else self.make()

    def fit(
        self,
        table: Table,
        kind: Literal["binary", "multiclass", "regression"],
        present: Callable[[Table], Features] = lambda table: table,
        context: Context | None = None,
    ) -> tuple[Any, Task]:
        """A learner fitted to labels of ``table``; ``present`` says in which form it sees the rows."""
        y, task = make_labels(table, kind)
        held_out = make_like(table, rows=32, seed=99)
        learner = self.learner()
        learner.fit(
            Labelled(present(table), y),
            Labelled(present(held_out), make_labels(held_out, kind)[0]),
            task,
            context or Context(),
        )
        return learner, task

    def fitted(self) -> Any:
        """A learner that checks share: they only predict with it."""
        return self.once("fitted", lambda: self.fit(self.table(96), "multiclass")[0])


class JointLearner:
    """A joint method that gives predictions, with a small network to train, as if it were a model."""

    def __init__(self, method: JointMethod) -> None:
        self.method = method

    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        from tabbench.testing.network import SmallNetwork

        self.method.device = context.device
        self.method.fit(train, validation, task, context, SmallNetwork())

    def predict(self, features: Features) -> NDArray[np.float32]:
        return self.method.predict(features)


def make_like(table: Table, rows: int, seed: int) -> Table:
    """Other rows with the columns of ``table``."""
    return make_table(rows, len(table.schema.numeric), len(table.schema.categorical), seed=seed)


def find_subject(
    plugin: type | str | Subject,
    *,
    kind: str | None = None,
    settings: Mapping[str, Any] | None = None,
    files: Iterable[Path | str] = (),
) -> Subject:
    """The subject behind a class or the name of a registered plugin; a Subject is given back as it is."""
    if isinstance(plugin, Subject):
        return plugin
    registry = make_registry(files)
    if isinstance(plugin, str):
        entry = _find_entry(registry, plugin, kind)
        return Subject(_kind_of_entry(entry), lambda: _load(registry, entry), entry.name, settings or {}, entry)
    target = f"{plugin.__module__}:{plugin.__qualname__}"
    found = next((entry for entry in registry.entries() if entry.plugin.target == target), None)
    return Subject(_kind_of_class(plugin), lambda: plugin, plugin.__name__, settings or {}, found)


def _load(registry: Registry, entry: Entry) -> type:
    loaded: type = registry.load(entry)
    return loaded


def _find_entry(registry: Registry, name: str, kind: str | None) -> Entry:
    if kind is not None:
        chosen = OTHER_WORDS.get(kind.lower(), kind.lower())
        if chosen not in KINDS:
            raise unknown("kind of plugin", kind, CHECKED)
        return registry.find(chosen, name)
    found = [entry for each in CHECKED if (entry := _find(registry, each, name)) is not None]
    if len(found) > 1:
        wanted = " and a ".join(KIND_NAMES[entry.kind] for entry in found)
        raise UsageError(f"{name!r} is a {wanted}: say which with --kind")
    if not found:
        raise unknown("plugin", name, [each for kind in CHECKED for each in registry.names(kind)])
    return found[0]


def _find(registry: Registry, kind: str, name: str) -> Entry | None:
    try:
        return registry.find(kind, name)
    except PluginError:  # the name is known, but its plugin is broken
        raise
    except UsageError:
        return None


def _kind_of_entry(entry: Entry) -> Kind:
    if entry.kind == "ssl" and entry.plugin.uses_labels:
        return "joint_predictions" if entry.plugin.gives == "predictions" else "joint_representation"
    if entry.kind == "ssl" and entry.name in (NONE, UNTRAINED):
        raise UsageError(f"{entry.name!r} is a control, not a method: there is nothing to check")
    return entry.kind  # type: ignore[return-value]


def _kind_of_class(cls: type) -> Kind:
    for base, kind in KIND_OF_CLASS:
        if issubclass(cls, base):
            return f"joint_{cls.gives}" if kind == "joint" else kind  # type: ignore[attr-defined,return-value]
    wanted = ", ".join(base.__name__ for base, _ in KIND_OF_CLASS)
    raise UsageError(f"{cls.__name__} is not a subclass of {wanted}: there is nothing to check")


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder that is gone after the check."""
    return tempfile.TemporaryDirectory(prefix="tabbench-check-")
