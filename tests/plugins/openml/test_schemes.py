"""``openml:ID``, ``openml/t/ID`` and ``openml/s/ID``: any dataset, task and suite of OpenML."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from harness import Bench, InProcess
from openml_server import ROWS, Serve, Served, ServedTask, World
from tabbench_openml import tabbench_data_schemes
from typer.testing import CliRunner

from tabbench import DataError, UsageError
from tabbench.cli.data import app
from tabbench.contracts.split_rule import make_rule
from tabbench.data.cache import read_folds
from tabbench.data.gather import find_data, freeze
from tabbench.data.prepare import open_split
from tabbench.data.sources import find_scheme, find_sources, peek_data, resolve_data
from tabbench.registry import Registry
from tabbench.results.tabulate import tabulate
from tabbench.running.driver import run_plan
from tabbench.running.request import Conditions, plan_request, read_request


def make_world(frame: pd.DataFrame) -> World:
    """Three tables and two tasks on each of two; rows 0..59 in three folds, twice."""
    numbers = frame.assign(count=frame["count"] * 1.5)
    folds = np.stack([np.arange(ROWS) % 3, np.arange(ROWS) // 20], axis=1)
    hold_out = np.where(np.arange(ROWS) < 20, 0, -1)[:, None]
    tables = [
        Served(frame, "class", id=61),
        Served(numbers, "count", id=62),
        Served(frame, "", id=63),
    ]
    tasks = {
        7: ServedTask(61, "class", folds),
        8: ServedTask(62, "count", hold_out, is_regression=True),
        9: ServedTask(61, "class", folds, is_clustering=True),
    }
    return World(tables, tasks, {5: [7, 8]})


@pytest.mark.usefixtures("in_process")
def test_a_dataset_is_had_by_its_number(frame: pd.DataFrame, whole: Registry, serve: Serve) -> None:
    world = make_world(frame)
    with serve(world):
        [manifest] = resolve_data("openml:61", whole)
    assert (manifest.name, manifest.target, manifest.task) == ("openml:61", "class", "multiclass")
    assert manifest.categorical == ("colour", "open")
    assert (manifest.licence, manifest.citation) == ("CC BY 4.0", "A paper")
    assert manifest.homepage == "https://www.openml.org/d/61"
    assert manifest.notes == ("classification, because OpenML says that 'class' holds categories",)
    assert resolve_data("OpenML:61", whole, offline=True) == [manifest]
    with serve(world):
        [other] = resolve_data("openml:61:width", whole)
    assert (other.name, other.target, other.task) == ("openml:61:width", "width", "regression")


@pytest.mark.usefixtures("in_process")
def test_a_task_has_its_target_and_its_folds(frame: pd.DataFrame, whole: Registry, serve: Serve) -> None:
    world = make_world(frame)
    with serve(world):
        [manifest] = resolve_data("openml/t/7", whole)
    assert world.requests == [
        "/api/v1/xml/task/7",
        "/api/v1/xml/data/61",
        "/api/v1/xml/data/features/61",
        "/api/v1/xml/data/qualities/61",
        "/files/61.arff",
        "/api_splits/get/7/Task_7_splits.arff",
    ]
    assert (manifest.name, manifest.target, manifest.n_folds) == ("openml/t/7", "class", 6)
    folds = read_folds(manifest)
    assert folds is not None
    assert folds.tolist() == world.tasks[7].folds.tolist()
    split = open_split(manifest, 4, rule=make_rule(folds="server"))
    assert split.rows.test.tolist() == list(range(20, 40)), "fold 1 of repeat 1"
    with pytest.raises(DataError, match="openml/t/7 is not cached|openml/t/8 is not cached"):
        resolve_data("openml/t/8", whole, offline=True)


@pytest.mark.usefixtures("in_process")
def test_a_hold_out_task_is_one_split(frame: pd.DataFrame, whole: Registry, serve: Serve) -> None:
    with serve(make_world(frame)):
        [manifest] = resolve_data("openml/t/8", whole)
    assert (manifest.task, manifest.n_folds) == ("regression", 1)
    assert open_split(manifest, 0, rule=make_rule(folds="server")).rows.test.tolist() == list(range(20))


@pytest.mark.usefixtures("in_process")
def test_a_suite_is_its_tasks_and_its_list_is_kept(
    frame: pd.DataFrame, whole: Registry, serve: Serve, tmp_path: Path
) -> None:
    world = make_world(frame)
    lines: list[str] = []
    with serve(world):
        manifests = resolve_data("openml/s/5", whole, progress=lines.append)
        world.suites[5] = [7]
        assert resolve_data("openml/s/5", whole) == manifests, "a suite stays what it was"
    assert [manifest.name for manifest in manifests] == ["openml/t/7", "openml/t/8"]
    assert lines == ["loading openml/t/7 (1 of 2)", "loading openml/t/8 (2 of 2)"]
    assert world.requests.count("/api/v1/xml/study/5") == 1
    assert resolve_data("openml/s/5", whole, offline=True) == manifests
    assert peek_data("openml/s/5", whole) == [(manifest.name, manifest) for manifest in manifests]
    with serve(world):
        now = find_sources("openml/s/5", whole, refresh=True)
    assert [source.name for source in now] == ["openml/t/7"]
    left = sorted(str(path.relative_to(tmp_path / "cache")) for path in (tmp_path / "cache" / "openml").rglob("*"))
    assert left == ["openml/suites", "openml/suites/5.json"]


@pytest.mark.usefixtures("in_process")
def test_a_suite_in_a_results_folder_stays_what_it_was(frame: pd.DataFrame, whole: Registry, serve: Serve) -> None:
    world = make_world(frame)
    with serve(world):
        manifests = find_data(["openml/s/5"], whole)
        frozen = freeze(["openml/s/5"], manifests, whole)
        assert [(table.name, table.reference) for table in frozen] == [
            ("openml/t/7", "openml/s/5"),
            ("openml/t/8", "openml/s/5"),
        ]
        assert [table.sha256 for table in frozen] == [manifest.sha256 for manifest in manifests]
        world.suites[5] = [8]
        find_sources("openml/s/5", whole, refresh=True)
        lines: list[str] = []
        assert find_data(["openml/s/5"], whole, frozen=frozen, say=lines.append) == manifests
        assert lines == [
            "openml/s/5 has changed since this experiment was planned; the run uses its 2 tables from then"
        ]
        assert find_data(["OpenML/s/5"], whole, frozen=frozen) == manifests, "however the suite is written"
        frozen[1] = replace(frozen[1], key="0" * 64)
        with pytest.raises(DataError, match="openml/t/8 is not the table these results were made with"):
            find_data(["openml/s/5"], whole, frozen=frozen)


@pytest.mark.usefixtures("in_process")
def test_a_suite_is_run_on_the_folds_of_the_server(frame: pd.DataFrame, serve: Serve, bench: Bench) -> None:
    with serve(make_world(frame)):
        resolve_data("openml/s/5", bench.registry)
    summary = bench.run(data=["openml/s/5"], ssl=["none"], folds="server", executor=InProcess)
    assert not summary.failures
    records = list(bench.store.records())
    assert {(record.data, record.split) for record in records} == {
        *(("openml/t/7", number) for number in range(6)),
        ("openml/t/8", 0),
    }
    assert {record.split_rule for record in records} == {"folds of the server"}
    assert {record.counts.test for record in records if record.counts is not None} == {20}


@pytest.mark.usefixtures("in_process")
def test_a_suite_of_five_tables_goes_from_the_server_to_a_table(
    frame: pd.DataFrame, serve: Serve, bench: Bench
) -> None:
    """As ``tabbench run --data openml/s/5 --ssl projection --model nearest`` does it."""
    world = World([], {}, {5: [11, 12, 13, 14, 15]})
    folds = (np.arange(ROWS) % 3)[:, None]
    for number in world.suites[5]:
        target, changed = ("count", "width") if number > 13 else ("class", "count")
        table = frame.assign(**{changed: frame[changed] * number})
        world.datasets.append(Served(table, target, id=number))
        world.tasks[number] = ServedTask(number, target, folds, is_regression=target == "count")
    given = {"ssl": ["projection"], "model": ["nearest"], "data": ["openml/s/5"], "preset": "quick"}
    spec, launcher = read_request(given, bench.registry, Conditions(jobs=1, device="cpu"))
    with serve(world):
        plan = plan_request(spec, bench.registry, bench.store, lambda line: None)
    summary = run_plan(plan, bench.store, replace(launcher, start=InProcess), bench.watcher)
    assert not summary.failures
    made = tabulate(bench.store, only=[step.key for step in plan.records], names=plan.names)
    assert made.units == {f"openml/t/{number}": "rmse" if number > 13 else "accuracy" for number in world.suites[5]}
    assert {row.ssl: [cell.n for cell in row.cells.values()] for row in made.rows} == {
        "none": [1] * 5,
        "projection": [1] * 5,
    }
    kept = bench.store.frozen_tables()
    assert [table.name for table in kept] == list(made.units)
    assert all(len(table.sha256) == 64 for table in kept)


def test_suites_go_by_the_names_of_papers(whole: Registry) -> None:
    [scheme] = tabbench_data_schemes()
    assert scheme.shortcuts["cc18"] == "openml/s/99"
    found = {name: find_scheme(name, whole) for name in ("CC18", "tabarena", "openml:3", "openml/t/3", "openmlx:3")}
    meant = {name: each[1] for name, each in found.items() if each is not None}
    assert meant == {
        "CC18": "openml/s/99",
        "tabarena": "openml/s/457",
        "openml:3": "openml:3",
        "openml/t/3": "openml/t/3",
    }
    assert peek_data("cc18", whole) == [("cc18", None)]
    with pytest.raises(UsageError, match="Unknown dataset 'cc19'. Did you mean: cc18?"):
        find_sources("cc19", whole)


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    "reference, message",
    [
        ("openml:99", "cannot load openml:99 from .*: the server has no dataset with the id 99$"),
        ("openml/t/99", "the server has no task with the id 99$"),
        ("openml/s/99", "cannot load suite 99 from .*: the server has no suite with the id 99$"),
        (
            "openml:63",
            r"OpenML 63 \(standin\) names no target: write openml:63:TARGET with one of width, colour, count",
        ),
        ("openml:61:clas", r"OpenML 61 \(standin\) has no column 'clas'. Did you mean: class\? Its columns: width, "),
        ("openml/t/9", "task 9 is of the type Clustering; tabbench runs classification and regression"),
        ("openml:64", r"dataset 64 \(standin\) is sparse, which tabbench cannot read: save the table as a file and"),
        ("openml:65", "dataset 65 is private, and tabbench does not log in: save the table as a file and use FILE"),
        ("openml/t/10", "the dataset of task 10 is private, and tabbench does not log in"),
        ("openml/t/12", "the server has no dataset that task 12 is about$"),
    ],
)
def test_what_cannot_be_had_is_said_in_a_sentence(
    reference: str, message: str, frame: pd.DataFrame, whole: Registry, serve: Serve
) -> None:
    world = make_world(frame)
    world.datasets += [Served(frame, "class", id=64, is_sparse=True)]
    world.datasets += [Served(frame, "class", id=65, is_private=True)]
    world.tasks |= {10: replace(world.tasks[7], dataset=65), 12: replace(world.tasks[7], dataset=99)}
    with serve(world), pytest.raises(DataError, match=message) as caught:
        resolve_data(reference, whole)
    assert "\n" not in str(caught.value)
    described = [path for path in world.requests if path.startswith(("/api/v1/xml/data/6", "/api/v1/xml/task"))]
    assert len(described) <= 2, "what will not change is not tried again"


@pytest.mark.usefixtures("in_process")
def test_without_an_answer_the_message_says_how_to_do_without_network(
    frame: pd.DataFrame, whole: Registry, serve: Serve
) -> None:
    with serve(World([Served(frame, "class", failures=9)])), pytest.raises(DataError) as caught:
        resolve_data("openml:61", whole)
    assert "On a machine with network access, run `tabbench data fetch openml:61`" in str(caught.value)


@pytest.mark.usefixtures("in_process")
def test_a_download_removes_what_a_killed_one_of_the_same_table_left(
    frame: pd.DataFrame, whole: Registry, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads = tmp_path / "cache" / "openml"
    remove = shutil.rmtree
    with serve(make_world(frame)):
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # a killed process removes nothing
            resolve_data("openml:61", whole)
            resolve_data("openml:62", whole)
        left = {path.name for path in downloads.iterdir()}
        assert len(left) == 2
        remove(tmp_path / "cache" / "schemes")
        resolve_data("openml:61", whole)
    assert {path.name for path in downloads.iterdir()} == {name for name in left if name.startswith("dataset-62-")}


@pytest.mark.parametrize("reference", ["openml:", "openml:adult", "openml/x/3", "openml/t/", "openml/t/3x"])
def test_other_forms_are_refused_with_those_there_are(reference: str, whole: Registry) -> None:
    with pytest.raises(
        UsageError, match=r"is not a reference to OpenML: write openml:ID, openml:ID:TARGET, openml/t/ID"
    ):
        find_sources(reference, whole)


@pytest.mark.slow
def test_fetching_a_suite_loads_several_at_a_time_goes_on_after_a_failure_and_resumes(
    frame: pd.DataFrame, serve: Serve
) -> None:
    world = World([], {}, {5: [11, 12, 13, 14]})
    folds = (np.arange(ROWS) % 3)[:, None]
    for number in world.suites[5]:
        changed = frame.assign(count=frame["count"] + number)
        delay = 1.0 if number in (11, 12) else 0.0  # of each request: they overlap on a busy machine too
        world.datasets.append(Served(changed, "class", id=number, delay=delay, truncated=number == 13))
        world.tasks[number] = ServedTask(number, "class", folds)
    with serve(world):
        first = CliRunner().invoke(app, ["fetch", "openml/s/5", "--jobs", "2"])
        assert first.exit_code == 3
        assert first.stdout.count("openml/t/") == 3
        assert "of 4: openml/t/11, 60 rows" in first.stderr
        assert "tabbench: cannot load openml/t/13 from" in first.stderr
        assert world.most_at_once == 2
        world.datasets[2].truncated = False
        asked = len(world.requests)
        second = CliRunner().invoke(app, ["fetch", "openml/s/5"])
        assert second.exit_code == 0
        assert second.stdout.count("openml/t/") == 4
        assert not any("/11" in path for path in world.requests[asked:]), "what is there is not loaded again"
