import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from tabbench_binrecon.method import (
    BinRecon,
    Bins,
    BinTask,
    bin_edges,
    default_batch_size,
    recon_loss,
    xent_loss,
)

from tabbench import Context, Schema, Table
from tabbench.nn import Dropout, seeded
from tabbench.nn.scaling import Scaler
from tabbench.testing import make_table


def to_table(values: ArrayLike) -> Table:
    rows = np.asarray(values, dtype=np.float32)
    rows = rows[:, None] if rows.ndim == 1 else rows
    schema = Schema(tuple(f"x{j}" for j in range(rows.shape[1])))
    return Table(rows, np.empty((len(rows), 0), dtype=np.int64), schema)


def fitted_bins(train: ArrayLike | Table, n_bins: int, *, official: bool = False) -> Bins:
    """Bins whose missing numbers take the mean, as z-scores have it."""
    table = train if isinstance(train, Table) else to_table(train)
    return Bins(n_bins, official=official).fit(table, Scaler("standard").fit(table.numeric).fill)


def bins_of(train: ArrayLike, rows: ArrayLike, n_bins: int, *, official: bool = False) -> list[int]:
    bins = fitted_bins(train, n_bins, official=official)
    indices: list[int] = bins.transform(to_table(rows))[:, 0].tolist()
    return indices


def four_factors(n_rows: int, seed: int) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(99).normal(size=(4, 16))
    return rng.normal(size=(n_rows, 4)) @ mixing + 0.1 * rng.normal(size=(n_rows, 16))


