"""How many labels there are, and which rows have them: nested, stratified, decided by the split's seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabbench.data.splits import Indices, shuffle_by_class
from tabbench.errors import UsageError

ALL_LABELS = "100%"
FEWEST = 2
"""Labelled training rows that a budget needs."""
FEWEST_VALIDATION = 32
"""Labelled validation rows that stay, if there are as many."""
TRAIN_STREAM, VALIDATION_STREAM = 3, 4  # beside those of splits and subsamples


@dataclass(frozen=True)
class LabelBudget:
    """A budget of labels as it was given, such as ``10%`` or ``200``."""

    text: str
    amount: float
    is_share: bool

    @classmethod
    def parse(cls, text: str) -> LabelBudget:
        """Read a budget.

        Raises:
            UsageError: it is neither a share between 0 % and 100 % nor a number of rows.
        """
        cleaned = str(text).replace(" ", "")
        number, is_share = cleaned.removesuffix("%"), cleaned.endswith("%")
        try:
            amount = float(number) if is_share else int(number)
        except ValueError:
            amount = 0
        if not (0 < amount <= 100 if is_share else amount >= FEWEST):
            raise UsageError(
                f"--labels {text!r}: write a share of the training rows, such as 10%, "
                f"or a number of them from {FEWEST} on, such as 200"
            )
        return cls(f"{amount:g}%" if is_share else str(amount), amount, is_share)

    @property
    def is_all(self) -> bool:
        return self.text == ALL_LABELS

    def count(self, n_train: int) -> int:
        """Labelled rows among ``n_train`` training rows."""
        return round(self.amount * n_train / 100) if self.is_share else int(self.amount)

    def count_validation(self, n_train: int, n_validation: int) -> int:
        """Labelled validation rows: the same share as of training, but at least 32 if there are as many."""
        share = self.count(n_train) / n_train
        return min(max(round(share * n_validation), FEWEST_VALIDATION), n_validation)

    def problem(self, n_train: int) -> str:
        """Why ``n_train`` training rows cannot have this budget; empty if they can."""
        count = self.count(n_train)
        if count < FEWEST:
            return f"{self.text} of {n_train} training rows is less than {FEWEST} labels"
        if count > n_train:
            return f"there are only {n_train} training rows for {self.text} labels"
        return ""


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """The rows that have a label, sorted, counted within training and within validation."""

    train: Indices
    validation: Indices


def choose_labelled(
    y_train: NDArray[Any],
    y_validation: NDArray[Any],
    is_regression: bool,
    budget: LabelBudget,
    seed: int,
    *,
    all_validation: bool = False,
) -> LabelledRows:
    """Which rows keep their label; a smaller budget keeps some of the rows that a larger one keeps.

    Args:
        y_train: labels of the training rows.
        y_validation: labels of the validation rows.
        is_regression: labels are numbers, and rows are drawn without regard to them.
        budget: how many.
        seed: of the split.
        all_validation: validation keeps all of its labels.

    Raises:
        UsageError: there are not that many rows, or it would be fewer than two.
    """
    problem = budget.problem(len(y_train))
    if problem:
        raise UsageError(problem)
    n_validation = budget.count_validation(len(y_train), len(y_validation))
    first = label_order(y_train, is_regression, np.random.default_rng([TRAIN_STREAM, seed]))
    second = label_order(y_validation, is_regression, np.random.default_rng([VALIDATION_STREAM, seed]))
    return LabelledRows(
        np.sort(first[: budget.count(len(y_train))]),
        np.sort(second if all_validation else second[:n_validation]),
    )


def label_order(y: NDArray[Any], is_regression: bool, rng: np.random.Generator) -> Indices:
    """All rows in an order of which every beginning has the classes in proportion, and the first two rows differ.

    A class of ``n`` rows has its turns at 1/2n, 3/2n, 5/2n ... of the way.
    """
    order = shuffle_by_class(y, is_regression, rng)
    if is_regression:
        return order
    classes, counts = np.unique(y[order], return_counts=True)
    if len(classes) < 2:
        return order
    within = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
    ties = rng.permutation(len(order))
    order = order[np.lexsort((ties, within))]
    other = int(np.argmax(y[order] != y[order[0]]))  # with one class only nothing can be learned
    moved = np.concatenate([order[:1], order[other : other + 1], np.delete(order, [0, other])])
    return moved.astype(np.int64)
