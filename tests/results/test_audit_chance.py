"""How likely coincidences are: by hand, and against simulated honest runs."""

import math
import time

import numpy as np
import pytest
from releases import simulate

from tabbench.results.audit import chance
from tabbench.results.audit.chance import Lattice, Spread


@pytest.mark.parametrize("decimals, rounding", [(4, 1e-4), (16, 1e-16)])
def test_accuracies_tell_on_how_many_rows_they_were_counted(decimals: int, rounding: float) -> None:
    values = [round(right / 128, decimals) for right in (65, 67, 70, 71, 83, 97)]
    assert chance.count_rows(values, rounding) == (128, True)


def test_32_bit_accuracies_tell_it_too() -> None:
    values = [float(np.float32(right / 9769)) for right in (8301, 8322, 8350, 8411)]
    assert chance.count_rows(values, 1e-16) == (9769, True)


def test_errors_and_few_digits_do_not_tell_it() -> None:
    errors = [0.46812345678, 0.4712987654, 0.465598765, 0.4733987612, 0.46981273645, 0.4674321098]
    assert chance.count_rows(errors, 1e-11) == (None, False)
    assert chance.count_rows([0.85], 1e-2) == (13, False), "11/13 is 0.846, so it fits"
    assert chance.count_rows([1.0, 0.0], 1e-2) == (1, False)


def test_one_tie_on_100_rows_is_usual() -> None:
    """The difference of two accuracies of 0.9 on 100 rows has a standard deviation of sqrt(2 * 0.09 / 100) = 0.0424.

    Its density at 0 is 0.3989 / 0.0424 = 9.40, so that a step of 0.01 has a chance of 9.4 %.
    """
    lattice = Lattice(((100, 0.01),), counted=100)
    found = chance.chance_of_equal_parts(1, 1, Spread(0.9, 0.0, is_accuracy=True), lattice)
    assert found == pytest.approx(0.094, abs=0.001)


def test_many_ties_are_less_usual_and_more_rows_make_rounded_ones_more_usual() -> None:
    spread = Spread(0.85, 0.003, is_accuracy=True)
    chances = {
        (runs, rows): chance.chance_of_equal_parts(runs, runs, spread, Lattice(((rows, 0.001),)))
        for runs in (1, 20)
        for rows in (2_000, 1_000_000)
    }
    assert chances[20, 2_000] < 1e-8 < chances[1, 2_000] == pytest.approx(0.035, abs=0.005)
    assert chances[20, 1_000_000] > 0.5, "on a million rows both parts give the same three digits"


@pytest.mark.parametrize("metric, rows", [("accuracy", 100), ("accuracy", 1500), ("rmse", 400)])
def test_ties_of_honest_runs_are_no_more_frequent_than_expected(metric: str, rows: int) -> None:
    """In 60 datasets, how often is the chance of what happened below one in 20? Less often than that."""
    rng = np.random.default_rng(rows)
    unlikely = 0
    for _ in range(60):
        scores = simulate(rng, metric, rows, 1, 12)[0].round(3)
        distinct = np.unique(scores, axis=0)
        ties = int((distinct[:, 0] == distinct[:, 1]).sum())
        spread = Spread(float(np.median(scores)), float(distinct[:, 1].std()), metric == "accuracy")
        step = max(0.001, 1 / rows) if metric == "accuracy" else 0.001
        lattice = Lattice(((rows, step),))
        unlikely += ties > 0 and chance.chance_of_equal_parts(ties, len(distinct), spread, lattice) < 0.05
    assert unlikely <= 7, "the chance of 8 or more of 60 at one in 20 is below one percent"


def test_the_least_spread_is_below_what_published_seeds_have() -> None:
    """AUROC on Adult, 16,281 test rows: the smallest of 39 published standard deviations over 15 seeds is 0.0002."""
    least = chance.smallest_spread(0.92442, 16_281)
    assert 0.0001 < least < 0.0002


def test_one_value_in_all_runs_is_explained_by_few_digits_only() -> None:
    assert chance.chance_of_one_value(10, 0.85, Lattice(((1000, 0.01),))) == 1.0
    assert chance.chance_of_one_value(10, 0.85, Lattice(((1000, 1e-6),))) < 1e-20
    assert chance.chance_of_one_value(1, 0.85, Lattice(((1000, 1e-6),))) == 1.0


def test_repeats_are_expected_as_often_as_values_miss_each_other_closely() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(0.8, 0.02, 400).round(3)
    repeats = [math.comb(int(count), 2) for count in np.unique(values, return_counts=True)[1]]
    assert chance.expected_repeats(list(values), 0.001) == pytest.approx(sum(repeats), rel=0.2)
    assert chance.expected_repeats(list(rng.normal(0.8, 0.02, 400)), 1e-12) < 1e-4
    assert math.isinf(chance.expected_repeats([0.80, 0.81, 0.81, 0.82], 0.01))


def test_values_at_a_point_are_expected_as_often_as_around_it() -> None:
    """Nine others within 0.05 on either side, in steps of 0.001: (9 + 1) / 100."""
    others = sorted([0.5, 0.5, *(0.46 + 0.009 * place for place in range(9)), 0.9])
    assert chance.expected_at(0.5, others, 0.001, 0.05) == pytest.approx(0.1)
    assert math.isinf(chance.expected_at(0.5, others, 0.1, 0.05))


def test_so_many_are_judged_with_slack() -> None:
    """Poisson with three times the expected 0.1: 1 - exp(-0.3) is 0.259 for one or more."""
    assert chance.chance_of_so_many(1, 0.1) == pytest.approx(0.2592, abs=1e-4)
    assert chance.chance_of_so_many(0, 0.1) == 1.0
    assert chance.chance_of_so_many(5, math.inf) == 1.0


def test_several_of_several_is_binomial() -> None:
    """At least two of three at one half: 1/2."""
    assert chance.chance_of_several(2, [0.5, 0.5, 0.5]) == pytest.approx(0.5)
    assert chance.chance_of_several(0, []) == 1.0


def test_ties_between_cells_are_counted_in_linear_time() -> None:
    def seconds(cells: int) -> float:
        scores = [(place, place + 0.5) for place in range(cells)]
        times = []
        for _ in range(3):
            start = time.process_time()
            assert chance.step_of_ties(scores) == 0
            times.append(time.process_time() - start)
        return min(times)

    assert seconds(4000) < 24 * seconds(500)  # about 8 times, or 64 if each cell copied what was counted before it
