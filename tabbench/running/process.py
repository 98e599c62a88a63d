"""A worker process on this machine and its current job. Limits are enforced here.

Used wherever a local warm worker is needed: the pool of the local executor, a Ray actor, a SLURM job.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import psutil

from tabbench.contracts.executors import Limits
from tabbench.contracts.job import Job, Outcome
from tabbench.values import JsonObject

GRACE = 2.0
"""Seconds after the timeout before a job is killed, so that it can notice the deadline itself."""
TAIL = 4000
"""Characters to keep from the end of the log when a worker dies."""
JOIN = 2.0
"""Seconds to wait for threads and processes that should end at once."""
KEEPER = Path(__file__).with_name("keeper.py")
KERNELS = 128
"""Compiled products that oneDNN and PyTorch keep, each for one shape of bfloat16 matrices.

A step of T-JEPA needs fewer, and the next one often has other shapes. The usual 1,024 only fill memory, 0.7 MB each.
"""
Message = JsonObject
"""A line between driver and worker."""


def worker_command(log: Path, python: str = sys.executable, *, ignore_term: bool = False) -> list[str]:
    """The command that starts a worker.

    Args:
        log: where it writes what jobs print.
        python: the interpreter.
        ignore_term: for schedulers that send SIGTERM to every process of a job at once: the worker stays until it is
            told to leave, so that its job can write a checkpoint.
    """
    options = ["--ignore-term"] if ignore_term else []
    return [python, "-P", "-m", "tabbench.running.worker", str(log), *options]


def worker_environment(threads: int) -> dict[str, str]:
    """Environment variables that a worker needs beyond those it inherits."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    kernels = {
        name: os.environ.get(name, str(KERNELS)) for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
    }
    return {**dict.fromkeys(names, str(threads)), "OMP_WAIT_POLICY": "PASSIVE", **kernels}


