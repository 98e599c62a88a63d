"""Test scores as values: rows x datasets x (split, seed), with missing places."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

R = TypeVar("R", bound=Hashable)
"""What identifies a row: any hashable value."""
Place = tuple[int, int]
"""Split and seed."""
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

DIGITS = 12
"""Digits that count in a comparison; later digits depend on the order of a sum."""


@dataclass(frozen=True, eq=False)
class DatasetScores:
    """The scores of all rows on one dataset."""

    places: tuple[Place, ...]
    """In order, so the seeds of a split are neighbours."""
    values: Floats
    """(rows, places); NaN where there is no score, or one that is not finite."""
    present: Flags
    """(rows, places); whether there is a score, finite or not."""
    lower_is_better: bool

    @classmethod
    def of(cls, rows: Sequence[Mapping[Place, float]], lower_is_better: bool) -> DatasetScores:
        """Make it from one mapping of places to scores for each row."""
        places = tuple(sorted({place for row in rows for place in row}))
        column = {place: index for index, place in enumerate(places)}
        values = np.full((len(rows), len(places)), np.nan)
        present = np.zeros(values.shape, dtype=bool)
        for index, row in enumerate(rows):
            here = [column[place] for place in row]
            values[index, here] = list(row.values())
            present[index, here] = True
        values[~np.isfinite(values)] = np.nan
        return cls(places, values, present, lower_is_better)

    @property
    def has_scores(self) -> Flags:
        """(rows,): whether a row has any score here."""
        return np.asarray(self.present.any(axis=1))

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """(splits,): where the places of each split begin."""
        splits = np.array([split for split, _ in self.places])
        return np.flatnonzero(np.r_[True, splits[1:] != splits[:-1]][: len(splits)])

    def shared(self) -> DatasetScores:
        """Only the places that all rows have, ignoring rows without any score."""
        keep = np.asarray(self.present[self.has_scores].all(axis=0))
        places = tuple(place for place, kept in zip(self.places, keep, strict=True) if kept)
        return DatasetScores(places, self.values[:, keep], self.present[:, keep], self.lower_is_better)

    def split_means(self) -> Floats:
        """(rows, splits): means over the seeds of each split, on shared places.

        A row without a score, or with one that is not finite, is NaN in all splits.
        """
        values = np.where(np.isnan(self.values).any(axis=1, keepdims=True), np.nan, self.values)
        return np.add.reduceat(values, self.starts, axis=1) / np.diff(self.starts, append=len(self.places))

    def errors(self, scores: Floats) -> Floats:
        """Scores as errors: unchanged if lower is better, else their distance to 1, the best possible score."""
        return scores if self.lower_is_better else 1.0 - scores

    def losses(self, scores: Floats) -> Floats:
        """Scores as numbers where smaller is better, rounded so that equal scores are equal numbers."""
        scale = float(np.max(np.abs(self.values), initial=0.0, where=~np.isnan(self.values))) or 1.0
        return np.asarray(np.round((scores if self.lower_is_better else -scores) / scale, DIGITS), dtype=float)


@dataclass(frozen=True, eq=False)
class Scores(Generic[R]):
    """The scores that one table compares: all of one fidelity, protocol and label budget, flagged ones left out."""

    rows: tuple[R, ...]
    """In order of appearance."""
    by_dataset: Mapping[str, DatasetScores]
    """In order of name, so that a seeded bootstrap does not depend on the order of the records."""

    @classmethod
    def collect(
        cls, entries: Iterable[tuple[R, str, int, int, float]], lower_is_better: Collection[str] = ()
    ) -> Scores[R]:
        """Collect ``(row, dataset, split, seed, score)``.

        Args:
            entries: at most one score for each place. Trials and older records would count as extra repetitions, so
                a second score is refused.
            lower_is_better: the datasets whose score is an error.
        """
        rows: dict[R, int] = {}
        found: dict[str, dict[int, dict[Place, float]]] = {}
        for row, dataset, split, seed, score in entries:
            cells = found.setdefault(dataset, {})
            cell = cells.setdefault(rows.setdefault(row, len(rows)), {})
            if (split, seed) in cell:
                place = f"row {row!r} on {dataset!r}, split {split}, seed {seed}"
                raise ValueError(f"Two scores for {place}. Leave out trials and older records.")
            cell[split, seed] = score
        by_dataset = {
            name: DatasetScores.of([found[name].get(index, {}) for index in rows.values()], name in lower_is_better)
            for name in sorted(found)
        }
        return cls(tuple(rows), by_dataset)

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(self.by_dataset)

    @property
    def count(self) -> int:
        """How many scores there are."""
        return sum(int(dataset.present.sum()) for dataset in self.by_dataset.values())

    @property
    def results(self) -> int:
        """How many results a row can have: splits, summed over datasets."""
        return sum(len(here.starts) for here in self.by_dataset.values())

    def select(self, rows: Iterable[R]) -> Scores[R]:
        """Only these rows, in this order, and the datasets on which one of them has a score."""
        chosen = tuple(rows)
        indices = [self.rows.index(row) for row in chosen]
        taken = {
            name: DatasetScores(here.places, here.values[indices], here.present[indices], here.lower_is_better)
            for name, here in self.by_dataset.items()
        }
        return Scores(chosen, {name: here for name, here in taken.items() if here.present.any()})

    def shared(self) -> Scores[R]:
        """Only the places that all rows with a score on a dataset have; datasets without such a place are left out."""
        reduced = {name: here.shared() for name, here in self.by_dataset.items()}
        return Scores(self.rows, {name: here for name, here in reduced.items() if here.places})

    def means(self) -> dict[R, dict[str, float | None]]:
        """For each row and dataset the mean over shared places, seeds first; None where there is none."""
        found: dict[R, dict[str, float | None]] = {row: dict.fromkeys(self.by_dataset) for row in self.rows}
        for name, here in self.shared().by_dataset.items():
            for row, mean in zip(self.rows, here.split_means().mean(axis=1).tolist(), strict=True):
                found[row][name] = None if np.isnan(mean) else mean
        return found
