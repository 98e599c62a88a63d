"""SCARF: values worked out by hand, the behaviour that the paper describes, and tabbench's conformance kit."""

import inspect
import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import ks_2samp
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks as sklearn_checks
from tabbench_scarf.method import DIAGNOSED_ROWS, SCARF, VALIDATION_PASSES, info_nce

from tabbench import Context, Schema, Table
from tabbench.nn import count_corrupted, redraw
from tabbench.testing import Check, Subject, make_table, parametrize_with_checks

ANCHORS = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
VIEWS = torch.tensor([[0.6, 0.8], [-0.8, 0.6]])


@parametrize_with_checks("scarf", settings={"epochs": 2, "width": 32, "depth": 2, "head_width": 16})
def test_keeps_its_promises(plugin: Subject, check: Check) -> None:
    check(plugin)


@sklearn_checks(
    [SCARF(epochs=1, width=8, depth=1, head_width=4)],
    expected_failed_checks=lambda _: {
        "check_dont_overwrite_parameters": "the network and its inputs are attributes without an underscore",
        "check_methods_sample_order_invariance": "it allows 1e-7, which float32 does not keep",
        "check_methods_subset_invariance": "it allows 1e-7, which float32 does not keep",
    },
)
def test_is_a_scikit_learn_transformer(estimator: Any, check: Any) -> None:
    check(estimator)


# Objective.


def test_loss_of_two_rows_is_the_one_worked_out_by_hand() -> None:
    assert float(info_nce(ANCHORS, VIEWS, 1.0)) == pytest.approx(0.509278, abs=1e-6)
    assert float(info_nce(ANCHORS, VIEWS, 1.0)) - math.log(2) == pytest.approx(-0.183869, abs=1e-6), "the paper's form"
    assert float(info_nce(ANCHORS, VIEWS, 1.0, symmetric=True)) == pytest.approx(0.802079, abs=1e-6)


def test_loss_is_cross_entropy_with_the_diagonal_as_target() -> None:
    generator = torch.Generator().manual_seed(0)
    anchors, views = torch.nn.functional.normalize(torch.randn(2, 9, 4, generator=generator), dim=-1)
    wanted = torch.nn.functional.cross_entropy(anchors @ views.T / 0.3, torch.arange(9))
    assert float(info_nce(anchors, views, 0.3)) == pytest.approx(float(wanted), rel=1e-5)


@pytest.mark.parametrize("symmetric", [False, True])
def test_loss_of_several_batches_is_the_mean_of_their_losses(symmetric: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    anchors, views = torch.randn(2, 3, 5, 4, generator=generator)
    apart = [float(info_nce(a, v, 0.5, symmetric=symmetric)) for a, v in zip(anchors, views, strict=True)]
    assert float(info_nce(anchors, views, 0.5, symmetric=symmetric)) == pytest.approx(np.mean(apart), rel=1e-5)


def test_untrained_loss_is_close_to_log_n_and_bounded_by_the_temperature() -> None:
    table = factor_table(128, seed=3)
    method = SCARF(epochs=1, lr=1e-12)
    method.pretrain(table, Context())
    assert loss_of(method, table) == pytest.approx(math.log(128), abs=0.05)
    opposite = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])  # positives at +1, negatives at -1: no loss is lower
    assert float(info_nce(opposite, opposite, 1.0)) == pytest.approx(math.log(1 + math.exp(-2)), abs=1e-6)


# Corruption.


def corrupted_numbers(rows: torch.Tensor, train: torch.Tensor, count: int, seed: int = 0) -> torch.Tensor:
    return redraw(rows, train, count, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    "n_columns, share, count", [(8, 0.6, 4), (10, 0.6, 6), (54, 0.6, 32), (1, 0.6, 1), (100, 0.29, 29)]
)
def test_share_of_columns_is_rounded_down_but_never_to_none(n_columns: int, share: float, count: int) -> None:
    assert count_corrupted(n_columns, share) == count


