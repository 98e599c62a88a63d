"""Promises of whatever predicts labels: downstream models, and joint methods that give predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tabbench.context import Context
from tabbench.testing.common import close, require, same, unchanged_generators, unchanged_process, works_or_refuses
from tabbench.testing.encoding import copy_of, join, poison, require_deadline
from tabbench.testing.subject import CheckSkipped, Subject
from tabbench.testing.tables import TaskKind, make_labels, make_table
from tabbench.values import UNKNOWN, Features, Labelled, Representation, Table, Task

TASKS: tuple[TaskKind, ...] = ("binary", "multiclass", "regression")
WIDTH, TOKEN = 6, 4
EASY_ACCURACY = 0.75
EASY_ERROR = 0.75
"""RMSE, as a share of the RMSE of always predicting the mean."""


def as_flat(table: Table) -> Representation:
    """Rows as a flat representation: fixed random directions of their columns."""
    matrix = np.concatenate([np.nan_to_num(np.arcsinh(table.numeric)), table.categorical], axis=1)
    directions = np.random.default_rng(7).normal(size=(matrix.shape[1], WIDTH))
    return Representation((matrix @ directions).astype(np.float32))


def as_tokens(table: Table) -> Representation:
    """Rows as tokens, one per column."""
    matrix = np.concatenate([np.nan_to_num(np.arcsinh(table.numeric)), table.categorical], axis=1)
    directions = np.random.default_rng(8).normal(size=(matrix.shape[1], TOKEN))
    return Representation((matrix[:, :, None] * directions).astype(np.float32))


def require_predictions(predictions: NDArray[Any], rows: int, task: Task) -> None:
    """Finite numbers of the right shape; for classes, probabilities."""
    wanted = (rows,) if task.is_regression else (rows, task.n_classes)
    require(predictions.shape == wanted, f"predict gave shape {predictions.shape} for {task.kind}, expected {wanted}")
    require(np.isfinite(predictions).all(), f"predict gave numbers that are not finite for {task.kind}")
    if not task.is_regression:
        require(bool((predictions >= 0).all()), "a probability is negative")
        sums = predictions.sum(axis=1)
        require(
            bool(np.allclose(sums, 1, atol=1e-3)), f"probabilities sum to {sums.min():.3f} .. {sums.max():.3f}, not 1"
        )


def irreproducibility(subject: Subject) -> str:
    """How training or predicting depends on more than the seed; empty if it does not."""

    def compare() -> str:
        fitted = [subject.fit(subject.table(96), "multiclass")[0] for _ in range(2)]
        first, second = (model.predict(subject.table(seed=1)) for model in fitted)
        return "" if same(first, second) else "the same seed gave two sets of predictions"

    return subject.once("irreproducibility", compare)


def require_comparable(subject: Subject) -> None:
    """Skip if a difference would mean nothing because two trainings differ anyway."""
    if irreproducibility(subject):
        raise CheckSkipped(f"cannot be judged: {irreproducibility(subject)}")


def check_same_seed_same_predictions(subject: Subject) -> None:
    """Training twice with the same seed gives the same predictions, to the last bit."""
    require(not irreproducibility(subject), irreproducibility(subject))


def _check_features(subject: Subject, present: Callable[[Table], Features]) -> None:
    for kind in TASKS:
        table, rows = subject.table(96), subject.table(10, seed=1)

        def attempt(kind: TaskKind = kind, table: Table = table, rows: Table = rows) -> None:
            learner, task = subject.fit(table, kind, present)
            require_predictions(learner.predict(present(rows)), len(rows), task)

        works_or_refuses(subject, attempt)


def check_raw_table(subject: Subject) -> None:
    """Raw tables work for two classes, several classes and numbers; probabilities sum to 1."""
    _check_features(subject, lambda table: table)


def check_flat_representation(subject: Subject) -> None:
    """Flat representations (rows, k) work for two or more classes and for numbers, or are refused in a sentence."""
    _check_features(subject, as_flat)


def check_token_representation(subject: Subject) -> None:
    """Token representations (rows, d, h) work for two or more classes and for numbers, or are refused in a sentence."""
    _check_features(subject, as_tokens)


def check_rows_are_predicted_alone(subject: Subject) -> None:
    """A row's prediction does not depend on the other rows, their order or their number."""
    require_comparable(subject)
    model, rows = subject.fitted(), subject.table(30, seed=1)
    predictions = model.predict(rows)
    mixed = join(rows.take(slice(0, 5)), poison(subject.table(30, seed=2)))
    require(close(model.predict(mixed)[:5], predictions[:5]), "other rows change a row's prediction")
    order = np.random.default_rng(0).permutation(30)
    require(close(model.predict(rows.take(order)), predictions[order]), "the order of rows changes their predictions")
    alone = np.concatenate([model.predict(rows.take(slice(i, i + 1))) for i in range(5)])
    require(close(alone, predictions[:5]), "a row is predicted differently alone than among others")


def check_training_sees_no_test_rows(subject: Subject) -> None:
    """Test rows are out of reach: poisoned rows next to the training rows, in the same memory, make no difference."""
    require_comparable(subject)
    train, test = subject.table(96), subject.table(32, seed=3)
    y, task = make_labels(train, "multiclass")
    held_out = subject.table(32, seed=99)
    validation = Labelled(held_out, make_labels(held_out, "multiclass")[0])
    predictions = []
    for hidden in (test, poison(test)):
        learner = subject.learner()
        learner.fit(Labelled(join(train, hidden).take(slice(0, len(train))), y.copy()), validation, task, Context())
        predictions.append(learner.predict(train))
    require(same(*predictions), "poisoned rows outside the training rows changed the predictions")


