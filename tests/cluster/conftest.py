"""Real clusters on this machine, one for each test module that asks for one."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from cluster import ray, slurm
from cluster.runs import MANY, Runs, stable_records


@pytest.fixture(scope="session")
def short_folder() -> Iterator[Path]:
    """A folder with a short path: sockets of munged and Ray may have about 100 characters."""
    with TemporaryDirectory(prefix="tb") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def at_home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The records of ``MANY`` on this machine."""
    results = tmp_path_factory.mktemp("home")
    done = Runs({}, "--jobs", "2").run(results, *MANY)
    assert done.returncode == 0, done.stderr
    return stable_records(results)


@pytest.fixture(scope="module")
def slurm_cluster(short_folder: Path, request: pytest.FixtureRequest) -> Iterator[slurm.SlurmCluster]:
    yield from _slurm(short_folder / request.node.name / "s", accounting=False)


@pytest.fixture(scope="module")
def slurm_with_accounting(short_folder: Path, request: pytest.FixtureRequest) -> Iterator[slurm.SlurmCluster]:
    yield from _slurm(short_folder / request.node.name / "a", accounting=True)


def _slurm(folder: Path, accounting: bool) -> Iterator[slurm.SlurmCluster]:
    absent = slurm.missing(accounting)
    if absent:
        pytest.skip(f"SLURM is not installed ({', '.join(absent)} not found): apt-get install slurm-wlm munge"
                    + (" slurmdbd mariadb-server" if accounting else ""))  # fmt: skip
    with slurm.SlurmCluster(folder, accounting) as cluster:
        yield cluster
    assert cluster.daemons.leftovers() == []


@pytest.fixture(scope="module")
def ray_cluster(short_folder: Path, request: pytest.FixtureRequest) -> Iterator[ray.RayCluster]:
    with ray.RayCluster(short_folder / request.node.name / "r") as cluster:
        yield cluster
    assert cluster.daemons.leftovers() == []
