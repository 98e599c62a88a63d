"""How often honest scores coincide: what rounding, the size of a test part and the spread of the scores explain.

Scores that are rounded, or counted on few rows, are equal by chance all the time. A check asks here how likely that is
and reports a finding only if it is practically impossible. If something is unknown, such as the number of test rows,
all usual values are considered.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammainc, ndtr

UNBELIEVABLE = 1e-3
"""Anything less likely than this, after correcting for the number of checks, is not chance."""
USUAL_ROWS = (1_000, 10_000, 100_000)
"""Possible sizes of a test part if the release does not say. With more rows, rounded scores agree more often."""
MOST_COUNTED = 1_000_000
"""Scores are tried as shares of up to this many rows."""
SINGLE = 6e-8
"""Relative precision of the 32-bit numbers in which many libraries compute."""
DOUBLE = 1e-13
LEAST_SPREAD = 0.05
"""The spread over seeds is at least this share of the spread that the choice of test rows causes.

In 409 published cells of 15 seeds each (Rubachev et al., 2022; 2,000 to 240,000 test rows) the smallest share was 0.07.
"""
LIKENESS = 0.05
"""The losses of two trainings on one row differ by at least this share of how much losses differ between rows."""
SLACK = 3.0
"""Coincidences are too many from this multiple of the expected number on."""
SAMPLE = 64
"""Number of values used to find the number of test rows."""


@dataclass(frozen=True)
class Lattice:
    """The values that scores of a dataset can have, as far as is known."""

    options: tuple[tuple[int, float], ...]
    """Possible numbers of test rows, with the step between neighbouring scores for each."""
    counted: int | None = None
    """Number of test rows revealed by the scores themselves: all are multiples of one over this."""
    least: int | None = None
    """The scores may be shares of a count, but are too few to say which; it is at least this."""

    @property
    def step(self) -> float:
        """The largest step between neighbouring scores."""
        return max(step for _, step in self.options)

    def scaled(self, factor: float) -> Lattice:
        """The same lattice for scores printed in another unit, such as percent."""
        return replace(self, options=tuple((rows, step * factor) for rows, step in self.options))

    def coarsened(self, step: float) -> Lattice:
        """The same lattice with steps that are at least this wide."""
        return replace(self, options=tuple((rows, max(step, finer)) for rows, finer in self.options))


def find_lattice(values: Sequence[float], rounding: float, is_counted: bool, known: Sequence[int] = ()) -> Lattice:
    """The lattice of scores of one metric on one dataset.

    Args:
        values: scores; between 0 and 1 if they are shares.
        rounding: the step to which they were written.
        is_counted: the metric may be a share of the test rows.
        known: sizes of the test parts, if the release has them.
    """
    if _are_single(values):
        rounding = max(rounding, SINGLE * max(map(abs, values), default=1.0))
    counted, sure = count_rows(values, rounding) if is_counted else (None, False)
    if counted is None or sure:
        sizes = {min(known), max(known)} if known else {counted} if counted else USUAL_ROWS
        step = max(rounding, 1 / counted if counted else 0.0)
        return Lattice(tuple((rows, step) for rows in sizes), counted)
    sizes = {min(known), max(known)} if known else {counted, *(rows for rows in USUAL_ROWS if rows > counted)}
    return Lattice(tuple((rows, max(rounding, 1 / rows)) for rows in sizes), least=counted)


def _are_single(values: Sequence[float]) -> bool:
    return bool(np.all(np.asarray(values, np.float32) == np.asarray(values)))


def count_rows(values: Sequence[float], rounding: float) -> tuple[int | None, bool]:
    """Find the smallest number of rows of which all values are shares, and whether that is more than chance.

    None if there is no such number: then they are not shares of a count. 1 if all are 0 or 1, which says nothing.
    """
    inner = np.unique([value for value in values if 0 < value < 1])
    inner = inner[:: 1 + len(inner) // SAMPLE]
    tolerance = 0.5000001 * rounding + (SINGLE if _are_single(values) else DOUBLE)
    if not len(inner):
        return 1, False
    telling = int(0.5 / tolerance)  # on more rows than this every number fits
    most = min(MOST_COUNTED, telling)
    for first, last in pairwise((2, 4096, 65536, MOST_COUNTED + 1)):
        sizes: NDArray[np.int64] = np.arange(first, min(last, most + 1))
        for value in inner:
            sizes = sizes[np.abs(np.rint(value * sizes) / sizes - value) <= tolerance]
        if len(sizes):
            smallest = int(sizes[0])
            fits_by_chance = math.log(smallest) + len(inner) * math.log(min(1.0, 2 * tolerance * smallest))
            return smallest, fits_by_chance < math.log(UNBELIEVABLE)
    return (None, False) if telling > MOST_COUNTED else (max(2, telling), False)


def least_step(is_auroc: bool, known: Sequence[int]) -> float:
    """The smallest step between neighbouring scores of a metric of right and wrong answers that is not a plain share.

    Such a metric depends on two counts or more, so there are about as many values as rows squared; many are far more
    likely than others.
    """
    if known:
        return 100 / min(known) ** 2
    return 1e-6 if is_auroc else 1e-4


def step_of_ties(cells: Sequence[Collection[float]]) -> float:
    """The step at which normal numbers would tie as often as those of different cells do; 0 if none do."""
    times = [Counter(cell) for cell in cells]
    all_times: Counter[float] = Counter()
    for own in times:  # sum() would copy all of it for each cell
        all_times.update(own)
    pairs = all_times.total() ** 2 - sum(len(cell) ** 2 for cell in cells)
    ties = sum(count**2 for count in all_times.values()) - sum(n**2 for own in times for n in own.values())
    if not ties:
        return 0.0
    return float(ties / pairs * 2 * math.sqrt(math.pi) * np.std(list(all_times.elements())))


def step_of_grid(values: Collection[float], rounding: float) -> float:
    """The step between scores that all lie on a grid, as losses of hard answers do; 0 if they do not, or are too few.

    Such a loss is a count of errors in disguise, with any factor: a log loss of 1.335 for each error on 27 rows.
    """
    distinct = np.unique(np.asarray(values, dtype=np.float64))
    gaps = np.diff(distinct)
    tolerance = rounding + DOUBLE * float(np.abs(distinct).max(initial=0.0))
    gaps = gaps[gaps > tolerance]  # the same number, computed in another order, is no neighbour
    if len(gaps) < 2:
        return 0.0
    step = float(gaps.min())
    steps = gaps / step
    reach = tolerance * (1 + float(steps.max())) / step
    fits = bool(np.all(np.abs(steps - np.rint(steps)) <= reach))
    # Gaps that have nothing to do with each other are multiples of one of them by chance, once in so many times.
    return step if fits and (len(gaps) - 1) * math.log(min(1.0, 2 * reach)) < math.log(UNBELIEVABLE) else 0.0


def sampling_spread(value: float, rows: int) -> float:
    """How much one model's scores on two parts of this many rows differ (standard deviation)."""
    size = abs(value)
    if size <= 1:
        spread = math.sqrt(2 * size * (1 - size))
    elif size <= 100:  # it may be a percentage
        spread = min(size, math.sqrt(2 * size * (100 - size)))
    else:
        spread = size
    return max(spread, 1e-3 * size, 1e-12) / math.sqrt(rows)


