"""The SLURM executor on a real SLURM of two nodes."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cluster.runs import MANY, PATIENT, RECORDS, Gated, Runs, records, stable_records, trace, wait_for
from cluster.slurm import SlurmCluster
from harness import tabbench_process

pytestmark = pytest.mark.slow
SETTINGS = ("--executor", "slurm", "--jobs", "2", "--set", "slurm.poll=1", "--set", "slurm.memory=1.5")


@pytest.fixture
def slurm(slurm_cluster: SlurmCluster) -> Iterator[Runs]:
    runs = Runs(slurm_cluster.variables, *SETTINGS)
    yield runs
    runs.close()
    wait_for(lambda: not slurm_cluster.queue(), "the queue is empty after each test", 60)
    slurm_cluster.resume()


@pytest.fixture(scope="module")
def at_home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The records of the same run on this machine."""
    results = tmp_path_factory.mktemp("home")
    done = Runs({}, "--jobs", "2").run(results, *MANY)
    assert done.returncode == 0, done.stderr
    return stable_records(results)


def patient(folder: Path, epochs: int, seconds: float, *more: str) -> list[str | Path]:
    """One long pretraining, then one record."""
    settings = [f"patient.epochs={epochs}", f"patient.seconds={seconds}", f"patient.trace={folder / 'trace'}"]
    sets = [word for setting in (*settings, *more) for word in ("--set", setting)]
    return ["--plugin", PATIENT, "--ssl", "patient", "--model", "linear", "--data", "wine", "--controls", "", *sets]


def one_record(results: Path) -> str:
    (record,) = records(results)
    return record.status


def test_records_are_those_of_a_local_run(slurm: Runs, tmp_path: Path, at_home: dict[str, object]) -> None:
    done = slurm.run(tmp_path, *MANY)
    assert done.returncode == 0, done.stderr
    assert len(at_home) == RECORDS
    assert stable_records(tmp_path) == at_home
    for record in records(tmp_path):
        assert record.environment is not None
        assert record.environment.place["executor"] == "slurm"
        assert record.environment.place["scheduler_job"]


def test_a_worker_that_is_cancelled_costs_nothing_but_time(
    slurm: Runs, slurm_cluster: SlurmCluster, tmp_path: Path, at_home: dict[str, object]
) -> None:
    run = slurm.start(tmp_path, *MANY, "--set", "nearest.sleep=0.5")
    wait_for(lambda: records(tmp_path), "a first record")
    running = [job for job, state, _ in slurm_cluster.queue() if state == "RUNNING"]
    slurm_cluster.run("scancel", running[0])
    done = slurm.finish(run)
    assert done.returncode == 0, done.stderr
    assert len(records(tmp_path)) == RECORDS


