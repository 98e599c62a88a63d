"""The shell scripts that are submitted."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tabbench import Limits
from tabbench_slurm.config import SlurmConfig

NOT_VISIBLE = 67
"""Exit code of a worker that does not see the results folder."""


def worker_script(config: SlurmConfig, folder: Path, limits: Limits, name: str) -> str:
    """The script of an array of workers. ``folder`` is the run's folder, inside the results folder."""
    if limits.device.startswith("cuda") and not config.gpus:
        config = config.model_copy(update={"gpus": 1})
    options = [
        f"--job-name=tabbench-{name}",
        f"--output={folder}/logs/%A_%a.log",
        f"--time={_minutes(config.time)}",
        f"--signal=B:USR1@{config.notice}",
        "--no-requeue",  # the driver decides whether a worker is still needed
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={config.cpus or limits.threads}",
        *_resources(config),
    ]
    agent = [
        config.python or sys.executable,
        "-P",
        "-m",
        "tabbench_slurm.agent",
        ".",
        str(config.time),
        str(config.notice),
    ]
    return "\n".join([
        "#!/bin/bash",
        *(f"#SBATCH {option}" for option in options),
        *([config.setup] if config.setup else []),
        f"cd {shlex.quote(str(folder))} || exit {NOT_VISIBLE}",
        f"exec {shlex.join(agent)}",
        "",
    ])  # fmt: skip


def driver_script(config: SlurmConfig, folder: Path, command: list[str], directory: Path) -> str:
    """The script of a driver that outlives the login. Near the end of its time it requeues itself and resumes."""
    options = [
        "--job-name=tabbench-driver",
        f"--output={folder}/driver-%j.log",
        "--open-mode=append",
        f"--time={_minutes(config.driver_time)}",
        f"--signal=B:USR1@{config.notice}",
        "--requeue",
        "--nodes=1",
        "--ntasks=1",
        *(option for option in _resources(config) if not option.startswith(("--gpus", "--mem"))),
    ]
    return "\n".join([
        "#!/bin/bash",
        *(f"#SBATCH {option}" for option in options),
        *([config.setup] if config.setup else []),
        f"cd {shlex.quote(str(directory))} || exit {NOT_VISIBLE}",
        f"{shlex.join(command)} &",
        "driver=$!",
        "again() { kill -TERM $driver; wait $driver; scontrol requeue $SLURM_JOB_ID; exit 0; }",
        "trap again USR1",
        "trap 'kill -TERM $driver' TERM",
        "wait $driver; code=$?",
        "while kill -0 $driver 2>/dev/null; do wait $driver; code=$?; done",  # a signal ends wait, not the driver
        "exit $code",
        "",
    ])  # fmt: skip


def _resources(config: SlurmConfig) -> list[str]:
    wanted = {
        "--partition": config.partition,
        "--account": config.account,
        "--qos": config.qos,
        "--mem": None if config.memory is None else f"{round(config.memory * 1024)}M",
        "--gpus-per-node": config.gpus or None,
    }
    return [f"{option}={value}" for option, value in wanted.items() if value is not None] + list(config.options)


def _minutes(seconds: int) -> int:
    """Seconds in minutes, SLURM's unit, rounded up: 0 would mean no limit."""
    return max(1, -(-seconds // 60))
