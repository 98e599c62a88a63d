"""``tabbench list``: everything that can be used by name."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from tabbench import __version__
from tabbench.cli.options import PluginFiles
from tabbench.errors import unknown
from tabbench.hookspecs import KINDS
from tabbench.registry import Entry, Registry, make_registry

PLURALS = {
    "ssl": "ssl",
    "models": "model",
    "data": "data",
    "schemes": "scheme",
    "executors": "executor",
    "references": "reference",
}
HOME = "tabbench-ssl"
"""Our own distribution."""
HEADINGS = {
    "ssl": "SSL methods (--ssl)",
    "model": "Models (--model)",
    "data": "Datasets (--data)",
    "scheme": "Data schemes (--data)",
    "executor": "Executors (--executor)",
    "reference": "References (table --against)",
}


def list_plugins(
    kind: Annotated[
        str | None, typer.Argument(help="ssl, models, data, executors or references; all if omitted.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON array for programs.")] = False,
    plugin: PluginFiles = None,
) -> None:
    """List SSL methods, models, datasets, executors and references, and their packages."""
    chosen = None
    if kind is not None:
        chosen = PLURALS.get(kind.lower(), kind.lower())
        if chosen not in KINDS:
            raise unknown("kind of plugin", kind, PLURALS)
    registry = make_registry([Path(file) for file in plugin or []])
    if as_json:
        print(json.dumps([entry.to_json() for entry in registry.entries(chosen)], indent=1))
    else:
        for each in KINDS:
            if chosen in (None, each):
                _print_kind(registry, each)
        print(f"Entries without a package name ship with {HOME} {__version__}.")
    for problem in registry.problems:
        print(f"tabbench: {problem}", file=sys.stderr)


def _print_kind(registry: Registry, kind: str) -> None:
    entries = registry.entries(kind)
    print(HEADINGS[kind])
    if not entries:
        print("  none")
    width = max((len(_called(entry)) for entry in entries), default=0)
    for entry in entries:
        paper = f" [{entry.plugin.paper}]" if entry.plugin.paper else ""
        labels = " (uses labels)" if entry.plugin.uses_labels else ""
        origin = "" if entry.distribution == HOME else f" ({entry.distribution} {entry.version})"
        print(f"  {_called(entry):<{width}}  {entry.plugin.summary}{labels}{paper}{origin}")
    if kind == "scheme":
        for entry in entries:
            print(f"  {'suites':<{width}}  {', '.join(entry.plugin.shortcuts)}")
    if kind == "data":
        for group, members in registry.groups().items():
            print(f"  {group + ' =':<{width}}  {', '.join(entry.name for entry in members)}")
        print(f"  {'FILE:TARGET':<{width}}  a file (CSV, TSV, parquet, Feather, Excel) and its target column")
    print()


def _called(entry: Entry) -> str:
    return ", ".join((entry.name, *entry.plugin.aliases))
