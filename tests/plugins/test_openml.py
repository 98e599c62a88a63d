"""OpenML datasets, with the real client against a stand-in server on loopback."""

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tabbench_openml.client
import tabbench_openml.download
from harness import Bench, InProcess
from sklearn.datasets import load_diabetes
from tabbench_openml import tabbench_data_schemes, tabbench_datasets
from tabbench_openml.california import MEAN, ORDER, STD, CaliforniaHousing
from tabbench_openml.datasets import OpenMLDataset
from tabbench_openml.download import Download, DownloadFault, Feature, _check
from tabbench_openml.tables import attribute_names, read_table
from typer.testing import CliRunner

from tabbench import DataError, LoadedData, UsageError
from tabbench.cli.data import app
from tabbench.contracts.split_rule import make_rule
from tabbench.data.cache import Manifest, find_cached, read_folds, store_dataset
from tabbench.data.gather import find_data, freeze
from tabbench.data.prepare import open_split
from tabbench.data.sources import fetch, find_scheme, find_sources, import_file, peek_data, resolve_data
from tabbench.registry import Registry, make_registry
from tabbench.results.tabulate import tabulate
from tabbench.running.driver import run_plan
from tabbench.running.request import Conditions, plan_request, read_request


def load_stand_in() -> ModuleType:
    """``tests`` is no package: the module beside this folder is loaded by its path."""
    name = "tabbench_tests_openml_server"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / "openml_server.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


stand_in = load_stand_in()

Serve = Callable[[Any], AbstractContextManager[None]]
ROWS = 60
PLUGIN = f"""
from tabbench import Plugin, hookimpl

@hookimpl
def tabbench_datasets():
    arguments = {{"name": "toy", "id": 61, "target_column": "class", "rows": {ROWS}, "numeric": 2, "categorical": 2,
                 "classes": 3, "missing": 2}}
    return [Plugin("toy", "tabbench_openml.datasets:OpenMLDataset", aliases=("TY",), arguments=arguments)]
"""


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "width": rng.normal(size=ROWS).round(4),
            "colour": rng.choice(["red", "dark blue", "a,b"], ROWS),
            "count": rng.integers(0, 50, ROWS),
            "open": rng.random(ROWS) > 0.5,
            "class": rng.choice(["p", "q", "r"], ROWS),
        }
    )
    frame.loc[3, "width"] = np.nan
    frame.loc[4, "colour"] = None
    return frame


@pytest.fixture(autouse=True)
def quiet_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TABBENCH_OPENML_TIMEOUT", "60")
    monkeypatch.setattr(tabbench_openml.download, "DELAYS", (0.05, 0.05))
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def plugin_file(tmp_path: Path) -> Path:
    path = tmp_path / "toy_plugin.py"
    path.write_text(PLUGIN)
    return path


@pytest.fixture
def registry(plugin_file: Path) -> Registry:
    return make_registry([plugin_file], points=[])


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """``with serve(served):`` runs the stand-in and points the client to it."""

    @contextmanager
    def run(served: Any) -> Iterator[None]:
        with stand_in.serve(served) as server:
            monkeypatch.setenv("TABBENCH_OPENML_SERVER", server.url)
            yield

    return run


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client runs in this process: what it asks and what we make of it is the same, without seconds of imports."""

    start = subprocess.run

    def run(command: list[str], env: dict[str, str] | None = None, **options: Any) -> Any:
        if env is None or "OPENML_SKIP_PARQUET" not in env:  # not the client
            return start(command, env=env, **options)
        monkeypatch.setenv("OPENML_SKIP_PARQUET", env["OPENML_SKIP_PARQUET"])
        tabbench_openml.client.answer(json.loads(command[-1]))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)


def arff_requests(served: Any) -> int:
    return sum(path.endswith(".arff") for path in served.requests)


def import_as_toy(frame: pd.DataFrame, registry: Registry, folder: Path) -> Manifest:
    """The table as a user's own file, where the target has another name."""
    file = folder / "mine.parquet"
    text = frame["open"].map({True: "true", False: "false"})
    frame.assign(open=text).rename(columns={"class": "label"}).to_parquet(file)
    return import_file("TY", file, "label", registry)


