"""OpenML datasets, with the real client against a stand-in server on loopback."""

import importlib.util
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
import tabbench_openml.download
from sklearn.datasets import load_diabetes
from tabbench_openml import tabbench_datasets
from tabbench_openml.california import MEAN, ORDER, STD, CaliforniaHousing
from tabbench_openml.datasets import OpenMLDataset
from tabbench_openml.download import Download, DownloadFault, Feature
from tabbench_openml.tables import read_table

from tabbench import DataError, LoadedData
from tabbench.data.cache import Manifest, find_cached, store_dataset
from tabbench.data.references import import_file, resolve_data
from tabbench.registry import Registry, make_registry


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


def test_a_wrong_checksum_leads_to_the_parquet_file_which_gives_the_same_table(
    frame: pd.DataFrame, registry: Registry, serve: Serve, tmp_path: Path
) -> None:
    served = stand_in.Served(frame, "class", has_parquet=True, wrong_checksum=True)
    with serve(served):
        [manifest] = resolve_data("toy", registry)
    assert arff_requests(served) == 3
    assert manifest.source.endswith("parquet")
    assert import_as_toy(frame, registry, tmp_path).key == manifest.key


def test_a_wrong_checksum_without_a_parquet_file_is_an_error_that_says_what_to_do(
    frame: pd.DataFrame, registry: Registry, serve: Serve
) -> None:
    with serve(stand_in.Served(frame, "class", wrong_checksum=True)), pytest.raises(DataError) as caught:
        resolve_data("toy", registry)
    message = str(caught.value)
    assert "the checksum of the download is wrong. Where there is a network" in message
    assert "`tabbench data import toy FILE --target class`" in message
    assert "\n" not in message
    assert find_cached("toy") is None


def test_a_truncated_body_and_a_broken_parquet_file_are_noticed(
    frame: pd.DataFrame, registry: Registry, serve: Serve
) -> None:
    served = stand_in.Served(frame, "class", truncated=True, has_parquet=True, corrupt_parquet=True)
    with serve(served), pytest.raises(DataError, match="the download broke off; the parquet file cannot be read"):
        resolve_data("toy", registry)
    assert find_cached("toy") is None


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


def test_an_unknown_id_is_said_and_not_tried_again(frame: pd.DataFrame, registry: Registry, serve: Serve) -> None:
    served = stand_in.Served(frame, "class", id=62)
    with serve(served), pytest.raises(DataError, match="the server knows no dataset with the id 61"):
        resolve_data("toy", registry)
    assert served.requests == ["/api/v1/xml/data/61"]


def test_without_a_server_the_error_says_what_to_do(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABBENCH_OPENML_SERVER", "http://127.0.0.1:9/api/v1/xml")
    with pytest.raises(DataError, match=r"127.0.0.1:9/api/v1/xml: the server cannot be reached. Where there is"):
        resolve_data("toy", registry)


def test_offline_nothing_is_asked_for(frame: pd.DataFrame, registry: Registry, serve: Serve) -> None:
    served = stand_in.Served(frame, "class")
    with serve(served), pytest.raises(DataError, match=r"nothing may be downloaded \(--offline\)"):
        resolve_data("toy", registry, offline=True)
    assert served.requests == []


def test_two_processes_fetch_once(frame: pd.DataFrame, plugin_file: Path, serve: Serve, registry: Registry) -> None:
    served = stand_in.Served(frame, "class", delay=1.0)
    script = (
        "import sys; from tabbench.registry import make_registry; from tabbench.data.references import resolve_data\n"
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
