"""BibTeX for everything used in some results: tabbench, plugins and libraries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import resources

from tabbench import __version__
from tabbench.errors import PluginError, UsageError
from tabbench.experiment.controls import method_of
from tabbench.registry import Entry, Registry
from tabbench.results.record import Record

OWN = f"""\
@software{{tabbench,
  title   = {{tabbench: a benchmark harness for self-supervised learning on tabular data}},
  author  = {{{{The tabbench maintainers}}}},
  version = {{{__version__}}},
  license = {{MIT}},
}}
"""
LIBRARIES = {
    "torch": "paszke2019pytorch",
    "scikit-learn": "pedregosa2011scikit",
    "numpy": "harris2020numpy",
    "pandas": "mckinney2010pandas",
    "optuna": "akiba2019optuna",
}
"""Libraries behind every result, or every tuned one, and their entries in ``libraries.bib``."""
ENTRY = re.compile(r"^@\w+\{([^,\s]+),.*?^\}", re.MULTILINE | re.DOTALL)


def read_bibtex(entry: Entry) -> str:
    """The BibTeX entries of a plugin; empty if it has none."""
    source = entry.plugin.bibtex.strip()
    if not source or source.startswith("@"):
        return source
    package, _, file = source.partition(":")
    try:
        return resources.files(package).joinpath(file).read_text(encoding="utf-8")
    except (OSError, ModuleNotFoundError):
        raise PluginError(f"plugin of {entry.distribution}: its bibtex={source!r} cannot be read") from None


def participants(records: Iterable[Record], registry: Registry) -> tuple[list[Entry], set[str]]:
    """Methods, models and datasets of records, and the names of those not installed here."""
    names: dict[tuple[str, str], None] = {}
    for record in records:
        names |= dict.fromkeys([("ssl", method_of(record.ssl)), ("model", record.model), ("data", record.data)])
    entries, unknown = [], set()
    for kind, name in names:
        try:
            entries.append(registry.find(kind, name))
        except UsageError:
            if kind != "data":  # a user's own file has no paper
                unknown.add(name)
    return entries, unknown


def make_bibtex(entries: Iterable[Entry], tuned: bool = True) -> str:
    """One BibTeX file: tabbench first, then plugins, then libraries, without duplicates."""
    libraries = resources.files("tabbench.results").joinpath("libraries.bib").read_text(encoding="utf-8")
    wanted = {key for library, key in LIBRARIES.items() if tuned or library != "optuna"}
    found: dict[str, str] = {}
    for text in (OWN, *map(read_bibtex, entries)):
        found |= {match[1]: match[0] for match in ENTRY.finditer(text) if match[1] not in found}
    found |= {match[1]: match[0] for match in ENTRY.finditer(libraries) if match[1] in wanted}
    return "\n\n".join(found.values()) + "\n"
