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
from harness import TOYS, Bench, stable, written_records

from tabbench.results.record import Record
from tabbench.results.store import Store

ROUNDS = int(os.environ.get("TABBENCH_KILLS", "1"))
"""``tox -e processes`` kills a run four times, in three ways."""
SEEDS = ROUNDS
SLEEPS = {"nearest": {"sleep": 0.1}, "projection": {"sleep": 0.1}}
TUNED: dict[str, Any] = {"seeds": SEEDS, "trials": 5, "ssl_trials": 5, "set": SLEEPS}
PLAIN: dict[str, Any] = {"seeds": 4, "set": SLEEPS}
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    drivers: list[subprocess.Popen[bytes]] = []

    def run(results: Path, experiment: dict[str, Any], jobs: int) -> subprocess.Popen[bytes]:
        words = [f"--{name.replace('_', '-')}={value}" for name, value in experiment.items() if name != "set"]
        words += [f"--set={name}.sleep={settings['sleep']}" for name, settings in experiment["set"].items()]
        what = ["--plugin", str(TOYS), "--ssl=projection", "--model=nearest", "--data=wine", "--offline", *words]
        command = [sys.executable, "-P", "-m", "tabbench", "run", *what, "-q", f"--jobs={jobs}", f"--results={results}"]
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
    return [record["key"] for record in map(json.loads, lines) if record["status"] in ("ok", "pruned")]


def undisturbed(folder: Path, experiment: dict[str, Any]) -> dict[str, Any]:
    """The records of the same experiment if nothing happens to it."""
    bench = Bench(folder, inline=True)
    bench.run(ssl=["projection"], data=["wine"], **experiment)
    return bench.stable_records()


def assert_ended(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=30)
    assert not alive


def test_a_run_that_is_killed_again_and_again_leaves_the_same_records(tmp_path: Path, start: Start) -> None:
    """Each round ends a run when one more record is there than before, so that a run at work is hit.

    Rounds hit studies as well as results. How many records there are by then depends on the machine: a slow one may
    have finished them all.
    """
    results = tmp_path / "results"
    choose = random.Random(os.environ.get("TABBENCH_KILL_SEED", "5"))
    for number in range(ROUNDS):
        before = len(finished(results))
        driver = start(results, TUNED, jobs=2)
        wait_until(lambda: len(finished(results)) > before or driver.poll() is not None)  # noqa: B023 - runs at once
        assert driver.poll() is None, "it must not be over before the kill"
        workers = workers_of(driver)
        if number % 3 == 1:
            choose.choice(workers).kill()
        time.sleep(choose.uniform(0.0, 0.3))
        if number % 3 == 2:  # Ctrl-C, twice
            driver.send_signal(signal.SIGINT)
            time.sleep(0.05)
            driver.send_signal(signal.SIGINT)
            assert driver.wait(timeout=60) == 130
        else:
            driver.kill()
            driver.wait()
        assert_ended(workers)
    assert start(results, TUNED, jobs=2).wait(timeout=300) == 0
    expected = undisturbed(tmp_path / "undisturbed", TUNED)
    assert stable(Store(results).records()) == expected
    assert sorted(finished(results)) == sorted(expected)


def test_two_runs_at_once_share_the_work(tmp_path: Path, start: Start) -> None:
    results = tmp_path / "results"
    drivers = [start(results, PLAIN, jobs=1) for _ in range(2)]
    assert [driver.wait(timeout=300) for driver in drivers] == [0, 0]
    lines = [Record.from_json(line) for line in written_records(results)]
    assert stable(lines) == undisturbed(tmp_path / "undisturbed", PLAIN)
