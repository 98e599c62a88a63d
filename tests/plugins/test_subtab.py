import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from optimisers import note_steps
from tabbench_subtab.method import Heads, SubTab, aggregate, make_subsets, nt_xent, pair_distance

from tabbench import Context, Schema, Table
from tabbench.nn import seeded

Z = torch.tensor([[[1, 0], [0.6, 0.8]], [[0, 1], [-0.8, 0.6]]])
"""Two rows of two subsets, the specification's example."""


def to_table(values: NDArray[Any]) -> Table:
    schema = Schema(tuple(f"x{j}" for j in range(values.shape[1])))
    return Table(values.astype(np.float32), np.empty((len(values), 0), dtype=np.int64), schema)


def four_factors(n_rows: int, seed: int = 0) -> Table:
    """16 columns that are noisy mixtures of 4 factors."""
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(99).normal(size=(4, 16))
    return to_table(rng.normal(size=(n_rows, 4)) @ mixing + 0.1 * rng.normal(size=(n_rows, 16)))


def missed(subsets: torch.Tensor, n_columns: int) -> list[int]:
    return sorted(set(range(n_columns)) - set(subsets.flatten().tolist()))


def test_subsets_are_those_of_the_paper_where_columns_divide_evenly() -> None:
    assert make_subsets(8, 4, 0.75).tolist() == [[0, 1, 2], [1, 2, 3], [3, 4, 5], [5, 6, 7]]
    mnist = make_subsets(784, 4, 0.75)
    assert mnist.shape == (4, 343)
    assert missed(mnist, 784) == []


def test_official_tail_misses_columns_that_ours_covers() -> None:
    official = make_subsets(27, 4, 0.75, official_tail=True)
    assert official.shape == (4, 10)
    assert missed(official, 27) == [24, 25, 26]
    ours = make_subsets(27, 4, 0.75)
    assert ours.shape == (4, 10)
    assert missed(ours, 27) == []


@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.75, 1.0])
@pytest.mark.parametrize("n_subsets", [1, 2, 3, 4, 5, 6, 7])
def test_every_column_is_in_a_subset_and_two_columns_at_least_in_each(n_subsets: int, overlap: float) -> None:
    for n_columns in range(1, 120):
        subsets = make_subsets(n_columns, n_subsets, overlap)
        assert missed(subsets, n_columns) == [], n_columns
        assert subsets.min() == 0
        assert subsets.max() == n_columns - 1
        assert len(subsets) <= n_subsets
        assert subsets.shape[1] >= min(2, n_columns)
        assert (subsets.diff(dim=1) == 1).all()


@pytest.mark.parametrize(("tau", "expected"), [(1.0, 0.802079), (0.1, 1.064850)])
def test_contrastive_term_equals_the_hand_worked_value(tau: float, expected: float) -> None:
    assert nt_xent(Z, tau).item() == pytest.approx(expected, abs=1e-6)


def test_contrastive_term_of_perfect_pairs() -> None:
    perfect = torch.tensor([[[1.0, 0], [1, 0]], [[0, 1], [0, 1]]])
    assert nt_xent(perfect, 1.0).item() == pytest.approx(0.551445, abs=1e-6)


def test_distance_term_equals_the_hand_worked_value() -> None:
    assert pair_distance(Z).item() == pytest.approx(0.8, abs=1e-6)


def test_gradient_of_the_contrastive_term_is_right_for_any_number_of_rows() -> None:
    for n_rows in (1, 4):
        projection = torch.randn(n_rows, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        assert torch.autograd.gradcheck(lambda z: nt_xent(z, 0.5), projection.requires_grad_())


def test_terms_over_all_pairs_equal_a_loop_over_pairs() -> None:
    projection = F.normalize(torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(0)), dim=2)
    contrastive, distance = [], []
    for i, j in combinations(range(4), 2):
        both = torch.cat([projection[:, i], projection[:, j]])
        logits = (both @ both.T / 0.2).fill_diagonal_(-math.inf)
        positives = torch.cat([torch.arange(5, 10), torch.arange(5)])
        contrastive.append(F.cross_entropy(logits, positives))
        distance.append((projection[:, i] - projection[:, j]).square().sum() / 5)
    assert torch.isfinite(nt_xent(projection, 0.03))
    assert nt_xent(projection, 0.2).item() == pytest.approx(torch.stack(contrastive).mean().item(), rel=1e-5)
    assert pair_distance(projection).item() == pytest.approx(torch.stack(distance).mean().item(), rel=1e-5)


