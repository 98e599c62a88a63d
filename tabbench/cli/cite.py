"""``tabbench cite``: BibTeX for everything that contributed to some results."""

import sys
from typing import Annotated

import typer

from tabbench.cli.options import DEFAULT_RESULTS, PluginFiles, ResultsFolder
from tabbench.errors import unknown
from tabbench.registry import Entry, Registry, make_registry


def cite(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Plugins to cite instead of a results folder.")
    ] = None,
    results: ResultsFolder = DEFAULT_RESULTS,
    plugin: PluginFiles = None,
) -> None:
    """Print BibTeX for everything used in a results folder: tabbench, methods, models, data, libraries."""
    from tabbench.results.citations import make_bibtex, participants
    from tabbench.results.files import check_results
    from tabbench.results.store import Store

    registry = make_registry(plugin or [])
    if names:
        print(make_bibtex([entry for name in names for entry in _called(name, registry)]), end="")
        return
    check_results(results, "give --results DIR or plugin names")
    records = Store(results).records()
    entries, lost = participants(records, registry)
    for name in sorted(lost):
        print(f"tabbench: {name} is not installed here, so it is not cited", file=sys.stderr)
    print(make_bibtex(entries, tuned=any(record.trials or record.ssl_trials for record in records)), end="")


def _called(name: str, registry: Registry) -> list[Entry]:
    found = [entry for entry in registry.entries() if name.lower() in entry.names]
    if not found:
        raise unknown("plugin", name, [entry.name for entry in registry.entries()])
    return found
