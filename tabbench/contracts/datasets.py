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
    """A dataset as loaded: not split yet, nothing fitted."""

    frame: pd.DataFrame
    """Features and target, one row per example."""
    target: str
    """Name of the target column."""
    task: Literal["classification", "regression"]
    categorical: tuple[str, ...] = ()
    """Feature columns that hold categories; all others must be numeric."""
    source: str = ""
    """Where the rows come from, for the record."""
    notes: tuple[str, ...] = field(default=())
    """What the user should know: columns dropped, types guessed."""
    licence: str = ""
    """The licence of the rows, in their authors' words."""
    citation: str = ""
    """What to cite when results on this table are published."""
    homepage: str = ""
    """Where to read about the table."""
    dates: tuple[str, ...] = ()
    """Numeric columns that count days; regular steps do not make them row numbers."""
    keep: tuple[str, ...] = ()
    """Columns that decide a split; always kept."""
    decimal_commas: tuple[str, ...] = ()
    """Numeric columns in which a file writes 1.234 as 1,234; new rows are read likewise."""
    thousands: tuple[str, ...] = ()
    """Numeric columns in which a file writes 1234 as 1,234."""
    unlabelled: pd.DataFrame | None = None
    """More rows without the target, for pretraining. ``frame`` may also hold rows without a target."""
    folds: NDArray[np.int16] | None = None
    """(rows, repeats): the fold that tests a row, -1 for none; None if the table has no folds."""


class Dataset(ABC):
    """A table that can be loaded by name. The harness checks, caches and hashes it."""

    @abstractmethod
    def load(self, cache: Path, offline: bool) -> LoadedData:
        """Load the table, using the network only if not ``offline``; keep downloads below ``cache``.

        Raises:
            DataError: it cannot be loaded, or is not what it should be; the message says what to do.
        """

    def accept(self, loaded: LoadedData) -> LoadedData | None:
        """Check a table imported under this dataset's name, and convert it to what ``load`` returns.

        None leaves it to the harness, which compares the table with what ``load`` returns offline. A dataset that
        needs a download overrides this with its own checks, or cannot be imported.

        Raises:
            DataError: it is a different table; the message says what was expected and what was found.
        """
        return None


class DataScheme(ABC):
    """A prefix of ``--data``, such as ``openml:`` or ``hf:``, for a collection too large to list."""

    @abstractmethod
    def expand(
        self, reference: str, cache: Path, *, offline: bool = False, refresh: bool = False
    ) -> dict[str, Dataset]:
        """The datasets that a reference stands for: one, or those of a suite, in its order.

        Only the list is loaded. Each key is the full reference of one table: expanding it gives only that table, under
        the same key. It is the table's name in results.

        Args:
            reference: as the user wrote it, with the prefix.
            cache: keep downloaded lists below this folder, and read them from there the next time.
            offline: do not use the network.
            refresh: load the list again even if it is cached.

        Raises:
            UsageError: the scheme has no such reference; the message says which forms there are.
            DataError: the list cannot be loaded; the message says what to do.
        """
