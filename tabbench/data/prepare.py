"""One split of a cached dataset, ready for methods and models. Its test labels stay sealed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tabbench.contracts.metrics import score_predictions
from tabbench.contracts.split_rule import SplitRule
from tabbench.data.cache import Manifest, read_folds, read_frame, read_unlabelled
from tabbench.data.content import row_marks
from tabbench.data.evidence import TRANSDUCTIVE, judge_split
from tabbench.data.labels import LabelBudget, LabelledRows, choose_labelled
from tabbench.data.rules import divide, train_side
from tabbench.data.splits import Split, split_rows, subsample_rows
from tabbench.data.weights import read_weights
from tabbench.errors import DataError
from tabbench.frames import fit_schema, to_table
from tabbench.values import Labelled, Table, Task

RANDOM = SplitRule()


class SealedTest:
    """The test labels. They can score predictions but cannot be read."""

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
        """All metrics of the task; see ``tabbench.contracts.metrics.score_predictions``."""
        return score_predictions(self.__task, self.__y, predictions, self.__std, self.__mean)


@dataclass(frozen=True, eq=False)
class SplitData:
    """The data of a job. Everything fitted (levels, target statistics) is fitted on training rows."""

    task: Task
    train: Labelled
    """The training rows that have a label."""
    validation: Labelled
    """The validation rows that have a label."""
    train_rows: Table
    """All training rows, without labels."""
    validation_rows: Table
    """All validation rows, without labels."""
    test: Table
    sealed: SealedTest
    class_names: tuple[str, ...]
    rows: Split
    """Row numbers of the three parts, counted in the (sub-sampled) table."""
    labelled: LabelledRows | None = None
    """Which of the training and validation rows have a label; None: all of them."""
    target_mean: float = 0.0
    """Mean of the visible training targets; 0 for classification."""
    target_std: float = 1.0
    """Standard deviation of the visible training targets; 1 for classification."""
    promised_test: int = 0
    """The number of test rows that the rule promises; 0 if it promises none."""
    unlabelled: Table | None = None
    """More rows for pretraining, without a target."""
    weights: NDArray[np.float64] | None = None
    """Of the training rows that have a label, from a column; None if there is none."""
    notes: tuple[str, ...] = ()
    """Notes on the table and this split, for readers of the result."""
    flags: tuple[str, ...] = ()
    """Why results on this split cannot be trusted."""


def open_split(
    manifest: Manifest,
    split_seed: int,
    rows: int | None = None,
    rule: SplitRule = RANDOM,
    labels: LabelBudget | None = None,
    *,
    all_validation_labels: bool = False,
    weights: str = "",
) -> SplitData:
    """Read a cached dataset, split it, and hide the labels beyond a budget.

    Args:
        manifest: the dataset.
        split_seed: decides the split (and the subsample).
        rows: size of a subsample, drawn before the split with classes in proportion.
        rule: how to split.
        labels: how many training and validation rows have a label; None: all. Nothing in the result depends on the
            labels of other rows, except the choice of rows itself, which is stratified by class.
        all_validation_labels: validation rows keep all their labels.
        weights: the column that holds the weights of rows.
    """
    frame = read_frame(manifest)
    task = manifest.make_task()
    y = _labels(frame[manifest.target], manifest)
    marks = row_marks(frame)
    frame = frame.drop(columns=manifest.target)
    folds = read_folds(manifest) if rule.kind == "server" else None
    if rows is not None and rows < len(frame):
        chosen = subsample_rows(y, task.is_regression, rows, split_seed)
        frame, y, marks = frame.iloc[chosen], y[chosen], marks[chosen]
        folds = None if folds is None else folds[chosen]
    split = divide(rule, split_seed, frame, y, task.is_regression, folds)
    _check_parts(manifest, split, y)
    unlabelled = _open_unlabelled(manifest, rule, frame, split, rows, split_seed)
    row_weights = read_weights(frame, weights)[split.train] if weights else None
    no_features = {*rule.columns, weights} - {""}
    frame = frame.drop(columns=list(no_features))
    labelled = None
    train_y, validation_y, test_y = (y[part] for part in (split.train, split.validation, split.test))
    if labels is not None:
        labelled = choose_labelled(
            train_y, validation_y, task.is_regression, labels, split_seed, all_validation=all_validation_labels
        )
        train_y, validation_y = train_y[labelled.train], validation_y[labelled.validation]
        row_weights = None if row_weights is None else row_weights[labelled.train]
    evidence = judge_split(split, marks, None if labelled is None else split.train[labelled.train])
    del y
    mean, std = 0.0, 1.0
    if task.is_regression:
        mean, std = float(train_y.mean()), float(train_y.std())
        std = std if std > 0 else 1.0
        train_y, validation_y = (((part - mean) / std).astype(np.float32) for part in (train_y, validation_y))
    train = frame.iloc[split.train]
    schema = fit_schema(train, [name for name in manifest.categorical if name not in no_features])
    train_rows, validation_rows = to_table(train, schema), to_table(frame.iloc[split.validation], schema)
    return SplitData(
        task=task,
        train=Labelled(train_rows if labelled is None else train_rows.take(labelled.train), train_y),
        validation=Labelled(
            validation_rows if labelled is None else validation_rows.take(labelled.validation), validation_y
        ),
        train_rows=train_rows,
        validation_rows=validation_rows,
        test=to_table(frame.iloc[split.test], schema),
        sealed=SealedTest(task, test_y, mean, std),
        class_names=manifest.class_names,
        rows=split,
        labelled=labelled,
        target_mean=mean,
        target_std=std,
        promised_test=round(0.1 * len(marks)) if rule.is_default else 0,
        unlabelled=None if unlabelled is None else to_table(unlabelled, schema),
        weights=row_weights,
        notes=(*manifest.notes, *evidence.notes),
        flags=evidence.flags + ((TRANSDUCTIVE,) if rule.transductive and unlabelled is not None else ()),
    )


def _check_parts(manifest: Manifest, split: Split, y: NDArray[Any]) -> None:
    """Refuse a split on which nothing can be learned or judged."""
    if not (len(split.validation) and len(split.test)):
        raise DataError(f"{manifest.name} has {len(y)} rows: too few for a validation and a test part")
    if len(split.train) < 2 or (manifest.task != "regression" and (y[split.train] == y[split.train[0]]).all()):
        raise DataError(f"{manifest.name}: all training rows of this split have the same class")


def _open_unlabelled(
    manifest: Manifest, rule: SplitRule, features: pd.DataFrame, split: Split, rows: int | None, seed: int
) -> pd.DataFrame | None:
    """The unlabelled rows that pretraining may use on this split; None if there are none."""
    if manifest.unlabelled is None:
        return None
    frame = read_unlabelled(manifest)
    frame = frame[train_side(rule, frame, features, split)]
    if rows is not None and rows < len(frame):
        frame = frame.iloc[subsample_rows(np.arange(len(frame)), True, rows, seed)]
    return frame if len(frame) else None


def _labels(target: pd.Series[Any], manifest: Manifest) -> NDArray[Any]:
    """Classes as the manifest numbers them (int64), or numbers in the data's unit (float64)."""
    if manifest.task == "regression":
        return target.to_numpy(dtype=np.float64)
    label_of = pd.Index(manifest.class_names, dtype=object).get_indexer(pd.Index(target.cat.categories, dtype=object))
    return label_of.astype(np.int64)[target.cat.codes.to_numpy()]


