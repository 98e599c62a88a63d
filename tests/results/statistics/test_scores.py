"""Scores: what is compared with what."""

import math
import subprocess
import sys

import numpy as np
import pytest
from scoreboard import make_scores, near

from tabbench.results.statistics import Scores


def test_the_package_imports_neither_scipy_nor_torch() -> None:
    code = "import sys, tabbench.results.statistics; print(*sorted({'scipy', 'torch', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


def test_a_second_score_for_a_place_is_refused() -> None:
    entries = [("a", "wine", 0, 0, 0.8), ("a", "wine", 0, 1, 0.8), ("a", "wine", 0, 0, 0.9)]
    message = r"^Two scores for row 'a' on 'wine', split 0, seed 0. Leave out trials and older records.$"
    with pytest.raises(ValueError, match=message):
        Scores.collect(entries)


def test_means_average_seeds_within_a_split_first() -> None:
    scores = Scores.collect([("a", "wine", 0, 0, 0.1), ("a", "wine", 0, 1, 0.3), ("a", "wine", 1, 0, 0.4)])
    assert scores.means() == {"a": {"wine": near(0.3)}}, "0.8 / 3 would weigh split 0 twice"


def test_rows_are_compared_on_the_places_that_all_have() -> None:
    scores = Scores.collect([
        ("a", "wine", 0, 0, 0.1), ("a", "wine", 1, 0, 0.3), ("a", "wine", 2, 0, 0.9),
        ("b", "wine", 1, 0, 0.5), ("b", "wine", 2, 0, 0.7), ("b", "wine", 3, 0, 0.0),
        ("c", "iris", 0, 0, 1.0),
    ])  # fmt: skip
    assert (scores.count, scores.shared().count) == (7, 5)
    assert scores.shared().by_dataset["wine"].places == ((1, 0), (2, 0))
    assert scores.means() == {
        "a": {"iris": None, "wine": near(0.6)},
        "b": {"iris": None, "wine": near(0.6)},
        "c": {"iris": 1.0, "wine": None},
    }


def test_a_dataset_without_a_shared_place_is_left_out() -> None:
    scores = Scores.collect([("a", "wine", 0, 0, 0.1), ("b", "wine", 1, 0, 0.3), ("a", "iris", 0, 0, 0.5)])
    assert scores.datasets == ("iris", "wine")
    assert scores.shared().datasets == ("iris",)
    assert scores.means()["a"] == {"iris": 0.5, "wine": None}


def test_selected_rows_share_more_places() -> None:
    scores = make_scores({"a": {"wine": [0.1, 0.2]}, "b": {"wine": [0.3, 0.4]}, "c": {"wine": [0.5], "iris": [0.6]}})
    chosen = scores.select(["b", "a"])
    assert (chosen.rows, chosen.datasets, chosen.results) == (("b", "a"), ("wine",), 2)
    assert scores.shared().results == 2, "one split of wine, one of iris"
    assert chosen.means() == {"b": {"wine": near(0.35)}, "a": {"wine": near(0.15)}}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_makes_its_cell_missing(bad: float) -> None:
    scores = make_scores({"a": {"wine": [0.1, bad]}, "b": {"wine": [0.3, 0.5]}})
    assert scores.means() == {"a": {"wine": None}, "b": {"wine": near(0.4)}}
    assert scores.count == 4, "it is there, and is not averaged away"


def test_equal_scores_are_equal_losses_in_any_order_of_their_sum() -> None:
    a, b = [0.1, 0.2, 0.3], [0.3, 0.2, 0.1]
    here = make_scores({"a": {"wine": a}, "b": {"wine": b}}).by_dataset["wine"]
    assert sum(a) != sum(b), "floating-point sums depend on their order"
    assert np.ptp(here.losses(np.array([sum(a), sum(b)]))) == 0


def test_no_scores_are_no_rows() -> None:
    empty: Scores[str] = Scores.collect([])
    assert (empty.rows, empty.datasets, empty.count, empty.means()) == ((), (), 0, {})
