"""Fixtures of all tests: a cache of their own, and a folder for experiments with toy plugins."""

import os

# Before torch and numpy are loaded, which read this once: several test processes with a thread for each core spin.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

from pathlib import Path

import pytest
from harness import Bench
from hypothesis import HealthCheck, settings

# A busy machine must not fail a test: examples may take their time.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
CACHE: dict[str, str] = {}


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads or writes the user's cache; all tests of a process share one."""
    os.environ["TABBENCH_CACHE"] = CACHE["folder"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def _same_cache(_own_cache: None) -> None:
    """A job that runs in this process sets the variable, and nobody puts it back."""
    os.environ["TABBENCH_CACHE"] = CACHE["folder"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "results")


@pytest.fixture(scope="session")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results: none and projection, two seeds each, and a failure."""
    folder = tmp_path_factory.mktemp("theirs") / "results"
    bench = Bench(folder, inline=True)
    bench.run(seeds=2)
    bench.run(ssl=["none"], seeds=1, set={"nearest": {"behave": {"0": "fail"}}})
    bench.store.save_experiment({"data": ["wine"], "categorical": [], "ssl": ["projection"], "model": ["nearest"]})
    return folder
