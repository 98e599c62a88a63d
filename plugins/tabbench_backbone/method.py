"""``reconstruct`` and ``predict_mask``: label-free objectives for any downstream network (Rubachev et al., 2022).

Entries of a row are replaced by those of other training rows. The model's own backbone, with a small head, must
reconstruct the row or detect the replaced entries. Then the head is dropped and the model is fine-tuned.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from tabbench import BackboneMethod, Context, DataError, NetworkConfig, Representation, State, Table, TrainableEncoder
from tabbench.nn import (
    MLP,
    Backbone,
    Batch,
    FlatColumns,
    Hooks,
    Inputs,
    InputShape,
    NetworkModel,
    OriginalColumns,
    Pretext,
    Terms,
    backbone_encoder,
    backward_in_parts,
    choose_batch_size,
    draw_from_columns,
    encode_in_batches,
    load_module,
    make_optimizer,
    module_state,
    permute_columns,
    replace_at_random,
    rows_that_fit,
    seeded,
    train_pretext,
)
from tabbench_backbone.config import BackboneConfig
from tabbench_backbone.objectives import Columns, PretextNetwork, mask_loss, reconstruction_loss


class OwnBackbone(Backbone):
    """Two hidden layers, for use without a downstream model."""

    def __init__(self, shape: InputShape) -> None:
        super().__init__()
        self.columns = FlatColumns(shape, d_embedding=8)
        self.layers = MLP(self.columns.out_features, [128, 128])
        self.out_features = self.layers.out_features

    def forward(self, batch: Batch) -> Tensor:
        hidden: Tensor = self.layers(self.columns(batch))
        return hidden


class OwnModel(NetworkModel):
    """The network to pretrain if no model is given."""

    Config = NetworkConfig

    def build(self, shape: InputShape) -> OwnBackbone:
        return OwnBackbone(shape)


class PretrainedBackbone(BackboneMethod):
    """What both objectives share: corruption, optimiser, selection by the loss on validation rows."""

    Config = BackboneConfig
    inputs: Inputs
    backbone: Backbone

    @abstractmethod
    def n_outputs(self, columns: Columns) -> int:
        """Outputs of the head."""

    @abstractmethod
    def loss(
        self, outputs: Tensor, clean: Tensor, corrupted: Tensor, columns: Columns, originals: OriginalColumns
    ) -> Tensor:
        """The mean loss of a batch of rows."""

    @property
    def pretrained_model(self) -> NetworkModel:
        model = self.model if self.model is not None else OwnModel()
        assert isinstance(model, NetworkModel)
        return model

    def initialise(self, table: Table, context: Context) -> None:
        if not len(table):
            raise DataError(f"{type(self).__name__} cannot learn from a table without rows")
        self.schema = table.schema
        self.device = context.device
        model = self.pretrained_model
        self.inputs = Inputs(model.config.scaling).fit(table)
        self.backbone = model.make_backbone(table, context)

    def pretrain(self, table: Table, context: Context) -> None:
        self.initialise(table, context)
        config, model = self.config, self.pretrained_model
        if config.select == "finetune" and context.finetuned is not None:
            finetuned = context.finetuned
            context = replace(context, probe=lambda encode: finetuned(self.trainable_encoder()))
        columns = Columns.of(table.schema, self.inputs.with_missing)
        work = _Work(self, columns, columns.to_matrix(self.inputs.transform(table, self.device)), context)
        lr = config.lr or model.config.lr
        settings = NetworkConfig(lr=lr, weight_decay=model.config.weight_decay)
        self.diagnostics = train_pretext(
            work.network,
            make_optimizer(work.network, settings, model.is_decayed),
            Pretext(len(table), work.train_loss, in_parts=True),
            context,
            epochs=config.epochs,
            batch_size=config.batch_size or choose_batch_size(model.config.batch_size, len(table)),
            min_rows=2,
            identity=(config, model.config, type(model).__name__, type(self).__name__, table),
            generators=(work.generator,),
            encode=None if config.select == "pretext" else self.encode,
            hooks=Hooks(before_epoch=work.draw),
            validation=work.validation(context),
            patience=config.patience,
            select_untrained=False,
        )

    def encode(self, table: Table) -> Representation:
        """Hidden vectors ``(n, h)`` of the backbone."""
        self.backbone.eval()
        return encode_in_batches(table, lambda rows: self.backbone(self.inputs.transform(rows, self.device)))

    def trainable_encoder(self) -> TrainableEncoder:
        return backbone_encoder(self.backbone, self.inputs)

    def get_state(self) -> State:
        return {**self.inputs.get_state(), **module_state(self.backbone, "backbone")}

    def set_state(self, state: State) -> None:
        model = self.pretrained_model
        self.inputs = Inputs(model.config.scaling).set_state(state)
        example = np.zeros((1, len(self.schema.numeric)), dtype=np.float32)
        example[:, self.inputs.with_missing] = (
            np.nan
        )  # the backbone has inputs for columns with missing values in training
        codes = np.zeros((1, len(self.schema.categorical)), dtype=np.int64)
        self.backbone = model.make_backbone(Table(example, codes, self.schema), Context(device=self.device))
        load_module(self.backbone, state, "backbone")


class Reconstruct(PretrainedBackbone):
    """Reconstruct the row: squared error for numbers, cross-entropy for categories."""

    def n_outputs(self, columns: Columns) -> int:
        return columns.n_numbers + sum(columns.cardinalities)

    def loss(
        self, outputs: Tensor, clean: Tensor, corrupted: Tensor, columns: Columns, originals: OriginalColumns
    ) -> Tensor:
        return reconstruction_loss(outputs, clean, columns)


class PredictMask(PretrainedBackbone):
    """Detect the replaced entries."""

    def n_outputs(self, columns: Columns) -> int:
        return columns.originals.count

    def loss(
        self, outputs: Tensor, clean: Tensor, corrupted: Tensor, columns: Columns, originals: OriginalColumns
    ) -> Tensor:
        return mask_loss(outputs, clean, corrupted, originals)


class _Work:
    """The state of one pretraining: rows, their corruption, the network with its head."""

    def __init__(self, method: PretrainedBackbone, columns: Columns, train: Tensor, context: Context) -> None:
        self.method, self.columns, self.train = method, columns, train
        self.originals = columns.originals.to(train.device)
        self.generator = context.generator("corruption")
        with seeded(context.seed("head"), context.device):
            head_width = method.config.head_width
            self.network = PretextNetwork(method.backbone, columns, head_width, method.n_outputs(columns))
        self.network.to(train.device)
        fitting = rows_that_fit(method.backbone, context.device, context.memory)
        has_norm = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in self.network.modules())
        self.at_once = None if has_norm else fitting
        self.swapped = train

    def draw(self) -> None:
        """Shuffle every column of the training rows: the replacement values of this epoch."""
        self.swapped = permute_columns(self.train, self.generator, self.originals)

    def train_loss(self, rows: Tensor) -> Terms:
        """Gradients of the loss of some rows, in chunks that fit into memory."""
        clean = self.train[rows]
        corrupted = self._corrupt(clean, self.swapped[rows], self.generator)
        loss_of = self._loss_of(clean, corrupted)
        return {"loss": backward_in_parts(loss_of, len(rows), self.at_once or len(rows))}

    def validation(self, context: Context) -> Pretext | None:
        """Validation rows with a fixed corruption; the replacement values come from training rows."""
        if context.validation is None or len(context.validation) == 0:
            return None
        generator = context.generator("validation")
        clean = self.columns.to_matrix(self.method.inputs.transform(context.validation, self.method.device))
        drawn = draw_from_columns(self.train, len(clean), generator, self.originals)
        corrupted = self._corrupt(clean, drawn, generator)

        def loss(rows: Tensor) -> Terms:
            return {"loss": self._loss_of(clean[rows], corrupted[rows])(slice(0, len(rows)))}

        return Pretext(len(clean), loss)

    def _corrupt(self, clean: Tensor, swapped: Tensor, generator: torch.Generator) -> Tensor:
        return replace_at_random(clean, swapped, self.method.config.p, generator, self.originals)

    def _loss_of(self, clean: Tensor, corrupted: Tensor) -> Callable[[slice], Tensor]:
        def loss(part: slice) -> Tensor:
            outputs = self.network(corrupted[part])
            return self.method.loss(outputs, clean[part], corrupted[part], self.columns, self.originals)

        return loss
