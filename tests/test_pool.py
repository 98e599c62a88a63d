"""The pool of warm workers: who gets a place, who gives it back, and whose word counts."""

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tabbench import Event, Job, Limits, Outcome, PoolWorker, Site, WorkerPool, __version__, worker_command
from tabbench.errors import TabbenchError, UsageError

OK = Outcome("ok", place={"hostname": "n1"}).to_json()


class Distant(PoolWorker):
    """A worker that says only what a test lets it say."""

    def __init__(self, number: int, flavour: str, pool: "Cluster") -> None:
        super().__init__(number, flavour)
        self.pool = pool
        self.got: list[dict[str, Any]] = []
        self.place = {"scheduler_job": str(number)}

    def send(self, message: dict[str, Any]) -> None:
        self.got.append(message)

    def kill(self) -> None:
        self.pool.hear(self, {"gone": "it was killed"})

    def says(self, **message: Any) -> None:
        self.pool.hear(self, message)

    def says_hello(self, **about: Any) -> None:
        self.says(**{"hello": 1, "host": f"n{self.number}", "version": __version__, **about})


class Cluster(WorkerPool):
    """Places elsewhere, as many as the test says."""

    remote = True
    failed_starts = 2
    size = 2

    @property
    def slots(self) -> int:
        return self.size

    def flavour(self, kind: str) -> str:
        return "gpu" if kind == "pretrain" else ""

    def start_worker(self, number: int, flavour: str) -> PoolWorker:
        return Distant(number, flavour, self)

    def wake(self, ready: Mapping[str, int]) -> list[Distant]:
        """Let the workers for so many jobs start and prove themselves; all workers."""
        self.expect(ready)
        for worker in self.all:
            if not worker.about:
                worker.says_hello()
                self.wait(0)
                worker.says(sees=dict.fromkeys(worker.got[-1]["see"], True))
        self.wait(0)
        return self.all

    @property
    def all(self) -> list[Distant]:
        return [worker for worker in self.workers if isinstance(worker, Distant)]


@pytest.fixture
def pool(tmp_path: Path) -> Cluster:
    return Cluster(Site(tmp_path, tmp_path / "cache", Limits(), name="cluster"))


def job(key: str, kind: str = "fit") -> Job:
    return Job(key, kind, key, {})


def places(pool: Cluster) -> list[str]:
    return [worker.flavour for worker in pool.workers]


def ends(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.key, event.outcome.status) for event in events if event.outcome is not None]


def test_there_are_as_many_workers_as_jobs_that_could_start(pool: Cluster) -> None:
    pool.expect({})
    assert places(pool) == []
    pool.expect({"fit": 1})
    assert places(pool) == [""]
    pool.expect({"fit": 9})
    assert places(pool) == ["", ""], "no more than there are slots"


def test_slots_that_come_later_are_used_and_lost_ones_are_not_filled_again(pool: Cluster) -> None:
    pool.wake({"fit": 9})
    pool.size = 4
    assert len(pool.wake({"fit": 9})) == 4
    pool.size = 1
    pool.all[0].kill()
    pool.wait(0)
    assert len(pool.workers) == 3, "those that are there may stay"
    assert pool.room("fit") == 3


def test_a_worker_without_work_gives_its_place_back(pool: Cluster) -> None:
    pool.idle_seconds = -1.0
    busy, _ = pool.wake({"fit": 2})
    pool.submit(job("a"))
    pool.expect({})
    assert pool.workers == [busy]


def test_kinds_with_needs_of_their_own_have_workers_of_their_own(pool: Cluster) -> None:
    pool.wake({"pretrain": 1, "fit": 1})
    assert sorted(places(pool)) == ["", "gpu"]
    assert (pool.room("pretrain"), pool.room("fit"), pool.room("encode")) == (1, 1, 1)
    pool.submit(job("a", "pretrain"))
    assert (pool.room("pretrain"), pool.room("fit")) == (0, 1)
    (taken,) = [worker for worker in pool.all if worker.job]
    assert taken.flavour == "gpu"


def test_an_idle_worker_of_another_kind_makes_room(pool: Cluster) -> None:
    pool.wake({"fit": 2})
    pool.expect({"pretrain": 1})
    assert sorted(places(pool)) == ["", "gpu"]


def test_a_job_waits_for_the_proof_that_the_folder_is_seen(pool: Cluster, tmp_path: Path) -> None:
    pool.expect({"fit": 1})
    (worker,) = pool.all
    worker.says_hello()
    pool.wait(0)
    ((token, cache),) = (message["see"] for message in worker.got)
    assert Path(token).is_file()
    assert Path(token).parent == tmp_path
    assert pool.room("fit") == 0
    worker.says(sees={token: True, cache: True})
    pool.wait(0)
    assert pool.room("fit") == 1
    pool.close()
    assert not Path(token).exists()


