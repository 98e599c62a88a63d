"""Promises of everything that encodes rows: SSL methods, and joint methods that give a representation."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabbench.context import Context
from tabbench.contracts import SSLMethod
from tabbench.errors import DeadlineReached
from tabbench.testing.common import close, require, same, unchanged_generators, unchanged_process, works_or_refuses
from tabbench.testing.subject import CheckFailed, CheckSkipped, Subject, make_like, temporary_folder
from tabbench.testing.tables import make_table
from tabbench.values import FIRST_LEVEL, UNKNOWN, Representation, Table

POISON = 1e6


class BoobyTrap:
    """Labels that nobody may look at."""

    def __getattribute__(self, name: str) -> Any:
        raise CheckFailed(f"fit looked at its y ({name})")

    def _touched(self, *_: object) -> Any:
        raise CheckFailed("fit looked at its y")

    __len__ = __iter__ = __getitem__ = __array__ = __bool__ = _touched


def indeterminism(subject: Subject) -> str:
    """How encoding depends on randomness or on earlier calls; empty if it does not."""

    def compare() -> str:
        first = subject.embed(subject.table(seed=1)).copy()
        if not same(first, subject.embed(subject.table(seed=1))):
            return "encoding the same rows twice gave two embeddings"
        subject.embed(poison(subject.table(seed=2)))
        if not same(first, subject.embed(subject.table(seed=1))):
            return "encoding other rows in between changed the embedding"
        return ""

    return subject.once("indeterminism", compare)


def irreproducibility(subject: Subject) -> str:
    """How training depends on more than its seed; empty if it does not."""

    def compare() -> str:
        first, second = (subject.embed(subject.table(), subject.train(subject.table())) for _ in range(2))
        return "" if same(first, second) else "the same seed gave two embeddings"

    return subject.once("irreproducibility", compare)


def require_deterministic(subject: Subject) -> None:
    """Skip if a difference would mean nothing because encoding is random."""
    if indeterminism(subject):
        raise CheckSkipped(f"cannot be judged: {indeterminism(subject)}")


def require_comparable(subject: Subject) -> None:
    """Skip if a difference would mean nothing because two trainings differ anyway."""
    require_deterministic(subject)
    if irreproducibility(subject):
        raise CheckSkipped(f"cannot be judged: {irreproducibility(subject)}")


# The embedding.


def check_embedding_is_finite_float32(subject: Subject) -> None:
    """``encode`` gives a Representation of finite float32, (rows, k) or (rows, d, h), for any number of rows."""
    shapes = set()
    for rows in (64, 1, 5):
        found = subject.encoder().encode(subject.table(rows, seed=1))
        require(isinstance(found, Representation), f"encode gave a {type(found).__name__}, not a Representation")
        array = found.array
        require(array.dtype == np.float32, f"encode gave {array.dtype}, expected float32")
        require(len(array) == rows, f"encode gave {len(array)} rows for {rows}")
        require(np.isfinite(array).all(), "encode gave numbers that are not finite")
        shapes.add(array.shape[1:])
    require(len(shapes) == 1, f"the shape of a row's embedding depends on the number of rows: {sorted(shapes)}")


def check_encode_is_deterministic(subject: Subject) -> None:
    """Encoding the same rows again gives the same embedding, whatever was encoded in between."""
    require(not indeterminism(subject), indeterminism(subject))


def check_rows_are_encoded_alone(subject: Subject) -> None:
    """A row's embedding does not depend on the other rows of its batch, their order or their number."""
    require_deterministic(subject)
    rows = subject.table(40, seed=1)
    array = subject.embed(rows)
    mates = poison(subject.table(40, seed=2))
    mixed = join(rows.take(slice(0, 5)), mates)
    require(close(subject.embed(mixed)[:5], array[:5]), "the other rows of a batch change a row's embedding")
    order = np.random.default_rng(0).permutation(40)
    require(close(subject.embed(rows.take(order)), array[order]), "the order of rows changes their embeddings")
    for size in (1, 7):
        pieces = [subject.embed(rows.take(slice(start, start + size))) for start in range(0, 40, size)]
        require(close(np.concatenate(pieces), array), f"encoding {size} rows at a time changes embeddings")


