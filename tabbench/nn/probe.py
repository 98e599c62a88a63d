"""Linear models in closed form or by L-BFGS, and the linear probe used to tune SSL methods."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses
from numpy.typing import NDArray
from torch import Tensor

from tabbench.contracts.metrics import goodness
from tabbench.nn.devices import in_double
from tabbench.nn.inputs import Inputs, flat_columns
from tabbench.values import Representation, Task

PROBE_ROWS = 10_000
"""Training rows used by the probe."""
RIDGE_PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Penalties per training row, for columns of unit variance."""
WEAK_PENALTIES = (1e-7, 1e-6)
"""More of them, where there are rows enough. On tokens of T-JEPA 1e-5 is too strong; at 1e-9 a collapsed encoder looked
good on validation and failed on test."""
ROWS_FOR_WEAK_PENALTIES = 2000
GRAM_ROWS = 4096
"""Rows that are brought to double precision at a time."""
LBFGS_HISTORY = 10
"""Pairs of steps and gradients that L-BFGS remembers; torch's 100 are 3.3 GB for 1,000 classes and 4,096 columns."""
LBFGS_VECTORS = 2 * LBFGS_HISTORY + 8
"""Vectors of the weights' size that a fit holds at a time, gradients and line search included."""


def weighted_mean(loss: Callable[..., Tensor], output: Tensor, target: Tensor, weights: Tensor | None) -> Tensor:
    """The mean over rows of ``loss``, a function of torch, each row times its weight."""
    if weights is None:
        return loss(output, target)
    return (loss(output, target, reduction="none") * weights).mean()


class LinearMap(NamedTuple):
    """``x @ weight + bias``"""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


def ridge_path(
    x: Tensor, y: Tensor, penalties: Sequence[float], weights: Tensor | None = None
) -> Iterator[tuple[float, LinearMap]]:
    """Each penalty, with the ridge regression of the columns of ``y`` (rows, outputs); the bias is free.

    A penalty counts per row. Those too small for the rounding of the data are left out. Solved in double precision,
    sums over rows included, from the smaller of the two Gram matrices. ``weights`` say what each row counts in the sum
    of squares; they are 1 on average.
    """
    n, p = x.shape
    wide = p > n
    x_mean, y_mean = _mean(x, weights), _mean(y, weights)
    targets = y - y_mean
    if wide:
        centred = x - x_mean
        if weights is not None:  # the squares of a row times its weight
            centred, targets = (part * weights.sqrt()[:, None] for part in (centred, targets))
        rows = in_double(centred)
        gram, right = rows @ rows.T, in_double(targets)
    else:
        gram, right = _normal_equations(x, x_mean, targets, weights)
    for penalty in penalties:
        regular = gram + n * penalty * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        factor, failed = torch.linalg.cholesky_ex(regular)
        if int(failed):
            continue
        solution = torch.cholesky_solve(right, factor).to(x)
        weight = centred.T @ solution if wide else solution
        yield penalty, LinearMap(weight, y_mean - x_mean @ weight)


def _mean(x: Tensor, weights: Tensor | None) -> Tensor:
    """The mean over rows."""
    return x.mean(dim=0) if weights is None else weights @ x / weights.sum()