@pytest.mark.parametrize("blind, what", [(0, "results folder"), (1, "cache")])
def test_a_node_that_does_not_see_a_folder_is_named(pool: Cluster, blind: int, what: str) -> None:
    pool.expect({"fit": 1})
    (worker,) = pool.all
    worker.says_hello()
    pool.wait(0)
    paths = worker.got[-1]["see"]
    worker.says(sees={path: number != blind for number, path in enumerate(paths)})
    with pytest.raises(UsageError, match=f"the {what} .* is not visible from node n1: use a shared folder"):
        pool.wait(0)


@pytest.mark.parametrize(
    "about, device, message",
    [
        ({"version": "0.1.0"}, "cpu", "node n1 has tabbench 0.1.0, but this is"),
        ({"cuda": 0}, "cuda", "--device cuda: node n1 has none"),
    ],
)
def test_a_node_that_cannot_do_the_work_is_named(
    tmp_path: Path, about: dict[str, Any], device: str, message: str
) -> None:
    pool = Cluster(Site(tmp_path, tmp_path, Limits(device=device)))
    pool.expect({"fit": 1})
    pool.all[0].says_hello(**about)
    with pytest.raises(UsageError, match=message):
        pool.wait(0)


def test_the_end_of_a_job_says_where_it_ran(pool: Cluster) -> None:
    worker, _ = pool.wake({"fit": 2})
    pool.submit(job("a"))
    worker.says(key="a", outcome=OK)
    outcome = pool.wait(0)[-1].outcome
    assert outcome is not None
    assert outcome.place == {"hostname": "n1", "executor": "cluster", "scheduler_job": "1"}


def test_late_and_repeated_words_of_a_worker_change_nothing(pool: Cluster) -> None:
    worker, other = pool.wake({"fit": 2})
    pool.submit(job("a"))
    worker.says(key="a", outcome=OK)
    worker.says(key="a", outcome=OK)
    worker.says(key="a", step=1, total=2, metrics={})
    other.says(key="a", outcome=OK)
    assert ends(pool.wait(0)) == [("a", "ok")]
    other.kill()
    pool.wait(0)
    other.says_hello()
    other.says(gone="again")
    assert pool.wait(0) == []
    assert other not in pool.workers


@pytest.mark.parametrize("kill", [Distant.kill, lambda worker: worker.says(gone="its node is gone")])
def test_a_worker_that_dies_ends_its_job_and_no_other(pool: Cluster, kill: Callable[[Distant], None]) -> None:
    worker, other = pool.wake({"fit": 2})
    pool.submit(job("a"))
    pool.submit(job("b"))
    kill(worker)
    assert ends(pool.wait(0)) == [("a", "killed")]
    other.says(key="b", outcome=OK)
    assert ends(pool.wait(0)) == [("b", "ok")]


def test_a_worker_that_ends_with_its_job_gets_no_other(pool: Cluster) -> None:
    pool.size = 1
    (worker,) = pool.wake({"fit": 2})
    pool.submit(job("a"))
    pool.wait(0)
    worker.says(key="a", outcome=Outcome("killed").to_json(), gone="by a signal")
    assert ends(pool.wait(0)) == [("a", "killed")]
    assert worker not in pool.workers


def test_a_job_is_cancelled_whether_it_runs_or_waits(pool: Cluster) -> None:
    pool.size = 1
    pool.wake({"fit": 1})
    pool.submit(job("running"))
    pool.submit(job("waiting"))
    pool.cancel("nobody")
    pool.cancel("waiting")
    pool.cancel("running")
    assert ends(pool.wait(0)) == [("waiting", "cancelled"), ("running", "cancelled")]


def test_workers_that_die_before_their_first_word_end_the_run(pool: Cluster) -> None:
    pool.expect({"fit": 2})
    first, second = pool.all
    first.says(gone="exit code 127")
    pool.wait(0)
    second.says(gone="exit code 127")
    with pytest.raises(TabbenchError, match="a worker could not start: exit code 127"):
        pool.wait(0)


def test_one_that_starts_between_two_that_do_not_counts(pool: Cluster) -> None:
    pool.expect({"fit": 2})
    first, second = pool.all
    first.says(gone="exit code 127")
    second.says_hello()
    pool.wait(0)
    pool.all[-1].says(gone="exit code 127")
    pool.wait(0)


def test_a_worker_that_ran_out_of_memory_is_replaced(pool: Cluster) -> None:
    worker, _ = pool.wake({"fit": 2})
    pool.submit(job("a"))
    worker.says(key="a", outcome=replace(Outcome("out_of_memory"), place={"hostname": "n1"}).to_json())
    pool.wait(0)
    assert worker not in pool.workers


def test_a_worker_told_to_ignore_it_survives_sigterm_but_what_a_job_forks_does_not() -> None:
    program = """
import os, signal, time
from tabbench.running.worker import ignore_term
ignore_term()
ready, say_ready = os.pipe()
child = os.fork()
if not child:
    os.write(say_ready, b"!")  # Python drops signals that come before it has put itself in order after a fork
while not child:
    time.sleep(0.1)
os.read(ready, 1)
os.kill(os.getpid(), signal.SIGTERM)
os.kill(child, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) == -signal.SIGTERM
    assert worker_command(Path("log"), ignore_term=True)[-2:] == ["log", "--ignore-term"]
