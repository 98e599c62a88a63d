"""Are the numbers of a column in one unit?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from tabbench.results.audit import chance
from tabbench.results.audit.findings import Look
from tabbench.results.audit.release import Release
from tabbench.results.audit.runs import COUNTED, HIGHER, SHARES, Run, group, standard_deviation, values_of

ANOTHER_UNIT = 30.0
"""Errors of several methods on one dataset do not differ by this factor."""
FAR = 1000.0
"""Not even a single method that failed differs by this factor."""
UNITLESS = frozenset({"log_loss", "brier", "ece"})
"""Losses of probabilities: no unit of the data is in them, and on an easy dataset one is a thousand times another."""
SAME_SIZE = 3.0
"""A share that would be below the percentages around it by more than this factor is no share: a method failed."""
STEADY = 0.2
"""A method whose runs differ by a smaller share than this has not diverged."""
ANOTHER_SPREAD = 1.1
"""The target's standard deviation, computed from RMSE and R2, does not differ between methods by this factor."""
TELLING_R2 = 0.99
"""Above this, rounding of R2 hides the target's standard deviation."""


@dataclass(frozen=True)
class _Cell:
    """A method on one dataset, in one metric."""

    runs: list[Run]
    values: list[float]

    @property
    def middle(self) -> float:
        return median(self.values)

    def by_seed(self, metric: str) -> _Cell:
        """The same cell with its runs ordered by split and seed."""
        runs = sorted(self.runs, key=lambda run: (run.split, run.seed))
        return _Cell(runs, values_of(runs, metric))

    @property
    def is_steady(self) -> bool:
        """Whether there are several runs, or a standard deviation, with a small spread."""
        stds = [score.std.value for run in self.runs for score in run.scores.values() if score.std]
        if len(self.values) < 3 and not stds:
            return False
        return max([standard_deviation(self.values), *stds]) <= STEADY * abs(self.middle)


def mixed_units(release: Release) -> Look | str:
    """Find cells in a different unit from most of their column."""
    found: list[tuple[Run, str]] = []
    total = 0
    for runs in group(release.runs, lambda run: run.column).values():
        compared: set[tuple[str, ...]] = set()
        for metric in dict.fromkeys(metric for run in runs for metric in run.scores):
            members = group((run for run in runs if metric in run.scores), lambda run: run.cell).values()
            cells = [_Cell(each, values_of(each, metric)) for each in members]
            compared |= {each.runs[0].cell for each in cells} if len(cells) > 1 else set()
            if metric in SHARES:
                found += _two_scales(cells) or _two_scales_in_a_cell(cells)
            elif metric in COUNTED:
                # Errors of 0.9 % and 2 % are in one unit, and so are a kappa of 0.4 % and one of 60 %.
                found += _far_apart(cells) if any(cell.middle > 1.5 for cell in cells) else []
            elif metric in UNITLESS:
                found += _proportional(release, cells, metric)
            elif metric not in HIGHER:
                found += _far_apart(cells) or _proportional(release, cells, metric)
        found += _two_target_spreads(runs)
        total += len(compared)
    distinct = list({run.cell: (run, detail) for run, detail in found[::-1]}.values())[::-1]
    total = max(total, len(distinct))  # a cell alone on its dataset may have runs in two units
    return Look(total, distinct) if total else "no dataset has two methods with the same metric"


def _fewer(sides: Sequence[Sequence[_Cell]]) -> list[tuple[Run, str]]:
    """The cells of the smaller side, each with one of the other side."""
    few, many = sorted(sides, key=len)
    return [(cell.runs[0], f"{cell.middle:.6g}; another method has {many[0].middle:.6g}") for cell in few]


def _two_scales(cells: Sequence[_Cell]) -> list[tuple[Run, str]]:
    """Find shares next to percentages."""
    percent = [cell for cell in cells if cell.middle > 1.5]
    shares = [cell for cell in cells if 0 < cell.middle <= 1]
    are_mixed = bool(percent and shares) and _are_shares(
        [cell.middle for cell in shares], [cell.middle for cell in percent]
    )
    return _fewer((percent, shares)) if are_mixed else []