def check_every_column_counts(subject: Subject) -> None:
    """Every column influences the embedding: changing its value changes the embedding of some row."""
    require_deterministic(subject)
    rows = subject.table(16, seed=1)
    array = subject.embed(rows)
    ignored = []
    for j, name in enumerate(rows.schema.numeric):
        numeric = rows.numeric.copy()
        numeric[:, j] = np.roll(subject.table(64).numeric[:, j], 1)[:16]
        if same(subject.embed(replace(rows, numeric=numeric)), array):
            ignored.append(name)
    for j, name in enumerate(rows.schema.categorical):
        codes = rows.categorical.copy()
        codes[:, j] = FIRST_LEVEL + (codes[:, j] - FIRST_LEVEL + 1) % len(rows.schema.levels[j])
        if same(subject.embed(replace(rows, categorical=codes)), array):
            ignored.append(name)
    require(not ignored, f"the embedding ignores {', '.join(ignored)} of {len(rows.schema.names)} columns")


# Training.


def check_same_seed_same_embedding(subject: Subject) -> None:
    """Training twice with the same seed gives the same embedding, to the last bit."""
    require_deterministic(subject)
    require(not irreproducibility(subject), irreproducibility(subject))


def check_pretraining_sees_no_labels(subject: Subject) -> None:
    """Labels are out of reach: different labels nearby, and in the probe, make no difference."""
    require_comparable(subject)
    labels = np.arange(len(subject.table())) % 2
    encoders = [_train_among(subject, subject.table(), y) for y in (labels, 1 - labels)]
    first, second = (subject.embed(subject.table(), encoder) for encoder in encoders)
    require(same(first, second), "different labels nearby gave a different encoder")
    subject.make().fit(_to_frame(subject.table()), BoobyTrap())


def _train_among(subject: Subject, table: Table, labels: NDArray[np.int64]) -> Any:
    """Train as the harness does, with labels nearby: in this frame, and behind the probe."""
    validation = make_like(table, rows=24, seed=5)

    def probe(encode: Callable[[Table], Representation]) -> float:
        encode(validation)
        return 0.5 + 0.0 * float(labels.sum())

    return subject.train(table, Context(validation=validation, probe=probe))


def check_training_sees_no_test_rows(subject: Subject) -> None:
    """Test rows are out of reach: poisoned rows next to the training rows, in the same memory, make no difference."""
    require_comparable(subject)
    train, test = subject.table(), subject.table(32, seed=3)
    first, second = (
        subject.embed(train, subject.train(join(train, hidden).take(slice(0, len(train)))))
        for hidden in (test, poison(test))
    )
    require(same(first, second), "poisoned rows outside the training rows gave a different encoder")


def check_validation_rows_are_not_fitted(subject: Subject) -> None:
    """What is fitted before training (scales, levels, weights) comes from training rows, not from validation rows."""
    require_comparable(subject)
    if not has_untrained(subject):
        raise CheckSkipped("it has no untrained encoder to look at")
    train, validation = subject.table(), subject.table(32, seed=3)
    arrays = []
    for rows in (validation, poison(validation)):
        method = subject.make()
        method.initialise(train, Context(validation=rows))
        arrays.append(subject.embed(train, method))
    require(same(*arrays), "poisoned validation rows gave a different untrained encoder")


def check_untrained_encoder(subject: Subject) -> None:
    """The untrained control works, gives embeddings of the same shape, and training changes them."""
    if not has_untrained(subject):
        raise CheckSkipped("the plugin says that it has none (untrained=False)")
    table = subject.table()
    method = subject.make()
    method.initialise(table, Context())
    untrained, trained = subject.embed(table, method), subject.embed(table)
    shapes = f"untrained, it gives {untrained.shape[1:]}; trained, {trained.shape[1:]}"
    require(untrained.shape == trained.shape, shapes)
    require(not same(untrained, trained), "training changed nothing")


