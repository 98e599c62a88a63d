import time
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tabbench import (
    Context,
    DeadlineReached,
    Labelled,
    NetworkConfig,
    Pruned,
    Representation,
    TabbenchError,
    Task,
    UsageError,
)
from tabbench.nn import Backbone, Batch, FlatColumns, InputShape, NetworkModel, Objective, make_optimizer
from tabbench.nn.backbone import Network
from tabbench.nn.training import choose_batch_size, has_batch_norm, rows_that_fit, train_step


class TinyBackbone(Backbone):
    def __init__(self, shape: InputShape) -> None:
        super().__init__()
        self.columns = FlatColumns(shape, d_embedding=2)
        self.out_features = 8
        self.layers = nn.Sequential(
            nn.Linear(self.columns.out_features, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1)
        )

    def forward(self, batch: Batch) -> Tensor:
        hidden: Tensor = self.layers(self.columns(batch))
        return hidden


class Tiny(NetworkModel):
    def build(self, shape: InputShape) -> TinyBackbone:
        return TinyBackbone(shape)


BINARY, REGRESSION = Task("binary", 2), Task("regression")


def blobs(rows: int, seed: int = 0, task: Task = BINARY) -> Labelled:
    x = np.random.default_rng(seed).normal(size=(rows, 3)).astype(np.float32)
    signal = x[:, 0] - 2 * x[:, 1]
    y: NDArray[Any] = signal.astype(np.float32) if task.is_regression else (signal > 0).astype(np.int64)
    return Labelled(Representation(x), y)


def reports(context: Context) -> list[dict[str, float]]:
    seen: list[dict[str, float]] = []
    context.on_report = lambda step, total, metrics: seen.append({"step": step, "total": total, **metrics})
    return seen


def test_every_epoch_is_reported_with_a_validation_score_where_higher_is_better() -> None:
    context = Context()
    seen = reports(context)
    model = Tiny(max_epochs=5, batch_size=32)
    model.fit(blobs(200), blobs(50, 1), BINARY, context)
    assert [entry["step"] for entry in seen] == [1, 2, 3, 4, 5]
    assert {entry["total"] for entry in seen} == {5}
    assert [entry["validation"] for entry in seen] == model.diagnostics["validation_score"]
    assert [entry["train_loss"] for entry in seen] == model.diagnostics["train_loss"]
    assert model.diagnostics["n_epochs"] == 5


def test_the_weights_of_the_best_epoch_are_restored() -> None:
    model = Tiny(max_epochs=6, batch_size=32)
    validation = blobs(100, 1)

    def corrupt(step: int, total: int, metrics: dict[str, float]) -> None:
        if step == 4:
            with torch.no_grad():
                for parameter in model.network.parameters():
                    parameter.copy_(-10 * parameter)

    model.fit(blobs(400), validation, BINARY, Context(on_report=corrupt))
    scores = model.diagnostics["validation_score"]
    assert model.diagnostics["best_epoch"] <= 4
    assert scores[-1] < max(scores) - 0.1
    accuracy = (model.predict(validation.features).argmax(axis=1) == validation.y).mean()
    assert accuracy == pytest.approx(scores[model.diagnostics["best_epoch"] - 1])
    assert accuracy == pytest.approx(max(scores))


def test_training_ends_when_the_patience_is_over() -> None:
    model = Tiny(max_epochs=100, batch_size=32, patience=3, lr=1e-12)
    model.fit(blobs(64), blobs(30, 1), BINARY, Context())
    assert model.diagnostics["n_epochs"] - model.diagnostics["best_epoch"] in (0, 3)
    assert model.diagnostics["n_epochs"] < 100


def test_equal_scores_are_told_apart_by_the_loss() -> None:
    data = blobs(300)
    easy = Labelled(data.features, (data.features.array[:, 0] > 0).astype(np.int64))  # type: ignore[union-attr]
    model = Tiny(max_epochs=40, batch_size=32, lr=1e-2)
    model.fit(easy, easy, BINARY, Context())
    diagnostics = model.diagnostics
    best = max(diagnostics["validation_score"])
    tied = [
        loss
        for loss, score in zip(diagnostics["validation_loss"], diagnostics["validation_score"], strict=True)
        if score == best
    ]
    assert len(tied) > 1
    assert diagnostics["validation_loss"][diagnostics["best_epoch"] - 1] == min(tied)


