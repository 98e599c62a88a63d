"""The results of checks: how much they examined, what they found, and what chance explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tabbench.results.audit.release import Release
from tabbench.results.audit.runs import Run

EXAMPLES = 3
"""Number of examples shown for each finding."""

Found = Sequence[tuple[Run, str]]
"""Runs, or the first run of each cell, with what is wrong about it."""


@dataclass(frozen=True)
class Look:
    """What a check saw."""

    total: int
    """How many runs, cells or ranks it examined."""
    found: Found
    by_chance: int = 0
    """How many more look like a finding, but rounding or few test rows can explain them."""


@dataclass(frozen=True)
class Tripwire:
    """One thing to look for, in words."""

    name: str
    what: str
    unit: str
    """What is counted."""
    why: str
    """Why it matters."""
    look: Callable[[Release], Look | str]
    """The check itself; it returns a text if there is nothing to check, and that says why."""


@dataclass(frozen=True)
class Example:
    """One of the places that a finding is about."""

    name: str
    detail: str
    where: str


@dataclass(frozen=True)
class Finding:
    """Something in a release that should not be there."""

    check: str
    what: str
    count: int
    total: int
    unit: str
    why: str
    examples: tuple[Example, ...]


def make_finding(check: Tripwire, look: Look) -> Finding:
    """Combine a check's text with what it found; examples come from different datasets if there are several."""
    seen: dict[str, int] = {}
    places = []
    for run, detail in look.found:
        seen[run.dataset] = seen.get(run.dataset, 0) + 1
        places.append((seen[run.dataset], Example(run.name, detail, run.where)))
    first = sorted(places, key=lambda place: place[0])[:EXAMPLES]
    examples = tuple(example for _, example in first)
    return Finding(check.name, check.what, len(look.found), look.total, check.unit, check.why, examples)
