"""A record can be run again, and says how."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from elsewhere import copy_of, key_of, seed_one
from harness import INLINE, TOYS, Bench, tabbench, written_records

from tabbench import UsageError
from tabbench.cli.options import split_names
from tabbench.experiment.settings import choose
from tabbench.experiment.spec import make_spec
from tabbench.registry import make_registry
from tabbench.results.record import Record
from tabbench.results.replay import option_words, prepare_replay
from tabbench.results.store import Store

PAIR = (("ssl", "vime"), ("model", "linear"))


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


def test_the_settings_of_a_record_do_not_depend_on_the_name_of_its_table() -> None:
    """``--preset paper`` has settings for jannis; with its file at another place, they were those for any table."""
    registry = make_registry()
    spec = make_spec({"ssl": ["vime"], "model": ["linear"], "preset": "paper"})
    config = {kind: choose(spec, registry, kind, name, "jannis").config for kind, name in PAIR}
    told = {
        "key": "0" * 24, "kind": "result", "status": "ok", "ssl": "vime", "model": "linear", "data": "jannis",
        "split": 0, "preset": "paper", "config": config, "protocol": "frozen", "hashes": {"data": "0"},
        "metric": "accuracy", "score": 0.5, "test": {"accuracy": 0.5}, "validation": {"accuracy": 0.5},
    }  # fmt: skip
    for data in (None, "mine.csv:class"):
        replayed = prepare_replay(Record.from_json(told), Path("nowhere"), data=data).spec
        for kind, name in PAIR:
            assert choose(replayed, registry, kind, name, data or "jannis").config == config[kind]


def test_rows_without_a_target_are_used_as_for_the_record(tmp_path: Path) -> None:
    """They are no part of a table's content, so the oldest experiment with the file decided for all records."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=120), "b": rng.normal(size=120), "y": ["u", "v"] * 45 + [None] * 30})
    frame.to_csv(tmp_path / "t.csv", index=False)
    run = ("run", "--data", tmp_path / "t.csv:y", "--ssl", "projection", "--model", "nearest", "--controls", "", "-q")
    for how in ((), ("--unlabelled", "drop")):
        done = tabbench(*run, "--preset", "quick", *how, *INLINE, "--results", tmp_path / "results")
        assert done.returncode == 0, done.stderr
    records = [Record.from_json(each) for each in written_records(tmp_path / "results")]
    pretrained = {record.counts.pretraining for record in records if record.counts}
    assert pretrained == {72, 102}
    for record in records:
        spec = prepare_replay(record, tmp_path / "results", [TOYS]).spec
        assert record.counts is not None
        assert spec.unlabelled == {72: "drop", 102: "keep"}[record.counts.pretraining]


def test_commas_within_names_are_marked_in_the_command(tmp_path: Path) -> None:
    assert option_words("drop", ("a,b", "c")) == ["--drop", "a\\,b,c"]
    assert split_names(option_words("drop", ("a,b", "c"))[1]) == ["a,b", "c"]


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
    with pytest.raises(UsageError, match="the data differ from the record's: .*; give the record's own table"):
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
    assert "a record never decides which code runs, so give the file with --plugin FILE" in done.stderr
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
