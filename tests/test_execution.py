"""Plan -> executor -> store with real worker processes."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness import Bench, InProcess, written_records

from tabbench.contracts import Event, Job, Outcome
from tabbench.results.verify import verify_results


def test_a_run_stores_one_record_for_each_planned_one(bench: Bench) -> None:
    summary = bench.run(executor=InProcess, seeds=2, controls=["none", "untrained"])
    assert (summary.done, summary.failures) == (6, [])
    records = bench.records()
    assert {(r["ssl"], r["seed"]) for r in records} == {
        (ssl, seed) for ssl in ("none", "projection", "untrained:projection") for seed in (0, 1)
    }
    for record in records:
        assert record["counts"]["train"] + record["counts"]["validation"] + record["counts"]["test"] == 178
        assert 0 < record["score"] <= 1
        assert record["hashes"]["split"]
        assert record["environment"]["versions"]["torch"]


@pytest.mark.parametrize("was", [0, None])
def test_a_result_whose_model_lost_its_seeds_or_got_some_is_written_again_not_made_again(
    bench: Bench, was: int | None
) -> None:
    model, planned = ("linear", None) if was == 0 else ("nearest", 0)
    bench.run(executor=InProcess, model=[model], ssl=["none"], controls=[])
    (made,) = bench.store.records()
    assert made.seed == planned
    older = Bench(bench.store.root.parent / "older", inline=True)
    older.store.add(replace(made, seed=was))
    assert older.run(model=[model], ssl=["none"], controls=[]).done == 0
    (told,) = older.store.records()
    assert replace(told, seed=was, time=0.0) == replace(made, seed=was, time=0.0)
    assert told.seed == planned
    assert older.run(model=[model], ssl=["none"], controls=[]).done == 0
    assert len(written_records(older.store.root)) == 2, "once is enough"


def test_a_second_run_does_nothing(bench: Bench) -> None:
    bench.run(executor=InProcess)
    again = bench.run(executor=InProcess)
    assert (again.done, again.done_before) == (0, 2)
    assert len(written_records(bench.store.root)) == 2


def test_one_pretraining_serves_all_models_and_seeds(bench: Bench) -> None:
    bench.run(executor=InProcess, seeds=3, controls=[])
    assert sum("pretrain" in label for label in bench.watcher.begun) == 1
    assert sum("encode" in label for label in bench.watcher.begun) == 1
    assert sum("nearest" in label for label in bench.watcher.begun) == 3


def test_a_lost_representation_is_made_again_without_pretraining(bench: Bench) -> None:
    import shutil

    bench.run(executor=InProcess, controls=[])
    shutil.rmtree(bench.store.root / "artefacts" / "encode")
    bench.run(executor=InProcess, controls=[], seeds=2)
    assert [label.split()[1] for label in bench.watcher.begun] == ["encode", "projection"]


def test_jobs_that_misbehave_become_records_and_cost_nobody_else(bench: Bench) -> None:
    misdeeds = {1: "fail", 2: "segfault", 3: "eat"}
    summary = bench.run(ssl=["none"], seeds=5, set={"nearest": {"behave": misdeeds}}, memory=1.0, retries=0)
    records = {record["seed"]: record for record in bench.records()}
    statuses = {seed: record["status"] for seed, record in records.items()}
    assert statuses == {0: "ok", 1: "failed", 2: "killed", 3: "out_of_memory", 4: "ok"}
    assert re.fullmatch(r"RuntimeError: the toy was told to fail \(toy_plugin.py:\d+\)", records[1]["error"])
    assert "toy_plugin.py" in records[1]["traceback"]
    assert "SIGSEGV" in records[2]["error"]
    assert "Segmentation fault" in records[2]["traceback"]
    assert "--memory" in records[3]["error"]
    assert len(summary.failures) == 3


def test_a_job_that_hangs_is_killed_when_its_time_is_up(bench: Bench) -> None:
    bench.run(ssl=["none"], set={"nearest": {"behave": {0: "hang"}}}, timeout=1.0, retries=0)
    (record,) = bench.records()
    assert (record["status"], record["error"]) == ("timeout", "timeout of 1 s: it was killed")


def test_a_job_that_reports_notices_its_deadline_itself(bench: Bench) -> None:
    bench.run(ssl=["none"], set={"nearest": {"sleep": 20.0}}, timeout=1.0)
    (record,) = bench.records()
    assert record["status"] == "timeout"
    assert "of 10 epochs" in record["error"]


def test_what_needs_a_failed_pretraining_fails_with_it_and_the_rest_goes_on(bench: Bench) -> None:
    summary = bench.run(executor=InProcess, seeds=2, set={"projection": {"behave": "fail"}})
    records = {(record["ssl"], record["seed"]): record for record in bench.records()}
    assert records["none", 0]["status"] == records["none", 1]["status"] == "ok"
    for seed in (0, 1):
        assert records["projection", seed]["status"] == "failed"
        assert "pretrain projection" in records["projection", seed]["error"]
        assert "told to fail" in records["projection", seed]["error"]
    assert len(summary.failures) == 2


def test_a_failed_job_is_tried_again_by_the_next_run(bench: Bench, tmp_path: Path) -> None:
    slow: dict[str, Any] = {"ssl": ["none"], "set": {"nearest": {"sleep": 0.3}}}
    bench.run(executor=InProcess, **slow, timeout=0.1)
    assert [record["status"] for record in bench.records()] == ["timeout"]
    bench.run(executor=InProcess, **slow)
    assert [record["status"] for record in bench.records()] == ["ok"]


def test_fail_fast_stops_at_the_first_failure(bench: Bench) -> None:
    summary = bench.run(
        executor=InProcess, ssl=["none"], seeds=4, set={"nearest": {"behave": {0: "fail"}}}, fail_fast=True
    )
    assert len(summary.failures) == 1
    assert len(bench.store.records()) == 1


def test_a_collapsed_embedding_is_flagged(bench: Bench) -> None:
    bench.run(executor=InProcess, controls=[], set={"projection": {"collapse": True}})
    (record,) = bench.records()
    assert "collapsed embedding" in record["flags"]


def test_a_constant_prediction_is_flagged(bench: Bench) -> None:
    bench.run(executor=InProcess, ssl=["none"], set={"nearest": {"constant": True}})
    (record,) = bench.records()
    assert record["flags"] == ["constant prediction"]


def test_workers_do_not_change_results(bench: Bench, tmp_path: Path) -> None:
    bench.run(executor=InProcess, data=["wine", "diabetes"], seeds=2)
    together = Bench(tmp_path / "together", slots=2)
    together.run(data=["wine", "diabetes"], seeds=2)
    assert together.stable_records() == bench.stable_records()


MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "it is a result without 'metric'"),
    "no number": ({"score": math.nan}, "its field 'score' holds NaN"),
    "infinity": ({"score": math.inf}, "its field 'score' holds Infinity"),
    "a word": ({"score": "high"}, "its field 'score' holds \"high\""),
    "a part": ({"score": 0.5, "test": 3}, "its field 'test' holds 3"),
    "a curve": (
        {"diagnostics": {"model": {"loss": [math.nan]}}},
        """its field 'diagnostics' holds {"model": {"loss": [NaN]}}""",
    ),
}


def giving(result: dict[str, Any], reports: dict[str, Any]) -> type[InProcess]:
    """An executor whose fits report and give this, whatever they are."""

    class Giving(InProcess):
        def submit(self, job: Job) -> None:
            if job.kind == "fit":
                self.events += [Event(job.key, 1, 2, reports), Event(job.key, outcome=Outcome("ok", dict(result)))]
            else:
                super().submit(job)

    return Giving


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_not_a_result_is_a_failure_that_says_so(bench: Bench, name: str) -> None:
    result, said = MALFORMED[name]
    summary = bench.run(executor=giving(result, {"validation": math.nan, "probe": "x"}), ssl=["none"])
    (record,) = bench.records()
    assert record["status"] == "failed"
    assert record["error"] == f"the job gave something that is not a result: {said}"
    assert len(summary.failures) == 1
    assert verify_results(bench.store.root).findings == []


def test_a_job_cannot_say_that_it_was_another_one(bench: Bench) -> None:
    bench.run(executor=InProcess, ssl=["none"])
    (honest,) = bench.store.records()
    told = {**honest.to_json(), "key": "0" * 24, "ssl": "tjepa", "split": 7, "seed": 9, "status": "ok", "kind": "trial"}
    told |= {"split_rule": "time", "weights": "balanced classes"}  # what the plan says nothing about, it denies
    bench.run(executor=giving(told, {}), ssl=["none"], seeds=2)
    second = next(record for record in bench.store.records() if record.key != honest.key)
    assert (second.ssl, second.split, second.seed, second.kind) == ("none", 0, 1, "result")
    assert (second.split_rule, second.weights) == (None, None)
    assert second.key in {step.key for step in bench.plan(ssl=["none"], seeds=2).records}


def test_reports_that_are_no_numbers_do_not_reach_the_tuner(bench: Bench) -> None:
    class Reporting(InProcess):
        def submit(self, job: Job) -> None:
            self.events += [Event(job.key, step, 9, {"validation": math.nan, "probe": math.inf}) for step in (1, 2)]
            super().submit(job)

    bench.run(executor=Reporting, ssl=["none"], trials=3)
    records = bench.records()
    assert {record["status"] for record in records} == {"ok"}
    told = [value for record in records for value in record.get("reports", {}).values()]
    assert told
    assert all(math.isfinite(value) for value in told)
