"""The check of printed ranks: some rule for ties and missing cells must give them from the printed means."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from statistics import fmean

from tabbench.results.audit.findings import Look
from tabbench.results.audit.release import Release
from tabbench.results.audit.runs import HIGHER, LOWER, Number, Row, Run, group, values_of

Bounds = tuple[float, float]
"""The lowest and highest rank that a mean allows, whatever the rule for ties and the digits lost to rounding."""


def ranks_do_not_follow(release: Release) -> Look | str:
    """Find printed ranks, on datasets and on average, that no rule gives from the means."""
    printed = [run for run in release.runs if run.rank is not None]
    averages = list({(run.row, run.average_rank): run for run in release.runs if run.average_rank}.values())
    if not printed and not averages:
        return "no ranks are printed"
    wrong: list[tuple[Run, str]] = []
    for runs in _tables_with_ranks(printed, release):
        bounds = _bounds(release, runs)
        ranks = [(run, run.rank) for run in runs if run.rank is not None and run.row in bounds]
        if max((rank.value for _, rank in ranks), default=0.0) <= len(bounds):  # otherwise some rows were not released
            wrong += [
                (run, _difference(rank, bounds[run.row])) for run, rank in ranks if _outside(rank, bounds[run.row])
            ]
    wrong += _wrong_averages(release, averages)
    return Look(len(printed) + len(averages), wrong)


def _tables_with_ranks(printed: Sequence[Run], release: Release) -> list[list[Run]]:
    """Runs that were ranked together: the means of a dataset, or its runs of one split and seed."""
    ranks = group(printed, lambda run: run.cell).values()
    by_seed = any(len({run.rank for run in runs}) > 1 for runs in ranks)
    scored = [run for run in release.runs if run.scores]
    tables = group(scored, lambda run: (run.column, run.split, run.seed) if by_seed else (run.column, "", ""))
    return [runs for runs in tables.values() if any(run.rank is not None for run in runs)]


def _bounds(release: Release, runs: Sequence[Run]) -> dict[Row, Bounds]:
    """What the means of one dataset allow, by row of the table."""
    metric = max(runs[0].scores, key=lambda name: sum(name in run.scores for run in runs))
    cells = group((run for run in runs if metric in run.scores), lambda run: run.row)
    means = {row: fmean(values_of(members, metric)) for row, members in cells.items()}
    # The order of two means is certain if they differ by more than the rounding of both.
    margin = max(release.rounding(members[0], metric) for members in cells.values()) * (1 + 1e-9)
    rising, falling = (_rank_all(means, margin, sign) for sign in (1, -1))
    if metric in LOWER or metric in HIGHER:
        return rising if metric in LOWER else falling
    # Whether higher is better is unknown: take it from the ranks, or allow both if there are none.
    ranks = {run.row: run.rank for run in runs if run.rank is not None}
    faults = [sum(_outside(rank, way[row]) for row, rank in ranks.items() if row in way) for way in (rising, falling)]
    if faults[0] != faults[1]:
        return rising if faults[0] < faults[1] else falling
    return {row: (min(rising[row][0], falling[row][0]), max(rising[row][1], falling[row][1])) for row in means}


def _rank_all(means: Mapping[Row, float], margin: float, sign: int) -> dict[Row, Bounds]:
    ordered = sorted(sign * mean for mean in means.values())
    found = {}
    for row, mean in means.items():
        surely_better = bisect_left(ordered, sign * mean - margin)
        perhaps_better = bisect_right(ordered, sign * mean + margin) - 1
        found[row] = (1.0 + surely_better, 1.0 + perhaps_better)
    return found


def _wrong_averages(release: Release, averages: Sequence[Run]) -> list[tuple[Run, str]]:
    """Find impossible average ranks over all datasets of a table, with missing cells ranked last or left out."""
    wrong = []
    for setting, ranked in group(averages, lambda run: run.setting).items():
        scored = [run for run in release.runs if run.scores and run.setting == setting]
        columns = [_bounds(release, runs) for runs in group(scored, lambda run: run.column).values()]
        rows = {row for column in columns for row in column}
        if not rows or max(run.average_rank.value for run in ranked if run.average_rank) > len(rows):
            continue
        for run in ranked:
            present = [column[run.row] for column in columns if run.row in column]
            last = [(len(column) + 1.0, float(len(rows))) for column in columns if run.row not in column]
            ways = [_mean_bounds(bounds) for bounds in (present, present + last) if bounds]
            if ways and run.average_rank and all(_outside(run.average_rank, way) for way in ways):
                wrong.append((run, _difference(run.average_rank, ways[-1])))
    return wrong


def _mean_bounds(bounds: Sequence[Bounds]) -> Bounds:
    return fmean(low for low, _ in bounds), fmean(high for _, high in bounds)


def _outside(rank: Number, bounds: Bounds) -> bool:
    tolerance = 0.5 * 10.0**-rank.decimals + 1e-9
    return not bounds[0] - tolerance <= rank.value <= bounds[1] + tolerance


def _difference(rank: Number, bounds: Bounds) -> str:
    low, high = (f"{bound:.2f}".rstrip("0").rstrip(".") for bound in bounds)
    return f"rank {rank} is printed; the means give {low}" + (f" to {high}" if high != low else "")