@pytest.mark.parametrize("stop_on", ["metric", "loss"])
def test_early_stopping_watches_what_it_is_told_to(stop_on: Literal["metric", "loss"]) -> None:
    """Wrong labels and no dropout: accuracy goes on to vary while the loss gets worse and worse."""
    train, validation = blobs(200), blobs(200, 1)
    validation.y[::4] = 1 - validation.y[::4]
    model = Tiny(max_epochs=30, patience=30, batch_size=16, lr=3e-2, stop_on=stop_on)
    model.fit(train, validation, BINARY, Context())
    losses, scores = model.diagnostics["validation_loss"], model.diagnostics["validation_score"]
    assert losses.index(min(losses)) != scores.index(max(scores)), "else this test tells nothing"
    best = model.diagnostics["best_epoch"] - 1
    if stop_on == "loss":
        assert losses[best] == min(losses)
    else:
        assert scores[best] == max(scores)


@pytest.mark.parametrize("task", [BINARY, REGRESSION], ids=lambda task: task.kind)
def test_the_same_seed_gives_the_same_weights_and_leaves_the_global_generator_alone(task: Task) -> None:
    before = torch.random.get_rng_state()
    predictions = []
    for seed in (0, 0, 1):
        model = Tiny(max_epochs=3, batch_size=32)
        model.fit(blobs(100, task=task), blobs(20, 1, task), task, Context(root_seed=seed))
        predictions.append(model.predict(blobs(10, 2).features))
    np.testing.assert_array_equal(predictions[0], predictions[1])
    assert not np.array_equal(predictions[0], predictions[2])
    assert torch.equal(before, torch.random.get_rng_state())


def test_validation_figures_are_over_the_whole_split() -> None:
    model = Tiny(max_epochs=1, batch_size=4)
    validation = blobs(19, 1, REGRESSION)
    model.fit(blobs(40, task=REGRESSION), validation, REGRESSION, Context())
    rmse = np.sqrt(np.mean((model.predict(validation.features) - validation.y) ** 2))
    assert model.diagnostics["validation_score"][0] == pytest.approx(-rmse, rel=1e-5)


def test_regression_labels_far_from_zero_are_learned_in_their_own_unit() -> None:
    train, validation = blobs(500, task=REGRESSION), blobs(100, 1, REGRESSION)
    model = Tiny(max_epochs=60, batch_size=32, lr=1e-2)
    model.fit(
        Labelled(train.features, train.y * 100 + 1e4),
        Labelled(validation.features, validation.y * 100 + 1e4),
        REGRESSION,
        Context(),
    )
    error = model.predict(validation.features) - (validation.y * 100 + 1e4)
    assert np.sqrt(np.mean(error**2)) < 60


def test_a_last_batch_of_one_row_does_not_stop_batch_norm() -> None:
    model = Tiny(max_epochs=2, batch_size=32)
    model.fit(blobs(65), blobs(1, 1), BINARY, Context())
    assert model.predict(blobs(1, 2).features).shape == (1, 2)


@pytest.mark.parametrize("rows", [(1, 5), (5, 0)])
def test_too_few_rows_are_refused_in_words(rows: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match=f"not {rows[0]} and {rows[1]}"):
        Tiny().fit(blobs(rows[0]), blobs(rows[1], 1), BINARY, Context())


def test_a_class_that_no_training_row_has_gets_a_small_probability() -> None:
    train, validation = blobs(200), blobs(50, 1)
    model = Tiny(max_epochs=10, batch_size=32, lr=1e-2)
    model.fit(train, Labelled(validation.features, validation.y + 1), Task("multiclass", 4), Context())
    probabilities = model.predict(validation.features)
    assert probabilities.shape == (50, 4)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert probabilities[:, 3].mean() < 0.2


def test_a_diverged_training_says_so() -> None:
    train = blobs(64, task=REGRESSION)
    bad = Labelled(train.features, np.full(64, np.nan, np.float32))
    with pytest.raises(TabbenchError, match="diverged"):
        Tiny(max_epochs=2).fit(bad, bad, REGRESSION, Context())


def test_the_deadline_ends_the_training_within_an_epoch() -> None:
    with pytest.raises(DeadlineReached, match="epoch 1 of 200"):
        Tiny(batch_size=2).fit(blobs(5000), blobs(50, 1), BINARY, Context(deadline=time.monotonic() - 1))


def test_pruning_passes_through() -> None:
    def prune(step: int, total: int, metrics: dict[str, float]) -> None:
        raise Pruned

    with pytest.raises(Pruned):
        Tiny(max_epochs=3).fit(blobs(64), blobs(30, 1), BINARY, Context(on_report=prune))


