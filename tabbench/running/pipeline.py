"""A deployable pipeline: final encoder and model, saved without pickle, with predictions for new rows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tabbench.contracts import BackboneMethod, DownstreamModel, JointMethod, SSLMethod
from tabbench.data.reading import Reading
from tabbench.errors import DataError, UsageError
from tabbench.frames import check_frame, no_column, refuse_repeated, these, to_table
from tabbench.registry import Registry, make_registry
from tabbench.values import FIRST_LEVEL, Features, JsonObject, Representation, Schema, Table, Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT = 1
ABOUT, STATE, ENCODER = "pipeline.json", "model.safetensors", "encoder"
CHUNK_ROWS = 50_000
"""Rows that are predicted at a time, so that memory does not grow with the file."""

AnyEncoder = SSLMethod | JointMethod


@dataclass
class Pipeline:
    """An encoder (or none), a model, and what is known about the table they were fitted on."""

    schema: Schema
    task: Task
    target: str
    class_names: tuple[str, ...]
    target_mean: float
    target_std: float
    model_name: str
    model: DownstreamModel
    method_name: str | None = None
    method: AnyEncoder | None = None
    finetuned: bool = False
    """Whether the encoder is part of the model, which then takes raw tables."""
    month_first: tuple[str, ...] = ()
    """Date columns with the month first: 01/02/2020 is the second of January."""
    decimal_commas: tuple[str, ...] = ()
    """Columns in which 1,234 means 1.234."""
    thousands: tuple[str, ...] = ()
    """Columns in which 1,234 means 1234."""
    about: JsonObject = field(default_factory=dict)
    """Where it comes from: data, rows, record, versions."""

    def predict(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Predict new rows: a column named like the target and, for classes, one with the probability of each.

        Columns are found by name; others are ignored. Levels that do not occur in training count as unknown. Text such
        as dates and thousands separators is read as in the table that the pipeline was fitted on.

        Raises:
            DataError: a column is missing, or a numeric one holds something else.
        """
        frame, _ = self._understood(frame)
        parts = [self._predict(frame.iloc[start : start + CHUNK_ROWS]) for start in range(0, len(frame), CHUNK_ROWS)]
        return pd.concat(parts) if parts else self._to_frame(self._empty(), frame.index)

    def surprises(self, frame: pd.DataFrame) -> list[str]:
        """Notes on new rows: unused columns, unseen levels, words in place of numbers, other notations."""
        understood, told = self._understood(frame)
        notes = []
        extra = [str(name) for name in frame.columns if name not in (*self.schema.names, self.target)]
        if extra:
            notes.append(f"not used: {', '.join(extra[:5])}{' and more' if len(extra) > 5 else ''}")
        notes += told
        table = to_table(understood, self.schema)
        for number, name in enumerate(self.schema.categorical):
            unknown = int((table.categorical[:, number] == FIRST_LEVEL - 1).sum())
            if unknown:
                have = "row has" if unknown == 1 else "rows have"
                notes.append(f"{name}: {unknown:,} {have} a value not seen in training")
        return notes

    @property
    def reading(self) -> Reading:
        """How to read new rows."""
        return Reading(
            self.schema.categorical,
            self.schema.numeric,
            month_first=self.month_first,
            decimal_commas=self.decimal_commas,
            thousands=self.thousands,
        )

    def _understood(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
        """The columns of the schema, with text converted, and what is odd about it; keeps the index."""
        from tabbench.data.files import understand_rows
        from tabbench.data.formats import Parsed

        if not isinstance(frame, pd.DataFrame):
            raise DataError(f"new rows must be a DataFrame, not {type(frame).__name__}")
        refuse_repeated([str(name) for name in frame.columns])
        absent = [name for name in self.schema.names if name not in frame.columns]
        if len(absent) == 1:
            raise no_column("column", absent[0], frame.columns)
        if absent:
            raise DataError(f"columns are missing: {these(absent)}")
        parsed = Parsed(frame[list(self.schema.names)].copy())
        check_frame(parsed.frame)
        notes = understand_rows(parsed, self.reading)
        return parsed.frame, notes

    def _predict(self, frame: pd.DataFrame) -> pd.DataFrame:
        table = to_table(frame, self.schema)
        return self._to_frame(self.model.predict(self._features(table)), frame.index)

    def _features(self, table: Table) -> Features:
        if self.method is None or self.finetuned:
            return table
        return Representation(np.asarray(self.method.encode(table).array))

    def _empty(self) -> NDArray[np.float32]:
        return np.empty((0,) if self.task.is_regression else (0, len(self.class_names)), dtype=np.float32)

    def _to_frame(self, predictions: NDArray[np.float32], index: pd.Index[Any]) -> pd.DataFrame:
        if self.task.is_regression:
            numbers = predictions.astype(np.float64) * self.target_std + self.target_mean
            return pd.DataFrame({self.target: numbers}, index=index)
        names = np.array(self.class_names, dtype=object)
        columns: dict[str, NDArray[Any]] = {self.target: names[predictions.argmax(axis=1)]}
        columns |= {f"probability_{name}": predictions[:, number] for number, name in enumerate(self.class_names)}
        return pd.DataFrame(columns, index=index)

    def save(self, folder: str | Path) -> None:
        """Write the pipeline into a folder: JSON and safetensors, with a digest of every file."""
        from safetensors.numpy import save_file

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        state = {name: np.require(array, requirements="C") for name, array in self.model.get_state().items()}
        save_file(state, folder / STATE)
        if self.method is not None:
            self.method.save(folder / ENCODER)
        encoder = (folder / ENCODER).rglob("*") if self.method is not None else ()
        files = [folder / STATE, *sorted(path for path in encoder if path.is_file())]  # others are not the pipeline's
        about = {
            "format": FORMAT,
            "schema": self.schema.to_json(),
            "task": {"kind": self.task.kind, "n_classes": self.task.n_classes},
            "target": self.target,
            "class_names": list(self.class_names),
            "target_mean": self.target_mean,
            "target_std": self.target_std,
            "month_first": list(self.month_first),
            "decimal_commas": list(self.decimal_commas),
            "thousands": list(self.thousands),
            "model": {"name": self.model_name, "config": self.model.config.to_json()},
            "method": None if self.method_name is None else {"name": self.method_name, "finetuned": self.finetuned},
            "about": self.about,
            "files": {path.relative_to(folder).as_posix(): _digest(path) for path in files},
        }
        (folder / ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")


def load(folder: str | Path, device: str = "cpu", plugins: tuple[str | Path, ...] = ()) -> Pipeline:
    """Read what ``Pipeline.save`` wrote. Plugins are found by name among the installed ones and ``plugins``.

    Raises:
        UsageError: it is not a pipeline, or it is damaged.
    """
    from safetensors.numpy import load_file

    folder = Path(folder)
    about = _read_about(folder)
    registry = make_registry(plugins)
    try:
        task = Task(**about["task"])
        model = _make(registry, "model", about["model"])
        method_name = about["method"]["name"] if about["method"] else None
        finetuned = bool(about["method"] and about["method"].get("finetuned"))
        method = None
        if method_name:
            found = _class(registry, "ssl", method_name)
            options = {"model": model} if issubclass(found, BackboneMethod) else {}
            method = found.load(folder / ENCODER, device, **options)
        state = load_file(folder / STATE)
        if finetuned and method is not None:
            model.set_finetuned_state(state, method.trainable_encoder(), task, device)
        else:
            model.set_state(state, task, device)
        return Pipeline(
            schema=Schema.from_json(about["schema"]),
            task=task,
            target=about["target"],
            class_names=tuple(about["class_names"]),
            target_mean=about["target_mean"],
            target_std=about["target_std"],
            model_name=about["model"]["name"],
            model=model,
            method_name=method_name,
            method=method,
            finetuned=finetuned,
            month_first=tuple(about.get("month_first", ())),
            decimal_commas=tuple(about.get("decimal_commas", ())),
            thousands=tuple(about.get("thousands", ())),
            about=about["about"],
        )
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise UsageError(f"{folder} cannot be loaded as a pipeline: {_one_line(error)}") from None


def _read_about(folder: Path) -> JsonObject:
    try:
        about: JsonObject = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        files = dict(about["files"])
        found = about["format"]
    except OSError:
        raise UsageError(f"{folder} is not a pipeline: it has no file {ABOUT}; make one with 'tabbench fit'") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{folder / ABOUT} is damaged: fit the pipeline again") from None
    if found != FORMAT:
        raise UsageError(f"{folder} was written in format {found}, this tabbench reads format {FORMAT}: fit it again")
    for name, digest in files.items():
        path = folder / str(name)
        inside = folder.resolve() in path.resolve().parents
        if not inside or not path.is_file() or _digest(path) != digest:
            raise UsageError(f"{path} is missing or damaged: fit the pipeline again")
    return about


def _class(registry: Registry, kind: str, name: str) -> Any:
    return registry.load(registry.find(kind, name))


def _make(registry: Registry, kind: str, address: JsonObject) -> Any:
    found = _class(registry, kind, address["name"])
    return found(found.Config.resolve(address["config"], address["name"]))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
