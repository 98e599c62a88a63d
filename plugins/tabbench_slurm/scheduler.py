"""SLURM's commands, and what their answers mean for us."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabbench import Outcome, TabbenchError, UsageError

COMMAND_SECONDS = 60
"""Seconds to wait for an answer: a busy controller answers late, but it does answer."""
ALIVE = frozenset({"PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "REQUEUED", "RESIZING", "SIGNALING",
                   "STAGE_OUT", "STOPPED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})  # fmt: skip
LOST = {
    "CANCELLED": "was cancelled",
    "TIMEOUT": "reached its time limit (slurm.time)",
    "NODE_FAIL": "lost its node",
    "PREEMPTED": "was preempted",
    "BOOT_FAIL": "was on a node that failed to boot",
    "DEADLINE": "missed its deadline",
    "REVOKED": "was moved to another cluster",
    "COMPLETED": "ended without saying why",
}
"""States that are not the fault of the worker's job."""
REASONS = {
    "Resources": "no node is free",
    "Priority": "other jobs are ahead in the queue",
    "QOSMaxJobsPerUserLimit": "you have reached the job limit of the quality of service (QOS)",
    "AssocGrpCpuLimit": "your account has reached its CPU limit",
    "AssocMaxJobsLimit": "your account has reached its job limit",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition does not accept jobs",
    "PartitionNodeLimit": "the partition cannot provide what was requested",
    "PartitionTimeLimit": "slurm.time is longer than the partition allows",
    "ReqNodeNotAvail": "the nodes are reserved or down",
    "JobArrayTaskLimit": "the job array has reached its task limit",
    "BeginTime": "it was requeued a moment ago",
}
"""squeue's reasons for a waiting job, in words."""


@dataclass(frozen=True)
class State:
    """A SLURM job as the scheduler sees it."""

    name: str
    node: str = ""
    reason: str = ""
    code: str = ""
    """``EXIT:SIGNAL``, if it has ended."""

    @property
    def is_alive(self) -> bool:
        return self.name in ALIVE

    def outcome(self, job: str) -> Outcome:
        """How our job ended if its worker ended in this state."""
        if self.name == "OUT_OF_MEMORY":
            return Outcome("out_of_memory", error=f"SLURM job {job} used more memory than it requested")
        if self.name in LOST:
            return Outcome("lost", error=f"SLURM job {job} {LOST[self.name]}")
        return Outcome("killed", error=f"SLURM job {job} ended as {self.name} with exit code {self.code or 'unknown'}")


def explain(reason: str) -> str:
    """``Resources`` as "no node is free (Resources)"."""
    words = REASONS.get(reason.partition(",")[0])
    return f"{words} ({reason})" if words else reason


class Scheduler:
    """Queries all jobs at once."""

    def __init__(self) -> None:
        if shutil.which("sbatch") is None:
            raise UsageError("--executor slurm: sbatch was not found; log in to a node of a SLURM cluster")
        self.has_accounting = self._run("sacct", "--noheader", "--jobs=0")[0] == 0

    def submit(self, script: Path, *options: str) -> str:
        """Submit a script; returns the id of its job."""
        code, out, error = self._run("sbatch", "--parsable", *options, str(script))
        if code:
            message = "; ".join(line.removeprefix("sbatch: error: ") for line in error.splitlines() if line.strip())
            raise UsageError(f"sbatch refuses {script}: {message}")
        return out.strip().partition(";")[0]

    def cancel(self, jobs: Sequence[str]) -> None:
        if jobs:
            self._run("scancel", *jobs)

    def states(self, jobs: Iterable[str]) -> dict[str, State]:
        """The states of array tasks (``12_0``) that SLURM still knows."""
        wanted = set(jobs)
        arrays = ",".join(sorted({job.partition("_")[0] for job in wanted}))
        _, out, _ = self._run("squeue", "--noheader", "--array", "--states=all", f"--jobs={arrays}",
                              "--format=%i|%T|%N|%r")  # fmt: skip
        found = {}
        for line in out.splitlines():
            name, state, node, reason = line.split("|", 3)
            found[name] = State(state, node, reason)
        unclear = {job for job in wanted if job not in found or not found[job].is_alive}
        if unclear and self.has_accounting:
            found |= self._account(arrays, unclear)
        elif unclear:
            found |= {job: self._look_closely(job, found[job]) for job in unclear if job in found}
        return {job: state for job, state in found.items() if job in wanted}

    def _account(self, arrays: str, unclear: set[str]) -> dict[str, State]:
        _, out, _ = self._run("sacct", "--noheader", "--parsable2", "--allocations", "--array", f"--jobs={arrays}",
                              "--format=JobID,State,NodeList,ExitCode")  # fmt: skip
        found = {}
        for line in out.splitlines():
            name, state, node, code = line.split("|", 3)
            if name in unclear:
                found[name] = State(state.partition(" ")[0], node, code=code)  # "CANCELLED by 0"
        return {job: state for job, state in found.items() if not state.is_alive}

    def _look_closely(self, job: str, state: State) -> State:
        """Look up the exit code, which squeue does not give."""
        _, out, _ = self._run("scontrol", "--oneliner", "show", "job", job)
        code = next((word.partition("=")[2] for word in out.split() if word.startswith("ExitCode=")), "")
        return State(state.name, state.node, state.reason, code)

    def _run(self, *command: str) -> tuple[int, str, str]:
        # A detached driver is itself a SLURM job: its own settings must not become those of the jobs it submits.
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_"))}
        if "SLURM_CONF" in os.environ:
            clean["SLURM_CONF"] = os.environ["SLURM_CONF"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False, env=clean
            )
        except FileNotFoundError:
            return 127, "", f"{command[0]} is not installed"
        except subprocess.TimeoutExpired:
            if command[0] == "sbatch":
                raise TabbenchError(f"sbatch did not answer within {COMMAND_SECONDS} s") from None
            return 1, "", "timeout"
        return done.returncode, done.stdout, done.stderr
