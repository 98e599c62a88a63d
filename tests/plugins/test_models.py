"""What all downstream models promise, on raw tables, flat and token representations."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from fake_cuda import Indexing, move
from numpy.typing import NDArray
from tabbench_autoint.model import AutoIntModel
from tabbench_catboost.model import CatBoost
from tabbench_dcnv2.model import DCNv2Model
from tabbench_ft_transformer.model import FTTransformerModel
from tabbench_linear.model import Linear
from tabbench_mlp.model import MLPModel
from tabbench_resnet.model import ResNetModel
from tabbench_xgboost.model import XGBoost
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tabbench import Context, DeadlineReached, DownstreamModel, Features, Labelled, Representation, Schema, Table, Task
from tabbench.config import PROJECTIONS, preset_settings
from tabbench.nn import Batch, Inputs, InputShape, NetworkModel, Objective, flat_columns, make_optimizer
from tabbench.nn.backbone import Network
from tabbench.nn.training import train_step

FEW_EPOCHS: dict[str, Any] = {"max_epochs": 12, "batch_size": 64, "lr": 6e-3}
SMALL: dict[type[DownstreamModel], dict[str, Any]] = {
    Linear: {},
    MLPModel: {**FEW_EPOCHS, "width": 32, "n_layers": 2, "d_embedding": 4},
    ResNetModel: {**FEW_EPOCHS, "d_block": 32, "n_blocks": 1, "d_embedding": 4},
    DCNv2Model: {**FEW_EPOCHS, "width": 32, "n_deep": 1, "n_cross": 1, "d_embedding": 4},
    AutoIntModel: {**FEW_EPOCHS, "d_token": 16, "n_layers": 1, "n_heads": 2},
    FTTransformerModel: {**FEW_EPOCHS, "d_token": 16, "n_blocks": 2, "n_heads": 2},
    XGBoost: {"n_rounds": 30, "max_depth": 3, "lr": 0.3},
    CatBoost: {"n_rounds": 30, "max_depth": 3, "lr": 0.3},
}
NETWORKS = [model for model in SMALL if issubclass(model, NetworkModel)]
KINDS = ["mixed", "numeric", "categorical", "flat", "tokens"]
TASKS = {"binary": Task("binary", 2), "multiclass": Task("multiclass", 4), "regression": Task("regression")}

every_model = pytest.mark.parametrize("model", SMALL, ids=lambda model: model.__name__)
every_network = pytest.mark.parametrize("model", NETWORKS, ids=lambda model: model.__name__)


def make_features(kind: str, rows: int, seed: int) -> tuple[Features, NDArray[np.float64]]:
    """Features of each kind, and a signal that is in them."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, 3)).astype(np.float32)
    codes = generator.integers(2, 6, size=(rows, 2))
    signal = x[:, 0] + 0.5 * x[:, 1]
    if kind == "flat":
        return Representation(x), signal
    if kind == "tokens":
        return Representation(np.stack([x, x**2, -x, np.ones_like(x)], axis=2)), signal
    if kind == "categorical":
        signal = (codes[:, 0] - 3.5) + 0.3 * (codes[:, 1] - 3.5)
    if kind == "mixed":
        signal = signal + (codes[:, 0] - 3.5)
        x[generator.random(size=x.shape) < 0.05] = np.nan
        codes[generator.random(size=codes.shape) < 0.05] = 0
    n_numeric, n_categorical = (0 if kind == "categorical" else 3), (0 if kind == "numeric" else 2)
    levels = (("a", "b", "c", "d"),) * n_categorical
    schema = Schema(("x", "y", "z")[:n_numeric], ("p", "q")[:n_categorical], levels)
    return Table(x[:, :n_numeric], codes[:, :n_categorical], schema), signal


