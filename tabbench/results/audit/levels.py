"""Are there scores of exactly chance level, like those of a model that gives every row the same answer?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tabbench.results.audit import chance
from tabbench.results.audit.findings import Look
from tabbench.results.audit.release import Release
from tabbench.results.audit.runs import Run, group, values_of

CHANCE_LEVELS = {"auroc": 0.5, "": 0.5, "mcc": 0.0, "kappa": 0.0, "r2": 0.0}
"""Chance level by metric; scores without a name that are all between 0 and 1 are judged as AUROC."""
NEAR = 0.05
"""Scores this close to chance level show how many would be exactly there by chance."""
COARSE_AUROC = 0.005
"""The largest step between two values of AUROC on few rows, if the release does not say on how many."""
SAME = 1e-9
"""Scores this close are the same number, computed in another order."""


def chance_level(release: Release) -> Look | str:
    """Find scores of exactly chance level on each dataset, then overall; runs of one cell count once."""
    scored = [(run, metric) for run in release.runs for metric in run.scores if _has_level(release, run, metric)]
    if not scored:
        return f"no score is named as one of {', '.join(filter(None, CHANCE_LEVELS))}"
    groups = group(scored, lambda item: (item[0].column, item[1]))
    found: list[tuple[Run, str]] = []
    left: list[tuple[int, float, list[tuple[Run, str]]]] = []
    for (column, metric), members in groups.items():
        level = CHANCE_LEVELS[metric] * release.scale(column, metric)
        at = [run for run, _ in members if run.scores[metric].test.value == level]
        if not at:
            continue
        cells = len({run.cell for run in at})
        expected = _expected(release, [run for run, _ in members], at, metric)
        shown = [(run, f"{metric or 'score'} {run.scores[metric].test}") for run in at]
        if chance.chance_of_so_many(cells, expected) < chance.UNBELIEVABLE / len(groups):
            found += shown
        else:
            left.append((cells, expected, shown))
    by_chance = [item for _, _, shown in left for item in shown]
    if chance.chance_of_so_many(sum(n for n, _, _ in left), sum(e for _, e, _ in left)) < chance.UNBELIEVABLE:
        return Look(len(scored), found + by_chance)
    return Look(len(scored), found, len(by_chance))


def _has_level(release: Release, run: Run, metric: str) -> bool:
    return metric in CHANCE_LEVELS and (metric != "" or release.within(run.column, metric, 1.0))


def _expected(release: Release, runs: Sequence[Run], at: Sequence[Run], metric: str) -> float:
    """How many scores would be at chance level by chance, estimated from those close to it."""
    scale = release.scale(at[0].column, metric)
    level = at[0].scores[metric].test.value
    values = sorted(values_of(runs, metric))
    gap = min((after - before for before, after in pairwise(values) if after - before > SAME * scale), default=0.0)
    rounding = max(release.rounding(run, metric) for run in at)
    step = max(_step(runs, metric, level, gap / scale) * scale, rounding)
    return chance.expected_at(level, values, step, NEAR * scale)


def _step(runs: Sequence[Run], metric: str, level: float, gap: float) -> float:
    """The step between possible scores near chance level, where scores are shares; ``gap`` is the smallest seen."""
    sizes = [run.n_test for run in runs if run.n_test]
    if metric == "auroc":
        return min(gap, max(COARSE_AUROC, chance.least_step(True, sizes)) if sizes else COARSE_AUROC)
    if metric == "r2":
        return min(gap, COARSE_AUROC)
    # Zero is more likely than other values of kappa and MCC. On n rows, half of them in either class, it takes as many
    # right as wrong answers: by chance in one of 1.25 sqrt(n) runs. Their spread is 1 / sqrt(n), so that is 2 / n wide.
    atom = 2 / min(sizes, default=min(chance.USUAL_ROWS))
    if metric:
        return max(min(gap, COARSE_AUROC), atom)
    # Without a name it may be any of these. Ties at other scores show how frequent ties are.
    cells = group((run for run in runs if run.scores[metric].test.value != level), lambda run: run.cell).values()
    return max(gap, atom, chance.step_of_ties([values_of(cell, metric) for cell in cells]))
