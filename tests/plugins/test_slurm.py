"""The SLURM executor without a SLURM: settings, scripts, states, messages. tests/cluster has the real thing."""

from pathlib import Path
from typing import Any

import pytest
from tabbench_slurm.config import SlurmConfig
from tabbench_slurm.executor import SlurmExecutor
from tabbench_slurm.mailbox import BEAT_LOST, Outbox, Pulse, receive
from tabbench_slurm.scheduler import Scheduler, State, explain
from tabbench_slurm.script import driver_script, worker_script

from tabbench import Limits, Site, UsageError
from tabbench.registry import make_registry
from tabbench.running.executors import make_config


def settings(**given: Any) -> SlurmConfig:
    registry = make_registry()
    config = make_config(registry, registry.find("executor", "slurm"), given)
    assert isinstance(config, SlurmConfig)
    return config


@pytest.mark.parametrize(
    "given, seconds",
    [("4h", 14400), ("90m", 5400), ("1.5h", 5400), ("02:30:00", 9000), ("1-12:00:00", 129600), (600, 600)],
)
def test_times_are_read_as_people_write_them(given: str | int, seconds: int) -> None:
    assert settings(time=given).time == seconds


@pytest.mark.parametrize("given", ["0", "0m", 0, 30, "soon"])
def test_a_time_that_would_wait_for_ever_is_refused(given: str | int) -> None:
    with pytest.raises(UsageError, match=r"slurm\.time"):
        settings(time=given)


def test_a_kind_of_job_has_resources_of_its_own() -> None:
    config = settings(**{"memory": 4, "time": "1h", "pretrain.gpus": 1, "pretrain.time": "8h", "fit.memory": 8})
    scripts = {kind: worker_script(config.for_kind(kind), Path("/r"), Limits(), kind) for kind in ("pretrain", "fit")}
    assert "#SBATCH --gpus-per-node=1\n" in scripts["pretrain"]
    assert "#SBATCH --time=480\n" in scripts["pretrain"]
    assert "#SBATCH --mem=4096M\n" in scripts["pretrain"]
    assert "--gpus" not in scripts["fit"]
    assert "#SBATCH --time=60\n" in scripts["fit"]
    assert "#SBATCH --mem=8192M\n" in scripts["fit"]


def test_a_worker_on_a_gpu_asks_for_one() -> None:
    assert "#SBATCH --gpus-per-node=1\n" in worker_script(settings(), Path("/r"), Limits(device="cuda"), "worker")


def test_a_driver_that_was_sent_away_asks_for_no_gpu_and_is_queued_again() -> None:
    config = settings(gpus=2, memory=64, partition="gpu", options="--constraint=v100 --exclusive")
    script = driver_script(config, Path("/r"), ["tabbench", "run", "it's.toml"], Path("/projects/my project"))
    assert "--gpus" not in script
    assert "--mem" not in script
    assert "#SBATCH --partition=gpu\n" in script
    assert "#SBATCH --exclusive\n" in script
    assert "cd '/projects/my project' || exit 67\n" in script
    assert """tabbench run 'it'"'"'s.toml' &\n""" in script
    assert "scontrol requeue $SLURM_JOB_ID" in script


@pytest.mark.parametrize(
    "state, status, words",
    [
        ("CANCELLED", "lost", "was cancelled"),
        ("TIMEOUT", "lost", "reached its time limit"),
        ("NODE_FAIL", "lost", "lost its node"),
        ("PREEMPTED", "lost", "was preempted"),
        ("OUT_OF_MEMORY", "out_of_memory", "used more memory"),
        ("FAILED", "killed", "ended as FAILED with exit code 1:0"),
    ],
)
def test_states_become_ends_of_jobs(state: str, status: str, words: str) -> None:
    outcome = State(state, "n1", code="1:0").outcome("12_0")
    assert outcome.status == status
    assert outcome.error.startswith("SLURM job 12_0 ")
    assert words in outcome.error


def test_a_reason_is_put_in_words() -> None:
    assert explain("Resources") == "no node is free (Resources)"
    assert explain("ReqNodeNotAvail, UnavailableNodes:n1").startswith("the nodes are reserved or down (ReqNode")
    assert explain("SomethingNew") == "SomethingNew"


def test_messages_come_once_in_order_and_whole(tmp_path: Path) -> None:
    first, second = Outbox(tmp_path, "12_0."), Outbox(tmp_path, "12_1.")
    first.send([{"a": 1}, {"a": 2}])
    second.send([{"b": 1}])
    first.send([{"a": 3}])
    (tmp_path / ".draft").write_text('{"half": ')
    assert receive(tmp_path) == [("12_0", {"a": 1}), ("12_0", {"a": 2}), ("12_0", {"a": 3}), ("12_1", {"b": 1})]
    assert receive(tmp_path) == []
    assert receive(tmp_path / "nowhere") == []


def test_a_driver_is_dead_when_its_heart_has_stood_still(tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    beat.write_text("1")
    pulse = Pulse(beat, 0.0)
    assert not pulse.is_lost(1.0)
    assert not pulse.is_lost(BEAT_LOST)
    beat.write_text("2")
    assert not pulse.is_lost(BEAT_LOST + 2)
    assert not pulse.is_lost(2 * BEAT_LOST)
    assert pulse.is_lost(2 * BEAT_LOST + 3)


def test_without_slurm_it_says_so_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="--executor slurm: sbatch was not found"):
        Scheduler()
    with pytest.raises(UsageError):
        SlurmExecutor(Site(tmp_path / "results", tmp_path))
    assert not (tmp_path / "results").exists()