def has_untrained(subject: Subject) -> bool:
    if subject.plugin is not None:
        return subject.plugin.untrained
    return subject.load().initialise is not SSLMethod.initialise  # type: ignore[attr-defined]


def check_global_generators_are_untouched(subject: Subject) -> None:
    """Training and encoding neither use nor seed the global generators of random, numpy and torch."""
    table = subject.table()
    with unchanged_generators():
        subject.train(table).encode(table)


def check_process_is_untouched(subject: Subject) -> None:
    """Training and encoding leave the process as it was: threads, torch's defaults, working directory, environment."""
    table = subject.table()
    with unchanged_process():
        subject.train(table).encode(table)


def check_inputs_are_untouched(subject: Subject) -> None:
    """Training and encoding leave the table as it was, and can work with arrays that are read-only."""
    table = copy_of(subject.table())
    subject.train(table).encode(table)
    before = subject.table()
    require(same(table.numeric, before.numeric), "numbers of the table were overwritten")
    require(same(table.categorical, before.categorical), "categories of the table were overwritten")
    frozen = copy_of(table)
    frozen.numeric.flags.writeable = frozen.categorical.flags.writeable = False
    with warnings.catch_warnings():  # torch warns of read-only arrays, and does not write
        warnings.filterwarnings("ignore", "The given NumPy array is not writ", UserWarning)
        subject.train(frozen).encode(frozen)


def check_deadline_is_respected(subject: Subject) -> None:
    """A training that runs out of time ends at its next report, and does not pretend to have finished."""
    table = subject.table()
    require_deadline(lambda context: subject.train(table, context))


def require_deadline(train: Callable[[Context], object]) -> None:
    """``train`` must report, and let the ``DeadlineReached`` of its report pass."""
    reports = 0

    def count(step: int, total: int, metrics: dict[str, float]) -> None:
        nonlocal reports
        reports += 1
        require(reports == 1, "training continued after report raised DeadlineReached: do not catch it")

    try:
        train(Context(deadline=time.monotonic() - 1.0, on_report=count))
    except DeadlineReached:
        return
    require(reports > 0, "training never called context.report, so it cannot be stopped: call it once per epoch")
    raise CheckFailed("report raised DeadlineReached, and training returned as if it had finished")


# Files.


def check_saved_encoder_encodes_the_same(subject: Subject) -> None:
    """An encoder that is saved and loaded has the same schema and gives the same embedding."""
    require_deterministic(subject)
    rows = subject.table(seed=1)
    with temporary_folder() as folder:
        subject.encoder().save(Path(folder) / "encoder")
        loaded = subject.load().load(Path(folder) / "encoder", "cpu")  # type: ignore[attr-defined]
    require(loaded.schema == subject.encoder().schema, "its schema changed")
    require(close(subject.embed(rows, loaded), subject.embed(rows)), "the loaded encoder gives other embeddings")


def check_files_hold_no_code(subject: Subject) -> None:
    """A saved encoder consists of JSON and safetensors files: nothing that a pickle could hide in."""
    with temporary_folder() as folder:
        subject.encoder().save(Path(folder) / "encoder")
        files = [path for path in (Path(folder) / "encoder").rglob("*") if path.is_file()]
        require(bool(files), "save wrote nothing")
        for path in files:
            require(_is_plain(path), f"{path.name} is neither JSON nor safetensors")


def _is_plain(path: Path) -> bool:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        if path.suffix == ".safetensors":
            load(path.read_bytes())
        else:
            json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, SafetensorError):
        return False
    return path.suffix in (".json", ".safetensors")


# Tables of every kind: they work, or are refused by a sentence.


def check_mixed_table(subject: Subject) -> None:
    """A table of numbers and categories works, or is refused in a sentence."""
    _try(subject, make_table(numeric=4, categorical=2))


def check_numeric_table(subject: Subject) -> None:
    """A table of numbers only works, or is refused in a sentence."""
    _try(subject, make_table(numeric=4, categorical=0))


def check_categorical_table(subject: Subject) -> None:
    """A table of categories only works, or is refused in a sentence."""
    _try(subject, make_table(numeric=0, categorical=3))


