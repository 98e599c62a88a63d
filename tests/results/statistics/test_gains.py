"""Paired gains: hand-worked values, scipy, and the cases in which there is nothing to estimate."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scoreboard import make_scores, near

from tabbench.results.statistics import (
    Gain,
    GainSummary,
    Interval,
    Place,
    gains,
    mean_interval,
    paired_gain,
    share_explained,
    summarise_gains,
)

T2 = 4.302652729911275
"""97.5 % quantile of Student's t with two degrees of freedom: (0.95 / sqrt(2 * 0.025 * 0.975))."""


def splits(*scores: float) -> dict[Place, float]:
    return {(split, 0): score for split, score in enumerate(scores)}


def test_three_splits_by_hand() -> None:
    gain = paired_gain(splits(0.61, 0.72, 0.83), splits(0.5, 0.6, 0.7), lower_is_better=False)
    half = T2 * 0.01 / math.sqrt(3)  # differences 0.11, 0.12, 0.13: mean 0.12, standard deviation 0.01
    assert gain.mean == near(0.12)
    assert (gain.low, gain.high) == (near(0.12 - half), near(0.12 + half))
    assert (gain.n, gain.verdict) == (3, "helps")
    assert gain.percent == near(30), "0.12 of an error of 0.4"


def test_an_error_that_grows_hurts() -> None:
    gain = paired_gain(splits(0.61, 0.72, 0.83), splits(0.5, 0.6, 0.7), lower_is_better=True)
    assert (gain.mean, gain.verdict) == (near(-0.12), "hurts")
    assert gain.high == near(-0.12 + T2 * 0.01 / math.sqrt(3))
    assert gain.percent == near(-20), "0.12 of an error of 0.6"


def test_an_interval_that_holds_zero_shows_nothing() -> None:
    gain = paired_gain(splits(0.6, 0.8, 1.0), splits(0.5, 0.6, 0.7), lower_is_better=False)
    assert (gain.mean, gain.verdict) == (near(0.2), "not shown")
    assert gain.low == near(0.2 - T2 * 0.1 / math.sqrt(3))


def test_seeds_are_averaged_within_a_split_and_only_common_places_count() -> None:
    method = {(0, 0): 0.6, (0, 1): 0.8, (1, 0): 0.9, (1, 1): 0.0, (2, 0): 0.0}
    control = {(0, 0): 0.5, (0, 1): 0.5, (1, 0): 0.5, (0, 2): 0.9, (3, 0): 0.9}
    gain = paired_gain(method, control, lower_is_better=False)
    assert gain.mean == near(0.3), "split 0: (0.1 + 0.3) / 2, split 1: 0.4"
    half = math.tan(0.475 * math.pi) * 0.1  # t with one degree of freedom is Cauchy's; the standard error is 0.1
    assert (gain.low, gain.high) == (near(0.3 - half), near(0.3 + half))
    assert gain.n == 2


def test_with_one_split_an_interval_is_not_estimable() -> None:
    gain = paired_gain({(0, 0): 0.6, (0, 1): 0.8}, {(0, 0): 0.5, (0, 1): 0.5}, lower_is_better=False)
    assert gain == Gain(near(0.2), None, None, 1, "not estimable", near(40))
    assert gain.to_json() == {
        "mean": near(0.2), "low": None, "high": None, "n": 1, "verdict": "not estimable"
    }  # fmt: skip


@pytest.mark.parametrize("control", [{}, {(1, 0): 0.5}])
def test_without_a_common_place_nothing_is_estimable(control: dict[Place, float]) -> None:
    nothing = Gain(None, None, None, 0, "not estimable", None)
    assert paired_gain({(0, 0): 0.6}, control, lower_is_better=False) == nothing
    assert paired_gain(control, {(0, 0): 0.6}, lower_is_better=False) == nothing


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_common_score_that_is_not_finite_makes_the_gain_not_estimable(bad: float) -> None:
    nothing = Gain(None, None, None, 3, "not estimable", None)
    assert paired_gain(splits(0.6, bad, 0.7), splits(0.5, 0.5, 0.5), lower_is_better=False) == nothing
    assert paired_gain(splits(0.6, bad, 0.7), splits(0.5, bad, 0.5), lower_is_better=False) == nothing
    elsewhere = paired_gain({**splits(0.6, 0.7), (9, 0): bad}, splits(0.5, 0.5), lower_is_better=False)
    assert elsewhere.mean == near(0.15), "a place of one row alone does not count"


def test_the_same_difference_in_all_splits_is_an_interval_of_no_width() -> None:
    gain = paired_gain(splits(0.75, 0.5, 0.25), splits(0.5, 0.25, 0.0), lower_is_better=False)
    assert (gain.mean, gain.low, gain.high, gain.verdict) == (0.25, 0.25, 0.25, "helps")
    same = paired_gain(splits(0.75, 0.5), splits(0.75, 0.5), lower_is_better=False)
    assert same == Gain(0.0, 0.0, 0.0, 2, "not shown", 0.0)


