"""The Ray executor on a real Ray cluster of two nodes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cluster.ray import RayCluster
from cluster.runs import MANY, PATIENT, RECORDS, Runs, records, stable_records, trace, wait_for

pytestmark = pytest.mark.slow
SLOWLY = ("--set", "nearest.sleep=1")


@pytest.fixture
def ray(ray_cluster: RayCluster) -> Iterator[Runs]:
    runs = Runs(ray_cluster.variables, "--executor", "ray", "--set", f"ray.address={ray_cluster.address}")
    yield runs
    runs.close()


@pytest.fixture(scope="module")
def at_home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The records of the same run on this machine."""
    results = tmp_path_factory.mktemp("home")
    done = Runs({}, "--jobs", "2").run(results, *MANY)
    assert done.returncode == 0, done.stderr
    return stable_records(results)


def workers(results: Path) -> list[psutil.Process]:
    """Worker processes of a results folder, wherever they were started from."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "tabbench.running.worker" in words and any(str(results) in word for word in words):
            found.append(process)
    return found


def patient(folder: Path, epochs: int, seconds: float) -> list[str | Path]:
    settings = [f"patient.epochs={epochs}", f"patient.seconds={seconds}", f"patient.trace={folder / 'trace'}"]
    sets = [word for setting in settings for word in ("--set", setting)]
    return ["--plugin", PATIENT, "--ssl", "patient", "--model", "linear", "--data", "wine", "--controls", "", *sets]


def test_records_are_those_of_a_local_run(ray: Runs, tmp_path: Path, at_home: dict[str, object]) -> None:
    done = ray.run(tmp_path, *MANY)
    assert done.returncode == 0, done.stderr
    assert "2 at a time" in done.stderr, "one per CPU of the cluster"
    assert len(at_home) == RECORDS
    assert stable_records(tmp_path) == at_home


def test_the_executor_keeps_its_promises(ray_cluster: RayCluster, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tabbench", "plugins", "check", "ray", "--set", f"address={ray_cluster.address}"],
        env={**os.environ, **ray_cluster.variables}, cwd=tmp_path, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_a_worker_that_is_killed_costs_nothing_but_time(ray: Runs, tmp_path: Path) -> None:
    run = ray.start(tmp_path, *MANY, *SLOWLY)
    wait_for(lambda: records(tmp_path), "a first record")
    workers(tmp_path)[0].kill()
    done = ray.finish(run)
    assert done.returncode == 0, done.stderr
    assert [record.status for record in records(tmp_path)] == ["ok"] * RECORDS


def test_jobs_of_a_node_that_dies_run_elsewhere(ray: Runs, ray_cluster: RayCluster, tmp_path: Path) -> None:
    name = ray_cluster.add_node()
    ray_cluster.wait_for_nodes(3)
    run = ray.start(tmp_path, *MANY, *SLOWLY, "--jobs", "3")
    wait_for(lambda: len(workers(tmp_path)) == 3 and records(tmp_path), "three workers at work")
    ray_cluster.raylet(name).kill()
    done = ray.finish(run)
    ray_cluster.kill_node(name)
    assert done.returncode == 0, done.stderr
    assert [record.status for record in records(tmp_path)] == ["ok"] * RECORDS


def test_a_pretraining_goes_on_from_its_checkpoint_on_another_node(
    ray: Runs, ray_cluster: RayCluster, tmp_path: Path
) -> None:
    run = ray.start(tmp_path / "results", *patient(tmp_path, 8, 1.0))
    (_, _, pid) = wait_for(lambda: len(trace(tmp_path / "trace")) >= 3 and trace(tmp_path / "trace"), "epochs")[0]
    psutil.Process(pid).parent().kill()  # type: ignore[union-attr] # the actor: the worker dies with it
    done = ray.finish(run)
    assert done.returncode == 0, done.stderr
    epochs = [epoch for epoch, _, _ in trace(tmp_path / "trace")]
    assert epochs[-1] == 8
    assert len(epochs) <= 9, "at most one epoch is trained twice"
    assert len({pid for _, _, pid in trace(tmp_path / "trace")}) == 2


def test_ctrl_c_ends_it_cleanly_and_the_next_run_goes_on(ray: Runs, tmp_path: Path) -> None:
    run = ray.start(tmp_path, *MANY, *SLOWLY)
    wait_for(lambda: records(tmp_path), "a first record")
    run.send_signal(signal.SIGINT)
    assert ray.finish(run).returncode == 130
    wait_for(lambda: not workers(tmp_path), "no worker left", 10)
    done = ray.run(tmp_path, *MANY, *SLOWLY)
    assert done.returncode == 0, done.stderr
    assert len(records(tmp_path)) == RECORDS


def test_nothing_is_left_ten_seconds_after_the_driver_was_killed(ray: Runs, tmp_path: Path) -> None:
    run = ray.start(tmp_path, *MANY, *SLOWLY)
    wait_for(lambda: records(tmp_path), "a first record")
    assert workers(tmp_path)
    run.kill()
    run.wait()
    wait_for(lambda: not workers(tmp_path), "no worker left", 10)


def test_two_drivers_share_the_work(ray: Runs, tmp_path: Path, at_home: dict[str, object]) -> None:
    both = [ray.start(tmp_path, *MANY) for _ in range(2)]
    for run in both:
        done = ray.finish(run)
        assert done.returncode == 0, done.stderr
    assert stable_records(tmp_path) == at_home
    lines = [line for file in (tmp_path / "records").glob("*.jsonl") for line in file.read_text().splitlines()]
    assert len(lines) == RECORDS, "nothing was done twice"


def test_a_node_that_joins_late_is_used(ray: Runs, ray_cluster: RayCluster, tmp_path: Path) -> None:
    run = ray.start(tmp_path, *MANY, "--set", "nearest.sleep=4")
    wait_for(lambda: len(workers(tmp_path)) == 2, "two workers")
    name = ray_cluster.add_node()
    wait_for(lambda: len(workers(tmp_path)) == 3, "a third worker", 60)
    done = ray.finish(run)
    ray_cluster.kill_node(name)
    assert done.returncode == 0, done.stderr


def test_a_gpu_that_nobody_has_is_said_at_once(ray: Runs, tmp_path: Path) -> None:
    for options in (["--set", "ray.gpus=1"], ["--device", "cuda"], ["--set", "ray.pretrain.gpus=1"]):
        started = time.monotonic()
        done = ray.run(tmp_path, *MANY, *options)
        assert done.returncode == 2
        assert "no node of the Ray cluster has that" in done.stderr
        assert time.monotonic() - started < 30


def test_an_address_where_nobody_answers_is_one_line(ray: Runs, tmp_path: Path) -> None:
    done = ray.run(tmp_path, *MANY, "--set", "ray.address=127.0.0.1:1")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("tabbench: --set ray.address=127.0.0.1:1: no answer")


def test_a_results_folder_that_a_node_does_not_see_is_named(ray_cluster: RayCluster, tmp_path: Path) -> None:
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("hiding a folder from a node needs a mount namespace, which this system does not allow")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    with RayCluster(ray_cluster.folder.parent / "blind", nodes=1, hide=hidden) as blind:
        runs = Runs(blind.variables, "--executor", "ray", "--set", f"ray.address={blind.address}")
        done = runs.run(hidden / "results", *MANY)
    assert done.returncode == 2, done.stderr
    assert f"the results folder {hidden / 'results'} is not visible from node" in done.stderr


def test_a_local_ray_is_started_for_who_names_no_address(tmp_path: Path, at_home: dict[str, object]) -> None:
    runs = Runs({}, "--executor", "ray", "--jobs", "2")
    done = runs.run(tmp_path, *MANY)
    assert done.returncode == 0, done.stderr
    assert stable_records(tmp_path) == at_home