class TestBins:
    def test_edges_indices_and_standardised_targets_equal_the_hand_worked_ones(self) -> None:
        train = np.arange(8)
        assert bin_edges(train.astype(float), 4).tolist() == [1.75, 3.5, 5.25]
        bins = fitted_bins(train, 4)
        indices = bins.transform(to_table(train))
        assert indices[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
        assert bins.mean.item() == 1.5
        assert bins.std.item() == pytest.approx(1.195229, abs=1e-6)
        standardised = ((indices - bins.mean) / bins.std)[::2, 0]
        assert standardised.tolist() == pytest.approx([-1.254990, -0.418330, 0.418330, 1.254990], abs=1e-5)

    def test_official_edges_merge_the_top_two_bins(self) -> None:
        edges = bin_edges(np.arange(8.0), 4, official=True)
        assert np.searchsorted(edges, np.arange(8.0), side="right").tolist() == [0, 0, 1, 1, 2, 2, 2, 2]

    @pytest.mark.parametrize(("n_bins", "sizes"), [(10, [10] * 8 + [20]), (5, [20, 20, 20, 40]), (2, [100])])
    def test_official_bins_of_a_hundred_numbers_have_the_measured_sizes(self, n_bins: int, sizes: list[int]) -> None:
        train = np.arange(1, 101)
        assert np.bincount(bins_of(train, train, n_bins, official=True)).tolist() == sizes
        assert len(np.bincount(bins_of(train, train, n_bins))) == n_bins

    def test_official_bins_keep_each_value_of_a_column_with_at_most_twenty(self) -> None:
        train = np.arange(100) % 20
        assert max(bins_of(train, train, 5, official=True)) == 19

    def test_bins_hold_equally_many_training_rows(self) -> None:
        train = np.random.default_rng(0).normal(size=1000)
        counts = np.bincount(bins_of(train, train, 10))
        assert len(counts) == 10
        assert (abs(counts - 100) <= 1).all()

    def test_edges_come_from_training_rows_only(self) -> None:
        train = np.random.default_rng(0).normal(size=500)
        assert bins_of(train, [1e9, -1e9], 10) == [9, 0]
        with_extremes = np.concatenate([train[:50], [1e9, -1e9]])
        assert bins_of(train, with_extremes, 10)[:50] == bins_of(train, train[:50], 10)

    @pytest.mark.parametrize("n_rows", [1000, 1001, 997])
    def test_indices_are_the_same_after_a_monotone_transformation(self, n_rows: int) -> None:
        column = np.random.default_rng(0).normal(size=n_rows).astype(np.float32)
        assert bins_of(column, column, 10) == bins_of(np.exp(column), np.exp(column), 10)

    def test_few_distinct_values_have_a_bin_each(self) -> None:
        assert set(bins_of([0, 1] * 20, [0, 1], 10)) == {0, 1}
        assert bins_of([3.0, 7.0, 5.0] * 9, [3, 5, 7, 6], 10) == [0, 1, 2, 1]

    def test_zero_inflated_column_has_no_empty_bins(self) -> None:
        train = np.concatenate([np.zeros(700), np.random.default_rng(0).uniform(1, 2, 300)])
        indices = bins_of(train, train, 10)
        assert sorted(set(indices)) == list(range(max(indices) + 1))
        assert set(indices[:700]) == {0}

    def test_missing_numbers_take_the_bin_of_the_mean_and_leave_edges_alone(self) -> None:
        train = np.concatenate([np.arange(8.0), [np.nan] * 30])
        bins = fitted_bins(train, 4)
        assert bins.edges[0].tolist() == [1.75, 3.5, 5.25]
        assert bins.transform(to_table([np.nan]))[0, 0] == 2  # the mean is 3.5

    def test_categories_keep_every_level_whatever_the_number_of_bins(self) -> None:
        schema = Schema((), ("c",), (tuple("abcdefghijkl"),))
        codes = np.arange(2, 14)[:, None].repeat(3, axis=0)
        bins = fitted_bins(Table(np.empty((36, 0), dtype=np.float32), codes, schema), 5)
        assert bins.n_bins.tolist() == [12]
        assert bins.transform(Table(np.empty((36, 0), dtype=np.float32), codes, schema))[:, 0].tolist() == sorted(
            list(range(12)) * 3
        )


Given = list[tuple[torch.Tensor, torch.Tensor]]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    """Inputs and bin indices of every batch that the network is trained on."""
    seen: Given = []
    forward = BinTask.forward

    def noted(self: BinTask, inputs: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        seen.append((inputs, indices))
        return forward(self, inputs, indices)

    monkeypatch.setattr(BinTask, "forward", noted)
    return seen


@pytest.mark.parametrize(("scaling", "expected"), [("standard", 3), ("quantile", 2)])
def test_a_missing_number_is_in_the_bin_of_what_the_input_says(given: Given, scaling: str, expected: int) -> None:
    skewed = np.concatenate([np.arange(39.0) % 13, [1000.0]])  # the mean is above all but one, the median in the middle
    BinRecon(scaling=scaling, n_bins=4, epochs=1, batch_size=64).pretrain(
        to_table(np.concatenate([skewed, [np.nan] * 20])), Context()
    )
    ((inputs, indices),) = given
    is_missing = inputs[:, 1] == 1
    assert is_missing.sum() == 20
    assert set(indices[is_missing, 0].tolist()) == {expected}


def test_official_bins_reach_the_targets(given: Given) -> None:
    for official in (True, False):
        method = BinRecon(n_bins=4, official_bins=official, epochs=1, batch_size=64)
        method.pretrain(to_table(np.arange(64)), Context())
        assert method.diagnostics["bins"] == ([3, 3] if official else [4, 4])
    sizes = [np.bincount(indices[:, 0].numpy()).tolist() for _, indices in given]
    assert sizes == [[16, 16, 32], [16, 16, 16, 16]]


def test_ordinal_categories_train_and_encode(given: Given) -> None:
    table = make_table(200, numeric=2, categorical=3)
    method = BinRecon(categories="ordinal", corruption="mask", epochs=2, batch_size=100)
    method.pretrain(table, Context())
    assert all(inputs.shape[1] == 5 for inputs, _ in given)
    codes = torch.cat([inputs[:, 2:] for inputs, _ in given])
    assert set(torch.unique(codes).tolist()) == {0.0, *np.unique(table.categorical).astype(float)}
    array = method.encode(table).array
    assert array.shape == (200, 128)
    assert np.isfinite(array).all()


@pytest.mark.parametrize("loss", ["recon", "xent"])
def test_number_of_bins_varies_from_one_to_all(loss: str) -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.ones(200), rng.integers(0, 2, 200), rng.integers(0, 4, 200), rng.normal(size=200)])
    method = BinRecon(loss=loss, n_bins=10, epochs=2)
    method.pretrain(to_table(rows), Context())
    assert fitted_bins(rows, 10).n_bins.tolist() == [1, 2, 4, 10]
    assert method.diagnostics["bins"] == [1, 10]
    assert np.isfinite(method.diagnostics["loss"][-1])