def make_rows(kind: str, task: Task, rows: int, seed: int) -> Labelled:
    features, signal = make_features(kind, rows, seed)
    if task.is_regression:
        return Labelled(features, (signal / 1.3).astype(np.float32))
    edges = [0.0] if task.kind == "binary" else [-1.0, 0.0, 1.0]
    return Labelled(features, np.digitize(signal, edges).astype(np.int64))


def fit(model: type[DownstreamModel], kind: str, task: Task, context: Context | None = None) -> DownstreamModel:
    fitted = model(**SMALL[model])
    fitted.fit(make_rows(kind, task, 384, 0), make_rows(kind, task, 100, 1), task, context or Context())
    return fitted


@every_model
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_learns_every_task_from_every_kind_of_features(model: type[DownstreamModel], kind: str, task: Task) -> None:
    test = make_rows(kind, task, 300, 2)
    prediction = fit(model, kind, task).predict(test.features)
    assert prediction.dtype == np.float32
    if task.is_regression:
        assert prediction.shape == (300,)
        assert np.mean((prediction - test.y) ** 2) < 0.5 * np.var(test.y)
    else:
        assert prediction.shape == (300, task.n_classes)
        np.testing.assert_allclose(prediction.sum(axis=1), 1, atol=1e-5)
        commonest = np.bincount(test.y).max() / 300
        assert (prediction.argmax(axis=1) == test.y).mean() > commonest + 0.15


