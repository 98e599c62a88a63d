"""What a job changes in its process is noticed, named and put right, and no other job sees it."""

import gc
import locale
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import sklearn
import threadpoolctl
import torch
from harness import Bench

from tabbench.contracts import Limits
from tabbench.data.cache import cache_dir
from tabbench.results.store import Store
from tabbench.running import steps, tripwires
from tabbench.running.jobs import run_job
from tabbench.running.surroundings import ASPECTS, Surroundings

MISDEEDS: dict[str, Callable[[], object]] = {
    "torch's default dtype: torch.float32 became torch.float64": lambda: torch.set_default_dtype(torch.float64),
    "torch's default device: cpu became meta": lambda: torch.set_default_device("meta"),
    "torch's threads: 1 became 2": lambda: torch.set_num_threads(2),
    "torch's gradient mode: True became False": lambda: torch.set_grad_enabled(False),
    "torch's deterministic algorithms: (False, False) became (True, True)": lambda: torch.use_deterministic_algorithms(
        True, warn_only=True
    ),
    "torch's matmul precision: highest became medium": lambda: torch.set_float32_matmul_precision("medium"),
    "torch's cudnn flags: benchmark False became True": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "denormal numbers: True became False": lambda: torch.set_flush_denormal(True),
    "numpy's error state: invalid warn became raise": lambda: np.seterr(invalid="raise"),
    "scikit-learn's configuration: transform_output default became pandas": lambda: sklearn.set_config(
        transform_output="pandas"
    ),
    "environment variables: LEAKED None became yes": lambda: os.environ.update(LEAKED="yes"),
    "environment variables: HOME": lambda: os.environ.pop("HOME"),
    "working directory: ": lambda: os.chdir("/"),
    "locale: ": lambda: locale.setlocale(locale.LC_ALL, "C.UTF-8" if locale.setlocale(locale.LC_ALL) == "C" else "C"),
    "signal handlers: SIGUSR1": lambda: signal.signal(signal.SIGUSR1, lambda *_: None),
    "warnings as errors: ": lambda: warnings.simplefilter("error", ResourceWarning),
    "sys.path: ": lambda: sys.path.append("elsewhere"),
    "recursion limit: ": lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 7),
    "garbage collection: True became False": gc.disable,
    "socket timeout: None became 5": lambda: socket.setdefaulttimeout(5),
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    torch.set_num_threads(1)
    os.environ.setdefault("HOME", "home")
    with warnings.catch_warnings():
        yield


@pytest.mark.parametrize("change", MISDEEDS)
def test_a_change_is_named_and_put_right(change: str) -> None:
    before = Surroundings()
    MISDEEDS[change]()
    try:
        (found,) = before.changes()
        assert found.startswith(change)
    finally:
        assert len(before.put_right()) == 1
    assert before.changes() == []
    assert Surroundings()._before == before._before


def test_every_aspect_is_tried() -> None:
    tried = {change.partition(":")[0] for change in MISDEEDS} | {"threads of BLAS"}
    assert tried == {aspect.name for aspect in ASPECTS}


def test_threads_of_blas_are_put_right() -> None:
    """In a process of its own, whose BLAS has more than one thread to begin with."""
    code = (
        "import threadpoolctl, torch; from tabbench.running.surroundings import Surroundings; torch.set_num_threads(1);"
        "before = Surroundings(); threadpoolctl.threadpool_limits(1, 'blas');"
        "print(before.put_right(), before.changes())"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    if not any(pool["user_api"] == "blas" for pool in threadpoolctl.threadpool_info()) or os.cpu_count() == 1:
        pytest.skip("there is no BLAS with two threads here")
    assert "threads of BLAS" in done.stdout
    assert "2 became 1" in done.stdout
    assert done.stdout.strip().endswith("[]")


def test_a_deleted_working_directory_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = Surroundings()
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    (found,) = before.put_right()
    assert found.startswith("working directory: ")
    assert Path.cwd() == tmp_path


def test_filters_that_only_silence_are_put_back_without_a_word() -> None:
    before, filters = Surroundings(), list(warnings.filters)
    warnings.simplefilter("ignore", FutureWarning)
    assert before.put_right() == []
    assert list(warnings.filters) == filters


def test_nothing_is_said_of_a_thread_that_may_not_touch_signals() -> None:
    found: list[list[str]] = []
    thread = threading.Thread(target=lambda: found.append(Surroundings().put_right()))
    thread.start()
    thread.join()
    assert found == [[]]


@pytest.mark.slow
def test_a_leaking_job_is_flagged_and_the_next_one_in_line_is_as_if_alone(bench: Bench, tmp_path: Path) -> None:
    bench.run(ssl=["none"], seeds=3, set={"nearest": {"behave": {0: "leak", 1: "leak and fail"}}})
    records = {record.seed: record for record in bench.store.records()}
    assert records[0].flags == [tripwires.CHANGED_PROCESS]
    assert records[0].diagnostics is not None
    assert [change.partition(":")[0] for change in records[0].diagnostics["model"]["surroundings"]] == [
        "torch's default dtype",
        "numpy's error state",
        "environment variables",
        "working directory",
    ]
    assert (records[1].status, records[2].status) == ("failed", "ok")
    assert records[2].flags == []
    logs = list((bench.store.root / "logs").glob("worker-*.log"))
    assert len(logs) == 3, "each of the two that leaked was the last job of its worker"
    jobs = [step.to_job() for step in bench.plan(ssl=["none"], seeds=3).records]
    (job,) = [job for job in jobs if job.payload["seed"] == 2]
    alone = steps.do_job(job, Store(tmp_path / "alone"), Limits())
    assert alone["hashes"] == records[2].to_json()["hashes"]


def test_a_leak_of_pretraining_flags_what_is_trained_on_its_encoder(bench: Bench) -> None:
    flags: dict[str, list[str]] = {}
    for step in bench.plan(controls=["none"], set={"projection": {"behave": "leak"}}).steps.values():
        outcome = run_job(step.to_job(store=str(bench.store.root), cache=str(cache_dir())), Limits())
        assert outcome.status == "ok", outcome.traceback
        assert bool(outcome.changed) == (step.kind == "pretrain")
        flags[step.label] = outcome.result.get("flags", [])
    fitted = {label: found for label, found in flags.items() if "nearest" in label}
    assert sorted(fitted.values()) == [[], [tripwires.CHANGED_PROCESS]]
