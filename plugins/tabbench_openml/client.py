"""One request of the openml client, in a child process: ``python -m tabbench_openml.client REQUEST``.

It has a separate process because the client waits forever for a stalled server, and because it keeps its own
configuration and cache. The answer is the file ``answer.json`` in the folder of the request.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TIMED_OUT = 75
"""Exit code when time ran out."""
DESCRIBED = "described"
"""The file that says which kinds of data file the server has. A failure after it was written is one of the download."""
LAST_FAULT = "fault.txt"
"""The file that says why the latest attempt failed, in case time runs out before the next one ends."""
WRONG_CHECKSUM = "the checksum of the download is wrong"
UNREACHABLE = "the server cannot be reached"
UNKNOWN_CODES = {111: "dataset", 151: "task", 601: "suite"}
"""What the server does not have when it answers with one of these codes."""
SAVE_AS_FILE = "save the table as a file and use FILE:TARGET"
MOST_SPLIT_LINES = 20_000_000
"""If a task's file of folds has more lines than this, the task is loaded without folds."""
ABOUT: dict[str, Any] = {"download_features_meta_data": True, "download_qualities": True}


def main() -> None:
    request: dict[str, Any] = json.loads(sys.argv[1])
    import openml  # noqa: F401 - the clock starts after the import, whose seconds are not the server's fault

    watchdog = threading.Timer(request["timeout"], os._exit, [TIMED_OUT])
    watchdog.daemon = True
    watchdog.start()
    answer(request)


def answer(request: dict[str, Any]) -> None:
    """Do one request and leave the answer in its folder."""
    import openml

    folder = Path(request["folder"])
    openml.config.server = request["server"]
    openml.config.apikey = ""
    openml.config.set_root_cache_directory(folder / "openml")
    openml.config.set_retry_policy("human", n_retries=1)  # the attempts are counted here, for every kind of fault
    found = fetch(request, folder)
    (folder / "answer.json").write_text(json.dumps(found), encoding="utf-8")


def fetch(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Download, and describe the result; if it failed, ``fault`` says why."""
    fault = ""
    for attempt, delay in enumerate((0.0, *request["delays"])):
        time.sleep(delay)
        try:
            return ANSWERS[request["what"]](request["id"], folder)
        except Exception as error:
            fault, final = describe(error, request["what"], request["id"])
            if final:
                return {"fault": fault, "final": True}
            (folder / LAST_FAULT).write_text(fault, encoding="utf-8")
            if fault == UNREACHABLE and attempt:  # most likely there is no network, so do not keep the user waiting
                break
    return {"fault": fault}


class Refused(Exception):  # noqa: N818 - an answer, not an error of the program
    """We cannot use what the server has; another attempt would not change that."""


def download_suite(suite_id: int, folder: Path) -> dict[str, Any]:
    import openml

    suite = openml.study.get_suite(suite_id)
    if not suite.tasks:
        raise Refused(f"suite {suite_id} has no tasks")
    return {"name": suite.name, "tasks": [int(task) for task in suite.tasks]}


def download_task(task_id: int, folder: Path) -> dict[str, Any]:
    import openml

    task: Any = openml.tasks.get_task(task_id, **ABOUT)
    kind = {1: "classification", 2: "regression"}.get(task.task_type_id.value)
    if kind is None:
        raise Refused(f"task {task_id} is of the type {task.task_type}; tabbench runs classification and regression")
    answer = download(int(task.dataset_id), folder)
    shape = task.estimation_procedure.get("parameters") or {}
    parts = int(shape.get("number_repeats") or 1) * int(shape.get("number_folds") or 1)
    splits = folder / "splits.arff"
    if (answer["rows"] or 0) * parts <= MOST_SPLIT_LINES and not splits.exists():
        task._download_split(splits)
    kept = str(splits) if splits.exists() else ""
    return {**answer, "target": task.target_name, "task": kind, "splits": kept}


def download(dataset_id: int, folder: Path) -> dict[str, Any]:
    import openml

    dataset = openml.datasets.get_dataset(dataset_id, **ABOUT)
    if "sparse" in str(dataset.format).lower():
        raise Refused(f"dataset {dataset_id} ({dataset.name}) is sparse, which tabbench cannot read: {SAVE_AS_FILE}")
    (folder / DESCRIBED).write_text("arff parquet" if dataset._parquet_url else "arff", encoding="utf-8")
    dataset = openml.datasets.get_dataset(dataset_id, download_data=True, **ABOUT)
    ignored = dataset.ignore_attribute or []
    return {
        "id": dataset_id,
        "file": str(dataset.parquet_file or dataset.data_file),
        "md5": dataset.md5_checksum,
        "name": dataset.name,
        "version": dataset.version,
        "target": dataset.default_target_attribute,
        "ignored": [*([ignored] if isinstance(ignored, str) else ignored), dataset.row_id_attribute],
        "features": [
            {"name": feature.name, "type": feature.data_type, "values": feature.nominal_values or []}
            for _, feature in sorted(dataset.features.items())
        ],
        "rows": (dataset.qualities or {}).get("NumberOfInstances"),
        "licence": str(dataset.licence or ""),
        "citation": str(dataset.citation or ""),
    }


ANSWERS: dict[str, Callable[[int, Path], dict[str, Any]]] = {
    "dataset": download,
    "task": download_task,
    "suite": download_suite,
}


def describe(error: Exception, what: str, number: int) -> tuple[str, bool]:
    """Describe a fault for the user, and say whether another attempt is pointless."""
    import requests
    from openml.exceptions import OpenMLHashException, OpenMLPrivateDatasetError, OpenMLServerException

    if isinstance(error, Refused):
        return str(error), True
    if isinstance(error, OpenMLServerException) and error.code in UNKNOWN_CODES:
        missing = UNKNOWN_CODES[error.code]
        # A task can name a dataset that is gone; its number is not in the answer.
        which = f"with the id {number}" if missing == what else f"that {what} {number} is about"
        return f"the server has no {missing} {which}", True
    if isinstance(error, OpenMLPrivateDatasetError):
        which = f"dataset {number}" if what == "dataset" else f"the dataset of {what} {number}"
        return f"{which} is private, and tabbench does not log in: {SAVE_AS_FILE}", True
    if isinstance(error, OpenMLHashException):
        return WRONG_CHECKSUM, False
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the download broke off", False
    if isinstance(error, requests.exceptions.ConnectionError):
        return UNREACHABLE, False
    if what == "suite" and isinstance(error, ValueError) and "entity type" in str(error):
        return f"the study with the id {number} is not a suite of tasks", True
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}", False


if __name__ == "__main__":
    main()
