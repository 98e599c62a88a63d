"""BinRecon and BinXent: binning as a pretext task for tabular data (Lee et al., ICML 2024).

Paper: https://arxiv.org/abs/2405.07414
Authors' code: https://github.com/kyungeun-lee/tabularbinning, commit 8a727d1. Read, not copied.

An auto-encoder whose target is not a column's value but the index of its quantile bin. Bins put all columns on one
scale and group similar values. BinRecon treats the indices as numbers, BinXent as classes.

Shapes: ``n`` rows, ``d`` original columns (the targets), ``w`` units of the encoder, ``T`` bins.
"""

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import nn

from tabbench import Context, SSLMethod, Table
from tabbench.nn import (
    MLP,
    FeatureEncoder,
    NetworkEncoder,
    OriginalColumns,
    Pretext,
    Terms,
    draw_from_columns,
    make_optimizer,
    permute_columns_in_batch,
    replace_at_random,
    seeded,
    train_pretext,
    warmup_cosine,
)
from tabbench_binrecon.config import BinReconConfig

BATCH_SIZES = ((50_000, 1024), (10_000, 512), (5_000, 256), (1_000, 128), (0, 64))
"""Above this many training rows (first), the batch size is the second."""
OFFICIAL_LEVELS = 20
"""The official code treats a column with at most this many values as a category."""


class BinRecon(NetworkEncoder, SSLMethod):
    """Encoder trained to predict bins; its representation is the linear output ``(n, w)``."""

    Config = BinReconConfig
    network: MLP

    def make_inputs(self) -> FeatureEncoder:
        return FeatureEncoder(self.schema, self.config.scaling, self.config.categories)

    def make_network(self) -> MLP:
        width = self.config.width
        return MLP(self.inputs.width, [width] * self.config.depth, width, dropout=self.config.dropout)

    def embed(self, matrix: torch.Tensor) -> torch.Tensor:
        """``(n, w)``: the encoder's output for the uncorrupted row."""
        embedding: torch.Tensor = self.network(self.inputs.encode(matrix))
        return embedding

    def pretrain(self, table: Table, context: Context) -> None:
        self.initialise(table, context)
        fill = self.inputs.scaler.fill
        bins = Bins(self.config.n_bins, official=self.config.official_bins).fit(table, fill)
        train, targets = self.inputs.matrix(table, self.device), bins.transform(table).to(self.device)
        with seeded(context.seed("heads")):
            task = BinTask(self.network, bins, self.config).to(self.device)
        generator = context.generator("corruption")
        originals = self.inputs.originals.to(self.device)

        def loss(rows: torch.Tensor) -> Terms:
            clean = train[rows]
            is_shuffled = self.config.corruption == "shuffle"
            swapped = permute_columns_in_batch(clean, generator, originals) if is_shuffled else None
            corrupted = self._corrupt(clean, swapped, generator, originals)
            return {"loss": task(self.inputs.encode(corrupted), targets[rows])}

        self.diagnostics = train_pretext(
            task,
            make_optimizer(task, self.config, is_decayed=lambda name: not name.endswith("bias")),
            Pretext(len(train), loss),
            context,
            epochs=self.config.epochs,
            batch_size=self.config.batch_size or default_batch_size(len(train)),
            identity=(self.config, table),
            generators=(generator,),
            encode=self.encode,
            drop_last=True,
            schedule=warmup_cosine,
            validation=self._validation(task, train, bins, context),
            patience=self.config.patience,
        )
        self.diagnostics["bins"] = [int(bins.n_bins.min()), int(bins.n_bins.max())]

    def _corrupt(
        self,
        clean: torch.Tensor,
        swapped: torch.Tensor | None,
        generator: torch.Generator,
        originals: OriginalColumns,
    ) -> torch.Tensor:
        """Masked numbers become 0, the column's mean or median; masked categories become unknown, a block of zeros.

        A number's missing indicator is masked with it, so a masked number does not reveal whether it was missing.
        """
        if self.config.corruption == "none":
            return clean
        if swapped is None:
            swapped = torch.zeros_like(clean)
            if self.config.categories == "onehot":
                swapped[:, self.inputs.n_numeric :] = self.inputs.unknown
        return replace_at_random(clean, swapped, self.config.corruption_rate, generator, originals)

    def _validation(self, task: "BinTask", train: torch.Tensor, bins: "Bins", context: Context) -> Pretext | None:
        """Validation rows with a fixed corruption, binned with the edges of training rows."""
        if context.validation is None:
            return None
        generator = context.generator("validation")
        clean = self.inputs.matrix(context.validation, self.device)
        targets = bins.transform(context.validation).to(self.device)
        originals = self.inputs.originals.to(self.device)
        is_shuffled = self.config.corruption == "shuffle"
        swapped = draw_from_columns(train, len(clean), generator, originals) if is_shuffled else None
        inputs = self.inputs.encode(self._corrupt(clean, swapped, generator, originals))
        return Pretext(len(clean), lambda rows: {"loss": task(inputs[rows], targets[rows])})


