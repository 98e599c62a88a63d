"""What a GPU needs of T-JEPA, shown without one: nothing waits for the device, few shapes, several processes."""

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fake_cuda import Indexing, move
from small_settings import TINY_TJEPA
from tabbench_tjepa.config import TJEPAConfig
from tabbench_tjepa.masks import MaskSizes, draw_masks
from tabbench_tjepa.memory import micro_batch_rows
from tabbench_tjepa.method import COMPILED_SIZES, TJEPA
from tabbench_tjepa.objective import Follower, TJEPANetworks
from tabbench_tjepa.training import Work, compiled, make_optimizer, train
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from tabbench import Context, Schema, Table
from tabbench.nn import Hooks, Pretext, TokenRows, own_share, warmup_cosine
from tabbench.nn.pretext import _Plan, _Training

DROPOUT: dict[str, Any] = {"model_dropout_prob": 0.1, "pred_p_dropout": 0.1}
WAITING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


class WaitsError(Exception):
    pass


class NoWaiting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses what makes the CPU wait for a device: reading a number, shapes that depend on data, copies from or to it.

    A copy to the device may be made without waiting; from it, what is copied would be read too early.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        on_device = any(tensor.device.type != "cpu" for tensor in given)
        if on_device and WAITING & set(func.tags):
            raise WaitsError(str(func))
        out = func(*args, **kwargs)
        if func in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default):
            to_device, source = out.device.type != "cpu", given[-1].device.type
            is_asynchronous = to_device and (kwargs.get("non_blocking") or args[2:] == (True,))
            if to_device != (source != "cpu") and not is_asynchronous:
                raise WaitsError(str(func))
        return out


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes every operation."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations.append(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: bool(x.any()),
        lambda x: x.cpu(),
        lambda x: x.to("cpu", non_blocking=True),
        lambda x: torch.ops.aten._to_copy.default(torch.zeros(3), device="cuda"),
        lambda x: torch.zeros(3, device="meta").copy_(torch.zeros(3)),
        torch.ops.aten.nonzero.default,
        lambda x: torch.ops.aten.masked_select.default(x, x > 0),
    ],
    ids=["item", "bool", "cpu", "cpu later", "cuda", "filled", "nonzero", "mask"],
)
def test_the_guard_against_waiting_sees_it(wait: Any) -> None:
    with FakeTensorMode(), torch.no_grad():
        x = torch.empty(3, device="cuda")
        with NoWaiting(), pytest.raises(WaitsError):
            wait(x)


@pytest.mark.parametrize(
    "settings",
    [{}, {"mask_num_encs": 2}, {"masking": "zero"}, DROPOUT],
    ids=str,
)
def test_masks_and_loss_on_cuda_wait_for_nothing(settings: dict[str, Any]) -> None:
    config = TJEPAConfig(**TINY_TJEPA, **settings)
    networks = TJEPANetworks(config, Schema(tuple("abcde")), missing=False).train()
    with FakeTensorMode(), torch.no_grad(), Indexing():
        move(networks, "cuda")
        rows = TokenRows(
            torch.zeros(9, 5, device="cuda"),
            torch.zeros(9, 0, device="cuda"),
            torch.zeros(9, 0, dtype=torch.int64, device="cuda"),
        )
        index = torch.arange(6, device="cuda")
        with NoWaiting():
            masks = draw_masks(6, 5, (2, 2), config.mask_num_encs, 4, "cuda", None)
            loss = networks(rows.take(index), masks)
    assert loss.device.type == "cuda"


@pytest.mark.parametrize("settings", [{}, DROPOUT], ids=str)
def test_the_loss_on_cuda_is_one_graph_without_a_break(settings: dict[str, Any]) -> None:
    """Forward: gradients on CUDA need a CUDA build; on the CPU they are compiled in the slow test below."""
    config = TJEPAConfig(**TINY_TJEPA, **settings)
    networks = TJEPANetworks(config, Schema(tuple("abcde")), missing=False).train()
    counter = CompileCounterWithBackend("aot_eager")
    with FakeTensorMode(), torch.no_grad(), Indexing():
        move(networks, "cuda")
        networks.requires_grad_(False)
        rows = TokenRows(
            torch.zeros(6, 5, device="cuda"),
            torch.zeros(6, 0, device="cuda"),
            torch.zeros(6, 0, dtype=torch.int64, device="cuda"),
        )
        masks = draw_masks(6, 5, (2, 2), 1, 4, "cuda", None)
        loss = torch.compile(networks, backend=counter, fullgraph=True, dynamic=False)(rows, masks)
    torch._dynamo.reset()
    assert loss.device.type == "cuda"
    assert counter.frame_count == 1


