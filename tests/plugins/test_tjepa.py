import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_diabetes
from small_settings import TINY_TJEPA
from tabbench_tjepa import training
from tabbench_tjepa.config import TJEPAConfig, cpu_has_bf16
from tabbench_tjepa.finetuning import TokenNetwork
from tabbench_tjepa.masks import Masks
from tabbench_tjepa.memory import USABLE, micro_batch_rows
from tabbench_tjepa.method import TJEPA
from tabbench_tjepa.objective import Follower, TJEPANetworks
from tabbench_tjepa.training import Work, choose_batch_size, make_optimizer

from tabbench import Context, DataError, Schema, TabbenchError, Table, UsageError
from tabbench.frames import fit_schema, to_table
from tabbench.nn import EMA, TokenRows
from tabbench.running import tripwires

TINY: dict[str, Any] = {**TINY_TJEPA, "exp_epochs": 4, "exp_batch_size": 32}


def mixed_frame(n: int = 70) -> pd.DataFrame:
    random = np.random.default_rng(0)
    size = random.normal(size=n)
    frame = pd.DataFrame(
        {
            "size": size,
            "weight": size + 0.1 * random.normal(size=n),
            "age": random.integers(0, 90, n).astype(float),
            "colour": random.choice(["red", "green", "blue"], n),
            "works": random.random(n) < 0.5,
        }
    )
    frame.loc[::7, "age"] = np.nan
    frame.loc[::9, "colour"] = None
    return frame


def mixed_table(n: int = 70) -> Table:
    frame = mixed_frame(n)
    return to_table(frame, fit_schema(frame))


def pretrained(context: Context | None = None, table: Table | None = None, **settings: Any) -> TJEPA:
    method = TJEPA(**{**TINY, **settings})
    method.pretrain(mixed_table() if table is None else table, context or Context())
    return method


def same_weights(a: TJEPA, b: TJEPA) -> bool:
    states = zip(a.get_state().values(), b.get_state().values(), strict=True)
    return all(np.array_equal(x, y) for x, y in states)


def test_a_frame_is_fitted_and_transformed_and_the_method_survives_saving(tmp_path: Path) -> None:
    frame = mixed_frame()
    method = TJEPA(**TINY).fit(frame)
    matrix = method.transform(frame)
    assert matrix.shape == (70, 5 * 8)
    assert matrix.dtype == np.float32
    assert np.isfinite(matrix).all()
    method.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"method.json", "state.safetensors"}
    loaded = TJEPA.load(tmp_path)
    np.testing.assert_array_equal(loaded.transform(frame), matrix)
    assert loaded.diagnostics["loss"] == method.diagnostics["loss"]


def test_the_representation_is_a_token_for_each_feature() -> None:
    assert pretrained().encode(mixed_table()).array.shape == (70, 5, 8)


@pytest.mark.parametrize("encoder", ["context", "target"])
def test_the_chosen_encoder_gives_the_representation(encoder: str) -> None:
    method = pretrained(encoder=encoder)
    rows = method.rows(mixed_table())
    with torch.no_grad():
        expected = getattr(method.networks, f"{encoder}_encoder")(rows).transpose(0, 1)
    np.testing.assert_allclose(method.encode(mixed_table()).array, expected.numpy(), atol=1e-6)


def test_neither_order_nor_neighbours_nor_batches_change_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    method, table = pretrained(), mixed_table()
    encoded = method.encode(table).array
    order = np.random.default_rng(0).permutation(70)
    np.testing.assert_allclose(method.encode(table.take(order)).array, encoded[order], atol=1e-5)
    np.testing.assert_allclose(method.encode(table.take(slice(3, 4))).array, encoded[3:4], atol=1e-5)
    monkeypatch.setattr("tabbench_tjepa.memory.CACHED_TOKENS", 20)
    np.testing.assert_allclose(method.encode(table).array, encoded, atol=1e-5)


