"""How T-JEPA is trained: masks for each batch, gradients in parts, and metrics during training.

The loop itself (batches, schedule, checkpoints, selection by probe) is ``tabbench.nn.train_pretext``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tabbench import Context, Table
from tabbench.nn import (
    Hooks,
    Pretext,
    Terms,
    TokenRows,
    backward_in_parts,
    device_memory,
    embedding_variance,
    is_collapsed,
    n_processes,
    own_share,
    parts,
    products_in,
    sum_over_processes,
    train_pretext,
    uniformity,
    warmup_cosine,
)
from tabbench_tjepa.alternatives import MLPPredictor
from tabbench_tjepa.config import TJEPAConfig
from tabbench_tjepa.masks import draw_masks
from tabbench_tjepa.memory import RESIDENT, encode_rows, micro_batch_rows
from tabbench_tjepa.objective import Follower, TJEPANetworks

if TYPE_CHECKING:
    from tabbench_tjepa.method import TJEPA

SAMPLE_ROWS = 256
"""Most training rows on which the representation is measured during training."""


def train(method: TJEPA, table: Table, context: Context) -> dict[str, Any]:
    """Pretrain the networks of ``method``, which are initialised; returns diagnostics."""
    config = method.config
    work = Work(method, table, context)
    return train_pretext(
        method.networks,
        make_optimizer(method.networks, config),
        Pretext(len(table), work.loss, in_parts=True, index_device=str(work.rows.numeric.device)),
        context,
        epochs=config.exp_epochs,
        batch_size=config.exp_batch_size or choose_batch_size(len(table)),
        identity=(config, table),
        generators=(work.mask_sizes, work.masks),
        encode=method.encode,
        drop_last=config.compile,
        min_rows=n_processes(),  # each has a share of every batch
        schedule=lambda step, total: warmup_cosine(step, total, round(total * config.exp_warmup_share)),
        hooks=Hooks(after_step=work.follower.follow, after_epoch=work.watch),
        probe_every=config.probe_every,
        checkpoint_seconds=config.checkpoint_seconds,
    )


class Work:
    """The parts of one pretraining: its rows on the device, its generators, the loss of a batch."""

    def __init__(self, method: TJEPA, table: Table, context: Context) -> None:
        self.method, self.config = method, method.config
        self.memory = device_memory(method.device, context.memory)
        self.rows = self._place(method.rows(table))
        self.mask_sizes = context.generator("mask sizes", "cpu")  # sizes become shapes, which the CPU must know
        self.masks = context.generator("masks")
        self.follower = Follower(method.networks, method.config)
        self.networks = compiled(method.networks) if self.config.compile else method.networks
        self.sample = self._draw_sample(context.generator("sample", str(self.rows.numeric.device)))

    def loss(self, index: Tensor) -> Terms:
        """Draw masks for the rows ``index``, and add the gradients of their loss, part by part."""
        config, d, n = self.config, self.method.schema.n_features, len(index)
        sizes = self.method.sizes.draw(self.mask_sizes)
        masks = draw_masks(n, d, sizes, config.mask_num_encs, config.mask_num_preds, self.method.device, self.masks)
        share = own_share(n)
        rows, masks = self._take(index[share]), masks.rows(share)

        def loss_of(part: slice) -> Tensor:
            with self._precision():
                loss = self.networks(rows.take(part), masks.rows(part))
            return loss * (len(rows) / n)

        at_once = micro_batch_rows(config, len(rows), d, sizes, self.method.device, self.memory)
        loss = backward_in_parts(loss_of, len(rows), at_once)
        return {"loss": sum_over_processes(self.method.networks.parameters(), loss)}

    def _precision(self) -> AbstractContextManager[Any]:
        """Mixed precision: on a CPU only products with weights are in bfloat16, elsewhere PyTorch decides."""
        if not self.config.bf16:
            return nullcontext()
        kind = torch.device(self.method.device).type
        return products_in(torch.bfloat16) if kind == "cpu" else torch.autocast(kind, torch.bfloat16)

    @torch.no_grad()
    def watch(self, done: int, total: int) -> dict[str, Any]:
        """Measure the representation of the sample, and how far the target encoder has moved."""
        values: dict[str, Any] = {}
        if done:
            values = {
                "ema": self.follower.momentum(done - 1, total),
                "target_moved": self.follower.moved(done, total),
            }
        if len(self.sample) < 2:
            return values
        at_once = encode_rows(self.config, self.method.schema.n_features, self.method.device)
        tokens = torch.cat([self.method.embed(self.sample.take(part)) for part in parts(len(self.sample), at_once)])
        return values | {
            "embedding_variance": embedding_variance(tokens),
            "uniformity": uniformity(tokens),
            "collapsed": is_collapsed(tokens),
        }

    def _place(self, rows: TokenRows) -> TokenRows:
        """Move the rows to the device if they fit; otherwise they stay, and each batch is moved."""
        device = self.method.device
        is_gpu = torch.device(device).type == "cuda"
        too_large = is_gpu and self.memory is not None and rows.nbytes > RESIDENT * self.memory
        return rows if too_large else rows.to(device)

    def _take(self, index: Tensor) -> TokenRows:
        """Rows by index, on the device; rows that stayed on the host are sent there without waiting."""
        rows = self.rows.take(index)
        is_there = rows.numeric.device.type == torch.device(self.method.device).type
        return rows if is_there else rows.send_to(self.method.device)

    def _draw_sample(self, generator: torch.Generator) -> TokenRows:
        # At most a quarter of the rows: measuring must stay cheap compared with an epoch of a small table.
        n = len(self.rows)
        size = min(n, SAMPLE_ROWS, max(n // 4, 64))
        return self._take(torch.randperm(n, generator=generator, device=generator.device)[:size])


def compiled(networks: TJEPANetworks) -> Callable[..., Tensor]:
    """The loss as one graph for each shape; there are at most sixteen, more than PyTorch expects."""
    import torch._dynamo

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 2 * 16)
    return torch.compile(networks, fullgraph=True, dynamic=False)


def choose_batch_size(n_rows: int) -> int:
    """The paper's 512 rows; on small tables fewer, for at least 16 steps per epoch, but at least 32 rows per step."""
    return min(512, max(n_rows // 16, 32))


def make_optimizer(networks: TJEPANetworks, config: TJEPAConfig) -> torch.optim.AdamW:
    """AdamW on the context encoder and the predictor; only the matrices of linear layers and MLPs decay."""
    decaying = {module.weight for module in networks.modules() if isinstance(module, nn.Linear)}
    if isinstance(networks.predictor, MLPPredictor):
        decaying |= {networks.predictor.weight1, networks.predictor.weight2}
    learning = [parameter for parameter in networks.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in learning if p in decaying], "weight_decay": config.exp_weight_decay},
        {"params": [p for p in learning if p not in decaying], "weight_decay": 0.0},
    ]
    fused = all(p.device.type in ("cpu", "cuda", "mps") for p in learning)
    return torch.optim.AdamW(groups, lr=config.exp_lr, fused=fused)