@dataclass(frozen=True, eq=False)
class FinalData:
    """All labelled rows of a dataset, for a pipeline to use rather than evaluate."""

    task: Task
    train: Labelled
    validation: Labelled
    """A tenth of the rows, for early stopping."""
    class_names: tuple[str, ...]
    target_mean: float
    target_std: float
    weights: NDArray[np.float64] | None
    """Of the training rows, from a column; None if there is none."""
    unlabelled: Table | None = None
    """More rows for pretraining, without a target."""


def open_all(manifest: Manifest, without: Collection[str] = (), weights: str = "") -> FinalData:
    """Read a cached dataset without a test part: a tenth of its rows for early stopping, the rest for training.

    ``without`` are columns that decided the split of a benchmark and are not features; ``weights`` is the column that
    holds the weights of rows, and is none either.
    """
    frame = read_frame(manifest)
    task = manifest.make_task()
    y = _labels(frame[manifest.target], manifest)
    row_weights = read_weights(frame, weights) if weights else None
    no_features = {*without, weights} - {""}
    frame = frame.drop(columns=[manifest.target, *no_features])
    split = split_rows(y, task.is_regression, seed=0)
    rows = np.sort(np.concatenate([split.train, split.test]))
    mean, std = 0.0, 1.0
    if task.is_regression:
        mean, std = float(y[rows].mean()), float(y[rows].std()) or 1.0
        y = ((y - mean) / std).astype(np.float32)
    schema = fit_schema(frame.iloc[rows], [name for name in manifest.categorical if name not in no_features])
    return FinalData(
        task=task,
        train=Labelled(to_table(frame.iloc[rows], schema), y[rows]),
        validation=Labelled(to_table(frame.iloc[split.validation], schema), y[split.validation]),
        class_names=manifest.class_names,
        target_mean=mean,
        target_std=std,
        weights=None if row_weights is None else row_weights[rows],
        unlabelled=None if manifest.unlabelled is None else to_table(read_unlabelled(manifest), schema),
    )
