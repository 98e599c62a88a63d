"""A run that is killed at any moment loses nothing that was finished, and does nothing twice.

The short form of ``benchmarks/faults.py``. Nothing here depends on how fast the machine is: a signal is sent when
something has happened, not after some seconds.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from harness import TOYS, Bench, InProcess, stable, written_records

from tabbench.results.record import Record
from tabbench.results.store import Store

KILLS = int(os.environ.get("TABBENCH_KILLS", "4"))
"""TABBENCH_KILLS=20 makes it a longer run with more kills."""
SEEDS = 2 * KILLS
RECORDS = 2 * SEEDS
ARGUMENTS = [
    "run", "--plugin", str(TOYS), "--ssl", "projection", "--model", "nearest", "--data", "wine", "--jobs", "2",
    "--seeds", str(SEEDS), "--set", "nearest.sleep=0.3", "--set", "projection.sleep=0.5", "--offline", "-q",
]  # fmt: skip
EXPERIMENT: dict[str, Any] = {"ssl": ["projection"], "data": ["wine"], "seeds": SEEDS}
Start = Callable[[Path], "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    drivers: list[subprocess.Popen[bytes]] = []

    def run(results: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "tabbench", *ARGUMENTS, "--results", str(results)]
        drivers.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return drivers[-1]

    yield run
    for driver in drivers:
        driver.kill()
        driver.wait()


def wait_until(condition: Callable[[], Any], seconds: float = 300) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


def workers_of(driver: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """All processes below a driver."""
    return psutil.Process(driver.pid).children(recursive=True)


def finished(results: Path) -> list[str]:
    """The keys of all finished records, as often as they were written."""
    files = [file.read_bytes() for file in sorted((results / "records").glob("*.jsonl"))]
    lines = [line for text in files for line in text.splitlines(keepends=True) if line.endswith(b"\n")]
    return [record["key"] for record in map(json.loads, lines) if record["status"] == "ok"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    bench = Bench(tmp_path_factory.mktemp("undisturbed") / "results")
    bench.run(executor=InProcess, **EXPERIMENT, set={"nearest": {"sleep": 0.3}, "projection": {"sleep": 0.5}})
    return bench.stable_records()


def test_kills_of_drivers_and_workers_leave_the_same_records(
    tmp_path: Path, start: Start, undisturbed: dict[str, object]
) -> None:
    """Each round kills when one more record is there than before, so that every kill hits a run at work.

    How many records there are by then depends on the machine: a slow one may have finished them all.
    """
    assert len(undisturbed) == RECORDS
    results = tmp_path / "results"
    choose = random.Random(os.environ.get("TABBENCH_KILL_SEED", "5"))
    for round_number in range(KILLS):
        before = len(finished(results))
        driver = start(results)
        wait_until(lambda: len(finished(results)) > before or driver.poll() is not None)  # noqa: B023 - runs at once
        assert driver.poll() is None, "it must not be over before the kill"
        if round_number % 2:
            choose.choice(workers_of(driver)).kill()
        time.sleep(choose.uniform(0.0, 0.3))
        driver.kill()
        driver.wait()
    assert start(results).wait(timeout=300) == 0
    assert stable(Store(results).records()) == undisturbed
    assert sorted(finished(results)) == sorted(undisturbed)


def test_two_runs_at_once_share_the_work(tmp_path: Path, start: Start, undisturbed: dict[str, object]) -> None:
    results = tmp_path / "results"
    drivers = [start(results) for _ in range(2)]
    assert [driver.wait(timeout=300) for driver in drivers] == [0, 0]
    assert stable([Record.from_json(line) for line in written_records(results)]) == undisturbed


def test_workers_end_when_their_driver_is_killed(tmp_path: Path, start: Start) -> None:
    driver = start(tmp_path / "results")
    wait_until(lambda: len(workers_of(driver)) >= 2)
    workers = workers_of(driver)
    driver.kill()
    driver.wait()
    _, alive = psutil.wait_procs(workers, timeout=5)
    assert not alive


def test_ctrl_c_ends_cleanly_and_the_next_run_goes_on(
    tmp_path: Path, start: Start, undisturbed: dict[str, object]
) -> None:
    results = tmp_path / "results"
    driver = start(results)
    wait_until(lambda: finished(results))
    workers = workers_of(driver)
    driver.send_signal(signal.SIGINT)
    time.sleep(0.05)
    driver.send_signal(signal.SIGINT)
    assert driver.wait(timeout=60) == 130
    _, alive = psutil.wait_procs(workers, timeout=5)
    assert not alive
    assert start(results).wait(timeout=300) == 0
    assert stable(Store(results).records()) == undisturbed
