"""Tests over datasets: the published example, scipy, scikit-posthocs, and sums over all signs."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scoreboard import make_scores, near

from tabbench.results.statistics import CannotTest, Friedman, Scores, friedman, holm, wilcoxon
from tabbench.results.statistics.significance import critical_difference, relative_differences

DEMSAR = {
    "C4.5": [0.763, 0.599, 0.954, 0.628, 0.882, 0.936, 0.661, 0.583, 0.775, 1.0, 0.940, 0.619, 0.972, 0.957],
    "C4.5+m": [0.768, 0.591, 0.971, 0.661, 0.888, 0.931, 0.668, 0.583, 0.838, 1.0, 0.962, 0.666, 0.981, 0.978],
    "C4.5+cf": [0.771, 0.590, 0.968, 0.654, 0.886, 0.916, 0.609, 0.563, 0.866, 1.0, 0.965, 0.614, 0.975, 0.946],
    "C4.5+m+cf": [0.798, 0.569, 0.967, 0.657, 0.898, 0.931, 0.685, 0.625, 0.875, 1.0, 0.962, 0.669, 0.9749, 0.970],
}
"""AUC on 14 datasets: table 6 of Demsar (2006), https://jmlr.org/papers/v7/demsar06a.html

The last but one of C4.5+m+cf is printed as 0.975 and ranked behind the 0.975 of C4.5+cf.
"""


def board(columns: dict[str, list[float]]) -> Scores[str]:
    return make_scores({row: {f"data {n:02}": [x] for n, x in enumerate(values)} for row, values in columns.items()})


def run_test(scores: Scores[str], level: float = 0.95) -> Friedman[str]:
    found = friedman(scores, level=level)
    assert isinstance(found, Friedman)
    return found


def test_the_example_of_demsar() -> None:
    found = run_test(board(DEMSAR))
    printed = {"C4.5+m+cf": 1.964, "C4.5+m": 2.0, "C4.5+cf": 2.893, "C4.5": 3.143}
    assert list(found.average_ranks) == list(printed), "best first"
    assert found.average_ranks == near(printed, abs=5e-4)
    assert found.datasets == 14
    assert found.critical_difference == near(1.25, abs=5e-3)
    assert run_test(board(DEMSAR), level=0.9).critical_difference == near(1.12, abs=5e-3)
    expected = stats.friedmanchisquare(*DEMSAR.values())
    assert (found.statistic, found.p_value) == (near(expected.statistic), near(expected.pvalue))
    assert found.bars == (tuple(printed),), "1.18 apart: too few datasets for Nemenyi at 5 %"
    assert run_test(board(DEMSAR), level=0.9).bars == (("C4.5+m+cf", "C4.5+m", "C4.5+cf"), ("C4.5+cf", "C4.5"))


@pytest.mark.parametrize(
    ("rows", "quantile"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (7, 2.949), (10, 3.164)]
)
def test_critical_values_are_those_of_the_table(rows: int, quantile: float) -> None:
    """Table 5 of Demsar; it cuts off 2.3437."""
    assert critical_difference(rows, 12) / np.sqrt(rows * (rows + 1) / 72) == near(quantile, abs=1e-3)


def test_below_ten_datasets_there_is_no_test() -> None:
    few = board({row: values[:9] for row, values in DEMSAR.items()})
    assert friedman(few) == CannotTest("A test needs 10 datasets on which every row has a score; here: 9.", 9)


def test_splits_and_seeds_are_not_datasets() -> None:
    entries = [(row, "wine", split, seed, 0.5) for row in "ab" for split in range(10) for seed in range(5)]
    assert friedman(Scores.collect(entries)) == CannotTest(
        "A test needs 10 datasets on which every row has a score; here: 1.", 1
    )


def test_a_dataset_that_a_row_lacks_does_not_count() -> None:
    columns = {**DEMSAR, "short": [0.5] * 10}
    assert run_test(board(columns)).datasets == 10
    lame = friedman(board({**DEMSAR, "short": [0.5] * 9 + [float("nan")]}))
    assert isinstance(lame, CannotTest)
    assert lame.datasets == 9


def test_one_row_is_nothing_to_compare() -> None:
    assert friedman(board({"a": [0.5] * 12})) == CannotTest("A test needs at least two rows; here: 1.", 12)


def test_rows_that_tie_everywhere_do_not_differ() -> None:
    found = run_test(board({"a": [0.5] * 12, "b": [0.5] * 12, "c": [0.5] * 12}))
    assert (found.statistic, found.p_value, found.bars) == (0.0, 1.0, (("a", "b", "c"),))
    assert found.wilcoxon_holm == {("a", "b"): 1.0, ("a", "c"): 1.0, ("b", "c"): 1.0}


def random_board(seed: int, rows: int = 5, datasets: int = 15) -> dict[str, list[float]]:
    rng = np.random.default_rng(seed)
    return {f"row {row}": (0.5 + 0.02 * row + 0.05 * rng.random(datasets)).tolist() for row in range(rows)}


@pytest.mark.parametrize("seed", range(3))
def test_nemenyi_agrees_with_scikit_posthocs(seed: int) -> None:
    posthocs = pytest.importorskip("scikit_posthocs")
    columns = random_board(seed)
    found = run_test(board(columns))
    p_values = posthocs.posthoc_nemenyi_friedman(np.array([*columns.values()]).T).to_numpy()
    for a, first in enumerate(columns):
        for b, second in enumerate(columns):
            apart = abs(found.average_ranks[first] - found.average_ranks[second]) > found.critical_difference
            assert apart == (p_values[a, b] < 0.05)
            assert apart == (not any({first, second} <= set(bar) for bar in found.bars) and a != b)


def test_wilcoxon_with_holm_takes_differences_in_percent_of_the_error() -> None:
    columns = random_board(7)
    found = run_test(board(columns))
    order = list(found.average_ranks)
    assert list(found.wilcoxon_holm) == [(a, b) for n, a in enumerate(order) for b in order[n + 1 :]]
    errors = {row: 1 - np.array(values) for row, values in columns.items()}
    raw = [
        stats.wilcoxon((errors[b] - errors[a]) / np.maximum(errors[a], errors[b])).pvalue
        for a, b in found.wilcoxon_holm
    ]
    assert list(found.wilcoxon_holm.values()) == near(holm(raw))


def test_relative_differences_by_hand() -> None:
    found = relative_differences(np.array([0.1, 0.4, 0.0, 0.0]), np.array([0.4, 0.1, 0.0, 0.2]))
    assert found == near([0.75, -0.75, 0.0, 1.0])


def test_signed_ranks_by_hand() -> None:
    assert wilcoxon([1, 2, 3, 4, 5]) == 2 / 32
    assert wilcoxon([-1, 2, 3, 4, 5]) == 4 / 32, "a rank sum of 0 or 1"
    assert wilcoxon([1, 1, -1]) == 1.0, "ranks 2, 2, 2: half of all signs give 2 or less"
    assert wilcoxon([0, 0, 1, 2, 3, 4, 5]) == 2 / 32, "zeros are left out"
    assert wilcoxon([0, 0]) == wilcoxon([]) == 1.0


whole = st.integers(-4, 4).map(float)


@given(st.lists(whole, min_size=1, max_size=7))
def test_signed_ranks_with_ties_are_the_sum_over_all_signs(differences: list[float]) -> None:
    ranks = stats.rankdata([abs(value) for value in differences if value])
    sums = np.array([np.dot(signs, ranks) for signs in product((-1, 1), repeat=len(ranks))])
    own = sum(np.sign(value) * rank for value, rank in zip(filter(None, differences), ranks, strict=True))
    assert wilcoxon(differences) == near(np.mean(np.abs(sums) >= abs(own) - 1e-9))


@given(st.lists(st.floats(-1, 1), min_size=10, max_size=25, unique_by=abs).filter(lambda values: 0 not in values))
def test_signed_ranks_without_ties_are_those_of_scipy(differences: list[float]) -> None:
    assert wilcoxon(differences) == near(stats.wilcoxon(differences, method="exact").pvalue)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == near([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_is_that_of_statsmodels() -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    rng = np.random.default_rng(0)
    for count in (1, 2, 5, 45):
        p_values = np.round(rng.random(count) ** 3, 2).tolist()
        assert holm(p_values) == near(multitest.multipletests(p_values, method="holm")[1])
