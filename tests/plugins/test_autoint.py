from collections.abc import Mapping
from typing import Any

import pytest
import torch
from tabbench_autoint.config import AutoIntConfig
from tabbench_autoint.model import AutoIntModel, Interaction

from tabbench import UsageError
from tabbench.nn import Batch, InputShape
from tabbench.running.tuning import Study


def test_attention_to_equal_tokens_is_a_linear_layer() -> None:
    config = AutoIntConfig(d_token=4, n_heads=2, attention_dropout=0.0, residual_dropout=0.0)
    layer = Interaction(config)
    token = torch.randn(4)
    values = layer.queries_keys_values(token)[8:]
    expected = torch.relu(layer.norm(layer.residual(token) + values))
    tokens = token.expand(1, 3, 4)
    torch.testing.assert_close(layer(tokens), expected.expand(1, 3, 4))


def test_a_number_of_zero_gives_a_token_of_zeros() -> None:
    backbone: Any = AutoIntModel(d_token=8, n_heads=2).build(InputShape(n_numeric=3))
    tokens = backbone.columns(Batch(numeric=torch.tensor([[0.0, 1.0, 2.0]])))
    assert not tokens[0, 0].any()
    torch.testing.assert_close(tokens[0, 1:], backbone.columns.weight[1:] * torch.tensor([[1.0], [2.0]]))


def test_all_tokens_reach_the_head() -> None:
    backbone = AutoIntModel(d_token=8, n_heads=2).build(InputShape(n_numeric=3, cardinalities=(4, 4)))
    assert backbone.out_features == 5 * 8


def test_heads_that_do_not_divide_tokens_are_refused_in_words() -> None:
    with pytest.raises(UsageError, match="d_token=7 is not a multiple of n_heads=2"):
        AutoIntModel(d_token=7, n_heads=2)


@pytest.mark.parametrize("preset", [{}, AutoIntConfig.presets()["paper"]], ids=["defaults", "paper"])
def test_a_search_has_two_heads_which_divide_every_width(preset: Mapping[str, Any]) -> None:
    base = AutoIntConfig(**{name: value for name, value in preset.items() if name != "source"}).to_json()
    study = Study("k", AutoIntConfig, base, frozenset(AutoIntConfig.search_space()), 41, "random")
    while not study.finished:
        trial = study.propose()
        trial.value, trial.status = 0.0, "ok"
    configs = [trial.config for trial in study.trials]
    assert {config["n_heads"] for config in configs} == {2}
    assert any(config["d_token"] % 8 for config in configs)
    assert min(config["d_token"] for config in configs) < 32
