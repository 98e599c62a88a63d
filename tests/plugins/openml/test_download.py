"""Downloads from OpenML, with the real client against a stand-in server on loopback."""

import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from openml_server import ROWS, ImportAsToy, Serve, Served
from tabbench_openml.download import DownloadFault, _check

from tabbench import DataError
from tabbench.data.cache import find_cached
from tabbench.data.sources import fetch, resolve_data
from tabbench.registry import Registry


def test_a_download_is_loaded_and_later_used_with_the_server_gone(
    frame: pd.DataFrame,
    registry: Registry,
    serve: Serve,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    import_as_toy: ImportAsToy,
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "cache" / "openml" / "toy" / "left by a killed download").mkdir(parents=True)
    served = Served(frame.assign(row=range(ROWS)), "class", ignored=("row",))
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
    assert import_as_toy(frame).key == manifest.key


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("has_parquet", [False, True])
def test_a_wrong_checksum_is_final_and_the_error_says_what_to_do(
    frame: pd.DataFrame, registry: Registry, serve: Serve, has_parquet: bool
) -> None:
    served = Served(frame, "class", wrong_checksum=True, has_parquet=has_parquet)
    with serve(served), pytest.raises(DataError) as caught:
        resolve_data("toy", registry)
    message = str(caught.value)
    assert served.arff_requests == 3
    assert not any(path.endswith(".pq") for path in served.requests), "a file without any checksum is no way out"
    assert "the checksum of the download is wrong. On a machine with network access" in message
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
    frame: pd.DataFrame, registry: Registry, serve: Serve, import_as_toy: ImportAsToy
) -> None:
    served = Served(frame, "class", has_parquet=True, failures=99)
    with serve(served):
        [manifest] = resolve_data("toy", registry)
    assert manifest.source.endswith("parquet")
    assert manifest.notes == ("downloaded without a checksum, so the file could not be verified",)
    assert import_as_toy(frame).key == manifest.key


@pytest.mark.usefixtures("in_process")
def test_columns_are_found_by_name_whatever_order_the_file_has(
    frame: pd.DataFrame, registry: Registry, serve: Serve, import_as_toy: ImportAsToy
) -> None:
    served = Served(frame, "class", file_order=("count", "class", "open", "width", "colour"))
    with serve(served):
        [manifest] = resolve_data("toy", registry)
    assert import_as_toy(frame).key == manifest.key
    other = Served(frame.rename(columns={"width": "height"}), "class", described_as={"height": "width"})
    with serve(other), pytest.raises(DataError, match="the ARFF file has no column 'width'"):
        fetch(registry.find("data", "toy"), registry, offline=False, force=True)


@pytest.mark.usefixtures("in_process")
def test_a_truncated_body_and_a_broken_parquet_file_are_noticed(
    frame: pd.DataFrame, registry: Registry, serve: Serve
) -> None:
    served = Served(frame, "class", truncated=True, has_parquet=True, corrupt_parquet=True)
    with serve(served), pytest.raises(DataError, match="the download broke off; the parquet file cannot be read"):
        resolve_data("toy", registry)
    assert find_cached("toy") is None


@pytest.mark.usefixtures("in_process")
def test_http_500_is_tried_again(frame: pd.DataFrame, registry: Registry, serve: Serve) -> None:
    served = Served(frame, "class", failures=2)
    with serve(served):
        [manifest] = resolve_data("toy", registry)
    assert manifest.rows == ROWS
    assert served.arff_requests == 3


def test_a_stalled_server_is_left_after_the_time_set(
    frame: pd.DataFrame, registry: Registry, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TABBENCH_OPENML_TIMEOUT", "1.5")
    start = time.monotonic()
    with (
        serve(Served(frame, "class", delay=300)),
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
    served = Served(frame, "class", id=62)
    with serve(served), pytest.raises(DataError, match="the server has no dataset with the id 61"):
        resolve_data("toy", registry)
    assert served.requests == ["/api/v1/xml/data/61"]


@pytest.mark.usefixtures("in_process")
def test_without_a_server_the_error_says_what_to_do(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABBENCH_OPENML_SERVER", "http://127.0.0.1:9/api/v1/xml")
    with pytest.raises(DataError, match=r"127.0.0.1:9/api/v1/xml: the server cannot be reached. On a machine"):
        resolve_data("toy", registry)


def test_offline_nothing_is_asked_for(frame: pd.DataFrame, registry: Registry, serve: Serve) -> None:
    served = Served(frame, "class")
    with serve(served), pytest.raises(DataError, match=r"--offline forbids downloads"):
        resolve_data("toy", registry, offline=True)
    assert served.requests == []


def test_two_processes_fetch_once(frame: pd.DataFrame, plugin_file: Path, serve: Serve, registry: Registry) -> None:
    served = Served(frame, "class", delay=1.0)
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
    assert served.arff_requests == 1
