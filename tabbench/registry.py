"""Entry points -> pluggy -> Registry. The sole user of the plugin manager.

Plugins are loaded one by one. A broken one becomes a ``Problem`` that names its distribution; the others still work.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

import pluggy

from tabbench import hookspecs
from tabbench.errors import FILE_MODULE, PluginError, UsageError, near_file, unknown
from tabbench.hookspecs import CONTRACT_VERSION, KIND_NAMES, KINDS, Plugin

if TYPE_CHECKING:
    from tabbench.config import Config, PluginSettings

GROUP = "tabbench"
DISABLED_VARIABLE = "TABBENCH_DISABLED_PLUGINS"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
CLASS_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class SettingShape(TypedDict):
    """One setting of a plugin, for ``tabbench show --json``."""

    name: str
    aliases: list[str]
    type: str
    default: object
    range: str | None
    description: str


class EntryShape(TypedDict):
    """A plugin, for ``tabbench list --json`` and ``tabbench show --json``."""

    kind: str
    name: str
    summary: str
    paper: str
    url: str
    code: str
    aliases: list[str]
    groups: list[str]
    uses_labels: bool
    distribution: str
    version: str
    settings: NotRequired[list[SettingShape]]
    presets: NotRequired[PluginSettings]
    arguments: NotRequired[dict[str, str]]


@dataclass(frozen=True)
class Entry:
    """Something that a plugin offers, and the distribution it comes from."""

    kind: str
    plugin: Plugin
    distribution: str
    version: str
    file: Path | None = None
    """The file of ``--plugin FILE``; None for installed plugins."""
    module: str = ""
    """The module that holds the hooks."""

    @property
    def name(self) -> str:
        return self.plugin.name

    @property
    def names(self) -> set[str]:
        """Its name and its aliases, in lower case."""
        return {self.name, *(alias.lower() for alias in self.plugin.aliases)}

    @property
    def revision(self) -> int | str:
        """The code's entry in the key of a result: the plugin's revision, or a hash of an unpublished file."""
        if self.file is None:
            return self.plugin.revision
        return file_revision(self.file)

    def to_json(self) -> EntryShape:
        return {
            "kind": self.kind,
            "name": self.name,
            "summary": self.plugin.summary,
            "paper": self.plugin.paper,
            "url": self.plugin.url,
            "code": self.plugin.code,
            "aliases": list(self.plugin.aliases),
            "groups": list(self.plugin.groups),
            "uses_labels": self.plugin.uses_labels,
            "distribution": self.distribution,
            "version": self.version,
        }


@dataclass(frozen=True)
class Problem:
    """A plugin that could not be loaded, and why."""

    distribution: str
    message: str
    names: frozenset[tuple[str, str]] = frozenset()
    """(kind, name) of what is missing because of it, if known."""

    def __str__(self) -> str:
        return f"plugin of {self.distribution}: {self.message}"


@dataclass
class Registry:
    """Everything that can be used by name."""

    _entries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def entries(self, kind: str | None = None) -> list[Entry]:
        """All entries, or those of a kind, by kind and name."""
        order = list(KINDS)
        chosen = [entry for entry in self._entries.values() if kind in (None, entry.kind)]
        return sorted(chosen, key=lambda entry: (order.index(entry.kind), entry.name))

    def names(self, kind: str) -> list[str]:
        return [entry.name for entry in self.entries(kind)]

    def groups(self) -> dict[str, list[Entry]]:
        """Datasets by the name of their group."""
        found: dict[str, list[Entry]] = {}
        for entry in self.entries("data"):
            for group in entry.plugin.groups:
                found.setdefault(group, []).append(entry)
        return found

    def find(self, kind: str, name: str) -> Entry:
        """The entry with this name or alias, in upper or lower case."""
        wanted = name.lower()
        for entry in self.entries(kind):
            if wanted == entry.name or wanted in (alias.lower() for alias in entry.plugin.aliases):
                return entry
        for problem in self.problems:
            if (kind, wanted) in problem.names:
                raise PluginError(f"{KIND_NAMES[kind]} {name!r} cannot be used: {problem}")
        available = self.names(kind) + (list(self.groups()) if kind == "data" else [])
        raise unknown(KIND_NAMES[kind], name, available)

    def load(self, entry: Entry) -> Any:
        """Import the class behind an entry."""
        for package in entry.plugin.needs:
            if importlib.util.find_spec(package) is None:
                raise PluginError(
                    f"{KIND_NAMES[entry.kind]} {entry.name!r} needs the package {package!r}, which is not installed: "
                    f"pip install {package}"
                )
        found = import_class(entry.plugin.target, entry.distribution)
        wanted = _contract(entry)
        if not (isinstance(found, type) and issubclass(found, wanted)):
            raise PluginError(
                f"plugin of {entry.distribution}: {entry.plugin.target} is not a subclass of tabbench.{wanted.__name__}"
            )
        return found

    def load_config(self, entry: Entry) -> type[Config]:
        """The Config class of an entry. If the plugin names it separately, no heavy library is imported."""
        if entry.plugin.config:
            return cast("type[Config]", import_class(entry.plugin.config, entry.distribution))
        return cast("type[Config]", self.load(entry).Config)


def _contract(entry: Entry) -> type:
    """What the class behind an entry must be."""
    from tabbench import contracts

    if entry.kind == "ssl":
        return contracts.JointMethod if entry.plugin.uses_labels else contracts.SSLMethod
    of_kind: dict[str, type] = {
        "model": contracts.DownstreamModel,
        "data": contracts.Dataset,
        "executor": contracts.Executor,
        "reference": contracts.Reference,
        "scheme": contracts.DataScheme,
    }
    return of_kind[entry.kind]


def import_class(path: str, distribution: str) -> Any:
    """Import ``"package.module:Class"``. Any failure is one line that names the distribution."""
    module_name, _, class_name = path.partition(":")
    try:
        return getattr(importlib.import_module(module_name), class_name)
    except Exception as error:
        raise PluginError(f"plugin of {distribution}: cannot import {path}: {_one_line(error)}") from error


def make_registry(
    files: Iterable[Path | str] = (),
    points: Sequence[EntryPoint] | None = None,
    disabled: Iterable[str] | None = None,
) -> Registry:
    """Collect what installed plugins and ``files`` offer.

    Args:
        files: unpublished plugins (``--plugin FILE``).
        points: entry points instead of the installed ones, for tests.
        disabled: entry-point or distribution names to leave out; by default from ``TABBENCH_DISABLED_PLUGINS``.
    """
    if disabled is None:
        disabled = os.environ.get(DISABLED_VARIABLE, "").split(",")
    blocked = {name.strip() for name in disabled if name.strip()}
    registry = Registry()
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    offers: list[Entry] = []
    for point in entry_points(group=GROUP) if points is None else points:
        distribution, version = _origin(point)
        if point.name in blocked or distribution in blocked:
            continue
        try:
            module = point.load()
        except (Exception, SystemExit) as error:
            # We cannot know what it would have offered; by convention, a plugin offers the name of its entry point.
            names = frozenset((kind, point.name) for kind in KINDS)
            registry.problems.append(Problem(distribution, f"cannot import {point.value}: {_one_line(error)}", names))
            continue
        offers += _take(registry, manager, module, distribution, version)
    for file in files:
        path = Path(file)
        module = load_file(path)
        if manager.is_registered(module):  # the same file a second time
            continue
        found = _take(registry, manager, module, str(path), "unpublished", path.resolve())
        if not found:
            faults = [problem.message for problem in registry.problems if problem.distribution == str(path)]
            why = faults[0] if faults else "no function marked @hookimpl returns a plugin"
            raise PluginError(f"--plugin {path}: {why}")
        offers += found
    _settle(registry, offers)
    return registry


def load_file(path: Path) -> ModuleType:
    """Import an unpublished plugin under a name derived from its content; a second call gives the same module."""
    name = f"{FILE_MODULE}{re.sub(r'[^a-z0-9]', '_', path.stem.lower())}_{file_revision(path)}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a script that ends with sys.exit(0) must not end us silently
        del sys.modules[name]
        raise PluginError(f"--plugin {path}: cannot import it: {_one_line(error)}") from error
    return module


def file_revision(path: Path) -> str:
    """The revision of an unpublished plugin: the start of its file's hash. Imports nothing.

    Raises:
        UsageError: it is not a Python file.
    """
    if not path.is_file():
        raise UsageError(f"--plugin {path}: there is no such file.{near_file(path)}")
    if path.suffix != ".py":
        raise UsageError(f"--plugin {path}: not a Python file")
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def _origin(point: EntryPoint) -> tuple[str, str]:
    distribution = point.dist
    return (distribution.name, distribution.version) if distribution is not None else (point.value, "unknown")


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _take(
    registry: Registry,
    manager: pluggy.PluginManager,
    module: ModuleType,
    distribution: str,
    version: str,
    file: Path | None = None,
) -> list[Entry]:
    """Register one module and return the valid descriptors of its hooks."""
    unknown_hooks = [name for name in vars(module) if name.startswith("tabbench_") and _is_hook(module, name, manager)]
    if unknown_hooks:
        known = ", ".join(KINDS.values())
        registry.problems.append(
            Problem(distribution, f"{unknown_hooks[0]} is not a hook of tabbench. Available: {known}")
        )
    manager.register(module)
    return list(_offers(registry, manager, module, distribution, version, file))


def _is_hook(module: ModuleType, name: str, manager: pluggy.PluginManager) -> bool:
    marked = manager.parse_hookimpl_opts(module, name) is not None
    return marked and name not in KINDS.values()


def _offers(
    registry: Registry,
    manager: pluggy.PluginManager,
    module: ModuleType,
    distribution: str,
    version: str,
    file: Path | None,
) -> Iterator[Entry]:
    for kind, hook_name in KINDS.items():
        hook = getattr(manager.hook, hook_name)
        for implementation in hook.get_hookimpls():
            if implementation.plugin is not module:
                continue
            try:
                plugins = list(implementation.function())
            except (Exception, SystemExit) as error:
                registry.problems.append(Problem(distribution, f"{hook_name}() failed: {_one_line(error)}"))
                continue
            for plugin in plugins:
                fault = _fault(plugin)
                if fault:
                    name = getattr(plugin, "name", "?")
                    registry.problems.append(Problem(distribution, fault, frozenset({(kind, str(name))})))
                else:
                    yield Entry(kind, plugin, distribution, version, file, module.__name__)


def _fault(plugin: object) -> str:
    """What is wrong with a descriptor; empty if nothing."""
    if not isinstance(plugin, Plugin):
        return f"a hook must return tabbench.Plugin descriptors, not {type(plugin).__name__}"
    if plugin.contract != CONTRACT_VERSION:
        return (
            f"{plugin.name!r} is written for version {plugin.contract} of the plugin contract, "
            f"but this tabbench has version {CONTRACT_VERSION}: update one of the two"
        )
    if not NAME.fullmatch(plugin.name):
        return f"bad name {plugin.name!r}: lower-case letters, digits, '_' and '-' are allowed"
    if not CLASS_PATH.fullmatch(plugin.target):
        return f"{plugin.name!r} has the bad target {plugin.target!r}: it must look like 'package.module:Class'"
    return ""


def _settle(registry: Registry, offers: Sequence[Entry]) -> None:
    """Add what one distribution offers under a name or an alias; refuse what several offer, naming them all."""
    claims: dict[tuple[str, str], list[Entry]] = {}
    for entry in offers:
        for name in (entry.name, *sorted(entry.names - {entry.name})):
            claims.setdefault((entry.kind, name), []).append(entry)
    for (kind, name), entries in claims.items():
        if len(entries) > 1:
            rivals = " and ".join(entry.distribution for entry in entries)
            what = f"{KIND_NAMES[kind]} {name!r}"
            message = f"{what} is offered by {rivals}: uninstall one, or name one in {DISABLED_VARIABLE}"
            registry.problems.append(Problem(entries[-1].distribution, message, frozenset({(kind, name)})))
        elif entries[0].name == name:
            (entry,) = entries
            own = tuple(alias for alias in entry.plugin.aliases if len(claims[kind, alias.lower()]) == 1)
            registry._entries[kind, name] = replace(entry, plugin=replace(entry.plugin, aliases=own))
