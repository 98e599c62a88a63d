from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from optimisers import note_steps
from sklearn.metrics import roc_auc_score
from tabbench_vime.method import VIME, Heads, vime_loss

from tabbench import Context, Schema, Table
from tabbench.nn import MLP, OriginalColumns, draw_from_columns, permute_columns, replace_at_random
from tabbench.testing import make_table

Rows = NDArray[Any]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def to_table(values: Rows) -> Table:
    n_rows, n_columns = values.shape
    schema = Schema(tuple(f"x{j}" for j in range(n_columns)))
    return Table(values.astype(np.float32), np.empty((n_rows, 0), dtype=np.int64), schema)


def copied_bits(n_rows: int, seed: int) -> Rows:
    """Four random bits, each copied into four columns."""
    return np.repeat(np.random.default_rng(seed).integers(0, 2, size=(n_rows, 4)), 4, axis=1)


def independent_bits(n_rows: int, seed: int) -> Rows:
    return np.random.default_rng(seed).integers(0, 2, size=(n_rows, 16))


def test_loss_equals_the_hand_worked_value() -> None:
    mask_logits = torch.logit(torch.tensor([[0.9, 0.2, 0.6]]))
    terms = vime_loss(
        mask_logits,
        torch.tensor([[True, False, True]]),
        torch.tensor([[0.1, 0.5, 0.7]]),
        torch.tensor([[0.2, 0.5, 1.0]]),
        alpha=2.0,
    )
    assert terms["mask"].item() == pytest.approx(0.279777, abs=1e-6)
    assert terms["reconstruction"].item() == pytest.approx(0.033333, abs=1e-6)
    assert terms["loss"].item() == pytest.approx(0.346443, abs=1e-6)


def test_corruption_with_probability_zero_changes_nothing() -> None:
    values = torch.rand(100, 5, generator=generator())
    assert torch.equal(replace_at_random(values, permute_columns(values, generator()), 0.0, generator()), values)


def test_corruption_with_probability_one_permutes_every_column_on_its_own() -> None:
    values = torch.rand(5000, 1, generator=generator()).expand(-1, 2).contiguous()
    corrupted = replace_at_random(values, permute_columns(values, generator()), 1.0, generator())
    assert torch.equal(corrupted.sort(dim=0).values, values.sort(dim=0).values)
    assert abs(torch.corrcoef(corrupted.T)[0, 1].item()) < 0.05


def test_entries_replaced_by_an_equal_value_do_not_count_as_replaced() -> None:
    values = torch.stack([torch.ones(4000), (torch.rand(4000, generator=generator()) < 0.5).float()], dim=1)
    replaced = (
        (replace_at_random(values, permute_columns(values, generator()), 0.3, generator()) != values)
        .float()
        .mean(dim=0)
    )
    assert replaced[0] == 0  # a constant column
    assert replaced[1].item() == pytest.approx(0.15, abs=0.03)  # a fair coin: half of the swaps change nothing


def test_mask_target_of_the_loss_is_recomputed_after_mixing() -> None:
    method = VIME(p_m=1.0)
    method.initialise(to_table(np.ones((20, 3))), Context())
    seen = {}

    def heads(corrupted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        seen["input"] = corrupted
        return torch.full((20, 3), -20.0), corrupted

    same = torch.ones(20, 3)
    terms = method._loss(heads, same, same.clone(), OriginalColumns.each(3))  # type: ignore[arg-type]
    assert terms["mask"].item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(("level", "n_mask"), [("feature", 3), ("encoded", 7)])
def test_mask_has_an_entry_per_feature_or_per_encoded_column(level: str, n_mask: int) -> None:
    schema = Schema(("a",), ("b", "c"), (("x", "y"), ("p", "q", "r", "s")))
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(2, 4, 300), rng.integers(2, 6, 300)])
    table = Table(rng.normal(size=(300, 1)).astype(np.float32), codes, schema)
    method = VIME(corrupt_level=level)
    method.initialise(table, Context())
    clean, originals = method._corruptible(table)
    assert originals.count == n_mask
    corrupted = replace_at_random(clean, permute_columns(clean, generator()), 0.5, generator())
    encoded = method.inputs.encode(corrupted) if level == "feature" else corrupted
    active = encoded[:, 1:3].sum(dim=1)
    # Whole features keep one active level; one-hot columns on their own lose or double them.
    assert sorted(set(active.tolist())) == ([1.0] if level == "feature" else [0.0, 1.0, 2.0])