def test_the_same_seed_gives_the_same_weights_and_leaves_global_randomness_alone() -> None:
    before = torch.get_rng_state()
    first, second, other = (pretrained(Context(root_seed=seed), model_dropout_prob=0.1) for seed in (1, 1, 2))
    assert same_weights(first, second)
    assert not same_weights(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_initialising_is_pretraining_without_a_step() -> None:
    method = TJEPA(**TINY)
    method.initialise(mixed_table(), Context())
    assert method.encode(mixed_table()).array.std() > 0.1
    assert not same_weights(method, pretrained())
    frozen = pretrained(exp_lr=1e-30, model_ema_start=1.0)
    for name, array in method.get_state().items():
        np.testing.assert_allclose(frozen.get_state()[name], array, atol=1e-12, err_msg=name)


def test_the_target_encoder_follows_the_weights_after_the_step() -> None:
    method, context, table = TJEPA(**TINY, model_ema_start=0.9), Context(), mixed_table()
    method.initialise(table, context)
    work = Work(method, table, context)
    networks = method.networks
    optimizer = make_optimizer(networks, method.config)
    for step in range(2):
        before = [parameter.clone() for parameter in networks.target_encoder.parameters()]
        momentum = work.follower.momentum(step, 12)
        work.loss(torch.arange(70))
        optimizer.step()
        work.follower.follow(step, 12)
        pairs = zip(before, networks.context_encoder.parameters(), networks.target_encoder.parameters(), strict=True)
        for old, followed, target in pairs:
            torch.testing.assert_close(target, momentum * old + (1 - momentum) * followed.detach())
    assert not torch.equal(networks.target_encoder.reg, networks.context_encoder.reg)


def test_a_frozen_target_never_moves() -> None:
    method = pretrained(frozen_target=True)
    untrained = TJEPA(**TINY)
    untrained.initialise(mixed_table(), Context())
    pairs = zip(
        method.networks.target_encoder.parameters(), untrained.networks.target_encoder.parameters(), strict=True
    )
    assert all(torch.equal(a, b) for a, b in pairs)
    assert not torch.equal(method.networks.context_encoder.reg, untrained.networks.context_encoder.reg)
    assert method.diagnostics["target_moved"] == [0.0] * 4


def test_how_far_the_target_has_moved_is_the_sum_over_steps() -> None:
    method = pretrained(model_ema_start=0.9)
    follower = Follower(method.networks, method.config)
    moves = [1 - follower.momentum(step, 12) for step in range(12)]
    assert method.diagnostics["target_moved"] == pytest.approx([sum(moves[:n]) for n in (3, 6, 9, 12)])
    assert method.diagnostics["ema"] == pytest.approx([1 - moves[n - 1] for n in (3, 6, 9, 12)])


@pytest.mark.parametrize("end", [1.0, 0.996], ids=["falling", "constant"])
@pytest.mark.parametrize("total", [1, 12, 1000])
def test_the_target_moves_by_the_time_constants_asked_for_however_long_the_run(total: int, end: float) -> None:
    method = pretrained(exp_epochs=1)
    config = TJEPAConfig(**TINY, ema_time_constants=0.5, model_ema_end=end)
    follower = Follower(method.networks, config)
    assert follower.moved(total, total) == pytest.approx(0.5)
    steps = [1 - follower.momentum(step, total) for step in range(total)]
    assert steps == sorted(steps, reverse=True)
    assert (steps[-1] == pytest.approx(steps[0])) == (end < 1 or total == 1)


def test_a_target_can_move_no_further_than_to_the_context_encoder() -> None:
    method = pretrained(ema_time_constants=20)
    assert method.diagnostics["ema"][0] == 0
    assert method.diagnostics["target_moved"][-1] < 12
    assert "ema_time_constants" in method.config.to_json()


def test_an_unused_schedule_of_time_constants_is_not_part_of_a_key() -> None:
    assert "ema_time_constants" not in TJEPAConfig().to_json()


@pytest.mark.parametrize("settings", [{"frozen_target": True}, {"model_ema_start": 1.0}], ids=str)
def test_time_constants_of_a_target_that_stands_still_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="ema_time_constants=5 needs a target encoder that moves"):
        TJEPAConfig.resolve({**settings, "ema_time_constants": 5}, "tjepa")


def test_every_batch_has_sizes_of_its_own_for_contexts_and_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[torch.Size, torch.Size]] = []
    forward = TJEPANetworks.forward

    def noted(networks: TJEPANetworks, rows: TokenRows, masks: Masks) -> torch.Tensor:
        found.append((masks.context.shape[:2], masks.target.shape[:2]))
        return forward(networks, rows, masks)

    monkeypatch.setattr(TJEPANetworks, "forward", noted)
    method = pretrained(mask_num_encs=2, mask_num_preds=3)
    generator = Context().generator("mask sizes", "cpu")
    drawn = [method.sizes.draw(generator) for _ in range(12)]
    assert found == [((n_ctx, 2), (n_tgt, 3)) for n_ctx, n_tgt in drawn]
    assert len(set(drawn)) > 2


