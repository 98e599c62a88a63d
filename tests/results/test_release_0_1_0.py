"""A results folder that version 0.1.0 wrote is still worth what it was: read, tabulated, continued, replayed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from harness import Bench, InProcess, tabbench

from tabbench.registry import make_registry
from tabbench.results.store import Store
from tabbench.running.todo import what_to_do

FIXTURE = Path(__file__).parent.parent / "fixtures" / "results_0_1_0"
TOY = FIXTURE / "toy_0_1_0.py"
EXPERIMENT: dict[str, Any] = {"preset": "standard", "splits": 2, "seeds": 2, "trials": 3, "ssl_trials": 2}


@pytest.fixture
def old(tmp_path: Path) -> Bench:
    """A copy of the folder, and the plugin it was made with."""
    shutil.copytree(FIXTURE / "results", tmp_path / "results")
    bench = Bench(tmp_path / "results")
    bench.registry = make_registry([TOY])
    return bench


def test_every_line_is_read(old: Bench) -> None:
    lines = [line for path in (FIXTURE / "results" / "records").iterdir() for line in path.read_text().splitlines()]
    assert {record.key for record in old.store.records()} == {json.loads(line)["key"] for line in lines}
    old.store.compact()
    assert len(Store(old.store.root).records()) == len(old.store.records()), "the parquet copy holds them too"


def test_the_table_has_the_numbers_that_0_1_0_printed(old: Bench) -> None:
    done = tabbench("table", "--results", old.store.root, "--format", "json")
    assert done.returncode == 0, done.stderr
    now, before = json.loads(done.stdout), json.loads((FIXTURE / "table.json").read_text())

    assert _cells(now) == _cells(before)
    assert len(_cells(now)) == 3


def _cells(table: Any) -> dict[str, list[float]]:
    names = ("mean", "std", "n", "rank")
    return {row["ssl"]: [row["cells"]["wine"][name] for name in names] for row in table["rows"]}


def test_the_same_command_has_nothing_left_to_do(old: Bench) -> None:
    old.store.refresh()
    assert what_to_do(old.plan(**EXPERIMENT), old.store) == {}


def test_what_is_missing_is_run_and_trials_that_ended_well_are_not(old: Bench) -> None:
    """Without the results and one trial of raw features, split 1: that trial and the results are made again."""
    path = old.store.root / "records" / "driver-1.jsonl"
    lines = path.read_text().splitlines()
    raw = [line for line in lines if (r := json.loads(line))["ssl"] == "none" and r["split"] == 1]
    trials = [line for line in raw if json.loads(line)["kind"] == "trial"]
    lost = {trials[-1], *(line for line in raw if line not in trials)}
    assert (len(trials), len(lost)) == (3, 3)
    path.write_text("".join(f"{line}\n" for line in lines if line not in lost))

    summary = old.run(executor=InProcess, ssl=["none"], controls=[], **EXPERIMENT)
    assert summary.failures == []
    new = old.store.root.glob("records/*-*-*.jsonl")
    written = [json.loads(line) for path in new for line in path.read_text().splitlines()]
    assert {record["key"] for record in written} == {json.loads(line)["key"] for line in lost}
    before = {record["key"]: record for record in map(json.loads, lost)}
    for record in written:
        assert record.get("score") == before[record["key"]].get("score")
        assert record.get("value") == before[record["key"]].get("value")


def test_a_record_is_replayed_with_its_plugin(old: Bench) -> None:
    done = tabbench("replay", _result_of(old, "none"), "--results", old.store.root, "--offline", "--plugin", TOY)
    assert done.returncode == 0, done.stderr + done.stdout
    assert [line.split()[-1] for line in done.stdout.splitlines()[1:]] == ["same", "same"]


def test_a_record_of_an_encoder_is_replayed_to_the_last_digit_on_the_same_kind_of_processor(old: Bench) -> None:
    """Matrix products depend on the processor: on another kind the score is the same, but not every last digit."""
    key = _result_of(old, "projection")
    done = tabbench("replay", key, "--results", old.store.root, "--offline", "--plugin", TOY)
    score, predictions, *differences = done.stdout.splitlines()[1:]
    assert score.endswith("same"), done.stderr + done.stdout
    assert done.returncode == (0 if predictions.endswith("same") else 1)
    if done.returncode:
        assert any(line.startswith("  processor was not recorded, is ") for line in differences), done.stdout


def _result_of(old: Bench, ssl: str) -> str:
    records = old.store.records()
    return next(r.key for r in records if (r.kind, r.status, r.ssl, r.model) == ("result", "ok", ssl, "nearest"))
