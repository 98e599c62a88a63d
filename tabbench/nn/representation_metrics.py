"""How a representation fills its space: spread, uniformity, collapse.

Every function takes embeddings ``(rows, ...)``; what follows the first axis is flattened, as in the T-JEPA paper. Means
over pairs of rows are over all ordered pairs of different rows, in blocks, or over ``pairs`` pairs drawn with
replacement: with the paper's 50,000 rows there are 2.5e9 pairs, and a million of them give a mean to three digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from tabbench.nn.devices import in_double

BLOCK = 1024
"""Rows whose distances to all others are computed at a time."""

COLLAPSE_RATIO = 0.02
"""Below this ratio of the spread of rows to their size an encoder counts as collapsed.

Not measured but converted: a T-JEPA prototype on California housing had a uniformity of .0005 when it stayed collapsed
and of .0041 untrained with min-max inputs, which for t = 2 and small spreads (uniformity = 4 ratio^2) is .011 and .032.
"""


def uniformity(
    embeddings: Tensor, t: float = 2.0, pairs: int | None = None, generator: torch.Generator | None = None
) -> float:
    """``-log E exp(-t |u - v|^2)`` over pairs of normalised rows (Wang and Isola, 2020): 0 if all rows are the same."""
    unit = torch.nn.functional.normalize(_flat(embeddings), dim=1)

    def potential(a: Tensor, b: Tensor) -> Tensor:
        return torch.exp(-t * (2 - 2 * (a * b).sum(-1)).clamp_min(0))

    def potentials(a: Tensor, b: Tensor) -> Tensor:
        return torch.exp(-t * (2 - 2 * a @ b.t()).clamp_min(0))

    return -math.log(_pair_mean(unit, potential, potentials, pairs, generator))


def mean_pairwise_distance(
    embeddings: Tensor, pairs: int | None = None, generator: torch.Generator | None = None
) -> float:
    """Mean Euclidean distance between rows."""

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return (a - b).square().sum(-1).sqrt()

    return _pair_mean(_flat(embeddings), distance, torch.cdist, pairs, generator)


def mean_pairwise_kl(embeddings: Tensor, pairs: int | None = None, generator: torch.Generator | None = None) -> float:
    """Mean Kullback-Leibler divergence between rows, each made a distribution by a softmax over its entries."""
    logs = torch.log_softmax(_flat(embeddings), dim=1)

    def divergence(a: Tensor, b: Tensor) -> Tensor:
        return (a.exp() * (a - b)).sum(-1)

    def divergences(a: Tensor, b: Tensor) -> Tensor:
        p = a.exp()
        return (p * a).sum(1, keepdim=True) - p @ b.t()

    return _pair_mean(logs, divergence, divergences, pairs, generator)


def feature_embedding_variance(tokens: Tensor) -> Tensor:
    """How much each feature's token stands out, ``(d,)`` from tokens ``(rows, d, h)``: the T-JEPA paper's score.

    In each row the mean over features is subtracted, then the variance over the hidden dimensions is taken for each
    feature; the score is its mean over rows.
    """
    if tokens.ndim != 3:
        raise ValueError(f"tokens have shape (rows, features, dim), not {tuple(tokens.shape)}")
    values = in_double(tokens)
    centred = values - values.mean(1, keepdim=True)
    return centred.var(2, correction=0).mean(0)


def embedding_variance(embeddings: Tensor) -> float:
    """Variance over rows, averaged over the entries of an embedding: 0 if all rows are the same."""
    return float(_flat(embeddings).var(0, correction=0).mean())


def rank_me(embeddings: Tensor) -> float:
    """RankMe, the effective rank of the rows (Garrido et al., 2023): between 1 and the smaller side of the matrix.

    The exponential of the entropy of the singular values, taken as shares of their sum: 1 if all rows are multiples of
    one, k if k directions are used alike.
    """
    rows = _flat(embeddings)
    small = rows @ rows.T if len(rows) <= rows.shape[1] else rows.T @ rows
    values = torch.linalg.eigvalsh(small).clamp_min(0).sqrt()
    shares = values / values.sum().clamp_min(torch.finfo(values.dtype).tiny)
    return float(torch.special.entr(shares).sum().exp())


def collapse_ratio(embeddings: Tensor) -> float:
    """Root mean square of the rows' distances to their mean, as a share of the rows' root mean square length."""
    rows = _flat(embeddings)
    spread = rows.var(0, correction=0).sum()
    size = rows.square().sum(1).mean()
    return float((spread / size.clamp_min(torch.finfo(torch.float64).tiny)).sqrt())


def is_collapsed(embeddings: Tensor, threshold: float = COLLAPSE_RATIO) -> bool:
    """Whether all rows have nearly the same embedding. One row alone cannot tell."""
    return len(embeddings) > 1 and collapse_ratio(embeddings) < threshold


def _flat(embeddings: Tensor) -> Tensor:
    # In double precision: the differences between rows of a collapsed embedding are what is measured.
    return in_double(embeddings.detach().flatten(1))


def _pair_mean(
    rows: Tensor,
    of_pairs: Callable[[Tensor, Tensor], Tensor],
    of_blocks: Callable[[Tensor, Tensor], Tensor],
    pairs: int | None,
    generator: torch.Generator | None,
) -> float:
    n = len(rows)
    if n < 2:
        raise ValueError("pairs need at least two rows")
    if pairs is None:
        total = sum(
            float(of_blocks(block, rows).sum() - of_pairs(block, block).sum()) for block in torch.split(rows, BLOCK)
        )
        return total / (n * (n - 1))
    first = torch.randint(n, (pairs,), generator=generator, device=rows.device)
    step = torch.randint(1, n, (pairs,), generator=generator, device=rows.device)
    total = 0.0
    for a, b in zip(torch.split(first, BLOCK), torch.split((first + step) % n, BLOCK), strict=True):
        total += float(of_pairs(rows[a], rows[b]).sum())
    return total / pairs
