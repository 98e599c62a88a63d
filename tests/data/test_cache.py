"""The cache of datasets: whole, verified, and keyed by content."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabbench import DataError, LoadedData, UsageError
from tabbench.data.cache import (
    Manifest,
    cache_dir,
    find_cached,
    list_cached,
    read_folds,
    read_frame,
    read_unlabelled,
    store_dataset,
    verify,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TABBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make_data(rows: int = 30) -> LoadedData:
    rng = np.random.default_rng(rows)
    frame = pd.DataFrame(
        {
            "n": rng.integers(0, 100, rows),
            "f": rng.normal(size=rows),
            "c": rng.choice(["u", "v"], rows),
            "y": ["11", "9", "10"] * (rows // 3),
        }
    )
    frame.loc[2, "f"] = np.nan
    frame.loc[3, "c"] = None
    return LoadedData(frame, "y", "classification", ("c",), source="a test", notes=("a note",))


def test_what_is_stored_is_found_and_read_back() -> None:
    loaded = make_data()
    manifest = store_dataset("toy", loaded, revision=4)
    assert find_cached("TOY") == manifest
    assert (manifest.rows, manifest.n_numeric, manifest.n_categorical) == (30, 2, 1)
    assert (manifest.task, manifest.n_classes, manifest.class_names) == ("multiclass", 3, ("9", "10", "11"))
    assert (manifest.source, manifest.notes, manifest.revision) == ("a test", ("a note",), 4)
    frame = read_frame(manifest)
    assert list(frame.columns) == ["n", "f", "c", "y"]
    pd.testing.assert_series_equal(frame["f"], loaded.frame["f"])
    assert frame["c"].isna().sum() == 1
    assert frame["y"].tolist() == loaded.frame["y"].tolist()


def test_a_manifest_survives_json() -> None:
    manifest = store_dataset("toy", make_data())
    assert Manifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest


def test_the_cache_is_where_the_variable_says_or_in_the_users_folder(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_dir() == cache
    monkeypatch.delenv("TABBENCH_CACHE")
    assert cache_dir().name == "tabbench"


def test_the_key_is_that_of_the_content_and_not_of_the_types_it_came_in() -> None:
    loaded = make_data()
    key = store_dataset("a", loaded).key
    other_types = loaded.frame.astype({"n": "float64", "c": "category", "y": int})
    assert store_dataset("b", replace(loaded, frame=other_types, source="elsewhere", notes=())).key == key
    changed = loaded.frame.assign(n=loaded.frame["n"] + (loaded.frame.index == 7))
    assert store_dataset("c", replace(loaded, frame=changed)).key != key
    as_category = replace(loaded, categorical=("n", "c"))
    assert store_dataset("d", as_category).key != key
    renamed = replace(loaded, frame=loaded.frame.rename(columns={"n": "m"}))
    assert store_dataset("e", renamed).key != key


def test_a_damaged_table_is_not_read(cache: Path) -> None:
    manifest = store_dataset("toy", make_data())
    assert verify(manifest) == ""
    path = cache / manifest.path
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match="the cached table of toy is damaged .*`tabbench data fetch toy --force`"):
        read_frame(manifest)
    assert "damaged" in verify(manifest)
    path.unlink()
    assert find_cached("toy") is None
    assert "toy is not cached" in verify(manifest)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}', '{"format": 99}'])
def test_a_manifest_that_is_not_ours_is_as_good_as_none(content: str, cache: Path) -> None:
    store_dataset("toy", make_data())
    (cache / "data" / "toy" / "manifest.json").write_text(content)
    assert find_cached("toy") is None
    assert list_cached() == []


def test_a_run_keeps_what_it_started_with_when_a_name_is_stored_again() -> None:
    first = store_dataset("toy", make_data(30))
    second = store_dataset("toy", make_data(60))
    assert find_cached("toy") == second
    assert len(read_frame(first)) == 30


def test_a_failed_write_leaves_the_old_table(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    first = store_dataset("toy", make_data(30))

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(
        DataError, match=r"cannot write to the cache .* \(No space left on device\): set TABBENCH_CACHE"
    ):
        store_dataset("toy", make_data(60))
    assert find_cached("toy") == first
    assert sorted(path.name for path in (cache / "data" / "toy").iterdir()) == sorted(
        ["manifest.json", Path(first.path).name]
    )


def test_names_cannot_leave_the_cache() -> None:
    with pytest.raises(UsageError, match="Bad dataset name '../toy'"):
        store_dataset("../toy", make_data())
    assert find_cached("../toy") is None


STORE_OFTEN = """
import sys
import pandas as pd
from tabbench import LoadedData
from tabbench.data.cache import store_dataset

