"""SSL methods as scikit-learn transformers, as users combine them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tabbench_tjepa.method import TJEPA
from tabbench_vime.method import VIME

from tabbench import Config, Context, DataError, PluginError, SSLMethod, UsageError

TINY: dict[str, Any] = {"epochs": 1, "width": 8}


def frame(rows: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age, height = rng.normal(40, 10, rows), rng.normal(170, 10, rows)
    return pd.DataFrame({"age": age, "colour": np.where(age > 40, "red", "blue"), "height": height})


def labels(rows: int = 40) -> NDArray[np.int64]:
    return np.asarray(frame(rows)["age"] > 40).astype(np.int64)


def numbers(rows: int = 40) -> NDArray[np.float64]:
    return np.random.default_rng(1).normal(size=(rows, 3))


def test_parameters_are_the_settings_and_two_more() -> None:
    method = VIME(lr=1e-2)
    assert isinstance(method, BaseEstimator)
    parameters = method.get_params()
    assert set(parameters) == {*VIME.Config.model_fields, "random_state", "device"}
    assert (parameters["lr"], parameters["random_state"], parameters["device"]) == (1e-2, 0, "cpu")
    assert repr(method) == "VIME(lr=0.01)"
    assert method.set_params(lr=1e-4, random_state=3) is method
    assert (method.config.lr, method.random_state) == (1e-4, 3)


def test_a_config_gives_the_same_method_as_its_settings() -> None:
    config = VIME.Config.resolve({"lr": 1e-2}, "vime")
    assert VIME(config).config is config
    assert VIME(config).get_params() == VIME(lr=1e-2).get_params()
    assert clone(VIME(config, random_state=2)).get_params() == VIME(lr=1e-2, random_state=2).get_params()
    with pytest.raises(TypeError, match="a Config or keyword settings, not both"):
        VIME(config, lr=1)


def test_short_names_of_settings_work() -> None:
    method = TJEPA(epochs=3)
    assert method.get_params()["exp_epochs"] == 3
    assert method.set_params(dim_hidden=16).config.model_dim_hidden == 16
    with pytest.raises(UsageError, match="are the same setting"):
        TJEPA(epochs=3, exp_epochs=4)


def test_a_wrong_name_is_refused_at_once_and_a_wrong_value_when_it_is_used() -> None:
    with pytest.raises(ValueError, match=r"Unknown setting 'VIME.epocs'. Did you mean: epochs\?"):
        VIME(epocs=3)
    method = VIME(lr=-1)
    with pytest.raises(UsageError, match=r"Bad VIME.lr=-1: give more than 0"):
        method.fit(frame())


def test_fields_that_every_method_has_are_not_settings() -> None:
    class Settings(Config):
        device: str = "cpu"
        """Taken."""

    with pytest.raises(PluginError, match="Mine.Config: every method has a parameter 'device'; rename the field"):
        type("Mine", (SSLMethod,), {"Config": Settings})


def test_a_clone_is_not_fitted() -> None:
    fitted = VIME(**TINY).fit(frame())
    with pytest.raises(NotFittedError, match="VIME instance is not fitted yet"):
        clone(fitted).transform(frame())


@pytest.mark.parametrize("action", ["transform", "get_feature_names_out", "save"])
def test_what_needs_a_fit_says_so(action: str, tmp_path: Path) -> None:
    arguments: dict[str, tuple[Any, ...]] = {"transform": (frame(),), "save": (tmp_path,)}
    with pytest.raises(NotFittedError):
        getattr(VIME(), action)(*arguments.get(action, ()))


def test_grid_search_tunes_settings() -> None:
    pipeline = make_pipeline(VIME(**TINY), LogisticRegression())
    search = GridSearchCV(pipeline, {"vime__width": np.array([4, 8]), "vime__lr": np.logspace(-3, -2, 2)}, cv=2)
    search.fit(frame(), labels())
    assert search.best_estimator_[0].config.width in (4, 8)
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_column_transformer_gives_a_named_frame() -> None:
    columns = ColumnTransformer(
        [("encoded", VIME(**TINY), ["age", "colour"]), ("scaled", StandardScaler(), ["height"])],
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    found = columns.fit_transform(frame().set_index(pd.RangeIndex(100, 140)))
    assert list(found.columns) == [*(f"vime{number}" for number in range(8)), "height"]
    assert list(found.index) == list(range(100, 140))


def test_set_output_names_tokens_by_their_feature() -> None:
    method = TJEPA(epochs=1, dim_hidden=2, num_heads=1).set_output(transform="pandas")
    found = method.fit_transform(frame())
    assert isinstance(found, pd.DataFrame)
    assert list(found.columns) == [
        f"tjepa_{name}_{number}" for name in ("age", "height", "colour") for number in (0, 1)
    ]
    assert list(found.columns) == list(method.get_feature_names_out())
    plain = method.set_output(transform="default").transform(frame())
    np.testing.assert_array_equal(plain, found.to_numpy())


@pytest.mark.parametrize(
    "columns", [[0, 1, 2], ["a", 1, None], ["a", "a", "a.1"], [("a", 1), ("a", 2), ("b", 1)]], ids=str
)
def test_any_column_labels_will_do(columns: list[Any]) -> None:
    labelled = pd.DataFrame(numbers(), columns=columns)
    method = VIME(**TINY).fit(labelled)
    expected = VIME(**TINY).fit_transform(numbers())
    np.testing.assert_array_equal(method.transform(labelled), expected)
    np.testing.assert_array_equal(method.transform(numbers()), expected)
    assert not hasattr(method, "feature_names_in_")
    assert method.n_features_in_ == 3


def test_columns_are_found_by_their_names() -> None:
    method = VIME(**TINY).fit(frame())
    assert list(method.feature_names_in_) == ["age", "colour", "height"]
    other = frame()[["height", "colour", "age"]].assign(more=1.0)
    np.testing.assert_array_equal(method.transform(other), method.transform(frame()))
    with pytest.raises(DataError, match="the table has no column 'age'"):
        method.transform(frame().drop(columns="age"))


def test_rows_without_names_are_taken_in_the_order_of_the_fit() -> None:
    method = VIME(**TINY).fit(frame())
    with pytest.warns(UserWarning, match="X does not have valid feature names, but VIME was fitted with feature names"):
        unnamed = method.transform(frame().to_numpy())
    np.testing.assert_array_equal(unnamed, method.transform(frame()))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        method.transform(frame().set_axis([0, 1, 2], axis=1))
    with pytest.warns(UserWarning, match="X has feature names, but VIME was fitted without feature names"):
        VIME(**TINY).fit(numbers()).transform(pd.DataFrame(numbers(), columns=list("abc")))


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame], ids=["array", "frame"])
def test_another_number_of_columns_is_refused(make: Any) -> None:
    method = VIME(**TINY).fit(make(numbers()))
    with pytest.raises(ValueError, match="X has 2 features, but VIME is expecting 3 features as input"):
        method.transform(make(numbers()[:, :2]))


def test_tables_of_other_libraries_are_read() -> None:
    method = VIME(**TINY).fit(frame())
    np.testing.assert_array_equal(method.transform(pa.Table.from_pandas(frame())), method.transform(frame()))


def test_categories_can_be_named_by_label_or_place() -> None:
    codes = np.column_stack([numbers(), np.arange(40) % 3])
    by_place = VIME(**TINY).fit(codes, categorical=[3])
    assert by_place.schema.categorical == ("x3",)
    assert by_place.schema.levels == (("0", "1", "2"),)
    by_label = VIME(**TINY).fit(pd.DataFrame(codes, columns=[10, 11, 12, 13]), categorical=[13])
    assert by_label.schema.categorical == ("13",)
    with pytest.raises(DataError, match="there is no column '7'"):
        VIME(**TINY).fit(codes, categorical=[7])


def test_random_state_decides_all_chance() -> None:
    def embed(seed: Any) -> NDArray[np.float32]:
        return VIME(**TINY, random_state=seed).fit_transform(frame())

    np.testing.assert_array_equal(embed(5), embed(np.int64(5)))
    np.testing.assert_array_equal(embed(np.random.RandomState(0)), embed(np.random.RandomState(0)))
    assert not np.array_equal(embed(5), embed(6))
    assert not np.array_equal(embed(None), embed(None))
    np.testing.assert_array_equal(embed(5), VIME(**TINY).fit_transform(frame(), context=Context(root_seed=5)))


@pytest.mark.parametrize(
    "empty, sentence",
    [
        (frame()[:0], "the table has no rows: VIME needs at least one row"),
        (frame()[[]], "the table has no columns: VIME needs at least one column"),
        (numbers()[:0], r"Found array with 0 sample\(s\)"),
    ],
    ids=["rows", "columns", "array"],
)
def test_an_empty_table_is_refused_in_words(empty: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        VIME(**TINY).fit(empty)
    with pytest.raises(ValueError, match=sentence):
        VIME(**TINY).fit(frame() if isinstance(empty, pd.DataFrame) else numbers()).transform(empty)


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="Complex data not supported"):
        VIME(**TINY).fit(frame().assign(phase=1j))


def test_a_loaded_method_transforms_as_before(tmp_path: Path) -> None:
    named, unnamed = VIME(**TINY).fit(frame()), VIME(**TINY).fit(numbers())
    named.save(str(tmp_path / "named"))
    unnamed.save(str(tmp_path / "unnamed"))
    again = VIME.load(str(tmp_path / "named"))
    np.testing.assert_array_equal(again.transform(frame()), named.transform(frame()))
    assert list(again.feature_names_in_) == ["age", "colour", "height"]
    np.testing.assert_array_equal(VIME.load(tmp_path / "unnamed").transform(numbers()), unnamed.transform(numbers()))


def test_a_second_fit_forgets_the_first() -> None:
    method = VIME(**TINY).fit(frame())
    method.fit(numbers())
    assert method.n_features_in_ == 3
    assert not hasattr(method, "feature_names_in_")
    np.testing.assert_array_equal(method.transform(numbers()), VIME(**TINY).fit_transform(numbers()))


def test_help_shows_the_settings() -> None:
    import inspect

    assert list(inspect.signature(VIME).parameters) == [*VIME.Config.model_fields, "random_state", "device"]
    assert inspect.signature(VIME).parameters["epochs"].default == VIME().config.epochs


def test_planning_does_not_wait_for_scikit_learn() -> None:
    code = "import sys, tabbench.contracts, tabbench.experiment.plan, tabbench.cli.run; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
