"""Datasets of OpenML, downloaded and checked against their expected content."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from tabbench import DataError, Dataset, LoadedData
from tabbench_openml.download import Download, DownloadFault, FileKind, download, server
from tabbench_openml.tables import read_table

FILE_KINDS: tuple[FileKind, ...] = ("arff", "parquet")
"""The more trusted kind first: only ARFF files have a checksum. Outages of OpenML tend to hit only one of the two."""
SHARE_TOLERANCE = 0.001


def download_table(
    what: Literal["dataset", "task"],
    number: int,
    about: str,
    folder: Path,
    read: Callable[[Download], LoadedData],
    remedy: str,
) -> LoadedData:
    """Download into ``folder``, read the table, and remove the folder; tries one kind of file after the other.

    ``remedy`` is what the user can do if the server does not answer.
    """
    faults = []
    try:
        shutil.rmtree(folder, ignore_errors=True)  # left by a download that was killed; the harness runs one at a time
        folder.mkdir(parents=True)
        for kind in FILE_KINDS:
            try:
                return read(download(what, number, kind, folder / kind))
            except DownloadFault as fault:
                faults.append(str(fault))
                if fault.refused:
                    raise DataError(f"cannot load {about} from {server()}: {fault}") from None
                if fault.final:
                    break
    except OSError as error:
        raise DataError(f"cannot download into {folder} ({error})") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    raise DataError(f"cannot load {about} from {server()}: {'; '.join(dict.fromkeys(faults))}. {remedy}".strip())


def make_loaded(
    found: Download, frame: pd.DataFrame, target: str, task: Literal["classification", "regression"]
) -> LoadedData:
    """Arrange the table as the harness expects it: features, then the target."""
    features = [feature for feature in found.features if feature.name != target and feature.name not in found.ignored]
    kind = ("parquet" if found.is_parquet else "ARFF") + (", checksum verified" if found.verified else "")
    return LoadedData(
        frame=frame[[*(feature.name for feature in features), target]],
        target=target,
        task=task,
        categorical=tuple(feature.name for feature in features if not feature.is_numeric),
        source=f"OpenML {found.id} ({found.name}, version {found.version}), {kind}",
        notes=() if found.verified else ("downloaded without a checksum, so the file could not be verified",),
        licence=found.licence,
        citation=found.citation,
        homepage=f"https://www.openml.org/d/{found.id}",
    )


class OpenMLDataset(Dataset):
    """A dataset by its OpenML id, with the counts that it must have.

    Args:
        name: as users type it.
        id: on OpenML.
        target_column: name of the target on OpenML; an imported file may use another name.
        task: classification or regression.
        rows: expected number of rows. None, here and below: not checked.
        numeric: expected number of numeric features.
        categorical: expected number of categorical features.
        classes: expected number of classes.
        missing: expected number of missing cells in features.
        shares: expected shares of the classes, in any order.
    """

    def __init__(
        self,
        name: str,
        id: int,  # noqa: A002 - OpenML's own word
        target_column: str,
        task: Literal["classification", "regression"] = "classification",
        rows: int | None = None,
        numeric: int | None = None,
        categorical: int | None = None,
        classes: int | None = None,
        missing: int | None = None,
        shares: Sequence[float] = (),
    ) -> None:
        self.name = name
        self.id = id
        self.target_column = target_column
        self.task = task
        self.shares = sorted(shares)
        self.expected = {
            "rows": rows,
            "numeric columns": numeric,
            "categorical columns": categorical,
            "classes": classes,
            "missing values": missing,
        }

    def load(self, cache: Path, offline: bool) -> LoadedData:
        if offline:
            raise DataError(f"{self.name} is not cached, and --offline forbids downloads. {self._remedy()}")
        about = f"{self.name} (OpenML {self.id})"
        loaded = download_table("dataset", self.id, about, cache / "openml" / self.name, self._read, self._remedy())
        accepted = self.accept(loaded)
        return replace(accepted, notes=(*loaded.notes, *accepted.notes))

    def accept(self, loaded: LoadedData) -> LoadedData:
        loaded = self.arrange(loaded)
        differences = [
            f"{found:,} {what} instead of {self.expected[what]:,}"
            for what, found in self._count(loaded).items()
            if self.expected[what] not in (None, found)
        ]
        if not differences:
            differences = self._compare_shares(loaded)
        if differences:
            raise DataError(f"this is not {self.name} (OpenML {self.id}): {', '.join(differences)}")
        return loaded

    def arrange(self, loaded: LoadedData) -> LoadedData:
        """Give task and target the form that they have on OpenML, whatever their names and types in a file."""
        frame = loaded.frame.rename(columns={loaded.target: self.target_column})
        return replace(loaded, frame=frame, target=self.target_column, task=self.task, notes=())

    def _read(self, found: Download) -> LoadedData:
        frame = read_table(found)
        target = self.target_column if self.target_column in frame.columns else found.target
        if target is None or target not in frame.columns:
            raise DataError(f"OpenML {found.name} has no column {self.target_column!r}")
        return make_loaded(found, frame, target, self.task)

    def _count(self, loaded: LoadedData) -> dict[str, int]:
        features = loaded.frame.drop(columns=loaded.target)
        counts = {
            "rows": len(features),
            "numeric columns": len(features.columns) - len(loaded.categorical),
            "categorical columns": len(loaded.categorical),
            "missing values": int(features.isna().to_numpy().sum()),
        }
        if self.task == "classification":
            counts["classes"] = int(loaded.frame[loaded.target].nunique())
        return counts

    def _compare_shares(self, loaded: LoadedData) -> list[str]:
        if not self.shares:
            return []
        found: list[Any] = sorted(loaded.frame[loaded.target].value_counts(normalize=True))
        if all(abs(a - b) <= SHARE_TOLERANCE for a, b in zip(found, self.shares, strict=True)):
            return []
        return [f"the class shares differ (the largest is {found[-1]:.3f} instead of {self.shares[-1]:.3f})"]

    def _remedy(self) -> str:
        return (
            f"On a machine with network access, run `tabbench data fetch {self.name}` and copy the cache folder, "
            f"or import a file: `tabbench data import {self.name} FILE --target {self.target_column}`"
        )
