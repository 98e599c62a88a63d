"""What a job sees of its data: the split, encoded features, and the linear probe on validation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tabbench.context import Probe
from tabbench.contracts.split_rule import SplitRule
from tabbench.data.labels import LabelBudget
from tabbench.data.prepare import SplitData, open_split
from tabbench.errors import PluginError
from tabbench.experiment.payloads import FitPayload, Payload
from tabbench.results.store import Store
from tabbench.running.artefacts import EncodeArtefact, PretrainArtefact
from tabbench.values import Features, Representation, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENCODE_BYTES = 256 * 2**20
"""A representation is written in pieces of about this size, so that memory does not grow with the table."""
PROBED_ROWS = 10_000
"""Training rows that the probe of a pretraining encodes; more would take longer than they are worth."""
PARTS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class JobFeatures:
    """What a model sees of each part: the raw table, or the memory-mapped representation."""

    train: Features
    validation: Features
    test: Features
    about: PretrainArtefact | None
    """How the representation, or the encoder that is fine-tuned, was made; None for the raw table."""


def open_job_split(payload: Payload) -> SplitData:
    """The dataset of a job, split and encoded by its training rows."""
    labels = payload.labels
    split = open_split(
        payload.manifest,
        payload.split.seed,
        payload.split.rows,
        SplitRule.from_json(payload.split.rule),
        labels=None if labels is None else LabelBudget.parse(labels.budget),
        all_validation_labels=labels is not None and labels.validation == "all",
        weights=payload.split.weights,
    )
    return replace(split, task=replace(split.task, metric=payload.metric)) if payload.metric else split


def open_features(payload: FitPayload, store: Store, split: SplitData) -> JobFeatures:
    """Open the features that a model is trained and scored on."""
    if payload.features is None:
        about = PretrainArtefact.read(store.open_artefact("pretrain", payload.encoder)) if payload.encoder else None
        return JobFeatures(split.train.features, split.validation.features, split.test, about)
    folder = store.open_artefact("encode", payload.features)
    train, validation, test = (
        Representation(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)) for name in PARTS
    )
    if split.labelled is not None:
        train, validation = train.take(split.labelled.train), validation.take(split.labelled.validation)
    return JobFeatures(train, validation, test, EncodeArtefact.read(folder))


def encode_to_file(encode_rows: Callable[[Table], Representation], table: Table, path: Path) -> NDArray[np.float32]:
    """Encode ``table`` in pieces into a ``.npy`` file; returns the memory-mapped result."""
    first = encode_checked(encode_rows, table.take(slice(0, 1)))
    rows = max(1, ENCODE_BYTES // max(first.nbytes, 1))
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(len(table), *first.shape[1:]))
    for start in range(0, len(table), rows):
        out[start : start + rows] = encode_checked(encode_rows, table.take(slice(start, start + rows)))
    out.flush()
    result: NDArray[np.float32] = out
    return result


def encode_checked(encode_rows: Callable[[Table], Representation], table: Table) -> NDArray[np.float32]:
    """Encode ``table``; blames the plugin if the result is not a representation of its rows."""
    representation = encode_rows(table)
    if not isinstance(representation, Representation):
        raise PluginError(f"encode gave a {type(representation).__name__}, not a Representation")
    array = representation.array
    if len(array) != len(table):
        raise PluginError(f"encode gave {len(array)} rows for {len(table)}")
    if array.dtype != np.float32:
        raise PluginError(f"encode gave {array.dtype}, expected float32")
    return array


def pretraining_rows(split: SplitData) -> Table:
    """The rows for pretraining: all training rows, and rows that never had a label."""
    return split.train_rows if split.unlabelled is None else split.train_rows.join(split.unlabelled)


def make_probe(split: SplitData) -> Probe:
    """A linear probe on validation, for methods that choose among their own weights. It only sees visible labels."""
    train = as_table(split.train.features)
    chosen = np.arange(len(train))
    if len(chosen) > PROBED_ROWS:
        chosen = np.sort(np.random.default_rng(0).choice(len(chosen), PROBED_ROWS, replace=False))

    def probe(encode_rows: Callable[[Table], Representation]) -> float:
        from tabbench.nn import probe_score

        return probe_score(
            encode_checked(encode_rows, train.take(chosen)),
            split.train.y[chosen],
            encode_checked(encode_rows, as_table(split.validation.features)),
            split.validation.y,
            split.task,
        )

    return probe


def as_table(features: Features) -> Table:
    """Raw features, by type."""
    assert isinstance(features, Table)
    return features


def sample_rows(array: NDArray[np.float32], rows: int = 2000) -> NDArray[np.float32]:
    """At most ``rows`` rows, evenly spread, in memory."""
    step = max(1, len(array) // rows)
    return np.ascontiguousarray(array[::step][:rows])
