import pytest
import torch
from torch import nn

from tabbench.nn import EMA, ema_copy


def test_a_copy_starts_equal_and_learns_nothing() -> None:
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    twin = ema_copy(module)
    for (name, a), b in zip(twin.state_dict().items(), module.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
        assert a.data_ptr() != b.data_ptr()
    assert not any(parameter.requires_grad for parameter in twin.parameters())
    assert not twin.training
    assert module.training


def test_after_n_updates_with_constant_momentum_it_is_the_closed_form() -> None:
    source, average = nn.Linear(3, 2), nn.Linear(3, 2)
    start = average.weight.detach().clone()
    ema = EMA(average, source)
    for _ in range(7):
        ema.update(0.9)
    share = 0.9**7
    torch.testing.assert_close(average.weight, share * start + (1 - share) * source.weight)


def test_momentum_one_changes_nothing_and_momentum_zero_copies() -> None:
    source, average = nn.Linear(3, 2), nn.Linear(3, 2)
    start = average.weight.detach().clone()
    EMA(average, source).update(1.0)
    assert torch.equal(average.weight, start)
    EMA(average, source).update(0.0)
    assert torch.equal(average.weight, source.weight)


def test_buffers_follow_and_counters_are_copied() -> None:
    source = nn.BatchNorm1d(2)
    average = ema_copy(source)
    source(torch.randn(8, 2))
    EMA(average, source).update(0.5)
    ours, theirs = average.state_dict(), source.state_dict()
    assert theirs["running_mean"].any()
    torch.testing.assert_close(ours["running_mean"], theirs["running_mean"] / 2)
    assert ours["num_batches_tracked"] == theirs["num_batches_tracked"] == 1


def test_networks_of_different_structure_are_refused() -> None:
    with pytest.raises(ValueError, match="same structure"):
        EMA(nn.Linear(3, 2), nn.Linear(2, 3))
