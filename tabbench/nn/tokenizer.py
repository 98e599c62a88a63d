"""One token for each feature of a row, and positions for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses
from torch import Tensor, nn

from tabbench.values import FIRST_LEVEL


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Rows as a ``FeatureTokenizer`` reads them."""

    numeric: Tensor
    """(rows, numeric columns) float32, scaled, without missing values"""
    missing: Tensor
    """(rows, numeric columns) float32, 1 where the number was missing; (rows, 0) if no column has missing values"""
    categorical: Tensor
    """(rows, categorical columns) int64 codes"""

    def __len__(self) -> int:
        return len(self.numeric)

    def take(self, rows: Tensor | slice) -> TokenRows:
        """The given rows, by index or slice, on the same device."""
        return TokenRows(self.numeric[rows], self.missing[rows], self.categorical[rows])

    @property
    def nbytes(self) -> int:
        return self.numeric.nbytes + self.missing.nbytes + self.categorical.nbytes

    def to(self, device: torch.device | str) -> TokenRows:
        return TokenRows(self.numeric.to(device), self.missing.to(device), self.categorical.to(device))

    def send_to(self, device: torch.device | str) -> TokenRows:
        """Like ``to``, from the CPU to a GPU, but without waiting: through pinned memory."""
        tensors = (self.numeric, self.missing, self.categorical)
        return TokenRows(*(tensor.pin_memory().to(device, non_blocking=True) for tensor in tensors))


class FeatureTokenizer(nn.Module):
    """Maps each feature with its own linear map: ``TokenRows`` to ``(features, rows, dim)``, numeric ones first.

    A number x of column j becomes ``x * weight[j] + bias[j]``, all columns in one operation. A category becomes a row
    of its column's table plus a bias, which is the linear map of its one-hot code; all tables are one, with offsets.
    If numbers can be missing, each column has a learned vector that is added where they are.

    Args:
        n_numeric: number of numeric columns.
        cardinalities: number of codes of each categorical column (``Schema.cardinalities``).
        dim: width of a token.
        missing: whether numbers can be missing.
    """

    offsets: Tensor

    def __init__(self, n_numeric: int, cardinalities: Sequence[int], dim: int, missing: bool = False) -> None:
        super().__init__()
        self.n_numeric = n_numeric
        self.n_features = n_numeric + len(cardinalities)
        self.weight = nn.Parameter(torch.empty(n_numeric, dim))
        self.bias = nn.Parameter(torch.empty(self.n_features, dim))
        self.categories = nn.Parameter(torch.empty(sum(cardinalities), dim))
        self.missing = nn.Parameter(torch.empty(n_numeric if missing else 0, dim))
        sizes = torch.tensor([0, *cardinalities], dtype=torch.int64)
        self.register_buffer("offsets", sizes.cumsum(0)[:-1], persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform in +-1/sqrt(dim), as a linear layer on one input would be scaled by its outputs.

        Missing and unknown categories start at zero: a code that no training row has adds nothing but the bias.
        """
        bound = self.weight.shape[1] ** -0.5
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)
        with torch.no_grad():
            for code in range(FIRST_LEVEL):
                self.categories[self.offsets + code] = 0

    def forward(self, rows: TokenRows, added: Tensor | None = None) -> Tensor:
        """Tokens ``(features, rows, dim)``; ``added`` is ``(features, dim)`` to add to each, such as positions."""
        bias = self.bias if added is None else self.bias + added
        parts = []
        if self.n_numeric:
            values = rows.numeric.t()[..., None]
            numeric = torch.addcmul(bias[: self.n_numeric, None], values, self.weight[:, None])
            if len(self.missing):
                numeric = torch.addcmul(numeric, rows.missing.t()[..., None], self.missing[:, None])
            parts.append(numeric)
        if self.n_numeric < self.n_features:
            chosen = F.embedding(rows.categorical.t() + self.offsets[:, None], self.categories)
            parts.append(chosen + bias[self.n_numeric :, None])
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def sincos_positions(n: int, dim: int, base: float = 10_000.0) -> Tensor:
    """Fixed positions ``(n, dim)``: sines in even, cosines in odd channels, of wavelengths up to ``2 pi base``."""
    channels = torch.arange(0, dim, 2, dtype=torch.float64)
    angles = torch.arange(n, dtype=torch.float64)[:, None] * base ** (-channels / dim)
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :dim].float()
