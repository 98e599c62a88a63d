"""Distance to the best, score against time, and what pretraining is worth in labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tabbench.results.statistics.scores import DatasetScores, Place, R, Scores


@dataclass(frozen=True)
class Improvability:
    """How far the best row's error is below this row's, in percent: 0 for the best row, 100 if the best is perfect."""

    mean: float | None
    """Mean over the datasets on which the row has a score; None if there is none."""
    by_dataset: Mapping[str, float]


@dataclass(frozen=True)
class LabelEquivalence:
    """How many labels raw features need to reach what a method reaches with few."""

    relation: Literal["about", "at most", "more than"]
    """``at most``: the smallest measured budget is enough. ``more than``: the largest is not."""
    labels: float
    total: int
    """Number of labels in the dataset."""

    def __str__(self) -> str:
        if self.relation == "more than" and self.labels >= self.total:
            return "more than all"
        return f"{self.relation} {self.labels:,.0f}"


def improvability(scores: Scores[R]) -> dict[R, Improvability]:
    """Each row's distance to the best row, in percent of its own error, on shared places.

    The measure of TabArena (Erickson et al., 2025, https://arxiv.org/abs/2506.16791).
    """
    found: dict[R, dict[str, float]] = {row: {} for row in scores.rows}
    for name, here in scores.shared().by_dataset.items():
        errors = here.errors(here.split_means().mean(axis=1))
        best = np.min(errors, initial=np.inf, where=~np.isnan(errors))
        for row, error in zip(scores.rows, errors.tolist(), strict=True):
            if not np.isnan(error):
                found[row][name] = 100 * float(error - best) / error if error > best else 0.0
    return {row: Improvability(_mean(list(values.values())), values) for row, values in found.items()}


def pareto_front(quality: Mapping[R, float], seconds: Mapping[R, float], *, lower_is_better: bool) -> list[R]:
    """The rows for which no other is at least as good and as fast, and better in one of the two; fastest first.

    Rows that are equal in both are all on the front. A row without a finite quality and time is not.

    Args:
        quality: one number per row over the same datasets, such as an average rank.
        seconds: one number per row over the same datasets.
        lower_is_better: the direction of ``quality``.
    """
    sign = 1.0 if lower_is_better else -1.0
    points = {row: (seconds[row], sign * value) for row, value in quality.items() if row in seconds}
    finite = {row: point for row, point in points.items() if np.isfinite(point).all()}
    front: list[R] = []
    best = (-np.inf, np.inf)
    for row, point in sorted(finite.items(), key=lambda item: item[1]):
        if point[1] < best[1] or point == best:
            front.append(row)
            best = point
    return front


def label_equivalence(
    method: Mapping[Place, float],
    raw: Mapping[int, Mapping[Place, float]],
    *,
    total: int,
    lower_is_better: bool,
) -> LabelEquivalence | None:
    """How many labels raw features need to reach a method's score, on one dataset with one model.

    This is the first crossing of the raw curve, interpolated linearly between measured budgets over the logarithm of
    the number of labels: budgets are spaced by factors, and learning curves are much straighter there. Only places that
    the method and all budgets share count. None without such a place, or with a score that is not finite.

    Args:
        method: the method's scores with few labels.
        raw: scores on raw features by number of labels.
        total: number of labels in the dataset.
        lower_is_better: the direction of the metric.
    """
    budgets = sorted(budget for budget, scores in raw.items() if scores)
    here = DatasetScores.of([method, *(raw[budget] for budget in budgets)], lower_is_better).shared()
    if not (budgets and method and here.places):
        return None
    target, *curve = here.losses(here.split_means().mean(axis=1)).tolist()
    if np.isnan([target, *curve]).any():
        return None
    reached = next((index for index, loss in enumerate(curve) if loss <= target), None)
    if reached is None:
        return LabelEquivalence("more than", float(budgets[-1]), total)
    if reached == 0:
        return LabelEquivalence("at most", float(budgets[0]), total)
    before, after = curve[reached - 1], curve[reached]
    share = (before - target) / (before - after)
    few, many = np.log(budgets[reached - 1]), np.log(budgets[reached])
    return LabelEquivalence("about", float(np.exp(few + share * (many - few))), total)


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None
