import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from tabbench.nn import (
    embedding_variance,
    feature_embedding_variance,
    is_collapsed,
    mean_pairwise_distance,
    mean_pairwise_kl,
    rank_me,
    uniformity,
)
from tabbench.nn import representation_metrics as module
from tabbench.nn.representation_metrics import collapse_ratio

PairMean = Callable[..., float]


def random_embeddings(n: int = 40) -> torch.Tensor:
    return torch.randn(n, 3, 4, generator=torch.Generator().manual_seed(0))


def by_hand(rows: torch.Tensor, value: Callable[[np.ndarray, np.ndarray], float]) -> float:
    flat = rows.flatten(1).double().numpy()
    return float(np.mean([value(a, b) for i, a in enumerate(flat) for j, b in enumerate(flat) if i != j]))


def kl(a: np.ndarray, b: np.ndarray) -> float:
    p, q = np.exp(a) / np.exp(a).sum(), np.exp(b) / np.exp(b).sum()
    return float((p * np.log(p / q)).sum())


def potential(a: np.ndarray, b: np.ndarray) -> float:
    u, v = a / np.linalg.norm(a), b / np.linalg.norm(b)
    return float(np.exp(-2 * ((u - v) ** 2).sum()))


def test_metrics_over_all_pairs_agree_with_their_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 7)
    rows = random_embeddings()
    assert mean_pairwise_distance(rows) == pytest.approx(by_hand(rows, lambda a, b: float(np.linalg.norm(a - b))))
    assert mean_pairwise_kl(rows) == pytest.approx(by_hand(rows, kl))
    assert uniformity(rows) == pytest.approx(-math.log(by_hand(rows, potential)))


@pytest.mark.parametrize("metric", [mean_pairwise_distance, mean_pairwise_kl, uniformity])
def test_sampled_pairs_come_close_to_all_pairs(metric: PairMean) -> None:
    rows = random_embeddings()
    sampled = metric(rows, pairs=20_000, generator=torch.Generator().manual_seed(1))
    assert sampled == pytest.approx(metric(rows), rel=0.03)
    assert sampled != metric(rows)


def test_equal_rows_have_no_uniformity_and_opposite_ones_have_some() -> None:
    assert uniformity(torch.ones(5, 3)) == pytest.approx(0, abs=1e-12)
    assert uniformity(torch.tensor([[1.0], [-1.0]])) == pytest.approx(8)


def test_feature_variance_is_the_papers_score() -> None:
    tokens = random_embeddings()
    expected = []
    for i in range(3):
        scores = [float(np.var(row[i] - row.mean(axis=0))) for row in tokens.double().numpy()]
        expected.append(np.mean(scores))
    np.testing.assert_allclose(feature_embedding_variance(tokens).numpy(), expected)
    with pytest.raises(ValueError, match="shape"):
        feature_embedding_variance(tokens[0])


def test_variance_is_over_rows() -> None:
    assert embedding_variance(torch.tensor([[0.0, 5.0], [2.0, 5.0]])) == pytest.approx(0.5)


def test_collapse_is_small_spread_beside_the_size_of_the_rows() -> None:
    noise = random_embeddings(100)
    centre = torch.full((3, 4), 10.0)
    assert collapse_ratio(noise * 0) == 0
    assert collapse_ratio(centre + noise) == pytest.approx(0.1, rel=0.05)
    assert is_collapsed(centre + 0.01 * noise)
    assert not is_collapsed(centre + noise)
    assert not is_collapsed(noise[:1]), "one row alone cannot tell"


def test_pairs_need_two_rows() -> None:
    with pytest.raises(ValueError, match="two rows"):
        uniformity(torch.ones(1, 3))


def test_effective_rank_counts_directions_that_are_used_alike() -> None:
    assert rank_me(torch.eye(4)) == pytest.approx(4.0)
    assert rank_me(torch.ones(5, 3)) == pytest.approx(1.0, abs=1e-4), "all rows are multiples of one"
    shares = np.array([3.0, 1.0]) / 4
    assert rank_me(torch.diag(torch.tensor([3.0, 1.0]))) == pytest.approx(np.exp(-(shares * np.log(shares)).sum()))


def test_effective_rank_is_the_same_from_either_side() -> None:
    tall = torch.from_numpy(np.random.default_rng(0).normal(size=(50, 7)))
    values = np.linalg.svd(tall.numpy(), compute_uv=False)
    shares = values / values.sum()
    expected = float(np.exp(-(shares * np.log(shares)).sum()))
    assert rank_me(tall) == pytest.approx(expected, rel=1e-5)
    assert rank_me(tall.T) == pytest.approx(expected, rel=1e-5)
    assert rank_me(tall.reshape(50, 7, 1)) == pytest.approx(expected, rel=1e-5), "tokens are flattened"
