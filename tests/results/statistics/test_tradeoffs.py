"""Improvability, the Pareto front, and label equivalence."""

import math

import pytest
from scoreboard import make_scores, near

from tabbench.results.statistics import (
    Improvability,
    LabelEquivalence,
    Place,
    improvability,
    label_equivalence,
    pareto_front,
)


def test_improvability_by_hand() -> None:
    board = make_scores(
        {
            "a": {"wine": [0.9, 0.9], "ca": [0.5, 0.5]},
            "b": {"wine": [0.8, 0.8], "ca": [0.4, 0.4]},
            "c": {"wine": [0.6, 0.6]},
        },
        lower=["ca"],
    )
    assert improvability(board) == {
        "a": Improvability(near(10), {"ca": near(20), "wine": 0.0}),
        "b": Improvability(near(25), {"ca": 0.0, "wine": near(50)}),
        "c": Improvability(near(75), {"wine": near(75)}),
    }


def test_a_perfect_row_leaves_the_others_all_to_improve() -> None:
    found = improvability(make_scores({"a": {"wine": [1.0]}, "b": {"wine": [0.9]}, "c": {"wine": [math.nan]}}))
    assert [found[row].mean for row in "abc"] == [0.0, near(100), None]


def test_the_front_by_hand() -> None:
    ranks = {"fast": 4.0, "good": 1.5, "slow": 1.5, "worse": 4.5, "middle": 3.0, "twin": 3.0}
    seconds = {"fast": 1.0, "good": 60.0, "slow": 61.0, "worse": 1.0, "middle": 10.0, "twin": 10.0}
    assert pareto_front(ranks, seconds, lower_is_better=True) == ["fast", "middle", "twin", "good"]
    elos = {row: -rank for row, rank in ranks.items()}
    assert pareto_front(elos, seconds, lower_is_better=False) == ["fast", "middle", "twin", "good"]


def test_the_front_has_only_rows_with_a_quality_and_a_time() -> None:
    quality = {"nan": math.nan, "a": 0.5, "timeless": 0.9, "endless": 0.9}
    seconds = {"nan": 0.1, "a": 2.0, "endless": math.inf, "unknown": 0.0}
    assert pareto_front(quality, seconds, lower_is_better=False) == ["a"]
    assert pareto_front({}, {}, lower_is_better=True) == []


def splits(*scores: float) -> dict[Place, float]:
    return {(split, 0): score for split, score in enumerate(scores)}


CURVE = {10: splits(0.5, 0.5), 100: splits(0.6, 0.6), 1000: splits(0.7, 0.9)}


@pytest.mark.parametrize(
    ("score", "relation", "labels", "words"),
    [
        (0.7, "about", 100 * math.sqrt(10), "about 316"),
        (0.6, "about", 100, "about 100"),
        (0.55, "about", 10 * math.sqrt(10), "about 32"),
        (0.8, "about", 1000, "about 1,000"),
        (0.5, "at most", 10, "at most 10"),
        (0.4, "at most", 10, "at most 10"),
        (0.81, "more than", 1000, "more than all"),
    ],
)
def test_label_equivalence_by_hand(score: float, relation: str, labels: float, words: str) -> None:
    found = label_equivalence(splits(score, score), CURVE, total=1000, lower_is_better=False)
    assert found is not None
    assert (found.relation, found.labels, found.total) == (relation, near(labels), 1000)
    assert str(found) == words
    errors = {budget: {place: 1 - value for place, value in cell.items()} for budget, cell in CURVE.items()}
    mirrored = label_equivalence(splits(1 - score, 1 - score), errors, total=1000, lower_is_better=True)
    assert mirrored == LabelEquivalence(found.relation, near(found.labels), 1000)


def test_more_than_was_measured_is_not_more_than_all() -> None:
    assert str(label_equivalence(splits(0.9, 0.9), CURVE, total=16000, lower_is_better=False)) == "more than 1,000"


def test_a_curve_that_falls_again_counts_where_it_first_crosses() -> None:
    curve = {10: splits(0.5), 100: splits(0.7), 1000: splits(0.6), 10000: splits(0.9)}
    found = label_equivalence(splits(0.6), curve, total=10000, lower_is_better=False)
    assert found == LabelEquivalence("about", near(10 * math.sqrt(10)), 10000)


def test_only_places_that_all_budgets_have_count() -> None:
    curve = {10: splits(0.5, 0.1), 100: splits(0.7)}
    found = label_equivalence(splits(0.6, 0.9), curve, total=100, lower_is_better=False)
    assert found == LabelEquivalence("about", near(10 * math.sqrt(10)), 100)


def test_without_a_common_place_there_is_no_equivalence() -> None:
    assert label_equivalence({}, CURVE, total=1000, lower_is_better=False) is None
    assert label_equivalence(splits(0.5), {}, total=1000, lower_is_better=False) is None
    assert label_equivalence({(7, 0): 0.5}, CURVE, total=1000, lower_is_better=False) is None
    assert label_equivalence(splits(math.nan, 0.5), CURVE, total=1000, lower_is_better=False) is None
