"""The two objectives by hand, and what becomes of a pretrained backbone."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from harness import Bench
from tabbench_backbone.method import PredictMask, PretrainedBackbone, Reconstruct, _Work
from tabbench_backbone.objectives import Columns, PretextNetwork, mask_loss, reconstruction_loss
from tabbench_ft_transformer.model import FTTransformerModel
from tabbench_mlp.model import MLPModel

from tabbench import Context, Labelled, Schema, Table, Task, TrainableEncoder
from tabbench.nn import Batch, InputShape
from tabbench.testing import make_table

COLUMNS = Columns(2, (), (3,))
"""Two numbers and a category with three codes."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """No worker has to start here."""
    return Bench(tmp_path / "results", inline=True)


def test_reconstruction_is_squared_error_and_cross_entropy_over_all_entries() -> None:
    clean = torch.tensor([[1.0, 0.0, 2.0], [0.0, -1.0, 0.0]])
    outputs = torch.tensor([[0.5, 0.0, 0.0, 0.0, math.log(2)], [0.0, 1.0, 0.0, 0.0, 0.0]])
    of_numbers = 0.5**2 + 0 + 0 + 2.0**2
    of_categories = -math.log(2 / 4) - math.log(1 / 3)
    expected = (of_numbers + of_categories) / 6
    assert float(reconstruction_loss(outputs, clean, COLUMNS)) == pytest.approx(expected, abs=1e-6)


def test_mask_prediction_is_binary_cross_entropy_of_entries_that_really_differ() -> None:
    clean = torch.tensor([[1.0, 0.0, 2.0], [0.0, -1.0, 0.0]])
    corrupted = torch.tensor([[5.0, 0.0, 2.0], [0.0, -1.0, 1.0]])
    outputs = torch.tensor([[math.log(3), 0.0, 0.0], [0.0, 0.0, -math.log(3)]])
    expected = (-math.log(0.75) - 4 * math.log(0.5) - math.log(0.25)) / 6
    found = mask_loss(outputs, clean, corrupted, COLUMNS.originals)
    assert float(found) == pytest.approx(expected, abs=1e-6)


def test_a_number_and_its_indicator_are_one_column() -> None:
    columns = Columns(2, (1,), (3,))
    clean = torch.tensor([[1.0, 0.0, 1.0, 2.0]])
    corrupted = torch.tensor([[1.0, 0.0, 0.0, 2.0]])
    assert columns.originals.count == 3
    assert columns.originals.gather(corrupted != clean).tolist() == [[False, True, False]]
    outputs = torch.zeros(1, 2 + 3)
    expected = (1.0 + math.log(3)) / 3
    assert float(reconstruction_loss(outputs, clean, columns)) == pytest.approx(expected), "two values, one category"


def test_a_matrix_and_a_batch_are_the_same_rows() -> None:
    batch = Batch(torch.tensor([[0.5, -1.0]]), torch.tensor([[2]]))
    numeric, categorical, _ = COLUMNS.to_batch(COLUMNS.to_matrix(batch))
    assert numeric is not None
    assert categorical is not None
    assert (numeric.tolist(), categorical.tolist()) == ([[0.5, -1.0]], [[2]])


def test_the_head_is_linear_relu_linear_of_512_units() -> None:
    backbone = MLPModel(n_layers=1, width=8).build(InputShape(2, (3,)))
    head = PretextNetwork(backbone, COLUMNS, Reconstruct().config.head_width, 5).head
    assert [type(layer).__name__ for layer in head] == ["Linear", "ReLU", "Linear"]
    assert [tuple(parameter.shape) for parameter in head.parameters()] == [(512, 8), (512,), (5, 512), (5,)]


def test_entries_come_from_other_training_rows_of_the_same_column() -> None:
    table = make_table(2000, 2, 1)
    method = Reconstruct(p=0.4)
    method.initialise(table, Context())
    columns = Columns.of(table.schema, method.inputs.with_missing)
    train = columns.to_matrix(method.inputs.transform(table))
    work = _Work(method, columns, train, Context())
    work.draw()
    assert all(torch.equal(a.sort().values, b.sort().values) for a, b in zip(train.T, work.swapped.T, strict=True))
    corrupted = work._corrupt(train, work.swapped, work.generator)
    share = (corrupted != train)[:, :2].float().mean()
    assert float(share) == pytest.approx(0.4, abs=0.03)


@pytest.mark.parametrize("method", [Reconstruct, PredictMask])
def test_pretraining_lowers_the_loss_on_validation_rows(method: type[PretrainedBackbone]) -> None:
    generator = np.random.default_rng(0)
    hidden = generator.normal(size=(1200, 1))
    numeric = (hidden + 0.1 * generator.normal(size=(1200, 4))).astype(np.float32)
    table = Table(numeric, np.zeros((1200, 0), dtype=np.int64), Schema(("a", "b", "c", "d")))
    train, validation = table.take(slice(0, 1000)), table.take(slice(1000, None))
    fitted = method(epochs=15, lr=3e-3, p=0.3)
    fitted.pretrain(train, Context(validation=validation))
    losses = fitted.diagnostics["validation_loss"]
    assert min(losses) < 0.75 * losses[0]
    assert fitted.diagnostics["selected_by"] == "validation_loss"
    assert fitted.diagnostics["best_epoch"] == 1 + int(np.argmin(losses))


@pytest.mark.parametrize("model", [MLPModel(n_layers=2, width=16), FTTransformerModel(d_token=16, n_blocks=1)])
def test_the_model_starts_from_the_pretrained_backbone(model: Any, tmp_path: Any) -> None:
    table = make_table(200, 3, 2)
    method = PredictMask(epochs=1, head_width=8)
    method.model = model
    method.pretrain(table, Context(root_seed=4))
    method.save(tmp_path / "encoder")
    again = PredictMask.load(tmp_path / "encoder", model=model)
    np.testing.assert_array_equal(method.encode(table).array, again.encode(table).array)
    module, prepare, is_backbone = again.trainable_encoder()
    assert is_backbone
    torch.testing.assert_close(module.eval()(*prepare(table)).detach().numpy(), method.encode(table).array)
    y = (table.numeric[:, 0] > 0).astype(np.int64)
    before = {name: tensor.clone() for name, tensor in again.backbone.state_dict().items()}
    rows = Labelled(table, y)
    tuned = type(model)(type(model).Config(**{**model.config.model_dump(), "max_epochs": 1, "warm_head_epochs": 1}))
    tuned.finetune(again.trainable_encoder(), rows, rows, Task("binary", 2), Context())
    found = again.backbone.state_dict()
    assert all(torch.equal(before[name], found[name]) for name in before), "the head warms up on the backbone as it is"


def test_there_is_a_pretraining_for_each_model_and_it_serves_budgets_and_seeds(bench: Bench) -> None:
    plan = bench.plan(
        ssl=["reconstruct"],
        model=["mlp", "resnet", "xgboost"],
        protocol=["frozen", "finetune"],
        labels=["10%", "100%"],
        seeds=2,
        controls=[],
    )
    assert [step.label for step in plan.steps.values() if step.kind == "pretrain"] == [
        "wine/0 pretrain reconstruct for mlp",
        "wine/0 pretrain reconstruct for resnet",
    ]
    assert len(plan.records) == 2 * 2 * 2
    assert {(each.model, each.protocol): each.reason for each in plan.skipped} == {
        **{
            (model, "frozen"): "reconstruct pretrains the model's own backbone, which is then fine-tuned: add "
            "--protocol finetune"
            for model in ("mlp", "resnet")
        },
        **{("xgboost", p): "xgboost has no backbone for reconstruct to train" for p in ("frozen", "finetune")},
    }


def test_a_tuned_pair_is_pretrained_in_each_trial_and_once_for_the_result(bench: Bench) -> None:
    summary = bench.run(
        ssl=["reconstruct"],
        model=["mlp"],
        protocol=["finetune"],
        trials=3,
        controls=["untrained"],
        set={"reconstruct": {"epochs": 1}, "mlp": {"max_epochs": 1, "n_layers": 1}},
    )
    assert not summary.failures
    results = {record["ssl"]: record for record in bench.records() if record["kind"] == "result"}
    assert set(results) == {"reconstruct", "untrained:reconstruct"}
    result = results["reconstruct"]
    assert result["tuning"]["model"]["trials"] == 3
    trials = [record for record in bench.records() if record["kind"] == "trial" and record["ssl"] == "reconstruct"]
    best = max(trials, key=lambda record: (record["value"], -record["number"]))
    assert result["config"]["model"] == best["config"]
    assert result["hashes"]["encoder"]


def test_fine_tuning_can_choose_the_weights() -> None:
    table = make_table(200, 3, 0)
    kept: list[dict[str, torch.Tensor]] = []

    def finetuned(encoder: TrainableEncoder) -> float:
        kept.append({name: tensor.clone() for name, tensor in encoder.module.state_dict().items()})
        return {2: 3.0}.get(len(kept), 1.0)  # the second check is the best one

    method = Reconstruct(epochs=4, head_width=8, select="finetune")
    method.pretrain(table, Context(finetuned=finetuned, validation=table))
    found = method.trainable_encoder().module.state_dict()
    assert len(kept) == 4, "a check after every epoch, for there are fewer than ten"
    assert all(torch.equal(found[name], kept[1][name]) for name in found)
    assert method.diagnostics["best_epoch"] == 2


def test_a_run_chooses_by_fine_tuning_and_leaves_the_backbone_as_it_was_pretrained(bench: Bench) -> None:
    settings = {"epochs": 2, "head_width": 8, "patience": None}
    for select in ("pretext", "finetune"):
        summary = bench.run(
            ssl=["reconstruct"],
            model=["mlp"],
            protocol=["finetune"],
            controls=[],
            set={"reconstruct": {**settings, "select": select}, "mlp": {"max_epochs": 1, "n_layers": 1}},
        )
        assert not summary.failures
    by_loss, by_score = (record for record in bench.records() if record["kind"] == "result")
    assert by_loss["diagnostics"]["ssl"]["selected_by"] == "validation_loss"
    checks = by_score["diagnostics"]["ssl"]
    assert checks["selected_by"] == "probe"
    assert checks["best_epoch"] == max(checks["probe"], key=lambda check: check[1])[0]
    assert by_loss["diagnostics"]["ssl"]["loss"] == checks["loss"], "a check does not disturb the training"