@every_model
def test_the_same_seed_gives_the_same_predictions_and_the_global_generators_are_untouched(
    model: type[DownstreamModel],
) -> None:
    test = make_rows("mixed", TASKS["binary"], 50, 2).features
    before, numpy_before = torch.random.get_rng_state(), np.random.get_state(legacy=False)
    one, two = (fit(model, "mixed", TASKS["binary"], Context(root_seed=3)).predict(test) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert torch.equal(before, torch.random.get_rng_state())
    np.testing.assert_equal(numpy_before, np.random.get_state(legacy=False))


@every_model
def test_a_prediction_does_not_depend_on_other_rows(model: type[DownstreamModel]) -> None:
    fitted = fit(model, "mixed", TASKS["multiclass"])
    rows = make_rows("mixed", TASKS["multiclass"], 90, 2).features
    order = np.random.default_rng(0).permutation(90)
    together = fitted.predict(rows)
    np.testing.assert_allclose(fitted.predict(rows.take(order)), together[order], atol=1e-5)
    np.testing.assert_allclose(fitted.predict(rows.take(slice(4, 5))), together[4:5], atol=1e-5)


@every_model
def test_no_rows_give_no_predictions(model: type[DownstreamModel]) -> None:
    nothing = make_rows("mixed", TASKS["multiclass"], 10, 2).features.take(slice(0, 0))
    assert fit(model, "mixed", TASKS["multiclass"]).predict(nothing).shape == (0, 4)


@every_model
def test_a_class_without_training_rows_works(model: type[DownstreamModel]) -> None:
    task = Task("multiclass", 5)
    train, validation = (make_rows("flat", task, rows, seed) for rows, seed in ((200, 0), (60, 1)))
    fitted = model(**SMALL[model])
    relabelled = Labelled(validation.features, np.where(np.arange(60) < 3, 4, validation.y))
    fitted.fit(train, relabelled, task, Context())
    probabilities = fitted.predict(validation.features)
    assert probabilities.shape == (60, 5)
    assert (probabilities.argmax(axis=1) == validation.y).mean() > 0.5


@every_model
def test_a_single_class_in_training_is_predicted(model: type[DownstreamModel]) -> None:
    train, validation = (make_rows("flat", TASKS["binary"], rows, seed) for rows, seed in ((100, 0), (40, 1)))
    fitted = model(**SMALL[model])
    fitted.fit(Labelled(train.features, np.zeros(100, np.int64)), validation, TASKS["binary"], Context())
    assert (fitted.predict(train.features).argmax(axis=1) == 0).mean() > 0.9


@every_model
@pytest.mark.parametrize("n_features", [1, 2000])
def test_a_single_feature_and_two_thousand_features_work(model: type[DownstreamModel], n_features: int) -> None:
    def rows(count: int, seed: int) -> Labelled:
        x = np.random.default_rng(seed).normal(size=(count, n_features)).astype(np.float32)
        empty = np.empty((count, 0), np.int64)
        schema = Schema(tuple(f"x{j}" for j in range(n_features)))
        return Labelled(Table(x, empty, schema), (x[:, 0] > 0).astype(np.int64))

    settings = {**SMALL[model], **({"max_epochs": 2} if model in NETWORKS else {})}
    if model in (XGBoost, CatBoost):
        settings["n_rounds"] = 3
    fitted = model(**settings)
    fitted.fit(rows(120, 0), rows(30, 1), TASKS["binary"], Context())
    assert np.isfinite(fitted.predict(rows(7, 2).features)).all()


@every_model
def test_a_thousand_classes_work(model: type[DownstreamModel]) -> None:
    task = Task("multiclass", 1000)
    x = np.random.default_rng(0).normal(size=(1100, 4)).astype(np.float32)
    y = np.arange(1100) % 1000
    settings = {**SMALL[model], **({"max_epochs": 1} if model in NETWORKS else {})}
    if model is Linear:
        settings["max_iterations"] = 3
    if model in (XGBoost, CatBoost):
        settings |= {"n_rounds": 1, "max_depth": 2}
    fitted = model(**settings)
    fitted.fit(Labelled(Representation(x), y), Labelled(Representation(x[:50]), y[:50]), task, Context())
    assert fitted.predict(Representation(x[:5])).shape == (5, 1000)


@every_model
def test_an_unknown_category_is_predicted(model: type[DownstreamModel]) -> None:
    fitted = fit(model, "categorical", TASKS["regression"])
    table = make_features("categorical", 5, 2)[0]
    assert isinstance(table, Table)
    unknown = Table(table.numeric, np.ones_like(table.categorical), table.schema)
    assert np.isfinite(fitted.predict(unknown)).all()


@every_model
def test_read_only_inputs_are_left_alone(model: type[DownstreamModel]) -> None:
    train, validation = (make_rows("mixed", TASKS["binary"], rows, seed) for rows, seed in ((100, 0), (40, 1)))
    copies = []
    for part in (train, validation):
        assert isinstance(part.features, Table)
        for array in (part.features.numeric, part.features.categorical, part.y):
            array.setflags(write=False)
            copies.append((array, array.copy()))
    model(**SMALL[model]).fit(train, validation, TASKS["binary"], Context())
    for array, copy in copies:
        np.testing.assert_array_equal(array, copy)


@every_model
def test_progress_is_reported_and_the_deadline_respected(model: type[DownstreamModel]) -> None:
    seen: list[tuple[int, int, Mapping[str, float]]] = []
    context = Context(on_report=lambda *report: seen.append(report))
    fit(model, "flat", TASKS["binary"], context)
    assert all(0 < step <= total for step, total, _ in seen)
    best = max(metrics["validation"] for _, _, metrics in seen if metrics)  # boosters have no score in the first rounds
    on_loss = model in (XGBoost, CatBoost)  # boosters stop on the loss, and report minus the loss
    assert -0.6 < best < 0 if on_loss else 0.75 < best <= 1
    with pytest.raises(DeadlineReached):
        fit(model, "flat", TASKS["binary"], Context(deadline=time.monotonic() - 1))


class Clock(Context):
    """The time is used up when it is looked at for the third time."""

    looks = 0

    def check_deadline(self, where: str) -> None:
        self.looks += 1
        if self.looks == 3:
            raise DeadlineReached(where)


@pytest.mark.parametrize("model", [Linear, XGBoost, CatBoost, MLPModel], ids=lambda model: model.__name__)
def test_the_deadline_is_looked_at_long_before_the_first_score(model: type[DownstreamModel]) -> None:
    seen: list[Mapping[str, float]] = []
    with pytest.raises(DeadlineReached):
        fit(model, "flat", TASKS["multiclass"], Clock(on_report=lambda step, total, metrics: seen.append(metrics)))
    assert not any(seen)


@pytest.mark.parametrize("model", [Linear, XGBoost, CatBoost], ids=lambda model: model.__name__)
def test_tokens_are_reduced_to_what_the_jobs_memory_holds(model: type[DownstreamModel]) -> None:
    x = np.random.default_rng(0).normal(size=(200, 4, 8)).astype(np.float32)
    rows = Labelled(Representation(x), x[:, 0].mean(axis=1))
    fitted = model(**SMALL[model])
    with pytest.MonkeyPatch.context() as patch:
        widths: list[int] = []

        def spy(array: NDArray[np.float32], max_columns: int) -> NDArray[np.float32]:
            widths.append(flat_columns(array, max_columns).shape[1])
            return flat_columns(array, max_columns)

        patch.setattr(f"{model.__module__}.flat_columns", spy)
        fitted.fit(rows, rows, TASKS["regression"], Context(memory=200 * 16 * 10))
        assert fitted.predict(rows.features).shape == (200,)
    assert set(widths) == {8}
    assert len(widths) == 3


@every_model
def test_regression_scores_are_reported_as_minus_the_rmse(model: type[DownstreamModel]) -> None:
    seen: list[Mapping[str, float]] = []
    fitted = fit(model, "flat", TASKS["regression"], Context(on_report=lambda *report: seen.append(report[2])))
    validation = make_rows("flat", TASKS["regression"], 100, 1)
    rmse = np.sqrt(np.mean((fitted.predict(validation.features) - validation.y) ** 2))
    assert max(metrics["validation"] for metrics in seen if metrics) == pytest.approx(-rmse, rel=0.05)


@every_model
def test_every_preset_is_a_valid_setting_with_a_source(model: type[DownstreamModel]) -> None:
    presets = model.Config.presets()
    assert {"quick", "paper"} <= presets.keys()
    for settings in presets.values():
        assert settings["source"]
        model.Config.resolve(preset_settings(settings), "model")


@every_model
def test_every_setting_is_described(model: type[DownstreamModel]) -> None:
    for name, field in model.Config.model_fields.items():
        assert field.description, name


@every_network
def test_a_backbone_gives_hidden_vectors_for_what_inputs_give(model: type[NetworkModel]) -> None:
    table = make_features("mixed", 50, 0)[0]
    backbone = model(**SMALL[model]).make_backbone(table, Context())
    rows = Inputs().fit(table).load(table)
    assert backbone(rows.batch(torch.arange(6))).shape == (6, backbone.out_features)


@every_network
@pytest.mark.parametrize("kind", KINDS)
def test_a_training_step_stays_on_its_device(model: type[NetworkModel], kind: str) -> None:
    features = make_features(kind, 50, 0)[0]
    inputs = Inputs().fit(features)
    network = Network(model(**SMALL[model]).build(inputs.shape), 1).to("meta")
    config = model(**SMALL[model]).config
    task = TASKS["regression"]
    batch = inputs.transform(features, "meta")
    target = torch.zeros(50, device="meta")
    loss = train_step(network, make_optimizer(network, config), Objective(task, np.zeros(2)), batch, target)
    assert loss.is_meta


@every_network
@pytest.mark.parametrize(
    "kind, projection",
    [(kind, "auto") for kind in KINDS] + [("tokens", projection) for projection in (*PROJECTIONS, "tokens_direct")],
)
def test_on_cuda_no_tensor_is_left_on_the_cpu(model: type[NetworkModel], kind: str, projection: str) -> None:
    features = make_features(kind, 50, 0)[0]
    shape = Inputs().fit(features).shape
    example = Inputs().fit(features).transform(features)
    with FakeTensorMode(), torch.no_grad(), Indexing():
        network = Network(model(**SMALL[model], projection=projection).build(shape), 1).eval()
        move(network, "cuda")
        batch = Batch(*(None if x is None else torch.empty(x.shape, dtype=x.dtype, device="cuda") for x in example))
        assert network(batch).device.type == "cuda"


@every_model
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_features_that_say_nothing_are_no_failure(model: type[DownstreamModel], task: Task) -> None:
    """A collapsed embedding: the record says so, and the model predicts what it would without any feature."""
    labels = [make_rows("flat", task, rows, seed).y for rows, seed in ((200, 0), (50, 1))]
    parts = [Labelled(Representation(np.ones((len(y), 3), dtype=np.float32)), y) for y in labels]
    fitted = model(**SMALL[model])
    fitted.fit(parts[0], parts[1], task, Context())
    prediction = fitted.predict(parts[1].features)
    assert np.isfinite(prediction).all()
    assert np.ptp(prediction, axis=0).max() < 1e-5
    if not task.is_regression:
        shares = np.bincount(labels[0]) / len(labels[0])
        assert np.abs(prediction[0] - shares).max() < 0.2


@every_model
def test_a_constant_target_is_predicted(model: type[DownstreamModel]) -> None:
    parts = [
        Labelled(make_features("mixed", rows, seed)[0], np.zeros(rows, np.float32))
        for rows, seed in ((200, 0), (50, 1))
    ]
    fitted = model(**SMALL[model])
    fitted.fit(parts[0], parts[1], TASKS["regression"], Context())
    assert np.abs(fitted.predict(parts[1].features)).max() < 0.5


@every_network
def test_sixty_four_rows_can_be_learned_by_heart(model: type[NetworkModel]) -> None:
    x = np.random.default_rng(0).normal(size=(64, 6)).astype(np.float32)
    y = np.random.default_rng(1).integers(0, 2, 64)
    rows = Labelled(Representation(x), y)
    no_dropout = {name: 0.0 for name in model.Config.model_fields if name.endswith("dropout")}
    settings: dict[str, Any] = {
        "max_epochs": 150,
        "patience": 150,
        "batch_size": 32,
        "lr": 3e-3,
        "weight_decay": 0.0,
        **no_dropout,
    }
    size = {key: value for key, value in SMALL[model].items() if key not in FEW_EPOCHS}
    fitted = model(**size, **settings)
    fitted.fit(rows, rows, TASKS["binary"], Context())
    assert (fitted.predict(rows.features).argmax(axis=1) == y).mean() > 0.98


@pytest.mark.parametrize("n_numeric", [20, 128])
@pytest.mark.parametrize(
    "model",
    [
        FTTransformerModel(),
        FTTransformerModel(n_blocks=1, ffn_factor=0.5),
        FTTransformerModel(n_blocks=6, d_token=256, n_heads=2, ffn_factor=8 / 3, norm="post"),
        FTTransformerModel(attention_dropout=0.0),
        AutoIntModel(),
        AutoIntModel(n_layers=6, d_token=64, n_heads=8),
        AutoIntModel(attention_dropout=0.0, residual_dropout=0.0),
    ],
    ids=lambda model: f"{type(model).__name__}-{model.config.d_token}-{model.config.attention_dropout}",
)
def test_what_a_row_holds_in_training_is_what_the_network_says(model: NetworkModel, n_numeric: int) -> None:
    """Tensors that autograd keeps for the gradient, beside the parameters."""
    rows = 4
    network = Network(model.build(InputShape(n_numeric=n_numeric)), 1).train()
    parameters = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = network(Batch(torch.randn(rows, n_numeric)))
    held = sum(tensor.untyped_storage().nbytes() for pointer, tensor in kept.items() if pointer not in parameters)
    assert output.shape == (rows, 1)
    assert 0.8 < network.backbone.row_bytes("cpu") / (held / rows) < 1.5
    assert network.backbone.row_bytes("cuda") <= network.backbone.row_bytes("cpu")
