"""SCARF: self-supervised contrastive learning using random feature corruption (Bahri et al., ICLR 2022).

A row and a copy of it, in which a random 60 % of the columns are re-drawn from their marginals, form a positive pair;
the other rows of the batch are negatives. An encoder and a small head are trained by InfoNCE, then the head is dropped.
There is no official code; this follows the paper.

Shapes: ``n`` rows, ``d`` original columns, ``m`` columns of the input matrix (``d`` and indicators of missing numbers),
``w`` units of the encoder, ``k`` units of the head.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tabbench import Context, SSLMethod, Table
from tabbench.nn import (
    MLP,
    FeatureEncoder,
    NetworkEncoder,
    OriginalColumns,
    Pretext,
    Terms,
    count_corrupted,
    redraw,
    seeded,
    train_pretext,
)
from tabbench_scarf.config import SCARFConfig

VALIDATION_PASSES = 10
"""The paper corrupts the validation rows so many times, once before training."""

DIAGNOSED_ROWS = 4096
"""Training rows on which the share of entries that corruption really changes is measured."""


# 1. Objective.


def info_nce(
    anchors: torch.Tensor, views: torch.Tensor, temperature: float, *, symmetric: bool = False
) -> torch.Tensor:
    """Cross-entropy of finding each row's own view among all views of its batch.

    The paper averages over the batch in the denominator, which shifts the loss by -log n and changes no gradient.

    Args:
        anchors: ``(..., n, k)``, of unit length.
        views: of the same shape, the corrupted copies.
        temperature: what similarities are divided by.
        symmetric: as in SimCLR, every one of the 2n vectors looks for its partner among all others.
    """
    n_rows = anchors.shape[-2]
    if not symmetric:
        similarity = anchors @ views.mT / temperature
        return -similarity.log_softmax(dim=-1).diagonal(dim1=-2, dim2=-1).mean()
    both = torch.cat([anchors, views], dim=-2)
    itself = torch.eye(2 * n_rows, dtype=torch.bool, device=both.device)
    similarity = (both @ both.mT / temperature).masked_fill(itself, -torch.inf)
    log_share = similarity.log_softmax(dim=-1)
    partners = [log_share.diagonal(offset, dim1=-2, dim2=-1) for offset in (n_rows, -n_rows)]
    return -torch.cat(partners, dim=-1).mean()


# 2. Method.


class Contrast(nn.Module):
    """The encoder f and the head g: unit vectors ``(..., k)``."""

    def __init__(self, encoder: MLP, config: SCARFConfig) -> None:
        super().__init__()
        self.encoder = encoder
        hidden = [config.head_width] * (config.head_depth - 1)
        self.head = MLP(encoder.out_features, hidden, config.head_width)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return F.normalize(self.head(self.encoder(inputs)), dim=-1)


class SCARF(NetworkEncoder, SSLMethod):
    """Encoder trained to recognise rows by 40 % of their columns; its representation ``(n, w)`` is not negative."""

    Config = SCARFConfig
    network: MLP
    originals: OriginalColumns

    def make_inputs(self) -> FeatureEncoder:
        return FeatureEncoder(self.schema, "standard")

    def make_network(self) -> MLP:
        return MLP(self.inputs.width, [self.config.width] * self.config.depth, dropout=self.config.dropout)

    def embed(self, matrix: torch.Tensor) -> torch.Tensor:
        """``(n, w)``: f of the clean row."""
        embedding: torch.Tensor = self.network(self.inputs.encode(matrix))
        return embedding

    def initialise(self, table: Table, context: Context) -> None:
        super().initialise(table, context)
        self.originals = self.inputs.originals.to(self.device)

    def pretrain(self, table: Table, context: Context) -> None:
        config: SCARFConfig = self.config
        self.initialise(table, context)
        train = self.inputs.matrix(table, self.device)
        with seeded(context.seed("head")):
            self.contrast = Contrast(self.network, config).to(self.device)
        generator = context.generator("corruption")

        def loss(index: torch.Tensor) -> Terms:
            clean = train[index]
            return {"loss": self.compare(clean, self.corrupted(clean, train, generator))}

        diagnostics = train_pretext(
            self.contrast,
            torch.optim.Adam(self.contrast.parameters(), lr=config.lr, weight_decay=config.weight_decay),
            Pretext(len(train), loss),
            context,
            epochs=config.epochs,
            batch_size=config.batch_size,
            identity=(config, table),
            generators=(generator,),
            encode=self.encode,
            drop_last=True,
            validation=self._validation(train, context),
            patience=config.patience,
        )
        sample = train[:DIAGNOSED_ROWS]
        changed = self.originals.gather(self.corrupted(sample, train, context.generator("diagnostics")) != sample)
        self.diagnostics = {**diagnostics, "changed_entries": float(changed.float().mean())}

    def corrupted(self, rows: torch.Tensor, train: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """The other view of rows given as a matrix ``(n, m)``: q original columns of each are re-drawn.

        A number and the indicator of its being missing are one column, replaced by those of one training row.
        """
        return redraw(
            rows, train, count_corrupted(self.originals.count, self.config.corruption), generator, self.originals
        )

    def compare(self, clean: torch.Tensor, corrupted: torch.Tensor) -> torch.Tensor:
        """The loss of rows ``(..., n, m)``; corruption comes before one-hot encoding, so that categories stay valid."""
        anchors, views = (
            self.contrast(self.inputs.encode(rows.flatten(0, -2))).unflatten(0, rows.shape[:-1])
            for rows in (clean, corrupted)
        )
        return info_nce(anchors, views, self.config.temperature, symmetric=self.config.symmetric)

    def _validation(self, train: torch.Tensor, context: Context) -> Pretext | None:
        """Validation rows, corrupted ten times before training and then kept, in batches of one size.

        The loss of a batch depends on its size, so that each "row" of this task is a whole batch.
        """
        if context.validation is None or len(context.validation) == 0:
            return None
        rows = self.inputs.matrix(context.validation, self.device)
        size = min(self.config.batch_size, len(rows))
        rows = rows[: len(rows) // size * size]
        generator = context.generator("validation")
        corrupted = rows.new_empty(VALIDATION_PASSES, *rows.shape)
        for view in corrupted:
            view.copy_(self.corrupted(rows, train, generator))
        # The clean rows are held once for all passes: those of a wide table take hundreds of megabytes.
        clean, corrupted = (part.reshape(-1, size, rows.shape[1]) for part in (rows, corrupted))
        return Pretext(
            len(corrupted), lambda index: {"loss": self.compare(clean[index % len(clean)], corrupted[index])}
        )
