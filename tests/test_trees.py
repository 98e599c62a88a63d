"""Trees of processes: whatever a worker has started ends with it, and it ends with its driver, within five seconds."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tabbench import Job, Limits, WorkerProcess
from tabbench.running.process import Message

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
SECONDS = 5.0
WORKER = """
    import ctypes, os, signal, subprocess, sys, threading, time

    def note():
        with open(sys.argv[1], "a") as file:
            file.write(f"{os.getpid()}\\n")

    def daemon():  # in a session of its own, an orphan, and with the worker's pipes
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                note()
                time.sleep(3600)
            os._exit(0)

    note()
    how = sys.argv[2]
    if "child" in how:
        if os.fork() == 0:
            note()
            time.sleep(3600)
    if "daemon" in how:
        daemon()
    time.sleep(0.3)
    print("{}", flush=True)
    if "exit" in how:
        os._exit(7)
    if "segfault" in how:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "thread" in how:
        threading.Thread(target=time.sleep, args=(3600,)).start()
    elif "gil" in how:
        ctypes.PyDLL(None).sleep(3600)
    elif "stopped" in how:
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        time.sleep(3600)
"""
DRIVER = """
    import sys, time
    from pathlib import Path
    from tabbench import WorkerProcess

    worker = WorkerProcess(sys.argv[2:], {}, Path(sys.argv[1]), tell=lambda message: None)
    time.sleep(3600)
"""


class Tree:
    """A worker with a tree below it, in which every process notes its number."""

    def __init__(self, folder: Path, how: str) -> None:
        self.pids, self.log = folder / "pids", folder / "log"
        self.size = 1 + ("child" in how) + ("daemon" in how)
        self.command = [sys.executable, "-c", textwrap.dedent(WORKER), str(self.pids), how]
        self.news: list[Message] = []

    def start(self) -> WorkerProcess:
        worker = WorkerProcess(self.command, {}, self.log, self.news.append)
        self.wait_until_grown()
        return worker

    def start_below_a_driver(self) -> subprocess.Popen[bytes]:
        driver = subprocess.Popen([sys.executable, "-c", textwrap.dedent(DRIVER), str(self.log), *self.command])
        self.wait_until_grown()
        return driver

    def wait_until_grown(self) -> None:
        wait_for(lambda: self.pids.exists() and len(self.pids.read_text().split()) == self.size, 60)
        self.processes = [psutil.Process(int(pid)) for pid in self.pids.read_text().split()]
        time.sleep(0.5)  # until it hangs as it should

    def living(self) -> list[psutil.Process]:
        return [each for each in self.processes if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


def wait_for(condition: Callable[[], bool], seconds: float = SECONDS) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def grow(tmp_path: Path) -> Iterator[Callable[[str], Tree]]:
    trees: list[Tree] = []

    def make(how: str) -> Tree:
        trees.append(Tree(tmp_path, how))
        return trees[-1]

    yield make
    for tree in trees:
        for process in tree.living():
            process.kill()


@pytest.mark.parametrize("how", ["child daemon", "gil child", "stopped daemon"])
def test_a_tree_ends_when_its_driver_is_killed(grow: Callable[[str], Tree], how: str) -> None:
    tree = grow(how)
    driver = tree.start_below_a_driver()
    driver.kill()
    driver.wait()
    wait_for(lambda: not tree.living())


@pytest.mark.parametrize(
    "limits, status", [(Limits(timeout=-1.9), "timeout"), (Limits(memory=1), "out_of_memory")], ids=["time", "memory"]
)
def test_a_tree_ends_when_a_limit_is_passed(grow: Callable[[str], Tree], limits: Limits, status: str) -> None:
    tree = grow("gil child daemon")
    worker = tree.start()
    worker.take(Job("k", "fit", "a job", {}), limits)

    def is_over() -> bool:
        worker.watch()
        return any("gone" in message for message in tree.news) and not tree.living()

    wait_for(is_over)
    (end,) = (message for message in tree.news if "outcome" in message)
    assert end["outcome"]["status"] == status
    assert "gone" in end, "a pool that heard of the end first would give the next job to a dead worker"
    worker.finish()


def test_a_child_that_holds_the_pipe_does_not_hold_up_the_end(grow: Callable[[str], Tree]) -> None:
    tree = grow("daemon exit")
    worker = tree.start()
    worker.take(Job("k", "fit", "a job", {}), Limits(timeout=3600))

    def is_over() -> bool:
        worker.watch()
        why = [message["gone"] for message in tree.news if "gone" in message]
        return why == ["its process ended by exit code 7"] and not tree.living()

    wait_for(is_over)
    before = time.monotonic()
    worker.finish()
    assert time.monotonic() - before < SECONDS


@pytest.mark.parametrize("how", ["thread", "stopped child daemon", "gil"])
def test_a_worker_that_cannot_exit_is_killed(grow: Callable[[str], Tree], how: str) -> None:
    tree = grow(how)
    worker = tree.start()
    before = time.monotonic()
    worker.finish()
    assert not tree.living()
    assert time.monotonic() - before < SECONDS


def test_a_stopped_keeper_does_not_save_its_tree(grow: Callable[[str], Tree]) -> None:
    tree = grow("child daemon")
    worker = tree.start()
    os.kill(worker.process.pid, signal.SIGSTOP)
    worker.finish()
    wait_for(lambda: not tree.living())


def test_a_worker_ends_with_its_keeper(grow: Callable[[str], Tree]) -> None:
    tree = grow("gil child")
    worker = tree.start()
    os.kill(worker.process.pid, signal.SIGKILL)

    def is_over() -> bool:
        worker.watch()
        return not tree.living()

    wait_for(is_over)
    worker.finish()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
def test_a_worker_ends_when_driver_and_keeper_are_killed_at_once(grow: Callable[[str], Tree]) -> None:
    tree = grow("gil")
    driver = tree.start_below_a_driver()
    keeper = tree.processes[0].parent()
    assert keeper is not None
    os.kill(driver.pid, signal.SIGSTOP)  # it cannot do anything about its workers any more
    keeper.kill()
    driver.kill()
    driver.wait()
    wait_for(lambda: not tree.living())


def test_a_keeper_ends_as_its_worker_did(grow: Callable[[str], Tree]) -> None:
    tree = grow("segfault")
    worker = tree.start()
    wait_for(lambda: worker.process.poll() is not None)
    assert worker.process.returncode == -signal.SIGSEGV
    worker.finish()