def test_the_best_weights_by_probe_are_kept_and_the_untrained_ones_take_part() -> None:
    scores = iter([0.2, 0.3, 0.9, 0.1])
    seen: list[np.ndarray] = []

    def probe(encode: Any) -> float:
        seen.append(encode(mixed_table()).array)
        return next(scores)

    method = pretrained(Context(probe=probe), exp_epochs=5, probe_every=2)
    assert method.diagnostics["probe"] == [[0, 0.2], [2, 0.3], [4, 0.9], [5, 0.1]]
    assert method.diagnostics["best_epoch"] == 4
    np.testing.assert_array_equal(method.encode(mixed_table()).array, seen[2])
    assert not np.array_equal(seen[2], seen[3])


REGIME: dict[str, Any] = {
    "model_dim_hidden": 16,
    "model_num_layers": 1,
    "model_num_heads": 2,
    "model_dim_feedforward": 32,
    "pred_embed_dim": 8,
    "pred_num_layers": 1,
    "pred_num_heads": 2,
    "pred_dim_feedforward": 16,
    "exp_epochs": 30,
    "exp_batch_size": 64,
    "exp_lr": 3e-3,
    "scaling": "standard",
}


def test_training_leaves_its_early_collapse_behind() -> None:
    """The paper's regime: the loss falls, rises again and settles, while the representation spreads out."""
    method = TJEPA(**REGIME, model_ema_start=0.98).fit(load_diabetes(as_frame=True).data)
    curves = method.diagnostics
    loss, spread, start = curves["loss"], curves["uniformity"], curves["start"]["uniformity"]
    lowest = int(np.argmin(loss))
    assert lowest < 15
    assert loss[-1] > 2 * loss[lowest]
    assert min(spread) < 0.1 * start
    assert spread[-1] > 1.1 * start
    assert not curves["collapsed"][-1]
    assert tripwires.check_training(curves, {}) == []


def test_the_collapse_flag_fires_on_an_encoder_that_collapsed() -> None:
    """A target encoder that follows too fast is agreed with by saying nothing."""
    method = TJEPA(**{**REGIME, "exp_epochs": 20}, model_ema_start=0.8).fit(load_diabetes(as_frame=True).data)
    assert method.diagnostics["collapsed"][-1]
    assert not method.diagnostics["start"]["collapsed"]
    assert tripwires.check_training(method.diagnostics, {}) == [tripwires.COLLAPSED]


def test_every_epoch_is_reported_and_recorded() -> None:
    reports: list[dict[str, float]] = []
    method = pretrained(Context(on_report=lambda epoch, total, metrics: reports.append(metrics)))
    curves = method.diagnostics
    names = {"loss", "ema", "target_moved", "embedding_variance", "uniformity", "collapsed"}
    assert all(set(report) == names for report in reports)
    for name in names:
        assert curves[name] == [report[name] for report in reports]
        assert len(curves[name]) == 4
    assert curves["start"].keys() == {"embedding_variance", "uniformity", "collapsed"}


def test_momentum_rises_to_one_and_the_learning_rate_falls_to_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    optimizers: list[torch.optim.Optimizer] = []
    make, update = training.make_optimizer, EMA.update

    def noted(networks: TJEPANetworks, config: TJEPAConfig) -> torch.optim.AdamW:
        optimizers.append(make(networks, config))
        return optimizers[-1]  # type: ignore[return-value]

    momenta: list[float] = []

    def note(self: EMA, momentum: float) -> None:
        momenta.append(momentum)
        rates.append(optimizers[0].param_groups[0]["lr"])
        update(self, momentum)

    monkeypatch.setattr(training, "make_optimizer", noted)
    monkeypatch.setattr(EMA, "update", note)
    pretrained(exp_warmup_share=0.25)
    assert len(rates) == 12
    assert rates[:3] == pytest.approx([1e-3 / 3, 2e-3 / 3, 1e-3]), "the first step has its scheduled rate"
    assert rates[3] == pytest.approx(1e-3)
    assert rates[-1] < 1e-4
    assert sorted(rates[3:], reverse=True) == rates[3:]
    assert momenta == pytest.approx([0.996 + 0.004 * step / 11 for step in range(12)])


