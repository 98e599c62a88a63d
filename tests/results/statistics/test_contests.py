"""Win matrix and ratings."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scoreboard import make_scores, near

from tabbench.results.statistics import Rating, Scores, Tally, gains, rate_rows, win_matrix
from tabbench.results.statistics.contests import fit_bradley_terry

BOARD = make_scores(
    {
        "a": {"wine": [0.9, 0.8, 0.9], "ca": [0.5, 0.5, 0.5], "iris": [0.9, 0.5, 0.7], "one": [0.9]},
        "b": {"wine": [0.8, 0.7, 0.8], "ca": [0.4, 0.4, 0.4], "iris": [0.7, 0.6, 0.7], "one": [0.8]},
        "c": {"wine": [0.8, 0.7, 0.8]},
    },
    lower=["ca"],
)


def test_wins_ties_and_losses_by_the_paired_interval() -> None:
    found = win_matrix(BOARD)
    assert found.tallies["a", "b"] == Tally(wins=1, ties=1, losses=1, undecided=1), "one split decides nothing"
    assert found.tallies["b", "a"] == Tally(wins=1, ties=1, losses=1, undecided=1)
    assert found.tallies["a", "c"] == Tally(wins=1, ties=0, losses=0, undecided=3)
    assert found.tallies["b", "c"] == Tally(wins=0, ties=1, losses=0, undecided=3)
    assert found.rule == (
        "Tied: the interval of the paired difference over splits contains 0. With one split: undecided."
    )


def test_wins_ties_and_losses_by_mean_errors() -> None:
    found = win_matrix(BOARD, epsilon=0.2)
    # Errors of a and b: wine 0.133 and 0.233, ca 0.5 and 0.4 (20 %: a tie), iris 0.3 and 0.333, one 0.1 and 0.2.
    assert found.tallies["a", "b"] == Tally(wins=2, ties=2, losses=0, undecided=0)
    assert win_matrix(BOARD, epsilon=0.0).tallies["a", "b"] == Tally(wins=3, ties=0, losses=1, undecided=0)
    assert found.tallies["b", "c"] == Tally(wins=0, ties=1, losses=0, undecided=3)
    assert found.rule == "Tied: errors differ by at most 20 % of the larger one."


def test_a_rate_counts_ties_half() -> None:
    assert Tally(wins=2, ties=1, losses=1, undecided=5).rate == 0.625
    assert Tally(wins=0, ties=0, losses=0, undecided=5).rate is None


def test_the_matrix_has_the_verdicts_of_gains() -> None:
    rng = np.random.default_rng(0)
    entries = [
        (row, f"data {data}", split, seed, rng.normal(0.3 * row))
        for row in range(6) for data in range(5) for split in range(4) for seed in range(2) if rng.random() < 0.8
    ]  # fmt: skip
    scores = Scores.collect(entries, ["data 1"])
    for (a, b), tally in win_matrix(scores).tallies.items():
        verdicts = [gain.verdict for gain in gains(scores, a, b).values()]
        counts = [verdicts.count(word) for word in ("helps", "not shown", "hurts")]
        assert [tally.wins, tally.ties, tally.losses] == counts
        assert sum(counts) + tally.undecided == 5


def test_a_score_that_is_not_finite_decides_nothing() -> None:
    scores = make_scores({"a": {"wine": [0.9, math.nan]}, "b": {"wine": [0.8, 0.8]}})
    assert win_matrix(scores).tallies["a", "b"] == win_matrix(scores, epsilon=0).tallies["a", "b"] == Tally(0, 0, 0, 1)


def test_two_rows_by_hand() -> None:
    names = ("d1", "d2", "d3", "d4")
    wins = dict(zip(names, ([1.0], [1.0], [1.0], [0.0]), strict=True))
    found = rate_rows(make_scores({"a": wins, "b": {name: [0.5] for name in names}}))
    apart = 400 * math.log10(3.5 / 1.5)  # three wins to one, and half of the virtual draw each
    assert found["a"].elo == near(1000 + apart / 2)
    assert found["b"].elo == near(1000 - apart / 2)
    assert found["a"].low == near(1000 + 200 * math.log10(0.5 / 4.5)), "four datasets: as far as draws can go"
    assert found["a"].high == near(1000 + 200 * math.log10(4.5 / 0.5))


def test_a_smaller_error_wins_and_the_anchor_has_a_thousand_points() -> None:
    cells = {"raw": {"d1": [0.5], "d2": [0.5]}, "good": {"d1": [0.4], "d2": [0.4]}, "bad": {"d1": [0.6], "d2": [0.5]}}
    found = rate_rows(make_scores(cells, lower=["d1", "d2"]), anchor="raw")
    assert found["raw"] == Rating(near(1000), near(1000), near(1000))
    good, bad = found["good"].elo, found["bad"].elo
    assert good is not None
    assert bad is not None
    assert good > 1000 > bad


def test_a_dataset_is_one_game_however_many_splits_it_has() -> None:
    few = rate_rows(make_scores({"a": {"d1": [1.0], "d2": [0.0]}, "b": {"d1": [0.5], "d2": [0.5]}}))
    many = rate_rows(make_scores({"a": {"d1": [1.0], "d2": [0.0] * 30}, "b": {"d1": [0.5], "d2": [0.5] * 30}}))
    assert few == many
    assert few["a"].elo == near(1000)


def test_one_dataset_with_one_split_has_no_interval() -> None:
    found = rate_rows(make_scores({"a": {"wine": [0.9]}, "b": {"wine": [0.8]}}))
    assert found["a"] == Rating(near(1000 + 200 * math.log10(3)), None, None)


def test_a_row_without_a_game_has_no_rating() -> None:
    scores = make_scores({"a": {"d1": [0.9]}, "b": {"d1": [0.8]}, "alone": {"d2": [0.7]}})
    assert rate_rows(scores)["alone"] == Rating(None, None, None)
    assert rate_rows(make_scores({"alone": {"d2": [0.7]}})) == {"alone": Rating(None, None, None)}
    assert rate_rows(Scores.collect([])) == {}


@given(arrays(float, (2, 5, 5), elements=st.floats(0, 1000).map(lambda value: round(value, 1))))
def test_fitted_strengths_expect_the_wins_that_there_were(
    wins: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> None:
    wins = wins + 0.1
    wins[:, np.arange(5), np.arange(5)] = 0
    logs = fit_bradley_terry(wins)
    expected = (wins + wins.swapaxes(1, 2)) / (1 + np.exp(logs[:, None, :] - logs[:, :, None]))
    assert expected.sum(axis=2) == near(wins.sum(axis=2), abs=1e-8 * wins.sum(axis=2).max())
    assert logs.sum(axis=1) == near(0, abs=1e-9)
