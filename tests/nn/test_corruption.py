from collections.abc import Callable

import pytest
import torch

from tabbench.nn import bernoulli_mask, draw_from_columns, exact_mask, permute_columns, permute_columns_in_batch

Permute = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("permute", [permute_columns, permute_columns_in_batch])
class TestPermutations:
    def test_every_column_keeps_its_values(self, permute: Permute) -> None:
        values = torch.randn(200, 7, generator=generator())
        permuted = permute(values, generator(1))
        assert torch.equal(permuted.sort(dim=0).values, values.sort(dim=0).values)
        assert not torch.equal(permuted, values)

    def test_columns_are_permuted_independently_of_each_other(self, permute: Permute) -> None:
        column = torch.randn(5000, 1, generator=generator())
        permuted = permute(column.expand(-1, 2).contiguous(), generator(1))
        assert abs(torch.corrcoef(permuted.T)[0, 1].item()) < 0.05

    def test_same_seed_gives_the_same_permutation(self, permute: Permute) -> None:
        values = torch.randn(50, 3, generator=generator())
        assert torch.equal(permute(values, generator(1)), permute(values, generator(1)))

    def test_input_is_left_as_it_is(self, permute: Permute) -> None:
        values = torch.randn(50, 3, generator=generator())
        before = values.clone()
        permute(values, generator(1))
        assert torch.equal(values, before)


def test_bernoulli_mask_has_its_rate_and_varies_between_rows() -> None:
    mask = bernoulli_mask(4000, 10, 0.3, generator())
    assert mask.float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert len(set(mask.sum(dim=1).tolist())) > 1


@pytest.mark.parametrize("count", [0, 1, 2, 8])
def test_exact_mask_chooses_that_many_columns_of_every_row(count: int) -> None:
    mask = exact_mask(500, 8, count, generator())
    assert (mask.sum(dim=1) == count).all()
    assert mask.float().mean(dim=0).numpy() == pytest.approx([count / 8] * 8, abs=0.08)


def test_draws_are_members_of_their_own_column() -> None:
    values = torch.arange(20.0).reshape(10, 2)  # evens in the first column, odds in the second
    drawn = draw_from_columns(values, 300, generator())
    assert drawn.shape == (300, 2)
    assert (drawn[:, 0] % 2 == 0).all()
    assert (drawn[:, 1] % 2 == 1).all()
    assert set(drawn[:, 0].tolist()) == set(values[:, 0].tolist())
