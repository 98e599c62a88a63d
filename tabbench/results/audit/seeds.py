"""Do runs that differ only in the seed differ as trainings do?"""

from __future__ import annotations

from collections.abc import Sequence

from tabbench.results.audit import chance
from tabbench.results.audit.findings import Look
from tabbench.results.audit.release import Release
from tabbench.results.audit.runs import Run, group, is_common, metrics_of, signature, values_of

ENOUGH_SEEDS = 4
"""With fewer runs, one cannot say how many distinct values to expect."""


def _seed_groups(release: Release, least: int) -> list[list[Run]]:
    """Groups of runs that differ only in the seed, of a minimum size; without scores that many runs have."""
    single = [run for run in release.runs if run.averaged is None and not any(s.std for s in run.scores.values())]
    telling = [run for run in single if not all(is_common(score.test.value) for score in run.scores.values())]
    groups = group(telling, lambda run: (run.cell, run.split)).values()
    return [runs for runs in groups if len(runs) >= least and metrics_of(runs)]


def zero_spread(release: Release) -> Look | str:
    """Cells whose runs all have the same scores, and means with a standard deviation of 0."""
    groups = _seed_groups(release, 2)
    means = [run for run in release.runs if run.averaged != 1 and any(s.std for s in run.scores.values())]
    if not groups and not means:
        return "no cell has several runs, and no mean has a standard deviation"
    found = [(run, "the standard deviation is 0") for run in means if _has_no_spread(release, run)]
    by_chance = 0
    for runs in groups:
        metrics = metrics_of(runs)
        if len({signature(run, metrics) for run in runs}) > 1:
            continue
        chances = [
            chance.chance_of_one_value(len(runs), runs[0].scores[metric].test.value, release.lattice(runs, metric))
            for metric in metrics
        ]
        if min(chances) * len(chances) < chance.UNBELIEVABLE / len(groups):
            found.append((runs[0], f"{runs[0].scores[metrics[0]].test} in all of {len(runs)} runs"))
        else:
            by_chance += 1
    return Look(len(groups) + len(means), found, by_chance)


def _has_no_spread(release: Release, run: Run) -> bool:
    """Whether a standard deviation is 0, though it has enough digits to show the smallest real spread of trainings."""
    for metric, score in run.scores.items():
        if score.std is not None and score.std.value == 0 and not is_common(score.test.value):
            least = chance.smallest_spread(score.test.value, run.n_test or max(chance.USUAL_ROWS))
            if release.std_rounding[metric] / 2 < least:
                return True
    return False


def few_distinct_values(release: Release) -> Look | str:
    """Runs that repeat the scores of another seed."""
    groups = _seed_groups(release, ENOUGH_SEEDS)
    if not groups:
        return f"no cell has {ENOUGH_SEEDS} runs that differ in nothing but the seed"
    found: list[tuple[Run, str]] = []
    by_chance = 0
    for runs in groups:
        repeated = _repeated(runs)
        if not repeated or len(repeated) == len(runs) - 1:  # one value for all: that is a spread of zero
            continue
        pairs = len(runs) * (len(runs) - 1) / 2
        expected = min(
            max(
                chance.expected_repeats(values_of(runs, metric), release.step(runs, metric)),
                pairs * release.share_of_ties(runs, metric),
            )
            for metric in metrics_of(runs)
        )
        if chance.chance_of_so_many(len(repeated), expected) < chance.UNBELIEVABLE / len(groups):
            detail = f"{len(runs) - len(repeated)} distinct values in {len(runs)} runs"
            found += [(run, detail) for run in repeated]
        else:
            by_chance += len(repeated)
    return Look(sum(map(len, groups)), found, by_chance)


def _repeated(runs: Sequence[Run]) -> list[Run]:
    """All runs except the first of each set of equal ones. Runs that differ on validation are not copies."""
    metrics = metrics_of(runs)

    def on_validation(run: Run) -> tuple[float | None, ...]:
        scores = [run.scores[metric].validation for metric in metrics]
        return tuple(None if score is None else score.value for score in scores)

    same_tests = group(runs, lambda run: signature(run, metrics)).values()
    if len(same_tests) == 1:
        return list(runs[1:])
    return [run for same in same_tests for copies in group(same, on_validation).values() for run in copies[1:]]