def check_one_feature(subject: Subject) -> None:
    """A table of one column works, or is refused in a sentence."""
    numeric, _ = subject.shape()
    _try(subject, make_table(numeric=1, categorical=0) if numeric else make_table(numeric=0, categorical=1))


def check_one_training_row(subject: Subject) -> None:
    """Training on one row works, or is refused in a sentence."""
    _try(subject, subject.table(1), subject.table(8, seed=1))


def check_constant_column(subject: Subject) -> None:
    """A column that never changes in training works, also where it changes later, or is refused in a sentence."""
    table = copy_of(subject.table())
    for part in (table.numeric, table.categorical):
        part[:, :1] = part[:1, :1]
    _try(subject, table, subject.table(8, seed=1))


def check_missing_values(subject: Subject) -> None:
    """Missing values in training rows and later work, or are refused in a sentence."""
    numeric, categorical = subject.shape()
    _try(subject, make_table(64, numeric, categorical, missing=0.2))


def check_missing_values_that_training_did_not_have(subject: Subject) -> None:
    """Missing values in rows to be encoded, where no training row had any, work, or are refused in a sentence."""
    numeric, categorical = subject.shape()
    _try(subject, subject.table(), make_table(16, numeric, categorical, missing=0.5, seed=1))


def check_unseen_categories(subject: Subject) -> None:
    """A category not seen in training works, or is refused in a sentence."""
    rows = copy_of(subject.table(8, seed=1))
    if not rows.schema.categorical:
        raise CheckSkipped("it takes no categories")
    rows.categorical[:4] = UNKNOWN
    _try(subject, subject.table(), rows)


def _try(subject: Subject, train: Table, rows: Table | None = None) -> None:
    rows = train if rows is None else rows

    def attempt() -> None:
        array = subject.embed(rows, subject.train(train))
        require(len(array) == len(rows), f"encode gave {len(array)} rows for {len(rows)}")
        require(np.isfinite(array).all(), "encode gave numbers that are not finite")

    works_or_refuses(subject, attempt)


# Tables.


def copy_of(table: Table) -> Table:
    """The same rows in arrays of their own."""
    return Table(table.numeric.copy(), table.categorical.copy(), table.schema)


def join(first: Table, second: Table) -> Table:
    """The rows of both, in one piece of memory."""
    numeric = np.concatenate([first.numeric, second.numeric])
    return Table(numeric, np.concatenate([first.categorical, second.categorical]), first.schema)


def poison(table: Table) -> Table:
    """Rows whose numbers are far from all others and whose categories are the last of each column."""
    last = np.array([cardinality - 1 for cardinality in table.schema.cardinalities], dtype=np.int64)
    numeric = np.full_like(table.numeric, POISON)
    return Table(numeric, np.broadcast_to(last, table.categorical.shape).copy(), table.schema)


def _to_frame(table: Table) -> Any:
    import pandas as pd

    frame = pd.DataFrame(table.numeric, columns=list(table.schema.numeric))
    for j, name in enumerate(table.schema.categorical):
        levels = np.array(["missing", "unknown", *table.schema.levels[j]], dtype=object)
        frame[name] = levels[table.categorical[:, j]]
    return frame


JOINT_CHECKS = (
    check_embedding_is_finite_float32,
    check_encode_is_deterministic,
    check_rows_are_encoded_alone,
    check_every_column_counts,
    check_same_seed_same_embedding,
    check_training_sees_no_test_rows,
    check_global_generators_are_untouched,
    check_process_is_untouched,
    check_inputs_are_untouched,
    check_deadline_is_respected,
    check_saved_encoder_encodes_the_same,
    check_files_hold_no_code,
    check_mixed_table,
    check_numeric_table,
    check_categorical_table,
    check_one_feature,
    check_one_training_row,
    check_constant_column,
    check_missing_values,
    check_missing_values_that_training_did_not_have,
    check_unseen_categories,
)
LABEL_FREE_CHECKS = (
    check_pretraining_sees_no_labels,
    check_validation_rows_are_not_fitted,
    check_untrained_encoder,
)
"""Promises of methods that never meet a label; joint methods have no untrained encoder either."""
