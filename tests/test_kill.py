"""A run that is killed at any moment loses nothing that was finished, and does nothing twice."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from harness import TOYS, Bench, stable, written_records

from tabbench.store import Store

KILLS = int(os.environ.get("TABBENCH_KILLS", "4"))
"""TABBENCH_KILLS=20 makes it a longer run with more kills."""
SEEDS = max(4, KILLS)
RECORDS = 2 * 2 * SEEDS
ARGUMENTS = [
    "run", "--plugin", str(TOYS), "--ssl", "projection", "--model", "nearest", "--data", "wine,diabetes",
    "--seeds", str(SEEDS), "--set", "nearest.sleep=0.3", "--set", "projection.sleep=0.5", "--offline", "-q",
]  # fmt: skip
TIMES_TWO: dict[str, Any] = {"ssl": ["projection"], "data": ["wine", "diabetes"], "seeds": SEEDS}


def start(results: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "tabbench", *ARGUMENTS, "--results", str(results)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def kill_a_worker(driver: subprocess.Popen[bytes]) -> None:
    workers = psutil.Process(driver.pid).children()
    if workers:
        os.kill(random.choice(workers).pid, signal.SIGKILL)


def is_complete(results: Path) -> bool:
    finished = [record for record in Store(results).records() if record["status"] == "ok"]
    return len(finished) == RECORDS


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    bench = Bench(tmp_path_factory.mktemp("undisturbed") / "results")
    bench.run(**TIMES_TWO, set={"nearest": {"sleep": 0.3}, "projection": {"sleep": 0.5}})
    return bench.stable_records()


def test_kills_at_random_moments_leave_the_same_records(tmp_path: Path, undisturbed: dict[str, object]) -> None:
    assert len(undisturbed) == RECORDS
    results = tmp_path / "results"
    moments = random.Random(os.environ.get("TABBENCH_KILL_SEED", "5"))
    hits = 0
    for round_number in range(KILLS):
        driver = start(results)
        time.sleep(moments.uniform(0.5, 8.0))
        if driver.poll() is None and not is_complete(results):
            hits += 1
            if round_number % 2:
                kill_a_worker(driver)
                time.sleep(moments.uniform(0.1, 2.0))
        driver.kill()
        driver.wait(timeout=300)
    assert hits >= KILLS / 2, "most kills must hit a run that is under way"
    last = start(results)
    assert last.wait(timeout=300) == 0
    assert stable(Store(results).records()) == undisturbed
    finished = [record["key"] for record in written_records(results) if record["status"] == "ok"]
    assert len(finished) == len(set(finished)) == RECORDS


def test_two_runs_at_once_share_the_work(tmp_path: Path, undisturbed: dict[str, object]) -> None:
    results = tmp_path / "results"
    drivers = [start(results) for _ in range(2)]
    assert [driver.wait(timeout=120) for driver in drivers] == [0, 0]
    assert stable(written_records(results)) == undisturbed


def test_workers_end_when_their_driver_is_killed(tmp_path: Path) -> None:
    driver = start(tmp_path / "results")
    workers: list[psutil.Process] = []
    for _ in range(100):
        workers = psutil.Process(driver.pid).children()
        if len(workers) == 2:
            break
        time.sleep(0.1)
    time.sleep(1.0)
    driver.kill()
    driver.wait()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert len(workers) == 2
    assert not alive


def test_ctrl_c_ends_cleanly_and_the_next_run_goes_on(tmp_path: Path, undisturbed: dict[str, object]) -> None:
    results = tmp_path / "results"
    driver = start(results)
    while not list((results / "records").glob("*.jsonl")):
        time.sleep(0.1)
    workers = psutil.Process(driver.pid).children()
    driver.send_signal(signal.SIGINT)
    time.sleep(0.05)
    driver.send_signal(signal.SIGINT)
    assert driver.wait(timeout=30) == 130
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive
    assert start(results).wait(timeout=120) == 0
    assert stable(Store(results).records()) == undisturbed
