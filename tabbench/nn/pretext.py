"""One training loop for pretext tasks: index batches, a schedule, early stopping on fixed validation rows."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tabbench.context import Context
from tabbench.errors import TabbenchError
from tabbench.nn.batches import count_batches, shuffled_batches
from tabbench.nn.devices import seeded

Terms = Mapping[str, torch.Tensor]
"""Terms of a loss by name, scalars; ``"loss"`` is the one that is minimised."""


@dataclass(frozen=True)
class Pretext:
    """A loss on some rows, given by their indices."""

    n_rows: int
    loss: Callable[[torch.Tensor], Terms]


def train_pretext(
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    train: Pretext,
    context: Context,
    *,
    epochs: int,
    batch_size: int,
    drop_last: bool = False,
    min_rows: int = 1,
    schedule: Callable[[int, int], float] | None = None,
    before_epoch: Callable[[], None] | None = None,
    validation: Pretext | None = None,
    patience: int | None = None,
) -> dict[str, Any]:
    """Train ``network`` (encoder and heads together) and leave it in evaluation mode.

    Args:
        network: everything that is trained; its weights are restored to the best epoch if ``patience`` is set.
        optimiser: over the parameters of ``network``.
        train: the loss of training rows; ``network`` is in training mode when it is called.
        context: seeds of batches and dropout, and the listener of reports.
        epochs: at most this many.
        batch_size: rows in a step.
        drop_last: leave an incomplete last batch out.
        min_rows: leave an incomplete last batch out if it has fewer rows.
        schedule: factor of the learning rate, from ``(step, number of steps)``.
        before_epoch: called before each epoch, for instance to draw its corruption.
        validation: the loss of validation rows. Their corruption should be drawn once: only then do epochs compare.
        patience: stop after this many epochs without a better validation loss; None, or no ``validation``: never.

    Returns:
        Diagnostics: epochs run, best epoch, each term of the loss in the first and the last epoch.

    Raises:
        TabbenchError: the loss of validation rows was never finite.
    """
    n_steps = count_batches(train.n_rows, batch_size, drop_last=drop_last, min_rows=min_rows)
    rates = [group["lr"] for group in optimiser.param_groups]
    order = context.generator("batches")
    history: list[dict[str, float]] = []
    best, best_epoch, best_weights = math.inf, 0, None
    with seeded(context.seed("dropout"), context.device):
        for epoch in range(1, epochs + 1):
            if before_epoch is not None:
                before_epoch()
            network.train()
            sums: dict[str, torch.Tensor] = {}
            batches = shuffled_batches(train.n_rows, batch_size, order, drop_last=drop_last, min_rows=min_rows)
            for step, rows in enumerate(batches, (epoch - 1) * n_steps):
                if schedule is not None:
                    for group, rate in zip(optimiser.param_groups, rates, strict=True):
                        group["lr"] = rate * schedule(step, epochs * n_steps)
                terms = train_step(optimiser, train, rows)
                for name, value in terms.items():  # summed on the device: reading a number would wait for it
                    sums[name] = sums[name] + value if name in sums else value
                context.check_deadline(f"in epoch {epoch} of {epochs}")  # an epoch can be long
            metrics = {name: float(value) / n_steps for name, value in sums.items()}
            if validation is not None and validation.n_rows:
                metrics["validation_loss"] = evaluate(network, validation, batch_size, context.device)
                if math.isfinite(metrics["validation_loss"]) and metrics["validation_loss"] < best:
                    best, best_epoch = metrics["validation_loss"], epoch
                    best_weights = copy.deepcopy(network.state_dict()) if patience is not None else None
            history.append(metrics)
            context.report(epoch, epochs, **metrics)
            if patience is not None and "validation_loss" in metrics and epoch - best_epoch >= patience:
                break
    if history and "validation_loss" in history[-1] and best_epoch == 0:
        raise TabbenchError(f"the training diverged: no finite validation loss in {len(history)} epochs; lower lr")
    if best_weights is not None:
        network.load_state_dict(best_weights)
    network.eval()
    return {
        "epochs": len(history),
        "best_epoch": best_epoch if best_weights is not None else len(history),
        "first": history[0] if history else {},
        "last": history[-1] if history else {},
    }


def train_step(optimiser: torch.optim.Optimizer, task: Pretext, rows: torch.Tensor) -> Terms:
    """One step; returns the terms of the loss before it, still on the device."""
    terms = task.loss(rows)
    optimiser.zero_grad(set_to_none=True)
    terms["loss"].backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return {name: value.detach() for name, value in terms.items()}


@torch.no_grad()
def evaluate(network: nn.Module, task: Pretext, batch_size: int, device: str) -> float:
    """The mean loss over all rows of ``task``, in order, without training."""
    network.eval()
    total = 0.0
    for rows in torch.split(torch.arange(task.n_rows, device=device), batch_size):
        total += float(task.loss(rows)["loss"]) * len(rows)
    return total / task.n_rows
