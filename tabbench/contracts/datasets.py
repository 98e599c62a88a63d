"""What authors of datasets subclass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray


@dataclass(frozen=True)
class LoadedData:
    """A dataset as its loader gives it: everything still in one piece, nothing fitted."""

    frame: pd.DataFrame
    """Features and target, one row per example."""
    target: str
    """Name of the target column."""
    task: Literal["classification", "regression"]
    categorical: tuple[str, ...] = ()
    """Feature columns that hold categories; all others must be numeric."""
    source: str = ""
    """Where the rows are from, for the record."""
    notes: tuple[str, ...] = field(default=())
    """What the user should know: columns dropped, types guessed."""
    licence: str = ""
    """Under which terms the rows may be used, as their authors put it."""
    citation: str = ""
    """What to cite when results on this table are published."""
    homepage: str = ""
    """Where to read about the table."""
    dates: tuple[str, ...] = ()
    """Numeric columns that count days: regular steps do not make them row numbers."""
    keep: tuple[str, ...] = ()
    """Columns that decide a split: kept, whatever they look like."""
    unlabelled: pd.DataFrame | None = None
    """More rows, without the target: pretraining may use them. ``frame`` may hold rows without a target, too."""
    folds: NDArray[np.int16] | None = None
    """(rows, repeats): the fold in which a row is tested, -1 for never; None if the table comes without folds."""


class Dataset(ABC):
    """A table that can be loaded by name. What it loads is checked, cached and hashed by the harness."""

    @abstractmethod
    def load(self, cache: Path, offline: bool) -> LoadedData:
        """Load the table, from the network only if not ``offline``; downloads are kept below ``cache``.

        Raises:
            DataError: it cannot be had, or is not what it should be; the message says what to do.
        """

    def accept(self, loaded: LoadedData) -> LoadedData | None:
        """Check a table that a user imports under this dataset's name, and bring it to the form that ``load`` gives.

        None leaves it to the harness, which compares the table with what ``load`` gives offline. A dataset that must be
        downloaded overrides this with checks of its own, or cannot be imported.

        Raises:
            DataError: it is another table; the message says what was expected and what was found.
        """
        return None


class DataScheme(ABC):
    """A prefix of ``--data``, such as ``openml:`` or ``hf:``, under which there are more tables than one could list."""

    @abstractmethod
    def expand(
        self, reference: str, cache: Path, *, offline: bool = False, refresh: bool = False
    ) -> dict[str, Dataset]:
        """The datasets that a reference stands for: one, or those of a suite, in its order.

        Nothing but the list is loaded. Each key is the full reference of one table: expanding it gives that table
        alone, under the same key. It is the name of the table in results.

        Args:
            reference: as the user wrote it, with the prefix.
            cache: lists that came over the network are kept below this folder, and read from there the next time.
            offline: nothing may be loaded over the network.
            refresh: load the list again, though it is there.

        Raises:
            UsageError: the scheme has no such reference; the message says which forms there are.
            DataError: the list cannot be had; the message says what to do.
        """
