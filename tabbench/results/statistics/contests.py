"""Rows in contests: who beats whom on how many datasets, and Bradley-Terry ratings on the Elo scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic

import numpy as np

from tabbench.results.statistics.gains import paired_differences, paired_means, t_intervals
from tabbench.results.statistics.ranking import expanded_level, percentile_interval, resample_losses
from tabbench.results.statistics.scores import DIGITS, DatasetScores, Floats, R, Scores
from tabbench.results.statistics.significance import relative_differences

ELO = 400 / np.log(10)
"""Points for a factor of e in the odds: 400 points mean odds of 10 to 1."""
CENTER = 1000.0


@dataclass(frozen=True)
class Tally:
    """One row against another: datasets won, tied, lost, and undecided (nothing shared, or no interval)."""

    wins: int
    ties: int
    losses: int
    undecided: int

    @property
    def rate(self) -> float | None:
        """Share of decided datasets that were won, with a tie as half a win; None if all are undecided."""
        decided = self.wins + self.ties + self.losses
        return (self.wins + self.ties / 2) / decided if decided else None


@dataclass(frozen=True)
class WinMatrix(Generic[R]):
    """All rows against each other."""

    tallies: Mapping[tuple[R, R], Tally]
    epsilon: float | None

    @property
    def rule(self) -> str:
        """When two rows tie."""
        if self.epsilon is None:
            return "Tied: the interval of the paired difference over splits contains 0. With one split: undecided."
        if not self.epsilon:
            return "Tied: the means are equal."
        return f"Tied: errors differ by at most {100 * self.epsilon:g} % of the larger one."


@dataclass(frozen=True)
class Rating:
    """Strength on the Elo scale: 400 points more mean odds of 10 to 1 of being better on a dataset."""

    elo: float | None
    """None for a row without a game."""
    low: float | None
    """None where an interval is not estimable: one dataset with one split."""
    high: float | None


def win_matrix(scores: Scores[R], *, epsilon: float | None = None, level: float = 0.95) -> WinMatrix[R]:
    """Count, for each ordered pair of rows, on how many datasets the first wins, ties and loses.

    Args:
        scores: each pair is compared on the places that both rows have.
        epsilon: by default the paired interval over splits decides, and a dataset with one split is undecided. With a
            number, mean errors decide: a difference up to this share of the larger error is a tie.
        level: of the paired interval.
    """
    count = len(scores.rows)
    tallies = np.zeros((4, count, count), dtype=int)
    for here in scores.by_dataset.values():
        for row in range(count):
            outcome = _outcomes(here, row, epsilon, level)
            tallies[:, row] += np.array([outcome == 1, outcome == 0, outcome == -1, np.isnan(outcome)])
    found = {
        (first, second): Tally(*tallies[:, a, b].tolist())
        for a, first in enumerate(scores.rows)
        for b, second in enumerate(scores.rows)
        if a != b
    }
    return WinMatrix(found, epsilon)


def rate_rows(
    scores: Scores[R], *, anchor: R | None = None, resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> dict[R, Rating]:
    """Rate rows with the model of Bradley and Terry (1952); intervals come from the bootstrap of :func:`rank_rows`.

    Every dataset is one game between each pair of rows that have a score: the better mean wins, equal means draw. Each
    row also has one virtual draw, spread evenly over the others; without it, a row that wins everything would be
    infinitely strong. With few datasets, ratings therefore stay near the centre.

    Args:
        scores: rows are compared on shared places.
        anchor: the row that gets 1000 points; by default the mean of all rows does.
        resamples: how many bootstrap samples.
        level: of the interval.
        seed: of the bootstrap.
    """
    scores = scores.shared()
    count = len(scores.rows)
    means = [here.losses(here.split_means().mean(axis=1)) for here in scores.by_dataset.values()]
    games = _sum_games(np.reshape(means, (1, len(means), count)))
    reference = None if anchor is None else scores.rows.index(anchor)
    points = np.where(games[0].sum(axis=0) + games[0].sum(axis=1) > 0, _elo(games, reference)[0], np.nan)
    low = high = np.full(count, np.nan)
    if scores.results > 1:
        resampled = _resampled_elo(scores, reference, resamples, seed)
        low, high = percentile_interval(points, resampled, expanded_level(scores, level))
    found = {}
    for index, row in enumerate(scores.rows):
        numbers = [None if np.isnan(values[index]) else float(values[index]) for values in (points, low, high)]
        found[row] = Rating(numbers[0], numbers[1], numbers[2])
    return found


def fit_bradley_terry(wins: Floats) -> Floats:
    """(samples, rows) log strengths of mean 0 that maximise the likelihood of (samples, rows, rows) wins.

    A draw is half a win of both. Newton's method with bounded steps; every row must be connected to every other by
    games that both sides have won in part, which the virtual draws of :func:`rate_rows` ensure.
    """
    samples, count, _ = wins.shape
    games = wins + wins.swapaxes(1, 2)
    won = wins.sum(axis=2)
    logs = np.zeros((samples, count))
    diagonal = np.arange(count)
    for _ in range(100):
        strength = np.exp(logs)
        total = strength[:, :, None] + strength[:, None, :]
        rate = games / total
        slope = won - strength * rate.sum(axis=2)
        if np.max(np.abs(slope), initial=0.0) < 1e-9 * won.max(initial=1.0):
            break
        rate /= total
        curvature = -rate * strength[:, :, None] * strength[:, None, :]
        curvature[:, diagonal, diagonal] -= curvature.sum(axis=2)
        step = np.linalg.solve(curvature + 1 / count, slope[..., None])[..., 0]  # + 1 / count: keeps the mean at 0
        logs += step / np.maximum(1.0, np.abs(step).max(axis=1, keepdims=True) / 2)
    return logs


def _outcomes(here: DatasetScores, row: int, epsilon: float | None, level: float) -> Floats:
    """(rows,): 1 where the row wins, 0 for a tie, -1 where it loses, NaN for undecided."""
    own, others, finite = paired_means(here, row)
    if epsilon is None:
        mean, half = t_intervals(paired_differences(here, own, others), level)
        outcome = np.where(np.abs(mean) > half, np.sign(mean), np.where(np.isnan(half), np.nan, 0.0))
    else:
        shared = np.maximum(np.sum(~np.isnan(own), axis=1), 1)
        mine, theirs = (np.nansum(here.errors(means), axis=1) / shared for means in (own, others))
        share = np.round(relative_differences(mine, theirs), DIGITS)
        outcome = np.where(np.abs(share) > epsilon, np.sign(share), 0.0)
        outcome[np.isnan(own).all(axis=1)] = np.nan
    return np.where(finite, outcome, np.nan)


def _sum_games(losses: Floats) -> Floats:
    """(samples, rows, rows) wins of the row over the column from (samples, datasets, rows); a draw is half a win."""
    samples, _, count = losses.shape
    doubled = np.zeros((samples, count, count), dtype=np.int32)
    for here in losses.swapaxes(0, 1):
        mine, theirs = here[:, :, None], here[:, None, :]
        doubled += mine < theirs
        doubled += mine <= theirs  # a missing one, NaN, is neither
    doubled[:, np.arange(count), np.arange(count)] = 0
    return doubled / 2


def _elo(games: Floats, reference: int | None) -> Floats:
    """(samples, rows) points from (samples, rows, rows) wins."""
    count = games.shape[1]
    virtual = np.full((count, count), 0.5 / max(count - 1, 1))
    wins = games + virtual
    wins[:, np.arange(count), np.arange(count)] = 0.0
    strengths = fit_bradley_terry(wins)
    zero = 0.0 if reference is None else strengths[:, [reference]]
    return np.asarray(CENTER + ELO * (strengths - zero))


def _resampled_elo(scores: Scores[R], reference: int | None, resamples: int, seed: int) -> Floats:
    """(resamples, rows) points; in blocks, so that memory is bounded."""
    losses = resample_losses(scores, resamples, seed)
    block = max(1, 1_000_000 // len(scores.rows) ** 2)
    parts = (losses[first : first + block] for first in range(0, resamples, block))
    return np.concatenate([_elo(_sum_games(part), reference) for part in parts])