def test_a_download_is_loaded_and_later_used_with_the_server_gone(
    frame: pd.DataFrame, registry: Registry, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "cache" / "openml" / "toy" / "left by a killed download").mkdir(parents=True)
    served = stand_in.Served(frame.assign(row=range(ROWS)), "class", ignored=("row",))
    with serve(served):
        [manifest] = resolve_data("TY", registry)
    assert (manifest.rows, manifest.n_numeric, manifest.n_categorical, manifest.n_classes) == (ROWS, 2, 2, 3)
    assert manifest.categorical == ("colour", "open")
    assert "checksum verified" in manifest.source
    assert served.requests == [
        "/api/v1/xml/data/61",
        "/api/v1/xml/data/features/61",
        "/api/v1/xml/data/qualities/61",
        "/files/61.arff",
    ]
    assert resolve_data("toy", registry, offline=True) == [manifest]
    assert list((tmp_path / "cache" / "openml").iterdir()) == []
    assert list(home.iterdir()) == []
    assert import_as_toy(frame, registry, tmp_path).key == manifest.key


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("has_parquet", [False, True])
def test_a_wrong_checksum_is_final_and_the_error_says_what_to_do(
    frame: pd.DataFrame, registry: Registry, serve: Serve, has_parquet: bool
) -> None:
    served = stand_in.Served(frame, "class", wrong_checksum=True, has_parquet=has_parquet)
    with serve(served), pytest.raises(DataError) as caught:
        resolve_data("toy", registry)
    message = str(caught.value)
    assert arff_requests(served) == 3
    assert not any(path.endswith(".pq") for path in served.requests), "a file without any checksum is no way out"
    assert "the checksum of the download is wrong. On a machine with a network" in message
    assert "`tabbench data import toy FILE --target class`" in message
    assert "\n" not in message
    assert find_cached("toy") is None


def test_the_file_on_the_disk_is_compared_too(tmp_path: Path) -> None:
    """The client compares what it received; what a cache or a disk made of it since is seen here."""
    (tmp_path / "toy.arff").write_text("@relation toy")
    with pytest.raises(DownloadFault, match="the checksum of the download is wrong"):
        _check({"file": str(tmp_path / "toy.arff"), "md5": "0" * 32})


@pytest.mark.usefixtures("in_process")
def test_an_outage_of_one_kind_of_file_leads_to_the_other_which_gives_the_same_table(
    frame: pd.DataFrame, registry: Registry, serve: Serve, tmp_path: Path
) -> None:
    served = stand_in.Served(frame, "class", has_parquet=True, failures=99)
    with serve(served):
        [manifest] = resolve_data("toy", registry)
    assert manifest.source.endswith("parquet")
    assert manifest.notes == ("downloaded without a checksum to compare with",)
    assert import_as_toy(frame, registry, tmp_path).key == manifest.key


@pytest.mark.usefixtures("in_process")
def test_columns_are_found_by_name_whatever_order_the_file_has(
    frame: pd.DataFrame, registry: Registry, serve: Serve, tmp_path: Path
) -> None:
    served = stand_in.Served(frame, "class", file_order=("count", "class", "open", "width", "colour"))
    with serve(served):
        [manifest] = resolve_data("toy", registry)
    assert import_as_toy(frame, registry, tmp_path).key == manifest.key
    other = stand_in.Served(frame.rename(columns={"width": "height"}), "class", described_as={"height": "width"})
    with serve(other), pytest.raises(DataError, match="the ARFF file has no column 'width'"):
        fetch(registry.find("data", "toy"), registry, offline=False, force=True)


def test_names_in_an_arff_header_may_be_quoted_and_escaped() -> None:
    header = (
        "@RELATION x\n@ATTRIBUTE plain REAL\n @attribute 'it\\'s' {a,b}\n@attribute \"a b\" real\n@ATTRIBUTE c{d} x\n"
    )
    assert attribute_names(header) == ["plain", "it's", "a b", "c"]


@pytest.mark.usefixtures("in_process")
def test_a_truncated_body_and_a_broken_parquet_file_are_noticed(
    frame: pd.DataFrame, registry: Registry, serve: Serve
) -> None:
    served = stand_in.Served(frame, "class", truncated=True, has_parquet=True, corrupt_parquet=True)
    with serve(served), pytest.raises(DataError, match="the download broke off; the parquet file cannot be read"):
        resolve_data("toy", registry)
    assert find_cached("toy") is None


