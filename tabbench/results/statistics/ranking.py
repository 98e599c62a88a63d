"""Ranks per dataset, their averages with bootstrap intervals, and groups of rows that cannot be told apart."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal

import numpy as np

from tabbench.results.statistics.scores import Floats, R, Scores

Ties = Literal["min", "average"]
Missing = Literal["last", "skip"]


@dataclass(frozen=True)
class AverageRank:
    """A row's place in the table."""

    rank: float | None
    """Mean over datasets; None for a row that is ranked nowhere."""
    low: float | None
    """None where an interval is not estimable: one dataset with one split."""
    high: float | None
    group: str
    """Letters; empty if groups are not estimable."""
    by_dataset: Mapping[str, float | None]


@dataclass(frozen=True)
class Ranking(Generic[R]):
    """All rows with their ranks, and what the letters mean."""

    rows: Mapping[R, AverageRank]
    critical_difference: float | None
    """Average ranks that are further apart than this differ; None if not estimable."""
    criterion: str
    """What it means to share a letter, or why there are no letters; empty if they were not requested."""


def rank_values(values: Sequence[float | None], ties: Ties = "min", missing: Missing = "last") -> list[float | None]:
    """Ranks, with 1 for the smallest. Missing values (None or NaN) rank last, or get no rank."""
    array = np.array([np.nan if value is None else value for value in values], dtype=float)
    return [None if np.isnan(rank) else rank for rank in rank_array(array, ties, missing).tolist()]


def rank_array(values: Floats, ties: Ties = "min", missing: Missing = "last") -> Floats:
    """:func:`rank_values` along the last axis, with NaN for None."""
    order = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    count = values.shape[-1]
    position = np.arange(1.0, count + 1)
    edge = np.ones((*values.shape[:-1], 1), dtype=bool)
    changes = ordered[..., 1:] != ordered[..., :-1]
    ranks = np.maximum.accumulate(np.where(np.concatenate([edge, changes], axis=-1), position, 0.0), axis=-1)
    if ties == "average":
        is_last = np.concatenate([changes, edge], axis=-1)
        last = np.minimum.accumulate(np.where(is_last, position, np.inf)[..., ::-1], axis=-1)[..., ::-1]
        ranks = (ranks + last) / 2
    result = np.empty_like(values)
    np.put_along_axis(result, order, ranks, axis=-1)
    absent = np.isnan(values)
    behind = count + 1.0 - absent.sum(axis=-1, keepdims=True) if missing == "last" else np.nan
    return np.where(absent, behind, result)


