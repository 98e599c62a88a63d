"""One split of a cached dataset, ready for methods and models; the labels of its test part stay sealed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tabbench.data.cache import Manifest, read_frame
from tabbench.data.metrics import score_predictions
from tabbench.data.splits import Split, split_rows, subsample_rows
from tabbench.data.tables import fit_schema, to_table
from tabbench.errors import DataError
from tabbench.table import Labelled, Table, Task


class SealedTest:
    """The test labels. They can be compared with predictions, and not be had."""

    __slots__ = ("__mean", "__std", "__task", "__y")

    def __init__(self, task: Task, y: NDArray[Any], target_mean: float, target_std: float) -> None:
        self.__task = task
        self.__y = y
        self.__mean = target_mean
        self.__std = target_std

    def __len__(self) -> int:
        return len(self.__y)

    def __repr__(self) -> str:
        return f"SealedTest({len(self)} rows)"

    def score(self, predictions: NDArray[Any]) -> dict[str, float]:
        """All metrics of the task; see ``tabbench.data.metrics.score_predictions``."""
        return score_predictions(self.__task, self.__y, predictions, self.__std, self.__mean)


@dataclass(frozen=True, eq=False)
class SplitData:
    """What a job works with. Everything fitted (levels, target statistics) was fitted on the training rows."""

    task: Task
    train: Labelled
    validation: Labelled
    test: Table
    sealed: SealedTest
    class_names: tuple[str, ...]
    rows: Split
    """Row numbers of the three parts, counted in the (sub-sampled) table."""
    target_mean: float = 0.0
    """Of the training targets; 0 for classification."""
    target_std: float = 1.0
    """Of the training targets; 1 for classification."""


def open_split(manifest: Manifest, split_seed: int, rows: int | None = None) -> SplitData:
    """Read a cached dataset and split it.

    Args:
        manifest: the dataset.
        split_seed: decides the split (and the subsample).
        rows: use a subsample of so many rows, drawn before the split with classes in proportion.
    """
    frame = read_frame(manifest)
    task = manifest.make_task()
    y = _labels(frame[manifest.target], manifest)
    frame = frame.drop(columns=manifest.target)
    if rows is not None and rows < len(frame):
        chosen = subsample_rows(y, task.is_regression, rows, split_seed)
        frame, y = frame.iloc[chosen], y[chosen]
    split = split_rows(y, task.is_regression, split_seed)
    if not len(split.validation):
        raise DataError(f"{manifest.name} has {len(y)} rows: too few for a validation and a test part")
    mean, std = 0.0, 1.0
    test_y = y[split.test]
    if task.is_regression:
        mean, std = float(y[split.train].mean()), float(y[split.train].std())
        std = std if std > 0 else 1.0
        y = ((y - mean) / std).astype(np.float32)
    train = frame.iloc[split.train]
    schema = fit_schema(train, manifest.categorical)
    return SplitData(
        task=task,
        train=Labelled(to_table(train, schema), y[split.train]),
        validation=Labelled(to_table(frame.iloc[split.validation], schema), y[split.validation]),
        test=to_table(frame.iloc[split.test], schema),
        sealed=SealedTest(task, test_y, mean, std),
        class_names=manifest.class_names,
        rows=split,
        target_mean=mean,
        target_std=std,
    )


def _labels(target: pd.Series[Any], manifest: Manifest) -> NDArray[Any]:
    """Classes as the manifest numbers them (int64), or numbers in the data's unit (float64)."""
    if manifest.task == "regression":
        return target.to_numpy(dtype=np.float64)
    label_of = pd.Index(manifest.class_names, dtype=object).get_indexer(pd.Index(target.cat.categories, dtype=object))
    return label_of.astype(np.int64)[target.cat.codes.to_numpy()]