def _normal_equations(
    x: Tensor, x_mean: Tensor, targets: Tensor, weights: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Gram matrix and right side of centred columns, in double precision; a tall x is large, and not copied whole."""
    gram: Tensor | None = None
    for start in range(0, len(x), GRAM_ROWS):
        part = slice(start, start + GRAM_ROWS)
        centred = in_double(x[part]) - in_double(x_mean)
        left = centred if weights is None else centred * in_double(weights[part])[:, None]
        products = left.T @ torch.cat([centred, in_double(targets[part])], dim=1)
        gram = products if gram is None else gram.add_(products)
    assert gram is not None
    return gram[:, : x.shape[1]], gram[:, x.shape[1] :]


def ridge_penalties(n_rows: int) -> tuple[float, ...]:
    """The penalties to try, from weak to strong."""
    return WEAK_PENALTIES + RIDGE_PENALTIES if n_rows >= ROWS_FOR_WEAK_PENALTIES else RIDGE_PENALTIES


def logistic_path(
    x: Tensor,
    y: Tensor,
    n_classes: int,
    penalties: Sequence[float],
    max_iterations: int,
    before_evaluation: Callable[[], None] = lambda: None,
    weights: Tensor | None = None,
) -> Iterator[tuple[float, LinearMap]]:
    """Each penalty, with a multinomial logistic regression by L-BFGS that starts from the solution before.

    Minimises the mean cross-entropy plus ``penalty / 2`` times the squared norm of the coefficients; the bias is free.
    ``weights`` say what each row counts in the mean. Give the penalties from strong to weak. What ``before_evaluation``
    raises, such as at a deadline, ends the fit.
    """
    weight = torch.zeros(x.shape[1], n_classes, device=x.device, requires_grad=True)
    bias = torch.zeros(n_classes, device=x.device, requires_grad=True)
    for penalty in penalties:
        optimizer = torch.optim.LBFGS(
            [weight, bias], max_iter=max_iterations, history_size=LBFGS_HISTORY, line_search_fn="strong_wolfe"
        )

        def objective(penalty: float = penalty, optimizer: torch.optim.LBFGS = optimizer) -> Tensor:
            before_evaluation()
            optimizer.zero_grad()
            loss = weighted_mean(F.cross_entropy, x @ weight + bias, y, weights)
            loss = loss + 0.5 * penalty * weight.square().sum()
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        optimizer.step(objective)  # type: ignore[no-untyped-call]
        yield penalty, LinearMap(weight.detach().clone(), bias.detach().clone())


def probe_score(
    train_x: NDArray[np.float32], train_y: NDArray[Any], val_x: NDArray[np.float32], val_y: NDArray[Any], task: Task
) -> float:
    """How well a linear model predicts validation labels from representations, by the main metric; higher is better.

    Ridge regression on standardised columns, of the label or of one 0/1 column per class (the class with the largest
    value is the answer); the penalty is the best of seven, or of nine from 2,000 rows on. It uses at most 10,000
    training rows, evenly spaced. Tokens (rows, d, h) are flattened.
    """
    if len(train_x) > PROBE_ROWS:  # fewer are not copied: tokens can be gigabytes before flat_columns reduces them
        rows = np.linspace(0, len(train_x) - 1, PROBE_ROWS).astype(int)
        train_x, train_y = train_x[rows], train_y[rows]
    train = Representation(flat_columns(train_x))
    inputs = Inputs().fit(train)
    x, x_val = (inputs.transform(part).numeric for part in (train, Representation(flat_columns(val_x))))
    assert x is not None
    assert x_val is not None
    if task.is_regression:
        y, y_val = (torch.from_numpy(np.array(part, dtype=np.float32))[:, None] for part in (train_y, val_y))
        models = ridge_path(x, y, ridge_penalties(len(x)))
        if task.metric:
            return max(goodness(task, val_y, model(x_val)[:, 0].cpu().numpy()) for _, model in models)
        return max(-math.sqrt(float(F.mse_loss(model(x_val), y_val))) for _, model in models)
    n_classes = max(task.n_classes, 2)
    y = F.one_hot(torch.from_numpy(np.array(train_y, dtype=np.int64)), n_classes).float()
    y_val = torch.from_numpy(np.array(val_y, dtype=np.int64))
    if task.metric:  # the answers of a ridge regression are near 0 and 1
        models = ridge_path(x, y, ridge_penalties(len(x)))
        shares = (model(x_val).clamp(1e-6, 1.0) for _, model in models)
        return max(goodness(task, val_y, (each / each.sum(dim=1, keepdim=True)).cpu().numpy()) for each in shares)
    return max(
        int((model(x_val).argmax(dim=1) == y_val).sum()) / len(y_val)
        for _, model in ridge_path(x, y, ridge_penalties(len(x)))
    )