@dataclass(frozen=True)
class Spread:
    """How far apart the scores of a group of runs are."""

    middle: float
    over_seeds: float
    """Standard deviation."""
    is_accuracy: bool

    def from_run_to_run(self, rows: int) -> float:
        """The least by which the difference between validation and test varies from training to training.

        Trainings whose accuracies differ by a share differ in at least that share of the rows. For other metrics we
        only know that the losses of two trainings on one row are not quite the same.
        """
        if self.is_accuracy:
            unit = 100.0 if self.middle > 1.5 else 1.0
            return unit * math.sqrt(2 * self.over_seeds / unit / rows)
        return LIKENESS * sampling_spread(self.middle, rows)


def chance_of_equal_parts(equal: int, runs: int, spread: Spread, lattice: Lattice) -> float:
    """Chance that this many runs score the same on validation and test, though the rows are different.

    The parts may happen to be equally hard; then the runs differ only by the randomness of training. This is integrated
    over how hard the parts may be.
    """
    return fmean(
        _equal_parts(equal, runs, sampling_spread(spread.middle, rows), spread.from_run_to_run(rows), step)
        for rows, step in lattice.options
    )


def _equal_parts(equal: int, runs: int, between: float, within: float, step: float) -> float:
    within = min(max(within, step / 100), between)
    reach = 8 * min(max(step, within), between)
    offset = np.linspace(-reach, reach, 321)
    tie = ndtr((offset + step / 2) / within) - ndtr((offset - step / 2) / within)
    tail = betainc(equal, runs - equal + 1, np.clip(tie, 0, 1))
    density = np.exp(-0.5 * (offset / between) ** 2) / (between * math.sqrt(2 * math.pi))
    return float(min(1.0, (tail * density).sum() * (offset[1] - offset[0])))


