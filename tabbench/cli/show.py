"""``tabbench show``: a plugin with its settings, or one record with its evidence."""

import json
import sys
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer

from tabbench.cli.options import DEFAULT_RESULTS, TO_START, PluginFiles, ResultsFolder
from tabbench.config import preset_settings, read_range
from tabbench.errors import UsageError, did_you_mean
from tabbench.experiment.controls import NONE, UNTRAINED
from tabbench.hookspecs import KIND_NAMES
from tabbench.registry import Entry, EntryShape, Registry, SettingShape, make_registry

if TYPE_CHECKING:
    from tabbench.config import Config
    from tabbench.results.record import Record

SHORTEST = 4
"""Characters of a record's key that tell which one is meant."""


def show(
    name: Annotated[str, typer.Argument(help="Plugin name, or first characters of a record's key.")],
    as_json: Annotated[bool, typer.Option("--json", help="JSON for programs.")] = False,
    plugin: PluginFiles = None,
    results: ResultsFolder = DEFAULT_RESULTS,
) -> None:
    """Show a plugin with its settings and search ranges, or a record with its evidence."""
    registry = make_registry(plugin or [])
    entries = [entry for entry in registry.entries() if name.lower() in entry.names]
    if entries:
        for entry in entries:
            about = describe(registry, entry)
            print(json.dumps(about, indent=1) if as_json else _as_text(about))
        return
    record = find_record(results, name)
    if record is None:
        if len(name) < SHORTEST and not set(name) - set("0123456789abcdef"):
            raise UsageError(
                f"no plugin is called {name!r}; for a record, give at least {SHORTEST} characters of its key"
            )
        known = [entry.name for entry in registry.entries()]
        raise UsageError(f"{name!r} is neither a plugin nor a record in {results}.{did_you_mean(name, known)}")
    print(json.dumps(record.to_json(), indent=1), flush=True)
    if record.traceback:
        print(f"\n{record.traceback}", file=sys.stderr, end="")


def get_record(results: Path, start: str) -> "Record":
    """The record whose key starts with ``start``; an error if there is none."""
    from tabbench.results.files import check_results

    check_results(results, TO_START)
    record = find_record(results, start)
    if record is None:
        raise UsageError(f"no record {start!r} in {results}: give at least the first {SHORTEST} characters of a key")
    return record


def find_record(results: Path, start: str) -> "Record | None":
    """The record whose key starts with ``start``; an error if there are several."""
    from tabbench.results.store import Store

    if len(start) < SHORTEST or not (results / "records").is_dir():
        return None
    found = Store(results).find(start.lower())
    if len(found) > 1:
        raise UsageError(f"{len(found)} records start with {start!r}: give more characters of the key")
    return found[0] if found else None


def describe(registry: Registry, entry: Entry) -> EntryShape:
    """Everything about a plugin, as JSON."""
    about = entry.to_json()
    if entry.kind in ("ssl", "model", "executor") and entry.name not in (NONE, UNTRAINED):
        config = registry.load_config(entry)
        about["settings"] = settings_of(config)
        about["presets"] = {name: dict(values) for name, values in config.presets().items()}
    elif entry.plugin.arguments:
        about["arguments"] = {key: str(value) for key, value in entry.plugin.arguments.items()}
    return about


def settings_of(config: "type[Config]") -> list[SettingShape]:
    """Name, type, default, search range and description of each field."""
    properties = config.model_json_schema().get("properties", {})
    space = config.search_space()
    described: list[SettingShape] = []
    for name, field in config.model_fields.items():
        described.append({
            "name": name,
            "aliases": short_names(config, name),
            "type": type_name(field.annotation),
            "default": None if _parts(field.annotation) else properties.get(name, {}).get("default"),
            "range": str(space[name]) if name in space else None,
            "description": field.description or "",
        })  # fmt: skip
    return described


def short_names(config: "type[Config]", field: str) -> list[str]:
    """Shorter names that ``--set`` takes for a field: ``epochs`` for ``exp_epochs``."""
    words = field.split("_")
    ends = ["_".join(words[start:]) for start in range(1, len(words))]
    return [end for end in ends if end not in config.model_fields and config.full_name(end) == field]


def type_name(annotation: Any) -> str:
    """A type in plain words: ``int or auto``."""
    if _parts(annotation):
        return f"its {', '.join(_parts(annotation))}"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_name(arguments[0])
    if origin in (Union, UnionType):
        return " or ".join(type_name(argument) for argument in arguments)
    if origin is Literal:
        return " | ".join(str(value) for value in arguments)
    if origin is not None:
        inside = ("..." if argument is Ellipsis else type_name(argument) for argument in arguments)
        return f"{origin.__name__}[{', '.join(inside)}]"
    return "none" if annotation in (None, NoneType) else str(annotation.__name__)


def _parts(annotation: Any) -> list[str]:
    """The settings within a setting: ``slurm.pretrain.gpus``."""
    fields = getattr(annotation, "model_fields", None)
    return list(fields) if isinstance(fields, dict) else []


def _as_text(about: EntryShape) -> str:
    lines = [f"{about['name']}: {about['summary']}"]
    labels = ", uses labels" if about["uses_labels"] else ""
    lines.append(f"  {KIND_NAMES[about['kind']]} of {about['distribution']} {about['version']}{labels}")
    for word in ("paper", "url", "code"):
        if about[word]:
            lines.append(f"  {word}: {about[word]}")
    if about["aliases"]:
        lines.append(f"  also called: {', '.join(about['aliases'])}")
    lines += [f"  {key}: {value}" for key, value in about.get("arguments", {}).items()]
    if about.get("settings"):
        lines.append(f"  settings (--set {about['name']}.NAME=VALUE):")
    for setting in about.get("settings", []):
        tuned = f", tuned in {setting['range']}" if setting["range"] else ""
        names = ", ".join([setting["name"], *setting["aliases"]])
        lines.append(f"    {names}: {setting['type']} = {setting['default']}{tuned}")
        lines.append(f"      {' '.join(setting['description'].split()).replace('``', '')}")
    if about.get("presets"):
        lines.append(f"  presets (--set {about['name']}.preset=NAME):")
    for preset, values in about.get("presets", {}).items():
        told = [f"{name}={value}" for name, value in preset_settings(values).items()]
        told += [f"{name} tuned in {read_range(given)}" for name, given in values.get("search", {}).items()]
        shown = ", ".join(told)
        source = f" ({values['source']})" if "source" in values else ""
        lines.append(f"    {preset}: {shown or 'the defaults'}{source}")
    return "\n".join(lines)
