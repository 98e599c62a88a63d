"""Tests over many datasets: Friedman with Nemenyi's critical difference, and Wilcoxon's test with Holm's correction.

Demsar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 7, 2006, https://jmlr.org/papers/v7/demsar06a.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Generic

import numpy as np

from tabbench.results.statistics.ranking import rank_array, runs_within
from tabbench.results.statistics.scores import DatasetScores, Floats, R, Scores

ENOUGH_DATASETS = 10
"""Below this, the chi-square approximation of Friedman's statistic is poor and the tests have almost no power."""


@dataclass(frozen=True)
class CannotTest:
    """Says why there is no test."""

    reason: str
    datasets: int
    """Datasets on which every row has a score."""


@dataclass(frozen=True)
class Friedman(Generic[R]):
    """Whether the rows differ at all over datasets, and which pairs do."""

    datasets: int
    average_ranks: Mapping[R, float]
    """Best first; equal scores share the average of their ranks."""
    statistic: float
    p_value: float
    critical_difference: float
    """Nemenyi: average ranks that are further apart than this differ."""
    bars: tuple[tuple[R, ...], ...]
    """The bars of a critical-difference diagram: longest runs of two or more rows within one critical difference."""
    wilcoxon_holm: Mapping[tuple[R, R], float]
    """For each pair, better average rank first: the p-value of Wilcoxon's signed-rank test after Holm's correction."""
    level: float


def friedman(scores: Scores[R], *, level: float = 0.95) -> Friedman[R] | CannotTest:
    """Friedman's test over the datasets on which every row has a score.

    A dataset is one observation: its splits and seeds are averaged first. Wilcoxon's test takes differences in percent
    of the larger error of the two rows, because units differ between datasets.
    """
    complete = _complete(scores.shared())
    if len(scores.rows) < 2:
        return CannotTest(f"A test needs at least two rows; here: {len(scores.rows)}.", len(complete))
    if len(complete) < ENOUGH_DATASETS:
        reason = f"A test needs {ENOUGH_DATASETS} datasets on which every row has a score; here: {len(complete)}."
        return CannotTest(reason, len(complete))
    means = [here.split_means().mean(axis=1) for here in complete]
    ranks = rank_array(np.array([here.losses(mean) for here, mean in zip(complete, means, strict=True)]), "average")
    average = ranks.mean(axis=0)
    order = np.argsort(average, kind="stable")
    statistic, p_value = _friedman_statistic(ranks)
    difference = critical_difference(len(scores.rows), len(complete), level)
    errors = np.array([here.errors(mean) for here, mean in zip(complete, means, strict=True)])
    rows = [scores.rows[index] for index in order]
    return Friedman(
        len(complete),
        dict(zip(rows, average[order].tolist(), strict=True)),
        statistic,
        p_value,
        difference,
        tuple(tuple(rows[first:last]) for first, last in runs_within(average[order], difference) if last - first > 1),
        _wilcoxon_holm(rows, errors[:, order]),
        level,
    )


def critical_difference(rows: int, datasets: int, level: float = 0.95) -> float:
    """Nemenyi's critical difference of average ranks (Demsar, section 3.2.2)."""
    from scipy.stats import studentized_range

    quantile = studentized_range.ppf(level, rows, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(rows * (rows + 1) / (6 * datasets)))


def wilcoxon(differences: Sequence[float] | Floats) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test.

    Exact for any number of ties: all signs are equally likely, so the distribution of the rank sum follows by adding
    one rank after the other. Differences of 0 are left out; if nothing is left, the p-value is 1.
    """
    values = np.asarray(differences, dtype=float)
    values = values[values != 0]
    if not len(values):
        return 1.0
    doubled = np.rint(2 * rank_array(np.abs(values), "average")).astype(int)  # halves of tied ranks become whole
    positive = int(doubled[values > 0].sum())
    smaller = min(positive, int(doubled.sum()) - positive)
    return min(1.0, 2 * float(_rank_sums(tuple(sorted(doubled.tolist())))[smaller]))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the smallest of m p-values times m, the next times m - 1, never decreasing."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(order), 0, -1)
    adjusted = np.maximum.accumulate(np.minimum(np.asarray(p_values, dtype=float)[order] * factors, 1.0))
    result = np.empty(len(order))
    result[order] = adjusted
    return [float(value) for value in result]


def relative_differences(errors: Floats, others: Floats) -> Floats:
    """How much smaller ``errors`` are than ``others``, as a share of the larger of the two; 0 if both are 0."""
    larger = np.maximum(errors, others)
    return np.divide(others - errors, larger, out=np.zeros_like(larger), where=larger > 0)


def _complete(scores: Scores[R]) -> list[DatasetScores]:
    return [here for here in scores.by_dataset.values() if not np.isnan(here.split_means()).any()]


def _friedman_statistic(ranks: Floats) -> tuple[float, float]:
    """Friedman's chi-square with the correction for ties, and its p-value; 0 and 1 if all rows tie everywhere."""
    from scipy.special import chdtrc

    datasets, rows = ranks.shape
    spread = np.sum((ranks - (rows + 1) / 2) ** 2)
    if spread == 0:
        return 0.0, 1.0
    statistic = float((rows - 1) * np.sum((ranks.sum(axis=0) - datasets * (rows + 1) / 2) ** 2) / spread)
    return statistic, float(chdtrc(rows - 1, statistic))


def _wilcoxon_holm(rows: list[R], errors: Floats) -> dict[tuple[R, R], float]:
    pairs = list(combinations(range(len(rows)), 2))
    found = [wilcoxon(np.round(relative_differences(errors[:, a], errors[:, b]), 12)) for a, b in pairs]
    return {(rows[a], rows[b]): value for (a, b), value in zip(pairs, holm(found), strict=True)}


@lru_cache(maxsize=256)
def _rank_sums(doubled: tuple[int, ...]) -> Floats:
    """The distribution function of the sum of those ranks, doubled, that have a positive sign."""
    chances = np.zeros(sum(doubled) + 1)
    chances[0] = 1.0
    for rank in doubled:
        moved = np.zeros_like(chances)
        moved[rank:] = chances[: len(chances) - rank]
        chances = (chances + moved) / 2
    return np.cumsum(chances)