Seen = list[tuple[torch.Tensor, torch.Tensor, OriginalColumns]]


@pytest.fixture
def losses_of(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Clean and corrupted matrices, and their columns, of every loss that is computed."""
    seen: Seen = []
    loss = VIME._loss

    def noted(self: VIME, heads: Heads, clean: torch.Tensor, corrupted: torch.Tensor, columns: OriginalColumns) -> Any:
        seen.append((clean, corrupted, columns))
        return loss(self, heads, clean, corrupted, columns)

    monkeypatch.setattr(VIME, "_loss", noted)
    return seen


def test_a_number_and_its_indicator_are_replaced_together(losses_of: Seen) -> None:
    table, validation = (make_table(300, numeric=3, categorical=1, missing=0.3, seed=seed) for seed in (0, 1))
    method = VIME(epochs=1, p_m=0.5, scaling="standard")
    method.pretrain(table, Context(validation=validation))
    assert len(losses_of) > 3  # training batches, then those of validation
    for clean, corrupted, originals in losses_of:
        assert (corrupted != clean).any()
        is_missing = corrupted[:, 3:6] == 1
        assert (corrupted[:, :3][is_missing] == 0).all()  # the mean, from whichever row it came
        assert (corrupted[:, :3][~is_missing] != 0).all()
        assert originals.count == 4  # the mask has no entry for an indicator


def test_share_counts_original_columns_where_values_are_missing(losses_of: Seen) -> None:
    method = VIME(epochs=1, p_m=0.3)
    method.pretrain(make_table(4000, numeric=6, categorical=0, missing=0.2), Context())
    shares = [originals.gather(corrupted != clean).float().mean() for clean, corrupted, originals in losses_of]
    # A missing number that is replaced by a missing one has not changed.
    assert torch.stack(shares).mean().item() == pytest.approx(0.3 * (1 - 0.2**2), abs=0.01)


def test_share_of_replaced_entries_is_at_most_the_probability(losses_of: Seen) -> None:
    table = to_table(np.round(np.random.default_rng(0).normal(size=(4000, 6))))  # few values: many equal swaps
    VIME(epochs=2, p_m=0.3).pretrain(table, Context())
    shares = torch.stack([(corrupted != clean).float().mean() for clean, corrupted, _ in losses_of])
    assert 0.15 < shares.mean().item() < 0.3 + 3 * (0.3 * 0.7 / (2 * 4000 * 6)) ** 0.5


@pytest.mark.parametrize(
    ("scaling", "activation"),
    [("minmax", torch.nn.Sigmoid), ("standard", torch.nn.Identity), ("quantile", torch.nn.Identity)],
)
def test_feature_head_fits_the_scale_of_the_inputs(scaling: str, activation: type) -> None:
    assert isinstance(Heads(MLP(4, [4]), 4, 4, scaling).activation, activation)


def test_standard_scaling_can_restore_negative_values() -> None:
    values = np.random.default_rng(0).normal(size=(500, 4))
    method = VIME(scaling="standard", p_m=0.0, width=32, epochs=60, lr=1e-2)
    method.pretrain(to_table(values), Context())
    assert method.diagnostics["reconstruction"][-1] < 0.1


def test_default_encoder_is_one_relu_layer_as_wide_as_its_input_and_adult_is_108_wide() -> None:
    cardinalities = (9, 16, 7, 15, 6, 5, 2, 42)
    levels = tuple(tuple(f"l{i}" for i in range(n)) for n in cardinalities)
    schema = Schema(tuple("abcdef"), tuple(f"c{j}" for j in range(8)), levels)
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(2, n + 2, 50) for n in cardinalities])
    table = Table(rng.normal(size=(50, 6)).astype(np.float32), codes, schema)
    method = VIME()
    method.initialise(table, Context())
    array = method.encode(table).array
    assert array.shape == (50, 108)
    assert (array >= 0).all()


@pytest.mark.parametrize(("static", "n_draws"), [(True, 1), (False, 3)])
def test_corruption_is_drawn_once_or_every_epoch(monkeypatch: pytest.MonkeyPatch, static: bool, n_draws: int) -> None:
    draws = []

    def counted(values: torch.Tensor, source: torch.Generator, originals: OriginalColumns) -> torch.Tensor:
        draws.append(len(values))
        return permute_columns(values, source, originals)

    monkeypatch.setattr("tabbench_vime.method.permute_columns", counted)
    VIME(static_corruption=static, epochs=3).pretrain(to_table(copied_bits(50, 0)), Context())
    assert draws == [50] * n_draws  # over the training set, not within a mini-batch


def test_replacement_values_of_validation_rows_are_those_of_training_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = []

    def seen(values: torch.Tensor, n_rows: int, source: torch.Generator, originals: OriginalColumns) -> torch.Tensor:
        sources.append((len(values), n_rows))
        return draw_from_columns(values, n_rows, source, originals)

    monkeypatch.setattr("tabbench_vime.method.draw_from_columns", seen)
    context = Context(validation=to_table(independent_bits(30, 1)))
    VIME(epochs=2).pretrain(to_table(independent_bits(90, 0)), context)
    assert sources == [(90, 30)]  # once: the validation corruption is fixed


def test_weights_start_as_keras_draws_them() -> None:
    method = VIME(width=40)
    method.initialise(to_table(copied_bits(50, 0)), Context())
    n_columns = method.inputs.width
    heads = Heads(method.network, n_columns, n_columns, "minmax")
    first = method.network[0]
    assert isinstance(first, torch.nn.Linear)
    for weight in (first.weight, *torch.split(heads.output.weight, n_columns)):
        bound = (6 / sum(weight.shape)) ** 0.5  # PyTorch's own would be 1 / sqrt(inputs)
        assert 0.9 * bound < weight.abs().max().item() <= bound
    assert not first.bias.any()
    assert not heads.output.bias.any()


def test_optimiser_decays_by_nine_tenths(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = note_steps(monkeypatch, torch.optim.RMSprop)
    VIME(epochs=1).pretrain(to_table(copied_bits(20, 0)), Context())
    wanted = {"lr": 1e-3, "alpha": 0.9, "eps": 1e-7, "momentum": 0, "weight_decay": 0}
    assert {name: seen[0][name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("settings", "stops"),
    [({"epochs": 10}, False), ({"epochs": 200}, True), ({"epochs": 50, "patience": None}, False)],
)
def test_long_trainings_of_the_paper_stop_early_on_validation_rows(settings: dict[str, Any], stops: bool) -> None:
    paper = {name: value for name, value in VIME.Config.presets()["paper"].items() if name != "source"}
    context = Context(validation=to_table(independent_bits(50, 1)))
    method = VIME(**{**paper, "lr": 1e-12, **settings})  # what does not learn has its best epoch first
    method.pretrain(to_table(independent_bits(50, 0)), context)
    if stops:
        assert method.diagnostics["epochs"] == 11
        assert method.diagnostics["best_epoch"] <= 1
    else:
        assert method.diagnostics["epochs"] == settings["epochs"]


@pytest.mark.parametrize(("make_rows", "low", "high"), [(copied_bits, 0.9, 1.0), (independent_bits, 0.45, 0.55)])
def test_held_out_masks_are_found_if_and_only_if_columns_depend_on_each_other(
    monkeypatch: pytest.MonkeyPatch, make_rows: Callable[[int, int], Rows], low: float, high: float
) -> None:
    kept: list[Heads] = []

    class Kept(Heads):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            kept.append(self)

    monkeypatch.setattr("tabbench_vime.method.Heads", Kept)
    method = VIME(width=64, epochs=20, lr=5e-3)
    method.pretrain(to_table(make_rows(4000, 0)), Context())
    clean = method.inputs.matrix(to_table(make_rows(2000, 1)))
    corrupted = replace_at_random(clean, permute_columns(clean, generator(1)), 0.3, generator())
    with torch.no_grad():
        scores = kept[0](corrupted)[0]
    auroc = roc_auc_score((corrupted != clean).flatten().numpy(), scores.flatten().numpy())
    assert low < auroc <= high
