"""Supervised training of networks: one loop, and the base class of models that only need a backbone.

A plugin's model is a ``NetworkConfig`` and a ``Backbone``; batches, loss, schedule, early stopping and prediction are
here.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses
from numpy.typing import NDArray
from torch import Tensor, nn

from tabbench.config import MIN_BATCH, NetworkConfig
from tabbench.context import Context
from tabbench.contracts import DownstreamModel, State, TrainableEncoder
from tabbench.contracts.configurable import Diagnostics
from tabbench.contracts.metrics import goodness
from tabbench.errors import TabbenchError, UsageError
from tabbench.nn.backbone import Backbone, Decay, Network
from tabbench.nn.batches import count_batches, shuffled_batches
from tabbench.nn.devices import seeded
from tabbench.nn.finetuning import EncoderBackbone, EncoderInputs, finetuning_groups
from tabbench.nn.inputs import Inputs, InputShape, Rows, Tensors, take_rows
from tabbench.nn.probe import weighted_mean
from tabbench.nn.schedules import warmup_cosine
from tabbench.nn.states import load_module, module_state
from tabbench.values import Features, Labelled, Table, Task

MAX_HELD_BYTES = 2**30
"""What a training step of a network that counts its memory may hold for the gradient, if nothing else is said."""


class Objective:
    """The goal of training: targets, loss, predictions and score of a task.

    Regression targets are standardised with the training labels, so that learning rates keep their meaning. The harness
    has done so already; there it changes nothing.
    """

    def __init__(self, task: Task, train_y: NDArray[Any]) -> None:
        self.task = task
        self.centre, self.scale = 0.0, 1.0
        if task.is_regression:
            self.centre = float(np.mean(train_y, dtype=np.float64))
            self.scale = float(np.std(train_y, dtype=np.float64)) or 1.0

    def targets(self, y: NDArray[Any], device: str | torch.device) -> Tensor:
        """Labels as ``loss`` and ``score`` want them."""
        if self.task.kind == "multiclass":
            return torch.from_numpy(np.array(y, dtype=np.int64)).to(device)
        standardised = (np.asarray(y, dtype=np.float64) - self.centre) / self.scale
        return torch.from_numpy(standardised.astype(np.float32)).to(device)

    def loss(self, output: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
        """Mean loss, each row times its weight: binary cross-entropy, cross-entropy or squared error."""
        if self.task.kind == "multiclass":
            return weighted_mean(F.cross_entropy, output, target, weights)
        function = F.binary_cross_entropy_with_logits if self.task.kind == "binary" else F.mse_loss
        return weighted_mean(function, output.squeeze(-1), target, weights)

    def score(self, output: Tensor, target: Tensor) -> float:
        """Accuracy, minus the RMSE in the unit of the labels, or what the task asks for: higher is better."""
        if self.task.metric:
            return goodness(self.task, self._labels(target), self.predictions(output))
        if self.task.is_regression:
            return -self.scale * math.sqrt(float(F.mse_loss(output.squeeze(-1), target)))
        chosen = output.argmax(dim=1) if self.task.kind == "multiclass" else (output.squeeze(-1) > 0)
        return int((chosen == target).sum()) / len(target)

    def _labels(self, target: Tensor) -> NDArray[Any]:
        """What ``targets`` was given."""
        values = target.float().cpu().numpy() * self.scale + self.centre
        return values if self.task.is_regression else values.astype(np.int64)

    def predictions(self, output: Tensor) -> NDArray[np.float32]:
        """Class probabilities ``(rows, n_classes)``, or numbers in the unit of the labels."""
        if self.task.kind == "multiclass":
            values = output.softmax(dim=1)
        elif self.task.kind == "binary":
            positive = output.sigmoid()
            values = torch.cat([1 - positive, positive], dim=1)
        else:
            values = output.squeeze(-1) * self.scale + self.centre
        array: NDArray[np.float32] = values.float().cpu().numpy()
        return array


@dataclass
class History:
    """The history of a training, one entry per epoch; part of a record's diagnostics."""

    best_epoch: int = 0
    """Epoch (from 1) whose weights were kept."""
    train_loss: list[float] = field(default_factory=list)
    validation_loss: list[float] = field(default_factory=list)
    validation_score: list[float] = field(default_factory=list)
    """Accuracy, or minus the RMSE."""

    @property
    def n_epochs(self) -> int:
        return len(self.train_loss)

    def to_json(self) -> Diagnostics:
        return {"n_epochs": self.n_epochs, **asdict(self)}