@pytest.mark.parametrize("rows, size", [(10, 32), (800, 50), (16_512, 512), (10**6, 512)])
def test_small_tables_have_smaller_batches(rows: int, size: int) -> None:
    assert choose_batch_size(rows) == size


def test_gradients_of_parts_add_up_to_those_of_the_batch() -> None:
    gradients = []
    for micro_batch in (70, 9):
        method, context, table = TJEPA(**TINY, micro_batch=micro_batch, bf16=False), Context(), mixed_table()
        method.initialise(table, context)
        loss = Work(method, table, context).loss(torch.arange(70))["loss"]
        parameters = [p for p in method.networks.parameters() if p.grad is not None]
        gradients.append([loss, *(p.grad for p in parameters)])
    for whole, parts in zip(*gradients, strict=True):
        torch.testing.assert_close(whole, parts, rtol=1e-3, atol=1e-7)


def test_less_memory_means_smaller_parts_and_a_setting_overrules_it() -> None:
    config = TJEPAConfig()
    plenty, little, nothing = (
        micro_batch_rows(config, 512, 54, (14, 20), "cuda", memory) for memory in (1 << 40, 1 << 29, 1)
    )
    assert plenty == 512
    assert 1 < little < 512
    assert nothing == 1
    assert micro_batch_rows(TJEPAConfig(micro_batch=33), 512, 54, (14, 20), "cpu", 1) == 33


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"model_dropout_prob": 0.01, "pred_p_dropout": 0.01},
        {"masking": "zero"},
        {"masking": "zero", "predictor": "mlp"},
        {"mask_num_encs": 2},
    ],
    ids=str,
)
def test_the_estimate_of_memory_is_above_what_is_kept_for_the_gradients(settings: dict[str, Any]) -> None:
    config = TJEPAConfig(**{**TINY, **settings})
    kept: list[int] = []
    method, context, table = TJEPA(config), Context(), mixed_table()
    method.initialise(table, context)
    work = Work(method, table, context)
    seen: set[int] = set()

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            kept.append(storage.nbytes())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        work.loss(torch.arange(70))
    weights = sum(p.nbytes for p in method.networks.parameters())
    per_row = (sum(kept) - weights) / len(table)
    memory = 1 << 24
    rows = micro_batch_rows(config, 1 << 30, 5, (1, 2), "cuda", memory)
    assert per_row * rows < USABLE * memory


