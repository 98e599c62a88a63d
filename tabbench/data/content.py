"""The identity of a cached table, whatever file holds it: its content key, and whether a manifest matches it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tabbench.data.cache import Manifest

KEY_FORMAT = 1
"""Part of every content key: increasing it invalidates all stored results."""


def table_key(frame: pd.DataFrame, target: str, task: str) -> str:
    """A hash that is equal for equal tables, whatever library version wrote the file and its integer types."""
    digest = hashlib.sha256()

    def add(value: Any) -> None:
        digest.update(json.dumps(value, ensure_ascii=True).encode() + b"\n")

    add({"format": KEY_FORMAT, "target": target, "task": task, "rows": len(frame)})
    for name, column in frame.items():
        if isinstance(column.dtype, pd.CategoricalDtype):
            add([name, "categorical", [str(level) for level in column.cat.categories]])
            digest.update(column.cat.codes.to_numpy().astype("<i8").tobytes())
        else:
            add([name, "numeric"])
            values = column.to_numpy(dtype="<f8", na_value=np.nan) + 0.0  # -0.0 and 0.0 are the same number
            values[np.isnan(values)] = np.nan  # and so are all NaN
            digest.update(values.tobytes())
    return digest.hexdigest()


def sort_classes(names: Sequence[str]) -> tuple[str, ...]:
    """Class names in label order: sorted as numbers if all are numbers, else as text."""
    try:
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    except ValueError:
        return tuple(sorted(names))


def find_mismatch(frame: pd.DataFrame, manifest: Manifest) -> str:
    """Where a manifest contradicts its table; empty if they match.

    Everything that affects a result is compared: an edited manifest must not change a result under the same key.
    """
    if manifest.target not in frame.columns:
        return f"there is no column {manifest.target!r}"
    target = frame[manifest.target]
    has_classes = isinstance(target.dtype, pd.CategoricalDtype)
    classes = sort_classes(list(target.cat.categories)) if has_classes else ()
    task = ("binary" if len(classes) == 2 else "multiclass") if has_classes else "regression"
    categorical = tuple(
        str(name)
        for name, column in frame.items()
        if name != manifest.target and isinstance(column.dtype, pd.CategoricalDtype)
    )
    pairs = {
        "task": (manifest.task, task),
        "rows": (manifest.rows, len(frame)),
        "categorical columns": (manifest.categorical, categorical),
        "numeric columns": (manifest.n_numeric, len(frame.columns) - 1 - len(categorical)),
        "categorical count": (manifest.n_categorical, len(categorical)),
        "classes": (manifest.class_names, classes),
        "class count": (manifest.n_classes, len(classes)),
    }
    for what, (said, found) in pairs.items():
        if said != found:
            return f"{what} {str(said)[:60]} instead of {str(found)[:60]}"
    key = table_key(frame, manifest.target, manifest.task)
    return "" if key == manifest.key else f"the content key is {key[:12]}..., not {manifest.key[:12]}..."


def row_marks(frame: pd.DataFrame) -> NDArray[np.uint64]:
    """A number for each row; rows that look equal to models (32-bit floats) have the same one.

    Different rows share a number with a chance of about 1 in 2**64, so sorting finds equal rows.
    """
    marks = np.zeros(len(frame), dtype=np.uint64)
    weights = np.random.default_rng(0).integers(1, 2**63, len(frame.columns), dtype=np.uint64) * np.uint64(
        2
    ) + np.uint64(1)
    for weight, (_, column) in zip(weights, frame.items(), strict=True):
        if isinstance(column.dtype, pd.CategoricalDtype):
            bits = column.cat.codes.to_numpy().astype(np.int64).view(np.uint64)
        else:
            with np.errstate(over="ignore"):
                values = column.to_numpy(dtype=np.float32, na_value=np.nan) + np.float32(0)
            values[~np.isfinite(values)] = np.nan
            bits = values.view(np.uint32).astype(np.uint64)
        bits = (bits + np.uint64(1)) * weight
        bits ^= bits >> np.uint64(29)
        marks += bits * weight
        marks ^= marks >> np.uint64(32)
        marks *= np.uint64(0x9E3779B97F4A7C15)
    return marks