rows = int(sys.argv[1])
frame = pd.DataFrame({"x": [i * i % 17 for i in range(rows)], "y": ["a", "b", "c"] * (rows // 3)})
for _ in range(10):
    store_dataset("toy", LoadedData(frame, "y", "classification"))
"""


def test_writers_at_the_same_time_leave_one_whole_table() -> None:
    writers = [subprocess.Popen([sys.executable, "-c", STORE_OFTEN, rows]) for rows in ("30", "60")]
    while any(writer.poll() is None for writer in writers):
        manifest = find_cached("toy")
        assert manifest is None or len(read_frame(manifest)) == manifest.rows
    assert [writer.wait() for writer in writers] == [0, 0]
    [manifest] = list_cached()
    assert verify(manifest) == ""


@pytest.mark.parametrize(
    "edit, fault",
    [
        ({"target": "c"}, "task multiclass instead of binary"),
        ({"target": "n"}, "task multiclass instead of regression"),
        ({"target": "gone"}, "there is no column 'gone'"),
        ({"class_names": ("10", "9", "11")}, "classes .*10.*9.*11.* instead of .*9.*10.*11"),
        ({"categorical": ("c", "n")}, "categorical columns .* instead of"),
        ({"rows": 29}, "rows 29 instead of 30"),
        ({"key": "0" * 64}, "the content key is .*, not 000000000000"),
    ],
)
def test_an_edited_manifest_does_not_give_another_number_under_the_same_key(edit: dict[str, Any], fault: str) -> None:
    manifest = store_dataset("toy", make_data())
    edited = replace(manifest, **edit)
    with pytest.raises(DataError, match=rf"the manifest of toy does not match the cached table \({fault}"):
        read_frame(edited)
    assert "does not match" in verify(edited)
    assert verify(manifest) == ""


def test_an_edited_target_of_the_same_kind_is_noticed_by_the_content_key() -> None:
    frame = make_data().frame.assign(other=["11", "9", "10"] * 10)
    manifest = store_dataset("toy", LoadedData(frame, "y", "classification", ("c", "other")), as_published=True)
    edited = replace(manifest, target="other", categorical=("c", "y"))
    with pytest.raises(DataError, match="the content key is"):
        read_frame(edited)


def test_a_manifest_of_the_first_release_is_still_read() -> None:
    manifest = store_dataset("toy", make_data())
    value = manifest.to_json()
    for added in ("licence", "citation", "homepage", "unlabelled", "folds", "n_folds"):
        del value[added]
    assert Manifest.from_json(value) == manifest


def test_unlabelled_rows_and_folds_are_stored_beside_the_table_and_verified(cache: Path) -> None:
    loaded = make_data()
    folds = np.stack([np.arange(30) % 3, np.arange(30) % 5], axis=1).astype(np.int16)
    loaded.frame.loc[[1, 4], "y"] = None
    manifest = store_dataset("toy", replace(loaded, folds=folds))
    assert (manifest.rows, manifest.n_folds) == (28, 8)
    assert manifest.unlabelled is not None
    assert manifest.folds is not None
    assert manifest.unlabelled.rows == 2
    assert read_unlabelled(manifest)["n"].tolist() == loaded.frame["n"][[1, 4]].tolist()
    kept = read_folds(manifest)
    assert kept is not None
    assert kept.tolist() == np.delete(folds, [1, 4], axis=0).tolist()
    assert Manifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest
    without = store_dataset("other", replace(loaded, folds=folds), drop_unlabelled=True)
    assert without.unlabelled is None
    assert without.key == manifest.key
    (cache / manifest.unlabelled.path).write_bytes(b"")
    assert "is damaged" in verify(manifest)


def test_reading_a_table_starts_no_thread() -> None:
    """A process that ends while a thread of pyarrow starts is aborted."""
    code = (
        "import os, pandas as pd, pyarrow as pa\n"
        "from tabbench.data.cache import _from_parquet, _to_parquet\n"
        "content = _to_parquet(pd.DataFrame({'x': [1.0, 2.0]}))\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "assert len(_from_parquet(content)) == 2\n"
        "print(len(os.listdir('/proc/self/task')) - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
