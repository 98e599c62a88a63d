import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses

from tabbench.nn import Dropout, attention
from tabbench.nn.dropout import dropout


@pytest.mark.parametrize(("dtype", "digits"), [(torch.float32, 1e-6), (torch.bfloat16, 2**-8)])
@pytest.mark.parametrize("p", [0.03, 0.5, 0.9])
def test_the_wanted_share_of_entries_is_dropped_and_the_mean_is_kept(
    p: float, dtype: torch.dtype, digits: float
) -> None:
    torch.manual_seed(0)
    dropped = dropout(torch.ones(1001, 999, dtype=dtype), p)
    assert dropped.dtype == dtype
    assert (dropped == 0).double().mean() == pytest.approx(p, abs=0.002)
    assert torch.unique(dropped).tolist() == [0.0, pytest.approx(1 / (1 - p), rel=digits)]
    assert dropped.double().mean() == pytest.approx(1, abs=0.01)


def test_all_but_certain_dropout_drops_all_but_everything() -> None:
    torch.manual_seed(0)
    assert (dropout(torch.ones(1000, 1000), 1 - 1e-9) == 0).double().mean() > 0.9999


def test_neighbouring_entries_are_dropped_independently() -> None:
    torch.manual_seed(0)
    dropped = (dropout(torch.ones(400_000), 0.5) == 0).double()
    for distance in (1, 2, 3, 4, 8):
        both = (dropped[distance:] * dropped[:-distance]).mean()
        assert both == pytest.approx(0.25, abs=0.005)


def test_gradients_pass_where_entries_pass() -> None:
    x = torch.randn(33, 7, requires_grad=True)
    out = dropout(x, 0.4)
    out.sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(x.grad, torch.where(out == 0, 0.0, 1 / 0.6))


def test_draws_follow_the_global_generator() -> None:
    torch.manual_seed(5)
    one = dropout(torch.ones(100), 0.5)
    torch.manual_seed(5)
    assert torch.equal(one, dropout(torch.ones(100), 0.5))
    assert not torch.equal(one, dropout(torch.ones(100), 0.5))


def test_nothing_is_dropped_outside_training_or_with_probability_zero() -> None:
    x = torch.randn(5, 3)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_attention_agrees_with_pytorch_on_average() -> None:
    torch.manual_seed(0)
    queries, keys, values = torch.randn(3, 2, 4, 5, 6)
    expected = F.scaled_dot_product_attention(queries, keys, values)
    torch.testing.assert_close(attention(queries, keys, values), expected)
    mean = torch.stack([attention(queries, keys, values, 0.3) for _ in range(3000)]).mean(dim=0)
    torch.testing.assert_close(mean, expected, atol=0.06, rtol=0)
