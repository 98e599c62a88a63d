"""Between a driver and one of its workers: ``python -I -S keeper.py LIFE COMMAND...``

The worker's whole tree of processes ends when the driver is gone or closes the pipe LIFE, however busy or stopped the
worker is, and when the worker itself ends. Children that left the worker's session are found too: on Linux, the keeper
inherits them when their parents die.

It does not import tabbench: a keeper is small and starts at once.
"""

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
KILL_WITHIN = 4.0
"""Seconds in which the tree must be gone; what cannot be killed by then is left to the system."""
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""They are for the worker."""


def main(life: int, command: list[str]) -> None:
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake, wake_up = os.pipe()
    os.set_blocking(wake_up, False)
    signal.set_wakeup_fd(wake_up, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    worker = _start(life, command)
    for standard in (0, 1):  # these belong to the worker: a copy here would keep its pipes open
        os.dup2(os.open(os.devnull, os.O_RDWR), standard)
    status = None
    while status is None:
        readable, _, _ = select.select([life, wake], [], [])
        if life in readable:
            break
        os.read(wake, 1024)
        status = _reap().get(worker)
    kill_tree()
    _leave(0 if status is None else status)


def _start(life: int, command: list[str]) -> int:
    keeper = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == keeper:  # otherwise it died before this request could end us with it
            for number in (*IGNORED, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            os.close(life)
            os.execvp(command[0], command)  # noqa: S606 - this is what a keeper is for
    except OSError as error:
        print(f"{command[0]} cannot be started: {error.strerror}", file=sys.stderr)
    os._exit(127)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # only Linux has it
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _reap() -> dict[int, int]:
    """Process and status of the children that have ended."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = status
    return ended


def kill_tree() -> None:
    """Kill all descendants, including those that they start meanwhile."""
    until = time.monotonic() + KILL_WITHIN
    while (found := descendants(os.getpid())) and time.monotonic() < until:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        time.sleep(0.01)


def descendants(root: int) -> list[int]:
    """The processes below one, from ``/proc``; where there is no ``/proc``, this process's group is killed."""
    children: dict[int, list[int]] = {}
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        os.killpg(0, signal.SIGKILL)
        return []
    for name in names:
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
            parent = int(file.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found, queue = [], [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def _leave(status: int) -> None:
    """End the way the worker did."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # SIGKILL cannot be reset
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
