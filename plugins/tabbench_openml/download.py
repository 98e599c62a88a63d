"""Query OpenML with its own client, in a child process with a deadline."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tabbench import DataError
from tabbench_openml.client import DESCRIBED, LAST_FAULT, TIMED_OUT, WRONG_CHECKSUM

SERVER_VARIABLE = "TABBENCH_OPENML_SERVER"
DEFAULT_SERVER = "https://www.openml.org/api/v1/xml"
TIMEOUT_VARIABLE = "TABBENCH_OPENML_TIMEOUT"
DEFAULT_TIMEOUT = 900.0
"""Seconds for one kind of file."""
DELAYS = (1.0, 4.0, 10.0)
"""Seconds before the second and each further attempt."""
LONGEST_TIMEOUT = 86_400.0
GRACE = 120.0
"""Extra seconds for the child process to start; it keeps the deadline itself."""

FileKind = Literal["arff", "parquet"]


class DownloadFault(Exception):  # noqa: N818 - read as "try the other file", not as an error of the program
    """A download that failed.

    Args:
        message: why.
        final: there is no other kind of file to try.
        refused: the server did answer, so another machine or another day would not help.
    """

    def __init__(self, message: str, final: bool = False, refused: bool = False) -> None:
        super().__init__(message)
        self.final = final
        self.refused = refused


@dataclass(frozen=True)
class Feature:
    """A column, as the server describes it."""

    name: str
    is_numeric: bool
    values: tuple[str, ...]
    """The levels of a nominal column, if the server lists them."""


@dataclass(frozen=True)
class Download:
    """A file on this disk, and what the server says about it."""

    file: Path
    name: str
    version: int
    target: str | None
    features: tuple[Feature, ...]
    """In column order, including the target."""
    ignored: frozenset[str]
    """Columns that are not features: row numbers, and columns that the dataset's authors excluded."""
    rows: int | None
    verified: bool = False
    """Whether the server gave a checksum and the file matches it."""
    id: int = 0
    task: Literal["classification", "regression"] | None = None
    """Kind of an OpenML task; None for a plain dataset."""
    splits: Path | None = None
    """The file of a task's folds."""
    licence: str = ""
    citation: str = ""

    @property
    def is_parquet(self) -> bool:
        return self.file.suffix == ".pq"


def server() -> str:
    """Where OpenML is: the public server, a mirror, or a stand-in."""
    return os.environ.get(SERVER_VARIABLE) or DEFAULT_SERVER


def timeout() -> float:
    """Seconds that one kind of file may take."""
    text = os.environ.get(TIMEOUT_VARIABLE) or str(DEFAULT_TIMEOUT)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST_TIMEOUT:
        raise DataError(f"{TIMEOUT_VARIABLE}={text} is not a number of seconds between 0 and {LONGEST_TIMEOUT:g}")
    return seconds


def download(what: Literal["dataset", "task"], number: int, kind: FileKind, folder: Path) -> Download:
    """Fetch a dataset, or a task's dataset and folds, into ``folder``, which nothing else uses.

    The ARFF file has a checksum. The parquet file has none, so its reader counts the rows.
    """
    answer, final = ask(what, number, folder, kind)
    if "fault" in answer:
        # The other file has no checksum at all: taking it instead would hide the problem.
        raise DownloadFault(answer["fault"], final or answer["fault"] == WRONG_CHECKSUM, bool(answer.get("final")))
    return _check(answer)


def download_suite(number: int, folder: Path) -> list[int]:
    """The tasks of a suite."""
    answer, _ = ask("suite", number, folder, "arff")
    if "fault" in answer:
        raise DownloadFault(answer["fault"], final=True, refused=bool(answer.get("final")))
    tasks: list[int] = answer["tasks"]
    return tasks


def ask(what: str, number: int, folder: Path, kind: FileKind) -> tuple[dict[str, Any], bool]:
    """Run the client in a child process; returns its answer, and whether no other kind of file is left to try."""
    folder.mkdir(parents=True)
    seconds = timeout()
    request = {
        "what": what,
        "id": number,
        "server": server(),
        "timeout": seconds,
        "delays": DELAYS,
        "folder": str(folder),
    }
    environment = {
        **os.environ,
        "OPENML_SKIP_PARQUET": "true" if kind == "arff" else "false",
        # The client would write its configuration, cache and log into the user's home.
        "OPENML_CACHE_DIR": str(folder),
        "XDG_CACHE_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
    }
    command = [sys.executable, "-m", "tabbench_openml.client", json.dumps(request)]
    try:
        process = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds + GRACE
        )
        code = process.returncode
    except subprocess.TimeoutExpired:
        code = TIMED_OUT
    described = folder / DESCRIBED
    final = not described.exists() or "parquet" not in described.read_text(encoding="utf-8")
    if code == TIMED_OUT:
        earlier = folder / LAST_FAULT
        fault = f"{earlier.read_text(encoding='utf-8')}; no better answer" if earlier.exists() else "no answer"
        return {"fault": f"{fault} within {seconds:g} s ({TIMEOUT_VARIABLE})"}, final
    if code != 0:
        last = (process.stderr.strip() or "no message").splitlines()[-1]
        return {"fault": f"the openml client failed ({last})"}, final
    answer: dict[str, Any] = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    return answer, final or bool(answer.get("final"))


def _check(answer: dict[str, Any]) -> Download:
    file = Path(answer["file"])
    has_checksum = file.suffix == ".arff" and bool(answer["md5"])
    # The client checks what it received; this checks what is on the disk.
    if has_checksum and answer["md5"] != hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest():
        raise DownloadFault(WRONG_CHECKSUM, final=True)
    return Download(
        file=file,
        name=answer["name"],
        version=answer["version"],
        target=answer["target"],
        features=tuple(
            Feature(feature["name"], feature["type"] in ("numeric", "integer", "real"), tuple(feature["values"]))
            for feature in answer["features"]
        ),
        ignored=frozenset(name for name in answer["ignored"] if name),
        rows=int(answer["rows"]) if answer["rows"] is not None and answer["rows"] == answer["rows"] else None,
        verified=has_checksum,
        id=answer["id"],
        task=answer.get("task"),
        splits=Path(answer["splits"]) if answer.get("splits") else None,
        licence=answer["licence"],
        citation=answer["citation"],
    )
