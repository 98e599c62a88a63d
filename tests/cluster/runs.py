"""Runs of tabbench on a cluster, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness import TOYS, stable

from tabbench.results.record import Record
from tabbench.results.store import Store

PATIENT = Path(__file__).parent / "patient.py"
MANY = ("--plugin", TOYS, "--ssl", "projection", "--model", "nearest", "--data", "wine,diabetes", "--seeds", "5")
"""24 jobs: two pretrainings, two encodings, twenty fits."""
RECORDS = 20
SECONDS = 180
"""No run of a test takes longer."""


class Runs:
    """Starts runs with the settings of one cluster; none is left at the end."""

    def __init__(self, variables: Mapping[str, str], *options: str | Path) -> None:
        self.variables, self.options = variables, options
        self.started: list[subprocess.Popen[str]] = []

    def start(self, results: Path, *arguments: str | Path) -> subprocess.Popen[str]:
        words = ["run", "--offline", "--results", results, *self.options, *arguments]
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tabbench", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.variables},
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def run(self, results: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return self.finish(self.start(results, *arguments))

    def finish(self, process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
        out, error = process.communicate(timeout=SECONDS)
        return subprocess.CompletedProcess(process.args, process.returncode, out, error)

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=30)


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Wait until something is so; what it gave."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"not within {seconds:g} s: {what}")


def records(results: Path) -> list[Record]:
    return Store(results).records()


def stable_records(results: Path) -> dict[str, Any]:
    return stable(records(results))


def trace(path: Path) -> list[tuple[int, str, int]]:
    """(epoch, node, process) of every epoch that was trained."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(epoch), node, int(pid)) for epoch, node, pid in (line.split() for line in lines)]