def rank_rows(
    scores: Scores[R],
    ties: Ties = "min",
    missing: Missing = "last",
    *,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Ranking[R]:
    """Average ranks with percentile intervals and rank groups, by bootstrap over datasets and splits.

    With ``resamples=0`` there are only ranks, without scipy and at once.

    Each resample draws as many datasets as there are, with replacement, and for each drawn dataset as many of its
    splits as it has. Rows are ranked on the means of the drawn splits, all on the same draws, and ranks are averaged
    over the drawn datasets. If needed, an interval is widened to include the rank itself: resampled splits mix up close
    rows, so resampled ranks tend to the middle. With one dataset, intervals and groups describe only its splits.
    Percentiles of few datasets are too narrow; :func:`expanded_level` makes up for that.

    Groups: two rows share a letter unless their average ranks are further apart than one critical difference. That is
    the quantile, over resamples, of the range of all rows' deviations from their mean over resamples: the bootstrap's
    counterpart of Tukey's and Nemenyi's tests. It holds for all pairs together, because a table of 50 rows has 1225
    pairs and at 5 % each 61 would differ by luck. It is not a matter of overlapping intervals, because the ranks of two
    rows depend on each other. And it is one number for all pairs, so groups are runs of neighbours. With fewer than six
    results per row there are no groups: a two-sided sign test reaches 5 % with six wins out of six at the earliest.
    """
    scores = scores.shared()
    points = {name: here.losses(here.split_means().mean(axis=1)) for name, here in scores.by_dataset.items()}
    ranks = rank_array(np.reshape([*points.values()], (len(points), len(scores.rows))), ties, missing)
    average = _mean_of_present(ranks)
    low = high = np.full(len(average), np.nan)
    difference = None
    needed = int(np.floor(np.log2(2 / (1 - level)))) + 1
    if scores.results > 1 and resamples:
        resampled = _resampled_averages(scores, ties, missing, resamples, seed)
        expanded = expanded_level(scores, level)
        low, high = percentile_interval(average, resampled, expanded)
        difference = _critical_difference(resampled, expanded) if scores.results >= needed else None
    letters = _letters(average, difference) if difference is not None else [""] * len(average)
    rows = {}
    for index, row in enumerate(scores.rows):
        by_dataset = dict(zip(points, map(_or_none, ranks[:, index]), strict=True))
        numbers = [_or_none(values[index]) for values in (average, low, high)]
        rows[row] = AverageRank(numbers[0], numbers[1], numbers[2], letters[index], by_dataset)
    return Ranking(rows, difference, _criterion(difference, scores.results, needed, level) if resamples else "")


def runs_within(ordered: Floats, difference: float) -> list[tuple[int, int]]:
    """Start and end of the longest runs of sorted values within one difference; no run lies inside another."""
    runs = []
    end = 0
    for first in range(len(ordered)):
        last = int(np.searchsorted(ordered, ordered[first] + difference + 1e-9, side="right"))
        if last > end:
            runs.append((first, last))
            end = last
    return runs


def resample_losses(scores: Scores[R], resamples: int, seed: int) -> Floats:
    """(resamples, drawn datasets, rows): mean losses on drawn splits; expects shared scores."""
    rng = np.random.default_rng(seed)
    count = len(scores.by_dataset)
    drawn = rng.integers(count, size=(resamples, count))
    losses = np.empty((resamples, count, len(scores.rows)))
    for index, here in enumerate(scores.by_dataset.values()):
        means = here.split_means()
        splits = means.shape[1]
        draws = int(np.sum(drawn == index))
        weights = rng.multinomial(splits, np.full(splits, 1 / splits), size=draws) / splits
        losses[drawn == index] = here.losses(weights @ means.T)
    return losses


def expanded_level(scores: Scores[R], level: float) -> float:
    """The level at which a percentile interval of n datasets (or of n splits of one dataset) covers ``level``.

    The expanded percentile interval of Hesterberg, "What Teachers Should Know about the Bootstrap" (2015),
    https://arxiv.org/abs/1411.5279: t instead of normal quantiles, and the n - 1 of a sample's variance. In simulations
    with 3 to 20 datasets false alarms of rank groups fall from 6-21 % to 0-4.5 % (benchmarks/rank_groups.py).
    """
    from scipy.special import ndtr, stdtrit

    units = len(scores.by_dataset) if len(scores.by_dataset) > 1 else scores.results
    if units < 2:
        return level
    return float(1 - 2 * ndtr(-np.sqrt(units / (units - 1)) * stdtrit(units - 1, (1 + level) / 2)))


def percentile_interval(point: Floats, resampled: Floats, level: float) -> tuple[Floats, Floats]:
    """The percentile interval of each column of ``resampled``, widened to include the point."""
    low, high = np.full(len(point), np.nan), np.full(len(point), np.nan)
    there = ~np.isnan(resampled).all(axis=0) & ~np.isnan(point)
    tail = (1 - level) / 2
    if there.any():
        low[there], high[there] = np.nanquantile(resampled[:, there], [tail, 1 - tail], axis=0)
    return np.minimum(low, point), np.maximum(high, point)


def _resampled_averages(scores: Scores[R], ties: Ties, missing: Missing, resamples: int, seed: int) -> Floats:
    """(resamples, rows): average ranks; NaN where a row is in none of the drawn datasets."""
    losses = resample_losses(scores, resamples, seed)
    return _mean_of_present(np.stack([rank_array(here, ties, missing) for here in losses.swapaxes(0, 1)]))


def _critical_difference(resampled: Floats, level: float) -> float:
    """The quantile of the range of deviations, so that all pairs are within it together."""
    deviations = resampled - _mean_of_present(resampled)
    ranges = np.nan_to_num(deviations, nan=-np.inf).max(axis=1) - np.nan_to_num(deviations, nan=np.inf).min(axis=1)
    return float(np.quantile(ranges, level))


def _criterion(difference: float | None, results: int, needed: int, level: float) -> str:
    if difference is None:
        have = f"a row has {results} result{'s' * (results != 1)} (splits, summed over datasets)"
        return f"No rank groups: {have}; {needed} are needed to tell rows apart."
    return (
        f"Rows share a letter if their average ranks are within {difference:.2f}, the critical difference of all pairs "
        f"together at {100 * level:g} % (bootstrap over datasets and splits)."
    )


def _letters(average: Floats, difference: float) -> list[str]:
    """Letters by row, a for the best; a row without a rank has none."""
    order = [int(index) for index in np.argsort(average, kind="stable") if not np.isnan(average[index])]
    letters = [""] * len(average)
    for number, (first, last) in enumerate(runs_within(average[order], difference)):
        for index in order[first:last]:
            letters[index] += _letter(number)
    return letters


def _letter(number: int) -> str:
    """a to z, A to Z, then a2, b2, ..."""
    turn, place = divmod(number, len(string.ascii_letters))
    return string.ascii_letters[place] + (str(turn + 1) if turn else "")


def _mean_of_present(values: Floats) -> Floats:
    """Means over the first axis, ignoring NaNs; NaN if there is nothing else."""
    counts = np.sum(~np.isnan(values), axis=0)
    means = np.divide(np.nansum(values, axis=0), counts, out=np.full(counts.shape, np.nan), where=counts > 0)
    return np.asarray(means)


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
