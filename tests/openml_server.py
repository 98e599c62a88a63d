"""A stand-in for OpenML on loopback: speaks what the openml client asks, and misbehaves on request."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd

from tabbench.data.cache import Manifest

ROWS = 60
"""Of the table that tests serve."""
NAMESPACE = 'xmlns:oml="http://openml.org/openml"'


@dataclass
class Served:
    """One dataset of the stand-in, and what is wrong with it."""

    frame: pd.DataFrame
    target: str
    id: int = 61
    has_parquet: bool = False
    wrong_checksum: bool = False
    truncated: bool = False
    """The body of the ARFF file ends early, though its length is announced."""
    failures: int = 0
    """So many requests for the ARFF file are answered by HTTP 500."""
    delay: float = 0.0
    """Seconds before the ARFF file is sent."""
    rows_announced: int | None = None
    """Number of instances in the description; the true one by default."""
    corrupt_parquet: bool = False
    ignored: tuple[str, ...] = ()
    file_order: tuple[str, ...] = ()
    """Order of the columns in the ARFF file; that of the description by default."""
    described_as: dict[str, str] = field(default_factory=dict)
    """Columns that the description calls otherwise than the file."""
    requests: list[str] = field(default_factory=list)
    """Every path that was asked for, in order."""
    is_sparse: bool = False
    is_private: bool = False

    @property
    def arff_requests(self) -> int:
        return sum(path.endswith(".arff") for path in self.requests)

    def nominal(self, name: str) -> list[str]:
        column = self.frame[name]
        if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
            return []
        return [_level(value) for value in sorted(column.dropna().unique())]

    def arff(self) -> bytes:
        lines = ["% a comment", "@RELATION standin"]
        frame = self.frame[list(self.file_order or self.frame.columns)]
        for name in frame.columns:
            levels = self.nominal(name)
            kind = "{" + ",".join(_quote(level) for level in levels) + "}" if levels else "REAL"
            lines.append(f"@ATTRIBUTE '{name}' {kind}")
        lines.append("@DATA")
        for row in frame.itertuples(index=False):
            lines.append(",".join("?" if pd.isna(value) else _quote(_level(value)) for value in row))
        return ("\n".join(lines) + "\n").encode()

    def parquet(self) -> bytes:
        if self.corrupt_parquet:
            return b"PAR1 and nothing else"
        sink = BytesIO()
        self.frame.to_parquet(sink)
        return sink.getvalue()

    def description(self, base: str) -> str:
        checksum = "0" * 32 if self.wrong_checksum else hashlib.md5(self.arff()).hexdigest()
        parquet = f"<oml:parquet_url>{base}/bucket/dataset_{self.id}.pq</oml:parquet_url>" if self.has_parquet else ""
        ignored = "".join(f"<oml:ignore_attribute>{name}</oml:ignore_attribute>" for name in self.ignored)
        target = f"<oml:default_target_attribute>{self.target}</oml:default_target_attribute>" if self.target else ""
        kind = "Sparse_ARFF" if self.is_sparse else "ARFF"
        return (
            f"<oml:data_set_description {NAMESPACE}><oml:id>{self.id}</oml:id><oml:name>standin</oml:name>"
            f"<oml:version>3</oml:version><oml:description>none</oml:description><oml:format>{kind}</oml:format>"
            f"<oml:url>{base}/files/{self.id}.arff</oml:url>{parquet}<oml:file_id>{self.id}</oml:file_id>"
            f"{target}{ignored}<oml:licence>CC BY 4.0</oml:licence><oml:citation>A paper</oml:citation>"
            f"<oml:md5_checksum>{checksum}</oml:md5_checksum></oml:data_set_description>"
        )

    def features(self) -> str:
        items = []
        for index, name in enumerate(self.frame.columns):
            levels = self.nominal(name)
            values = "".join(f"<oml:nominal_value>{escape(level)}</oml:nominal_value>" for level in levels)
            items.append(
                f"<oml:feature><oml:index>{index}</oml:index><oml:name>{self.described_as.get(name, name)}</oml:name>"
                f"<oml:data_type>{'nominal' if levels else 'numeric'}</oml:data_type>{values}"
                f"<oml:is_target>{str(name == self.target).lower()}</oml:is_target><oml:is_ignore>false</oml:is_ignore>"
                "<oml:is_row_identifier>false</oml:is_row_identifier>"
                f"<oml:number_of_missing_values>{self.frame[name].isna().sum()}</oml:number_of_missing_values>"
                "</oml:feature>"
            )
        return f"<oml:data_features {NAMESPACE}>{''.join(items)}</oml:data_features>"

    def qualities(self) -> str:
        rows = len(self.frame) if self.rows_announced is None else self.rows_announced
        qualities = {"NumberOfInstances": rows, "NumberOfFeatures": len(self.frame.columns)}
        items = "".join(
            f"<oml:quality><oml:name>{name}</oml:name><oml:value>{value}.0</oml:value></oml:quality>"
            for name, value in qualities.items()
        )
        return f"<oml:data_qualities {NAMESPACE}>{items}</oml:data_qualities>"


def _level(value: object) -> str:
    return str(value).lower() if isinstance(value, bool | np.bool_) else str(value)


def _quote(text: str) -> str:
    return f"'{text}'" if " " in text or "," in text else text


@dataclass
class ServedTask:
    """A task of the stand-in: a dataset, its target and its folds."""

    dataset: int
    target: str
    folds: np.ndarray[Any, np.dtype[np.int64]]
    """The fold in which each row is tested, one column for each repeat; -1 for never."""
    is_regression: bool = False
    is_clustering: bool = False

    def description(self, number: int, base: str) -> str:
        kind, name = (2, "Regression") if self.is_regression else (1, "Classification")
        kind, name = (5, "Clustering") if self.is_clustering else (kind, f"Supervised {name}")
        shape = {"number_repeats": self.folds.shape[1], "number_folds": self.folds.max() + 1, "percentage": ""}
        parameters = "".join(f'<oml:parameter name="{key}">{value}</oml:parameter>' for key, value in shape.items())
        procedure = (
            "<oml:type>crossvalidation</oml:type>"
            f"<oml:data_splits_url>{base}/api_splits/get/{number}/Task_{number}_splits.arff</oml:data_splits_url>"
        )
        target = "" if self.is_clustering else f"<oml:target_feature>{self.target}</oml:target_feature>"
        return (
            f"<oml:task {NAMESPACE}><oml:task_id>{number}</oml:task_id><oml:task_name>Task {number}</oml:task_name>"
            f"<oml:task_type_id>{kind}</oml:task_type_id><oml:task_type>{name}</oml:task_type>"
            f'<oml:input name="source_data"><oml:data_set><oml:data_set_id>{self.dataset}</oml:data_set_id>'
            f'{target}</oml:data_set></oml:input><oml:input name="estimation_procedure"><oml:estimation_procedure>'
            f"<oml:id>1</oml:id>{procedure}{parameters}</oml:estimation_procedure></oml:input></oml:task>"
        )

    def splits(self) -> bytes:
        lines = ["@relation splits", "@attribute type {TRAIN,TEST}"]
        lines += [f"@attribute {name} numeric" for name in ("rowid", "repeat", "fold")] + ["@data"]
        for repeat, folds in enumerate(self.folds.T):
            for fold in range(folds.max() + 1):
                kinds = np.where(folds == fold, "TEST", "TRAIN")
                lines += [f"{kind},{row},{repeat},{fold}" for row, kind in enumerate(kinds)]
        return ("\n".join(lines) + "\n").encode()


@dataclass
class World:
    """Several datasets, with tasks and suites of tasks."""

    datasets: list[Served]
    tasks: dict[int, ServedTask] = field(default_factory=dict)
    suites: dict[int, list[int]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    most_at_once: int = 0
    """Files that were sent at the same time, at the most."""

    def find(self, number: str) -> Served | None:
        return next((each for each in self.datasets if str(each.id) == number), None)

    def suite(self, number: int) -> str:
        tasks = "".join(f"<oml:task_id>{task}</oml:task_id>" for task in self.suites[number])
        data = "".join(f"<oml:data_id>{self.tasks[task].dataset}</oml:data_id>" for task in self.suites[number])
        return (
            f"<oml:study {NAMESPACE}><oml:id>{number}</oml:id><oml:main_entity_type>task</oml:main_entity_type>"
            "<oml:name>a suite</oml:name><oml:description>none</oml:description><oml:status>active</oml:status>"
            "<oml:creation_date>2026-01-01</oml:creation_date><oml:creator>1</oml:creator>"
            f"<oml:data>{data}</oml:data><oml:tasks>{tasks}</oml:tasks></oml:study>"
        )


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, served: Served | World) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.world = served if isinstance(served, World) else World([served], requests=served.requests)
        self.stopped = threading.Event()
        self.sending = 0
        self.lock = threading.Lock()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def url(self) -> str:
        """What the client is configured with."""
        return f"{self.base}/api/v1/xml"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that give up are part of the tests."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        world = self.server.world
        path = self.path.partition("?")[0]
        world.requests.append(path)
        match path.removeprefix("/api/v1/xml").strip("/").split("/"):
            case ["data", number] if served := world.find(number):
                if served.is_private:
                    self._refuse(112, "No access granted")
                else:
                    self._send(200, served.description(self.server.base).encode())
            case ["data", "features", number] if served := world.find(number):
                self._send(200, served.features().encode())
            case ["data", "qualities", number] if served := world.find(number):
                self._send(200, served.qualities().encode())
            case ["files", name] if served := world.find(name.removesuffix(".arff")):
                self._send_arff(served)
            case ["bucket", name] if (served := world.find(name[8:-3])) and served.has_parquet:
                self._send(200, served.parquet(), "application/octet-stream")
            case ["task", number] if int(number) in world.tasks:
                self._send(200, world.tasks[int(number)].description(int(number), self.server.base).encode())
            case ["api_splits", "get", number, _]:
                self._send(200, world.tasks[int(number)].splits(), "text/plain; charset=utf-8")
            case ["study", number] if int(number) in world.suites:
                self._send(200, world.suite(int(number)).encode())
            case ["task", _]:
                self._refuse(151, "Unknown task")
            case ["study", _]:
                self._refuse(601, "Unknown study")
            case _:
                self._refuse(111, "Unknown dataset")

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    def _refuse(self, code: int, message: str) -> None:
        error = f"<oml:code>{code}</oml:code><oml:message>{message}</oml:message>"
        self._send(412, f"<oml:error {NAMESPACE}>{error}</oml:error>".encode())

    def _send_arff(self, served: Served) -> None:
        if served.failures > 0:
            served.failures -= 1
            self._send(500, b"<html>Internal Server Error</html")
            return
        with self.server.lock:
            self.server.sending += 1
            self.server.world.most_at_once = max(self.server.world.most_at_once, self.server.sending)
        if served.delay:
            self.server.stopped.wait(served.delay)
        with self.server.lock:
            self.server.sending -= 1
        content = served.arff()
        self._send(200, content, "text/plain; charset=utf-8", len(content) // 2 if served.truncated else None)

    def _send(self, status: int, content: bytes, kind: str = "text/xml; charset=utf-8", cut: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.md5(content).hexdigest()}"')
        self.send_header("Last-Modified", formatdate(usegmt=True))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:cut])
        if cut is not None:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Silent: requests are kept in ``Served.requests``."""


@contextmanager
def serving(served: Served | World) -> Iterator[Server]:
    """A running stand-in; it is gone when the block ends."""
    server = Server(served)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()


Serve = Callable[[Served | World], AbstractContextManager[None]]
"""``with serve(served):`` runs the stand-in and points the client to it."""
ImportAsToy = Callable[[pd.DataFrame], Manifest]
