"""Any table of OpenML by its number: a dataset, a task with its folds, a benchmark suite."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import uuid
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tabbench import DataError, DataScheme, Dataset, LoadedData, UsageError
from tabbench_openml.datasets import download_table, make_loaded
from tabbench_openml.download import Download, DownloadFault, download_suite, server
from tabbench_openml.tables import attribute_names, divide_arff, read_table

FORMS = "openml:ID, openml:ID:TARGET, openml/t/ID for a task, openml/s/ID for a suite"
DATASET = re.compile(r"openml(?::|/d/)(?P<id>\d{1,9})(?::(?P<target>.+))?")
TASK = re.compile(r"openml/t/(?P<id>\d{1,9})")
SUITE = re.compile(r"openml/s/(?P<id>\d{1,9})")
SHOWN = 8


class OpenMLScheme(DataScheme):
    """``openml:61``, ``openml/t/59``, ``openml/s/99``."""

    def expand(
        self, reference: str, cache: Path, *, offline: bool = False, refresh: bool = False
    ) -> dict[str, Dataset]:
        if found := DATASET.fullmatch(reference):
            name = f"openml:{int(found['id'])}" + (f":{found['target']}" if found["target"] else "")
            return {name: OpenMLTable(name, "dataset", int(found["id"]), found["target"] or "")}
        if found := TASK.fullmatch(reference):
            return {f"openml/t/{int(found['id'])}": _task(int(found["id"]))}
        if found := SUITE.fullmatch(reference):
            tasks = suite_tasks(int(found["id"]), cache, offline=offline, refresh=refresh)
            return {f"openml/t/{task}": _task(task) for task in tasks}
        raise UsageError(f"{reference!r} is not a reference to OpenML: write {FORMS}")


def _task(number: int) -> OpenMLTable:
    return OpenMLTable(f"openml/t/{number}", "task", number)


def suite_tasks(number: int, cache: Path, *, offline: bool, refresh: bool) -> list[int]:
    """The tasks of a suite, from the cache if it has them."""
    file = cache / "openml" / "suites" / f"{number}.json"
    if not refresh:
        try:
            return [int(task) for task in json.loads(file.read_text(encoding="utf-8"))["tasks"]]
        except (OSError, ValueError, KeyError, TypeError):  # missing or damaged: treat both as missing
            pass
    remedy = f"On a machine with network access, run `tabbench data fetch openml/s/{number}` and copy the cache folder"
    if offline:
        raise DataError(f"the list of suite {number} is not in the cache (--offline). {remedy}")
    folder = cache / "openml" / f"suite-{number}-{uuid.uuid4().hex[:8]}"
    try:
        tasks = download_suite(number, folder)
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{folder.name}")
        draft.write_text(json.dumps({"suite": number, "tasks": tasks}), encoding="utf-8")
        draft.replace(file)
    except DownloadFault as fault:
        message = f"cannot load suite {number} from {server()}: {fault}"
        raise DataError(message if fault.refused else f"{message}. {remedy}") from None
    except OSError as error:
        raise DataError(f"cannot write into {file.parent} ({error})") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return tasks


class OpenMLTable(Dataset):
    """One table of OpenML, as the server describes it.

    Args:
        name: its reference.
        what: whether ``number`` is a dataset's or a task's.
        number: the id on OpenML.
        target: the column to predict, instead of the one that the dataset names.
    """

    def __init__(self, name: str, what: Literal["dataset", "task"], number: int, target: str = "") -> None:
        self.name = name
        self.what = what
        self.number = number
        self.target = target

    def load(self, cache: Path, offline: bool) -> LoadedData:
        if offline:
            raise DataError(f"{self.name} is not cached, and --offline forbids downloads. {self._remedy()}")
        stem = f"{self.what}-{self.number}-{hashlib.sha256(self.name.encode()).hexdigest()[:8]}"
        for left in (cache / "openml").glob(f"{stem}-*"):  # by a download that was killed; only one of a name runs
            shutil.rmtree(left, ignore_errors=True)
        # A new name each time: the client of a killed download may still be writing into its own folder.
        folder = cache / "openml" / f"{stem}-{uuid.uuid4().hex[:8]}"
        return download_table(self.what, self.number, self.name, folder, self._read, self._remedy())

    def _read(self, found: Download) -> LoadedData:
        target = self._choose_target(found)
        frame = read_table(found)
        feature = next(each for each in found.features if each.name == target)
        task = found.task or ("regression" if feature.is_numeric else "classification")
        loaded = make_loaded(found, frame, target, task)
        if found.task is None:
            kind = "numbers" if feature.is_numeric else "categories"
            loaded = replace(loaded, notes=(*loaded.notes, f"{task}, because OpenML says that {target!r} holds {kind}"))
        if found.splits is not None:
            loaded = replace(loaded, folds=read_folds(found.splits, len(frame)))
        return loaded

    def _choose_target(self, found: Download) -> str:
        names = [feature.name for feature in found.features]
        about = f"OpenML {found.id} ({found.name})"
        chosen = self.target or found.target
        if chosen in names:
            return str(chosen)
        listed = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
        if self.target:
            near = get_close_matches(self.target, names, n=1)
            hint = f" Did you mean: {near[0]}?" if near else ""
            raise DataError(f"{about} has no column {self.target!r}.{hint} Its columns: {listed}")
        if chosen:
            raise DataError(
                f"{about} names {chosen!r} as its target, but has no such column: "
                f"write openml:{found.id}:TARGET with one of {listed}"
            )
        raise DataError(f"{about} names no target: write openml:{found.id}:TARGET with one of {listed}")

    def _remedy(self) -> str:
        return f"On a machine with network access, run `tabbench data fetch {self.name}` and copy the cache folder"


def read_folds(file: Path, rows: int) -> NDArray[np.int16]:
    """The fold in which each row is tested, with one column per repeat; -1 means never."""
    header, data = divide_arff(file.read_text(encoding="utf-8"))
    try:
        lines = pd.read_csv(io.StringIO(data), header=None, names=[name.lower() for name in attribute_names(header)])
        tests = lines[lines["type"].astype(str).str.strip().str.upper() == "TEST"]
        row, repeat, fold = (tests[name].to_numpy(dtype=np.int64) for name in ("rowid", "repeat", "fold"))
        if "sample" in tests and tests["sample"].nunique() > 1:
            raise DownloadFault("the task is a learning curve: it has no folds to test on", final=True, refused=True)
        folds = np.full((rows, int(repeat.max()) + 1), -1, dtype=np.int16)
        folds[row, repeat] = fold
    except (ValueError, KeyError, IndexError) as error:
        raise DownloadFault(f"the folds of the task cannot be read ({error})") from None
    return folds