def test_a_pretraining_goes_on_from_its_checkpoint_when_its_node_goes_down(
    slurm: Runs, slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    run = slurm.start(tmp_path / "results", *patient(tmp_path, epochs=12, seconds=1.0))
    wait_for(lambda: len(trace(tmp_path / "trace")) >= 3, "three epochs")
    node = trace(tmp_path / "trace")[0][1]
    slurm_cluster.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    done = slurm.finish(run)
    slurm_cluster.resume()
    assert done.returncode == 0, done.stderr
    assert one_record(tmp_path / "results") == "ok"
    found = trace(tmp_path / "trace")
    there = [(epoch, place) for epoch, place, _ in found]
    moved = next(index for index, (_, place) in enumerate(there) if place != node)
    assert there[moved][0] in (there[moved - 1][0], there[moved - 1][0] + 1), "it goes on where it was"
    assert [epoch for epoch, _ in there][-1] == 12


def test_a_time_limit_shorter_than_a_pretraining_is_no_obstacle(
    slurm: Runs, slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    gated = Gated(tmp_path)
    run = gated.start(slurm, "--set", "slurm.time=1h", "--set", "slurm.notice=20")
    gated.wait()
    # The limit is shortened when the training has begun, so that a slow start of the worker does not matter.
    ((job, _, _),) = slurm_cluster.queue()
    minutes = int(slurm_cluster.run("squeue", "--noheader", f"--jobs={job}", "--format=%M").split(":")[-2])
    slurm_cluster.run("scontrol", "update", f"jobid={job}", f"timelimit={minutes + 1}")
    wait_for(lambda: len(gated.starts()) == 2, "a second worker, when the time of the first is up")
    gated.open()
    done = slurm.finish(run)
    assert done.returncode == 0, done.stderr
    assert one_record(gated.results) == "ok"
    assert gated.starts() == [0, 2], "it goes on from its checkpoint"
    assert "lost, restarted" in done.stderr
    assert "time limit (slurm.time)" in done.stderr


def test_a_job_that_needs_more_memory_than_its_worker_has_is_out_of_memory(slurm: Runs, tmp_path: Path) -> None:
    done = slurm.run(tmp_path / "results", *patient(tmp_path, 5, 0.2, "patient.eat=1600"))
    assert done.returncode == 3, done.stderr
    assert one_record(tmp_path / "results") == "out_of_memory"


def test_ctrl_c_leaves_no_job_in_the_queue(slurm: Runs, slurm_cluster: SlurmCluster, tmp_path: Path) -> None:
    run = slurm.start(tmp_path / "results", *patient(tmp_path, 100, 1.0))
    wait_for(lambda: trace(tmp_path / "trace"), "an epoch")
    run.send_signal(signal.SIGINT)
    assert slurm.finish(run).returncode == 130
    wait_for(lambda: not slurm_cluster.queue(), "an empty queue", 15)


def test_workers_of_a_driver_that_was_killed_end_within_a_minute(
    slurm: Runs, slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    run = slurm.start(tmp_path / "results", *patient(tmp_path, 200, 1.0))
    (_, _, worker) = wait_for(lambda: trace(tmp_path / "trace"), "an epoch")[0]
    run.kill()
    run.wait()
    killed = time.monotonic()
    wait_for(lambda: not slurm_cluster.queue(), "an empty queue", 60)
    assert not psutil.pid_exists(worker)
    assert time.monotonic() - killed < 60


def test_a_detached_driver_outlives_the_login(slurm: Runs, slurm_cluster: SlurmCluster, tmp_path: Path) -> None:
    results = tmp_path / "results"
    login = slurm.start(results, *MANY, "--detach", "--set", "slurm.options=--overcommit")
    done = slurm.finish(login)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("driver: SLURM job ")
    os.killpg(login.pid, signal.SIGHUP) if psutil.pid_exists(login.pid) else None
    wait_for(lambda: len(records(results)) == RECORDS, "all records", 150)
    told = tabbench_process("status", "--results", results)
    assert "--executor slurm" in told.stdout


def test_a_partition_that_takes_no_jobs_is_said_in_words(slurm: Runs, tmp_path: Path) -> None:
    done = slurm.run(tmp_path, *MANY, "--set", "slurm.partition=nowhere")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("tabbench: sbatch refuses ")
    assert "invalid partition" in done.stderr.lower()


def test_a_queue_that_does_not_move_says_why(slurm: Runs, slurm_cluster: SlurmCluster, tmp_path: Path) -> None:
    run = slurm.start(tmp_path, *MANY, "--set", "slurm.partition=closed")
    assert run.stderr is not None
    until = time.monotonic() + 90
    lines = iter(run.stderr.readline, "")
    said = next(line for line in lines if line.startswith("waiting: ") or time.monotonic() > until)
    assert said == "waiting: the partition is down (PartitionDown)\n"
    run.send_signal(signal.SIGINT)
    assert slurm.finish(run).returncode == 130


def test_a_dry_run_prints_the_script(slurm: Runs, tmp_path: Path) -> None:
    done = slurm.run(tmp_path / "results", *MANY, "--dry-run", "--set", "slurm.pretrain.gpus=1", "--set",
                     "slurm.time=4h", "--set", "slurm.setup=module load cuda")  # fmt: skip
    assert done.returncode == 0, done.stderr
    pretrain, others = done.stdout.index("workers for pretrain"), done.stdout.index("workers for all other jobs")
    assert "#SBATCH --gpus-per-node=1" in done.stdout[pretrain:]
    assert "#SBATCH --gpus-per-node=1" not in done.stdout[others:pretrain]
    assert "#SBATCH --time=240" in done.stdout
    assert "\nmodule load cuda\n" in done.stdout
    assert f"exec {sys.executable} " in done.stdout
    assert not (tmp_path / "results").exists()


def test_states_come_from_accounting_where_there_is_any(
    slurm_with_accounting: SlurmCluster, tmp_path: Path, at_home: dict[str, object]
) -> None:
    runs = Runs(slurm_with_accounting.variables, *SETTINGS)
    try:
        run = runs.start(tmp_path, *MANY, "--set", "nearest.sleep=0.5")
        wait_for(lambda: records(tmp_path), "a first record")
        running = [job for job, state, _ in slurm_with_accounting.queue() if state == "RUNNING"]
        slurm_with_accounting.run("scancel", running[0])
        done = runs.finish(run)
        assert done.returncode == 0, done.stderr
        assert len(records(tmp_path)) == RECORDS
        accounts = slurm_with_accounting.run("sacct", "--noheader", "--parsable2", "--allocations", "--format=State")
        assert "CANCELLED" in accounts
    finally:
        runs.close()