class NetworkModel(DownstreamModel):
    """Base of downstream networks: a subclass has a ``Config`` and builds a backbone."""

    Config: ClassVar[type[NetworkConfig]] = NetworkConfig
    inputs: Inputs | EncoderInputs

    @abstractmethod
    def build(self, shape: InputShape) -> Backbone:
        """A new backbone for inputs of ``shape``, initialised from torch's global generator."""

    def is_decayed(self, name: str) -> bool:
        """Whether weight decay applies to the parameter called ``name``."""
        return True

    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        _check_rows(train, validation)
        self.inputs = Inputs(self.config.scaling).fit(train.features)
        with seeded(context.seed("init"), context.device):
            network = Network(self.build(self.inputs.shape), task.n_outputs, self.config.bf16)
        self._train(network, train, validation, task, context)

    def finetune(
        self, encoder: TrainableEncoder, train: Labelled, validation: Labelled, task: Task, context: Context
    ) -> None:
        _check_rows(train, validation)
        assert isinstance(train.features, Table)
        config: NetworkConfig = self.config
        self.inputs = EncoderInputs(encoder, context.device)
        with seeded(context.seed("init"), context.device):
            if not encoder.is_backbone:
                self.inputs.fit(train.features)
            network = Network(self._on_top_of(self.inputs), task.n_outputs, config.bf16)
        self._train(network, train, validation, task, context)

    def _train(self, network: Network, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        config: NetworkConfig = self.config
        self.device = context.device
        self.network = network.to(context.device)
        self.objective = Objective(task, train.y)
        backbone = network.backbone
        fitting = rows_that_fit(backbone, context.device, context.memory)
        whole = has_batch_norm(self.network)
        self.batch_size = choose_batch_size(config.batch_size, len(train.y), fitting if whole else None)
        self.rows_at_once = rows_of_evaluation(self.batch_size, fitting)
        self.memory = context.memory
        rows = [self.inputs.load(part.features, context.device, context.memory) for part in (train, validation)]
        targets = [self.objective.targets(part.y, context.device) for part in (train, validation)]
        self.diagnostics = {
            "parameters": sum(parameter.numel() for parameter in self.network.parameters()),
            "batch_size": self.batch_size,
        }

        def warm_up_head(epoch: int) -> None:
            if isinstance(backbone, EncoderBackbone):
                backbone.fix(epoch <= config.warm_head_epochs)

        weights = None if context.weights is None else torch.from_numpy(context.weights).to(context.device)
        history = train_network(
            self.network,
            make_optimizer(self.network, config, self.is_decayed),
            (rows[0], targets[0]),
            (rows[1], targets[1]),
            self.objective,
            config,
            self.batch_size,
            context,
            None if whole else fitting,
            warm_up_head,
            weights,
        )
        self.diagnostics |= history.to_json()

    def predict(self, features: Features) -> NDArray[np.float32]:
        rows = self.inputs.load(features, self.device, self.memory)
        return self.objective.predictions(forward_all(self.network, rows, self.rows_at_once))

    def get_state(self) -> State:
        numbers = np.array([self.objective.centre, self.objective.scale], dtype=np.float64)
        sizes = np.array([self.batch_size, self.rows_at_once], dtype=np.int64)
        weights = module_state(self.network, "network")
        return {**self.inputs.get_state(), **weights, "objective": numbers, "sizes": sizes}

    def set_state(self, state: State, task: Task, device: str = "cpu") -> None:
        self.inputs = Inputs(self.config.scaling).set_state(state)
        self._set_network(self.build(self.inputs.shape), state, task, device)

    def set_finetuned_state(self, state: State, encoder: TrainableEncoder, task: Task, device: str = "cpu") -> None:
        self.inputs = EncoderInputs(encoder, device).set_state(state)
        self._set_network(self._on_top_of(self.inputs), state, task, device)

    def _set_network(self, backbone: Backbone, state: State, task: Task, device: str) -> None:
        self.device, self.memory = device, None
        self.objective = Objective(task, np.zeros(1))
        self.objective.centre, self.objective.scale = (float(number) for number in state["objective"])
        self.batch_size, self.rows_at_once = (int(size) for size in state["sizes"])
        self.network = Network(backbone, task.n_outputs, self.config.bf16).to(device)
        load_module(self.network, state, "network")

    def _on_top_of(self, inputs: EncoderInputs) -> EncoderBackbone:
        """The encoder with a new body; the model's own backbone needs none."""
        module = inputs.encoder.module
        if inputs.encoder.is_backbone:
            assert isinstance(module, Backbone)
            return EncoderBackbone(module, None, None, module.out_features)
        body = self.build(inputs.shape)
        return EncoderBackbone(module, inputs, body, body.out_features)

    def make_backbone(self, example: Features, context: Context) -> Backbone:
        """An untrained backbone; ``example`` must be what the ``Inputs`` are fitted on, the training features."""
        with seeded(context.seed("init"), context.device):
            return self.build(InputShape.of(example)).to(context.device)


def _check_rows(train: Labelled, validation: Labelled) -> None:
    if len(train.y) < MIN_BATCH or len(validation.y) == 0:
        raise UsageError(
            f"a network needs at least {MIN_BATCH} training rows and one validation row, "
            f"not {len(train.y)} and {len(validation.y)}"
        )


def train_network(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    train: tuple[Rows[Any], Tensor],
    validation: tuple[Rows[Any], Tensor],
    objective: Objective,
    config: NetworkConfig,
    batch_size: int,
    context: Context,
    rows_at_once: int | None = None,
    before_epoch: Callable[[int], None] = lambda epoch: None,
    row_weights: Tensor | None = None,
) -> History:
    """Train until validation stops improving, and leave ``network`` with its best weights.

    Gradients of a batch are computed for ``rows_at_once`` rows at a time, None is all of them. Validation figures are
    over the whole split. ``row_weights`` say what each training row counts in the loss. ``before_epoch`` is called with
    the number of the epoch, from 1. ``context.report`` is called after every epoch with ``train_loss`` and
    ``validation`` (higher is better).
    """
    history = History()
    best: tuple[float, float] | None = None
    weights: dict[str, Tensor] = {}
    order = context.generator("batches")
    with seeded(context.seed("dropout"), context.device):
        for epoch in range(1, config.max_epochs + 1):
            before_epoch(epoch)
            train_loss = run_epoch(
                network,
                optimizer,
                *train,
                objective,
                config,
                batch_size,
                epoch,
                order,
                context,
                rows_at_once,
                row_weights,
            )
            output = forward_all(network, validation[0], rows_of_evaluation(batch_size, rows_at_once))
            loss = float(objective.loss(output, validation[1]))
            score = objective.score(output, validation[1])
            history.train_loss.append(train_loss)
            history.validation_loss.append(loss)
            history.validation_score.append(score)
            goodness = (score if config.stop_on == "metric" else -loss, -loss)
            if math.isfinite(loss) and (best is None or goodness > best):
                best = goodness
                history.best_epoch = epoch
                weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
            context.report(epoch, config.max_epochs, train_loss=train_loss, validation=score)
            if epoch - history.best_epoch >= config.patience:
                break
    if best is None:
        raise TabbenchError(
            f"training diverged: no finite validation loss in {history.n_epochs} epochs; try a lower lr"
        )
    network.load_state_dict(weights)
    return history


def run_epoch(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    rows: Rows[Any],
    targets: Tensor,
    objective: Objective,
    config: NetworkConfig,
    batch_size: int,
    epoch: int,
    order: torch.Generator,
    context: Context,
    rows_at_once: int | None = None,
    weights: Tensor | None = None,
) -> float:
    """One pass over the training rows; returns the mean loss over them."""
    n_steps = count_batches(len(rows), batch_size, min_rows=MIN_BATCH)
    network.train()
    total = torch.zeros((), device=rows.device)
    n_rows = 0
    for step, index in enumerate(shuffled_batches(len(rows), batch_size, order, min_rows=MIN_BATCH)):
        if config.schedule == "cosine":
            factor = warmup_cosine((epoch - 1) * n_steps + step, config.max_epochs * n_steps)
            for group in optimizer.param_groups:
                group["lr"] = config.lr * group.get("scale", 1.0) * factor
        counts = None if weights is None else weights[index]
        loss = train_step(network, optimizer, objective, rows.batch(index), targets[index], rows_at_once, counts)
        total += loss * len(index)
        n_rows += len(index)
        context.check_deadline(f"in epoch {epoch} of {config.max_epochs}")  # an epoch can be long
    return float(total) / n_rows


def train_step(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    objective: Objective,
    batch: Tensors,
    target: Tensor,
    rows_at_once: int | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """One step of the optimizer; returns the loss before it, still on the device.

    Gradients are summed over parts of ``rows_at_once`` rows: the step is that of the whole batch.
    """
    optimizer.zero_grad()
    n = len(target)
    if rows_at_once is None or n <= rows_at_once:
        loss = objective.loss(network(batch), target, weights)
        loss.backward()  # type: ignore[no-untyped-call]
    else:
        loss = torch.zeros((), device=target.device)
        for start in range(0, n, rows_at_once):
            part = slice(start, min(start + rows_at_once, n))
            counts = None if weights is None else weights[part]
            mean = objective.loss(network(take_rows(batch, part)), target[part], counts)
            share = mean * ((part.stop - part.start) / n)
            share.backward()  # type: ignore[no-untyped-call]
            loss += share.detach()
    optimizer.step()
    return loss.detach()


@torch.inference_mode()
def forward_all(network: nn.Module, rows: Rows[Any], batch_size: int) -> Tensor:
    """Outputs for all rows, in evaluation mode."""
    network.eval()
    return torch.cat([network(batch) for batch in rows.in_order(batch_size)])


class OptimizerSettings(Protocol):
    """What ``make_optimizer`` reads of a Config."""

    @property
    def lr(self) -> float: ...

    @property
    def weight_decay(self) -> float: ...


def make_optimizer(
    network: nn.Module, config: OptimizerSettings, is_decayed: Decay = lambda name: True
) -> torch.optim.AdamW:
    """AdamW, fused where the device has it; weight decay applies to parameters for which ``is_decayed(name)``.

    A network that holds a pretrained encoder gets the groups of fine-tuning.
    """
    if isinstance(config, NetworkConfig) and isinstance(getattr(network, "backbone", None), EncoderBackbone):
        groups = finetuning_groups(network, config, is_decayed)
    else:
        parts: dict[bool, list[nn.Parameter]] = {True: [], False: []}
        for name, parameter in network.named_parameters():
            parts[is_decayed(name)].append(parameter)
        groups = [
            {"params": params, "weight_decay": config.weight_decay * decayed}
            for decayed, params in parts.items()
            if params
        ]
    fused = next(network.parameters()).device.type in ("cpu", "cuda", "mps")
    return torch.optim.AdamW(groups, lr=config.lr, fused=fused)


def choose_batch_size(wanted: int | Literal["auto"], n_rows: int, fitting: int | None = None) -> int:
    """``auto`` is the power of two nearest to 1/64 of the rows, between 32 and 512; at most ``fitting`` rows."""
    size = min(max(1 << max(round(math.log2(n_rows / 64)), 0), 32), 512) if wanted == "auto" else wanted
    return size if fitting is None else max(min(size, fitting), MIN_BATCH)


def rows_that_fit(backbone: Backbone, device: str | torch.device, memory: int | None) -> int | None:
    """Rows that a training step may hold at a time; None is all.

    They fit in 1 GiB, or a quarter of the job's ``memory`` if that is less; on a GPU, in a quarter of what it has.
    """
    bytes_of_row = backbone.row_bytes(device)
    if not bytes_of_row:
        return None
    if torch.device(device).type == "cuda":
        limit = torch.cuda.mem_get_info(device)[1] // 4  # not of what is free: the same for every job on such a GPU
    else:
        limit = MAX_HELD_BYTES if memory is None else min(MAX_HELD_BYTES, memory // 4)
    return max(limit // bytes_of_row, 1)


def rows_of_evaluation(batch_size: int, fitting: int | None) -> int:
    """Rows at a time where there is no gradient: two batches, or what fits in training."""
    return 2 * batch_size if fitting is None else min(2 * batch_size, fitting)


def has_batch_norm(network: nn.Module) -> bool:
    """Whether a batch cannot be computed in parts: BatchNorm's statistics are those of a whole one."""
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in network.modules())