def test_reconstruction_is_a_sum_over_columns_of_the_clean_whole_row() -> None:
    method = SubTab(contrastive=False, distance=False)
    table = four_factors(6)
    method.initialise(table, Context())
    clean = method.inputs.matrix(table)

    def heads(noisy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return noisy, torch.zeros(6, 4, 16)

    terms = method._loss(heads, clean, clean[:, method.network.subsets] + 5)  # type: ignore[arg-type]
    assert terms["loss"].item() == pytest.approx(clean.square().sum().item() / 6, rel=1e-5)


def test_untrained_contrastive_term_is_that_of_chance() -> None:
    method = SubTab(width=64, latent=64)
    table = four_factors(128)
    method.initialise(table, Context())
    with seeded(0):
        heads = Heads(method.network, 16, method.config)
    clean = method.inputs.matrix(table)
    with torch.no_grad():
        terms = method._loss(heads, clean, clean[:, method.network.subsets])
    assert terms["contrastive"].item() == pytest.approx(math.log(255), abs=0.1)


def test_training_rebuilds_better_than_column_means_and_makes_subsets_agree() -> None:
    method = SubTab(width=64, latent=64, batch_size=128, epochs=10, lr=3e-3)
    table = four_factors(4000)
    method.pretrain(table, Context())
    variance = method.inputs.matrix(table).var(dim=0).sum().item()
    assert method.diagnostics["reconstruction"][-1] < 0.8 * variance
    assert method.diagnostics["contrastive"][-1] < math.log(255) - 0.1


@pytest.mark.parametrize("noise", ["swap", "gaussian", "zero"])
def test_noise_hits_each_subset_on_its_own_and_only_chosen_entries(noise: str) -> None:
    method = SubTab(noise=noise, p_m=0.3)
    table = four_factors(400)
    method.initialise(table, Context())
    subsets = method.inputs.matrix(table)[:, method.network.subsets]
    generator = torch.Generator().manual_seed(0)
    swapped = subsets.flatten(1).flip(0) if noise == "swap" else None
    noisy = method._add_noise(subsets, swapped, generator)
    changed = noisy != subsets
    assert changed.float().mean().item() == pytest.approx(0.3, abs=0.02)
    # Column 3 is in the first two subsets: its noise differs between these.
    shared = [
        (0, int((method.network.subsets[0] == 3).nonzero())),
        (1, int((method.network.subsets[1] == 3).nonzero())),
    ]
    assert not torch.equal(changed[:, *shared[0]], changed[:, *shared[1]])


def test_encoding_ignores_noise_settings() -> None:
    table = four_factors(100)
    arrays = []
    for settings in ({"p_m": 0.1}, {"p_m": 0.9, "noise": "zero"}):
        method = SubTab(**settings)
        method.initialise(table, Context())
        arrays.append(method.encode(table).array)
    assert np.array_equal(arrays[0], arrays[1])


def test_mean_does_not_depend_on_the_order_of_subsets() -> None:
    table = four_factors(20)
    arrays = {}
    for how in ("mean", "concat"):
        method = SubTab(aggregation=how, width=8, latent=8)
        method.initialise(table, Context())
        before = method.encode(table).array
        method.network.subsets = method.network.subsets[[2, 0, 3, 1]]
        arrays[how] = before, method.encode(table).array
    assert np.allclose(*arrays["mean"], atol=1e-6)
    assert not np.allclose(*arrays["concat"], atol=1e-3)


@pytest.mark.parametrize(("how", "expected"), [("mean", [2.0]), ("sum", [4.0]), ("max", [3.0]), ("min", [1.0])])
def test_aggregates_are_taken_over_subsets(how: str, expected: list[float]) -> None:
    assert aggregate(torch.tensor([[[1.0], [3.0]]]), how).tolist() == [expected]


def test_concat_keeps_all_latent_vectors() -> None:
    method = SubTab(aggregation="concat", latent=32)
    method.initialise(four_factors(20), Context())
    assert method.encode(four_factors(20)).array.shape == (20, 4 * 32)


def test_latent_vector_of_a_subset_sees_its_own_columns_only() -> None:
    method = SubTab(n_subsets=4, overlap=0.25)
    method.initialise(four_factors(20), Context())
    inputs = method.inputs.matrix(four_factors(20))
    changed = inputs.clone()
    changed[:, 0] += 1.0
    with torch.no_grad():
        before, after = (method.network(x[:, method.network.subsets]) for x in (inputs, changed))
    assert not torch.equal(before[:, 0], after[:, 0])
    assert torch.equal(before[:, 1:], after[:, 1:])


def test_subset_reconstruction_has_the_width_of_a_subset() -> None:
    method = SubTab(reconstruct_subset=True, width=32, latent=16, epochs=1)
    method.pretrain(four_factors(300), Context())
    assert Heads(method.network, 16, method.config).decoder.out_features == method.network.subsets.shape[1]


def test_shallow_encoder_is_one_layer_with_activation() -> None:
    for depth in (1, 3):  # a tuner may set it; it plays no part
        method = SubTab(shallow=True, depth=depth, latent=16)
        method.initialise(four_factors(20), Context())
        assert [type(layer).__name__ for layer in method.network.layers] == ["Linear", "LeakyReLU"]
        assert [type(layer).__name__ for layer in Heads(method.network, 16, method.config).decoder] == ["Linear"]


@pytest.mark.parametrize(("n_columns", "n_subsets", "n_missed"), [(108, 5, 3), (54, 4, 2), (128, 6, 2)])
def test_official_tail_misses_the_columns_that_the_specification_counts(
    n_columns: int, n_subsets: int, n_missed: int
) -> None:
    tail = missed(make_subsets(n_columns, n_subsets, 0.75, official_tail=True), n_columns)
    assert tail == list(range(n_columns - n_missed, n_columns))


def test_official_tail_reaches_the_encoder() -> None:
    table = to_table(np.random.default_rng(0).normal(size=(64, 27)))
    changed = Table(table.numeric.copy(), table.categorical, table.schema)
    changed.numeric[:, 24:] += 1.0
    for official in (True, False):
        method = SubTab(official_tail=official, width=8, latent=8, epochs=1, batch_size=32)
        method.pretrain(table, Context())
        before, after = (method.encode(rows).array for rows in (table, changed))
        assert np.array_equal(before, after) == official


def test_projections_are_normalised_only_if_wanted() -> None:
    for wanted in (True, False):
        method = SubTab(normalize=wanted, width=8, latent=8)
        method.initialise(four_factors(20), Context())
        with seeded(0), torch.no_grad():
            projection, _ = Heads(method.network, 16, method.config)(
                method.inputs.matrix(four_factors(20))[:, method.network.subsets]
            )
        assert torch.allclose(projection.norm(dim=2), torch.ones(20, 4), atol=1e-5) == wanted


def test_distance_of_long_projections_counts_unless_they_are_normalised() -> None:
    distances = []
    for wanted in (True, False):
        method = SubTab(normalize=wanted, contrastive=False, width=64, latent=64, epochs=1, batch_size=64)
        method.pretrain(four_factors(64), Context())
        distances.append(method.diagnostics["distance"][0])
    assert distances[0] != pytest.approx(distances[1], rel=0.1)


def test_swapped_values_of_training_come_from_the_same_column_of_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    loss = SubTab._loss

    def noted(self: SubTab, heads: Heads, clean: torch.Tensor, noisy: torch.Tensor) -> Any:
        seen.append((clean[:, self.network.subsets], noisy))
        return loss(self, heads, clean, noisy)

    monkeypatch.setattr(SubTab, "_loss", noted)
    SubTab(p_m=1.0, width=8, latent=8, epochs=1, batch_size=32).pretrain(four_factors(64), Context())
    assert len(seen) == 2
    for clean, noisy in seen:
        assert torch.equal(noisy.sort(dim=0).values, clean.sort(dim=0).values)
        moved = (noisy != clean).float().mean(dim=0)
        assert (moved > 0.8).all()


def test_incomplete_last_batch_is_left_out_unless_it_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    loss = SubTab._loss

    def noted(self: SubTab, heads: Heads, clean: torch.Tensor, noisy: torch.Tensor) -> Any:
        sizes.append(len(clean))
        return loss(self, heads, clean, noisy)

    monkeypatch.setattr(SubTab, "_loss", noted)
    for n_rows in (100, 20):
        SubTab(width=8, latent=8, epochs=1, batch_size=32).pretrain(four_factors(n_rows), Context())
    assert sizes == [32, 32, 32, 20]


def test_diagnostics_tell_subsets_and_the_order_of_columns() -> None:
    schema = Schema(("a", "b"), ("c",), (("x", "y"),))
    rng = np.random.default_rng(0)
    table = Table(rng.normal(size=(40, 2)).astype(np.float32), rng.integers(2, 4, size=(40, 1)), schema)
    method = SubTab(n_subsets=2, overlap=0.0, width=8, latent=8, epochs=1)
    method.pretrain(table, Context())
    assert method.diagnostics["subsets"] == [[0, 2], [2, 4]]
    assert method.diagnostics["columns"] == ["a", "b", "c=x", "c=y"]


def test_an_overlap_is_not_a_column_short_for_rounding() -> None:
    assert make_subsets(180, 2, 0.7).shape == (2, 90 + 63)


def test_optimiser_is_that_of_the_official_code(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = note_steps(monkeypatch, torch.optim.AdamW)
    SubTab(epochs=1, batch_size=50, width=16, latent=16).pretrain(four_factors(100), Context())
    assert {name: seen[0][name] for name in ("betas", "eps")} == {"betas": (0.9, 0.999), "eps": 1e-7}


def test_temperature_divides_similarities() -> None:
    assert nt_xent(Z, 0.1).item() != pytest.approx(nt_xent(Z, 1.0).item())


def test_learning_rate_decays_by_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = note_steps(monkeypatch, torch.optim.AdamW)
    SubTab(lr=1e-3, lr_decay=0.5, epochs=3, batch_size=50, width=16, latent=16).pretrain(four_factors(100), Context())
    assert [group["lr"] for group in seen] == pytest.approx([1e-3, 1e-3, 5e-4, 5e-4, 2.5e-4, 2.5e-4])
