"""The SLURM executor on a real SLURM of two nodes."""

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.runs import (
    MANY,
    RECORDS,
    SECONDS,
    Gated,
    Runs,
    check_promises,
    is_gone,
    records,
    stable_records,
    trace,
    wait_for,
    within,
)
from cluster.slurm import SlurmCluster
from harness import tabbench_process
from tabbench_slurm.scheduler import Scheduler

pytestmark = pytest.mark.slow
SETTINGS = ("--executor", "slurm", "--jobs", "2", "--set", "slurm.poll=1", "--set", "slurm.memory=1.5")


@pytest.fixture
def slurm(slurm_cluster: SlurmCluster) -> Iterator[Runs]:
    runs = Runs(slurm_cluster.variables, *SETTINGS)
    yield runs
    runs.close()
    wait_for(lambda: not slurm_cluster.queue(), "the queue is empty after each test")
    slurm_cluster.resume()


def scancel(cluster: SlurmCluster) -> None:
    """Cancel one of the jobs that run."""
    running = [job for job, state, _ in cluster.queue() if state == "RUNNING"]
    cluster.run("scancel", running[0])


def test_records_are_those_of_a_local_run(slurm: Runs, tmp_path: Path, at_home: dict[str, object]) -> None:
    done = slurm.run(tmp_path, *MANY)
    assert done.returncode == 0, done.stderr
    assert len(at_home) == RECORDS
    assert stable_records(tmp_path) == at_home
    for record in records(tmp_path):
        assert record.environment is not None
        assert record.environment.place["executor"] == "slurm"
        assert record.environment.place["scheduler_job"]


def test_the_executor_keeps_its_promises(slurm_cluster: SlurmCluster, tmp_path: Path) -> None:
    done = check_promises("slurm", tmp_path, slurm_cluster.variables, "poll=1", "memory=3")
    assert done.returncode == 0, done.stdout


def test_a_worker_that_is_cancelled_costs_nothing_but_time(
    slurm: Runs, slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    gated = Gated(tmp_path, "wine,diabetes")
    gated.start(slurm)
    gated.wait(2)
    scancel(slurm_cluster)
    wait_for(lambda: any(is_gone(pid) for _, _, pid in gated.there()), "one of the workers ends")
    assert gated.finish(slurm).stderr.count("lost, restarted") == 1, "not given to the same worker again"
    assert gated.starts() == [0, 0, 2], "it goes on from its checkpoint"
    assert len(records(gated.results)) == 2


def test_a_pretraining_goes_on_from_its_checkpoint_when_its_node_goes_down(
    slurm: Runs, slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    gated = Gated(tmp_path)
    gated.start(slurm)
    ((_, node, worker),) = gated.wait()
    slurm_cluster.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    wait_for(lambda: is_gone(worker), "the worker ends with its node")
    assert "lost, restarted" in gated.finish(slurm).stderr
    assert gated.starts() == [0, 2], "it goes on where it was"
    assert {place for _, place, pid in trace(gated.path) if pid != worker} == {"n1", "n2"} - {node}


def test_a_time_limit_shorter_than_a_pretraining_is_no_obstacle(
    slurm: Runs, slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    gated = Gated(tmp_path)
    gated.start(slurm, "--set", "slurm.time=1h", "--set", "slurm.notice=20")
    gated.wait()
    # The limit is shortened when the training has begun, so that a slow start of the worker does not matter. SLURM
    # looks every 30 s and gives notice one look ahead: what is left of the time must be longer than both together.
    ((job, _, _),) = slurm_cluster.queue()
    hours, minutes, seconds = (0, 0, *map(int, slurm_cluster.run("squeue", "-h", f"-j{job}", "-o%M").split(":")))[-3:]
    limit = hours * 60 + minutes + (1 if seconds <= 5 else 2)
    slurm_cluster.run("scontrol", "update", f"jobid={job}", f"timelimit={limit}")
    wait_for(lambda: len(gated.starts()) == 2, "a second worker, when the time of the first is up")
    told = gated.finish(slurm).stderr
    assert gated.starts() == [0, 2], "it goes on from its checkpoint"
    assert "lost, restarted" in told
    assert "time limit (slurm.time)" in told


def test_a_job_that_needs_more_memory_than_its_worker_has_is_out_of_memory(slurm: Runs, tmp_path: Path) -> None:
    gated = Gated(tmp_path)
    gated.open()
    done = slurm.finish(gated.start(slurm, "--set", "patient.eat=1600"))
    assert done.returncode == 3, done.stderr
    assert [record.status for record in records(gated.results)] == ["out_of_memory"]


def test_ctrl_c_leaves_no_job_in_the_queue(slurm: Runs, slurm_cluster: SlurmCluster, tmp_path: Path) -> None:
    gated = Gated(tmp_path)
    run = gated.start(slurm)
    gated.wait()
    run.send_signal(signal.SIGINT)
    assert slurm.finish(run).returncode == 130
    wait_for(lambda: not slurm_cluster.queue(), "an empty queue", within(15))


def test_workers_of_a_driver_that_was_killed_end_within_a_minute(
    slurm: Runs, slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    gated = Gated(tmp_path)
    run = gated.start(slurm)
    ((_, _, worker),) = gated.wait()
    run.kill()
    run.wait()
    wait_for(lambda: not slurm_cluster.queue(), "an empty queue", within(60))
    assert is_gone(worker)


def test_a_detached_driver_outlives_the_login(slurm: Runs, slurm_cluster: SlurmCluster, tmp_path: Path) -> None:
    results = tmp_path / "results"
    words = slurm.words(["run", "--results", results, *MANY, "--detach", "--set", "slurm.options=--overcommit"])
    terminal, end = os.openpty()
    login = subprocess.Popen(
        ["setsid", "--ctty", "bash", "-c", f"{shlex.join(words)} && echo back && sleep 3600"],
        stdin=end, stdout=end, stderr=end, env={**os.environ, **slurm_cluster.variables},
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # the tests may run below nohup
    )  # fmt: skip
    os.close(end)
    with os.fdopen(terminal, errors="replace") as lines:
        assert next(line for line in lines if line.startswith("driver: SLURM job "))
        assert next(line for line in lines if line.startswith("back"))
    assert login.wait(60) == -signal.SIGHUP, "the terminal is closed: the login is over"
    wait_for(lambda: len(records(results)) == RECORDS, "all records")
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
    alarm = threading.Timer(SECONDS, run.kill)
    alarm.start()
    said = next(line for line in iter(run.stderr.readline, "") if line.startswith("waiting: "))
    alarm.cancel()
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
    slurm_cluster: SlurmCluster,
    slurm_with_accounting: SlurmCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for cluster, has_accounting in ((slurm_cluster, False), (slurm_with_accounting, True)):
        monkeypatch.setenv("SLURM_CONF", cluster.variables["SLURM_CONF"])
        assert Scheduler().has_accounting == has_accounting
    runs = Runs(slurm_with_accounting.variables, *SETTINGS)
    gated = Gated(tmp_path, "wine,diabetes")
    try:
        gated.start(runs)
        gated.wait(2)
        scancel(slurm_with_accounting)
        wait_for(lambda: any(is_gone(pid) for _, _, pid in gated.there()), "one of the workers ends")
        assert "lost, restarted" in gated.finish(runs).stderr
        assert gated.starts() == [0, 0, 2]
        accounts = slurm_with_accounting.run("sacct", "--noheader", "--parsable2", "--allocations", "--format=State")
        assert "CANCELLED" in accounts
    finally:
        runs.close()
