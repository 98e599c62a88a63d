from dataclasses import replace
from typing import Any

import pytest
import torch
from fake_cuda import Indexing, move
from tabbench_tjepa.config import TJEPAConfig
from tabbench_tjepa.masks import Masks, draw_masks
from tabbench_tjepa.networks import Encoder, Predictor
from tabbench_tjepa.objective import TJEPANetworks
from tabbench_tjepa.training import make_optimizer
from torch._subclasses.fake_tensor import FakeTensorMode

from tabbench import Schema
from tabbench.nn import EMA, TokenRows, sincos_positions

SCHEMA = Schema(("a", "b", "c"), ("d", "e"), (("x", "y"), ("u", "v", "w")))
D = 5
SMALL: dict[str, Any] = {
    "model_dim_hidden": 8,
    "model_num_layers": 2,
    "model_num_heads": 2,
    "model_dim_feedforward": 16,
    "pred_embed_dim": 4,
    "pred_num_layers": 2,
    "pred_num_heads": 2,
    "pred_dim_feedforward": 8,
}
VARIANTS = [
    {},
    {"norm": "pre"},
    {"positions": "sincos"},
    {"n_reg": 0},
    {"n_reg": 4},
    {"masking": "zero"},
    {"masking": "zero", "predictor": "mlp"},
    {"init": "reference", "pred_last_block": True},
    {"mask_num_encs": 2},
    {"mask_num_encs": 2, "masking": "zero", "predictor": "mlp"},
    {"model_dropout_prob": 0.2, "pred_p_dropout": 0.2},
]


def make_networks(**settings: Any) -> TJEPANetworks:
    torch.manual_seed(0)
    return TJEPANetworks(TJEPAConfig(**{**SMALL, **settings}), SCHEMA, missing=True)


def some_rows(n: int = 6) -> TokenRows:
    numbers = torch.linspace(-2, 2, 3 * n).view(n, 3)
    codes = torch.arange(2 * n).view(n, 2) % 4
    return TokenRows(numbers, torch.zeros(n, 3), codes)


def some_masks(n: int = 6, n_contexts: int = 1) -> Masks:
    return draw_masks(n, D, (2, 2), n_contexts, 4, "cpu", torch.Generator().manual_seed(0))


def perturbed(networks: TJEPANetworks) -> TJEPANetworks:
    """Weights of a size that shows: at initialisation the blocks add next to nothing."""
    with torch.no_grad():
        for parameter in networks.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return networks


def zero_rows(device: str, n: int = 6) -> TokenRows:
    codes = torch.zeros(n, 2, dtype=torch.int64, device=device)
    return TokenRows(torch.zeros(n, 3, device=device), torch.zeros(n, 3, device=device), codes)


def test_the_loss_of_a_worked_example() -> None:
    """d = 3, h = 2: features are encoded as (1, -1), (-1, 1), (1, -1), and (2, 0) is predicted for every one."""
    config = TJEPAConfig(
        **{**SMALL, "model_dim_hidden": 2, "model_num_heads": 1, "positions": "learned", "mask_num_preds": 2}
    )
    networks = TJEPANetworks(config, Schema(("a", "b", "c")), missing=False)
    with torch.no_grad():
        for parameter in networks.target_encoder.parameters():
            parameter.zero_()
        target, predictor = networks.target_encoder, networks.predictor
        assert isinstance(predictor, Predictor)
        target.tokenizer.bias.copy_(torch.tensor([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]]))
        for module in target.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.weight.fill_(1.0)
        target.get_parameter("head.1.weight").copy_(torch.eye(2))
        predictor.up.weight.zero_()
        predictor.up.bias.copy_(torch.tensor([2.0, 0.0]))
    rows = TokenRows(torch.randn(1, 3), torch.zeros(1, 0), torch.zeros(1, 0, dtype=torch.int64))
    masks = Masks(torch.tensor([[[0]]]), torch.tensor([[[1], [2]]]))
    # (2 + 1)^2 and (0 - 1)^2 for feature 1, (2 - 1)^2 and (0 + 1)^2 for feature 2: 12 in four entries.
    assert networks(rows, masks).item() == pytest.approx(3.0, rel=1e-4)


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_gradients_reach_the_context_encoder_and_the_predictor_only(settings: dict[str, Any]) -> None:
    networks = perturbed(make_networks(**settings)).train()
    networks(some_rows(), some_masks(n_contexts=settings.get("mask_num_encs", 1))).backward()
    assert all(parameter.grad is None for parameter in networks.target_encoder.parameters())
    # With zero masking the queries' features are among the context's, and columns without missing values have no say.
    for name, parameter in (*networks.context_encoder.named_parameters(), *networks.predictor.named_parameters()):
        if parameter.requires_grad and parameter.numel() and not name.endswith("missing"):
            assert parameter.grad is not None, name
            assert parameter.grad.any(), name