@pytest.mark.parametrize(
    "settings",
    [
        {"masking": "zero"},
        {"masking": "zero", "predictor": "mlp"},
        {"n_reg": 0},
        {"n_reg": 4},
        {"norm": "pre"},
        {"positions": "sincos"},
        {"scaling": "minmax"},
        {"scaling": "standard"},
        {"mask_num_encs": 2},
        {"bf16": True},
        {"init": "reference"},
        {"pred_last_block": True},
        {"whiten": "pca"},
        {"exp_weight_decay": 0.1},
    ],
    ids=str,
)
def test_every_option_trains_and_round_trips(settings: dict[str, Any], tmp_path: Path) -> None:
    method = pretrained(**settings, exp_epochs=2)
    encoded = method.encode(mixed_table()).array
    assert np.isfinite(encoded).all()
    method.save(tmp_path)
    np.testing.assert_allclose(TJEPA.load(tmp_path).encode(mixed_table()).array, encoded, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("settings", [{"masking": "zero"}, {"masking": "zero", "predictor": "mlp"}], ids=str)
def test_the_discarded_alternatives_need_no_missing_values(settings: dict[str, Any]) -> None:
    frame = mixed_frame().drop(columns="age")
    method = pretrained(table=to_table(frame, fit_schema(frame)), **settings, exp_epochs=1)
    assert np.isfinite(method.encode(to_table(frame, method.schema)).array).all()


def test_compiled_training_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[Any] = []

    def compile_eagerly(module: Any, **options: Any) -> Any:
        wanted.append(options)
        return real(module, backend="eager", **options)

    real = torch.compile
    monkeypatch.setattr(torch, "compile", compile_eagerly)
    settings: dict[str, Any] = {"exp_epochs": 1, "exp_batch_size": 35, "bf16": False}
    method = pretrained(compile=True, **settings)
    assert wanted == [{"fullgraph": True, "dynamic": False}]
    plain = pretrained(**settings)
    for name, array in plain.get_state().items():
        np.testing.assert_allclose(method.get_state()[name], array, atol=1e-4, err_msg=name)
    torch._dynamo.reset()


def small_table(numeric: int, categorical: int, rows: int = 12) -> Table:
    random = np.random.default_rng(0)
    return Table(
        random.normal(size=(rows, numeric)).astype(np.float32),
        random.integers(0, 4, (rows, categorical)),
        Schema(
            tuple(f"n{j}" for j in range(numeric)),
            tuple(f"c{j}" for j in range(categorical)),
            (("a", "b"),) * categorical,
        ),
    )


@pytest.mark.parametrize("shape", [(2, 0), (0, 2), (1, 1), (3, 0, 1)], ids=str)
def test_narrow_and_short_tables_work(shape: tuple[int, ...]) -> None:
    table = small_table(*shape)
    encoded = pretrained(table=table, exp_epochs=2).encode(table).array
    assert encoded.shape == (len(table), shape[0] + shape[1], 8)
    assert np.isfinite(encoded).all()


def test_whitened_columns_are_uncorrelated_and_of_unit_variance() -> None:
    table = mixed_table(400)
    for method in (TJEPA(**TINY, whiten="pca"), pretrained(table=table, whiten="pca")):
        if not hasattr(method, "networks"):
            method.initialise(table, Context())
        array = method.encode(table).array
        assert array.ndim == 2
        assert array.shape[1] <= 5 * 8
        np.testing.assert_allclose(np.cov(array, rowvar=False, bias=True), np.eye(array.shape[1]), atol=0.02)


def test_the_probe_sees_tokens_that_are_not_whitened_in_a_second_training_too() -> None:
    shapes: list[tuple[int, ...]] = []

    def probe(encode: Any) -> float:
        shapes.append(encode(mixed_table()).array.shape)
        return 0.0

    method = pretrained(whiten="pca", exp_epochs=1)
    method.pretrain(mixed_table(), Context(probe=probe))
    assert set(shapes) == {(70, 5, 8)}


@pytest.mark.parametrize("settings", [{}, {"whiten": "pca"}, {"encoder": "target"}], ids=str)
def test_the_network_to_fine_tune_computes_the_representation(settings: dict[str, Any]) -> None:
    method, table = pretrained(**settings, exp_epochs=1), mixed_table()
    encoder = method.trainable_encoder()
    with torch.no_grad():
        found = encoder.module(*encoder.prepare(table))
    np.testing.assert_allclose(found.numpy(), method.encode(table).array, rtol=1e-4, atol=1e-5)
    assert isinstance(encoder.module, TokenNetwork), "it says what memory a row takes"


def test_tables_too_wide_to_whiten_are_refused_in_words() -> None:
    with pytest.raises(DataError, match="784 features of width 64 are 50,176"):
        TJEPA(whiten="pca").initialise(small_table(784, 0), Context())


def test_784_features_work() -> None:
    table = small_table(784, 0, rows=4)
    method = pretrained(table=table, exp_epochs=1, exp_batch_size=2)
    assert method.encode(table).array.shape == (4, 784, 8)


@pytest.mark.parametrize("shape, sentence", [((1, 0), "too narrow"), ((3, 0, 0), "without rows")])
def test_tables_that_cannot_be_learned_from_are_refused(shape: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        pretrained(table=small_table(*shape))


def test_no_rows_are_encoded_as_no_rows() -> None:
    table = mixed_table()
    assert pretrained().encode(table.take(slice(0, 0))).array.shape == (0, 5, 8)


def test_a_training_that_diverges_ends_with_a_sentence() -> None:
    with pytest.raises(TabbenchError, match="diverged: its loss is nan in epoch 1; try a lower lr"):
        pretrained(exp_lr=1e30)


def test_unseen_missing_numbers_and_unknown_categories_are_encoded() -> None:
    method = TJEPA(**TINY).fit(mixed_frame())
    strange = mixed_frame(5).assign(size=np.nan, colour="violet")
    assert np.isfinite(method.transform(strange)).all()


def test_a_large_representation_is_a_memory_mapped_file(monkeypatch: pytest.MonkeyPatch) -> None:
    method, table = pretrained(), mixed_table()
    expected = method.encode(table).array
    monkeypatch.setattr("tabbench.nn.memory.MAPPED_BYTES", 100)
    mapped = method.encode(table).array
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(mapped, expected)


def test_the_file_is_in_the_jobs_folder_and_its_limit_a_quarter_of_the_jobs_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path | None] = []
    original = tempfile.TemporaryFile

    def spy(*, dir: Path | None) -> Any:  # noqa: A002 - the standard library's name
        folders.append(dir)
        return original(dir=dir)

    monkeypatch.setattr("tempfile.TemporaryFile", spy)
    table = mixed_table()
    size = 70 * 5 * 8 * 4
    for memory, mapped in ((4 * size, False), (4 * size - 4, True)):
        method = TJEPA(**TINY)
        method.initialise(table, Context(memory=memory, scratch=tmp_path / "job"))
        assert isinstance(method.encode(table).array, np.memmap) == mapped
    assert folders == [tmp_path / "job"]


def test_an_mlp_predictor_too_large_for_any_memory_is_refused_in_words() -> None:
    method = TJEPA(masking="zero", predictor="mlp")
    with pytest.raises(UsageError, match=r"10.1 billion weights for 784 features"):
        method.initialise(small_table(784, 0), Context())


def test_inputs_stay_as_they_are_even_read_only() -> None:
    table = mixed_table()
    table.numeric.flags.writeable = table.categorical.flags.writeable = False
    pretrained(table=table).encode(table)


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"model_dim_hidden": 6, "model_num_heads": 4}, "model_num_heads=4 must divide model_dim_hidden=6"),
        ({"pred_embed_dim": 4, "pred_num_heads": 8}, "pred_num_heads=8 must divide pred_embed_dim=4"),
        ({"mask_min_ctx_share": 0.5, "mask_max_ctx_share": 0.2}, "is above mask_max_ctx_share"),
        ({"predictor": "mlp"}, "needs masking=zero"),
        ({"n_reg": 5}, "give at most 4"),
        ({"dim_hiden": 5}, "Did you mean: model_dim_hidden"),
        ({"dim_hidden": 8, "model_dim_hidden": 8}, "the same setting"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as error:
        _ = TJEPA(**settings).config
    assert "\n" not in str(error.value)


def test_settings_are_known_without_the_papers_prefixes() -> None:
    config = TJEPA(dim_hidden=16, lr=3e-4, epochs=7).config
    assert (config.model_dim_hidden, config.exp_lr, config.exp_epochs) == (16, 3e-4, 7)


@pytest.mark.parametrize(
    "flags, found",
    [("fpu avx512f avx512_bf16 amx_tile", True), ("fpu amx_bf16", True), ("fpu avx512f avx512_bf16x", False)],
)
def test_auto_is_resolved_by_the_cpu_that_plans_and_is_part_of_the_key(
    flags: str, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: avx512_bf16\n"
    monkeypatch.setattr(Path, "read_text", lambda path, **how: text)
    cpu_has_bf16.cache_clear()
    try:
        for config in (TJEPAConfig(), TJEPAConfig(bf16="auto")):
            assert config.to_json()["bf16"] is found
        assert TJEPAConfig(bf16=not found).to_json()["bf16"] is not found
    finally:
        cpu_has_bf16.cache_clear()


def test_presets_are_valid_and_mid_is_the_default() -> None:
    presets = {
        name: TJEPAConfig.resolve({key: value for key, value in preset.items() if key != "source"}, name)
        for name, preset in TJEPAConfig.presets().items()
    }
    assert set(presets) == {"tiny", "quick", "small", "mid", "paper-JA", "paper"}
    assert presets["mid"] == TJEPAConfig()
    assert {presets[name].scaling for name in ("tiny", "quick", "small", "mid")} == {"quantile"}
    assert presets["paper"].scaling == presets["paper-JA"].scaling == "standard"
    assert presets["tiny"] == presets["quick"]


def test_the_search_space_is_the_papers() -> None:
    space = TJEPAConfig.search_space()
    assert set(space) == {
        *("model_dim_hidden", "model_num_layers", "model_num_heads", "model_dim_feedforward", "model_dropout_prob"),
        *("mask_min_ctx_share", "mask_max_ctx_share", "mask_min_trgt_share", "mask_max_trgt_share"),
        *("pred_embed_dim", "pred_num_layers", "pred_num_heads", "pred_p_dropout", "exp_lr"),
    }
    assert str(space["pred_num_layers"]) == "{2, 4, 8, 16, 24, 32}"
    assert str(space["exp_lr"]) == "1e-05 .. 0.001 (log)"
