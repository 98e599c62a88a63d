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
from tabbench.results.audit.runs import COUNTED, HIGHER, Run, group, standard_deviation, values_of

ANOTHER_UNIT = 30.0
"""Errors of several methods on one dataset do not differ by this factor."""
FAR = 1000.0
"""Not even a single method that failed differs by this factor."""
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
            if metric in COUNTED:
                found += _two_scales(cells)
            elif metric not in HIGHER:
                found += _far_apart(cells) or _proportional(release, cells, metric)
        found += _two_target_spreads(runs)
        total += len(compared)
    distinct = list({run.cell: (run, detail) for run, detail in found[::-1]}.values())[::-1]
    return Look(total, distinct) if total else "no dataset has two methods with the same metric"


def _fewer(sides: Sequence[Sequence[_Cell]]) -> list[tuple[Run, str]]:
    """The cells of the smaller side, each with one of the other side."""
    few, many = sorted(sides, key=len)
    return [(cell.runs[0], f"{cell.middle:.6g}; another method has {many[0].middle:.6g}") for cell in few]


def _two_scales(cells: Sequence[_Cell]) -> list[tuple[Run, str]]:
    """Find shares next to percentages."""
    percent, shares = [c for c in cells if c.middle > 1.5], [c for c in cells if c.middle <= 1]
    return _fewer((percent, shares)) if percent and shares else []


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
    for cell in group(both, lambda run: run.cell).values():
        scores = [(run.scores["rmse"].test.value, run.scores["r2"].test.value) for run in cell]
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
