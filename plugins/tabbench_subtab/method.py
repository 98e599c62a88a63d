"""SubTab: subsetting features of tabular data for self-supervised learning (Ucar et al., NeurIPS 2021).

Paper: https://arxiv.org/abs/2110.04361, https://openreview.net/forum?id=vrhNQ7aYSdr
Authors' code: https://github.com/AstraZeneca/SubTab, losses at commit a839fef, and
https://github.com/talipucar/SubTab_extended for the settings of Adult and Blog. Read, not copied.

The columns are cut into K overlapping contiguous subsets. One encoder sees a noisy subset, a decoder must rebuild the
whole row from it, and the projections of a row's subsets are made to agree. A row is represented by the aggregate of
its K latent vectors.

Shapes: ``n`` rows, ``d`` encoded columns (one-hot), ``K`` subsets of ``w`` columns, ``h`` latent units. Subsets follow
the order of columns, numbers first, so the order of columns is part of the method.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tabbench import Context, SSLMethod, Table
from tabbench.nn import (
    MLP,
    FeatureEncoder,
    NetworkEncoder,
    Pretext,
    Terms,
    draw_from_columns,
    permute_columns_in_batch,
    replace_at_random,
    seeded,
    train_pretext,
)
from tabbench_subtab.config import SubTabConfig


class SubTab(NetworkEncoder, SSLMethod):
    """Encoder of column subsets; its representation is flat, ``(n, h)`` or ``(n, K * h)`` for ``concat``."""

    Config = SubTabConfig
    network: "SubsetEncoder"

    def make_inputs(self) -> FeatureEncoder:
        return FeatureEncoder(self.schema, self.config.scaling)

    def make_network(self) -> "SubsetEncoder":
        subsets = make_subsets(
            self.inputs.width, self.config.n_subsets, self.config.overlap, official_tail=self.config.official_tail
        )
        return SubsetEncoder(subsets, self.config)

    def embed(self, matrix: torch.Tensor) -> torch.Tensor:
        """The aggregate of the latent vectors of clean subsets; projections are for training only."""
        latent: torch.Tensor = self.network(self.inputs.encode(matrix)[:, self.network.subsets])
        return aggregate(latent, self.config.aggregation)

    def pretrain(self, table: Table, context: Context) -> None:
        self.initialise(table, context)
        with seeded(context.seed("heads")):
            heads = Heads(self.network, self.inputs.width, self.config).to(self.device)
        optimiser = torch.optim.AdamW(
            heads.parameters(),
            lr=self.config.lr,
            betas=(0.9, 0.999),
            eps=1e-7,
            weight_decay=self.config.weight_decay,
            fused=True,
        )
        train = self.inputs.matrix(table, self.device)
        generator = context.generator("corruption")

        def loss(rows: torch.Tensor) -> Terms:
            clean = self.inputs.encode(train[rows])
            subsets = clean[:, self.network.subsets]
            swapped = permute_columns_in_batch(subsets.flatten(1), generator) if self.config.noise == "swap" else None
            return self._loss(heads, clean, self._add_noise(subsets, swapped, generator))

        self.diagnostics = train_pretext(
            heads,
            optimiser,
            Pretext(len(train), loss),
            context,
            epochs=self.config.epochs,
            batch_size=self.config.batch_size,
            identity=(self.config, table),
            generators=(generator,),
            encode=self.encode,
            drop_last=True,
            schedule=lambda step, total: self.config.lr_decay ** (step * self.config.epochs // total),
            validation=self._validation(heads, train, context),
            patience=self.config.patience,
        )
        self.diagnostics["subsets"] = [[int(subset[0]), int(subset[-1]) + 1] for subset in self.network.subsets]
        self.diagnostics["columns"] = self.inputs.column_names()  # what the numbers of subsets stand for

    def _add_noise(
        self, subsets: torch.Tensor, swapped: torch.Tensor | None, generator: torch.Generator
    ) -> torch.Tensor:
        """Noise of its own for each subset ``(n, K, w)``, also where subsets overlap."""
        values = subsets.flatten(1)
        if swapped is not None:
            noisy = swapped
        elif self.config.noise == "gaussian":
            noise = torch.randn(values.shape, generator=generator, device=generator.device)
            noisy = values + self.config.sigma * noise
        else:
            noisy = torch.zeros_like(values)
        return replace_at_random(values, noisy, self.config.p_m, generator).view_as(subsets)

    def _loss(self, heads: "Heads", clean: torch.Tensor, noisy: torch.Tensor) -> Terms:
        """The mean over all pairs of subsets.

        Each subset is encoded once and used in all its pairs. The terms are symmetric, so that the order of subsets,
        which the official code shuffles, plays no part.
        """
        projection, rebuilt = heads(noisy)
        target = clean[:, self.network.subsets] if self.config.reconstruct_subset else clean[:, None]
        terms = {"reconstruction": (rebuilt - target).square().sum(dim=2).mean()}
        if noisy.shape[1] > 1:
            if self.config.contrastive:
                terms["contrastive"] = nt_xent(projection, self.config.tau)
            if self.config.distance:
                terms["distance"] = pair_distance(projection)
        return {"loss": torch.stack(list(terms.values())).sum(), **terms}

    def _validation(self, heads: "Heads", train: torch.Tensor, context: Context) -> Pretext | None:
        """Validation rows with fixed noise; swapped values are those of training rows."""
        if context.validation is None:
            return None
        generator = context.generator("validation")
        clean = self.inputs.encode(self.inputs.matrix(context.validation, self.device))
        swapped = None
        if self.config.noise == "swap":
            columns = self.network.subsets.flatten()
            swapped = draw_from_columns(self.inputs.encode(train)[:, columns], len(clean), generator)
        noisy = self._add_noise(clean[:, self.network.subsets], swapped, generator)
        return Pretext(len(clean), lambda rows: self._loss(heads, clean[rows], noisy[rows]))


def make_subsets(n_columns: int, n_subsets: int, overlap: float, *, official_tail: bool = False) -> torch.Tensor:
    """Column indices ``(K, w)``: contiguous subsets of equal width that overlap.

    With ``n = n_columns // K`` and ``o = overlap * n``, subset 0 has the columns ``[0, n + o)`` and subset ``i`` the
    columns ``[i * n - o, (i + 1) * n)``. Where K does not divide the number of columns, that leaves the last ones out
    (``official_tail``). Otherwise the remainder is spread: later subsets move to the right, one column at a time, so
    that the last one ends with the table; they overlap by at least one column, so that no gap opens.
    """
    n_subsets = max(min(n_subsets, n_columns // 2), 1)
    own = n_columns // n_subsets
    shared = int(overlap * own + 1e-9) if n_subsets > 1 else 0
    remainder = 0 if official_tail else n_columns - n_subsets * own
    if remainder:
        shared = max(shared, 1)
    starts = [
        max(i * own - shared, 0) + (i * remainder // (n_subsets - 1) if remainder else 0) for i in range(n_subsets)
    ]
    return torch.tensor(starts)[:, None] + torch.arange(own + shared)


def hidden_layers(config: SubTabConfig) -> list[int]:
    """Units of the layers between input and latent vector, and between that and what is rebuilt."""
    return [] if config.shallow else [config.width] * (config.depth - 1)


class SubsetEncoder(nn.Module):
    """Latent vectors ``(n, K, h)`` of subsets ``(n, K, w)``, all by the same layers."""

    subsets: torch.Tensor

    def __init__(self, subsets: torch.Tensor, config: SubTabConfig) -> None:
        super().__init__()
        self.register_buffer("subsets", subsets)
        n_inputs = subsets.shape[1]
        if config.shallow:
            self.layers = MLP(n_inputs, [config.latent], activation=nn.LeakyReLU, dropout=config.dropout)
        else:
            hidden = hidden_layers(config)
            self.layers = MLP(n_inputs, hidden, config.latent, activation=nn.LeakyReLU, dropout=config.dropout)

    def forward(self, subsets: torch.Tensor) -> torch.Tensor:
        latent: torch.Tensor = self.layers(subsets)
        return latent


class Heads(nn.Module):
    """The encoder with its projection and its decoder, the mirror image of the encoder."""

    def __init__(self, encoder: SubsetEncoder, n_columns: int, config: SubTabConfig) -> None:
        super().__init__()
        self.encoder = encoder
        self.normalize = config.normalize
        self.projection = MLP(config.latent, [config.latent], config.latent, activation=nn.LeakyReLU)
        n_rebuilt = encoder.subsets.shape[1] if config.reconstruct_subset else n_columns
        self.decoder = MLP(
            config.latent, hidden_layers(config), n_rebuilt, activation=nn.LeakyReLU, dropout=config.dropout
        )

    def forward(self, subsets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        latent = self.encoder(subsets)
        projection = self.projection(latent)
        return F.normalize(projection, dim=2) if self.normalize else projection, self.decoder(latent)


def nt_xent(projection: torch.Tensor, tau: float) -> torch.Tensor:
    """NT-Xent by cosine similarity, the mean over all pairs of subsets and their ``2n`` anchors.

    For a pair of subsets the positive of a row is the same row in the other subset, and its negatives are all other
    rows in both. Every block of similarities between two subsets is computed once: its rows serve the anchors of one
    subset, its columns those of the other, and the block of a subset with itself serves all pairs.

    Args:
        projection: ``(n, K, h)``, at least two subsets.
        tau: temperature.
    """
    n_rows, n_subsets, _ = projection.shape
    unit = F.normalize(projection, dim=2).transpose(0, 1).contiguous()
    scaled = unit / tau
    by_anchor, by_other = [], []
    for i in range(n_subsets):  # subset i with itself and with all later ones
        similarity = unit[i] @ scaled[i:].flatten(0, 1).T
        similarity[:, :n_rows].fill_diagonal_(-torch.inf)  # no row is its own negative
        # A cosine is at most 1: with that known, no pass for the largest one. What is subtracted comes back below.
        exponentials = similarity.sub_(1 / tau).exp_().view(n_rows, n_subsets - i, n_rows)
        by_anchor.append(exponentials.sum(dim=2))
        by_other.append(exponentials[:, 1:].sum(dim=0).T)
    within = torch.stack([sums[:, 0] for sums in by_anchor], dim=1)
    first, second = torch.triu_indices(n_subsets, n_subsets, offset=1, device=unit.device)
    anchors_first = within[:, first] + torch.cat([sums[:, 1:] for sums in by_anchor], dim=1)
    anchors_second = within[:, second] + torch.cat(by_other, dim=1)
    normaliser = (anchors_first.log() + anchors_second.log()).mean() / 2 + 1 / tau
    # The positives of all pairs add up to half of what the square of the sum has beyond the sum of squares.
    positives = (unit.sum(dim=0).square().sum() - unit.square().sum()) / 2
    return normaliser - positives / (tau * n_rows * len(first))


def pair_distance(projection: torch.Tensor) -> torch.Tensor:
    """Squared distance between projections ``(n, K, h)`` of a row's subsets, the mean over rows and pairs.

    The distances of all pairs add up to K times the squared distances from the mean.
    """
    n_subsets = projection.shape[1]
    from_mean = projection - projection.mean(dim=1, keepdim=True)
    return from_mean.square().sum(dim=(1, 2)).mean() * 2 / (n_subsets - 1)


def aggregate(latent: torch.Tensor, how: str) -> torch.Tensor:
    """One vector per row from ``(n, K, h)``."""
    if how == "mean":
        return latent.mean(dim=1)
    if how == "sum":
        return latent.sum(dim=1)
    if how == "max":
        return latent.amax(dim=1)
    if how == "min":
        return latent.amin(dim=1)
    return latent.flatten(1)
