"""The first layer of the downstream networks: a ``Batch`` becomes one vector, or one token per column."""

from __future__ import annotations

from itertools import accumulate

import torch
from torch import Tensor, nn

from tabbench.config import ProjectionName
from tabbench.errors import UsageError
from tabbench.nn.inputs import MAX_FLAT_COLUMNS, Batch, InputShape
from tabbench.nn.projections import make_projection, make_wide_projection
from tabbench.values import FIRST_LEVEL, UNKNOWN

MAX_ATTENTION_TOKENS = 1024
"""Attention over more tokens than this is refused: one batch of 512 rows and 8 heads would take 17 GB."""


class CategoryEmbedding(nn.Module):
    """All categorical columns in one table with offsets: codes (rows, columns) to (rows, columns, d_embedding).

    The vectors of missing and unknown categories start at zero: a level that no training row has adds nothing.
    """

    def __init__(self, cardinalities: tuple[int, ...], d_embedding: int) -> None:
        super().__init__()
        self.table = nn.Embedding(sum(cardinalities), d_embedding)
        self.offsets: Tensor
        self.register_buffer("offsets", _offsets(cardinalities), persistent=False)
        bound = d_embedding**-0.5
        with torch.no_grad():
            self.table.weight.uniform_(-bound, bound)
            for code in range(FIRST_LEVEL):
                self.table.weight[self.offsets + code] = 0

    def forward(self, codes: Tensor) -> Tensor:
        embedded: Tensor = self.table(codes + self.offsets)
        return embedded


class OneHot(nn.Module):
    """Codes (rows, columns) to 0/1 columns; an unknown category is all zeros."""

    def __init__(self, cardinalities: tuple[int, ...]) -> None:
        super().__init__()
        total = sum(cardinalities)
        offsets = _offsets(cardinalities)
        known = torch.ones(total)
        known[offsets + UNKNOWN] = 0
        self.offsets: Tensor
        self.known: Tensor
        self.register_buffer("offsets", offsets, persistent=False)
        self.register_buffer("known", known, persistent=False)
        self.out_features = total

    def forward(self, codes: Tensor) -> Tensor:
        columns = torch.zeros(len(codes), self.out_features, device=codes.device)
        return columns.scatter_(1, codes + self.offsets, 1.0) * self.known


class FlatColumns(nn.Module):
    """A batch as one vector per row: numbers, embedded or one-hot categories, or projected tokens.

    ``auto`` lays tokens side by side, up to ``max_width`` numbers. More go through one linear map.
    """

    def __init__(
        self,
        shape: InputShape,
        *,
        d_embedding: int | None = None,
        projection: ProjectionName = "auto",
        max_width: int = MAX_FLAT_COLUMNS,
    ) -> None:
        """``d_embedding=None`` makes categories one-hot."""
        super().__init__()
        self.categories: nn.Module | None = None
        self.projection: nn.Module | None = None
        self.out_features = shape.n_numeric
        if shape.cardinalities and d_embedding is None:
            self.categories = OneHot(shape.cardinalities)
            self.out_features += sum(shape.cardinalities)
        elif shape.cardinalities and d_embedding is not None:
            self.categories = nn.Sequential(CategoryEmbedding(shape.cardinalities, d_embedding), nn.Flatten())
            self.out_features += len(shape.cardinalities) * d_embedding
        if shape.tokens is not None:
            d, h = shape.tokens
            if projection == "auto":
                self.projection, width = make_wide_projection(d, h, max_width)
            else:
                self.projection = make_projection(projection, d, h)
                width = d * h if projection == "tokens_direct" else d
            self.out_features += width

    def forward(self, batch: Batch) -> Tensor:
        parts = [] if batch.numeric is None else [batch.numeric]
        if self.categories is not None:
            parts.append(self.categories(batch.categorical))
        if self.projection is not None:
            parts.append(self.projection(batch.tokens))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


class TokenColumns(nn.Module):
    """A batch as one token per column, (rows, n_tokens, d_token): numbers times a vector, categories embedded.

    More than ``max_numbers`` numbers first go through a linear map to that many, because attention is quadratic in
    tokens. Tokens of a representation are projected to numbers and tokenised again as in the T-JEPA paper, or, with
    ``tokens_direct``, brought to ``d_token`` by one linear map.
    """

    def __init__(
        self,
        shape: InputShape,
        d_token: int,
        *,
        bias: bool,
        projection: ProjectionName = "auto",
        max_numbers: int = 128,
    ) -> None:
        super().__init__()
        self.to_numbers: nn.Module | None = None
        self.direct: nn.Module | None = None
        self.categories: CategoryEmbedding | None = None
        n_numbers = shape.n_numeric
        if shape.tokens is not None:
            d, h = shape.tokens
            if projection == "tokens_direct":
                self.direct = nn.Linear(h, d_token)
                self.n_tokens = d
            else:
                self.to_numbers = make_projection(projection, d, h)
                n_numbers = d
        if n_numbers > max_numbers:
            squeeze = nn.Linear(n_numbers, max_numbers)
            self.to_numbers = squeeze if self.to_numbers is None else nn.Sequential(self.to_numbers, squeeze)
            n_numbers = max_numbers
        if self.direct is None:
            self.n_tokens = n_numbers + len(shape.cardinalities)
        if self.n_tokens > MAX_ATTENTION_TOKENS:
            raise UsageError(
                f"{self.n_tokens} columns are too many for attention (at most {MAX_ATTENTION_TOKENS}): "
                "use a model without attention, such as mlp or resnet"
            )
        bound = d_token**-0.5
        self.weight = nn.Parameter(torch.empty(n_numbers, d_token).uniform_(-bound, bound)) if n_numbers else None
        self.bias = nn.Parameter(torch.empty(self.n_tokens, d_token).uniform_(-bound, bound)) if bias else None
        if shape.cardinalities:
            self.categories = CategoryEmbedding(shape.cardinalities, d_token)

    def forward(self, batch: Batch) -> Tensor:
        parts: list[Tensor] = []
        if self.direct is not None:
            parts.append(self.direct(batch.tokens))
        else:
            numbers = batch.numeric if batch.tokens is None else batch.tokens
            if self.to_numbers is not None:
                numbers = self.to_numbers(numbers)
            if numbers is not None and self.weight is not None:
                parts.append(numbers.unsqueeze(-1) * self.weight)
            if self.categories is not None:
                parts.append(self.categories(batch.categorical))
        tokens = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        return tokens if self.bias is None else tokens + self.bias


def _offsets(cardinalities: tuple[int, ...]) -> Tensor:
    return torch.tensor([0, *accumulate(cardinalities[:-1])])