def test_exactly_q_columns_are_replaced_and_others_in_other_rows() -> None:
    train = torch.rand(500, 10, generator=torch.Generator().manual_seed(1))
    replaced = corrupted_numbers(train + 10, train, 6) < 10
    assert (replaced.sum(dim=1) == 6).all()
    assert len(torch.unique(replaced, dim=0)) > 100
    assert (replaced.float().mean(dim=0) - 0.6).abs().max() < 0.1, "no column is preferred"


def test_no_column_replaced_gives_the_row_back() -> None:
    train = torch.rand(20, 5)
    assert torch.equal(corrupted_numbers(train, train, 0), train)


def test_replaced_values_come_from_the_same_column_with_its_frequencies() -> None:
    generator = torch.Generator().manual_seed(2)
    skewed = torch.rand(5000, 3, generator=generator).pow(8) * torch.tensor([1.0, 100.0, 10000.0])
    drawn = corrupted_numbers(torch.full((5000, 3), -1.0), skewed, 3)
    for column, values in zip(skewed.T, drawn.T, strict=True):
        assert torch.isin(values, column).all()
        assert ks_2samp(column.numpy(), values.numpy()).statistic < 0.05


def test_a_number_and_its_indicator_are_replaced_together() -> None:
    table = make_table(200, numeric=3, categorical=2, missing=0.3)
    method = SCARF()
    method.initialise(table, Context())
    matrix = method.inputs.matrix(table)
    corrupted = method.corrupted(matrix, matrix, torch.Generator().manual_seed(0))
    is_missing = corrupted[:, 3:6] == 1
    assert (corrupted[:, :3][is_missing] == 0).all(), "a missing number is the mean, wherever it was drawn from"
    assert is_missing.float().mean() == pytest.approx(0.3, abs=0.05)
    assert torch.isin(corrupted[:, 6:], torch.unique(matrix[:, 6:])).all(), "codes stay codes"


def test_share_counts_original_columns_where_values_are_missing() -> None:
    table = make_table(2000, numeric=10, categorical=0, missing=0.2)
    method = SCARF(epochs=1, width=16, depth=1)
    method.pretrain(table, Context())
    # 6 of 10 columns, less what is missing before and after: indicators that stay 0 must not dilute the share.
    assert method.diagnostics["changed_entries"] == pytest.approx(0.6 * (1 - 0.2**2), abs=0.01)


# What it learns.


def factor_table(n_rows: int, seed: int) -> Table:
    """16 columns, each of them one of 4 hidden factors with a little noise."""
    rng = np.random.default_rng([5, seed])
    values = np.tile(rng.normal(size=(n_rows, 4)), 4) + 0.1 * rng.normal(size=(n_rows, 16))
    schema = Schema(tuple(f"x{j}" for j in range(16)))
    return Table(values.astype(np.float32), np.empty((n_rows, 0), dtype=np.int64), schema)


def views_of(method: SCARF, table: Table) -> tuple[torch.Tensor, torch.Tensor]:
    clean = method.inputs.matrix(table)
    corrupted = method.corrupted(clean, clean, torch.Generator().manual_seed(9))
    with torch.no_grad():
        return method.contrast(method.inputs.encode(clean)), method.contrast(method.inputs.encode(corrupted))


def loss_of(method: SCARF, table: Table) -> float:
    return float(info_nce(*views_of(method, table), 1.0))


def matching(method: SCARF, table: Table) -> float:
    """How often a row's own view is the most similar one."""
    anchors, views = views_of(method, table)
    return float((anchors @ views.T).argmax(dim=1).eq(torch.arange(len(anchors))).float().mean())


@pytest.fixture(scope="module")
def trained() -> SCARF:
    method = SCARF(epochs=8)
    method.pretrain(factor_table(4000, seed=0), Context())
    return method


def test_trained_views_find_their_row(trained: SCARF) -> None:
    untrained = SCARF(epochs=1, lr=1e-12)
    untrained.pretrain(factor_table(4000, seed=0), Context())
    held_out = [factor_table(128, seed) for seed in range(1, 9)]
    found, by_chance = (np.mean([matching(method, rows) for rows in held_out]) for method in (trained, untrained))
    assert found > 0.12
    assert found > by_chance + 0.03
    loss, before = (np.mean([loss_of(method, rows) for rows in held_out]) for method in (trained, untrained))
    assert loss < before - 0.3


