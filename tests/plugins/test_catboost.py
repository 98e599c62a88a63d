from typing import Any

import catboost
import numpy as np
import pytest
from numpy.typing import NDArray
from tabbench_catboost.model import CatBoost

from tabbench import Context, Labelled, Representation, Schema, Table, Task


def noise(rows: int = 2000, columns: int = 3) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)


def parameters_of(patch: pytest.MonkeyPatch, task: Task, context: Context, **settings: Any) -> dict[str, Any]:
    """What the library is given; it is not run."""
    given: list[dict[str, Any]] = []

    class StopHereError(Exception):
        pass

    def spy(parameters: dict[str, Any]) -> None:
        given.append(parameters)
        raise StopHereError

    patch.setattr(catboost, "CatBoost", spy)
    rows = Labelled(Representation(noise(max(2 * task.n_classes, 50))), np.arange(max(2 * task.n_classes, 50)))
    with pytest.raises(StopHereError):
        CatBoost(**settings).fit(*(Labelled(rows.features, rows.y % max(task.n_classes, 1)),) * 2, task, context)
    return given[0]


def test_categories_are_categories_to_the_library() -> None:
    """One tree of depth 1 tells even from odd levels only by their target statistics."""
    levels = tuple(f"{i:03d}" for i in range(100))
    codes = np.random.default_rng(0).integers(0, 100, 4000)
    table = Table(np.zeros((4000, 0), np.float32), (codes + 2)[:, None], Schema((), ("c",), (levels,)))
    rows = Labelled(table, codes % 2)
    model = CatBoost(n_rounds=1, max_depth=1, lr=0.5)
    model.fit(rows, rows, Task("binary", 2), Context())
    assert model.model is not None
    assert model.model.get_cat_feature_indices() == [0]
    assert (model.predict(table).argmax(axis=1) == rows.y).mean() > 0.9


@pytest.mark.parametrize(
    "task, loss", [(Task("binary", 2), "Logloss"), (Task("multiclass", 3), "MultiClass"), (Task("regression"), "RMSE")]
)
def test_the_defaults_are_the_librarys(task: Task, loss: str) -> None:
    x = noise()
    y = x[:, 0] if task.is_regression else np.digitize(x[:, 0], [0.0, 1.0][: task.n_classes - 1])
    model = CatBoost(n_rounds=30)
    model.fit(Labelled(Representation(x), y), Labelled(Representation(x), y), task, Context())
    bare = catboost.CatBoost(
        {"iterations": 30, "loss_function": loss, "logging_level": "Silent", "allow_writing_files": False}
    )
    bare.fit(catboost.Pool(x, y), eval_set=catboost.Pool(x, y))
    assert model.model is not None
    ours, theirs = model.model.get_all_params(), bare.get_all_params()
    assert theirs["learning_rate"] > 0.05
    for name in ("learning_rate", "l2_leaf_reg", "leaf_estimation_iterations", "bootstrap_type", "depth"):
        assert ours[name] == theirs[name], name
    assert ours.get("subsample") == theirs.get("subsample")
    assert model.diagnostics["lr"] == theirs["learning_rate"]
    assert model.diagnostics["device"] == "CPU"


def test_what_is_set_reaches_the_library() -> None:
    x = noise(300)
    rows = Labelled(Representation(x), (x[:, 0] > 0).astype(np.int64))
    model = CatBoost(n_rounds=5, lr=0.25, bagging_temperature=0.5, l2_leaf_reg=7.0, leaf_estimation_iterations=2)
    model.fit(rows, rows, Task("binary", 2), Context())
    assert model.model is not None
    used = model.model.get_all_params()
    assert (used["learning_rate"], used["l2_leaf_reg"], used["leaf_estimation_iterations"]) == (0.25, 7.0, 2)
    assert (used["bootstrap_type"], used["bagging_temperature"]) == ("Bayesian", 0.5)


def test_threads_and_the_gpu_are_the_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task("binary", 2)
    on_cpu = parameters_of(monkeypatch, task, Context(threads=3))
    assert (on_cpu["thread_count"], on_cpu["task_type"]) == (3, "CPU")
    assert "devices" not in on_cpu
    on_gpu = parameters_of(monkeypatch, task, Context(device="cuda:1"))
    assert (on_gpu["task_type"], on_gpu["devices"]) == ("GPU", "1")
    assert parameters_of(monkeypatch, task, Context(device="cuda"))["devices"] == "0"


def test_hundreds_of_classes_are_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"n_rounds": 2000, "max_depth": 10}
    many = parameters_of(monkeypatch, Task("multiclass", 201), Context(), **settings)
    assert (many["iterations"], many["depth"]) == (200, 6)
    assert many["leaf_estimation_method"] == "Gradient"
    assert many["learning_rate"] == 0.2
    few = parameters_of(monkeypatch, Task("multiclass", 200), Context(), **settings)
    assert (few["iterations"], few["depth"]) == (2000, 10)
    assert "leaf_estimation_method" not in few
    assert "learning_rate" not in few


def test_validation_rows_of_unseen_classes_alone_do_not_stop_the_training() -> None:
    x = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    train = Labelled(Representation(x), np.digitize(x[:, 0], [-0.5, 0.5]))
    model = CatBoost(n_rounds=20)
    model.fit(train, Labelled(Representation(x[:5]), np.full(5, 3)), Task("multiclass", 4), Context())
    probabilities = model.predict(Representation(x))
    assert probabilities.shape == (100, 4)
    assert not probabilities[:, 3].any()
    assert (probabilities.argmax(axis=1) == train.y).mean() > 0.8


def test_the_trees_after_the_best_round_are_not_used_and_training_ends_soon_after_it() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 5)).astype(np.float32)
    y = (x[:, 0] + 2 * rng.normal(size=400) > 0).astype(np.int64)  # mostly noise: more trees are worse
    train, validation = (Labelled(Representation(x[part]), y[part]) for part in (slice(200), slice(200, None)))
    seen: list[tuple[int, float]] = []

    def note(step: int, total: int, metrics: dict[str, float]) -> None:
        seen.extend((step, score) for score in metrics.values())

    context = Context(on_report=note)
    model = CatBoost(n_rounds=500, patience=30, lr=0.3, stop_on="loss")
    model.fit(train, validation, Task("binary", 2), context)
    best = model.diagnostics["best_round"]
    assert 1 <= best < 100
    assert seen[-1][0] <= best + 30 + 1 < 500
    probability = model.predict(validation.features)[np.arange(200), validation.y]
    assert -np.log(probability).mean() <= -max(score for _, score in seen) + 1e-4
