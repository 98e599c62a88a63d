"""The loop of every pretraining: batches by index, schedules, selection of weights, checkpoints, deadlines, reports.

A method provides a loss for some rows; hooks before an epoch, after a step and after an epoch do the rest. A training
that is killed or interrupted, even in the middle of an epoch, resumes from its last checkpoint and ends with exactly
the bytes it would have had.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tabbench.context import Context
from tabbench.contracts.configurable import Diagnostics
from tabbench.errors import Interruption, TabbenchError
from tabbench.nn.batches import count_batches, shuffled_batches
from tabbench.nn.checkpoints import (
    Checkpoint,
    fingerprint_of,
    load_optimizer_tensors,
    optimizer_tensors,
    read_checkpoint,
    with_prefix,
    without_prefix,
    write_checkpoint,
)
from tabbench.nn.devices import generator_states, seeded, set_generator_states
from tabbench.nn.parallel import is_first_process
from tabbench.values import Representation, Table

CHECKPOINT_SECONDS = 60.0
"""Minimum time between checkpoints. An interruption (deadline, pruning) writes one at once."""
PROBES = 10
"""Approximate number of probes if a method does not say how often: enough for pruning, and cheap."""

Terms = Mapping[str, Tensor]
"""Terms of a loss by name, scalars; ``"loss"`` is the one that is minimised."""


@dataclass(frozen=True)
class Pretext:
    """A loss on some rows, given by their indices."""

    n_rows: int
    loss: Callable[[Tensor], Terms]
    in_parts: bool = False
    """Whether ``loss`` has already computed the gradients, as ``backward_in_parts`` does."""
    index_device: str | None = None
    """Where the indices are wanted; None: on the device of the training."""


@dataclass(frozen=True)
class Hooks:
    """What a method does besides the steps of its optimiser.

    State that must survive a kill belongs in the network as a buffer (a bank, a moving average), or must follow from
    the generators given to ``train_pretext``.
    """

    before_epoch: Callable[[], None] = lambda: None
    """For instance to draw the epoch's corruption. It is called again when a training resumes in mid-epoch."""
    after_step: Callable[[int, int], None] = lambda step, total: None
    """Called with the number of the step, from 0, and the planned number of steps: moving averages, banks."""
    after_epoch: Callable[[int, int], Mapping[str, float]] = lambda done, total: {}
    """More values to report and record of an epoch, from the numbers of steps done and planned. It is called before the
    first epoch too, for the untrained network."""