def _two_scales_in_a_cell(cells: Sequence[_Cell]) -> list[tuple[Run, str]]:
    """Find cells of which some runs are shares and others percentages."""
    found = []
    for cell in cells:
        percent = [value for value in cell.values if value > 1.5]
        shares = [value for value in cell.values if 0 < value <= 1]
        if percent and shares and _are_shares(shares, percent):
            found.append((cell.runs[0], f"{min(shares):.6g} in one run, {max(percent):.6g} in another"))
    return found


def _are_shares(small: Sequence[float], percent: Sequence[float]) -> bool:
    """Whether these are shares, not percentages of a method that failed."""
    return 100 * max(small) > min(percent) / SAME_SIZE


def _far_apart(cells: Sequence[_Cell]) -> list[tuple[Run, str]]:
    """Two clusters of errors with a wide gap between them. A method that diverged is not a cluster."""
    ordered = sorted((cell for cell in cells if cell.middle > 0), key=lambda cell: cell.middle)
    gaps = [after.middle / before.middle for before, after in pairwise(ordered)]
    widest = max(gaps, default=0.0)
    if widest < ANOTHER_UNIT:
        return []
    place = gaps.index(widest) + 1
    sides = ordered[:place], ordered[place:]
    return _fewer(sides) if all(_is_cluster(side, widest) for side in sides) else []


def _is_cluster(cells: Sequence[_Cell], gap: float) -> bool:
    is_tight = cells[-1].middle / cells[0].middle < math.sqrt(gap)
    return is_tight and (len(cells) > 1 or cells[0].is_steady or gap > FAR)


def _proportional(release: Release, cells: Sequence[_Cell], metric: str) -> list[tuple[Run, str]]:
    """Two methods whose errors differ by one factor, seed by seed: the same runs in two units."""
    usable = [cell.by_seed(metric) for cell in cells if min(cell.values) > 0 and len(set(cell.values)) > 3]
    found = []
    for same_seeds in group(usable, lambda cell: tuple((run.split, run.seed) for run in cell.runs)).values():
        # Cells that are proportional have the same ratio of their first two runs, so they are neighbours.
        ordered = sorted(same_seeds, key=lambda cell: cell.values[1] / cell.values[0])
        for pair in pairwise(ordered):
            other, cell = sorted(pair, key=lambda cell: cell.middle)
            ratios = [ours / theirs for ours, theirs in zip(cell.values, other.values, strict=True)]
            if len(ordered) * _chance_of_one_factor(release, (cell, other), ratios, metric) < chance.UNBELIEVABLE:
                found.append((cell.runs[0], f"{fmean(ratios):.5g} times {other.runs[0].name} in every run"))
    return found


def _chance_of_one_factor(release: Release, cells: tuple[_Cell, _Cell], ratios: Sequence[float], metric: str) -> float:
    """Chance that ratios are all the same to the digits that were written; 1 if they are not, or are all 1."""
    rounding = sum(release.rounding(cell.runs[0], metric) / min(cell.values) for cell in cells)
    factor = fmean(ratios)
    if max(ratios) - min(ratios) > rounding * factor or abs(factor - 1) <= rounding:
        return 1.0
    step = sum(release.lattice(cell.runs, metric).step / min(cell.values) for cell in cells)
    vary = standard_deviation(cells[0].values) / cells[0].middle
    return float(min(1.0, step / vary) ** (len(set(cells[0].values)) - 2))


def _two_target_spreads(runs: Sequence[Run]) -> list[tuple[Run, str]]:
    """Find targets of different spread: RMSE and R2 give the target's standard deviation, the same for all methods."""
    told = []
    both = [run for run in runs if {"rmse", "r2"} <= run.scores.keys()]
    unit = 100.0 if max(values_of(both, "r2"), default=0.0) > 1 else 1.0
    for cell in group(both, lambda run: run.cell).values():
        scores = [(run.scores["rmse"].test.value, run.scores["r2"].test.value / unit) for run in cell]
        spreads = [rmse / math.sqrt(1 - r2) for rmse, r2 in scores if rmse > 0 and r2 < TELLING_R2]
        told += [(cell[0], median(spreads))] if spreads else []
    if not told:
        return []
    usual = sorted(spread for _, spread in told)[(len(told) - 1) // 2]
    return [
        (run, f"RMSE and R2 imply a target with standard deviation {spread:.4g}; those of another method, {usual:.4g}")
        for run, spread in told
        if not usual / ANOTHER_SPREAD < spread < usual * ANOTHER_SPREAD
    ]
