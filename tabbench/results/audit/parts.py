"""Is the validation score the test score?"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from tabbench.results.audit import chance
from tabbench.results.audit.findings import Look
from tabbench.results.audit.release import Release
from tabbench.results.audit.runs import PLAIN_COUNTS, Run, group, is_common, standard_deviation


def validation_equals_test(release: Release) -> Look | str:
    """Find runs whose scores agree on validation and test: cell by cell, then by dataset, then over all datasets."""
    runs = [run for run in release.runs if release.parts(run)]
    if not runs:
        return "no run has a validation score"
    suspects: set[int] = set()
    for key in (lambda run: run.cell, lambda run: run.column):
        groups = list(group((run for run in runs if id(run) not in suspects), key).values())
        unlikely = [each for each in groups if _chance_of_equal(release, each) < chance.UNBELIEVABLE / len(groups)]
        suspects |= {id(run) for members in unlikely for run in members}
    suspects |= {id(run) for members in _equal_columns(release, runs) for run in members}
    equal = [run for run in runs if _is_equal(release, run)]
    found = [(run, _show(release, run)) for run in equal if id(run) in suspects]
    return Look(len(runs), found, len(equal) - len(found))


def _equal_columns(release: Release, runs: Sequence[Run]) -> list[list[Run]]:
    """Find datasets on which at least half of the runs agree, if there are too many such datasets.

    The two parts of one dataset may be equally hard; those of most datasets are not.
    """
    columns = list(group((run for run in runs if _tells(release, run)), lambda run: run.column).values())
    mostly = [members for members in columns if 2 * sum(_is_equal(release, run) for run in members) >= len(members)]
    chances = [_chance_of_equal(release, members, half=True) for members in columns]
    return mostly if chance.chance_of_several(len(mostly), chances) < chance.UNBELIEVABLE else []


def _is_equal(release: Release, run: Run) -> bool:
    return all(validation == test for validation, test in release.parts(run).values())


def _tells(release: Release, run: Run) -> bool:
    """Whether a score counts as evidence: many honest runs are perfect on both parts."""
    return not all(validation == test and is_common(test) for validation, test in release.parts(run).values())


def _show(release: Release, run: Run) -> str:
    metric = next(iter(release.parts(run)))
    score = run.scores[metric]
    return f"{metric or 'score'} {score.validation} on validation, {score.test} on test"


def _chance_of_equal(release: Release, runs: Sequence[Run], half: bool = False) -> float:
    """Chance that this many runs agree, or half of them, by the metric that makes it least likely.

    Runs with the same scores count once.
    """
    telling = [run for run in runs if _tells(release, run)]
    equal = [run for run in telling if _is_equal(release, run)]
    if not equal and not half:
        return 1.0
    chances = []
    for metric in release.parts((equal or telling)[0]):
        members = [run for run in telling if metric in release.parts(run)]
        distinct = {(run.row, release.parts(run)[metric]) for run in members}
        ties = {(run.row, release.parts(run)[metric]) for run in members if _is_equal(release, run)}
        tests = group(distinct, lambda item: item[0]).values()
        over_seeds = median(standard_deviation([test for _, (_, test) in row]) for row in tests)
        middle = median(test for _, (_, test) in distinct)
        count = (len(distinct) + 1) // 2 if half else len(ties)
        spread = chance.Spread(middle, over_seeds, metric in PLAIN_COUNTS)
        lattice = release.lattice(members, metric).coarsened(release.step_of_parts(members, metric))
        by_spread = chance.chance_of_equal_parts(count, len(distinct), spread, lattice)
        expected = len(distinct) * release.share_of_other_parts(members, metric)
        chances.append(max(by_spread, chance.chance_of_so_many(count, expected) if expected else 0.0))
    return min(1.0, min(chances) * len(chances))
