"""Ranks, their bootstrap intervals, and rank groups."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scoreboard import make_scores, near

from tabbench.results.statistics import AverageRank, Missing, Ranking, Scores, Ties, rank_rows, rank_values
from tabbench.results.statistics.ranking import expanded_level, resample_losses, runs_within


def test_ranks_by_hand() -> None:
    assert rank_values([0.3, 0.1, 0.2]) == [3, 1, 2]
    assert rank_values([0.1, 0.1, 0.2]) == [1, 1, 3]
    assert rank_values([0.1, 0.1, 0.2], ties="average") == [1.5, 1.5, 3]
    assert rank_values([0.1, None, 0.2, None]) == [1, 3, 2, 3]
    assert rank_values([0.1, None, 0.2], missing="skip") == [1, None, 2]
    assert rank_values([None, None]) == [1, 1]
    assert rank_values([0.0, -0.0, float("inf"), float("nan")]) == [1, 1, 3, 4]
    assert rank_values([]) == []


def naive_ranks(values: list[float | None], ties: Ties, missing: Missing) -> list[float | None]:
    """The definition: one more than the number of smaller values, and half of the other equal ones."""
    present = [value for value in values if value is not None]

    def rank(value: float) -> float:
        equal = sum(other == value for other in present) - 1
        return 1 + sum(other < value for other in present) + (equal / 2 if ties == "average" else 0)

    last = len(present) + 1 if missing == "last" else None
    return [last if value is None else rank(value) for value in values]


some = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 0.5, 1.0]), st.floats(allow_nan=False))
ties_options = st.sampled_from(["min", "average"])


@given(st.lists(some), ties_options, st.sampled_from(["last", "skip"]))
def test_ranks_follow_their_definition(values: list[float | None], ties: Ties, missing: Missing) -> None:
    assert rank_values(values, ties, missing) == naive_ranks(values, ties, missing)


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.4]), min_size=1), ties_options)
def test_ranks_are_those_of_scipy(values: list[float], ties: Ties) -> None:
    assert rank_values(values, ties) == stats.rankdata(values, ties).tolist()


def test_average_ranks_by_hand() -> None:
    board = make_scores(
        {
            "a": {"wine": [0.8, 0.9], "ca": [0.5, 0.5], "iris": [0.9, 0.9]},
            "b": {"wine": [0.7, 0.9], "ca": [0.4, 0.4], "iris": [0.9, 0.9]},
            "c": {"wine": [0.6, 0.6], "ca": [0.6, 0.6]},
        },
        lower=["ca"],
    )
    found = rank_rows(board).rows
    assert found["a"].by_dataset == {"ca": 2, "iris": 1, "wine": 1}
    assert found["c"].by_dataset == {"ca": 3, "iris": 3, "wine": 3}
    assert [found[row].rank for row in "abc"] == [near(4 / 3), near(4 / 3), 3]
    apart = rank_rows(board, "average", "skip").rows
    assert apart["a"].by_dataset == {"ca": 2, "iris": 1.5, "wine": 1}
    assert apart["c"].by_dataset == {"ca": 3, "iris": None, "wine": 3}
    assert apart["c"].rank == 3


def test_a_dataset_weighs_one_however_many_splits_it_has() -> None:
    board = make_scores({"a": {"wine": [1.0], "iris": [0.0] * 50}, "b": {"wine": [0.0], "iris": [1.0] * 50}})
    found = rank_rows(board).rows
    assert (found["a"].rank, found["b"].rank) == (1.5, 1.5)
    losses = resample_losses(board, 4000, seed=0)
    wins = (losses[:, :, 0] < losses[:, :, 1]).sum(axis=1)
    shares = np.bincount(wins, minlength=3) / 4000
    assert shares == near([0.25, 0.5, 0.25], abs=0.03), "two draws of two datasets"


def test_splits_are_drawn_within_their_dataset() -> None:
    board = make_scores({"a": {"wine": [0.0, 1.0]}, "b": {"wine": [0.4, 0.4]}})
    losses = resample_losses(board, 4000, seed=0)[:, 0, 0]
    values, counts = np.unique(losses, return_counts=True)
    assert values.tolist() == [-1.0, -0.5, 0.0]
    assert counts / 4000 == near([0.25, 0.5, 0.25], abs=0.03)
    assert rank_rows(board).rows["a"] == AverageRank(1, 1, 2, "", {"wine": 1})


def test_one_dataset_with_one_split_has_no_interval_and_no_groups() -> None:
    found = rank_rows(make_scores({"a": {"wine": [0.9]}, "b": {"wine": [0.8]}}))
    reason = "No rank groups: a row has 1 result (splits, summed over datasets); 6 are needed to tell rows apart."
    rows = {"a": AverageRank(1, None, None, "", {"wine": 1}), "b": AverageRank(2, None, None, "", {"wine": 2})}
    assert found == Ranking(rows, None, reason)


def test_more_seeds_of_one_split_are_not_more_splits() -> None:
    entries = [(row, "wine", 0, seed, score) for seed in range(20) for row, score in (("a", 0.9), ("b", 0.8))]
    found = rank_rows(Scores.collect(entries))
    assert (found.rows["a"].low, found.critical_difference) == (None, None)


def test_rows_that_always_come_in_one_order_have_a_letter_each() -> None:
    names = ("wine", "iris", "digits")
    scores = {"a": [0.9, 0.8, 0.9], "b": [0.7, 0.6, 0.7], "c": [0.5, 0.4, 0.5], "twin": [0.5, 0.4, 0.5]}
    found = rank_rows(make_scores({row: dict.fromkeys(names, values) for row, values in scores.items()}))
    assert {row: value.group for row, value in found.rows.items()} == {"a": "a", "b": "b", "c": "c", "twin": "c"}
    assert [(value.rank, value.low, value.high) for value in found.rows.values()] == [
        (1, 1, 1), (2, 2, 2), (3, 3, 3), (3, 3, 3)
    ]  # fmt: skip
    assert found.criterion == (
        "Rows share a letter if their average ranks are within 0.00, the critical difference of all pairs together "
        "at 95 % (bootstrap over datasets and splits)."
    )


def test_runs_are_the_longest_ones_and_may_overlap() -> None:
    assert runs_within(np.array([1.0, 2.0, 3.0, 4.5, 9.0]), 1.5) == [(0, 2), (1, 3), (2, 4), (4, 5)]
    assert runs_within(np.array([1.0, 2.0, 3.0]), 2.0) == [(0, 3)], "the ends are within"
    assert runs_within(np.array([]), 1.0) == []


def noise(rows: int, datasets: int, splits: int, seed: int) -> list[tuple[str, str, int, int, float]]:
    rng = np.random.default_rng(seed)
    return [
        (f"row {row}", f"data {data:02}", split, 0, float(rng.normal()))
        for row in range(rows)
        for data in range(datasets)
        for split in range(splits)
    ]


def test_letters_are_shared_exactly_within_the_critical_difference() -> None:
    entries = [
        (row, data, split, seed, score + 0.4 * int(row[4:])) for row, data, split, seed, score in noise(12, 15, 3, 3)
    ]
    found = rank_rows(Scores.collect(entries))
    assert found.critical_difference is not None
    rows = list(found.rows.values())
    for one in rows:
        for other in rows:
            assert one.rank is not None
            assert other.rank is not None
            near = abs(one.rank - other.rank) <= found.critical_difference
            assert bool(set(one.group) & set(other.group)) == near
    assert len({row.group for row in rows}) > 3
    assert min(rows, key=lambda row: row.rank or 0).group == "a"


def test_noise_is_told_apart_in_at_most_one_table_of_twenty() -> None:
    tables = [rank_rows(Scores.collect(noise(6, 5, 3, seed)), resamples=200) for seed in range(40)]
    apart = sum(not set.intersection(*(set(row.group) for row in table.rows.values())) for table in tables)
    assert apart <= 2


def test_intervals_hold_their_rank_and_stay_between_first_and_last() -> None:
    for row in rank_rows(Scores.collect(noise(8, 4, 3, seed=1))).rows.values():
        assert row.low is not None
        assert row.rank is not None
        assert row.high is not None
        assert 1 <= row.low <= row.rank <= row.high <= 8


def test_a_seed_gives_the_same_intervals_for_records_in_any_order() -> None:
    entries = noise(5, 6, 3, seed=2)
    shuffled = random.Random(0).sample(entries, len(entries))
    found = rank_rows(Scores.collect(entries))
    again = rank_rows(Scores.collect(shuffled))
    assert dict(again.rows) == dict(found.rows)
    assert rank_rows(Scores.collect(entries), seed=1) != found


def test_without_resamples_there_are_ranks_only() -> None:
    board = Scores.collect(noise(3, 4, 3, seed=0))
    full, plain = rank_rows(board), rank_rows(board, resamples=0)
    assert (plain.critical_difference, plain.criterion) == (None, "")
    for row, value in plain.rows.items():
        assert value == AverageRank(full.rows[row].rank, None, None, "", full.rows[row].by_dataset)


def test_a_row_that_is_ranked_nowhere_has_no_rank() -> None:
    board = make_scores({"a": {"wine": [0.9, 0.8]}, "b": {"wine": [0.8, 0.9]}, "x": {"wine": [float("nan")] * 2}})
    assert rank_rows(board, missing="skip").rows["x"] == AverageRank(None, None, None, "", {"wine": None})
    assert rank_rows(board).rows["x"] == AverageRank(3, 3, 3, "", {"wine": 3})


def test_skipped_rows_are_averaged_over_the_draws_that_have_them() -> None:
    cells = {"a": {"d1": [0.9, 0.9, 0.9], "d2": [0.9, 0.9, 0.9]}, "b": {"d1": [0.8, 0.8, 0.8]}}
    found = rank_rows(make_scores(cells), missing="skip")
    assert found.rows["b"] == AverageRank(2, 2, 2, "b", {"d1": 2, "d2": None})


def test_few_datasets_are_given_wider_percentiles() -> None:
    board = Scores.collect(noise(2, 10, 1, seed=0))
    t, root = 2.2621571628, np.sqrt(10 / 9)  # Student's t with nine degrees of freedom, and n / (n - 1)
    assert expanded_level(board, 0.95) == near(1 - 2 * stats.norm.sf(t * root))
    assert expanded_level(Scores.collect(noise(2, 1, 10, seed=0)), 0.95) == near(0.9829, abs=1e-4)
    assert expanded_level(Scores.collect(noise(2, 1, 1, seed=0)), 0.95) == 0.95


def test_no_scores_are_no_ranks() -> None:
    empty: Scores[str] = Scores.collect([])
    assert rank_rows(empty).rows == {}
