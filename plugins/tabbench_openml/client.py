"""The child process in which the openml client downloads one dataset: ``python -m tabbench_openml.client REQUEST``.

A process of its own, because the client waits for a stalled server without end, and because it keeps a configuration
and a cache that are not ours. The answer is the file ``answer.json`` in the folder of the request.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

TIMED_OUT = 75
"""Exit code when the time was up."""
DESCRIBED = "described"
"""The file that says which kinds of data file the server describes: what fails after it is the download of them."""
LAST_FAULT = "fault.txt"
"""The file that says why the latest attempt failed, should the time be up before the next one ends."""
UNREACHABLE = "the server cannot be reached"


def main() -> None:
    request: dict[str, Any] = json.loads(sys.argv[1])
    import openml

    # The clock starts after the import, whose seconds are not the server's fault.
    watchdog = threading.Timer(request["timeout"], os._exit, [TIMED_OUT])
    watchdog.daemon = True
    watchdog.start()
    folder = Path(request["folder"])
    openml.config.server = request["server"]
    openml.config.apikey = ""
    openml.config.set_root_cache_directory(folder / "openml")
    openml.config.set_retry_policy("human", n_retries=1)  # the attempts are counted here, for every kind of fault
    answer = fetch(request, folder)
    (folder / "answer.json").write_text(json.dumps(answer), encoding="utf-8")


def fetch(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What was downloaded, or the ``fault`` because of which it was not."""
    from openml.exceptions import OpenMLServerNoResult

    fault = ""
    for attempt, delay in enumerate((0.0, *request["delays"])):
        time.sleep(delay)
        try:
            return download(request["id"], folder)
        except OpenMLServerNoResult:
            return {"fault": f"the server knows no dataset with the id {request['id']}"}
        except Exception as error:
            fault = describe(error)
            (folder / LAST_FAULT).write_text(fault, encoding="utf-8")
            if fault == UNREACHABLE and attempt:  # most likely there is no network, and nobody wants to wait for it
                break
    return {"fault": fault}


def download(dataset_id: int, folder: Path) -> dict[str, Any]:
    import openml

    about: dict[str, Any] = {"download_features_meta_data": True, "download_qualities": True}
    dataset = openml.datasets.get_dataset(dataset_id, **about)
    (folder / DESCRIBED).write_text("arff parquet" if dataset._parquet_url else "arff", encoding="utf-8")
    dataset = openml.datasets.get_dataset(dataset_id, download_data=True, **about)
    ignored = dataset.ignore_attribute or []
    return {
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
    }


def describe(error: Exception) -> str:
    """A fault in the words of the user."""
    import requests
    from openml.exceptions import OpenMLHashException

    if isinstance(error, OpenMLHashException):
        return "the checksum of the download is wrong"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the download broke off"
    if isinstance(error, requests.exceptions.ConnectionError):
        return UNREACHABLE
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


if __name__ == "__main__":
    main()