class WorkerProcess:
    """One worker. Each of its messages goes to ``tell``; they always include a job's end, however it ended.

    The last message, when the process has ended, has ``gone``: why. It also has the end of the job that it had, since a
    pool that heard of that first might hand the next job to a dead worker.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        tell: Callable[[Message], None],
        kill: Callable[[], None] | None = None,
    ) -> None:
        """Start it.

        Args:
            command: see ``worker_command``.
            environment: added to what this process has.
            log: where it writes what jobs print.
            tell: receives each message, in a separate thread.
            kill: ends it with all its children, if killing its process tree is not enough.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log, self._tell = log, tell
        self._kill = kill or self.kill_tree
        self.killed_at: float | None = None
        kept, life = self._make_keeper()
        self.process = subprocess.Popen(
            [*kept, *command],
            pass_fds=life,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, **environment},
            start_new_session=True,  # Ctrl-C is for the driver alone: it decides what happens to running jobs
        )
        for end in life:
            os.close(end)
        self.job: Job | None = None
        self.limits = Limits()
        self.started = 0.0
        self.end: Outcome | None = None
        """Why we killed it, if we did."""
        self._buried = False
        self.oom_kills = count_oom_kills()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _make_keeper(self) -> tuple[list[str], tuple[int, ...]]:
        """The start of the command, and the pipe end that it inherits: while we live, we hold the other end."""
        self._life: int | None = None
        if os.name != "posix":
            return [], ()
        life, self._life = os.pipe()
        return [sys.executable, "-I", "-S", str(KEEPER), str(life)], (life,)

    def take(self, job: Job, limits: Limits) -> None:
        """Give it a job; the worker must be idle."""
        self.job, self.limits, self.end = job, limits, None
        self.started = time.monotonic()
        self.send({"job": job.to_json(), "limits": asdict(limits)})

    def send(self, message: Message) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # its death is reported separately
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()

    def pass_on(self, message: Message) -> None:
        """Send a message from a driver elsewhere. The limits of a job are enforced here."""
        if "job" in message:
            self.take(Job.from_json(message["job"]), Limits(**message["limits"]))
        else:
            self.send(message)

    def watch(self) -> None:
        """Check that it is alive and within its limits; call it several times a second."""
        if self._buried:
            return
        if self.process.poll() is not None:
            self._bury()
        elif self.killed_at is not None and time.monotonic() - self.killed_at > JOIN:
            self._kill_ourselves()
        elif self.job is not None and self.end is None:
            self.end = self._transgression()
            if self.end is not None:
                self.kill()

    def kill(self) -> None:
        self._kill()

    def kill_tree(self) -> None:
        """Kill the process and everything that it has started."""
        if self._life is None:
            self._kill_ourselves()
            return
        if self.killed_at is None:
            self.killed_at = time.monotonic()
            os.close(self._life)  # its keeper does it

    def _kill_ourselves(self) -> None:
        """Kill a keeper that cannot do it itself, and whatever is found of its tree."""
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.name == "posix":
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()

    def finish(self) -> None:
        """Kill it and wait until all its processes are gone."""
        self.kill()
        try:
            self.process.wait(JOIN)
        except subprocess.TimeoutExpired:
            self._kill_ourselves()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(JOIN)
        self._listener.join(JOIN)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(OSError, ValueError):  # some input was still in the buffer
            self.process.stdin.close()
        if not self._listener.is_alive():
            self.process.stdout.close()

    def memory(self) -> int:
        """Resident bytes of the process and its children."""
        try:
            process = psutil.Process(self.process.pid)
            family = [process, *process.children(recursive=True)]
            return sum(member.memory_info().rss for member in family)
        except psutil.Error:
            return 0

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(json.JSONDecodeError):  # a last line cut short by a kill
                message = json.loads(line)
                if "outcome" in message:
                    self.job = None
                self._tell(message)

    def _bury(self) -> None:
        """Handle the death of the process. If it had a job, the job ends too."""
        self._buried = True
        self._kill_ourselves()  # children that outlive it, if its keeper was killed
        self.kill_tree()
        self._listener.join(JOIN)  # do not wait forever: a child may hold the pipe open
        job, self.job = self.job, None
        death = self.end or self._death()
        end = {} if job is None else {"key": job.key, "outcome": death.to_json()}
        self._tell({**end, "gone": death.error})

    def _transgression(self) -> Outcome | None:
        timeout, memory = self.limits.timeout, self.limits.memory
        if timeout is not None and time.monotonic() - self.started > timeout + GRACE:
            return Outcome("timeout", error=f"timeout of {timeout:g} s: it was killed")
        if memory is not None and self.memory() > memory:
            return Outcome(
                "out_of_memory", error=f"it used more than the {memory / 2**30:g} GB of --memory and was killed"
            )
        return None

    def _death(self) -> Outcome:
        """The message for a worker that ended silently."""
        code = self.process.returncode
        name = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
        if name == "SIGKILL" and count_oom_kills() > self.oom_kills:
            return Outcome(
                "out_of_memory", error="it was killed because the memory of its machine or its cgroup was full"
            )
        hint = " (the system may have run out of memory)" if name == "SIGKILL" else ""
        return Outcome("killed", error=f"its process ended by {name}{hint}", traceback=read_tail(self.log))


def count_oom_kills() -> int:
    """How many processes in our cgroup the kernel has killed for lack of memory; 0 if unknown."""
    try:
        group = Path("/proc/self/cgroup").read_text(encoding="ascii").rpartition("::")[2].strip()
        events = (Path("/sys/fs/cgroup") / group.lstrip("/") / "memory.events").read_text(encoding="ascii")
        return int(dict(line.split() for line in events.splitlines()).get("oom_kill", 0))
    except (OSError, ValueError):
        return 0


def read_tail(log: Path) -> str:
    """The last lines of a worker's log."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(line for line in lines if not line.startswith("Extension modules:"))[-TAIL:]
