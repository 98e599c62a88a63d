"""Results from elsewhere: folders are joined by content, and a record can be run again."""

import json
import os
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import TOYS, Bench, saved, stable, tabbench, written_records
from typer.testing import CliRunner

from tabbench import UsageError
from tabbench.cli.app import app
from tabbench.results.cleaning import find_drafts, sweep_drafts
from tabbench.results.copy import open_copy, to_arrow, write_copy
from tabbench.results.drivers import Presence
from tabbench.results.lines import to_line
from tabbench.results.merge import merge_results
from tabbench.results.record import COLUMNS, Record
from tabbench.results.replay import prepare_replay
from tabbench.results.store import Store
from tabbench.results.verify import choose_cells, verify_results


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results: none and projection, two seeds each, and a failure."""
    folder = tmp_path_factory.mktemp("theirs") / "results"
    bench = Bench(folder, inline=True)
    bench.run(seeds=2)
    bench.run(ssl=["none"], seeds=1, set={"nearest": {"behave": {"0": "fail"}}})
    bench.store.save_experiment({"data": ["wine"], "categorical": [], "ssl": ["projection"], "model": ["nearest"]})
    return folder


def copy_of(folder: Path, target: Path, change: Callable[[dict[str, Any]], object] = lambda record: None) -> Path:
    """The same results, changed record by record."""
    (target / "records").mkdir(parents=True)
    lines = []
    for record in written_records(folder):
        change(record)
        lines.append(to_line(record))
    (target / "records" / "them.jsonl").write_bytes(b"".join(lines))
    return target


def seed_one(record: dict[str, Any]) -> bool:
    return bool(record["seed"] == 1 and record["ssl"] == "projection")


# Merging.


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
    with pytest.raises(UsageError, match="is not a results folder: it has no folder 'records'"):
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


# Verifying.


def verified(*arguments: str | Path) -> tuple[int, list[str]]:
    done = CliRunner().invoke(app, ["results", "verify", *map(str, arguments)])
    return done.exit_code, done.output.splitlines()


def test_a_sound_folder_verifies_with_and_without_artefacts(theirs: Path, tmp_path: Path) -> None:
    code, lines = verified(theirs)
    assert (code, lines) == (
        0,
        [
            f"{theirs}: 4 result(s), 0 trial(s), 1 failure(s)",
            "2 artefact(s), 1 experiment(s), 0 replayed",
            "no problems found",
        ],
    )
    published = tmp_path / "published"
    shutil.copytree(theirs / "records", published / "records")
    assert verified(published)[0] == 0
    done = CliRunner().invoke(app, ["results", "verify", str(published), "--json"])
    told = json.loads(done.output)
    assert (told["ok"], told["results"], told["artefacts"], told["findings"]) == (True, 4, 0, [])


def test_results_of_0_1_0_verify(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parent / "fixtures" / "results_0_1_0" / "results", tmp_path / "old")
    found = verify_results(tmp_path / "old")
    assert found.findings == []
    assert found.without_digest > 0


@pytest.mark.parametrize(
    "pattern, finding",
    [
        ("records/*.jsonl", "it is damaged: its digest does not match"),
        ("records.parquet", "records.parquet: it is damaged, or lines it was made from are gone"),
        ("artefacts/encode/*/train.npy", "it is damaged (train.npy)"),
        ("artefacts/pretrain/*/step.json", "it is damaged (step.json)"),
        ("experiments/*.json", "it is damaged: its name is not the hash of its content"),
    ],
)
def test_a_changed_byte_is_found(theirs: Path, tmp_path: Path, pattern: str, finding: str) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(theirs, folder)
    path = next(folder.glob(pattern))
    data = bytearray(path.read_bytes())
    place = data.find(b'"score": ') + 9 if path.suffix == ".jsonl" else len(data) // 2
    data[place] = data[place] ^ 1 if path.suffix != ".json" else ord("7") if data[place] != ord("7") else ord("8")
    path.write_bytes(bytes(data))
    code, lines = verified(folder)
    assert code == 3
    assert any(line.startswith("finding: ") and finding in line for line in lines), lines


def test_a_copy_with_other_rows_is_found(theirs: Path, tmp_path: Path) -> None:
    """Whoever can write digests can forge a copy; its rows are still compared with the lines."""
    folder = tmp_path / "folder"
    shutil.copytree(theirs, folder)
    opened = open_copy(folder)
    assert opened is not None
    rows = opened.read(list(COLUMNS)).to_pylist()
    rows[0]["score"] = 0.999
    nested = [
        {name: json.loads(value) if COLUMNS[name] == "json" and value else value for name, value in row.items()}
        for row in rows
    ]
    write_copy(folder, to_arrow(nested), lambda: opened.included)
    assert verify_results(folder).findings == ["records.parquet: its rows are not those of the lines"]


def test_lines_that_are_cut_off_are_found_by_the_copy(theirs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(theirs, folder)
    file = next((folder / "records").glob("*.jsonl"))
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    assert verified(folder)[0] == 3


def test_random_cells_are_run_again(theirs: Path, tmp_path: Path) -> None:
    code, lines = verified(theirs, "--replay", "1", "--plugin", TOYS, "--offline")
    assert (code, lines[-1]) == (0, "no problems found")
    found = verify_results(theirs)
    assert len(choose_cells(found, 9, 0)) == 4
    assert len({tuple(record.key for record in choose_cells(found, 2, seed)) for seed in range(9)}) > 1

    def forge(record: dict[str, Any]) -> None:
        if record["status"] == "ok":
            record["score"] = record["test"]["accuracy"] = 0.999

    forged = copy_of(theirs, tmp_path / "forged", forge)
    code, lines = verified(forged, "--replay", "1", "--plugin", TOYS, "--offline")
    assert code == 3
    assert "accuracy was 0.999, is " in lines[-2]
    code, lines = verified(theirs, "--replay", "1")
    assert code == 3
    assert "it cannot be run again: the ssl plugin of the record was the file" in lines[-2] or "the model" in lines[-2]


# Cleaning.


def test_clean_keeps_what_records_need(theirs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(theirs, folder)
    (encoder,) = (folder / "artefacts" / "pretrain").iterdir()
    needed = sorted(str(path) for path in (folder / "artefacts").glob("*/*"))
    other = encoder.with_name("e" * 24)
    shutil.copytree(encoder, other)
    about = json.loads((other / "step.json").read_text())
    (other / "step.json").write_text(json.dumps({**about, "encoder": "0" * 64}))
    (folder / "scratch" / "job").mkdir(parents=True)
    (folder / "scratch" / "job" / "checkpoint").write_bytes(b"x" * 2**20)
    for draft in ("records/.1", "experiments/.2", "artefacts/pretrain/.3", ".records-4.parquet", "drivers/.5"):
        (folder / draft).parent.mkdir(exist_ok=True)
        (folder / draft).write_bytes(b"x")
    before = stable(Store(folder).records())
    everything = sorted(folder.rglob("*"))
    done = CliRunner().invoke(app, ["results", "clean", str(folder), "--dry-run"])
    assert done.output.splitlines() == [
        "artefact: 1, 0.0 MB",
        "scratch: 1, 1.0 MB",
        "draft: 5, 0.0 MB",
        f"would free 1.0 MB in {folder}",
    ]
    assert sorted(folder.rglob("*")) == everything
    done = CliRunner().invoke(app, ["results", "clean", str(folder)])
    assert done.output.splitlines()[-1] == f"freed 1.0 MB in {folder}"
    assert sorted(str(path) for path in (folder / "artefacts").glob("*/*")) == needed
    assert stable(Store(folder).records()) == before
    assert not list(find_drafts(folder))


def test_clean_waits_for_drivers(theirs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(theirs, folder)
    presence = Presence(folder)
    try:
        done = CliRunner().invoke(app, ["results", "clean", str(folder)])
        assert isinstance(done.exception, UsageError)
        assert f"a driver works here ({presence.id})" in str(done.exception)
    finally:
        presence.close("done")


@pytest.mark.parametrize("others", [False, True], ids=["alone", "beside others"])
def test_a_run_sweeps_the_drafts_of_dead_drivers(tmp_path: Path, others: bool) -> None:
    drafts = [tmp_path / "artefacts" / "pretrain" / ".key-1" / "state", tmp_path / "experiments" / ".2"]
    for path in drafts:
        path.parent.mkdir(parents=True)
        path.write_text("x")
        for each in (path, path.parent):
            os.utime(each, (time.time() - 60, time.time() - 60))
    old = tmp_path / "records" / ".3"
    old.parent.mkdir()
    old.write_text("x")
    os.utime(old, (0, 0))
    alive = Presence(tmp_path) if others else None
    own = Presence(tmp_path)
    fresh = tmp_path / "experiments" / ".4"
    fresh.write_text("x")
    sweep_drafts(tmp_path, own.id)
    assert [path.exists() for path in drafts] == [others, others]
    assert not old.exists()
    assert fresh.exists()
    for presence in filter(None, (alive, own)):
        presence.close("done")


# Replaying.


def key_of(folder: Path, **wanted: Any) -> str:
    found = [
        record["key"]
        for record in written_records(folder)
        if all(record.get(name) == value for name, value in wanted.items())
    ]
    assert len(found) == 1
    return str(found[0])


def test_replay_prints_the_command_and_finds_the_same(theirs: Path) -> None:
    key = key_of(theirs, ssl="projection", seed=1)
    done = tabbench("replay", key[:8], "--results", theirs, "--offline", "--plugin", TOYS)
    assert done.returncode == 0, done.stderr + done.stdout
    command, score, predictions = done.stdout.splitlines()
    assert command == (
        "tabbench run --ssl projection --model nearest --data wine --preset quick --splits 1 --seeds 2 "
        f"--trials 0 --ssl-trials 0 --controls '' --plugin {shlex.quote(str(TOYS))}"
    )
    assert score.endswith("same")
    assert predictions.endswith("same")


def test_the_printed_command_makes_the_record_itself(theirs: Path, tmp_path: Path) -> None:
    record = next(record for record in written_records(theirs) if seed_one(record))
    command = shlex.split(prepare_replay(Record.from_json(record), theirs, [TOYS]).command)
    done = tabbench(*command[1:], "--results", tmp_path / "again", "--executor", "inline", "--offline")
    assert done.returncode == 0, done.stderr
    again = {each["key"]: each for each in written_records(tmp_path / "again")}
    assert again[record["key"]]["hashes"] == record["hashes"]


def test_replay_of_another_result_ends_with_code_1(theirs: Path, tmp_path: Path) -> None:
    def forge(record: dict[str, Any]) -> None:
        if seed_one(record):
            record["score"] = 0.999
            record["environment"]["versions"]["torch"] = "0.1"

    forged = copy_of(theirs, tmp_path / "forged", forge)
    key = key_of(forged, ssl="projection", seed=1)
    done = tabbench("replay", key, "--results", forged, "--offline", "--plugin", TOYS, "--executor", "inline")
    assert done.returncode == 1, done.stderr
    assert "accuracy     stored 0.999" in done.stdout
    assert "DIFFERENT" in done.stdout
    assert "torch was 0.1, is" in done.stdout


def test_settings_that_differ_from_the_preset_are_in_the_command(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "results", inline=True)
    bench.run(ssl=["untrained:projection"], controls=[], rows=100, set={"projection": {"sleep": 0.01}})
    (record,) = bench.records()
    replayed = prepare_replay(Record.from_json(record), bench.store.root, [TOYS])
    command = replayed.command
    assert "--ssl untrained:projection " in command
    assert "--rows 100" in command
    assert "--set projection.sleep=0.01" in command
    assert "nearest." not in command
    manifest = bench.plan().records[0].payload.manifest
    plan, last = replayed.plan(manifest)
    assert last.key == record["key"]
    assert {step.kind for step in plan.steps.values()} == {"pretrain", "encode", "fit"}


def test_a_model_without_seeds_is_replayed_whatever_seed_an_older_record_has(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "results", inline=True)
    bench.run(ssl=["none"], model=["linear"], controls=[], seeds=3)
    (record,) = bench.records()
    (manifest,) = {step.payload.manifest.key: step.payload.manifest for step in bench.plan().records}.values()
    for seed in (None, 0, 2):
        replayed = prepare_replay(Record.from_json({**record, "seed": seed}), bench.store.root, [TOYS])
        assert replayed.plan(manifest)[1].key == record["key"]


def test_a_file_of_data_is_found_by_the_experiment(theirs: Path, tmp_path: Path) -> None:
    record = {**next(record for record in written_records(theirs) if seed_one(record)), "data": "mine.csv:y"}
    store = Store(tmp_path / "results")
    store.save_experiment({"data": ["tables/mine.csv:y"], "categorical": ["colour"]})
    spec = prepare_replay(Record.from_json(record), store.root, [TOYS]).spec
    assert spec.data == ("tables/mine.csv:y",)
    assert spec.categorical == ("colour",)
    moved = prepare_replay(Record.from_json(record), store.root, [TOYS], data="moved/mine.csv:y").spec
    assert moved.data == ("moved/mine.csv:y",)


def test_of_files_with_one_name_the_one_with_the_content_is_replayed(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for folder, shift in (("a", 0), ("b", 1)):
        (tmp_path / folder).mkdir()
        rows = "\n".join(f"{i % 7},{(i + shift) % 3},{'ab'[i % 2]}" for i in range(60))
        (tmp_path / folder / "t.csv").write_text(f"x,colour,y\n{rows}\n")
        toys = ("--plugin", TOYS, "--executor", "inline", "--categorical", "colour")
        run = ("run", "--ssl", "none", "--model", "linear", "--preset", "quick", "--offline", "-q", *toys)
        assert tabbench(*run, "--data", f"{tmp_path / folder}/t.csv:y", "--results", results).returncode == 0
    found = [prepare_replay(record, results).spec for record in Store(results).records()]
    assert {Path(spec.data[0]).parent.name for spec in found} == {"a", "b"}
    assert {spec.categorical for spec in found} == {("colour",)}


def test_what_cannot_be_replayed_is_said_in_one_line(theirs: Path, tmp_path: Path) -> None:
    good = next(record for record in written_records(theirs) if seed_one(record))
    failed = next(record for record in written_records(theirs) if record["status"] == "failed")
    with pytest.raises(UsageError, match="this job ended with 'failed'"):
        prepare_replay(Record.from_json(failed), theirs)
    with pytest.raises(UsageError, match="this is a tuning trial"):
        prepare_replay(Record.from_json({**good, "kind": "trial"}), theirs)
    manifest = Bench(tmp_path / "r").plan().records[0].payload.manifest
    other = {**good, "hashes": {**good["hashes"], "data": "0" * 24}}
    with pytest.raises(UsageError, match="the data differ from the record's"):
        prepare_replay(Record.from_json(other), theirs, [TOYS]).plan(manifest)
    done = tabbench("replay", "0000", "--results", theirs)
    assert done.returncode == 2
    assert "no record '0000'" in done.stderr


@pytest.mark.parametrize("command", [("replay", "--print"), ("replay",), ("fit",)])
def test_a_file_that_only_a_record_names_is_never_imported(
    theirs: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    trap = tmp_path / "trap.py"
    trap.write_text(f"open({str(tmp_path / 'marker')!r}, 'w').close()\n")

    def forge(record: dict[str, Any]) -> None:
        for origin in record["plugins"].values():
            origin["distribution"] = str(trap)

    forged = copy_of(theirs, tmp_path / "forged", forge)
    first, *options = command
    asked: tuple[str | Path, ...] = (
        first,
        key_of(forged, ssl="projection", seed=1),
        *options,
        "--results",
        forged,
        "--offline",
    )
    done = tabbench(*asked, cwd=tmp_path)
    assert done.returncode == 2
    assert "a record never decides what is run, so give the file with --plugin FILE" in done.stderr
    assert not (tmp_path / "marker").exists()

    done = tabbench(*asked, "--plugin", trap, cwd=tmp_path)
    assert done.returncode == 2, "its content is not that of the record's plugin"
    assert f"{trap} is at " in done.stderr
    assert not (tmp_path / "marker").exists()


def test_a_tuned_record_is_replayed_with_the_settings_that_were_found(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "results", inline=True)
    bench.run(trials=3, ssl_trials=2, controls=[])
    (record,) = [record for record in bench.records() if record["kind"] == "result"]
    assert record["tuning"]
    done = tabbench(
        "replay", record["key"], "--results", bench.store.root, "--offline", "--plugin", TOYS, "--executor", "inline"
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "--trials 0 --ssl-trials 0" in done.stdout