def test_a_compiled_loss_has_dropout_on_a_cpu_too() -> None:
    """The paper's settings, on a machine that turns out to have no GPU."""
    networks = TJEPANetworks(TJEPAConfig(**TINY_TJEPA, **DROPOUT), Schema(tuple("abcde")), missing=False).train()
    rows = TokenRows(torch.randn(6, 5), torch.zeros(6, 0), torch.zeros(6, 0, dtype=torch.int64))
    masks = draw_masks(6, 5, (2, 2), 1, 4, "cpu", None)
    loss = torch.compile(networks, backend="eager", fullgraph=True, dynamic=False)
    first, second = loss(rows, masks), loss(rows, masks)
    first.backward()
    torch._dynamo.reset()
    assert torch.isfinite(first)
    assert first != second, "dropout is drawn anew"


def test_the_moving_average_is_one_operation_and_the_optimiser_is_fused() -> None:
    config = TJEPAConfig(**TINY_TJEPA)
    networks = TJEPANetworks(config, Schema(tuple("abcde")), missing=False)
    assert all(group["fused"] for group in make_optimizer(networks, config).param_groups)
    move(networks, "meta")
    assert all(group["fused"] is False for group in make_optimizer(networks, config).param_groups), "it would not run"
    follower = Follower(networks, config)
    with Counting() as counting:
        follower.follow(0, 10)
    lerp, copy = torch.ops.aten._foreach_lerp_.Scalar, torch.ops.aten.copy_.default
    assert counting.operations == [lerp, copy], "all weights at once, and the one buffer of whole numbers"


def test_gradients_optimiser_and_moving_average_wait_for_nothing() -> None:
    """On the meta device, which has no numbers that could be waited for; gradients on CUDA need a CUDA build."""
    config = TJEPAConfig(**TINY_TJEPA)
    networks = TJEPANetworks(config, Schema(tuple("abcde")), missing=False).train()
    move(networks, "meta")
    rows = TokenRows(
        torch.zeros(6, 5, device="meta"),
        torch.zeros(6, 0, device="meta"),
        torch.zeros(6, 0, dtype=torch.int64, device="meta"),
    )
    optimizer, follower = make_optimizer(networks, config), Follower(networks, config)
    with NoWaiting():
        networks(rows, draw_masks(6, 5, (2, 2), 1, 4, "meta", None)).backward()
        optimizer.step()
        follower.follow(0, 10)
    assert all(parameter.grad is not None for parameter in networks.predictor.parameters())


@pytest.mark.parametrize("rows, d, k", [(60, 5, 4), (6, 9, 4), (6, 5, 2)])
def test_a_step_has_as_many_operations_for_more_rows_features_or_targets(rows: int, d: int, k: int) -> None:
    def operations(rows: int, d: int, k: int) -> int:
        networks = TJEPANetworks(TJEPAConfig(**TINY_TJEPA), Schema(tuple(f"x{j}" for j in range(d))), missing=False)
        move(networks.train(), "meta")
        numbers, nothing = torch.zeros(rows, d, device="meta"), torch.zeros(rows, 0, device="meta")
        with Counting() as counting:
            masks = draw_masks(rows, d, (2, 2), 1, k, "meta", None)
            networks(TokenRows(numbers, nothing, nothing.long()), masks).backward()
        return len(counting.operations)

    assert operations(rows, d, k) == operations(6, 5, 4) > 100


