"""A stand-in for OpenML on loopback: speaks what the openml client asks, and misbehaves on request."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd

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
    requests: list[str] = field(default_factory=list)
    """Every path that was asked for, in order."""

    def nominal(self, name: str) -> list[str]:
        column = self.frame[name]
        if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
            return []
        return [_level(value) for value in sorted(column.dropna().unique())]

    def arff(self) -> bytes:
        lines = ["% a comment", "@RELATION standin"]
        for name in self.frame.columns:
            levels = self.nominal(name)
            kind = "{" + ",".join(_quote(level) for level in levels) + "}" if levels else "REAL"
            lines.append(f"@ATTRIBUTE '{name}' {kind}")
        lines.append("@DATA")
        for row in self.frame.itertuples(index=False):
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
        return (
            f"<oml:data_set_description {NAMESPACE}><oml:id>{self.id}</oml:id><oml:name>standin</oml:name>"
            "<oml:version>3</oml:version><oml:description>none</oml:description><oml:format>ARFF</oml:format>"
            f"<oml:url>{base}/files/{self.id}.arff</oml:url>{parquet}<oml:file_id>{self.id}</oml:file_id>"
            f"<oml:default_target_attribute>{self.target}</oml:default_target_attribute>{ignored}"
            f"<oml:md5_checksum>{checksum}</oml:md5_checksum></oml:data_set_description>"
        )

    def features(self) -> str:
        items = []
        for index, name in enumerate(self.frame.columns):
            levels = self.nominal(name)
            values = "".join(f"<oml:nominal_value>{escape(level)}</oml:nominal_value>" for level in levels)
            items.append(
                f"<oml:feature><oml:index>{index}</oml:index><oml:name>{name}</oml:name>"
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


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, served: Served) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.served = served
        self.stopped = threading.Event()

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
        served = self.server.served
        path = self.path.partition("?")[0]
        served.requests.append(path)
        answers = {
            f"/api/v1/xml/data/{served.id}": lambda: served.description(self.server.base).encode(),
            f"/api/v1/xml/data/features/{served.id}": lambda: served.features().encode(),
            f"/api/v1/xml/data/qualities/{served.id}": lambda: served.qualities().encode(),
        }
        if path == f"/files/{served.id}.arff":
            self._send_arff(served)
        elif path == f"/bucket/dataset_{served.id}.pq" and served.has_parquet:
            self._send(200, served.parquet(), "application/octet-stream")
        elif path in answers:
            self._send(200, answers[path]())
        else:
            error = "<oml:code>111</oml:code><oml:message>Unknown dataset</oml:message>"
            self._send(412, f"<oml:error {NAMESPACE}>{error}</oml:error>".encode())

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    def _send_arff(self, served: Served) -> None:
        if served.failures > 0:
            served.failures -= 1
            self._send(500, b"<html>Internal Server Error</html")
            return
        if served.delay:
            self.server.stopped.wait(served.delay)
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
def serve(served: Served) -> Iterator[Server]:
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