class Bins:
    """Bins of every column, fitted on training rows: quantile bins for numbers, levels for categories.

    A number's bin index is the count of edges not above it. Missing numbers are not used in the fit; they get the bin
    of the value that replaces them in the input, the column's mean or median.
    """

    def __init__(self, n_bins: int, *, official: bool = False) -> None:
        self.limit = n_bins
        self.official = official

    def fit(self, table: Table, fill: NDArray[np.float64]) -> "Bins":
        """Learn the edges, and the mean and spread of bin indices, from training rows.

        Args:
            table: training rows.
            fill: the replacement for missing numbers, one value per numeric column.
        """
        self.fill = fill
        self.edges: list[NDArray[np.float64]] = []
        for column in table.numeric.T:
            self.edges.append(self._edges(column[~np.isnan(column)].astype(np.float64)))
        self.edges += [np.unique(codes)[1:].astype(np.float64) for codes in table.categorical.T]
        self.n_bins = torch.tensor([len(edges) + 1 for edges in self.edges])
        """Number of bins per column; a constant column has one."""
        indices = self.transform(table).double()
        self.mean = indices.mean(dim=0).float()
        spread = indices.std(dim=0) if len(indices) > 1 else torch.zeros(len(self.edges))
        self.std = spread.float() + 1e-10
        self.varies = spread > 0
        return self

    def _edges(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        distinct = np.unique(values)
        if self.official and len(distinct) <= OFFICIAL_LEVELS:
            return distinct[1:]
        return bin_edges(values, self.limit, official=self.official)

    def transform(self, table: Table) -> torch.Tensor:
        """Bin indices ``(n, d)``, int32."""
        indices = np.empty((len(table), len(self.edges)), dtype=np.int32)
        n_numeric = table.numeric.shape[1]
        for j, edges in enumerate(self.edges):
            if j < n_numeric:
                values = np.nan_to_num(table.numeric[:, j].astype(np.float64), nan=float(self.fill[j]))
            else:
                values = table.categorical[:, j - n_numeric].astype(np.float64)
            indices[:, j] = np.searchsorted(edges, values, side="right")
        return torch.from_numpy(indices)


def bin_edges(values: NDArray[np.float64], n_bins: int, *, official: bool = False) -> NDArray[np.float64]:
    """Inner edges of the bins of a column's training values.

    One bin per value if there are at most T values; else edges at the quantiles 1/T .. (T-1)/T, without duplicates
    and edges that no training value lies below. ``official`` keeps the latter but loses the last edge, because the
    official code overwrites it with infinity, which merges the top two bins.
    """
    distinct = np.unique(values)
    if len(distinct) <= (1 if official else n_bins):
        return distinct[1:]
    # Quantiles by integer arithmetic: an edge at a training value must be exactly that value, or a monotone
    # transformation of the column could move the value to the other side.
    ordered = np.sort(values)
    ranks = np.arange(1, n_bins) * (len(ordered) - 1)
    below, rest = ranks // n_bins, ranks % n_bins
    above = np.minimum(below + 1, len(ordered) - 1)
    edges: NDArray[np.float64] = ordered[below] + rest / n_bins * (ordered[above] - ordered[below])
    if official:
        return edges[:-1]
    kept: NDArray[np.float64] = np.unique(edges[edges > ordered[0]])
    return kept


class BinTask(nn.Module):
    """The encoder with its decoder; called with corrupted inputs and bin indices, it returns the loss."""

    mean: torch.Tensor
    std: torch.Tensor
    n_bins: torch.Tensor
    varies: torch.Tensor

    def __init__(self, encoder: MLP, bins: Bins, config: BinReconConfig) -> None:
        super().__init__()
        self.encoder = encoder
        for name, values in (("mean", bins.mean), ("std", bins.std), ("n_bins", bins.n_bins), ("varies", bins.varies)):
            self.register_buffer(name, values)
        self.most = int(bins.n_bins.max())
        n_columns = len(bins.n_bins)
        self.is_xent = config.loss == "xent"
        if self.is_xent:
            self.decoder: nn.Module = nn.Linear(config.width, n_columns * self.most)
        else:
            self.decoder = MLP(config.width, [config.width] * config.depth, n_columns, dropout=config.dropout)

    def forward(self, inputs: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        decoded = self.decoder(self.encoder(inputs))
        if self.is_xent:
            logits = decoded.view(len(inputs), -1, self.most)
            return xent_loss(logits, indices, self.n_bins, self.varies)
        return recon_loss(decoded, (indices - self.mean) / self.std, self.varies)


def recon_loss(decoded: torch.Tensor, target: torch.Tensor, varies: torch.Tensor) -> torch.Tensor:
    """Squared error of standardised bin indices ``(n, d)``, averaged over rows and non-constant columns."""
    weights = varies / varies.sum().clamp_min(1)
    return ((decoded - target).square().mean(dim=0) * weights).sum()


def xent_loss(logits: torch.Tensor, indices: torch.Tensor, n_bins: torch.Tensor, varies: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of bins, averaged over rows and non-constant columns.

    Args:
        logits: ``(n, d, T)``; logits of bins that a column does not have are ignored.
        indices: ``(n, d)`` bin indices.
        n_bins: ``(d,)`` bins of each column.
        varies: ``(d,)`` which columns count.
    """
    absent = torch.arange(logits.shape[2], device=logits.device) >= n_bins[:, None]
    logits = logits.masked_fill(absent, torch.finfo(logits.dtype).min)
    losses = F.cross_entropy(logits.flatten(0, 1), indices.flatten().long(), reduction="none").view_as(indices)
    return (losses.mean(dim=0) * varies).sum() / varies.sum().clamp_min(1)


def default_batch_size(n_rows: int) -> int:
    """The paper's batch size for a training set of ``n_rows``."""
    return next(size for more_than, size in BATCH_SIZES if n_rows > more_than or more_than == 0)
