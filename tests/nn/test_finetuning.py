"""An encoder and a network that are trained as one."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tabbench import Context, Labelled, NetworkConfig, Representation, Schema, Table, Task, TrainableEncoder
from tabbench.nn import Backbone, Batch, FlatColumns, Inputs, InputShape, NetworkModel, backbone_encoder, make_optimizer
from tabbench.nn.finetuning import STEEPEST, EncoderInputs

TASK = Task("binary", 2)


class OneLayer(Backbone):
    def __init__(self, shape: InputShape) -> None:
        super().__init__()
        self.columns = FlatColumns(shape, d_embedding=2)
        self.out_features = 8
        self.layer = nn.Linear(self.columns.out_features, 8)

    def forward(self, batch: Batch) -> Tensor:
        return torch.relu(self.layer(self.columns(batch)))


class Tiny(NetworkModel):
    def build(self, shape: InputShape) -> OneLayer:
        return OneLayer(shape)


class Encoder(nn.Module):
    """A linear layer that remembers how many rows it was given at a time."""

    def __init__(self, width: int = 5) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.linear = nn.Linear(3, width)
        self.norm = nn.LayerNorm(width)
        self.sizes: list[int] = []

    def forward(self, numbers: Tensor) -> Tensor:
        self.sizes.append(len(numbers))
        encoded: Tensor = self.norm(self.linear(numbers))
        return encoded


def trainable(module: nn.Module) -> TrainableEncoder:
    return TrainableEncoder(module, lambda table: (torch.from_numpy(table.numeric),))


def blobs(rows: int, seed: int = 0) -> Labelled:
    x = np.random.default_rng(seed).normal(size=(rows, 3)).astype(np.float32)
    table = Table(x, np.zeros((rows, 0), dtype=np.int64), Schema(("a", "b", "c")))
    return Labelled(table, (x[:, 0] - 2 * x[:, 1] > 0).astype(np.int64))


def weights(module: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in module.named_parameters()}


def finetuned(**settings: Any) -> tuple[Tiny, Encoder, dict[str, Tensor]]:
    encoder = Encoder()
    before = weights(encoder)
    model = Tiny(**{"max_epochs": 3, "batch_size": 32, **settings})
    model.finetune(trainable(encoder), blobs(200), blobs(50, 1), TASK, Context())
    return model, encoder, before


def test_encoder_and_network_learn_together() -> None:
    model, encoder, before = finetuned(max_epochs=20, lr=1e-2)
    assert all(not torch.equal(before[name], parameter) for name, parameter in encoder.named_parameters())
    held_out = blobs(400, 2)
    assert (model.predict(held_out.features).argmax(axis=1) == held_out.y).mean() > 0.95


def test_the_network_starts_from_what_it_would_see_of_a_frozen_encoder() -> None:
    encoder = Encoder()
    table = blobs(300).features
    assert isinstance(table, Table)
    with torch.no_grad():
        encoded = encoder(torch.from_numpy(table.numeric))
    frozen = Inputs().fit(Representation(encoded.numpy())).transform(Representation(encoded.numpy())).numeric
    inputs = EncoderInputs(trainable(encoder), "cpu").fit(table)
    torch.testing.assert_close((encoded - inputs.centre) * inputs.factor, frozen)


def test_an_output_that_hardly_varies_is_not_blown_up_and_a_constant_one_is_not_cut_off() -> None:
    class Uneven(nn.Module):
        def forward(self, numbers: Tensor) -> Tensor:
            constant = torch.ones(len(numbers), 1)
            return torch.cat([numbers, 1e-4 * numbers[:, :1], constant], dim=1)

    inputs = EncoderInputs(trainable(Uneven()), "cpu").fit(blobs(300).features)  # type: ignore[arg-type]
    usual = float(inputs.factor[:3].median())
    assert float(inputs.factor[3]) == pytest.approx(STEEPEST * usual, rel=0.1)
    assert float(inputs.factor[4]) == 1.0


def test_rows_are_encoded_batch_by_batch_and_never_all_at_once() -> None:
    _, encoder, _ = finetuned(max_epochs=1)
    assert max(encoder.sizes) == 200, "once, for the statistics of at most 256 rows"
    assert max(encoder.sizes[1:]) <= 64, "a batch of 32, or two of them where there is no gradient"


def test_the_encoder_learns_at_its_own_rate_and_pretrained_norms_and_biases_do_not_decay() -> None:
    model, encoder, _ = finetuned(lr=0.01, weight_decay=0.1, encoder_lr_scale=0.3)
    found = make_optimizer(model.network, model.config)
    rates = {id(p): (group["lr"], group["weight_decay"]) for group in found.param_groups for p in group["params"]}
    assert rates[id(encoder.linear.weight)] == (pytest.approx(0.003), 0.1)
    assert rates[id(encoder.linear.bias)] == rates[id(encoder.norm.weight)] == (pytest.approx(0.003), 0.0)
    assert rates[id(model.network.head.weight)] == rates[id(model.network.head.bias)] == (0.01, 0.1)
    assert len(rates) == len(list(model.network.parameters()))


def test_a_schedule_keeps_the_ratio_of_the_rates() -> None:
    rates = []

    class Watched(Tiny):
        def finetune(self, *arguments: Any) -> None:
            original = torch.optim.AdamW.step
            try:
                torch.optim.AdamW.step = lambda self, closure=None: rates.append(  # type: ignore[method-assign]
                    {group["lr"] for group in self.param_groups}
                )
                super().finetune(*arguments)
            finally:
                torch.optim.AdamW.step = original  # type: ignore[method-assign]

    model = Watched(max_epochs=2, batch_size=32, schedule="cosine", encoder_lr_scale=0.1)
    model.finetune(trainable(Encoder()), blobs(200), blobs(50, 1), TASK, Context())
    assert len(rates) == 14
    assert all(min(each) == pytest.approx(0.1 * max(each)) for each in rates)


def test_the_encoder_stays_as_it_is_while_the_head_warms_up() -> None:
    _, encoder, before = finetuned(max_epochs=2, warm_head_epochs=2)
    assert all(torch.equal(before[name], parameter) for name, parameter in encoder.named_parameters())
    _, encoder, before = finetuned(max_epochs=3, warm_head_epochs=2, lr=1e-2)
    assert not torch.equal(before["linear.weight"], encoder.linear.weight)


def test_the_best_weights_are_those_of_encoder_and_network() -> None:
    encoder, model, validation = Encoder(), Tiny(max_epochs=6, batch_size=32), blobs(100, 1)

    def corrupt(step: int, total: int, metrics: dict[str, float]) -> None:
        if step == 4:
            with torch.no_grad():
                encoder.linear.weight.mul_(-1)

    model.finetune(trainable(encoder), blobs(200), validation, TASK, Context(on_report=corrupt))
    best = max(model.diagnostics["validation_score"])
    assert (model.predict(validation.features).argmax(axis=1) == validation.y).mean() == pytest.approx(best)


def test_a_pretrained_backbone_of_the_model_only_gets_a_head() -> None:
    train = blobs(200)
    assert isinstance(train.features, Table)
    model = Tiny(max_epochs=1, batch_size=32)
    backbone = model.make_backbone(train.features, Context())
    before = weights(backbone)
    encoder = backbone_encoder(backbone, Inputs(model.config.scaling).fit(train.features))
    model.finetune(encoder, train, blobs(50, 1), TASK, Context())
    own = {name for name, _ in model.network.named_parameters()}
    assert own == {"head.weight", "head.bias", *(f"backbone.encoder.backbone.{name}" for name in before)}
    assert not torch.equal(before["layer.weight"], weights(backbone)["layer.weight"])


def test_rules_of_decay_know_a_backbone_by_the_names_that_it_has_alone() -> None:
    train = blobs(64)
    assert isinstance(train.features, Table)

    class Exempt(Tiny):
        def is_decayed(self, name: str) -> bool:
            return name != "backbone.layer.weight"

    model = Exempt(max_epochs=1, batch_size=32, weight_decay=0.1)
    encoder = backbone_encoder(model.make_backbone(train.features, Context()), Inputs().fit(train.features))
    model.finetune(encoder, train, blobs(50, 1), TASK, Context())
    found = make_optimizer(model.network, NetworkConfig(weight_decay=0.1), model.is_decayed)
    decay = {id(p): group["weight_decay"] for group in found.param_groups for p in group["params"]}
    named = dict(model.network.named_parameters())
    assert decay[id(named["backbone.encoder.backbone.layer.weight"])] == 0.0
    assert decay[id(named["head.weight"])] == 0.1
