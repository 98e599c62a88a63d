"""What is about how a job was run is tried again; it is never a silent part of a number."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness import Bench, InProcess, saved, written_records
from tabbench_local.executor import LocalExecutor

from tabbench.contracts import Executor, Job
from tabbench.contracts.job import Event, Outcome, Status, content_key
from tabbench.results.merge import merge_results
from tabbench.results.record import Record
from tabbench.results.store import Store
from tabbench.results.tabulate import tabulate

TUNED: dict[str, Any] = {"ssl": ["none"], "trials": 6}


class Killing(LocalExecutor):
    """Kills the worker of the first trial with the settings ``victim``, once."""

    victim: dict[str, Any]
    killed = False

    def submit(self, job: Job) -> None:
        super().submit(job)
        if job.payload["model"]["config"] == self.victim and job.payload["trial"] and not self.killed:
            self.killed = True
            (worker,) = self._at(job.key)
            os.kill(worker.about["hello"], signal.SIGKILL)


class Unlucky(InProcess):
    """Lets the trials with the settings ``victim`` end as if they had been killed."""

    victim: dict[str, Any]

    def submit(self, job: Job) -> None:
        part = job.payload.get("model") or job.payload["method"]
        if part["config"] == self.victim and job.payload["trial"]:
            self.events.append(Event(job.key, 1, 10, {"validation": 9.0}))
            self.events.append(Event(job.key, outcome=Outcome("killed", error="its process ended by SIGKILL")))
        else:
            super().submit(job)


def unlucky(victim: Any, executor: type[Executor] = Unlucky) -> type[Executor]:
    return type("WithVictim", (executor,), {"victim": victim})


def trials_of(store: Store) -> dict[int, Record]:
    """The trials that count, by number."""
    done = [record for record in store.records() if record.kind == "trial" and record.is_done]
    return {record.number: record for record in done if record.number is not None}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    bench = Bench(tmp_path_factory.mktemp("undisturbed") / "results")
    bench.run(executor=InProcess, **TUNED)
    return bench


def winner(bench: Bench) -> dict[str, Any]:
    (result,) = (record for record in bench.store.records() if record.kind == "result")
    assert result.config is not None
    config: dict[str, Any] = result.config["model"]
    return config


def test_killing_the_worker_of_the_winning_trial_changes_nothing(bench: Bench, undisturbed: Bench) -> None:
    bench.run(executor=unlucky(winner(undisturbed), Killing), **TUNED)
    assert bench.watcher.again == ["killed: wine/0 tune none + nearest"]
    assert bench.stable_records() == undisturbed.stable_records()
    counted = [record for record in bench.store.records() if record.environment and record.environment.retries]
    assert [(record.config, record.environment.retries) for record in counted if record.environment] == [
        (winner(undisturbed), 1)
    ]


def test_a_trial_that_is_given_up_flags_the_result_until_the_next_run_makes_it_whole(
    bench: Bench, undisturbed: Bench
) -> None:
    summary = bench.run(executor=unlucky(winner(undisturbed)), **TUNED)
    assert (summary.done, summary.unfinished, summary.is_incomplete) == (1, 1, True)
    (result,) = (record for record in bench.store.records() if record.kind == "result")
    assert result.flags == ["unfinished tuning"]
    assert result.tuning is not None
    assert result.tuning["model"].given_up == 1
    (left_out,) = tabulate(bench.store).left_out
    assert left_out["reason"] == "flagged: unfinished tuning"

    bench.run(executor=InProcess, **TUNED)
    whole = [record for record in bench.store.records() if record.is_done]
    expected = undisturbed.stable_records()
    assert {record.key: record.score for record in whole if record.key in expected} == {
        key: record.get("score") for key, record in expected.items()
    }
    assert tabulate(bench.store).left_out == []
    assert bench.run(executor=InProcess, **TUNED).done == 0, "there is nothing left to do"


def test_trials_after_one_that_was_given_up_are_proposed_again_when_it_is_known(bench: Bench, tmp_path: Path) -> None:
    """Later batches of a study with a gap are other trials: they have keys of their own."""
    tuned: dict[str, Any] = {"ssl": ["none"], "trials": 14}
    alone = Bench(tmp_path / "alone")
    alone.run(executor=InProcess, **tuned)
    expected = {number: record.config for number, record in trials_of(alone.store).items()}
    bench.run(executor=unlucky(expected[1]), retries=0, **tuned)
    bench.run(executor=InProcess, **tuned)
    plain = [content_key({"study": trials_of(alone.store)[0].study, "number": number}) for number in range(14)]
    found = [bench.store.record(key) for key in plain]
    assert [record.config for record in found if record] == [expected[number] for number in range(14)]
    done = [record["key"] for record in written_records(bench.store.root) if record["status"] in ("ok", "pruned")]
    results = [record.key for record in bench.store.records() if record.kind == "result"]
    assert len(done) - len(set(done)) == 1, "only the flagged result was written twice"
    assert [done.count(key) for key in results] == [2]


def test_an_encoder_of_a_study_with_a_gap_is_not_taken_for_the_planned_one(bench: Bench, tmp_path: Path) -> None:
    tuned: dict[str, Any] = {"ssl_trials": 5, "trials": 2, "controls": []}
    alone = Bench(tmp_path / "alone")
    alone.run(executor=InProcess, **tuned)
    (expected,) = (record for record in alone.store.records() if record.kind == "result")
    assert expected.config is not None
    bench.run(executor=unlucky(expected.config["ssl"]), retries=0, **tuned)
    (flagged,) = (record for record in bench.store.records() if record.kind == "result")
    assert flagged.flags == ["unfinished tuning"]
    assert flagged.config is not None
    assert flagged.config["ssl"] != expected.config["ssl"]
    bench.run(executor=InProcess, **tuned)
    (whole,) = (record for record in bench.store.records() if record.kind == "result")
    assert (whole.score, whole.hashes, whole.config, whole.tuning, whole.flags) == (
        expected.score, expected.hashes, expected.config, expected.tuning, expected.flags,
    )  # fmt: skip


def test_the_same_command_works_after_a_run_with_too_short_a_timeout(bench: Bench, undisturbed: Bench) -> None:
    settings = {"nearest": {"sleep": 0.15}}
    bench.run(executor=InProcess, **TUNED, set=settings, timeout=0.1)
    assert {record.status for record in bench.store.records()} == {"timeout"}
    assert bench.watcher.again == [], "with the same limit it would only time out again"
    summary = bench.run(executor=InProcess, **TUNED, set=settings)
    assert (summary.done, summary.failures) == (1, [])
    (result,) = (record for record in bench.store.records() if record.kind == "result")
    assert result.score == next(record.score for record in undisturbed.store.records() if record.kind == "result")


class Ends(InProcess):
    """Ends each job as it is told, without running it."""

    status: Status

    def submit(self, job: Job) -> None:
        self.events.append(Event(job.key, outcome=Outcome(self.status, error="so it goes")))


@pytest.mark.parametrize(
    "status, attempts", [("lost", 3), ("killed", 3), ("timeout", 1), ("out_of_memory", 1), ("failed", 1)]
)
def test_which_ends_are_tried_again_within_a_run(bench: Bench, status: Status, attempts: int) -> None:
    summary = bench.run(executor=type("Scripted", (Ends,), {"status": status}), ssl=["none"])
    (record,) = bench.store.records()
    assert record.status == status
    assert (record.environment.retries if record.environment else 0) == attempts - 1
    assert len(bench.watcher.again) == attempts - 1
    assert len(summary.failures) == 1


def test_a_trial_that_version_0_1_0_took_for_done_is_run_again(
    bench: Bench, undisturbed: Bench, tmp_path: Path
) -> None:
    """There, a killed trial was final, what came after it was proposed without it, and the result had no flag."""
    old = Bench(tmp_path / "old")
    old.run(executor=unlucky(winner(undisturbed)), retries=0, **TUNED)
    for record in old.store.records():
        key = record.key
        if record.kind == "trial":
            key = content_key({"study": record.study, "number": record.number})
        tuning = {part: each.model_copy(update={"given_up": 0}) for part, each in (record.tuning or {}).items()}
        flags: list[str] | None = None if record.flags is None else []
        bench.store.add(replace(record, key=key, flags=flags, tuning=tuning or None))
    bench.run(executor=InProcess, **TUNED)
    (result,) = (record for record in bench.store.records() if record.kind == "result")
    (expected,) = (record for record in undisturbed.store.records() if record.kind == "result")
    assert (result.score, result.config, result.flags) == (expected.score, expected.config, expected.flags)
    assert bench.run(executor=InProcess, **TUNED).done == 0


def test_merging_keeps_the_whole_result(bench: Bench, undisturbed: Bench, tmp_path: Path) -> None:
    bench.run(executor=unlucky(winner(undisturbed)), retries=0, **TUNED)
    merge_results([bench.store.root, undisturbed.store.root], Store(tmp_path / "merged"))
    (result,) = (record for record in saved(Store(tmp_path / "merged")) if record["kind"] == "result")
    assert result["flags"] == []
