"""VIME, the self-supervised stage: value imputation and mask estimation (Yoon et al., NeurIPS 2020).

Paper: https://papers.nips.cc/paper/2020/hash/7d97667a3e056acab9aaf653807b4a03-Abstract.html
Authors' code: https://github.com/jsyoon0823/VIME, commit d672f4f. It has no licence: read, not copied.

A random part of a row's entries is replaced by values from other rows. From the corrupted row, an encoder must detect
the replaced entries and restore them. The paper's second stage, a semi-supervised predictor, needs labels; it is in
``semi.py``.

Shapes: ``n`` rows, ``d`` original features, ``w`` encoded columns (one-hot), ``h`` units of the encoder.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tabbench import Context, SSLMethod, Table
from tabbench.nn import (
    MLP,
    FeatureEncoder,
    Hooks,
    NetworkEncoder,
    OriginalColumns,
    Pretext,
    Terms,
    draw_from_columns,
    glorot_,
    output_activation,
    permute_columns,
    replace_at_random,
    seeded,
    train_pretext,
)
from tabbench_vime.config import VIMEConfig

MIN_WIDTH = 8


class VIME(NetworkEncoder, SSLMethod):
    """Encoder trained to detect and restore swapped entries; its representation is flat ``(n, h)`` and non-negative."""

    Config = VIMEConfig
    network: MLP

    def make_inputs(self) -> FeatureEncoder:
        return FeatureEncoder(self.schema, self.config.scaling)

    def make_network(self) -> MLP:
        # One or two ReLU units may be zero for every row, hence at least a few.
        width = self.config.width or max(self.inputs.width, MIN_WIDTH)
        return glorot_(MLP(self.inputs.width, [width] * self.config.depth))

    def embed(self, matrix: torch.Tensor) -> torch.Tensor:
        """``(n, h)``: the encoder's output for the uncorrupted row."""
        embedding: torch.Tensor = self.network(self.inputs.encode(matrix))
        return embedding

    def pretrain(self, table: Table, context: Context) -> None:
        self.initialise(table, context)
        train, originals = self._corruptible(table)
        with seeded(context.seed("heads")):
            heads = Heads(self.network, originals.count, self.inputs.width, self.config.scaling).to(self.device)
        optimiser = torch.optim.RMSprop(heads.parameters(), lr=self.config.lr, alpha=0.9, eps=1e-7)
        generator = context.generator("corruption")
        corrupted = train

        def draw_corruption() -> None:
            nonlocal corrupted
            swapped = permute_columns(train, generator, originals)
            corrupted = replace_at_random(train, swapped, self.config.p_m, generator, originals)

        if self.config.static_corruption:
            draw_corruption()

        self.diagnostics = train_pretext(
            heads,
            optimiser,
            Pretext(len(train), lambda rows: self._loss(heads, train[rows], corrupted[rows], originals)),
            context,
            epochs=self.config.epochs,
            batch_size=self.config.batch_size,
            identity=(self.config, table),
            generators=(generator,),
            encode=self.encode,
            hooks=Hooks() if self.config.static_corruption else Hooks(before_epoch=draw_corruption),
            validation=self._validation(heads, train, context),
            patience=self.config.stops_after,
        )

    def _corruptible(self, table: Table) -> tuple[torch.Tensor, OriginalColumns]:
        """The matrix whose entries are swapped, that of features or ``(n, w)``, and which entries are swapped together.

        At the level of features a number and its missing indicator are one column, and the mask has ``d`` entries.
        """
        matrix = self.inputs.matrix(table, self.device)
        if self.config.corrupt_level == "feature":
            return matrix, self.inputs.originals.to(self.device)
        return self.inputs.encode(matrix), OriginalColumns.each(self.inputs.width)

    def _loss(self, heads: "Heads", clean: torch.Tensor, corrupted: torch.Tensor, originals: OriginalColumns) -> Terms:
        """The mask to estimate is where rows differ, not what was drawn.

        An entry replaced by an equal value looks untouched.
        """
        replaced = originals.gather(corrupted != clean)
        if self.config.corrupt_level == "feature":
            clean, corrupted = self.inputs.encode(clean), self.inputs.encode(corrupted)
        mask_logits, restored = heads(corrupted)
        return vime_loss(mask_logits, replaced, restored, clean, self.config.alpha)

    def _validation(self, heads: "Heads", train: torch.Tensor, context: Context) -> Pretext | None:
        """Validation rows with a fixed corruption; the replacement values come from training rows."""
        if context.validation is None:
            return None
        clean, originals = self._corruptible(context.validation)
        generator = context.generator("validation")
        drawn = draw_from_columns(train, len(clean), generator, originals)
        corrupted = replace_at_random(clean, drawn, self.config.p_m, generator, originals)
        return Pretext(len(clean), lambda rows: self._loss(heads, clean[rows], corrupted[rows], originals))


class Heads(nn.Module):
    """The encoder with its two heads: logits of the mask, and the restored row."""

    def __init__(self, encoder: MLP, n_mask: int, n_columns: int, scaling: str) -> None:
        super().__init__()
        self.encoder = encoder
        self.sizes = [n_mask, n_columns]
        # Both heads are linear in the same vector: one product serves both, each part initialised separately.
        self.output = nn.Linear(encoder.out_features, n_mask + n_columns)
        for weight in torch.split(self.output.weight.detach(), self.sizes):
            nn.init.xavier_uniform_(weight)
        nn.init.zeros_(self.output.bias)
        self.activation = output_activation(scaling)

    def forward(self, corrupted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mask, feature = torch.split(self.output(self.encoder(corrupted)), self.sizes, dim=1)
        return mask, self.activation(feature)


def vime_loss(
    mask_logits: torch.Tensor, mask: torch.Tensor, restored: torch.Tensor, clean: torch.Tensor, alpha: float
) -> Terms:
    """Binary cross-entropy of the mask plus ``alpha`` times the squared error of all entries, replaced or not."""
    mask_loss = F.binary_cross_entropy_with_logits(mask_logits, mask.to(mask_logits.dtype))
    reconstruction = F.mse_loss(restored, clean)
    return {"loss": mask_loss + alpha * reconstruction, "mask": mask_loss, "reconstruction": reconstruction}