def probe(
    train: NDArray[np.float32], test: NDArray[np.float32], y: NDArray[np.int64], y_test: NDArray[np.int64]
) -> float:
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=2000))
    return float(model.fit(train, y).score(test, y_test))


def test_a_linear_probe_reads_more_from_the_representation_than_from_the_rows(trained: SCARF) -> None:
    train, test = factor_table(2000, seed=0), factor_table(1000, seed=1)

    def labels(table: Table) -> NDArray[np.int64]:
        quadratic = table.numeric[:, 0] * table.numeric[:, 1] + table.numeric[:, 2] ** 2
        return np.searchsorted([0.2, 1.0], quadratic)

    y, y_test = labels(train), labels(test)
    raw = probe(train.numeric, test.numeric, y, y_test)
    learned = probe(trained.encode(train).array, trained.encode(test).array, y, y_test)
    assert learned > raw + 0.05, (learned, raw)


def test_representation_is_flat_and_not_negative(trained: SCARF) -> None:
    array = trained.encode(factor_table(10, seed=1)).array
    assert array.shape == (10, 256)
    assert (array >= 0).all()


def test_validation_is_corrupted_once_and_decides_when_to_stop() -> None:
    losses: list[float] = []
    context = Context(
        validation=factor_table(300, seed=2),
        on_report=lambda step, total, metrics: losses.append(metrics["validation_loss"]),
    )
    method = SCARF(epochs=40, patience=2, lr=1e-12, width=16, depth=1)
    method.pretrain(factor_table(300, seed=0), context)
    assert len(set(np.round(losses, 6))) == 1, "what does not learn has the same loss after every epoch"
    assert method.diagnostics["epochs"] == 3
    assert losses[0] == pytest.approx(math.log(128), abs=0.1), "batches of 128, though there are 300 rows"


def test_diagnostics_tell_how_many_entries_really_changed() -> None:
    table = factor_table(200, seed=0)
    coarse = Table(np.sign(table.numeric), table.categorical, table.schema)
    shares = []
    for rows in (table, coarse):
        method = SCARF(epochs=1, width=16, depth=1)
        method.pretrain(rows, Context())
        shares.append(method.diagnostics["changed_entries"])
    assert shares[0] == pytest.approx(9 / 16, abs=0.02)
    assert shares[1] < 0.35, "a column of two values draws the old one half of the time"


def test_validation_holds_the_clean_rows_once_and_compares_each_with_its_own_views() -> None:
    validation = factor_table(300, seed=2)
    method = SCARF()
    method.initialise(factor_table(300, seed=0), Context())
    pretext = method._validation(method.inputs.matrix(factor_table(300, seed=0)), Context(validation=validation))
    assert pretext is not None
    held = inspect.getclosurevars(pretext.loss).nonlocals
    tensors = [value for value in held.values() if isinstance(value, torch.Tensor)]
    assert sum(tensor.nbytes for tensor in tensors) == (1 + VALIDATION_PASSES) * 256 * 16 * 4
    assert pretext.n_rows == 2 * VALIDATION_PASSES
    seen: list[torch.Tensor] = []

    def compare(clean: torch.Tensor, corrupted: torch.Tensor) -> torch.Tensor:
        seen.append((clean != corrupted).float().mean(dim=(1, 2)))
        return torch.zeros(())

    method.compare = compare  # type: ignore[method-assign]
    pretext.loss(torch.arange(pretext.n_rows))
    assert (seen[0] - 9 / 16).abs().max() < 0.01


def test_diagnosis_is_bounded_in_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    corrupted = SCARF.corrupted

    def noted(self: SCARF, rows: torch.Tensor, train: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        sizes.append(len(rows))
        return corrupted(self, rows, train, generator)

    monkeypatch.setattr(SCARF, "corrupted", noted)
    SCARF(epochs=1, width=8, depth=1, head_width=8).pretrain(factor_table(DIAGNOSED_ROWS + 500, seed=0), Context())
    assert sizes[-1] == DIAGNOSED_ROWS
