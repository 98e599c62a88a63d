"""The part that runs on a node, inside a SLURM job: ``python -m tabbench_slurm.agent FOLDER SECONDS NOTICE``.

It keeps a warm worker, passes messages between it and the driver's folder, and leaves when its time is nearly up,
when SLURM says so, or when the driver is dead.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import time
from pathlib import Path

from tabbench import WorkerProcess, worker_command, worker_environment
from tabbench_slurm.mailbox import Message, Outbox, Pulse, receive

CHECK_EVERY = 0.1
LOOK_EVERY = 0.25
"""Seconds between checks of the inbox."""
SIGN_EVERY = 15.0
"""Seconds between signs of life."""
STARTS = 3
"""How many times in a row a worker may die before its hello."""
LAST_WORDS = 60.0
"""Seconds that a job has to write its checkpoint when it must leave."""

NEAR_END = "its SLURM job was near its time limit (slurm.time)"
TOLD_TO_END = "SLURM ended its job (cancelled, preempted, node down or out of time)"


class Agent:
    """The loop of one SLURM job."""

    def __init__(self, folder: Path, seconds: float, notice: float) -> None:
        self.name = os.environ.get("TABBENCH_WORKER") or task_name()
        self.folder = folder
        self.inbox = folder / "in" / self.name
        self.outbox = Outbox(folder / "out", f"{self.name}.")
        self.news: queue.Queue[Message] = queue.Queue()
        now = time.monotonic()
        self.pulse = Pulse(folder / "beat", now)
        self.leave_at = now + seconds - notice
        self.leaving = self.signalled = ""
        self.deadline = float("inf")
        self.looked = self.signed = now
        self.busy = self.ready = False
        self.failed_starts = 0
        self.process = self.start()
        for number in (signal.SIGUSR1, signal.SIGTERM):
            signal.signal(number, self.hear_signal)

    def start(self) -> WorkerProcess:
        log = self.folder / "logs" / f"{self.name}.worker.log"
        threads = int(os.environ.get("SLURM_CPUS_PER_TASK", "1"))
        command = worker_command(log, ignore_term=True)  # SLURM sends SIGTERM to us and to the worker
        return WorkerProcess(command, worker_environment(threads), log, self.news.put)

    def hear_signal(self, number: int, frame: object) -> None:
        self.signalled = NEAR_END if number == signal.SIGUSR1 else TOLD_TO_END

    def leave(self, why: str) -> None:
        if not self.leaving:
            self.leaving = why
            self.deadline = time.monotonic() + LAST_WORDS
            self.process.send({"leave": why})

    def run(self) -> str:
        """Work until there is a reason to end, and return it."""
        while True:
            now = time.monotonic()
            if self.signalled or now > self.leave_at:
                self.leave(self.signalled or NEAR_END)
            if self.pulse.is_lost(now):
                return "the driver is dead"
            if self.ready and now - self.looked > LOOK_EVERY:
                self.looked = now
                if self.read():
                    return "it was no longer needed"
            self.process.watch()
            try:
                ended = self.pass_on()
            except FileNotFoundError:  # a driver that ends normally removes the folder
                return "the driver has ended"
            if ended:
                return ended
            if self.leaving and (not self.busy or now > self.deadline):
                return self.leaving

    def read(self) -> bool:
        """Read the driver's messages; returns whether one of them says to end."""
        for _, message in receive(self.inbox):
            if "end" in message:
                return True
            if "renew" in message:
                self.process.kill()
            elif "job" in message and self.leaving:
                self.outbox.send([{"key": message["job"]["key"],
                                   "outcome": {"status": "lost", "error": self.leaving}}])  # fmt: skip
            else:
                self.busy = self.busy or "job" in message
                self.process.pass_on(message)
        return False

    def pass_on(self) -> str:
        """Pass the worker's messages on to the driver; returns why to end, if the worker does not start."""
        messages: list[Message] = []
        try:
            messages.append(self.news.get(timeout=CHECK_EVERY))
            while True:
                messages.append(self.news.get_nowait())
        except queue.Empty:
            pass
        now = time.monotonic()
        if not messages and now - self.signed > SIGN_EVERY:
            messages = [{"alive": True}]
        ended = ""
        for message in messages:
            if "hello" in message:
                self.ready, self.failed_starts = True, 0
            if "outcome" in message:
                self.busy = False
                if self.signalled == TOLD_TO_END and message["outcome"]["status"] in ("failed", "killed"):
                    # SLURM has signalled the job's own processes too, which explains this end.
                    message["outcome"] = {"status": "lost", "error": TOLD_TO_END}
            if "gone" in message:
                ended = self.restart(message.pop("gone"))
        told = [message for message in messages if message]
        if self.leaving and any("outcome" in message for message in told):
            told.append({"gone": self.leaving})  # with the outcome, or the driver might give us the same job again
        if told:
            self.signed = now
            self.outbox.send(told)
        return ended

    def restart(self, why: str) -> str:
        """Start another worker after its process has ended. Returns the reason to end instead, if there is one."""
        self.process.finish()
        self.ready = self.busy = False
        self.failed_starts += 1
        if self.leaving or self.failed_starts >= STARTS:
            return self.leaving or why
        self.process = self.start()
        return ""


def task_name() -> str:
    """Our name in squeue: the array's id and our number in it."""
    return f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"


def main() -> None:
    folder, seconds, notice = sys.argv[1:]
    agent = Agent(Path(folder).absolute(), float(seconds), float(notice))
    why = agent.run()
    agent.process.finish()
    with contextlib.suppress(FileNotFoundError):
        agent.pass_on()
        agent.outbox.send([{"gone": why}])


if __name__ == "__main__":
    main()
