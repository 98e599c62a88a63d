import math

import pytest
import torch
from scipy.stats import chi2
from tabbench_tjepa.masks import Masks, MaskSizes, draw_masks

from tabbench import DataError

SHARES = (0.1363, 0.3682), (0.1556, 0.6222)
ROWS = 200
K = 4


def draw(d: int, n_contexts: int = 1, seed: int = 0) -> Masks:
    generator = torch.Generator().manual_seed(seed)
    sizes = MaskSizes(d, *SHARES).draw(generator)
    return draw_masks(ROWS, d, sizes, n_contexts, K, "cpu", generator)


@pytest.mark.parametrize("n_contexts", [1, 3])
@pytest.mark.parametrize("d", [2, 3, 8, 14, 54, 784])
def test_no_target_shares_a_feature_with_any_context(d: int, n_contexts: int) -> None:
    for seed in range(5):
        masks = draw(d, n_contexts, seed)
        in_context = torch.zeros(d, ROWS, dtype=torch.bool)
        in_target = torch.zeros(d, ROWS, dtype=torch.bool)
        in_context.scatter_(0, masks.context.flatten(0, 1), True)
        in_target.scatter_(0, masks.target.flatten(0, 1), True)
        assert not (in_context & in_target).any()


@pytest.mark.parametrize(
    "d, context, target",
    [(2, (1, 1), (1, 1)), (8, (1, 3), (1, 5)), (54, (7, 20), (8, 34)), (784, (107, 289), (122, 488))],
)
def test_shares_are_rounded_to_the_nearest_number_of_features(
    d: int, context: tuple[int, int], target: tuple[int, int]
) -> None:
    sizes = MaskSizes(d, *SHARES)
    assert (sizes.context, sizes.target) == (context, target)


@pytest.mark.parametrize("d", [2, 3, 8, 14, 54, 784])
def test_sizes_are_within_their_bounds_and_fit_side_by_side(d: int) -> None:
    sizes = MaskSizes(d, *SHARES)
    generator = torch.Generator().manual_seed(0)
    for _ in range(300):
        n_ctx, n_tgt = sizes.draw(generator)
        assert 1 <= n_ctx <= max(round(d * SHARES[0][1]), 1)
        assert 1 <= n_tgt <= max(round(d * SHARES[1][1]), 1)
        assert n_ctx + n_tgt <= d
    masks = draw(d)
    for mask in (masks.context, masks.target):
        assert mask.shape[2] == ROWS
        assert mask.sort(0).values.diff(dim=0).ne(0).all(), "a feature occurs once in a mask"


def test_sizes_are_uniform_over_the_pairs_that_fit() -> None:
    sizes = MaskSizes(8, (0.125, 0.5), (0.25, 0.9))
    generator = torch.Generator().manual_seed(0)
    n = 8000
    counts: dict[tuple[int, int], int] = {}
    for _ in range(n):
        pair = sizes.draw(generator)
        counts[pair] = counts.get(pair, 0) + 1
    fitting = [(c, t) for c in range(1, 5) for t in range(2, 8) if c + t <= 8]
    assert set(counts) == set(fitting)
    expected = n / len(fitting)
    statistic = sum((count - expected) ** 2 / expected for count in counts.values())
    assert statistic < chi2.ppf(0.9999, len(fitting) - 1)


@pytest.mark.parametrize("shares", [((0.9, 0.95), (0.9, 0.95)), ((0.01, 0.02), (0.01, 0.02))])
@pytest.mark.parametrize("d", [2, 3, 8])
def test_shares_that_do_not_fit_a_small_table_are_made_to_fit(
    d: int, shares: tuple[tuple[float, float], tuple[float, float]]
) -> None:
    n_ctx, n_tgt = MaskSizes(d, *shares).draw(torch.Generator().manual_seed(0))
    assert n_ctx >= 1
    assert n_tgt >= 1
    assert n_ctx + n_tgt <= d


def test_one_feature_is_refused_with_a_sentence() -> None:
    with pytest.raises(DataError, match="too narrow"):
        MaskSizes(1, *SHARES)


@pytest.mark.parametrize("d", [2, 3, 8, 14, 54, 784])
def test_the_targets_of_a_row_are_drawn_one_by_one(d: int) -> None:
    """Two of them are the same as often as two independent subsets: always for d = 2, where they have no choice."""
    n_ctx, n_tgt = 1, max(d // 3, 1)
    masks = draw_masks(ROWS, d, (n_ctx, n_tgt), 1, K, "cpu", torch.Generator().manual_seed(0))
    chosen = masks.target.sort(0).values
    expected = 1 / math.comb(d - n_ctx, n_tgt)
    spread = 4 * math.sqrt(expected * (1 - expected) / ROWS) + 1e-9
    for i in range(K):
        for j in range(i):
            same = chosen[:, i].eq(chosen[:, j]).all(0).float().mean().item()
            assert same == pytest.approx(expected, abs=spread)


def test_overlapping_contexts_differ_too() -> None:
    masks = draw_masks(ROWS, 14, (3, 5), 2, K, "cpu", torch.Generator().manual_seed(0))
    first, second = masks.context.sort(0).values.unbind(1)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("n_contexts", [1, 3])
@pytest.mark.parametrize("d", [2, 3, 8, 14, 54, 784])
def test_every_feature_is_context_and_target_equally_often(d: int, n_contexts: int) -> None:
    n, sizes = 2000, (1, max(d // 3, 1))
    masks = draw_masks(n, d, sizes, n_contexts, K, "cpu", torch.Generator().manual_seed(0))
    held = min(n_contexts * sizes[0], d - sizes[1])
    for mask, pool, size in ((masks.context, held, sizes[0]), (masks.target, d - held, sizes[1])):
        times, share = mask.shape[1], size / pool
        # A feature is in a row's pool or not; if it is, it is drawn a binomial number of times.
        mean = times * size / d
        variance = pool / d * (times * share * (1 - share) + (times * share) ** 2) - mean**2
        counts = torch.bincount(mask.flatten(), minlength=d).double()
        # The counts of a row sum up to a constant, which takes one degree of freedom.
        statistic = float(((counts - n * mean) ** 2).sum()) / (n * variance) * (d - 1) / d
        assert chi2.ppf(0.0001, d - 1) < statistic < chi2.ppf(0.9999, d - 1)


def test_a_seed_gives_one_sequence_of_masks() -> None:
    first, second, other = draw(8, seed=3), draw(8, seed=3), draw(8, seed=4)
    assert torch.equal(first.context, second.context)
    assert torch.equal(first.target, second.target)
    assert first.context.shape != other.context.shape or not torch.equal(first.context, other.context)


def test_rows_of_masks_are_a_part_of_them() -> None:
    masks = draw(8)
    part = masks.rows(slice(10, 30))
    assert torch.equal(part.context, masks.context[..., 10:30])
    assert torch.equal(part.target, masks.target[..., 10:30])
