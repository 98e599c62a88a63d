"""Tables as text cells, before a format is chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

SMALL, LARGE = 1e-6, 1e9
"""Numbers beyond these are written with an exponent."""
UNITS = {"time": "seconds", "rmse_std": "rmse in std"}
"""Headers of metrics whose names alone are not clear."""
Place = Literal["best", "second", ""]


@dataclass(frozen=True)
class Text:
    """One cell."""

    text: str
    place: Place = ""


@dataclass(frozen=True)
class Grid:
    """A table for people."""

    headers: list[str]
    """A line break separates a name from its unit."""
    lines: list[list[Text]]
    notes: list[str]
    """Notes that a reader needs."""
    names: int = 2
    """How many columns name the row; they are aligned to the left."""
    rules: frozenset[int] = field(default_factory=frozenset)
    """Lines before which another group of rows begins."""
    about_bold: str = ""
    """What bold cells are, where it is not obvious: a note for formats that show them."""

    @property
    def all_notes(self) -> list[str]:
        """The notes of formats that show which cells are the best."""
        return [*self.notes, *filter(None, [self.about_bold])]


def unit_name(metric: str) -> str:
    return UNITS.get(metric, metric)


def number_style(value: float) -> str:
    """How to write a number with at least three significant digits: an error of 1.4e-5 is not 0.000."""
    size = abs(value)
    if size and not SMALL <= size < LARGE:
        return ".2e"
    return f".{2 if size >= 10 else 3 if size >= 0.1 or not size else 2 - math.floor(math.log10(size))}f"


def figure(value: float | None, style: str | None = None) -> str:
    """A number as text; a dash if there is none."""
    return "-" if value is None else f"{value:{style or number_style(value)}}"


def interval_text(mean: float, low: float | None, high: float | None, sign: str = "") -> str:
    """``0.81 [0.79, 0.83]``; without an interval: ``0.81 [not estimable]``."""
    if low is None or high is None:
        return f"{mean:{sign}{number_style(mean)}} [not estimable]"
    style = sign + number_style(max(abs(mean), (high - low) / 2))
    return f"{mean:{style}} [{low:{style}}, {high:{style}}]"