def smallest_spread(value: float, rows: int) -> float:
    """The least by which trainings of different seeds differ (standard deviation)."""
    return LEAST_SPREAD * sampling_spread(value, rows)


def chance_of_one_value(runs: int, value: float, lattice: Lattice) -> float:
    """Chance that this many trainings, each with its own seed, all have the same score."""
    chances = [_chance_of_a_tie(step, smallest_spread(value, rows)) for rows, step in lattice.options]
    return float(max(chances) ** (runs - 1))


def chance_of_copied_runs(values: Sequence[float], step: float) -> float:
    """Chance that a second cell has the same runs as this one if the means already agree."""
    distinct = set(values)
    return float(_chance_of_a_tie(step, float(np.std(list(values)))) ** (len(distinct) - 1))


def _chance_of_a_tie(step: float, spread: float) -> float:
    """Chance of a tie between two normal numbers of this spread."""
    return min(1.0, step / (2 * math.sqrt(math.pi) * max(spread, 1e-300)))


def expected_repeats(values: Sequence[float], step: float) -> float:
    """How many values would repeat another one by chance, estimated from near misses.

    Infinite if the step is about as wide as the values are spread: then any number of repeats is possible.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    width = float(np.median(np.abs(ordered - np.median(ordered)))) or 1e-4 * abs(float(ordered[0]))
    if 2 * step > width:
        return math.inf
    same = _pairs_within(ordered, step / 4)
    windows = [2.0 * step * 2.0**power for power in range(int(math.log2(width / step)))]
    found = [(_pairs_within(ordered, window + step / 4) - same) * step / (2 * window) for window in windows]
    widest = (_pairs_within(ordered, width + step / 4) - same + 1) * step / (2 * width)
    return max([*found, widest])


def _pairs_within(ordered: NDArray[np.float64], window: float) -> int:
    ends = np.searchsorted(ordered, ordered + window, side="right")
    return int((ends - np.arange(len(ordered)) - 1).sum())


def expected_at(value: float, ordered: Sequence[float], step: float, window: float) -> float:
    """How many scores would be exactly this value by chance, estimated from those within the window; all are sorted."""
    if step >= window:
        return math.inf
    within = bisect_right(ordered, value + window) - bisect_left(ordered, value - window)
    exactly = bisect_right(ordered, value) - bisect_left(ordered, value)
    return (within - exactly + 1) * step / (2 * window)


def chance_of_so_many(count: int, expected: float) -> float:
    """Chance of at least this many coincidences if ``expected`` is right up to a factor."""
    if count <= 0 or math.isinf(expected):
        return 1.0
    return float(gammainc(count, SLACK * expected))


def chance_of_several(count: int, chances: Sequence[float]) -> float:
    """Chance that at least this many of several events happen, assumed equally likely."""
    return float(betainc(count, len(chances) - count + 1, fmean(chances))) if count else 1.0
