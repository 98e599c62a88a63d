from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from harness import Bench, InProcess
from numpy.typing import NDArray
from optimisers import note_steps
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from tabbench_switchtab.method import (
    SwitchTab,
    SwitchTabSupervised,
    SwitchTask,
    pair_rows,
    switch_loss,
)

from tabbench import Context, Labelled, Schema, Table, Task, UsageError
from tabbench.nn import OriginalColumns, redraw, seeded
from tabbench.results.tabulate import tabulate
from tabbench.testing import make_table


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def to_table(values: NDArray[Any]) -> Table:
    schema = Schema(tuple(f"x{j}" for j in range(values.shape[1])))
    return Table(values.astype(np.float32), np.empty((len(values), 0), dtype=np.int64), schema)


def four_factors(n_rows: int, seed: int) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(99).normal(size=(4, 16))
    return rng.normal(size=(n_rows, 4)) @ mixing + 0.1 * rng.normal(size=(n_rows, 16))


def task_of(method: SwitchTab) -> SwitchTask:
    with seeded(0):
        return SwitchTask(method.network, method.inputs, method.config)


class TestLoss:
    x1, x2 = torch.zeros(1, 2), torch.ones(1, 2)

    def test_decoder_of_the_salient_part_alone_has_no_loss_whatever_is_mutual(self) -> None:
        mutual = torch.randn(2, 1, 2)
        terms = switch_loss(lambda m, s: s, (mutual[0], self.x1, self.x1), (mutual[1], self.x2, self.x2))
        assert terms["loss"] == 0

    def test_decoder_of_the_mutual_part_alone_pays_for_switching(self) -> None:
        terms = switch_loss(lambda m, s: m, (self.x1, self.x1, self.x1), (self.x2, self.x2, self.x2))
        assert terms["recovered"] == 0
        assert terms["switched"] == 2.0
        assert terms["loss"] == 2.0

    def test_roles_of_the_two_rows_can_be_exchanged(self) -> None:
        decoder = torch.nn.Linear(6, 4)

        def decode(mutual: torch.Tensor, salient: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = decoder(torch.cat([mutual, salient], dim=1))
            return out

        first, second = ((torch.randn(5, 3), torch.randn(5, 3), torch.randn(5, 4)) for _ in range(2))
        assert switch_loss(decode, first, second)["loss"].item() == pytest.approx(
            switch_loss(decode, second, first)["loss"].item(), rel=1e-5
        )

    def test_sum_of_four_means_stands_against_the_right_targets(self) -> None:
        decoder = torch.nn.Linear(6, 4)

        def decode(mutual: torch.Tensor, salient: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = decoder(torch.cat([mutual, salient], dim=1))
            return out

        (m1, s1, x1), (m2, s2, x2) = ((torch.randn(5, 3), torch.randn(5, 3), torch.randn(5, 4)) for _ in range(2))
        rebuilt = torch.nn.functional.mse_loss
        expected = rebuilt(decode(m1, s1), x1) + rebuilt(decode(m2, s2), x2)
        expected = expected + rebuilt(decode(m2, s1), x1) + rebuilt(decode(m1, s2), x2)
        terms = switch_loss(decode, (m1, s1, x1), (m2, s2, x2))
        assert terms["loss"].item() == pytest.approx(expected.item(), rel=1e-5)


def test_redrawn_values_are_members_of_the_training_column() -> None:
    train = torch.arange(80.0).reshape(10, 8)
    rows = torch.full((200, 8), -1.0)
    corrupted = redraw(rows, train, 2, generator())
    changed = corrupted != rows
    assert (changed.sum(dim=1) == 2).all()
    for j in range(8):
        assert set(corrupted[changed[:, j], j].tolist()) <= set(train[:, j].tolist())


Redrawn = list[tuple[torch.Tensor, torch.Tensor, int]]


@pytest.fixture
def redrawn(monkeypatch: pytest.MonkeyPatch) -> Redrawn:
    """Rows before and after each corruption, and how many columns were to be drawn."""
    seen: Redrawn = []

    def noted(
        rows: torch.Tensor, train: torch.Tensor, count: int, source: torch.Generator, columns: OriginalColumns
    ) -> torch.Tensor:
        seen.append((rows, redraw(rows, train, count, source, columns), count))
        return seen[-1][1]

    monkeypatch.setattr("tabbench_switchtab.method.redraw", noted)
    return seen


def test_a_number_and_its_indicator_are_replaced_together(redrawn: Redrawn) -> None:
    table, validation = (make_table(300, numeric=3, categorical=1, missing=0.3, seed=seed) for seed in (0, 1))
    method = SwitchTab(encoder="mlp", width=8, epochs=1, corruption=0.5, scaling="standard")
    method.pretrain(table, Context(validation=validation))
    assert len(redrawn) == 3 + 2  # the batches of training, and once both rows of each validation pair
    for clean, corrupted, _ in redrawn:
        assert (corrupted != clean).any()
        assert torch.equal(corrupted[:, :3] == 0, corrupted[:, 3:6] == 1)  # the mean, from whichever row it came


def test_share_counts_original_columns_where_values_are_missing(redrawn: Redrawn) -> None:
    table = make_table(300, numeric=8, categorical=2, missing=0.3)
    SwitchTab(encoder="mlp", width=8, epochs=1).pretrain(table, Context())
    assert {count for _, _, count in redrawn} == {3}  # of 10 columns, not of 18 in the matrix
    for clean, corrupted, _ in redrawn:
        changed = (corrupted != clean)[:, [*range(8), 16, 17]]
        assert changed.sum(dim=1).max() == 3


@pytest.mark.parametrize("n_rows", [2, 3, 500])
def test_no_row_is_paired_with_itself_and_every_row_is_a_partner_once(n_rows: int) -> None:
    partners = pair_rows(n_rows, generator())
    assert (partners != torch.arange(n_rows)).all()
    assert sorted(partners.tolist()) == list(range(n_rows))


def test_pairs_are_drawn_anew_every_epoch_and_differ_between_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def noted(n_rows: int, source: torch.Generator) -> torch.Tensor:
        seen.append(pair_rows(n_rows, source))
        return seen[-1]

    monkeypatch.setattr("tabbench_switchtab.method.pair_rows", noted)
    SwitchTab(encoder="mlp", width=8, epochs=3).pretrain(to_table(four_factors(100, 0)), Context())
    assert len(seen) == 3
    assert not torch.equal(seen[0], seen[1])


def test_targets_are_the_clean_rows_of_both_partners(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = SwitchTask.reconstruction

    def noted(self: SwitchTask, code: torch.Tensor, clean: torch.Tensor) -> Any:
        seen.append(clean)
        return original(self, code, clean)

    monkeypatch.setattr(SwitchTask, "reconstruction", noted)
    values = four_factors(64, 0)
    method = SwitchTab(encoder="mlp", width=8, epochs=1, corruption=1.0, batch_size=64)
    method.pretrain(to_table(values), Context())
    clean = method.inputs.matrix(to_table(values))
    (both,) = seen
    assert torch.equal(both[:64].sort(dim=0).values, clean.sort(dim=0).values)
    assert torch.equal(both[64:].sort(dim=0).values, clean.sort(dim=0).values)
    assert (both[:64] != both[64:]).any(dim=1).float().mean() > 0.99


@pytest.mark.parametrize(("encoder", "independent"), [("tokens", True), ("mlp", True), ("batch_seq", False)])
def test_codes_of_rows_do_not_depend_on_neighbours_except_in_batch_seq(encoder: str, independent: bool) -> None:
    table = to_table(four_factors(20, 0)[:, :7])
    method = SwitchTab(encoder=encoder, width=16, export="z")
    method.initialise(table, Context())
    together = method.encode(table).array[:1]
    alone = method.encode(table.take(slice(0, 1))).array
    assert np.allclose(together, alone, atol=1e-5) == independent


@pytest.mark.parametrize(
    ("scaling", "activation"),
    [("minmax", torch.nn.Sigmoid), ("standard", torch.nn.Identity), ("quantile", torch.nn.Identity)],
)
def test_decoder_fits_the_scale_of_the_inputs(scaling: str, activation: type) -> None:
    method = SwitchTab(scaling=scaling, encoder="mlp", width=8)
    method.initialise(to_table(four_factors(20, 0)), Context())
    assert isinstance(task_of(method).activation, activation)


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({"export": "s"}, (16, 8)),
        ({"export": "sz"}, (16, 16)),
        ({"export": "z", "pooling": "mean"}, (8,)),
        ({"export": "xs"}, (16 + 16 * 8,)),
        ({"export": "xs", "pooling": "mean"}, (16 + 8,)),
        ({"export": "s", "encoder": "mlp"}, (8,)),
    ],
)
def test_exports_have_their_shapes(settings: dict[str, Any], shape: tuple[int, ...]) -> None:
    table = to_table(four_factors(10, 0))
    method = SwitchTab(width=8, layers=1, **settings)
    method.initialise(table, Context())
    array = method.encode(table).array
    assert array.shape[1:] == shape
    if settings["export"] == "xs":
        assert np.allclose(array[:, :16], method.inputs.matrix(table).numpy())


@pytest.mark.parametrize(
    ("encoder", "given", "units"), [("tokens", None, 64), ("mlp", None, 256), ("tokens", 32, 32), ("mlp", 32, 32)]
)
def test_default_width_is_that_of_the_encoder(encoder: str, given: int | None, units: int) -> None:
    method = SwitchTab(encoder=encoder, width=given)
    method.initialise(to_table(four_factors(20, 0)), Context())
    assert method.encode(to_table(four_factors(5, 1))).array.shape[-1] == units
    if encoder == "mlp":
        layers = [layer.out_features for layer in method.network.modules() if isinstance(layer, torch.nn.Linear)]
        assert layers[:3] == [units] * 3


@pytest.mark.parametrize("trained", [True, False])
def test_batch_sequence_raises_a_flag(trained: bool) -> None:
    for encoder, flags in (("batch_seq", ["codes depend on neighbouring rows"]), ("mlp", [])):
        method = SwitchTab(encoder=encoder, epochs=2)
        (method.pretrain if trained else method.initialise)(to_table(four_factors(20, 0)), Context())
        assert method.diagnostics.get("flags", []) == flags


def test_batch_sequence_never_enters_a_table(bench: Bench) -> None:
    mode = {"switchtab": {"preset": "batch-sequence", "epochs": 2}}
    bench.run(executor=InProcess, ssl=["switchtab"], controls=["none", "untrained"], set=mode)
    table = tabulate(bench.store)
    assert [row.ssl for row in table.rows] == ["none"]
    assert [item["reason"] for item in table.left_out] == ["flagged: codes depend on neighbouring rows"] * 2


def test_width_that_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(UsageError, match="multiple of heads"):
        _ = SwitchTab(width=30, heads=4).config


def test_switched_rows_are_rebuilt_from_their_salient_part(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[SwitchTask] = []
    original = SwitchTask.__init__

    def noted(self: SwitchTask, *arguments: Any) -> None:
        original(self, *arguments)
        kept.append(self)

    monkeypatch.setattr(SwitchTask, "__init__", noted)
    train, held_out = four_factors(3000, 0), four_factors(1000, 1)
    method = SwitchTab(encoder="mlp", width=32, epochs=40, lr=1e-3)
    method.pretrain(to_table(train), Context())
    x = method.inputs.matrix(to_table(train))
    assert method.diagnostics["loss"][-1] < 0.5 * 4 * x.var(dim=0).mean().item()
    assert 0 < method.diagnostics["mutual_to_salient_variance"] < 1
    with torch.no_grad():
        mutual, salient = kept[0].parts(method.network(x[:1000]))
        switched = kept[0].decode(mutual.roll(1, dims=0), salient)
    own = (switched - x[:1000]).square().mean().item()
    other = (switched - x[:1000].roll(1, dims=0)).square().mean().item()
    assert own < 0.2 * other

    cuts = np.quantile((train[:, :4] ** 2).sum(axis=1), [1 / 3, 2 / 3])

    def probe(encode: Callable[[NDArray[Any]], NDArray[Any]]) -> float:
        labels = [np.digitize((rows[:, :4] ** 2).sum(axis=1), cuts) for rows in (train, held_out)]
        scaler = StandardScaler().fit(encode(train))
        model = LogisticRegression(max_iter=500).fit(scaler.transform(encode(train)), labels[0])
        return float(model.score(scaler.transform(encode(held_out)), labels[1]))

    assert probe(lambda rows: method.encode(to_table(rows)).array) > probe(lambda rows: rows)


def labelled(n_rows: int, seed: int, y: NDArray[Any] | None = None) -> Labelled:
    values = four_factors(n_rows, seed)
    return Labelled(to_table(values), (values[:, 0] > 0).astype(np.int64) if y is None else y)


SETTINGS: dict[str, Any] = {"encoder": "mlp", "width": 16, "epochs": 3, "patience": None}


def fit_supervised(train: Labelled, task: Task, **settings: Any) -> NDArray[np.float32]:
    method = SwitchTabSupervised(**SETTINGS, **settings)
    method.fit(train, labelled(50, 1), task, Context())
    assert isinstance(train.features, Table)
    return method.encode(train.features).array


def test_without_weight_labels_are_never_looked_at() -> None:
    task = Task("binary", 2)
    without = fit_supervised(labelled(200, 0, np.full(200, np.nan)), task, alpha=0.0)
    assert np.array_equal(without, fit_supervised(labelled(200, 0), task, alpha=0.0))
    free = SwitchTab(**SETTINGS)
    free.pretrain(to_table(four_factors(200, 0)), Context())
    assert np.array_equal(without, free.encode(to_table(four_factors(200, 0))).array)


@pytest.mark.parametrize(
    ("task", "y"),
    [
        (Task("binary", 2), np.arange(200) % 2),
        (Task("multiclass", 3), np.arange(200) % 3),
        (Task("regression"), np.linspace(-1, 1, 200)),
    ],
)
def test_with_weight_other_labels_give_another_representation(task: Task, y: NDArray[Any]) -> None:
    one = fit_supervised(labelled(200, 0, y), task)
    other = fit_supervised(labelled(200, 0, y[::-1].copy()), task)
    assert np.isfinite(one).all()
    assert not np.allclose(one, other)


@pytest.mark.parametrize(("pooling", "n_inputs"), [("flatten", 16 * 8), ("mean", 8)])
def test_labels_are_predicted_from_what_is_exported(
    monkeypatch: pytest.MonkeyPatch, pooling: str, n_inputs: int
) -> None:
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    predict = SwitchTask.predict

    def noted(self: SwitchTask, code: torch.Tensor) -> torch.Tensor:
        outputs = predict(self, code)
        seen.append((self.predictor(self.network.pool(code).flatten(1)), outputs))
        assert self.predictor.in_features == n_inputs
        return outputs

    monkeypatch.setattr(SwitchTask, "predict", noted)
    method = SwitchTabSupervised(width=8, layers=1, epochs=1, pooling=pooling, export="z")
    method.fit(labelled(50, 0), labelled(20, 1), Task("binary", 2), Context())
    assert seen
    assert all(torch.equal(expected, outputs) for expected, outputs in seen)


def test_labels_stay_with_their_rows() -> None:
    """A label that one column tells is learned; with the labels of partners, two guesses would cost 2 ln 2 = 1.39."""
    values = np.random.default_rng(0).random((400, 4)).astype(np.float32)
    part = Labelled(to_table(values), (values[:, 0] > 0.5).astype(np.int64))
    method = SwitchTabSupervised(encoder="mlp", width=32, epochs=40, lr=1e-3, corruption=0.0)
    method.fit(part, part, Task("binary", 2), Context())
    assert method.diagnostics["labels"][-1] < 0.5


def test_the_optimiser_is_rmsprop(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = note_steps(monkeypatch, torch.optim.RMSprop)
    SwitchTab(encoder="mlp", width=8, epochs=1).pretrain(to_table(four_factors(50, 0)), Context())
    assert (seen[0]["lr"], seen[0]["weight_decay"], seen[0]["momentum"]) == (3e-4, 0.0, 0)


def test_supervised_method_is_stored_and_loaded(tmp_path: Path) -> None:
    train = labelled(100, 0)
    method = SwitchTabSupervised(**SETTINGS)
    method.fit(train, labelled(50, 1), Task("binary", 2), Context())
    assert "labels" in method.diagnostics
    assert "validation_loss" in method.diagnostics
    method.save(tmp_path)
    again = SwitchTabSupervised.load(tmp_path)
    assert isinstance(train.features, Table)
    assert np.array_equal(again.encode(train.features).array, method.encode(train.features).array)