def test_cosine_brings_the_learning_rate_down_to_zero() -> None:
    model = Tiny(max_epochs=4, batch_size=32, schedule="cosine")
    rates: list[float] = []
    original = torch.optim.AdamW.step

    def spy(self: torch.optim.AdamW, closure: Callable[[], float] | None = None) -> Any:
        rates.append(self.param_groups[0]["lr"])
        return original(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", spy)
        model.fit(blobs(64), blobs(30, 1), BINARY, Context())
    assert len(rates) == 8
    assert rates[0] == pytest.approx(1e-3)
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 1e-4


def test_predictions_do_not_depend_on_neighbours_or_order() -> None:
    model = Tiny(max_epochs=2, batch_size=32)
    model.fit(blobs(100), blobs(20, 1), BINARY, Context())
    rows = blobs(150, 3).features
    order = np.random.default_rng(0).permutation(150)
    together = model.predict(rows)
    np.testing.assert_allclose(model.predict(rows.take(order)), together[order], atol=1e-6)
    np.testing.assert_allclose(model.predict(rows.take(slice(7, 8))), together[7:8], atol=1e-6)


def test_streamed_training_gives_the_same_weights_as_resident() -> None:
    predictions = []
    for memory in (None, 0):
        model = Tiny(max_epochs=3, batch_size=32)
        model.fit(blobs(100), blobs(20, 1), BINARY, Context(memory=memory))
        predictions.append(model.predict(blobs(10, 2).features))
    np.testing.assert_array_equal(predictions[0], predictions[1])


def test_a_backbone_alone_is_initialised_by_the_seed() -> None:
    model, train = Tiny(), blobs(40)
    backbone = model.make_backbone(train.features, Context(root_seed=5))
    again = model.make_backbone(train.features, Context(root_seed=5))
    for one, other in zip(backbone.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    assert backbone(Batch(numeric=torch.zeros(6, 3))).shape == (6, backbone.out_features)


def test_weight_decay_spares_what_the_model_exempts() -> None:
    network = Network(TinyBackbone(InputShape(n_numeric=3)), 1)
    optimizer = make_optimizer(network, NetworkConfig(weight_decay=0.5), lambda name: not name.endswith("bias"))
    decayed, spared = optimizer.param_groups
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.5, 0.0)
    assert len(spared["params"]) == 3


@pytest.mark.parametrize("rows, size", [(10, 32), (455, 32), (1437, 32), (16_512, 256), (39_073, 512), (10**6, 512)])
def test_the_batch_size_follows_the_number_of_rows(rows: int, size: int) -> None:
    assert choose_batch_size("auto", rows) == size
    assert choose_batch_size(100, rows) == 100


def test_batches_are_smaller_where_attention_would_not_fit_the_memory() -> None:
    assert choose_batch_size("auto", 10**6, fitting=170) == 170
    assert choose_batch_size(512, 10**6, fitting=170) == 170
    assert choose_batch_size(100, 10**6, fitting=170) == 100
    assert choose_batch_size(512, 10**6, fitting=1) == 2, "BatchNorm cannot train on one row"


class Attentive(Backbone):
    """Stands for attention: it says what a row takes, and notes how many rows it sees at a time."""

    def __init__(self, shape: InputShape, batch_norm: bool = False) -> None:
        super().__init__()
        self.out_features = 8
        self.layers = nn.Sequential(nn.Linear(shape.n_numeric, 8), nn.BatchNorm1d(8) if batch_norm else nn.Tanh())
        self.seen: list[int] = []
        self.seen_in_evaluation: list[int] = []

    def row_bytes(self, device: str | torch.device) -> int:
        return 2**20

    def forward(self, batch: Batch) -> Tensor:
        assert batch.numeric is not None
        (self.seen if self.training else self.seen_in_evaluation).append(len(batch.numeric))
        hidden: Tensor = self.layers(batch.numeric)
        return hidden


class AttentiveModel(NetworkModel):
    def build(self, shape: InputShape) -> Attentive:
        return Attentive(shape)


def test_a_batch_whose_attention_does_not_fit_the_memory_is_taken_in_parts() -> None:
    """A job of 40 MiB may hold 10 MiB of attention weights: ten rows."""
    predictions, seen = [], []
    for memory in (None, 40 * 2**20):
        model = AttentiveModel(max_epochs=3, batch_size=64)
        model.fit(blobs(200), blobs(50, 1), BINARY, Context(memory=memory))
        predictions.append(model.predict(blobs(20, 2).features))
        assert isinstance(model.network.backbone, Attentive)
        seen.append(model.network.backbone.seen)
        assert max(model.network.backbone.seen_in_evaluation) == (50 if memory is None else 10)
        assert model.diagnostics["batch_size"] == 64
    assert seen[0][:4] == [64, 64, 64, 8]
    assert seen[1][:7] == [10, 10, 10, 10, 10, 10, 4]
    assert sum(seen[0]) == sum(seen[1])
    np.testing.assert_allclose(predictions[0], predictions[1], atol=1e-5)


def test_the_loss_of_a_step_in_parts_is_that_of_the_batch() -> None:
    objective, target = Objective(REGRESSION, np.array([0.0, 1.0])), torch.arange(7.0)
    batch = Batch(torch.linspace(-1, 1, 21).view(7, 3))
    losses, weights = [], []
    for rows_at_once in (None, 7, 3):
        torch.manual_seed(0)
        network = Network(Attentive(InputShape(n_numeric=3)), 1)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        losses.append(train_step(network, optimizer, objective, batch, target, rows_at_once))
        weights.append(network.head.weight.detach())
    assert torch.equal(losses[0], losses[1])
    torch.testing.assert_close(losses[0], losses[2])
    torch.testing.assert_close(weights[0], weights[2])


def test_rows_that_fit_are_those_whose_activations_do(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = InputShape(n_numeric=3)
    assert rows_that_fit(Attentive(shape), "cpu", None) == 1024
    assert rows_that_fit(Attentive(shape), "cpu", 64 * 2**30) == 1024
    assert rows_that_fit(Attentive(shape), "cpu", 2**22) == 1
    assert rows_that_fit(TinyBackbone(shape), "cpu", 2**22) is None
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**20, 80 * 2**30))
    assert rows_that_fit(Attentive(shape), "cuda:0", 2**22) == 20 * 1024, "the job's memory is not the GPU's"


