"""The two pretext tasks of "Revisiting pretraining objectives for tabular deep learning" (Rubachev et al., 2022).

Paper: https://arxiv.org/abs/2207.03208, section 3.2; authors' code: https://github.com/puhsu/tabular-dl-pretrain-objectives

Shapes: ``n`` rows, ``d`` original columns, ``h`` hidden units of the backbone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses
from torch import Tensor, nn

from tabbench import Schema
from tabbench.nn import Backbone, Batch, OriginalColumns


@dataclass(frozen=True)
class Columns:
    """The layout of a matrix of rows: numbers, missing indicators, category codes."""

    n_numbers: int
    missing: tuple[int, ...]
    """For each indicator, the index of its number."""
    cardinalities: tuple[int, ...]

    @classmethod
    def of(cls, schema: Schema, with_missing: list[int]) -> Columns:
        return cls(len(schema.numeric), tuple(with_missing), schema.cardinalities)

    @property
    def n_numeric(self) -> int:
        """Columns before the category codes."""
        return self.n_numbers + len(self.missing)

    @property
    def originals(self) -> OriginalColumns:
        """A number and its indicator count as one column: they are replaced together."""
        codes = range(self.n_numbers, self.n_numbers + len(self.cardinalities))
        owner = torch.tensor([*range(self.n_numbers), *self.missing, *codes], dtype=torch.int64)
        return OriginalColumns(owner, self.n_numbers + len(self.cardinalities))

    def to_matrix(self, batch: Batch) -> Tensor:
        """``(n, columns)``; codes become floats, which hold them exactly."""
        found = [part.float() for part in (batch.numeric, batch.categorical) if part is not None]
        return torch.cat(found, dim=1)

    def to_batch(self, matrix: Tensor) -> Batch:
        """Rows in the form that the backbone takes."""
        numeric = matrix[:, : self.n_numeric] if self.n_numeric else None
        return Batch(numeric, matrix[:, self.n_numeric :].long() if self.cardinalities else None)


class PretextNetwork(nn.Module):
    """The backbone with the pretraining head: linear, ReLU, linear."""

    def __init__(self, backbone: Backbone, columns: Columns, head_width: int, n_outputs: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.columns = columns
        self.head = nn.Sequential(
            nn.Linear(backbone.out_features, head_width), nn.ReLU(), nn.Linear(head_width, n_outputs)
        )

    def forward(self, matrix: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.backbone(self.columns.to_batch(matrix)))
        return outputs


def reconstruction_loss(outputs: Tensor, clean: Tensor, columns: Columns) -> Tensor:
    """Squared error for numbers and cross-entropy for categories, averaged over all entries, replaced or not.

    Args:
        outputs: ``(n, numbers + all categories)``: a value for each number, a logit for each code of each category.
        clean: the original rows, as a matrix.
        columns: the layout of that matrix.
    """
    values, *logits = torch.split(outputs, [columns.n_numbers, *columns.cardinalities], dim=1)
    total = (values - clean[:, : columns.n_numbers]).square().sum()
    codes = clean[:, columns.n_numeric :].long()
    for j, of_column in enumerate(logits):
        total = total + F.cross_entropy(of_column, codes[:, j], reduction="sum")
    return total / (len(clean) * columns.originals.count)


def mask_loss(outputs: Tensor, clean: Tensor, corrupted: Tensor, originals: OriginalColumns) -> Tensor:
    """Binary cross-entropy for detecting which entries have changed, averaged over all entries ``(n, d)``.

    An entry replaced by an equal value looks untouched, so it does not count as replaced.
    """
    replaced = originals.gather(corrupted != clean)
    return F.binary_cross_entropy_with_logits(outputs, replaced.to(outputs.dtype))
