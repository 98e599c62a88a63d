"""All tables of an experiment: by rule, by reading, by name; and what reaches the records."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from harness import Bench

from tabbench import DataError, UsageError
from tabbench.contracts.split_rule import make_rule
from tabbench.data.cache import read_frame, read_unlabelled
from tabbench.data.gather import find_data, name_files, store_frames, with_rule
from tabbench.data.reading import Reading
from tabbench.data.sources import resolve_data, store_frame
from tabbench.experiment.spec import make_spec, read_experiment
from tabbench.registry import Registry, make_registry

N = 120


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """No worker has to start here."""
    return Bench(tmp_path / "results", inline=True)


@pytest.fixture
def registry() -> Registry:
    return make_registry()


def make_frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "x": rng.normal(size=N).round(3),
            "size": [f"{1000 + i * i:,}" for i in range(N)],
            "who": [f"p{i // 4:02d}" for i in range(N)],
            "when": pd.date_range("2020-01-01", periods=N).strftime("%Y-%m-%d"),
            "y": rng.choice(["a", "b"], N),
        }
    )


def write(folder: Path, frame: pd.DataFrame | None = None, name: str = "churn.csv") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (make_frame() if frame is None else frame).to_csv(folder / name, index=False)
    return f"{folder / name}:y"


def test_files_of_one_name_go_by_their_folders(tmp_path: Path, registry: Registry) -> None:
    one, two = write(tmp_path / "a" / "data"), write(tmp_path / "b" / "data", make_frame().head(60))
    three = write(tmp_path / "b" / "more")
    names = [file.name for file in name_files([one, two, three], registry).values()]
    assert names == ["a/data/churn.csv:y", "b/data/churn.csv:y", "more/churn.csv:y"]
    manifests = find_data([one, two], registry)
    assert [(each.name, each.rows) for each in manifests] == [("a/data/churn.csv:y", 120), ("b/data/churn.csv:y", 60)]
    assert [each.name for each in find_data([one], registry)] == ["churn.csv:y"]
    with pytest.raises(UsageError, match="'data/churn.csv:y' and 'more/churn.csv:y' are the same table"):
        find_data([one, three], registry)


def test_how_a_file_is_read_is_for_files_only(tmp_path: Path, registry: Registry) -> None:
    reading = Reading(drop=("who",), numeric=("size",))
    [manifest] = find_data([write(tmp_path)], registry, reading=reading)
    assert list(read_frame(manifest).columns) == ["x", "size", "when", "y"]
    with pytest.raises(UsageError, match="are for files: give --data FILE:TARGET"):
        find_data(["wine"], registry, reading=reading)


def test_a_rule_that_a_table_does_not_allow_is_refused_before_anything_runs(tmp_path: Path, registry: Registry) -> None:
    [wine] = resolve_data("wine", registry)
    for rule, message in [
        (make_rule(time="hew"), "wine: there is no column 'hew'. Did you mean: hue?"),
        (make_rule(group="target"), "wine: 'target' is the target and cannot decide the split"),
        (make_rule(folds="server"), "wine has no folds of its own: --folds server is for openml/t/ID and suites"),
        (make_rule(folds=100), "wine: 100 folds of 178 rows: each needs at least two rows"),
    ]:
        with pytest.raises(DataError) as caught:
            with_rule(wine, rule)
        assert message in str(caught.value)
    assert with_rule(wine, make_rule(time="hue")) == wine


def test_a_frame_is_understood_as_a_file_of_the_same_values(tmp_path: Path, registry: Registry) -> None:
    frame = make_frame()
    frame.loc[3, "y"] = None
    before = frame.copy(deep=True)
    manifest = store_frame("churn", frame, "y")
    pd.testing.assert_frame_equal(frame, before)
    [from_file] = resolve_data(write(tmp_path, frame), registry)
    assert (manifest.name, manifest.source, manifest.key) == ("churn", "a DataFrame", from_file.key)
    assert manifest.unlabelled is not None
    assert len(read_unlabelled(manifest)) == 1
    typed = frame.assign(when=pd.to_datetime(frame["when"]), size=frame["size"].str.replace(",", "").astype(int))
    assert store_frame("churn", typed, "y").key == manifest.key
    assert store_frame("churn", typed.set_index("who"), "y").key != manifest.key
    [one, two] = store_frames({"churn": (frame, "y"), "half": (frame.head(60), "y")}, rule=make_rule(time="when"))
    assert (one.rows, two.rows) == (119, 59)
    with pytest.raises(DataError, match="churn: there is no column 'z'"):
        store_frame("churn", frame, "z")


@pytest.mark.parametrize(
    "given, message",
    [
        ({"time": "a", "folds": 3}, "--time and --folds cannot be combined"),
        ({"time": "a", "splits": 9}, "at most 8 windows"),
        ({"seeds": 1_000_000_000}, "Bad entry 'seeds' in the experiment: give at most 10000"),
        ({"task": "regresion"}, "Unknown task 'regresion'. Did you mean: regression?"),
        ({"drop": ["a"], "numeric": ["a"]}, "'a' is both dropped and used"),
    ],
)
def test_what_an_experiment_cannot_ask_for_is_said(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_spec({"ssl": ["none"], "model": ["linear"], **given})
    assert message in str(caught.value)


def test_an_experiment_file_can_say_how_rows_are_split(tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    file.write_text('ssl="none"\nmodel="linear"\nfolds="server"\nduplicates="keep"\ntransductive=false\ndrop=["a"]\n')
    assert make_spec(read_experiment(file)).rule == make_rule(folds="server")
    for line, message in [
        ("transductive = 1", "transductive = 1: expected true or false"),
        ('folds = "many"', "folds = 'many': expected a whole number"),
    ]:
        file.write_text(line)
        with pytest.raises(UsageError, match=message):
            read_experiment(file)


def test_a_deeply_nested_file_is_refused_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "deep.toml"
    file.write_text("data = " + "[" * 100_000 + "]" * 100_000)
    with pytest.raises(UsageError, match="deep.toml is not an experiment: its tables are nested too deeply"):
        read_experiment(file)


# What reaches the plan and the records.


def test_the_default_split_keeps_the_keys_of_the_first_release(bench: Bench) -> None:
    """Nothing that is new since version 0.1.0 is said; tests of its results folder compare the keys."""
    plan = bench.plan(ssl=["none"], model=["linear"], splits=1)
    [step] = plan.records
    assert step.payload.split.model_dump() == {"rule": "80/10/10", "seed": 0, "rows": None, "weights": ""}
    assert step.planned is not None
    assert step.planned.split_rule is None


def test_rules_make_their_splits_and_keys_of_their_own(bench: Bench, tmp_path: Path) -> None:
    reference = write(tmp_path, make_frame().assign(part=np.arange(N) % 3))
    wanted = {"data": [reference], "ssl": ["none"], "splits": 2}
    counts = {}
    keys: list[str] = []
    rules: dict[str, dict[str, Any]] = {
        "random": {},
        "folds": {"folds": 4},
        "time": {"time": "when"},
        "group": {"group": "who"},
        "column": {"split_column": "part"},
        "duplicates": {"duplicates": "group"},
    }
    for name, rule in rules.items():
        plan = bench.plan(**wanted, **rule)
        counts[name] = len(plan.records)
        keys += [step.key for step in plan.records]
        told = {step.planned.split_rule for step in plan.records if step.planned is not None}
        assert (None in told) is (name == "random")
    assert counts == {"random": 2, "folds": 4, "time": 2, "group": 2, "column": 3, "duplicates": 2}
    assert len(set(keys)) == len(keys)


def test_records_carry_the_rule_the_notes_and_the_flags_of_the_data(bench: Bench, tmp_path: Path) -> None:
    frame = make_frame().assign(copy=lambda frame: frame["y"].map({"a": "left", "b": "right"}))
    frame = pd.concat([frame] * 2, ignore_index=True)
    bench.run(data=[write(tmp_path, frame)], ssl=["none"], time="when")
    bench.run(data=[write(tmp_path, frame)], ssl=["none"])
    by_rule = {record.split_rule: record for record in bench.store.records()}
    assert set(by_rule) == {None, "by time when"}
    random, time = by_rule[None], by_rule["by time when"]
    assert random.notes is not None
    assert time.notes is not None
    assert "'copy' determines the target of every row: is it the answer in disguise?" in random.notes
    assert any("test rows (" in note and "also occur in training" in note for note in random.notes)
    assert "test rows also occur in training" in (random.flags or [])
    assert "'when' decides the split and is not a feature" in time.notes
    assert any(note.startswith("only 24 test rows") for note in time.notes)
    assert time.counts is not None
    assert time.counts.features == 4
