"""From ``--executor NAME`` and its settings to an executor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tabbench.config import Config, PluginSettings, Settings
from tabbench.errors import UsageError
from tabbench.registry import Entry, Registry


def take_settings(settings: PluginSettings, entry: Entry, registry: Registry) -> Settings:
    """Separate the settings of executors from the rest: how a run is executed does not decide its results.

    Settings of executors other than ``entry`` are ignored: an experiment file may have them for several clusters.
    """
    taken: Settings = {}
    for name in list(settings):
        if name.lower() == entry.name:
            for key, value in settings.pop(name).items():
                if key in taken:
                    raise UsageError(f"{key!r} of the executor {entry.name!r} is given twice: give it once")
                taken[key] = value
        elif name.lower() in registry.names("executor"):
            settings.pop(name)
    return taken


def refuse_unused(names: Iterable[str], entry: Entry, registry: Registry) -> None:
    """Refuse a setting given for an executor that is not used: it would have no effect."""
    for name in names:
        if name.lower() != entry.name and name.lower() in registry.names("executor"):
            raise UsageError(
                f"--set {name}: this run uses --executor {entry.name}; add --executor {name}, or leave it out"
            )


def make_config(registry: Registry, entry: Entry, settings: Settings) -> Config:
    """The Config of an executor; ``{"pretrain.gpus": 1}`` sets a part of the setting ``pretrain``."""
    return registry.load_config(entry).resolve(nest(settings), entry.name)


def nest(settings: Mapping[str, object]) -> Settings:
    """``{"pretrain.gpus": 1}`` as ``{"pretrain": {"gpus": 1}}``."""
    nested: Settings = {}
    for key, value in settings.items():
        first, dot, rest = key.partition(".")
        if dot:
            nested.setdefault(first, {})[rest] = value
        else:
            nested[first] = value
    return nested
