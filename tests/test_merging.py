"""Results from elsewhere: folders are joined by content."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from elsewhere import copy_of, seed_one
from harness import saved, stable, tabbench, written_records
from typer.testing import CliRunner

from tabbench import UsageError
from tabbench.cli.app import app
from tabbench.results.lines import to_line
from tabbench.results.merge import merge_results
from tabbench.results.store import Store
from tabbench.results.verify import verify_results


def test_records_are_taken_once_and_stay_what_they_were(theirs: Path, tmp_path: Path) -> None:
    copied = copy_of(theirs, tmp_path / "copy")
    store = Store(tmp_path / "ours")
    merged = merge_results([theirs, copied], store)
    assert merged.refused == []
    assert sum(merged.added.values()) == 5
    assert (merged.same, merged.failed) == (5, 1)
    assert stable(store.records()) == stable(Store(theirs).records())
    before = {record["key"]: record["time"] for record in saved(Store(theirs))}
    assert {record["key"]: record["time"] for record in saved(store)} == before
    assert [path.name for path in (store.root / "experiments").iterdir()] == [
        path.name for path in (theirs / "experiments").iterdir()
    ]


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("order", [1, -1])
def test_a_record_that_was_written_again_without_its_seed_is_merged_as_such(
    theirs: Path, tmp_path: Path, order: int, *, at_once: bool
) -> None:
    def tell(record: dict[str, Any]) -> None:
        if seed_one(record):
            record["seed"] = None
            record["time"] += 60

    folders = [theirs, copy_of(theirs, tmp_path / "told", tell)][::order]
    store = Store(tmp_path / "ours")
    for several in [folders] if at_once else [[folder] for folder in folders]:
        merged = merge_results(several, store)
        assert merged.refused == []
    seeds = sorted(str(record.get("seed")) for record in saved(store) if record["ssl"] == "projection")
    assert seeds == ["0", "None"]


def test_a_record_that_does_not_say_when_it_was_written_is_merged(theirs: Path, tmp_path: Path) -> None:
    def forget(record: dict[str, Any]) -> None:
        record["time"] = None
        record["seed"] = None

    store = Store(tmp_path / "ours")
    merge_results([theirs], store)
    merged = merge_results([copy_of(theirs, tmp_path / "timeless", forget)], store)
    assert (merged.refused, sum(merged.added.values())) == ([], 0)


def test_merging_again_changes_nothing(theirs: Path, tmp_path: Path) -> None:
    merge_results([theirs], Store(tmp_path / "ours"))
    files = sorted(path.name for path in (tmp_path / "ours" / "records").iterdir())
    merged = merge_results([theirs], Store(tmp_path / "ours"))
    assert (sum(merged.added.values()), merged.same, merged.refused) == (0, 5, [])
    assert sorted(path.name for path in (tmp_path / "ours" / "records").iterdir()) == files


def test_same_job_with_other_predictions_is_refused_and_named(theirs: Path, tmp_path: Path) -> None:
    def forge(record: dict[str, Any]) -> None:
        if seed_one(record):
            record["hashes"]["predictions"] = "f" * 64
            record["score"] = record["test"]["accuracy"] = 0.999

    forged = copy_of(theirs, tmp_path / "forged", forge)
    merged = merge_results([theirs, forged], Store(tmp_path / "ours"))
    assert sum(merged.added.values()) == 4, "neither of the two is taken"
    (reason,) = merged.refused
    assert "wine/0 projection + nearest seed 1" in reason
    assert "same job, different evidence (score, test, hashes); kept none of them" in reason
    assert "score 0.999, predictions ffffffffff" in reason


def test_what_is_already_there_stays(theirs: Path, tmp_path: Path) -> None:
    def forge(record: dict[str, Any]) -> None:
        if seed_one(record):
            record["hashes"]["predictions"] = "f" * 64

    store = Store(tmp_path / "ours")
    merge_results([theirs], store)
    merged = merge_results([copy_of(theirs, tmp_path / "forged", forge)], store)
    assert sum(merged.added.values()) == 0
    assert f"kept that of {store.root}" in merged.refused[0]
    assert stable(Store(store.root).records()) == stable(Store(theirs).records())


def test_a_success_elsewhere_replaces_a_failure(theirs: Path, tmp_path: Path) -> None:
    def fail(record: dict[str, Any]) -> None:
        if seed_one(record):
            for name in ("score", "hashes", "test"):
                del record[name]
            record.update(status="timeout", error="timeout of 1 s", traceback="")

    failed = copy_of(theirs, tmp_path / "failed", fail)
    store = Store(tmp_path / "ours")
    assert merge_results([failed], store).failed == 2
    merged = merge_results([theirs], store)
    assert sum(merged.added.values()) == 1
    assert stable(Store(store.root).records()) == stable(Store(theirs).records())


def test_flagged_records_are_taken_and_stay_flagged(theirs: Path, tmp_path: Path) -> None:
    def flag(record: dict[str, Any]) -> None:
        if seed_one(record):
            record["flags"] = ["constant prediction"]

    store = Store(tmp_path / "ours")
    merged = merge_results([copy_of(theirs, tmp_path / "flagged", flag)], store)
    assert merged.flagged == 1
    assert [record["flags"] for record in saved(store) if seed_one(record)] == [["constant prediction"]]


def test_curves_can_be_left_out_and_nothing_else_is(theirs: Path, tmp_path: Path) -> None:
    def trained(record: dict[str, Any]) -> None:
        record["diagnostics"] = {"ssl": {"loss": [0.5, 0.4], "best": 2, "parts": {"mask": [1, 2], "epochs": 2}}}

    folder = copy_of(theirs, tmp_path / "trained", trained)
    done = CliRunner().invoke(
        app, ["results", "merge", str(folder), "--results", str(tmp_path / "ours"), "--no-curves"]
    )
    assert done.exit_code == 0, done.output
    wanted = [
        {**record, "diagnostics": {"ssl": {"best": 2, "parts": {"epochs": 2}}}} for record in saved(Store(folder))
    ]
    assert saved(Store(tmp_path / "ours")) == wanted
    assert verify_results(tmp_path / "ours").findings == []
    merged = merge_results([folder], Store(tmp_path / "ours"))
    assert (sum(merged.added.values()), merged.same, merged.refused) == (0, 5, []), "the evidence is still the same"


def test_trials_with_other_values_are_refused(theirs: Path, tmp_path: Path) -> None:
    trial = {"schema": 1, "kind": "trial", "key": "c" * 24, "status": "ok", "number": 3, "value": 0.5, "config": {}}
    folders: list[Path] = []
    for value in (0.5, 0.5, 0.6):
        folder = tmp_path / f"trial{len(folders)}"
        (folder / "records").mkdir(parents=True)
        (folder / "records" / "them.jsonl").write_text(json.dumps({**trial, "value": value}) + "\n")
        folders.append(folder)
    assert sum(merge_results(folders[:2], Store(tmp_path / "same")).added.values()) == 1
    merged = merge_results(folders, Store(tmp_path / "other"))
    assert sum(merged.added.values()) == 0
    assert "trial with value 0.6" in merged.refused[0]


def test_command_says_what_it_took_and_refused(theirs: Path, tmp_path: Path) -> None:
    broken = copy_of(theirs, tmp_path / "broken")
    file = broken / "records" / "them.jsonl"
    record = next(record for record in written_records(theirs) if seed_one(record))
    bare = {**record, "key": "a" * 24, "hashes": {}}
    future = {**record, "key": "b" * 24, "schema": 99}
    more = [b"no json\n", b"[1]\n", b"{}\n", to_line(bare), to_line(future), b'{"key": "torn']
    file.write_bytes(file.read_bytes() + b"".join(more))
    done = tabbench("results", "merge", "broken", "--results", "ours", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stdout == ("broken: 5 new record(s)\nours: 5 new record(s), 0 already there, 1 of jobs that failed\n")
    assert done.stderr.splitlines() == [
        "refused: broken/records/them.jsonl:6: it is not JSON, or incomplete",
        "refused: broken/records/them.jsonl:7: it is not a record",
        "refused: broken/records/them.jsonl:8: it is damaged: it has no digest",
        "refused: broken/records/them.jsonl:9: it has no evidence: there is no hash of its predictions",
        "refused: broken/records/them.jsonl:10: it was written by a newer tabbench (schema 99)",
        "refused: broken/records/them.jsonl:11: it is not JSON, or incomplete",
    ]
    shown = tabbench("table", "--results", "ours", cwd=tmp_path)
    assert "projection" in shown.stdout


@pytest.mark.parametrize(
    ("processor", "other"),
    [("the same", False), ("older name", False), ("not recorded", False), ("another one (family 1, model 1)", True)],
)
def test_different_processors_are_named_as_the_likely_cause(
    theirs: Path, tmp_path: Path, processor: str, *, other: bool
) -> None:
    def forge(record: dict[str, Any]) -> None:
        if seed_one(record):
            place = record["environment"]["place"]
            known = {"the same": place["cpu"], "older name": place["cpu"].partition(" (family")[0], "not recorded": ""}
            record["hashes"]["predictions"] = "f" * 64
            place["cpu"] = known.get(processor, processor)

    forged = copy_of(theirs, tmp_path / "forged", forge)
    (reason,) = merge_results([theirs, forged], Store(tmp_path / "ours")).refused
    assert reason.endswith("; they were made on different processors, which round differently") == other


def test_what_is_no_results_folder_is_refused(theirs: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no results in .*: it has no folder 'records'"):
        merge_results([tmp_path], Store(tmp_path / "ours"))
    with pytest.raises(UsageError, match="is the folder to merge into: give other folders"):
        merge_results([theirs], Store(theirs))


@pytest.mark.parametrize("field", ["test", "validation", "flags", "counts", "config"])
def test_every_score_is_compared(theirs: Path, tmp_path: Path, field: str) -> None:
    """The hash of the predictions and the main score are those of the other; something else is not."""

    def forge(record: dict[str, Any]) -> None:
        if seed_one(record):
            if field == "flags":
                record["flags"] = ["constant prediction"]
            else:
                part = record["config"]["model"] if field == "config" else record[field]
                name = {"counts": "test", "config": "power"}.get(field, "log_loss")
                part[name] += 1

    store = Store(tmp_path / "ours")
    merge_results([theirs], store)
    merged = merge_results([copy_of(theirs, tmp_path / "forged", forge)], store)
    assert f"same job, different evidence ({field}); kept that of {store.root}" in merged.refused[0]


def test_a_folder_that_contradicts_itself_is_not_believed(theirs: Path, tmp_path: Path) -> None:
    copied = copy_of(theirs, tmp_path / "copy")
    record = next(record for record in written_records(theirs) if seed_one(record))
    other = {**record, "test": {**record["test"], "log_loss": 0.001}}
    (copied / "records" / "zz.jsonl").write_bytes(to_line(other))
    merged = merge_results([copied], Store(tmp_path / "ours"))
    assert sum(merged.added.values()) == 4
    assert "zz.jsonl:1: " in merged.refused[0]
    assert merged.refused[0].endswith("the folder contradicts itself in test")
    assert verify_results(copied).findings == [
        f"records/zz.jsonl:1: {record['key'][:10]} contradicts an earlier line in test"
    ]


def test_what_is_not_a_file_is_refused_and_hangs_nothing(theirs: Path, tmp_path: Path) -> None:
    copied = copy_of(theirs, tmp_path / "copy")
    (copied / "experiments").mkdir()
    for folder, suffix in (("records", "jsonl"), ("experiments", "json")):
        os.mkfifo(copied / folder / f"pipe.{suffix}")
        (copied / folder / f"zero.{suffix}").symlink_to("/dev/zero")
    (copied / "experiments" / "list.json").write_text("[1]")
    (copied / "experiments" / "deep.json").write_text("[" * 100_000)
    merged = merge_results([copied], Store(tmp_path / "ours"))
    assert sum(merged.added.values()) == 5
    assert [reason.removeprefix(f"{copied}/") for reason in merged.refused] == [
        "records/pipe.jsonl: pipe.jsonl is not a regular file",
        "records/zero.jsonl: it is a link",
        "experiments/deep.json: deep.json is nested too deeply",
        "experiments/list.json: it is not an experiment",
        "experiments/pipe.json: pipe.json is not a regular file",
        "experiments/zero.json: it is not an experiment",
    ]
