import numpy as np
from tabbench_catboost.model import CatBoost

from tabbench import Context, Labelled, Representation, Schema, Table, Task


def test_categories_of_high_cardinality_are_learned_by_target_statistics() -> None:
    generator = np.random.default_rng(0)
    levels = tuple(f"{i:03d}" for i in range(100))
    effect = generator.normal(size=100)
    codes = generator.integers(0, 100, 3000)
    table = Table(np.zeros((3000, 0), np.float32), (codes + 2)[:, None], Schema((), ("c",), (levels,)))
    y = effect[codes].astype(np.float32)
    train, validation = (Labelled(table.take(part), y[part]) for part in (slice(0, 2500), slice(2500, 3000)))
    model = CatBoost(n_rounds=100, lr=0.3)
    model.fit(train, validation, Task("regression"), Context())
    assert np.mean((model.predict(validation.features) - validation.y) ** 2) < 0.5 * np.var(validation.y)


def test_the_library_chooses_the_learning_rate_unless_told() -> None:
    x = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    rows = Labelled(Representation(x), (x[:, 0] > 0).astype(np.int64))
    for lr in (0.25, "auto"):
        model = CatBoost(n_rounds=20, lr=lr)
        model.fit(rows, rows, Task("binary", 2), Context())
        assert (model.diagnostics["lr"] == 0.25) == (lr == 0.25)
    assert model.diagnostics["device"] == "CPU"


def test_validation_rows_of_unseen_classes_alone_do_not_stop_the_training() -> None:
    x = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    train = Labelled(Representation(x), np.digitize(x[:, 0], [-0.5, 0.5]))
    model = CatBoost(n_rounds=20)
    model.fit(train, Labelled(Representation(x[:5]), np.full(5, 3)), Task("multiclass", 4), Context())
    probabilities = model.predict(Representation(x))
    assert probabilities.shape == (100, 4)
    assert not probabilities[:, 3].any()
    assert (probabilities.argmax(axis=1) == train.y).mean() > 0.8