def check_global_generators_are_untouched(subject: Subject) -> None:
    """Training and predicting neither use nor seed the global generators of random, numpy and torch."""
    table = subject.table(96)
    with unchanged_generators():
        subject.fit(table, "multiclass")[0].predict(table)


def check_process_is_untouched(subject: Subject) -> None:
    """Training and predicting leave the process as it was: threads, torch's defaults, folder, environment."""
    table = subject.table(96)
    with unchanged_process():
        subject.fit(table, "multiclass")[0].predict(table)


def check_inputs_are_untouched(subject: Subject) -> None:
    """Training and predicting leave features and labels as they were, and can work with arrays that are read-only."""
    before = subject.table(96)
    table, (y, task) = copy_of(before), make_labels(before, "multiclass")
    labels = y.copy()
    held_out = subject.table(32, seed=99)
    validation = Labelled(held_out, make_labels(held_out, "multiclass")[0])
    learner = subject.learner()
    learner.fit(Labelled(table, labels), validation, task, Context())
    learner.predict(table)
    require(same(table.numeric, before.numeric), "numbers of the table were overwritten")
    require(same(table.categorical, before.categorical), "categories of the table were overwritten")
    require(same(labels, y), "labels were overwritten")
    for array in (table.numeric, table.categorical, labels):
        array.flags.writeable = False
    with warnings.catch_warnings():  # torch warns of read-only arrays, and does not write
        warnings.filterwarnings("ignore", "The given NumPy array is not writ", UserWarning)
        learner = subject.learner()
        learner.fit(Labelled(table, labels), validation, task, Context())
        learner.predict(table)


def check_deadline_is_respected(subject: Subject) -> None:
    """A training that runs out of time ends at its next report, and does not pretend to have finished."""
    table = subject.table(96)
    require_deadline(lambda context: subject.fit(table, "multiclass", context=context))


def check_learns_something_easy(subject: Subject) -> None:
    """With labels that follow from the columns, it predicts new rows far better than a guess."""
    train, rows = subject.table(256), subject.table(128, seed=1)
    model, _ = subject.fit(train, "binary")
    y, _ = make_labels(rows, "binary")
    accuracy = float((model.predict(rows).argmax(axis=1) == y).mean())
    require(accuracy >= EASY_ACCURACY, f"accuracy {accuracy:.2f} where {EASY_ACCURACY} is easy")
    model, _ = subject.fit(train, "regression")
    numbers, _ = make_labels(rows, "regression")
    error = float(np.sqrt(((model.predict(rows) - numbers) ** 2).mean()) / numbers.std())
    require(error <= EASY_ERROR, f"RMSE {error:.2f} of the labels' deviation where {EASY_ERROR} is easy")


# Tables of every kind: they work, or are refused by a sentence.


def check_mixed_table(subject: Subject) -> None:
    """A table of numbers and categories works, or is refused in a sentence."""
    _try(subject, make_table(96, numeric=4, categorical=2))


def check_numeric_table(subject: Subject) -> None:
    """A table of numbers only works, or is refused in a sentence."""
    _try(subject, make_table(96, numeric=4, categorical=0))


def check_categorical_table(subject: Subject) -> None:
    """A table of categories only works, or is refused in a sentence."""
    _try(subject, make_table(96, numeric=0, categorical=3))


def check_one_feature(subject: Subject) -> None:
    """A table of one column works, or is refused in a sentence."""
    numeric, _ = subject.shape()
    _try(subject, make_table(96, 1, 0) if numeric else make_table(96, 0, 1))


def check_missing_values(subject: Subject) -> None:
    """Missing values in training rows and later work, or are refused in a sentence."""
    numeric, categorical = subject.shape()
    _try(subject, make_table(96, numeric, categorical, missing=0.2))


def check_unseen_categories(subject: Subject) -> None:
    """A category not seen in training works, or is refused in a sentence."""
    rows = copy_of(subject.table(8, seed=1))
    if not rows.schema.categorical:
        raise CheckSkipped("it takes no categories")
    rows.categorical[:4] = UNKNOWN
    _try(subject, subject.table(96), rows)


def _try(subject: Subject, train: Table, rows: Table | None = None) -> None:
    rows = train if rows is None else rows
    kind: Literal["multiclass"] = "multiclass"

    def attempt() -> None:
        learner, task = subject.fit(train, kind)
        require_predictions(learner.predict(rows), len(rows), task)

    works_or_refuses(subject, attempt)


MODEL_CHECKS = (
    check_raw_table,
    check_flat_representation,
    check_token_representation,
    check_same_seed_same_predictions,
    check_rows_are_predicted_alone,
    check_training_sees_no_test_rows,
    check_global_generators_are_untouched,
    check_process_is_untouched,
    check_inputs_are_untouched,
    check_deadline_is_respected,
    check_learns_something_easy,
    check_mixed_table,
    check_numeric_table,
    check_categorical_table,
    check_one_feature,
    check_missing_values,
    check_unseen_categories,
)
