"""Runs of tabbench on a cluster, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from harness import TOYS, stable

from tabbench.results.record import Record
from tabbench.results.store import Store

PATIENT = Path(__file__).parent / "patient.py"
MANY = ("--plugin", TOYS, "--ssl", "projection", "--model", "nearest", "--data", "wine,diabetes", "--seeds", "5")
"""24 jobs: two pretrainings, two encodings, twenty fits."""
RECORDS = 20
SECONDS = 400
"""No run of a test takes longer, and nothing is waited for longer, however busy the machine."""


class Runs:
    """Starts runs with the settings of one cluster; none is left at the end."""

    def __init__(self, variables: Mapping[str, str], *options: str | Path) -> None:
        self.variables, self.options = variables, options
        self.started: list[subprocess.Popen[str]] = []

    def start(self, results: Path, *arguments: str | Path) -> subprocess.Popen[str]:
        return self.command(["run", "--results", results, *arguments])

    def words(self, words: Sequence[str | Path]) -> list[str]:
        """A command line with the settings of the cluster."""
        return [sys.executable, "-P", "-m", "tabbench", *map(str, [words[0], "--offline", *self.options, *words[1:]])]

    def command(self, words: Sequence[str | Path]) -> subprocess.Popen[str]:
        """Start a command of tabbench that takes --executor and its settings."""
        process = subprocess.Popen(
            self.words(words),
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


def wait_for(condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
    """Wait until something is so; what it gave."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"not within {seconds:g} s: {what}")


def within(seconds: float) -> float:
    """What is promised for a machine that has time, as a limit for one that may be busy."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def is_gone(pid: int) -> bool:
    """Whether a process has ended, even if nobody has taken note of it yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def records(results: Path) -> list[Record]:
    return Store(results).records()


def stable_records(results: Path) -> dict[str, Any]:
    return stable(records(results))


def check_promises(
    executor: str, folder: Path, variables: Mapping[str, str], *settings: str
) -> subprocess.CompletedProcess[str]:
    """``tabbench plugins check``; ``folder`` is one that the nodes see."""
    sets = [word for setting in settings for word in ("--set", setting)]
    return subprocess.run(
        [sys.executable, "-P", "-m", "tabbench", "plugins", "check", executor, *sets],
        env={**os.environ, **variables}, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip


class Gated:
    """Pretrainings of four epochs, one for each table. After the second they wait until ``open`` is called."""

    def __init__(self, folder: Path, data: str = "wine") -> None:
        self.results, self.gate, self.path = folder / "results", folder / "gate", folder / "trace"
        sets = [f"patient.{name}" for name in ("epochs=4", "seconds=0.3", f"trace={self.path}", f"gate={self.gate}")]
        self.arguments: tuple[str | Path, ...] = (
            "--plugin", PATIENT, "--ssl", "patient", "--model", "linear", "--data", data, "--controls", "",
            *(word for setting in sets for word in ("--set", setting)),
        )  # fmt: skip

    def start(self, runs: Runs, *options: str | Path) -> subprocess.Popen[str]:
        self.process = runs.start(self.results, *self.arguments, *options)
        return self.process

    def wait(self, count: int = 1) -> list[tuple[int, str, int]]:
        """Wait until so many of them stand at the gate; the place and process of each, in the order of arrival."""

        def found() -> list[tuple[int, str, int]]:
            assert not self.process.poll(), self.process.communicate()[1]
            return self.there() if len(self.there()) >= count else []

        return list(wait_for(found, f"{count} pretraining(s) at the gate"))

    def there(self) -> list[tuple[int, str, int]]:
        """Those that have stood at the gate, dead or alive."""
        return [line for line in trace(self.path) if line[0] == 2]

    def open(self) -> None:
        self.gate.touch()

    def finish(self, runs: Runs) -> subprocess.CompletedProcess[str]:
        """Open the gate and let the run come to a good end."""
        self.open()
        done = runs.finish(self.process)
        assert done.returncode == 0, done.stderr
        assert {record.status for record in records(self.results)} == {"ok"}
        return done

    def starts(self) -> list[int]:
        """Of each start, the epoch that it started after."""
        return [epoch for epoch, _, _ in trace(self.path.with_name("trace.starts"))]


def trace(path: Path) -> list[tuple[int, str, int]]:
    """(epoch, node, process) of every line."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(epoch), node, int(pid)) for epoch, node, pid in (line.split() for line in lines)]
