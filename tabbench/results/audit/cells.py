"""Do different cells of the table hold the same numbers, or numbers that are not scores?"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from statistics import fmean

from tabbench.results.audit import chance
from tabbench.results.audit.findings import Look
from tabbench.results.audit.release import Release
from tabbench.results.audit.runs import ERRORS, SHARES, Run, group, is_common, metrics_of, signature, values_of

NEAR = 0.05
"""Scores this close to a value (relative to it if above 1) show how many would be exactly there by chance."""

Cell = list[Run]
"""Runs of one method on one dataset."""


def filled_cells(release: Release) -> Look | str:
    """Cells that repeat another method's or another dataset's numbers, or hold a stand-in for a missing score."""
    cells = list(group((run for run in release.runs if run.scores), lambda run: run.cell).values())
    judged = [runs for runs in cells if not _has_common_scores(runs)]
    copies, by_chance = _copies(release, judged)
    found = [*_stand_ins(cells), *copies, *_same_on_other_datasets(release, judged)]
    return Look(len(cells), list({run.cell: (run, detail) for run, detail in found[::-1]}.values())[::-1], by_chance)


def _has_common_scores(runs: Cell) -> bool:
    """Whether most of its numbers are ones that many cells may share."""
    values = [score.test.value for run in runs for score in run.scores.values()]
    return sum(is_common(value) for value in values) > len(values) / 2


def _stand_ins(cells: Iterable[Cell]) -> list[tuple[Run, str]]:
    """Find scores that no trained model has: shares of 0 or less, or above 100 %, and errors below 0."""
    found = []
    for column in group(cells, lambda runs: runs[0].column).values():
        for metric in dict.fromkeys(metric for runs in column for run in runs for metric in run.scores):
            is_below_zero = [any(value < 0 for value in values_of(runs, metric)) for runs in column]
            for runs, is_below in zip(column, is_below_zero, strict=True):
                alone = is_below and sum(is_below_zero) == 1 and len(column) > 1
                wrong = [run for run in runs if metric in run.scores and _is_stand_in(run, metric, alone)]
                found += [(run, f"{metric or 'score'} {run.scores[metric].test}") for run in wrong[:1]]
    return found


def _is_stand_in(run: Run, metric: str, alone: bool) -> bool:
    """Whether a score cannot be one; ``alone`` if no other method on the dataset has scores below 0."""
    value = run.scores[metric].test.value
    if metric in SHARES:
        return not 0 < value <= 100
    # Some libraries turn the sign of errors, but then all are below 0. A metric without a name may be a correlation.
    return alone and value < 0 and (metric in ERRORS | {"error", "brier"} or (metric == "" and value == int(value)))


def _copies(release: Release, cells: Iterable[Cell]) -> tuple[list[tuple[Run, str]], int]:
    """Find cells of one dataset with the same numbers run by run, and count those that chance explains."""
    found: list[tuple[Run, str]] = []
    by_chance = 0
    columns = [each for each in group(cells, lambda runs: runs[0].column).values() if len(each) > 1]
    for column in columns:
        metrics = metrics_of(run for runs in column for run in runs)
        sets = [same for same in _group_equal(column, metrics) if len(same) > 1] if metrics else []
        repeats = sum(len(same) - 1 for same in sets)
        if repeats and _chance_of_copies(release, column, sets, metrics) < chance.UNBELIEVABLE / len(columns):
            for (first, *_), *others in sets:
                origin = " + ".join(part for part in (first.method, first.model) if part)
                found += [(runs[0], f"{runs[0].scores[metrics[0]].test}, as {origin}") for runs in others]
        else:
            by_chance += repeats
    return found, by_chance


def _group_equal(column: Sequence[Cell], metrics: Sequence[str]) -> Iterable[list[Cell]]:
    def numbers(runs: Cell) -> Hashable:
        ordered = sorted(runs, key=lambda run: (run.split, run.seed))
        stds = [score.std.value if score.std else None for run in ordered for score in run.scores.values()]
        return tuple(signature(run, metrics) for run in ordered), tuple(stds)

    return group(column, numbers).values()


def _chance_of_copies(
    release: Release, column: Sequence[Cell], sets: Sequence[Sequence[Cell]], metrics: Sequence[str]
) -> float:
    """Chance of copies, by the metric that makes it least likely: the means must agree, and then each run."""
    repeats = sum(len(same) - 1 for same in sets)
    pairs = len(column) * (len(column) - 1) / 2
    chances = []
    for metric in metrics:
        step = release.lattice([run for runs in column for run in runs], metric).step
        expected = min(pairs, chance.expected_repeats([fmean(values_of(runs, metric)) for runs in column], step))
        further = max(chance.chance_of_copied_runs(values_of(same[0], metric), step) for same in sets)
        chances.append(chance.chance_of_so_many(repeats, expected * further))
    return min(1.0, min(chances) * len(chances))


def _same_on_other_datasets(release: Release, cells: Iterable[Cell]) -> list[tuple[Run, str]]:
    """Cells of one method with the same mean on several datasets."""
    found: list[tuple[Run, str]] = []
    rows = [each for each in group(cells, lambda runs: runs[0].row).values() if len(each) > 2]
    for row in rows:
        for metric in dict.fromkeys(metric for runs in row for metric in runs[0].scores):
            means = [(fmean(values_of(runs, metric)), runs) for runs in row if values_of(runs, metric)]
            ordered = sorted(mean for mean, _ in means)
            for value, same in group(means, lambda pair: pair[0]).items():
                if len(same) == 1:
                    continue
                step = max(release.step(runs, metric) for _, runs in same)
                expected = chance.expected_at(value, ordered, step, NEAR * max(1.0, abs(value)))
                looks = len(rows) * len(means)
                if chance.chance_of_so_many(len(same) - 1, expected) < chance.UNBELIEVABLE / looks:
                    others = f"{len(same) - 1} other dataset{'s' if len(same) > 2 else ''}"
                    found += [(runs[0], f"{value:.6g}, as on {others}") for _, runs in same]
    return found