def test_rounding_alone_never_helps() -> None:
    method = {(split, seed): score for split in range(3) for seed, score in enumerate((0.1, 0.2, 0.3))}
    control = {(split, seed): score for split in range(3) for seed, score in enumerate((0.3, 0.2, 0.1))}
    assert 0.1 + 0.2 + 0.3 > 0.3 + 0.2 + 0.1
    assert paired_gain(method, control, lower_is_better=False) == Gain(0.0, 0.0, 0.0, 3, "not shown", 0.0)


def test_percent_of_no_error_is_not_defined() -> None:
    assert paired_gain(splits(1.0, 0.9), splits(1.0, 1.0), lower_is_better=False).percent is None
    assert paired_gain(splits(0.0, 0.1), splits(0.0, 0.0), lower_is_better=True).percent is None


scores = st.floats(0.01, 10).map(lambda value: round(value, 3))


@given(st.lists(st.tuples(scores, scores), min_size=2, max_size=12), st.booleans(), st.sampled_from([0.9, 0.95, 0.99]))
def test_intervals_are_those_of_scipy(pairs: list[tuple[float, float]], lower: bool, level: float) -> None:
    method, control = zip(*pairs, strict=True)
    first, second = (control, method) if lower else (method, control)
    differences = [a - b for a, b in zip(first, second, strict=True)]
    expected = stats.ttest_rel(first, second) if max(differences) - min(differences) > 1e-9 else None
    gain = paired_gain(splits(*method), splits(*control), lower_is_better=lower, level=level)
    assert gain.low is not None
    assert gain.high is not None
    if expected is not None:
        ends = expected.confidence_interval(level)
        assert (gain.low, gain.high) == (near(ends.low, abs=1e-9), near(ends.high, abs=1e-9))
    assert gain.verdict == ("helps" if gain.low > 0 else "hurts" if gain.high < 0 else "not shown")
    mirrored = paired_gain(splits(*control), splits(*method), lower_is_better=lower, level=level)
    assert (mirrored.low, mirrored.high) == (near(-gain.high), near(-gain.low))


def test_gains_are_for_datasets_that_both_have() -> None:
    board = make_scores(
        {
            "tjepa": {"wine": [0.9, 0.8], "ca": [0.4, 0.5]},
            "none": {"wine": [0.8, 0.7], "ca": [0.5, 0.4]},
            "x": {"y": [1]},
        },
        lower=["ca"],
    )
    found = gains(board, "tjepa", "none")
    assert list(found) == ["ca", "wine"]
    assert (found["wine"].mean, found["wine"].verdict) == (near(0.1), "helps")
    assert (found["ca"].mean, found["ca"].verdict) == (near(0), "not shown")
    assert gains(board, "x", "none") == {}


def test_a_summary_counts_verdicts_and_averages_percents() -> None:
    found = [
        Gain(0.1, 0.05, 0.15, 3, "helps", 10.0),
        Gain(0.1, -0.05, 0.25, 3, "not shown", 4.0),
        Gain(-0.1, -0.2, -0.01, 3, "hurts", -2.0),
        Gain(0.1, None, None, 1, "not estimable", None),
    ]
    assert summarise_gains(found) == GainSummary(1, 1, 1, 1, 4.0)
    assert summarise_gains([]) == GainSummary(0, 0, 0, 0, None)


def test_the_share_that_the_untrained_encoder_explains() -> None:
    def gain(mean: float | None) -> Gain:
        return Gain(mean, None, None, 1, "not estimable", None)

    assert share_explained(gain(0.10), gain(0.03)) == near(0.7)
    assert share_explained(gain(0.10), gain(0.12)) == near(-0.2)
    assert share_explained(gain(-0.1), gain(0.1)) is None
    assert share_explained(gain(None), gain(0.1)) is None


def test_the_interval_of_a_cell() -> None:
    found = mean_interval({(0, 0): 0.1, (0, 1): 0.3, (1, 0): 0.3, (2, 0): 0.4})  # splits 0.2, 0.3, 0.4
    half = T2 * 0.1 / math.sqrt(3)
    assert found == Interval(near(0.3), near(0.3 - half), near(0.3 + half), 3)
    assert mean_interval({(0, 0): 0.1, (0, 1): 0.3}) == Interval(near(0.2), None, None, 1)
    assert mean_interval({(0, 0): math.nan, (1, 0): 0.3}) == Interval(None, None, None, 2)
    assert mean_interval({}) == Interval(None, None, None, 0)
