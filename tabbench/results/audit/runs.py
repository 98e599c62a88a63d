"""Runs with their scores, each number with its digits as written, and the names of metrics."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean
from typing import TypeVar

from tabbench.contracts.metrics import LOWER_IS_BETTER

Column = tuple[str, str]
"""Setting and dataset: numbers in one column of a table can be compared."""
Row = tuple[str, str, str]
"""Setting, method and model."""
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)

SHARES = frozenset({"accuracy", "balanced_accuracy", "macro_f1", "auroc"})
"""Metrics between 0 and 1 that are never 0 for a model that has learned something."""
COUNTED = SHARES | {"error", "mcc", "kappa"}
"""Metrics of answers that are right or wrong, which have few possible values on few rows."""
PLAIN_COUNTS = frozenset({"accuracy", "error"})
"""Shares of the test rows."""
ERRORS = frozenset({"rmse", "rmse_std", "mae", "mse"})
"""Metrics in a unit of the data."""
LOWER = LOWER_IS_BETTER | ERRORS | {"error", "loss", "brier"}
HIGHER = SHARES | {"r2", "mcc", "kappa"}
SPELLINGS = {
    "accuracy": ("acc", "top1", "top1accuracy"),
    "auroc": ("auc", "aucroc", "rocauc", "rocaucscore"),
    "balanced_accuracy": ("balacc", "bacc"),
    "macro_f1": ("f1", "f1macro", "f1score"),
    "log_loss": ("crossentropy", "nll"),
    "ece": ("expectedcalibrationerror",),
    "error": ("errorrate", "err"),
    "r2": ("r2score",),
    "mcc": ("matthewscorrcoef",),
    "kappa": ("cohenkappa",),
}
"""Other names of metrics, in lower case and without the characters between words."""


@dataclass(frozen=True)
class Number:
    """A number as it was written."""

    value: float
    decimals: int
    """Digits after the point; negative if it was written with a larger power of ten."""

    def __str__(self) -> str:
        return f"{self.value:.{min(max(self.decimals, 0), 6)}f}"


@dataclass(frozen=True)
class Score:
    """One metric of a run, or of several runs if it is a mean."""

    test: Number
    validation: Number | None = None
    std: Number | None = None


@dataclass(frozen=True)
class Run:
    """One training with its scores, or a mean over several."""

    where: str
    """The file, and the line or place in it."""
    dataset: str = ""
    method: str = ""
    model: str = ""
    setting: str = ""
    """What else separates rows that must not be compared, such as a protocol or the number of a table."""
    split: str = ""
    seed: str = ""
    scores: Mapping[str, Score] = field(default_factory=dict)
    """By metric; the name is empty if the release does not say."""
    averaged: int | None = None
    """Number of runs behind a mean."""
    n_test: int | None = None
    n_rows: int | None = None
    """Rows of the whole dataset."""
    test_share: float | None = None
    """Share of the rows that the test part should have."""
    rank: Number | None = None
    average_rank: Number | None = None

    @property
    def row(self) -> Row:
        """A row of a table."""
        return (self.setting, self.method, self.model)

    @property
    def column(self) -> Column:
        """A column of a table."""
        return (self.setting, self.dataset)

    @property
    def cell(self) -> tuple[str, str, str, str]:
        """What a table averages over splits and seeds."""
        return (*self.row, self.dataset)

    @property
    def name(self) -> str:
        """For people: ``adult, tjepa + mlp, seed 3``."""
        parts = [self.dataset, " + ".join(part for part in (self.method, self.model) if part), self.setting]
        parts += [f"{what} {value}" for what, value in (("split", self.split), ("seed", self.seed)) if value]
        return ", ".join(part for part in parts if part) or "a run"


@lru_cache(maxsize=1000)
def canonical(metric: str) -> str:
    """One name for each metric: ``test_ROC-AUC`` is ``auroc``."""
    bare = re.sub(r"^(validation|valid|val|test)[\s_/.-]+", "", metric.strip().lower())
    plain = re.sub(r"[^a-z0-9]+", "", bare)
    for name in LOWER | HIGHER:
        if plain == name.replace("_", "") or plain in SPELLINGS.get(name, ()):
            return name
    return plain


def group(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Group items by key, in order of appearance."""
    found: dict[Key, list[Item]] = defaultdict(list)
    for item in items:
        found[key(item)].append(item)
    return dict(found)


def metrics_of(runs: Iterable[Run]) -> list[str]:
    """Metrics that all of the runs have."""
    common: dict[str, None] | None = None
    for run in runs:
        common = dict.fromkeys(name for name in run.scores if common is None or name in common)
    return list(common or {})


def values_of(runs: Iterable[Run], metric: str) -> list[float]:
    """Test scores of the runs that have this metric."""
    return [run.scores[metric].test.value for run in runs if metric in run.scores]


def signature(run: Run, metrics: Iterable[str]) -> tuple[float, ...]:
    """Its test scores in these metrics."""
    return tuple(run.scores[metric].test.value for metric in metrics)


def standard_deviation(values: Sequence[float]) -> float:
    """The population standard deviation; ``statistics.pstdev`` is exact, but a hundred times slower."""
    centre = fmean(values)
    return math.sqrt(fmean((value - centre) ** 2 for value in values))


def is_common(value: float) -> bool:
    """Whether a score is perfect, zero or chance level. Many honest runs have these; chance level has its own check."""
    return value in (0.0, 0.5, 1.0, 50.0, 100.0)
