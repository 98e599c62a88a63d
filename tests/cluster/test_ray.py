"""The Ray executor on a real Ray cluster of two nodes."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cluster.ray import RayCluster, missing
from cluster.runs import MANY, RECORDS, Gated, Runs, check_promises, is_gone, records, stable_records, wait_for, within

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason="Ray is not installed: pip install tabbench-ssl[ray]"),
]


@pytest.fixture
def ray(ray_cluster: RayCluster) -> Iterator[Runs]:
    runs = Runs(ray_cluster.variables, "--executor", "ray", "--set", f"ray.address={ray_cluster.address}")
    yield runs
    runs.close()


def workers(results: Path) -> list[psutil.Process]:
    """Worker processes of a results folder, wherever they were started from."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "tabbench.running.worker" in words and any(str(results) in word for word in words):
            found.append(process)
    return found


def actor_of(worker: int) -> psutil.Process:
    """The actor that keeps a worker, with a keeper between them."""
    return next(parent for parent in psutil.Process(worker).parents() if "ray::" in " ".join(parent.cmdline()))


def test_records_are_those_of_a_local_run(ray: Runs, tmp_path: Path, at_home: dict[str, object]) -> None:
    done = ray.run(tmp_path, *MANY)
    assert done.returncode == 0, done.stderr
    assert "2 at a time" in done.stderr, "one per CPU of the cluster"
    assert len(at_home) == RECORDS
    assert stable_records(tmp_path) == at_home


def test_the_executor_keeps_its_promises(ray_cluster: RayCluster, tmp_path: Path) -> None:
    done = check_promises("ray", tmp_path, ray_cluster.variables, f"address={ray_cluster.address}")
    assert done.returncode == 0, done.stdout


def test_a_worker_that_is_killed_costs_nothing_but_time(ray: Runs, tmp_path: Path) -> None:
    gated = Gated(tmp_path)
    gated.start(ray)
    ((_, _, worker),) = gated.wait()
    psutil.Process(worker).kill()
    assert "killed, restarted" in gated.finish(ray).stderr
    assert gated.starts() == [0, 2], "it goes on from its checkpoint"


def test_a_pretraining_whose_actor_is_killed_goes_on_from_its_checkpoint(ray: Runs, tmp_path: Path) -> None:
    gated = Gated(tmp_path)
    gated.start(ray)
    ((_, _, worker),) = gated.wait()
    actor_of(worker).kill()
    wait_for(lambda: is_gone(worker), "the worker ends with its actor")
    assert "lost, restarted" in gated.finish(ray).stderr, "its place was taken away: that is not its fault"
    assert gated.starts() == [0, 2]


def test_a_node_that_joins_late_is_used_and_when_it_dies_its_job_runs_elsewhere(
    ray: Runs, ray_cluster: RayCluster, tmp_path: Path
) -> None:
    gated = Gated(tmp_path, "wine,diabetes,breast_cancer")
    gated.start(ray)
    first = gated.wait(2)
    name = ray_cluster.add_node()
    (late,) = {pid for _, _, pid in gated.wait(3)} - {pid for _, _, pid in first}
    raylet = ray_cluster.raylet(name)
    assert raylet in psutil.Process(late).parents(), "the third has its place on the new node"
    raylet.kill()
    wait_for(lambda: is_gone(late), "the worker ends with its node")
    assert "lost, restarted" in gated.finish(ray).stderr
    ray_cluster.kill_node(name)
    assert gated.starts() == [0, 0, 0, 2], "one went on elsewhere from its checkpoint"
    assert len(records(gated.results)) == 3


def test_ctrl_c_ends_it_cleanly_and_the_next_run_goes_on(ray: Runs, tmp_path: Path) -> None:
    gated = Gated(tmp_path, "wine,diabetes")
    run = gated.start(ray)
    gated.wait(2)
    run.send_signal(signal.SIGINT)
    assert ray.finish(run).returncode == 130
    wait_for(lambda: not workers(tmp_path), "no worker left", within(10))
    gated.start(ray)
    gated.finish(ray)
    assert gated.starts() == [0, 0, 2, 2]
    assert len(records(gated.results)) == 2


def test_nothing_is_left_ten_seconds_after_the_driver_was_killed(ray: Runs, tmp_path: Path) -> None:
    gated = Gated(tmp_path, "wine,diabetes")
    run = gated.start(ray)
    gated.wait(2)
    assert workers(tmp_path)
    run.kill()
    run.wait()
    wait_for(lambda: not workers(tmp_path), "no worker left", within(10))


def test_two_drivers_share_the_work(ray: Runs, tmp_path: Path, at_home: dict[str, object]) -> None:
    both = [ray.start(tmp_path, *MANY) for _ in range(2)]
    for run in both:
        done = ray.finish(run)
        assert done.returncode == 0, done.stderr
    assert stable_records(tmp_path) == at_home
    lines = [line for file in (tmp_path / "records").glob("*.jsonl") for line in file.read_text().splitlines()]
    assert len(lines) == RECORDS, "nothing was done twice"


def test_a_gpu_that_nobody_has_is_said_at_once(ray: Runs, tmp_path: Path) -> None:
    for options in (["--set", "ray.gpus=1"], ["--device", "cuda"], ["--set", "ray.pretrain.gpus=1"]):
        done = ray.run(tmp_path, *MANY, *options)
        assert done.returncode == 2
        assert "no node of the Ray cluster has that" in done.stderr
        assert not list((tmp_path / "logs").glob("ray-*")), "it is said before any worker is asked for"


def test_an_address_where_nobody_answers_is_one_line(ray_cluster: RayCluster, tmp_path: Path) -> None:
    runs = Runs(ray_cluster.variables, "--executor", "ray", "--set", "ray.address=127.0.0.1:1")
    done = runs.run(tmp_path, *MANY)
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
