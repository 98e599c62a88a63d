from collections.abc import Callable

import pytest
import torch

from tabbench.nn import (
    OriginalColumns,
    count_corrupted,
    draw_from_columns,
    permute_columns,
    permute_columns_in_batch,
    redraw,
    replace_at_random,
)
from tabbench.nn.corruption import bernoulli_mask, exact_mask

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


@pytest.mark.parametrize(
    ("n_columns", "share", "expected"),
    [(8, 0.3, 2), (10, 0.3, 3), (54, 0.3, 16), (2, 0.3, 1), (1, 0.3, 1), (100, 0.29, 29), (8, 0.0, 0)],
)
def test_share_of_columns_is_rounded_down_but_not_to_none(n_columns: int, share: float, expected: int) -> None:
    assert count_corrupted(n_columns, share) == expected


def test_each_entry_is_replaced_with_its_probability() -> None:
    rows = torch.zeros(4000, 5)
    replaced = replace_at_random(rows, rows + 1, 0.3, generator())
    assert replaced.mean(dim=0).numpy() == pytest.approx([0.3] * 5, abs=0.03)
    assert torch.equal(replace_at_random(rows, rows + 1, 0.0, generator()), rows)


class TestOriginalColumns:
    """Three original columns; the second has a copy, as a number has an indicator."""

    originals = OriginalColumns(torch.tensor([0, 1, 1, 2]), 3)

    def rows(self, n_rows: int = 500) -> torch.Tensor:
        values = torch.rand(n_rows, 4, generator=generator())
        values[:, 2] = values[:, 1] > 0.7
        return values

    def agree(self, values: torch.Tensor) -> bool:
        """Whether the copy still says of its column what it said before."""
        return torch.equal(values[:, 2], (values[:, 1] > 0.7).float())

    @pytest.mark.parametrize("permute", [permute_columns, permute_columns_in_batch])
    def test_columns_of_one_original_are_permuted_together(self, permute: Permute) -> None:
        rows = self.rows()
        permuted = permute(rows, generator(1), self.originals)  # type: ignore[call-arg]
        assert self.agree(permuted)
        assert not torch.equal(permuted[:, 1], rows[:, 1])

    def test_columns_of_one_original_are_drawn_and_replaced_together(self) -> None:
        rows = self.rows()
        drawn = draw_from_columns(rows, 500, generator(1), self.originals)
        assert self.agree(drawn)
        assert self.agree(replace_at_random(rows, drawn, 0.5, generator(2), self.originals))
        assert self.agree(redraw(rows, rows, 1, generator(3), self.originals))

    def test_a_count_is_one_of_original_columns(self) -> None:
        changed = redraw(self.rows() + 2, self.rows(), 2, generator(3), self.originals) < 2
        assert (self.originals.gather(changed).sum(dim=1) == 2).all()
        assert set(changed.sum(dim=1).tolist()) == {2, 3}

    def test_what_is_true_of_a_part_is_true_of_the_original(self) -> None:
        entries = torch.tensor([[True, False, True, False], [False, True, True, False], [False] * 4])
        assert self.originals.gather(entries).tolist() == [[True, True, False], [False, True, False], [False] * 3]

    def test_draws_are_those_of_a_matrix_without_parts(self) -> None:
        # Tables without missing numbers get the same random numbers whether they are told of their columns or not.
        rows = self.rows()
        each = OriginalColumns.each(4)
        for draw in (permute_columns, permute_columns_in_batch):
            assert torch.equal(draw(rows, generator(1)), draw(rows, generator(1), each))
        assert torch.equal(redraw(rows, rows, 2, generator(1)), redraw(rows, rows, 2, generator(1), each))