def test_constant_column_is_left_out_of_the_loss() -> None:
    rows = np.column_stack([np.ones(50), np.arange(50)])
    bins = fitted_bins(rows, 5)
    assert bins.varies.tolist() == [False, True]
    target = (bins.transform(to_table(rows)) - bins.mean) / bins.std
    assert torch.isfinite(target).all()
    off = target.clone()
    off[:, 0] += 100
    assert recon_loss(off, target, bins.varies).item() == 0
    off[:, 1] += 1
    assert recon_loss(off, target, bins.varies).item() == pytest.approx(1.0)


def test_cross_entropy_ignores_bins_that_a_column_does_not_have() -> None:
    logits = torch.zeros(3, 2, 4)
    logits[:, 0, 2:] = 50.0  # the first column has two bins only
    indices = torch.zeros(3, 2, dtype=torch.int32)
    loss = xent_loss(logits, indices, torch.tensor([2, 4]), torch.tensor([True, True]))
    assert loss.item() == pytest.approx((math.log(2) + math.log(4)) / 2, abs=1e-6)


def test_untrained_cross_entropy_is_that_of_chance() -> None:
    table = to_table(np.column_stack([np.random.default_rng(0).normal(size=(500, 5)), np.arange(500) % 3]))
    method = BinRecon(loss="xent")
    method.initialise(table, Context())
    bins = fitted_bins(table, 10)
    with seeded(0), torch.no_grad():
        loss = BinTask(method.network, bins, method.config).eval()(method.inputs.matrix(table), bins.transform(table))
    assert loss.item() == pytest.approx(bins.n_bins.log().mean().item(), rel=0.1)


def test_validation_targets_use_edges_and_statistics_of_training_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = []
    fit = Bins.fit

    def noted(self: Bins, table: Table, fill: NDArray[np.float64]) -> Bins:
        fitted.append(len(table))
        return fit(self, table, fill)

    monkeypatch.setattr(Bins, "fit", noted)
    context = Context(validation=to_table(four_factors(40, 1)))
    BinRecon(epochs=1).pretrain(to_table(four_factors(200, 0)), context)
    assert fitted == [200]


