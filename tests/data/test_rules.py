"""Splits by folds, groups, a column or time: nobody stands on two sides, and the past comes before the future."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabbench import DataError, LoadedData, UsageError
from tabbench.contracts.split_rule import SplitRule, make_rule
from tabbench.data.cache import store_dataset
from tabbench.data.content import row_marks
from tabbench.data.evidence import SHARED_ROWS, TRANSDUCTIVE, count_shared
from tabbench.data.prepare import SplitData, open_split
from tabbench.data.rules import divide, read_split_column
from tabbench.data.splits import Split, split_rows

N = 200


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABBENCH_CACHE", str(tmp_path))


def make_features(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"x": np.random.default_rng(0).normal(size=N), **columns})


Y = np.random.default_rng(1).integers(0, 3, N)


def sizes(split: Split) -> tuple[int, int, int]:
    return len(split.train), len(split.validation), len(split.test)


def assert_disjoint(split: Split, n: int = N) -> None:
    together = np.concatenate([split.train, split.validation, split.test])
    assert len(np.unique(together)) == len(together) == n


def test_the_default_rule_is_the_split_of_the_first_release() -> None:
    split = divide(SplitRule(), 3, make_features(), Y, False)
    assert split.key == split_rows(Y, False, 3).key
    assert SplitRule().to_json() == "80/10/10"
    assert SplitRule.from_json("80/10/10") == SplitRule()


@pytest.mark.parametrize("is_regression", [True, False])
def test_each_row_is_tested_in_one_fold(is_regression: bool) -> None:
    splits = [divide(make_rule(folds=5), number, make_features(), Y, is_regression) for number in range(5)]
    assert sorted(np.concatenate([split.test for split in splits])) == list(range(N))
    for split in splits:
        assert_disjoint(split)
        assert sizes(split) == (142, 18, 40)
    if not is_regression:
        in_test = np.array([np.bincount(Y[split.test], minlength=3) for split in splits])
        assert (np.ptp(in_test, axis=0) <= 1).all(), "each fold has its share of each class"


@pytest.mark.parametrize("rule", [make_rule(group="who"), make_rule(group="who", folds=4)], ids=["random", "folds"])
def test_no_group_stands_on_two_sides(rule: SplitRule) -> None:
    who = np.random.default_rng(2).integers(0, 40, N)
    for number in range(4):
        split = divide(rule, number, make_features(who=who), Y, False)
        assert_disjoint(split)
        parts = [set(who[part]) for part in (split.train, split.validation, split.test)]
        assert not (parts[0] & parts[1])
        assert not (parts[0] & parts[2])
        assert not (parts[1] & parts[2])
        assert len(split.test) == pytest.approx(N / (4 if rule.folds else 10), abs=8)


def test_a_group_of_half_the_table_is_for_training_and_rows_without_a_group_stand_alone() -> None:
    who = np.where(np.arange(N) < 100, 7.0, np.nan)
    for seed in range(5):
        split = divide(make_rule(group="who"), seed, make_features(who=who), Y, False)
        assert set(range(100)) <= set(split.train)
        assert len(split.test) == pytest.approx(11, abs=3)
    few = np.arange(N) % 3
    assert sorted(sizes(divide(make_rule(group="who"), 0, make_features(who=few), Y, False))) == [66, 67, 67]
    with pytest.raises(DataError, match="2 groups are too few: at least 3 are needed"):
        divide(make_rule(group="who"), 0, make_features(who=np.arange(N) % 2), Y, False)


def test_equal_rows_stay_together() -> None:
    features = make_features(c=pd.Categorical(["u", "v"] * 100))
    features.iloc[100:] = features.iloc[:100].to_numpy()
    y = np.tile(Y[:100], 2)
    apart = divide(SplitRule(), 0, features, y, False)
    assert count_shared(apart.test, apart.train, row_marks(features)) > 10
    split = divide(make_rule(duplicates="group"), 0, features, y, False)
    assert count_shared(split.test, split.train, row_marks(features)) == 0
    assert_disjoint(split)
    assert len(split.test) == 20


def test_rows_are_equal_as_floats_of_32_bits_and_missing_equals_missing() -> None:
    frame = pd.DataFrame({"a": [1.0, 1.0 + 1e-12, np.nan, np.nan, 0.0, -0.0, 2.0], "b": [1, 1, 2, 2, 3, 3, 3]})
    marks = row_marks(frame)
    assert (marks[0], marks[2], marks[4]) == (marks[1], marks[3], marks[5])
    assert len(set(marks.tolist())) == 4
    swapped = row_marks(pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 1.0]}))
    assert swapped[0] != swapped[1]


def test_a_column_of_words_is_one_split_and_a_column_of_numbers_is_folds() -> None:
    words = np.array(["Train", "train", "test", "VAL"] * 50)
    split = divide(make_rule(split_column="part"), 0, make_features(part=words), Y, False)
    assert sizes(split) == (100, 50, 50)
    assert set(words[split.validation]) == {"VAL"}
    without = np.array(["train", "train", "train", "test"] * 50)
    assert sizes(divide(make_rule(split_column="part"), 0, make_features(part=without), Y, True)) == (133, 17, 50)
    numbers = np.array([10, 3, 7, 3] * 50)
    assert read_split_column(pd.Series(numbers, name="part"))[1] == 3
    split = divide(make_rule(split_column="part"), 1, make_features(part=numbers), Y, True)
    assert set(numbers[split.test]) == {7}
    assert_disjoint(split)


@pytest.mark.parametrize(
    "values, message",
    [
        (["train", None] * 100, "the split column 'part' has no value in 100 rows"),
        (["train", "validation"] * 100, "the split column 'part' has no row with 'test'"),
        (
            ["train", "other"] * 100,
            "must hold train, test and perhaps validation, or 2 to 100 fold numbers; it holds 'other', 'tr",
        ),
        ([1] * 200, "must hold train, test and perhaps validation"),
        (list(range(200)), "must hold train, test and perhaps validation"),
    ],
)
def test_other_split_columns_are_refused(values: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        divide(make_rule(split_column="part"), 0, make_features(part=values), Y, True)
    with pytest.raises(DataError, match="there is no column 'prat'. Did you mean: part?"):
        divide(make_rule(split_column="prat"), 0, make_features(part=values), Y, True)


def test_the_past_is_for_training_and_the_future_for_test() -> None:
    when = np.random.default_rng(3).permutation(N).astype(float)
    for window in range(8):
        split = divide(make_rule(time="when"), window, make_features(when=when), Y, False)
        assert sizes(split) == (160 - 20 * window, 20, 20)
        assert when[split.train].max() < when[split.validation].min()
        assert when[split.validation].max() < when[split.test].min()
        assert when[split.test].max() == 199 - 20 * window
    with pytest.raises(UsageError, match="--splits 9: a split by time has at most 8 windows"):
        make_rule(time="when").count(9)


def test_one_moment_is_never_divided() -> None:
    when = np.repeat(np.arange(20), 10).astype(float)
    when[150:165] = 15
    split = divide(make_rule(time="when"), 0, make_features(when=when), Y, False)
    parts = [set(when[part]) for part in (split.train, split.validation, split.test)]
    assert not (parts[0] & parts[1])
    assert not (parts[1] & parts[2])
    with pytest.raises(DataError, match="too few distinct times"):
        divide(make_rule(time="when"), 0, make_features(when=1.0), Y, False)
    with pytest.raises(DataError, match="the time column 'when' has no value in 2 rows"):
        divide(make_rule(time="when"), 0, make_features(when=[np.nan, np.nan, *range(198)]), Y, False)
    with pytest.raises(DataError, match="holds text that is neither a date nor a number"):
        divide(make_rule(time="when"), 0, make_features(when=["a", "b"] * 100), Y, False)


def test_folds_of_the_server_come_repeat_by_repeat() -> None:
    folds = np.stack([np.arange(N) % 4, np.where(np.arange(N) < 60, 0, -1)], axis=1).astype(np.int16)
    split = divide(make_rule(folds="server"), 2, make_features(), Y, False, folds)
    assert split.test.tolist() == list(range(2, N, 4))
    hold_out = divide(make_rule(folds="server"), 4, make_features(), Y, False, folds)
    assert hold_out.test.tolist() == list(range(60))
    assert_disjoint(hold_out)
    with pytest.raises(DataError, match="has no folds of its own"):
        divide(make_rule(folds="server"), 0, make_features(), Y, False)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"time": "a", "folds": 5}, "--time and --folds cannot be combined"),
        ({"folds": 1}, "at least 2 folds"),
        ({"folds": "many"}, "--folds 'many': write a number of folds, or server"),
        ({"group": "a", "time": "b"}, "--group works only with random splits and --folds K"),
        ({"group": "a", "duplicates": "group"}, "cannot be combined"),
        ({"duplicates": "drop"}, "--duplicates 'drop': write group"),
        ({"transductive": True}, "--transductive needs --time, --group or --split-column"),
    ],
)
def test_rules_that_do_not_exist_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_rule(**given)


def test_a_rule_survives_json_and_has_a_name() -> None:
    rule = make_rule(group="who", folds=4)
    assert rule.to_json() == {"kind": "folds", "group": "who", "folds": 4}
    assert SplitRule.from_json({"kind": "folds", "group": "who", "folds": 4}) == rule
    assert rule.name == "4 folds, by group who"
    assert make_rule(time="when", transductive=True).name == "by time when, transductive"
    assert (rule.count(1), make_rule(split_column="p").count(1, there=3), SplitRule().count(7)) == (4, 3, 7)


# What a job sees.


def open_with(frame: pd.DataFrame, rule: SplitRule, *categorical: str, number: int = 0) -> SplitData:
    loaded = LoadedData(frame, "y", "classification", categorical, keep=rule.columns)
    return open_split(store_dataset("toy", loaded), number, rule=rule)


def test_the_column_that_decides_is_not_a_feature() -> None:
    frame = make_features(who=[f"p{i // 5}" for i in range(N)], c=["a", "b"] * 100, y=Y.astype(str))
    data = open_with(frame, make_rule(group="who"), "who", "c")
    assert data.test.schema.names == ("x", "c")
    assert data.promised_test == 0
    assert open_with(frame, SplitRule(), "who", "c").promised_test == 20


def test_rows_in_train_and_test_alike_are_noted_and_from_a_twentieth_on_flagged() -> None:
    frame = make_features(y=Y.astype(str))
    assert open_with(frame, SplitRule()).notes == ("only 20 test rows: a single row changes the score a lot",)
    doubled = pd.concat([frame] * 5, ignore_index=True)
    data = open_with(doubled, SplitRule())
    assert data.notes == (
        "100 of 100 test rows (100.0%) also occur in training; --duplicates group keeps identical rows on one side",
    )
    assert data.flags == (SHARED_ROWS,)
    together = open_with(doubled, make_rule(duplicates="group"))
    assert (together.notes, together.flags) == ((), ())


@pytest.mark.parametrize("copies, noted, flagged", [(0, False, False), (2, True, False), (5, True, True)])
def test_shared_rows_are_counted_with_their_target(copies: int, noted: bool, flagged: bool) -> None:
    y = np.array(["a", "b"] * 500)
    split = split_rows((y == "b").astype(np.int64), False, 0)
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(size=1000), "y": y})
    for row in split.test[:copies]:
        frame.loc[row, "x"] = frame["x"][next(other for other in split.train if y[other] == y[row])]
    for row in split.test[50:60]:  # another target: the same row it is not
        frame.loc[row, "x"] = frame["x"][next(other for other in split.train if y[other] != y[row])]
    data = open_with(frame, SplitRule())
    assert any(f"{copies} of 100 test rows" in note for note in data.notes) is noted
    assert (SHARED_ROWS in data.flags) is flagged


def test_unlabelled_rows_of_the_future_are_for_pretraining_only_if_one_asks() -> None:
    frame = make_features(when=np.arange(N) * 1.5, y=Y.astype(str))
    frame.loc[[3, 50, 190, 199], "y"] = None
    data = open_with(frame, make_rule(time="when"))
    assert data.unlabelled is not None
    assert data.unlabelled.numeric[:, 0].tolist() == pytest.approx(frame["x"][[3, 50]].tolist())
    assert TRANSDUCTIVE not in data.flags
    all_of_them = open_with(frame, make_rule(time="when", transductive=True))
    assert all_of_them.unlabelled is not None
    assert len(all_of_them.unlabelled) == 4
    assert TRANSDUCTIVE in all_of_them.flags
    anywhere = open_with(frame, SplitRule())
    assert anywhere.unlabelled is not None
    assert len(anywhere.unlabelled) == 4
    assert "4 rows without a target: used by pretraining only" in anywhere.notes


@pytest.mark.parametrize("numbers", [False, True])
def test_unlabelled_rows_of_held_out_groups_are_left_out(numbers: bool) -> None:
    who = np.arange(N) // 10
    frame = make_features(who=who if numbers else [f"p{i}" for i in who], y=Y.astype(str))
    frame.loc[::10, "y"] = None
    data = open_with(frame, make_rule(group="who"), *([] if numbers else ["who"]))
    assert data.unlabelled is not None
    assert len(data.unlabelled) == 16


def test_training_rows_of_one_class_are_refused() -> None:
    frame = make_features(when=np.arange(N), y=["a"] * 170 + ["b"] * 30)
    with pytest.raises(DataError, match="toy: all training rows of this split have the same class"):
        open_with(frame, make_rule(time="when"))