@pytest.mark.parametrize("settings", [{}, {"mask_num_encs": 2}, {"frozen_target": True}], ids=str)
def test_a_whole_step_of_the_loop_waits_for_nothing(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows by index, masks, gradients in parts, optimiser, schedule, moving average, the sum of losses: all on meta."""
    method, table, context = TJEPA(**TINY_TJEPA, bf16=False, **settings), small_table(), Context()
    method.initialise(table, context)
    work = Work(method, table, context)
    move(method.networks, "meta")
    work.rows, method.device, work.masks = work.rows.to("meta"), "meta", None  # type: ignore[assignment]
    monkeypatch.setattr("tabbench_tjepa.training.micro_batch_rows", lambda *_: 4)
    work.follower, optimizer = Follower(method.networks, method.config), make_optimizer(method.networks, method.config)
    plan = _Plan(2, 7, False, 1, lambda step, total: warmup_cosine(step, total, 2), None, 1, True)
    hooks = Hooks(after_step=work.follower.follow)
    pretext = Pretext(64, work.loss, in_parts=True, index_device="cpu")
    training = _Training(method.networks, optimizer, pretext, None, context, plan, hooks, None, ())
    method.networks.train()
    with NoWaiting(), Indexing():
        for step in range(2):
            training._step(torch.arange(7, device="meta"), step, 20)
    assert training.sums["loss"].device.type == "meta"


def all_sizes(d: int) -> list[tuple[int, int]]:
    sizes = MaskSizes(d, (0.1363, 0.3682), (0.1556, 0.6222), COMPILED_SIZES)
    return [(n_ctx, n_tgt) for n_ctx in sizes.choices[0] for n_tgt in sizes.choices[1] if n_ctx + n_tgt <= d]


@pytest.mark.parametrize("d", [2, 8, 54, 128, 784])
def test_a_compiled_training_has_at_most_sixteen_shapes(d: int) -> None:
    sizes = MaskSizes(d, (0.1363, 0.3682), (0.1556, 0.6222), COMPILED_SIZES)
    generator = torch.Generator().manual_seed(0)
    drawn = {sizes.draw(generator) for _ in range(400)}
    assert drawn == set(all_sizes(d))
    assert len(drawn) <= 16
    assert {size[0] for size in drawn} >= {sizes.context[0], sizes.context[1]} or d < 8
    config = TJEPAConfig(compile=True)
    for n_rows in (512, 96):
        parts = {micro_batch_rows(config, n_rows, d, size, "cpu", None) for size in drawn}
        assert all(n_rows % part == 0 for part in parts)
    assert micro_batch_rows(TJEPAConfig(compile=True, micro_batch=33), 512, d, (1, 1), "cpu", None) == 32


@pytest.mark.parametrize("compiling, most", [(True, COMPILED_SIZES), (False, 27)])
def test_only_a_compiled_training_has_few_sizes(compiling: bool, most: int) -> None:
    values = np.random.default_rng(0).normal(size=(10, 54)).astype(np.float32)
    table = Table(values, np.empty((10, 0), dtype=np.int64), Schema(tuple(f"x{j}" for j in range(54))))
    method = TJEPA(**TINY_TJEPA, compile=compiling)
    method.initialise(table, Context())
    assert max(len(sizes) for sizes in method.sizes.choices) == most


@pytest.mark.slow
def test_every_shape_compiles_once_into_one_graph_without_a_break() -> None:
    d, n_rows = 54, 8
    networks = TJEPANetworks(TJEPAConfig(**TINY_TJEPA), Schema(tuple(f"x{j}" for j in range(d))), missing=False).train()
    rows = TokenRows(torch.randn(n_rows, d), torch.zeros(n_rows, 0), torch.zeros(n_rows, 0, dtype=torch.int64))
    counter = CompileCounterWithBackend("aot_eager")
    compiled(networks)  # raises the limit of shapes
    torch._dynamo.reset()
    loss = torch.compile(networks, backend=counter, fullgraph=True, dynamic=False)
    for _ in range(2):
        for size in all_sizes(d):
            masks = draw_masks(n_rows, d, size, 1, 4, "cpu", torch.Generator().manual_seed(0))
            value = loss(rows, masks)
            value.backward()
            torch.testing.assert_close(value, networks(rows, masks), rtol=1e-3, atol=1e-4)
    torch._dynamo.reset()
    assert counter.frame_count == len(all_sizes(d)) <= 16


def small_table(rows: int = 64) -> Table:
    values = np.random.default_rng(0).normal(size=(rows, 5)).astype(np.float32)
    return Table(values, np.empty((rows, 0), dtype=np.int64), Schema(tuple("abcde")))


@pytest.mark.parametrize("free, placed", [(4 * 64 * 5 * 4, ["cuda"]), (4 * 64 * 5 * 4 - 4, [])])
def test_a_table_is_on_the_gpu_if_a_quarter_of_its_memory_holds_it(
    free: int, placed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    method, table, context = TJEPA(**TINY_TJEPA), small_table(), Context()
    method.initialise(table, context)
    method.device = "cuda"
    found: list[Any] = []

    def to(rows: TokenRows, device: Any) -> TokenRows:
        found.append(device)
        return rows

    monkeypatch.setattr(TokenRows, "to", to)
    monkeypatch.setattr(TokenRows, "send_to", lambda rows, device: rows)
    monkeypatch.setattr("tabbench_tjepa.training.device_memory", lambda *_: free)
    Work(method, table, context)
    assert found == placed


def test_the_order_of_rows_is_drawn_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    method, table, context = TJEPA(**TINY_TJEPA), small_table(), Context()
    method.initialise(table, context)
    where: list[str] = []
    monkeypatch.setattr(
        "tabbench_tjepa.training.train_pretext", lambda *given, **_: where.append(given[2].index_device)
    )
    monkeypatch.setattr(Context, "generator", lambda *_: torch.Generator())
    for device in ("cpu", "meta"):
        method.device = device
        train(method, table, context)
    assert where == ["cpu", "meta"]


def test_rows_that_stay_outside_a_gpu_are_sent_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    method, table, context = TJEPA(**TINY_TJEPA), small_table(), Context()
    method.initialise(table, context)
    work = Work(method, table, context)
    sent: list[int] = []

    def send_to(rows: TokenRows, device: Any) -> TokenRows:
        sent.append(len(rows))
        return rows

    monkeypatch.setattr(TokenRows, "send_to", send_to)
    work._take(torch.arange(7))
    assert sent == []
    method.device = "cuda"
    work._take(torch.arange(7))
    assert sent == [7]


def test_what_is_sent_is_pinned_first_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    pinned = torch.zeros(7, 5)

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        calls.append("pin")
        return pinned

    def to(tensor: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        assert tensor is pinned
        calls.append((arguments, options))
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(torch.Tensor, "to", to)
    rows = TokenRows(torch.zeros(7, 5), torch.zeros(7, 0), torch.zeros(7, 0, dtype=torch.int64))
    rows.send_to("cuda")
    assert calls == ["pin", (("cuda",), {"non_blocking": True})] * 3


def test_mixed_precision_is_autocast_on_a_gpu_and_products_alone_on_a_cpu() -> None:
    method, table, context = TJEPA(**TINY_TJEPA, bf16=True), small_table(), Context()
    method.initialise(table, context)
    work = Work(method, table, context)
    assert not isinstance(work._precision(), torch.autocast)
    method.device = "cuda"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that there is no CUDA
        how = work._precision()
    assert isinstance(how, torch.autocast)
    assert (how.device, how.fast_dtype) == ("cuda", torch.bfloat16)


def test_a_single_process_works_on_the_whole_batch() -> None:
    assert own_share(10) == slice(0, 10)


@pytest.mark.parametrize("processes, compiling, last", [(1, False, 6), (6, False, 6), (7, False, 0), (1, True, 0)])
def test_only_a_last_batch_that_cannot_be_used_is_left_out(
    processes: int, compiling: bool, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no row for each process, or would be one more shape to compile."""
    batches: list[int] = []

    def noted(work: Work, index: torch.Tensor) -> dict[str, torch.Tensor]:
        batches.append(len(index))
        return {"loss": torch.zeros(())}

    monkeypatch.setattr(Work, "loss", noted)
    monkeypatch.setattr("tabbench_tjepa.training.n_processes", lambda: processes)
    settings = {**TINY_TJEPA, "exp_epochs": 1, "exp_batch_size": 32, "compile": compiling}
    TJEPA(**settings).pretrain(small_table(70), Context())
    assert batches == [32, 32, *[last] * bool(last)]


PARALLEL = """
import json, sys
import numpy as np
import torch
import torch.distributed as dist
from tabbench import Context, Schema, Table
from tabbench_tjepa.method import TJEPA

torch.set_num_threads(1)
if sys.argv[1] != "alone":
    dist.init_process_group("gloo")
values = np.random.default_rng(0).normal(size=(70, 5)).astype(np.float32)
table = Table(values, np.empty((70, 0), dtype=np.int64), Schema(tuple("abcde")))
method = TJEPA(**json.loads(sys.argv[2]))
method.pretrain(table, Context())
if sys.argv[1] == "alone" or dist.get_rank() == 0:
    print(json.dumps(method.diagnostics["loss"]))
"""


@pytest.mark.slow
def test_two_processes_have_the_loss_curve_of_one(tmp_path: Path) -> None:
    """Up to the order of sums: a relative tolerance of 1e-4 over 20 epochs."""
    import json

    script = tmp_path / "train.py"
    script.write_text(PARALLEL, encoding="utf-8")
    settings = json.dumps({**TINY_TJEPA, "exp_epochs": 20, "exp_batch_size": 32, "bf16": False})
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def losses(*command: str) -> list[float]:
        done = subprocess.run(
            [*command, settings], capture_output=True, text=True, env=environment, check=True, timeout=120
        )
        found: list[float] = json.loads(done.stdout.splitlines()[-1])
        return found

    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script), "together"]
    alone, together = losses(sys.executable, str(script), "alone"), losses(sys.executable, *launcher)
    assert len(alone) == 20
    assert together == pytest.approx(alone, rel=1e-4)
    assert alone[-1] != pytest.approx(alone[0], rel=0.05), "it learns"