@pytest.mark.usefixtures("in_process")
def test_http_500_is_tried_again(frame: pd.DataFrame, registry: Registry, serve: Serve) -> None:
    served = stand_in.Served(frame, "class", failures=2)
    with serve(served):
        [manifest] = resolve_data("toy", registry)
    assert manifest.rows == ROWS
    assert arff_requests(served) == 3


def test_a_stalled_server_is_left_after_the_time_set(
    frame: pd.DataFrame, registry: Registry, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TABBENCH_OPENML_TIMEOUT", "1.5")
    start = time.monotonic()
    with (
        serve(stand_in.Served(frame, "class", delay=300)),
        pytest.raises(DataError, match=r"no answer within 1.5 s \(TABBENCH_OPENML_TIMEOUT\)"),
    ):
        resolve_data("toy", registry)
    assert time.monotonic() - start < 100


def test_a_bad_timeout_is_refused(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABBENCH_OPENML_TIMEOUT", "soon")
    with pytest.raises(DataError, match="TABBENCH_OPENML_TIMEOUT=soon is not a number of seconds"):
        resolve_data("toy", registry)


@pytest.mark.usefixtures("in_process")
def test_an_unknown_id_is_said_and_not_tried_again(frame: pd.DataFrame, registry: Registry, serve: Serve) -> None:
    served = stand_in.Served(frame, "class", id=62)
    with serve(served), pytest.raises(DataError, match="the server has no dataset with the id 61"):
        resolve_data("toy", registry)
    assert served.requests == ["/api/v1/xml/data/61"]


@pytest.mark.usefixtures("in_process")
def test_without_a_server_the_error_says_what_to_do(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABBENCH_OPENML_SERVER", "http://127.0.0.1:9/api/v1/xml")
    with pytest.raises(DataError, match=r"127.0.0.1:9/api/v1/xml: the server cannot be reached. On a machine"):
        resolve_data("toy", registry)


def test_offline_nothing_is_asked_for(frame: pd.DataFrame, registry: Registry, serve: Serve) -> None:
    served = stand_in.Served(frame, "class")
    with serve(served), pytest.raises(DataError, match=r"--offline forbids downloads"):
        resolve_data("toy", registry, offline=True)
    assert served.requests == []


def test_two_processes_fetch_once(frame: pd.DataFrame, plugin_file: Path, serve: Serve, registry: Registry) -> None:
    served = stand_in.Served(frame, "class", delay=1.0)
    script = (
        "import sys; from tabbench.registry import make_registry; from tabbench.data.sources import resolve_data\n"
        "print(resolve_data('toy', make_registry([sys.argv[1]], points=[]))[0].key)"
    )
    command = [sys.executable, "-c", script, str(plugin_file)]
    with serve(served):
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        keys = [process.communicate(timeout=120)[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    manifest = find_cached("toy")
    assert manifest is not None
    assert keys == [manifest.key] * 2
    assert arff_requests(served) == 1


# What must be in the tables.


def toy(**expected: Any) -> OpenMLDataset:
    return OpenMLDataset("toy", 61, "class", **expected)


@pytest.mark.parametrize(
    "expected, message",
    [
        ({"rows": 61}, "60 rows instead of 61"),
        ({"numeric": 3}, "2 numeric columns instead of 3"),
        ({"categorical": 0}, "2 categorical columns instead of 0"),
        ({"classes": 2}, "3 classes instead of 2"),
        ({"missing": 0}, "2 missing values instead of 0"),
        ({"shares": (0.1, 0.2, 0.7)}, "classes have other shares"),
    ],
)
def test_other_counts_than_expected_are_an_error(frame: pd.DataFrame, expected: dict[str, Any], message: str) -> None:
    loaded = LoadedData(frame, "class", "classification", ("colour", "open"))
    with pytest.raises(DataError, match=rf"this is not toy \(OpenML 61\): .*{message}"):
        toy(**expected).accept(loaded)


def test_an_import_under_a_known_name_is_checked(frame: pd.DataFrame, registry: Registry, tmp_path: Path) -> None:
    assert import_as_toy(frame, registry, tmp_path).name == "toy"
    with pytest.raises(DataError, match=r"mine.parquet: this is not toy .*: 50 rows instead of 60"):
        import_as_toy(frame.head(50), registry, tmp_path)


def test_a_file_with_fewer_rows_than_announced_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "dataset.arff"
    file.write_text("@relation x\n@attribute a real\n@data\n1\n2\n")
    found = Download(file, "x", 1, "a", (Feature("a", True, ()),), frozenset(), rows=3)
    with pytest.raises(DownloadFault, match="the file has 2 rows, the server says 3"):
        read_table(found)
    assert read_table(replace(found, rows=2))["a"].tolist() == [1, 2]


def test_arff_files_with_escapes_comments_and_sparse_rows_are_read(tmp_path: Path) -> None:
    features = (Feature("a", True, ()), Feature("b", False, ("it's", "x y")))
    header = "@relation x\n@attribute a real\n@attribute b {'it\\'s','x y'}\n@data\n"
    bodies = {
        "escaped": "1,'it\\'s'\n?,'x y'\n",
        "commented": "% first\n1,\"it's\"\n?,'x y'\n",
        "double": '1,"it\'s"\n?,"x y"\n',
    }
    for name, body in bodies.items():
        file = tmp_path / f"{name}.arff"
        file.write_text(header + body)
        table = read_table(Download(file, "x", 1, "b", features, frozenset(), rows=2))
        assert table["b"].tolist() == ["it's", "x y"], name
        assert table["a"].isna().tolist() == [False, True], name


def test_the_paper_has_seven_datasets_with_their_abbreviations() -> None:
    plugins = tabbench_datasets()
    assert {plugin.aliases[0]: plugin.arguments["id"] for plugin in plugins} == {
        "AD": 1590,
        "HE": 41169,
        "JA": 41168,
        "AL": 42396,
        "CA": 44977,
        "HI": 23512,
        "MNIST": 554,
    }
    assert all(plugin.groups == ("paper",) for plugin in plugins)
    registry = make_registry()
    for plugin in plugins:
        entry = registry.find("data", plugin.name)
        registry.load(entry)(**entry.plugin.arguments)


# All of OpenML.


@pytest.fixture
def whole() -> Registry:
    return make_registry()


def make_world(frame: pd.DataFrame) -> Any:
    """Three tables and two tasks on each of two; rows 0..59 in three folds, twice."""
    numbers = frame.assign(count=frame["count"] * 1.5)
    folds = np.stack([np.arange(ROWS) % 3, np.arange(ROWS) // 20], axis=1)
    hold_out = np.where(np.arange(ROWS) < 20, 0, -1)[:, None]
    tables = [
        stand_in.Served(frame, "class", id=61),
        stand_in.Served(numbers, "count", id=62),
        stand_in.Served(frame, "", id=63),
    ]
    tasks = {
        7: stand_in.ServedTask(61, "class", folds),
        8: stand_in.ServedTask(62, "count", hold_out, is_regression=True),
        9: stand_in.ServedTask(61, "class", folds, is_clustering=True),
    }
    return stand_in.World(tables, tasks, {5: [7, 8]})


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
        frozen[1] = replace(frozen[1], key="0" * 64)
        with pytest.raises(DataError, match="openml/t/8 is not the table these results were made with"):
            find_data(["openml/s/5"], whole, frozen=frozen)


@pytest.mark.usefixtures("in_process")
def test_a_suite_is_run_on_the_folds_of_the_server(frame: pd.DataFrame, serve: Serve, bench: Bench) -> None:
    with serve(make_world(frame)):
        resolve_data("openml/s/5", bench.registry)
    summary = bench.run(data=["openml/s/5"], ssl=["none"], folds="server")
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
    world = stand_in.World([], {}, {5: [11, 12, 13, 14, 15]})
    folds = (np.arange(ROWS) % 3)[:, None]
    for number in world.suites[5]:
        target, changed = ("count", "width") if number > 13 else ("class", "count")
        table = frame.assign(**{changed: frame[changed] * number})
        world.datasets.append(stand_in.Served(table, target, id=number))
        world.tasks[number] = stand_in.ServedTask(number, target, folds, is_regression=target == "count")
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
        ("openml:99", "cannot load openml:99 from .*: the server has no dataset with the id 99"),
        ("openml/t/99", "the server has no task with the id 99"),
        ("openml/s/99", "cannot load suite 99 from .*: the server has no suite with the id 99"),
        (
            "openml:63",
            r"OpenML 63 \(standin\) names no target: write openml:63:TARGET with one of width, colour, count",
        ),
        ("openml:61:clas", r"OpenML 61 \(standin\) has no column 'clas'. Did you mean: class\? Its columns: width, "),
        ("openml/t/9", "task 9 is a Clustering: only classification and regression can be run"),
        ("openml:64", r"dataset 64 \(standin\) is sparse, which tabbench cannot read"),
        ("openml:65", "the dataset with the id 65 is private"),
    ],
)
def test_what_cannot_be_had_is_said_in_a_sentence(
    reference: str, message: str, frame: pd.DataFrame, whole: Registry, serve: Serve
) -> None:
    world = make_world(frame)
    world.datasets += [stand_in.Served(frame, "class", id=64, is_sparse=True)]
    world.datasets += [stand_in.Served(frame, "class", id=65, is_private=True)]
    with serve(world), pytest.raises(DataError, match=message) as caught:
        resolve_data(reference, whole)
    assert "\n" not in str(caught.value)
    described = [path for path in world.requests if path.startswith(("/api/v1/xml/data/6", "/api/v1/xml/task"))]
    assert len(described) <= 2, "what will not change is not tried again"


@pytest.mark.parametrize("reference", ["openml:", "openml:adult", "openml/x/3", "openml/t/", "openml/t/3x"])
def test_other_forms_are_refused_with_those_there_are(reference: str, whole: Registry) -> None:
    with pytest.raises(
        UsageError, match=r"is not a reference to OpenML: write openml:ID, openml:ID:TARGET, openml/t/ID"
    ):
        find_sources(reference, whole)


def test_fetching_a_suite_loads_several_at_a_time_goes_on_after_a_failure_and_resumes(
    frame: pd.DataFrame, serve: Serve
) -> None:
    world = stand_in.World([], {}, {5: [11, 12, 13, 14]})
    folds = (np.arange(ROWS) % 3)[:, None]
    for number in world.suites[5]:
        changed = frame.assign(count=frame["count"] + number)
        world.datasets.append(stand_in.Served(changed, "class", id=number, delay=0.3, truncated=number == 13))
        world.tasks[number] = stand_in.ServedTask(number, "class", folds)
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


# California.


def california() -> CaliforniaHousing:
    return CaliforniaHousing("california", 44977, "medianHouseValue", "regression", rows=442, numeric=8, categorical=0)


def census(rng: np.random.Generator) -> pd.DataFrame:
    """Raw counts, with a real target brought to the known mean and spread."""
    target = load_diabetes().target
    target = (target - target.mean()) / target.std(ddof=1) * STD + MEAN
    names = ["longitude", "latitude", "housingMedianAge", "totalRooms", "totalBedrooms"]
    names += ["population", "households", "medianIncome"]
    frame = pd.DataFrame({name: rng.integers(1, 1000, len(target)).astype(float) for name in names})
    return frame.assign(medianHouseValue=target * 100_000)


def test_california_averages_are_derived_from_counts() -> None:
    raw = census(np.random.default_rng(0))
    loaded = california().accept(LoadedData(raw, "medianHouseValue", "regression"))
    assert list(loaded.frame.columns) == [*ORDER, "MedHouseVal"]
    assert np.allclose(loaded.frame["AveRooms"], raw["totalRooms"] / raw["households"])
    assert np.allclose(loaded.frame["AveOccup"], raw["population"] / raw["households"])
    assert np.isclose(loaded.frame["MedHouseVal"].mean(), MEAN)
    assert loaded.notes == (
        "the columns were counts of the census; averages per household were derived; "
        "the target was in dollars and is now in 100,000 dollars",
    )


def test_california_averages_are_taken_as_they_are() -> None:
    derived = california().accept(LoadedData(census(np.random.default_rng(0)), "medianHouseValue", "regression"))
    again = california().accept(LoadedData(derived.frame, "MedHouseVal", "regression"))
    assert again.notes == ("the columns were averages already",)
    pd.testing.assert_frame_equal(again.frame, derived.frame)
    assert store_dataset("a", again, as_published=True).key == store_dataset("b", derived, as_published=True).key


def test_another_target_is_not_california() -> None:
    raw = census(np.random.default_rng(0))
    raw["medianHouseValue"] *= 1.5
    with pytest.raises(DataError, match=r"this is not california .*the target has mean 3.10"):
        california().accept(LoadedData(raw, "medianHouseValue", "regression"))
    with pytest.raises(DataError, match="there is no column households"):
        california().accept(LoadedData(raw.drop(columns="households"), "medianHouseValue", "regression"))
