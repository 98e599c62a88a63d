"""How many labels are visible, and on which rows: nested, stratified, decided by the split's seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabbench.data.splits import Indices, shuffle_by_class
from tabbench.errors import UsageError

ALL_LABELS = "100%"
FEWEST = 2
"""The fewest labelled training rows of a budget."""
FEWEST_VALIDATION = 32
"""The fewest labelled validation rows, if there are that many."""
TRAIN_STREAM, VALIDATION_STREAM = 3, 4  # distinct from those of splits and subsamples


@dataclass(frozen=True)
class LabelBudget:
    """A label budget as given, such as ``10%`` or ``200``."""

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
                f"--labels {text!r}: give a share of the training rows, such as 10%, "
                f"or at least {FEWEST} rows, such as 200"
            )
        return cls(f"{amount:g}%" if is_share else str(amount), amount, is_share)

    @property
    def is_all(self) -> bool:
        return self.text == ALL_LABELS

    def count(self, n_train: int) -> int:
        """Labelled rows among ``n_train`` training rows."""
        return round(self.amount * n_train / 100) if self.is_share else int(self.amount)

    def count_validation(self, n_train: int, n_validation: int) -> int:
        """Labelled validation rows: the same share as for training, but at least 32 if there are that many."""
        share = self.count(n_train) / n_train
        return min(max(round(share * n_validation), FEWEST_VALIDATION), n_validation)

    def problem(self, n_train: int) -> str:
        """Why ``n_train`` training rows cannot have this budget; empty if they can."""
        count = self.count(n_train)
        if count < FEWEST:
            return f"{self.text} of {n_train} training rows is fewer than {FEWEST} labels"
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
    """Which rows keep their label. A smaller budget keeps a subset of the rows that a larger one keeps.

    Args:
        y_train: labels of the training rows.
        y_validation: labels of the validation rows.
        is_regression: labels are numbers, and rows are drawn regardless of them.
        budget: how many.
        seed: of the split.
        all_validation: validation keeps all its labels.

    Raises:
        UsageError: there are too few rows, or the budget is below two.
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
    """All rows, ordered so that every prefix has the classes in proportion and the first two rows differ in class.

    The rows of a class of ``n`` come at 1/2n, 3/2n, 5/2n ... of the way.
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
    other = int(np.argmax(y[order] != y[order[0]]))  # nothing can be learned from one class
    moved = np.concatenate([order[:1], order[other : other + 1], np.delete(order, [0, other])])
    return moved.astype(np.int64)