def test_targets_are_those_of_the_clean_row(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def noted(self: BinTask, inputs: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        seen.append((inputs, indices))
        nothing: torch.Tensor = self.encoder(inputs).sum() * 0
        return nothing

    monkeypatch.setattr(BinTask, "forward", noted)
    table = to_table(np.arange(1, 65))
    BinRecon(corruption="mask", corruption_rate=1.0, epochs=1, n_bins=4).pretrain(table, Context())
    inputs, indices = seen[0]
    assert (inputs == 0).all()
    assert sorted(indices[:, 0].tolist()) == [0] * 16 + [1] * 16 + [2] * 16 + [3] * 16


@pytest.mark.parametrize("corruption", ["none", "mask", "shuffle"])
def test_corruption_hides_numbers_by_their_mean_and_categories_by_zeros(corruption: str) -> None:
    schema = Schema(("a",), ("c",), (("x", "y"),))
    rng = np.random.default_rng(0)
    table = Table(rng.normal(size=(400, 1)).astype(np.float32), rng.integers(2, 4, size=(400, 1)), schema)
    method = BinRecon(corruption=corruption, corruption_rate=0.25)
    method.initialise(table, Context())
    clean = method.inputs.matrix(table)
    swapped = clean.flip(0) if corruption == "shuffle" else None
    encoded = method.inputs.encode(
        method._corrupt(clean, swapped, torch.Generator().manual_seed(0), method.inputs.originals)
    )
    zero_rate = (encoded[:, 0] == 0).float().mean().item()
    hidden_rate = (encoded[:, 1:].sum(dim=1) == 0).float().mean().item()
    expected = 0.25 if corruption == "mask" else 0.0
    assert zero_rate == pytest.approx(expected, abs=0.06)
    assert hidden_rate == pytest.approx(expected, abs=0.06)
    changed = (encoded[:, 0] != method.inputs.encode(clean)[:, 0]).float().mean().item()
    assert changed == pytest.approx(0.0 if corruption == "none" else 0.25, abs=0.06)


@pytest.mark.parametrize("corruption", ["mask", "shuffle"])
def test_a_number_and_its_indicator_are_replaced_together(given: Given, corruption: str) -> None:
    table, validation = (make_table(600, numeric=3, categorical=1, missing=0.3, seed=seed) for seed in (0, 1))
    method = BinRecon(corruption=corruption, corruption_rate=0.5, epochs=1, batch_size=200)
    method.pretrain(table, Context(validation=validation))
    assert len(given) == 9  # validation rows before and after the epoch's three batches
    for inputs, _ in given:
        is_zero, is_missing = inputs[:, :3] == 0, inputs[:, 3:6] == 1
        assert is_zero[is_missing].all()
        if corruption == "shuffle":
            assert torch.equal(is_zero, is_missing)
            assert is_missing.float().mean().item() == pytest.approx(0.3, abs=0.05)
        else:  # half of the indicators are hidden, with their number
            assert is_missing.float().mean().item() == pytest.approx(0.15, abs=0.04)
            assert is_zero.float().mean().item() == pytest.approx(0.65, abs=0.05)


@pytest.mark.parametrize(
    ("n_rows", "expected"),
    [(60_000, 1024), (50_000, 512), (5001, 256), (1001, 128), (1000, 64), (5, 64)],
)
def test_batch_size_follows_the_number_of_rows(n_rows: int, expected: int) -> None:
    assert default_batch_size(n_rows) == expected


def test_biases_are_not_decayed_and_the_rate_falls_to_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = []
    groups: list[dict[str, Any]] = []
    step = torch.optim.AdamW.step

    def noted(self: torch.optim.AdamW, *arguments: Any) -> Any:
        rates.append(self.param_groups[0]["lr"])
        groups[:] = self.param_groups
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.AdamW, "step", noted)
    method = BinRecon(epochs=4, weight_decay=0.5)
    method.pretrain(to_table(four_factors(256, 0)), Context())
    assert rates[0] == pytest.approx(1e-3)
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.1 * rates[0]
    assert [(group["weight_decay"], {parameter.ndim for parameter in group["params"]}) for group in groups] == [
        (0.5, {2}),
        (0.0, {1}),
    ]


def test_dropout_is_active_in_training_and_not_in_encoding() -> None:
    table = to_table(four_factors(200, 0))
    method = BinRecon(dropout=0.5, epochs=1)
    shares: dict[bool, list[float]] = {True: [], False: []}

    def noted(layer: torch.nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        (before,) = inputs
        shares[layer.training].append(float((output[before > 0] == 0).float().mean()))

    make_network = method.make_network

    def watched() -> Any:
        network = make_network()
        for layer in network.modules():
            if isinstance(layer, Dropout):
                layer.register_forward_hook(noted)
        return network

    method.make_network = watched  # type: ignore[method-assign]
    method.pretrain(table, Context())
    assert np.array_equal(method.encode(table).array, method.encode(table).array)
    assert shares[True] == pytest.approx([0.5] * len(shares[True]), abs=0.05)
    assert len(shares[True]) == 3  # batches of 64
    assert shares[False] == [0.0, 0.0]


def test_representation_is_linear_and_as_wide_as_set() -> None:
    method = BinRecon(width=24, epochs=1)
    method.pretrain(to_table(four_factors(200, 0)), Context())
    array = method.encode(to_table(four_factors(50, 1))).array
    assert array.shape == (50, 24)
    assert (array < 0).any()


def test_bins_are_learnt_and_a_linear_probe_gains_over_raw_inputs() -> None:
    train, held_out = four_factors(4000, 0), four_factors(2000, 1)
    losses: list[float] = []
    context = Context(
        validation=to_table(held_out), on_report=lambda step, total, metrics: losses.append(metrics["validation_loss"])
    )
    method = BinRecon(epochs=20, batch_size=128)
    method.pretrain(to_table(train), context)
    assert losses[-1] < 0.2

    cuts = np.quantile((train[:, :4] ** 2).sum(axis=1), [1 / 3, 2 / 3])

    def label(rows: NDArray[Any]) -> NDArray[Any]:
        thirds: NDArray[Any] = np.digitize((rows[:, :4] ** 2).sum(axis=1), cuts)
        return thirds

    def probe(train_rows: NDArray[Any], test_rows: NDArray[Any]) -> float:
        scaler = StandardScaler().fit(train_rows)
        model = LogisticRegression(max_iter=500).fit(scaler.transform(train_rows), label(train))
        return float(model.score(scaler.transform(test_rows), label(held_out)))

    raw = probe(train, held_out)
    learnt = probe(method.encode(to_table(train)).array, method.encode(to_table(held_out)).array)
    assert learnt > raw + 0.05


def test_a_table_in_which_nothing_varies_trains_to_nothing() -> None:
    method = BinRecon(epochs=1)
    method.pretrain(to_table(np.ones((80, 3))), Context())
    assert method.diagnostics["loss"][-1] == 0
