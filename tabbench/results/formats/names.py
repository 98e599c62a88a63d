"""What to call the rows of a table: settings that tell rows apart stand in their names, shared ones below the table."""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterable, Iterator

from tabbench.results.row_settings import SharedSettings
from tabbench.results.score_table import Row

SHORT = 24
"""Longer settings are printed below the table; the name has a letter for them."""


class RowNames:
    """The names of some rows, and the notes that explain them."""

    def __init__(self, rows: Iterable[Row]) -> None:
        rows = list(rows)
        self._shared = SharedSettings(rows)
        letters = _letters()
        self._marks = {
            tag: tag if len(tag) <= SHORT else next(letters)
            for tag in dict.fromkeys(self._shared.tag(row.variant) for row in rows)
            if tag
        }

    def ssl(self, row: Row) -> str:
        """``tjepa [n_reg=0]``: the method with the settings that distinguish the row."""
        tag = self._shared.tag(row.variant)
        return f"{row.ssl} [{self._marks[tag]}]" if tag else row.ssl

    def notes(self) -> list[str]:
        """The settings that are not in the names, and what letters mean."""
        return self._shared.notes() + [f"[{mark}] {tag}" for tag, mark in self._marks.items() if mark != tag]


def _letters() -> Iterator[str]:
    """a to z, then aa to zz and so on."""
    for length in itertools.count(1):
        yield from map("".join, itertools.product(string.ascii_lowercase, repeat=length))
