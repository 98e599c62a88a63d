"""How T-JEPA is trained: masks, gradients in parts, moving average, schedules, and what is watched meanwhile."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from tabbench import Context, Interruption, Representation, TabbenchError, Table
from tabbench.nn import (
    EMA,
    TokenRows,
    count_batches,
    embedding_variance,
    generator_states,
    is_collapsed,
    linear,
    set_generator_states,
    shuffled_batches,
    uniformity,
    warmup_cosine,
)
from tabbench_tjepa.checkpoint import (
    load_optimizer_tensors,
    optimizer_tensors,
    read_checkpoint,
    with_prefix,
    without_prefix,
    write_checkpoint,
)
from tabbench_tjepa.config import TJEPAConfig
from tabbench_tjepa.masks import draw_masks
from tabbench_tjepa.memory import RESIDENT, device_memory, encode_rows, micro_batch_rows, parts
from tabbench_tjepa.networks import MLPPredictor, TJEPANetworks

if TYPE_CHECKING:
    from tabbench_tjepa.method import TJEPA

SAMPLE_ROWS = 256
"""Training rows, at most, on which the representation is watched while it is trained."""


class Training:
    """One pretraining: its data on the device, its generators, its optimiser and its curves."""

    def __init__(self, method: TJEPA, table: Table, context: Context) -> None:
        self.method, self.context = method, context
        self.config, self.networks = method.config, method.networks
        self.memory = device_memory(method.device, context.memory)
        self.rows = self._place(method.rows(table))
        self.batch_size = self.config.exp_batch_size or choose_batch_size(len(table))
        self.steps = count_batches(len(table), self.batch_size)
        self.step = self.epoch = 0
        self.optimizer = make_optimizer(self.networks, self.config)
        self.ema = EMA(self.networks.target_encoder, self.networks.context_encoder)
        self.loss: Callable[..., Tensor] = (
            torch.compile(self.networks, dynamic=True) if self.config.compile else self.networks
        )
        self.order = context.generator("order")
        self.mask_sizes = context.generator("mask sizes", "cpu")  # sizes are shapes: the CPU has to know them
        self.masks = context.generator("masks")
        self.curves: dict[str, list[Any]] = {}
        self.best: dict[str, Tensor] = {}
        self.best_score = float("-inf")
        self.best_epoch = 0
        self.sample = self._draw_sample()
        self.fingerprint = _fingerprint(method, table, context)
        self.saved_at = time.monotonic()
        self.unwritten: tuple[dict[str, Tensor], dict[str, Any]] | None = None

    def run(self) -> None:
        """Train to the end, from the last checkpoint if there is one; then keep the best weights."""
        if not self._resume():
            self.start = self._watch()
        self._publish()
        try:
            while self.epoch < self.config.exp_epochs:
                self._run_epoch()
        except Interruption:
            self._write()
            raise
        if self.best:
            self.networks.load_state_dict(self.best)

    def _run_epoch(self) -> None:
        """Train for an epoch, look at what it did, and tell."""
        total = self.config.exp_epochs
        values = {**self._train_epoch(), **self._watch()}
        self.epoch += 1
        if self.context.probe is not None and (self.epoch % self.config.probe_every == 0 or self.epoch == total):
            values["probe"] = self._probe(self.context.probe)
        for name, value in values.items():
            if name != "probe":
                self.curves.setdefault(name, []).append(value)
        self._publish()
        self._keep()
        self.context.report(self.epoch, total, **values)

    def _train_epoch(self) -> dict[str, float]:
        """One pass over the shuffled training rows; the mean loss and the last momentum."""
        self.networks.train()
        loss = torch.zeros((), device=self.method.device)
        batches = shuffled_batches(len(self.rows), self.batch_size, self.order)
        for batch in batches:
            self.context.check_deadline(f"in epoch {self.epoch + 1} of {self.config.exp_epochs}")  # which can be long
            loss += self.train_step(self._rows(batch)) * len(batch)
        self.networks.eval()
        mean = float(loss) / len(self.rows)
        if not math.isfinite(mean):
            lr = self.config.exp_lr
            raise TabbenchError(f"T-JEPA's loss is {mean} in epoch {self.epoch + 1}: try an exp_lr below {lr:g}")
        return {"loss": mean, "ema": self._momentum(self.step - 1)}

    def train_step(self, rows: TokenRows) -> Tensor:
        """Draw masks, descend, and let the target encoder follow."""
        config = self.config
        total = self.steps * config.exp_epochs
        lr = config.exp_lr * warmup_cosine(self.step, total, round(total * config.exp_warmup_share))
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        loss = self._backward(rows)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.ema.update(self._momentum(self.step))
        self.step += 1
        return loss

    def _backward(self, rows: TokenRows) -> Tensor:
        """Gradients of the batch's loss, part by part: the sum is the gradient of the whole."""
        n = len(rows)
        d = self.method.schema.n_features
        sizes = self.method.sizes.draw(self.mask_sizes)
        n_contexts, n_targets = self.config.mask_num_encs, self.config.mask_num_preds
        masks = draw_masks(n, d, sizes, n_contexts, n_targets, self.method.device, self.masks)
        total = torch.zeros((), device=self.method.device)
        for part in parts(n, micro_batch_rows(self.config, n, d, sizes, self.method.device, self.memory)):
            with torch.autocast(self.method.device.split(":")[0], torch.bfloat16, enabled=self.config.bf16):
                loss = self.loss(rows.take(part), masks.rows(part)) * ((part.stop - part.start) / n)
            loss.backward()
            total += loss.detach()
        return total

    def _momentum(self, step: int) -> float:
        total = self.steps * self.config.exp_epochs
        return linear(step, total, self.config.model_ema_start, self.config.model_ema_end)

    def _place(self, rows: TokenRows) -> TokenRows:
        """The rows on the device, if they fit; else they stay, and each batch is moved."""
        device = self.method.device
        is_gpu = torch.device(device).type == "cuda"
        too_large = is_gpu and self.memory is not None and rows.nbytes > RESIDENT * self.memory
        return rows if too_large else rows.to(device)

    def _rows(self, index: Tensor) -> TokenRows:
        return self.rows.take(index.to(self.rows.numeric.device)).to(self.method.device)

    def _draw_sample(self) -> TokenRows:
        # A quarter of the rows at most: watching must stay cheap beside an epoch of a small table.
        n = len(self.rows)
        size = min(n, SAMPLE_ROWS, max(n // 4, 64))
        generator = self.context.generator("sample")
        return self._rows(torch.randperm(n, generator=generator, device=generator.device)[:size])

    @torch.no_grad()
    def _watch(self) -> dict[str, Any]:
        """What the representation of the sample looks like: its variance over rows, its uniformity, collapse."""
        if len(self.sample) < 2:
            return {}
        at_once = encode_rows(self.config, self.method.schema.n_features, self.method.device)
        tokens = torch.cat([self.method.embed(self.sample.take(part)) for part in parts(len(self.sample), at_once)])
        return {
            "embedding_variance": embedding_variance(tokens),
            "uniformity": uniformity(tokens),
            "collapsed": is_collapsed(tokens),
        }

    def _probe(self, probe: Callable[[Callable[[Table], Representation]], float]) -> float:
        """Score the weights, and remember them if they are the best so far."""
        score = float(probe(self.method.encode))
        self.curves.setdefault("probe", []).append([self.epoch, score])
        if score > self.best_score or not self.best:
            self.best_score, self.best_epoch = score, self.epoch
            self.best = {name: tensor.detach().clone() for name, tensor in self.networks.state_dict().items()}
        return score

    def _publish(self) -> None:
        """Curves, one value an epoch, as the record will show them; ``start`` is the untrained encoder."""
        self.method.diagnostics = {
            **self.curves,
            "start": self.start,
            **({"best_epoch": self.best_epoch} if self.best else {}),
        }

    def _generators(self) -> dict[str, torch.Generator]:
        return {"order": self.order, "mask sizes": self.mask_sizes, "masks": self.masks}

    def _keep(self) -> None:
        """Hold on to the end of this epoch, in a file if that is due: an interruption may come amid the next epoch."""
        if self.context.scratch is None:
            return
        tensors = {
            **with_prefix("networks", self.networks.state_dict()),
            **with_prefix("best", self.best),
            **with_prefix("optimizer", optimizer_tensors(self.optimizer)),
            **{f"generator.{name}": generator.get_state() for name, generator in self._generators().items()},
            **with_prefix("global generator", generator_states(self.method.device)),
        }
        values = {
            "epoch": self.epoch,
            "step": self.step,
            "curves": self.curves,
            "start": self.start,
            "best_score": self.best_score if self.best else None,
            "best_epoch": self.best_epoch,
        }
        if time.monotonic() - self.saved_at >= self.config.checkpoint_seconds:
            self.unwritten = tensors, values
            self._write()
        else:
            copies = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
            self.unwritten = copies, values

    def _write(self) -> None:
        """Leave a checkpoint of the last epoch's end behind, unless there is one."""
        if self.context.scratch is not None and self.unwritten is not None:
            write_checkpoint(self.context.scratch, self.fingerprint, *self.unwritten)
            self.unwritten = None
            self.saved_at = time.monotonic()

    def _resume(self) -> bool:
        """Take up the last checkpoint of this training, so that all goes on as if it had never stopped."""
        found = None if self.context.scratch is None else read_checkpoint(self.context.scratch, self.fingerprint)
        if found is None:
            return False
        tensors, values = found
        self.networks.load_state_dict(without_prefix("networks", tensors))
        load_optimizer_tensors(self.optimizer, without_prefix("optimizer", tensors))
        device = self.method.device
        self.best = {name: tensor.to(device) for name, tensor in without_prefix("best", tensors).items()}
        for name, generator in self._generators().items():
            generator.set_state(tensors[f"generator.{name}"])
        set_generator_states(without_prefix("global generator", tensors), device)
        self.epoch, self.step = values["epoch"], values["step"]
        self.curves, self.start = values["curves"], values["start"]
        self.best_score = float("-inf") if values["best_score"] is None else values["best_score"]
        self.best_epoch = values["best_epoch"]
        return True


def choose_batch_size(n_rows: int) -> int:
    """The paper's 512 rows, but at least 16 steps an epoch and 32 rows a step: small tables need steps, too."""
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


def _fingerprint(method: TJEPA, table: Table, context: Context) -> str:
    """Of everything that decides how the training goes: a checkpoint of another training is not resumed."""
    said = {
        "config": method.config.to_json(),
        "schema": table.schema.to_json(),
        "seed": context.root_seed,
        "device": torch.device(context.device).type,  # its generators go on only there
        "probe": context.probe is not None,
    }
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
    for array in (table.numeric, table.categorical):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