def train_pretext(
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    train: Pretext,
    context: Context,
    *,
    epochs: int,
    batch_size: int,
    identity: Sequence[Any],
    generators: Sequence[torch.Generator] = (),
    encode: Callable[[Table], Representation] | None = None,
    drop_last: bool = False,
    min_rows: int = 1,
    schedule: Callable[[int, int], float] | None = None,
    hooks: Hooks | None = None,
    validation: Pretext | None = None,
    patience: int | None = None,
    probe_every: int | None = None,
    select_untrained: bool = True,
    stage: str = "",
    checkpoint_seconds: float | None = None,
) -> Diagnostics:
    """Train ``network`` (encoder and heads together) and leave it in evaluation mode with the best weights.

    The linear probe chooses the weights if the context has one, else the validation loss; otherwise the last ones are
    kept. The untrained weights compete as epoch 0, so that a pretraining that only hurts is not kept.

    Args:
        network: everything that is trained, or changes while it is.
        optimiser: over the parameters of ``network``.
        train: the loss of training rows; ``network`` is in training mode when it is called.
        context: seeds of batches and dropout, probe, deadline, folder of checkpoints, and the listener of reports.
        epochs: at most this many.
        batch_size: rows per step.
        identity: what determines the training, such as settings and table. A checkpoint of another training is not
            resumed.
        generators: every generator that the loss or the hooks draw from.
        encode: the method's encoder as it stands, for the probe; None: never probe.
        drop_last: drop an incomplete last batch.
        min_rows: drop an incomplete last batch if it has fewer rows.
        schedule: factor of the learning rate, from ``(step, number of steps)``.
        hooks: what else happens.
        validation: the loss of validation rows. Their corruption should be drawn once: only then do epochs compare.
            A tuner prunes by its term ``"score"``: higher is better, and comparable between settings.
        patience: stop after this many epochs without a better validation loss; None, or no ``validation``: never.
        probe_every: epochs between two probes; None: about ten probes in all.
        select_untrained: whether the untrained weights take part in the selection.
        stage: name of this training, for a method that has several. Its end is kept until the last stage is done.
        checkpoint_seconds: minimum time between checkpoints; None: a minute.

    Returns:
        Diagnostics: number of epochs, best epoch and what chose it, a curve of every value, probes by epoch.

    Raises:
        TabbenchError: the loss is not finite, or that of validation rows never was.
    """
    probe_every = probe_every or -(-epochs // PROBES) or 1
    plan = _Plan(epochs, batch_size, drop_last, min_rows, schedule, patience, probe_every, select_untrained)
    training = _Training(
        network, optimiser, train, validation, context, plan, hooks or Hooks(), encode, tuple(generators)
    )
    with seeded(context.seed("dropout"), context.device):
        if context.scratch is not None:
            name = f"checkpoint-{stage}.safetensors" if stage else "checkpoint.safetensors"
            surroundings = [epochs, batch_size, stage, context.root_seed, torch.device(context.device).type]
            probed = [context.probe is not None, validation is not None, torch.__version__]
            fingerprint = fingerprint_of(*identity, *surroundings, *probed)
            seconds = CHECKPOINT_SECONDS if checkpoint_seconds is None else checkpoint_seconds
            training.keep_in(_Keeper(context.scratch / name, fingerprint, seconds))
        training.run(keep_end=bool(stage))
    return training.diagnostics()


@dataclass(frozen=True)
class _Plan:
    epochs: int
    batch_size: int
    drop_last: bool
    min_rows: int
    schedule: Callable[[int, int], float] | None
    patience: int | None
    probe_every: int
    select_untrained: bool

    def steps_of(self, n_rows: int) -> int:
        return count_batches(n_rows, self.batch_size, drop_last=self.drop_last, min_rows=self.min_rows)


@dataclass
class _Keeper:
    """Where checkpoints go, and when the last one was written."""

    path: Path
    fingerprint: str
    seconds: float
    written: float = field(default_factory=time.monotonic)

    @property
    def is_due(self) -> bool:
        return time.monotonic() - self.written >= self.seconds

    def write(self, checkpoint: Checkpoint) -> None:
        if is_first_process():
            write_checkpoint(self.path, self.fingerprint, checkpoint)
        self.written = time.monotonic()

    def read(self) -> Checkpoint | None:
        return read_checkpoint(self.path, self.fingerprint)


@dataclass
class _Progress:
    """The progress of a training: everything about it that is not a tensor, as JSON."""

    epoch: int = 0
    """Finished epochs."""
    batch: int = 0
    """Finished batches of the current epoch."""
    best_epoch: int = 0
    best_score: float | None = None
    lowest: float | None = None
    """Validation loss, the lowest so far of a trained network, and its epoch."""
    lowest_epoch: int = 0
    finished: bool = False
    start: dict[str, float] = field(default_factory=dict)
    curves: dict[str, list[Any]] = field(default_factory=dict)
    probes: list[list[float]] = field(default_factory=list)


class _Training:
    """One training: what changes while it runs, and how that is saved and resumed."""

    def __init__(
        self,
        network: nn.Module,
        optimiser: torch.optim.Optimizer,
        train: Pretext,
        validation: Pretext | None,
        context: Context,
        plan: _Plan,
        hooks: Hooks,
        encode: Callable[[Table], Representation] | None,
        generators: tuple[torch.Generator, ...],
    ) -> None:
        self.network, self.optimiser, self.train, self.context = network, optimiser, train, context
        self.validation = validation if validation is not None and validation.n_rows else None
        self.plan, self.hooks, self.encode = plan, hooks, encode
        self.n_steps = plan.steps_of(train.n_rows)
        self.order = context.generator("batches", train.index_device)
        self.generators = (self.order, *generators)
        self.rates = [group["lr"] for group in optimiser.param_groups]
        self.progress = _Progress()
        self.sums: dict[str, Tensor] = {}
        self.best: dict[str, Tensor] = {}
        self.epoch_start: dict[str, Tensor] = {}
        self.resume_with: dict[str, Tensor] = {}
        self.keeper: _Keeper | None = None
        self.is_between_steps = True

    @property
    def selected_by(self) -> str:
        if self.context.probe is not None and self.encode is not None:
            return "probe"
        return "last" if self.validation is None else "validation_loss"

    def keep_in(self, keeper: _Keeper) -> None:
        """Write checkpoints there, and resume from an existing one."""
        self.keeper = keeper
        found = keeper.read()
        if found is not None:
            self._take_up(found)

    def run(self, keep_end: bool) -> None:
        """Train to the end, and keep the best weights."""
        progress = self.progress
        try:
            if not progress.epoch and not progress.batch:
                self._judge_untrained()
            while not progress.finished and progress.epoch < self.plan.epochs:
                self._run_epoch()
            progress.finished = True
            if keep_end and self.keeper is not None:
                self.keeper.write(self._written_down())
        except Interruption:
            if self.keeper is not None and self.is_between_steps and (progress.epoch or progress.batch):
                self.keeper.write(self._written_down())
            raise
        if self.best:
            self.network.load_state_dict(self.best)
        self.network.eval()

    def diagnostics(self) -> Diagnostics:
        progress, by = self.progress, self.selected_by
        return {
            "epochs": progress.epoch,
            "best_epoch": progress.epoch if by == "last" else progress.best_epoch,
            "selected_by": by,
            "start": progress.start,
            **progress.curves,
            **({"probe": progress.probes} if progress.probes else {}),
        }

    # An epoch.

    def _judge_untrained(self) -> None:
        self.network.eval()
        progress = self.progress
        progress.start = dict(self.hooks.after_epoch(0, self.n_steps * self.plan.epochs))
        if not self.plan.select_untrained or not self.plan.epochs:
            return
        if self.selected_by == "probe":
            self._select(self._probe())
        elif self.validation is not None:
            progress.start |= self._validate()
            self._select(-progress.start["validation_loss"])

    def _run_epoch(self) -> None:
        progress, plan = self.progress, self.plan
        self._train_epoch()
        self.network.eval()
        values: dict[str, float] = {name: float(value) / self.n_steps for name, value in self.sums.items()}
        if not math.isfinite(values["loss"]):
            raise TabbenchError(
                f"training diverged: its loss is {values['loss']} in epoch {progress.epoch + 1}; try a lower lr"
            )
        values |= self.hooks.after_epoch((progress.epoch + 1) * self.n_steps, plan.epochs * self.n_steps)
        if self.validation is not None:
            values |= self._validate()
        for name, value in values.items():
            progress.curves.setdefault(name, []).append(value)
        progress.epoch, progress.batch, self.sums = progress.epoch + 1, 0, {}
        self._stop_if_idle(values.get("validation_loss"))
        is_last = progress.finished or progress.epoch == plan.epochs
        if self.selected_by == "probe" and (is_last or progress.epoch % plan.probe_every == 0):
            values["probe"] = self._probe()
            self._select(values["probe"])
        elif self.selected_by == "validation_loss":
            self._select(-values["validation_loss"])
        if self.keeper is not None and self.keeper.is_due:
            self.keeper.write(self._written_down())
        self.context.report(progress.epoch, plan.epochs, **values)

    def _train_epoch(self) -> None:
        progress, plan = self.progress, self.plan
        self.epoch_start = self._states()
        self.hooks.before_epoch()
        n_steps = self.n_steps
        batches = shuffled_batches(
            self.train.n_rows, plan.batch_size, self.order, drop_last=plan.drop_last, min_rows=plan.min_rows
        )
        self.network.train()
        for number, rows in enumerate(batches):
            if number == 0 and self.resume_with:  # the epoch's draws were made again; now on as if nothing had happened
                self._set_states(self.resume_with)
                self.resume_with = {}
            if number < progress.batch:
                continue
            self._step(rows, progress.epoch * n_steps + number, plan.epochs * n_steps)
            progress.batch = number + 1
            self.context.check_deadline(f"in epoch {progress.epoch + 1} of {plan.epochs}")  # an epoch can be long
            if self.keeper is not None and progress.batch < n_steps and self.keeper.is_due:
                self.keeper.write(self._written_down())

    def _step(self, rows: Tensor, step: int, total: int) -> None:
        self.is_between_steps = False
        if self.plan.schedule is not None:
            factor = self.plan.schedule(step, total)
            for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
                group["lr"] = rate * factor
        self.optimiser.zero_grad(set_to_none=True)
        terms = self.train.loss(rows)
        if not self.train.in_parts:
            terms["loss"].backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.hooks.after_step(step, total)
        for name, value in terms.items():  # summed on the device: reading a number would wait for it
            self.sums[name] = self.sums[name] + value.detach() if name in self.sums else value.detach()
        self.is_between_steps = True

    # What is chosen.

    def _stop_if_idle(self, loss: float | None) -> None:
        """Remember the lowest validation loss; the training is over if it has not fallen for ``patience`` epochs."""
        progress, patience = self.progress, self.plan.patience
        if loss is None:
            return
        if math.isfinite(loss) and (progress.lowest is None or loss < progress.lowest):
            progress.lowest, progress.lowest_epoch = loss, progress.epoch
        idle = progress.epoch - progress.lowest_epoch
        progress.finished = progress.finished or (patience is not None and idle >= patience)
        if progress.lowest is None and (progress.finished or progress.epoch == self.plan.epochs):
            raise TabbenchError(
                f"training diverged: no finite validation loss in {progress.epoch} epochs; try a lower lr"
            )

    def _probe(self) -> float:
        assert self.context.probe is not None
        assert self.encode is not None
        score = float(self.context.probe(self.encode))
        self.progress.probes.append([self.progress.epoch, score])
        return score

    def _select(self, score: float) -> None:
        """Remember the weights if they are the best so far. Ties go to the first, but training beats none."""
        progress = self.progress
        is_better = progress.best_score is None or score > progress.best_score
        is_trained_tie = score == progress.best_score and progress.best_epoch == 0
        if math.isfinite(score) and (is_better or is_trained_tie):
            progress.best_score, progress.best_epoch = score, progress.epoch
            self.best = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}

    @torch.no_grad()
    def _validate(self) -> dict[str, float]:
        """The mean terms over all validation rows, in order, without training."""
        assert self.validation is not None
        sums = {"loss": 0.0}
        for rows in torch.split(torch.arange(self.validation.n_rows, device=self.context.device), self.plan.batch_size):
            terms = self.validation.loss(rows)
            for name in {"loss", "score"} & set(terms):
                sums[name] = sums.get(name, 0.0) + float(terms[name]) * len(rows)
        means = {name: value / self.validation.n_rows for name, value in sums.items()}
        return {"validation_loss": means["loss"], **({"validation": means["score"]} if "score" in means else {})}

    # Checkpoints.

    def _written_down(self) -> Checkpoint:
        tensors = {
            **with_prefix("network", self.network.state_dict()),
            **with_prefix("best", self.best),
            **with_prefix("optimizer", optimizer_tensors(self.optimiser)),
            **with_prefix("sums", self.sums),
            **with_prefix("epoch start", self.epoch_start),
            **with_prefix("now", self._states()),
        }
        return Checkpoint(tensors, vars(self.progress))

    def _take_up(self, checkpoint: Checkpoint) -> None:
        tensors, device = checkpoint.tensors, self.context.device
        self.progress = _Progress(**checkpoint.values)
        self.network.load_state_dict(without_prefix("network", tensors))
        load_optimizer_tensors(self.optimiser, without_prefix("optimizer", tensors))
        self.best = {name: tensor.to(device) for name, tensor in without_prefix("best", tensors).items()}
        self.sums = {name: tensor.to(device) for name, tensor in without_prefix("sums", tensors).items()}
        now = without_prefix("now", tensors)
        if self.progress.batch:
            self._set_states(without_prefix("epoch start", tensors))
            self.resume_with = now
        else:
            self._set_states(now)

    def _states(self) -> dict[str, Tensor]:
        """States of all generators, the global ones too."""
        own = {str(number): generator.get_state() for number, generator in enumerate(self.generators)}
        return {**own, **with_prefix("global", generator_states(self.context.device))}

    def _set_states(self, states: dict[str, Tensor]) -> None:
        for number, generator in enumerate(self.generators):
            generator.set_state(states[str(number)])
        set_generator_states(without_prefix("global", states), self.context.device)
