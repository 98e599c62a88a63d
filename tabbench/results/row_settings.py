"""The settings in a row's name: each one, its owner, and which of them distinguish rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tabbench.experiment.controls import method_of
from tabbench.results.score_table import Row


def setting_words(variant: str) -> list[str]:
    """The settings of a row, one by one: ``tjepa.n_reg=0``."""
    return re.split(r" (?=[\w-]+\.[\w.]+=)", variant) if variant else []


def split_settings(variant: str, model: str) -> tuple[str, str]:
    """The settings of a row: those of its method, and those of its model, which a raw row has too."""
    words = setting_words(variant)
    own = [word for word in words if word.startswith(f"{model}.")]
    return " ".join(word for word in words if word not in own), " ".join(own)


class SharedSettings:
    """Settings that all rows of a method or model share. They are printed once; a row's name has only the others."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.shared: dict[str, list[str]] = {}
        for row in rows:
            words = setting_words(row.variant)
            for owner in (method_of(row.ssl), row.model):
                own = [word for word in words if word.startswith(f"{owner}.")]
                self.shared[owner] = [word for word in self.shared.get(owner, own) if word in own]

    def tag(self, variant: str, ssl: str = "") -> str:
        """What distinguishes this row from others of the same name; empty if nothing does.

        Args:
            variant: all settings of the row.
            ssl: the method whose name the tag follows; its settings are written without that name.
        """
        known = {word for words in self.shared.values() for word in words}
        prefix = f"{method_of(ssl)}."
        return " ".join(word.removeprefix(prefix) for word in setting_words(variant) if word not in known)

    def notes(self) -> list[str]:
        """``All rows of tjepa: exp_epochs=40, preset=small.`` Those with the same settings share a line."""
        owners: dict[str, list[str]] = {}
        for owner, words in sorted(self.shared.items()):
            if words:
                owners.setdefault(", ".join(word.partition(".")[2] for word in words), []).append(owner)
        return [f"All rows of {listed(names)}: {words}." for words, names in owners.items()]


def listed(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