def test_the_target_encoder_starts_equal_and_has_no_training_mode() -> None:
    networks = make_networks(model_dropout_prob=0.5).train()
    pairs = zip(networks.context_encoder.parameters(), networks.target_encoder.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert networks.context_encoder.training
    assert not networks.target_encoder.training
    assert not any(module.training for module in networks.target_encoder.modules())


@pytest.mark.parametrize("masking", ["drop", "zero"])
def test_the_value_of_a_masked_feature_has_no_influence_to_the_last_bit(masking: str) -> None:
    encoder = perturbed(make_networks(masking=masking)).context_encoder
    rows = some_rows()
    context = torch.tensor([0, 3])[:, None, None].expand(2, 1, 6)
    encoded = encoder(rows, context)
    others = TokenRows(rows.numeric.clone(), rows.missing.clone(), rows.categorical.clone())
    others.numeric[:, 1:] += 7.0
    others.missing[:, 1:] = 1.0
    others.categorical[:, 1] = 1
    assert torch.equal(encoder(others, context), encoded)
    others.numeric[:, 0] += 1.0
    assert not torch.equal(encoder(others, context), encoded)


def test_with_zero_masking_a_masked_value_counts_as_zero_and_shows_its_indicator() -> None:
    """Eq. 6: the linear layer of a masked feature sees (0, 1), that of another one its code and 0."""
    encoder: Any = perturbed(make_networks(masking="zero")).context_encoder
    rows = some_rows()
    rows.missing[:] = 1
    context = torch.tensor([0, 3])[:, None, None].expand(2, 1, 6)
    tokens = encoder.embed_context(rows, context)
    tokenizer, of_feature = encoder.tokenizer, encoder.of_feature()
    for j in (1, 2, 4):
        torch.testing.assert_close(tokens[j], (tokenizer.bias + tokenizer.indicators + of_feature)[j].expand(6, -1))
    for j in (0, 3):
        torch.testing.assert_close(tokens[j], encoder.embed(rows)[j])


def test_a_context_is_encoded_as_a_table_of_only_these_features() -> None:
    encoder = perturbed(make_networks()).context_encoder
    rows = some_rows()
    everything = torch.arange(D)[:, None, None].expand(D, 1, 6)
    torch.testing.assert_close(encoder(rows, everything), encoder(rows))


def test_several_contexts_are_encoded_one_by_one() -> None:
    networks = perturbed(make_networks(mask_num_encs=2))
    rows, masks = some_rows(), some_masks(n_contexts=2)
    together = networks.context_encoder(rows, masks.context).unflatten(1, (2, 6))
    for m in range(2):
        alone = networks.context_encoder(rows, masks.context[:, m : m + 1])
        torch.testing.assert_close(together[:, m], alone)
    losses = [networks(rows, Masks(masks.context[:, m : m + 1], masks.target)) for m in range(2)]
    torch.testing.assert_close(networks(rows, masks), (losses[0] + losses[1]) / 2)


def test_the_loss_is_the_mean_over_targets_and_rows() -> None:
    networks = perturbed(make_networks())
    rows, masks = some_rows(), some_masks()
    by_target = [networks(rows, Masks(masks.context, masks.target[:, k : k + 1])) for k in range(4)]
    by_row = [networks(rows.take(slice(i, i + 1)), masks.rows(slice(i, i + 1))) for i in range(6)]
    loss = networks(rows, masks)
    torch.testing.assert_close(loss, torch.stack(by_target).mean())
    torch.testing.assert_close(loss, torch.stack(by_row).mean())


def test_reg_takes_part_in_every_context_and_is_no_part_of_what_comes_out() -> None:
    networks = perturbed(make_networks(n_reg=2))
    rows, masks = some_rows(), some_masks()
    encoder = networks.context_encoder
    before = encoder(rows, masks.context), encoder(rows)
    assert before[0].shape == (2, 6, 8)
    assert before[1].shape == (D, 6, 8)
    assert int(masks.target.max()) < D
    with torch.no_grad():
        encoder.reg.add_(1.0)
    for old, new in zip(before, (encoder(rows, masks.context), encoder(rows)), strict=True):
        assert (old - new).abs().amax((0, 2)).gt(1e-4).all(), "[REG] is seen by every row"


def test_permuting_columns_with_their_parameters_permutes_the_tokens() -> None:
    torch.manual_seed(0)
    config = TJEPAConfig(**SMALL)
    encoder = Encoder(config, Schema(("a", "b", "c")), missing=False)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    rows = TokenRows(torch.randn(4, 3), torch.zeros(4, 0), torch.zeros(4, 0, dtype=torch.int64))
    before = encoder(rows)
    order = torch.tensor([2, 0, 1])
    with torch.no_grad():
        for parameter in (encoder.tokenizer.weight, encoder.tokenizer.bias, encoder.positions):
            parameter.copy_(parameter[order].clone())
    torch.testing.assert_close(encoder(replace(rows, numeric=rows.numeric[:, order])), before[order])


def test_every_column_influences_the_whole_embedding() -> None:
    encoder = perturbed(make_networks()).context_encoder
    rows = some_rows()
    before = encoder(rows)
    for j in range(D):
        changed = replace(rows, numeric=rows.numeric.clone(), categorical=rows.categorical.clone())
        if j < 3:
            changed.numeric[:, j] += 1.0
        else:
            changed.categorical[:, j - 3] = (changed.categorical[:, j - 3] + 1) % 4
        assert (encoder(changed) - before).abs().amax(2).gt(1e-5).all()


def test_only_the_input_of_attention_is_initialised_as_in_the_authors_code() -> None:
    wide = {"model_dim_hidden": 64, "model_num_heads": 2}
    theirs, ours = (make_networks(init=init, **wide).state_dict() for init in ("reference", "normal"))
    layer = "context_encoder.transformer.layers.0"
    xavier = (2 / (64 + 3 * 64)) ** 0.5
    assert theirs[f"{layer}.attention.input.weight"].std().item() == pytest.approx(xavier, rel=0.05)
    assert ours[f"{layer}.attention.input.weight"].std().item() == pytest.approx(0.02, rel=0.1)
    for name in ("attention.output", "linear1", "linear2"):
        assert theirs[f"{layer}.{name}.weight"].std().item() == pytest.approx(0.02, rel=0.1)


def test_the_predictor_may_end_as_the_encoder_does() -> None:
    def shape_of_end(networks: TJEPANetworks, prefix: str) -> dict[str, int]:
        named = networks.state_dict().items()
        return {name.removeprefix(prefix): value.ndim for name, value in named if name.startswith(prefix)}

    networks = make_networks(pred_last_block=True)
    assert shape_of_end(networks, "predictor.last.") == shape_of_end(networks, "context_encoder.head.") != {}
    assert shape_of_end(make_networks(), "predictor.last.") == {}


def test_a_token_has_the_index_and_the_type_of_its_feature() -> None:
    encoder = perturbed(make_networks()).context_encoder
    assert torch.equal(encoder.of_feature(), encoder.positions + encoder.types[[0, 0, 0, 1, 1]])


def test_the_predictor_knows_the_features_of_the_context_and_of_the_target() -> None:
    predictor = perturbed(make_networks()).predictor
    known = torch.randn(2, 6, 8)

    def predict(context: list[int], target: list[int]) -> torch.Tensor:
        masks = [torch.tensor(features)[:, None, None].expand(2, 1, 6) for features in (context, target)]
        predicted: torch.Tensor = predictor(known, Masks(*masks))
        return predicted

    before = predict([0, 3], [1, 2])
    assert (predict([0, 4], [1, 2]) - before).abs().amax((1, 2, 4)).gt(1e-4).all()
    torch.testing.assert_close(predict([0, 3], [2, 1]), before.flip(0))
    assert (before[0] - before[1]).abs().amax() > 1e-4


def test_fixed_positions_do_not_learn() -> None:
    networks = make_networks(positions="sincos")
    assert not networks.context_encoder.positions.requires_grad
    assert not networks.predictor.positions.requires_grad
    # The authors' bases: 100 in the encoder, the usual 10,000 in the predictor.
    assert torch.equal(networks.context_encoder.positions, sincos_positions(D, 8, 100.0))
    assert torch.equal(networks.predictor.get_parameter("positions"), sincos_positions(D, 4, 10_000.0))


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_the_matrices_of_layers_decay_and_nothing_else(settings: dict[str, Any]) -> None:
    networks = make_networks(**settings)
    config = TJEPAConfig(**{**SMALL, **settings, "exp_weight_decay": 0.5})
    decaying = next(group["params"] for group in make_optimizer(networks, config).param_groups if group["weight_decay"])
    names = {name for name, parameter in networks.named_parameters() if any(parameter is p for p in decaying)}
    assert names
    assert all(name.endswith(("weight", "weight1", "weight2")) for name in names)
    assert not any(part in name for name in names for part in ("norm", "tokenizer", "target_encoder", "positions"))
    mlp = {"predictor.weight1", "predictor.weight2"}
    assert mlp <= names if settings.get("predictor") == "mlp" else not mlp & names


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_on_cuda_no_tensor_is_left_on_the_cpu(settings: dict[str, Any]) -> None:
    """Fake tensors know their device and refuse to mix two of them. Their gradients would need a CUDA build."""
    networks = make_networks(**settings).train()
    with FakeTensorMode(), torch.no_grad(), Indexing():
        move(networks, "cuda")
        rows, n_contexts = zero_rows("cuda"), settings.get("mask_num_encs", 1)
        masks = draw_masks(6, D, (2, 2), n_contexts, 4, "cuda", None)
        loss = networks(rows.take(torch.arange(6, device="cuda")), masks.rows(slice(0, 6)))
        assert loss.device.type == "cuda"
        assert networks.eval().context_encoder(rows).device.type == "cuda"


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_a_training_step_stays_on_its_device(settings: dict[str, Any]) -> None:
    config = TJEPAConfig(**{**SMALL, **settings})
    networks = make_networks(**settings).train()
    move(networks, "meta")
    masks = draw_masks(6, D, (2, 2), config.mask_num_encs, 4, "meta", None)
    optimizer = make_optimizer(networks, config)
    networks(zero_rows("meta"), masks).backward()
    optimizer.step()
    EMA(networks.target_encoder, networks.context_encoder).update(0.99)
    learning = [parameter for parameter in networks.parameters() if parameter.requires_grad]
    assert all(parameter.grad is None or parameter.grad.is_meta for parameter in learning)
    moments = [value for state in optimizer.state.values() for name, value in state.items() if name != "step"]
    assert moments
    assert all(moment.is_meta for moment in moments)
