"""What a method adds to a control: paired differences with an interval and a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tabbench.results.json_shapes import GainShape
from tabbench.results.statistics.scores import DIGITS, DatasetScores, Flags, Floats, Place, R, Scores

Verdict = Literal["helps", "hurts", "not shown", "not estimable"]


@dataclass(frozen=True)
class Interval:
    """A mean over splits with its t interval."""

    mean: float | None
    """None without a score, or with one that is not finite."""
    low: float | None
    """None where an interval is not estimable: fewer than two splits."""
    high: float | None
    n: int
    """Number of splits."""


@dataclass(frozen=True)
class Gain(Interval):
    """What a method adds to a control on one dataset, in the metric's unit; positive is better."""

    verdict: Verdict
    percent: float | None
    """The mean in percent of the control's error; None if that error is 0."""

    def to_json(self) -> GainShape:
        """The promised shape of a cell of the gain table."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "n": self.n, "verdict": self.verdict}


@dataclass(frozen=True)
class GainSummary:
    """Gains over datasets: how many of each verdict, and how large."""

    helped: int
    hurt: int
    not_shown: int
    not_estimable: int
    percent: float | None
    """Mean over datasets of the gain in percent of the control's error."""


def mean_interval(scores: Mapping[Place, float], *, level: float = 0.95) -> Interval:
    """The mean of one cell and its t interval over splits, seeds averaged within a split first."""
    if not scores:
        return Interval(None, None, None, 0)
    means = DatasetScores.of([scores], lower_is_better=True).split_means()
    center, half = t_intervals(means, level)
    return Interval(*_ends(center[0], half[0]), means.shape[1])


def paired_gain(
    method: Mapping[Place, float], control: Mapping[Place, float], *, lower_is_better: bool, level: float = 0.95
) -> Gain:
    """The paired difference of a method to a control on one dataset.

    Only places that both have count; seeds are averaged within a split. The interval is Student's t over splits.
    Splits of one table share training rows, so it is somewhat too narrow (Nadeau and Bengio, 2003); it says nothing
    about other tables.

    - ``helps`` or ``hurts`` if the interval lies above or below 0; ``not shown`` if it contains 0, even at an end.
    - One split: ``low`` and ``high`` are None, the verdict is ``not estimable``.
    - No shared place, or a score on one that is not finite: ``mean`` is None too.
    - The same difference in all splits: the interval is that one number, as the formula says. Differences below the
      rounding error of the scores are 0, so rounding alone never helps or hurts.
    """
    pair = DatasetScores.of([method, control], lower_is_better)
    return _gain(pair, level)


def gains(scores: Scores[R], row: R, control: R, *, level: float = 0.95) -> dict[str, Gain]:
    """The gain of a row over a control on each dataset where both have a score."""
    pair = scores.select([row, control])
    return {name: _gain(here, level) for name, here in pair.by_dataset.items() if here.has_scores.all()}


def summarise_gains(found: Iterable[Gain]) -> GainSummary:
    """Count the verdicts of one gain per dataset, and average their size; each dataset has weight 1."""
    found = list(found)
    verdicts = Counter(gain.verdict for gain in found)
    percents = [gain.percent for gain in found if gain.percent is not None]
    return GainSummary(
        verdicts["helps"],
        verdicts["hurts"],
        verdicts["not shown"],
        verdicts["not estimable"],
        float(np.mean(percents)) if percents else None,
    )


def share_explained(to_none: Gain, to_untrained: Gain) -> float | None:
    """The share of a method's gain over raw features that its untrained encoder already has; None without a gain.

    Below 0 if the untrained encoder is worse than raw features, above 1 if it is better than the trained one.
    """
    if to_none.mean is None or to_untrained.mean is None or to_none.mean <= 0:
        return None
    return 1 - to_untrained.mean / to_none.mean


def paired_means(here: DatasetScores, index: int) -> tuple[Floats, Floats, Flags]:
    """Pair a row with every other row on the places that both have.

    Returns:
        (rows, splits) the row's means, (rows, splits) the others' means, NaN in splits where nothing is shared, and
        (rows,) whether all shared scores are finite.
    """
    both = here.present[index] & here.present
    finite = ~(both & (np.isnan(here.values[index]) | np.isnan(here.values))).any(axis=1)
    counts = np.add.reduceat(both, here.starts, axis=1, dtype=float)
    counts[counts == 0] = np.nan
    own = np.add.reduceat(np.where(both, here.values[index], 0.0), here.starts, axis=1) / counts
    others = np.add.reduceat(np.where(both, here.values, 0.0), here.starts, axis=1) / counts
    return own, others, finite


def paired_differences(here: DatasetScores, own: Floats, others: Floats) -> Floats:
    """(rows, splits): how much better the row's own means are; 0 where only rounding makes a difference."""
    differences = others - own if here.lower_is_better else own - others
    rounding = 10.0**-DIGITS * np.maximum(np.abs(own), np.abs(others))
    return np.where(np.abs(differences) <= rounding, 0.0, differences)


def t_intervals(samples: Floats, level: float) -> tuple[Floats, Floats]:
    """The mean of each row of ``samples``, ignoring NaNs, and half the width of its t interval.

    NaN where not estimable: the mean of nothing, the width of fewer than two samples.
    """
    from scipy.special import stdtrit

    n = np.sum(~np.isnan(samples), axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(samples, axis=-1) / n
        variance = np.nansum((samples - mean[..., None]) ** 2, axis=-1) / (n - 1)
        half = stdtrit(np.maximum(n - 1, 1), (1 + level) / 2) * np.sqrt(variance / n)
    return mean, np.where(n > 1, half, np.nan)


def _gain(pair: DatasetScores, level: float) -> Gain:
    """The gain of the first of two rows over the second."""
    if not pair.places:
        return Gain(None, None, None, 0, "not estimable", None)
    own, others, finite = paired_means(pair, 0)
    n = len({pair.places[place][0] for place in np.flatnonzero(pair.present.all(axis=0))})
    center, half = t_intervals(paired_differences(pair, own[1:], others[1:]), level)
    mean, low, high = _ends(center[0], half[0]) if finite[1] else (None, None, None)
    error = float(np.nanmean(pair.errors(others[1]))) if mean is not None else 0.0
    percent = 100 * mean / error if mean is not None and error > 0 else None
    return Gain(mean, low, high, n, _verdict(low, high), percent)


def _verdict(low: float | None, high: float | None) -> Verdict:
    if low is None or high is None:
        return "not estimable"
    return "helps" if low > 0 else "hurts" if high < 0 else "not shown"


def _ends(mean: float, half: float) -> tuple[float | None, float | None, float | None]:
    """Mean, low and high; None for what is not estimable."""
    ends = (float(mean), float(mean - half), float(mean + half))
    return (
        None if np.isnan(ends[0]) else ends[0],
        None if np.isnan(ends[1]) else ends[1],
        None if np.isnan(ends[2]) else ends[2],
    )
