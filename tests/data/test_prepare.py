"""A split as jobs see it: fitted on training rows, the test labels sealed."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabbench import DataError, LoadedData, Table
from tabbench.contracts.metrics import score_predictions
from tabbench.data.cache import Manifest, store_dataset
from tabbench.data.prepare import SealedTest, SplitData, open_split
from tabbench.data.splits import split_rows
from tabbench.values import UNKNOWN

ROWS = 200


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABBENCH_CACHE", str(tmp_path))


def make_frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "x": rng.normal(size=ROWS),
            "c": rng.choice(["a", "b", "c"], ROWS),
            "label": rng.choice(["no", "yes", "maybe"], ROWS),
            "price": rng.normal(100, 20, ROWS),
        }
    )


def store(frame: pd.DataFrame, target: str) -> Manifest:
    other = "price" if target == "label" else "label"
    task: Any = "classification" if target == "label" else "regression"
    return store_dataset("toy", LoadedData(frame.drop(columns=other), target, task, ("c",)))


def features(table: Any) -> Table:
    assert isinstance(table, Table)
    return table


def assert_equal_tables(a: Any, b: Any) -> None:
    assert features(a).schema == features(b).schema
    assert np.array_equal(features(a).numeric, features(b).numeric, equal_nan=True)
    assert np.array_equal(features(a).categorical, features(b).categorical)


def test_rows_and_labels_belong_together() -> None:
    frame = make_frame()
    data = open_split(store(frame, "label"), split_seed=3)
    codes = frame["label"].map({"maybe": 0, "no": 1, "yes": 2}).to_numpy()
    split = split_rows(codes, False, 3)
    assert data.class_names == ("maybe", "no", "yes")
    assert (len(data.train.y), len(data.validation.y), len(data.test)) == (160, 20, 20)
    assert data.train.y.dtype == np.int64
    assert np.array_equal(data.train.y, codes[split.train])
    assert np.allclose(features(data.train.features).numeric[:, 0], frame["x"].to_numpy()[split.train])
    assert np.allclose(data.test.numeric[:, 0], frame["x"].to_numpy()[split.test])
    assert data.rows.key == split.key
    perfect = np.eye(3)[codes[split.test]]
    assert data.sealed.score(perfect)["accuracy"] == 1.0


def test_regression_targets_are_standardised_by_training_rows_and_scored_in_their_unit() -> None:
    frame = make_frame()
    data = open_split(store(frame, "price"), split_seed=1)
    price = frame["price"].to_numpy()
    split = split_rows(price, True, 1)
    assert data.train.y.dtype == np.float32
    assert data.target_mean == pytest.approx(price[split.train].mean())
    assert data.target_std == pytest.approx(price[split.train].std())
    assert np.allclose(data.validation.y, (price[split.validation] - data.target_mean) / data.target_std, atol=1e-5)
    scores = data.sealed.score(np.zeros(20, dtype=np.float32))
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((price[split.test] - data.target_mean) ** 2)))
    assert scores["rmse_std"] == pytest.approx(scores["rmse"] / data.target_std)


def test_nothing_that_is_fitted_depends_on_test_rows_or_their_labels() -> None:
    frame = make_frame()
    before = open_split(store(frame, "price"), split_seed=5)
    test = split_rows(frame["price"].to_numpy(), True, 5).test
    changed = frame.copy()
    changed.loc[test, "x"] = 1e9
    changed.loc[test, "c"] = "only in test"
    changed.loc[test, "price"] = -1e6
    after = open_split(store(changed, "price"), split_seed=5)
    assert after.rows.key == before.rows.key
    assert (after.target_mean, after.target_std) == (before.target_mean, before.target_std)
    for part in ("train", "validation"):
        assert_equal_tables(getattr(after, part).features, getattr(before, part).features)
        assert np.array_equal(getattr(after, part).y, getattr(before, part).y)
    assert (after.test.categorical == UNKNOWN).all()
    predictions = np.zeros(20, dtype=np.float32)
    assert after.sealed.score(predictions)["rmse"] > 1000 * before.sealed.score(predictions)["rmse"]


def test_levels_that_no_training_row_has_are_unknown() -> None:
    frame = make_frame()
    validation = split_rows(frame["price"].to_numpy(), True, 5).validation
    frame.loc[validation[0], "c"] = "rare"
    data = open_split(store(frame, "price"), split_seed=5)
    assert features(data.train.features).schema.levels == (("a", "b", "c"),)
    assert features(data.validation.features).categorical[0, 0] == UNKNOWN


def test_the_sealed_part_has_one_public_method_and_shows_no_label() -> None:
    data = open_split(store(make_frame(), "label"), split_seed=0)
    assert [name for name in dir(data.sealed) if not name.startswith("_")] == ["score"]
    assert repr(data.sealed) == "SealedTest(20 rows)"
    assert not hasattr(data.sealed, "__dict__")
    assert isinstance(data.test, Table)
    assert {field for field, value in vars(data).items() if isinstance(value, SealedTest)} == {"sealed"}


def split_sizes(data: SplitData) -> tuple[int, int, int]:
    return len(data.train.y), len(data.validation.y), len(data.test)


def test_a_subsample_is_drawn_before_the_split() -> None:
    manifest = store(make_frame(), "label")
    data = open_split(manifest, split_seed=0, rows=50)
    assert split_sizes(data) == (40, 5, 5)
    assert data.task.n_classes == 3
    assert set(data.train.y) == {0, 1, 2}
    assert split_sizes(open_split(manifest, split_seed=0, rows=10_000)) == (160, 20, 20)
    again = open_split(manifest, split_seed=0, rows=50)
    assert_equal_tables(again.train.features, data.train.features)


def test_a_subsample_without_a_test_part_is_refused() -> None:
    with pytest.raises(DataError, match="toy has 4 rows: too few"):
        open_split(store(make_frame(), "price"), split_seed=0, rows=4)


def test_predicting_the_training_mean_errs_by_the_standard_deviation_in_both_units() -> None:
    """The model sees standardised targets, where the mean is 0; scores are in the data's unit and in training s.d."""
    frame = make_frame().assign(price=np.tile([80.0, 100.0, 120.0, 140.0], ROWS // 4))
    split = open_split(store(frame, "price"), 0)
    scores = split.sealed.score(np.zeros(len(split.test), dtype=np.float32))
    prices = frame["price"].to_numpy()
    train, test = prices[split.rows.train], prices[split.rows.test]
    expected = np.sqrt(test.var() + (test.mean() - train.mean()) ** 2)
    assert scores["rmse"] == pytest.approx(expected)
    assert scores["rmse"] == pytest.approx(prices.std(), rel=0.2)
    assert scores["rmse_std"] == pytest.approx(expected / train.std())
    assert scores["rmse_std"] == pytest.approx(1, rel=0.2)
    own = score_predictions(split.task, train, np.zeros(len(train)), split.target_std, split.target_mean)
    assert own["rmse"] == pytest.approx(train.std())
    assert own["rmse_std"] == pytest.approx(1.0)
