"""Workers that are forked from a driver, which has imported torch already: a thousand imports would take too long.

The pool, the protocol and the code of the worker are the real ones.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
import threading

from tabbench import Plugin, PoolWorker, WorkerPool, hookimpl
from tabbench.running.process import Message
from tabbench.running.worker import Worker

PR_SET_PDEATHSIG = 1


class ForkedWorker(PoolWorker):
    """A child of the driver."""

    def __init__(self, number: int, flavour: str, pool: WorkerPool) -> None:
        super().__init__(number, flavour)
        self.pool = pool
        log = pool.site.logs / f"worker-{os.getpid()}-{number}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        to_worker, from_driver = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            work(to_worker[0], from_driver[1], str(log))
        os.close(to_worker[0])
        os.close(from_driver[1])
        self.input = os.fdopen(to_worker[1], "w", buffering=1)
        self.output = os.fdopen(from_driver[0])
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        for line in self.output:
            with contextlib.suppress(json.JSONDecodeError):
                self.pool.hear(self, json.loads(line))
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self.output.close()
        self.pool.hear(self, {"gone": "its process ended"})

    def send(self, message: Message) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.input.write(json.dumps(message) + "\n")

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self.input.close()


def work(messages: int, answers: int, log: str) -> None:
    """Be a worker; this does not return."""
    code = 1
    try:
        os.setsid()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(messages, 0)
        os.dup2(answers, 1)
        os.closerange(3, 1024)  # locks of the driver are among them
        Worker(log).run()
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


class ForkedExecutor(WorkerPool):
    """The usual pool with forked workers."""

    def start_worker(self, number: int, flavour: str) -> PoolWorker:
        return ForkedWorker(number, flavour, self)


@hookimpl
def tabbench_executors() -> list[Plugin]:
    return [Plugin("forked", f"{__name__}:ForkedExecutor", summary="workers forked from the driver, for campaigns")]