def test_batches_are_smaller_where_batch_norm_wants_them_whole() -> None:
    class Normed(NetworkModel):
        def build(self, shape: InputShape) -> Attentive:
            return Attentive(shape, batch_norm=True)

    model = Normed(max_epochs=1, batch_size=64)
    model.fit(blobs(200), blobs(50, 1), BINARY, Context(memory=40 * 2**20))
    assert has_batch_norm(model.network)
    assert isinstance(model.network.backbone, Attentive)
    assert set(model.network.backbone.seen) == {10}
    assert model.diagnostics["batch_size"] == 10


@pytest.mark.parametrize("task", [BINARY, REGRESSION, Task("multiclass", 3)], ids=lambda task: task.kind)
def test_a_loss_on_a_gpu_needs_nothing_from_the_cpu(task: Task) -> None:
    objective = Objective(task, np.array([0.0, 1.0]))
    with FakeTensorMode(), torch.no_grad():  # gradients and BatchNorm's counts need a CUDA build even so
        network = Network(TinyBackbone(InputShape(n_numeric=3, cardinalities=(4,))), task.n_outputs).eval()
        state = {**dict(network.named_parameters()), **dict(network.named_buffers())}
        on_gpu = {name: torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda") for name, tensor in state.items()}
        batch = Batch(torch.zeros(8, 3, device="cuda"), torch.zeros(8, 1, dtype=torch.int64, device="cuda"))
        output = torch.func.functional_call(network, on_gpu, (batch,))
        assert objective.loss(output, targets(task, "cuda")).device.type == "cuda"


@pytest.mark.parametrize("task", [BINARY, REGRESSION, Task("multiclass", 3)], ids=lambda task: task.kind)
def test_a_training_step_stays_on_its_device(task: Task) -> None:
    network = Network(TinyBackbone(InputShape(n_numeric=3, cardinalities=(4,))), task.n_outputs).to("meta")
    optimizer = make_optimizer(network, NetworkConfig())
    batch = Batch(torch.zeros(8, 3, device="meta"), torch.zeros(8, 1, dtype=torch.int64, device="meta"))
    loss = train_step(network, optimizer, Objective(task, np.array([0.0, 1.0])), batch, targets(task, "meta"))
    assert loss.device.type == "meta"
    assert all(parameter.grad is not None and parameter.grad.is_meta for parameter in network.parameters())
    state = [value for values in optimizer.state.values() for key, value in values.items() if key != "step"]
    assert state
    assert all(value.is_meta for value in state)


def targets(task: Task, device: str) -> Tensor:
    return torch.zeros(8, device=device, dtype=torch.int64 if task.kind == "multiclass" else torch.float32)


def test_bfloat16_is_for_the_backbone_alone_and_learns_as_well() -> None:
    validation = blobs(100, 1)
    model = Tiny(max_epochs=30, batch_size=32, lr=1e-2, bf16=True)
    model.fit(blobs(400), validation, BINARY, Context())
    assert max(model.diagnostics["validation_score"]) > 0.95
    assert {parameter.dtype for parameter in model.network.parameters()} == {torch.float32}
    seen: list[torch.dtype] = []
    model.network.backbone.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    predicted = model.predict(validation.features)
    assert set(seen) == {torch.bfloat16}
    assert np.abs(predicted.sum(axis=1) - 1).max() < 1e-6
