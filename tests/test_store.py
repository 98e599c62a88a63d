"""Records survive what happens to files."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from harness import add, saved, tabbench

from tabbench.errors import TabbenchWarning, UsageError
from tabbench.results.copy import CHUNK, open_copy
from tabbench.results.lines import to_line
from tabbench.results.record import SCHEMA_VERSION
from tabbench.results.store import Store
from tabbench.results.tabulate import tabulate


def record(key: str, status: str = "ok", **fields: Any) -> dict[str, Any]:
    base = {
        "key": key, "status": status, "ssl": "none", "model": "mlp", "data": "wine", "split": 0, "seed": 0,
        "data_key": "w", "kind": "result", "fidelity": "quick", "variant": "", "uses_labels": False, "trials": 0,
        "ssl_trials": 0, "metric": "accuracy", "score": 0.5, "test": {"accuracy": 0.5}, "flags": [],
        "seconds": {"fit": 1.0},
    }  # fmt: skip
    return {**base, **fields}


def test_records_are_there_for_the_next_process(tmp_path: Path) -> None:
    add(Store(tmp_path), record("a", score=0.25))
    (found,) = saved(Store(tmp_path))
    assert found["score"] == 0.25
    assert found["schema"] == SCHEMA_VERSION


def test_opening_a_store_writes_nothing(tmp_path: Path) -> None:
    assert Store(tmp_path / "new").records() == []
    assert not (tmp_path / "new").exists()


def test_a_torn_last_line_is_skipped_with_a_warning(tmp_path: Path) -> None:
    store = Store(tmp_path)
    add(store, record("a"))
    add(store, record("b"))
    (file,) = (tmp_path / "records").glob("*.jsonl")
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.warns(TabbenchWarning, match="last line is incomplete"):
        assert [found["key"] for found in saved(Store(tmp_path))] == ["a"]


def test_a_line_that_is_no_record_is_skipped_with_a_warning(tmp_path: Path) -> None:
    store = Store(tmp_path)
    add(store, record("a"))
    (file,) = (tmp_path / "records").glob("*.jsonl")
    others = [{"key": 5}, {"key": "b"}, record("c", seed="first"), record("d", uses_labels=1)]
    wrong = "".join(json.dumps(other) + "\n" for other in others)
    file.write_text("\0\0\0garbage\n[1, 2]\n" + wrong + file.read_text())
    with pytest.warns(TabbenchWarning, match="skipped a line that is not a record") as caught:
        assert [found["key"] for found in saved(Store(tmp_path))] == ["a"]
    assert len(caught) == 6
    with pytest.warns(TabbenchWarning):
        assert Store(tmp_path).read_table(["key"])["key"].to_pylist() == ["a"]


def test_what_was_skipped_is_told_in_one_line(tmp_path: Path) -> None:
    add(Store(tmp_path), record("a"))
    (file,) = (tmp_path / "records").glob("*.jsonl")
    file.write_text(file.read_text() + '{"key": "to')
    done = tabbench("table", "--results", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"tabbench: {file.name}: its last line is incomplete and was skipped\n"


def test_records_of_a_newer_tabbench_are_refused(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "x.jsonl").write_bytes(to_line({**record("a"), "schema": SCHEMA_VERSION + 1}))
    with pytest.raises(UsageError, match="newer tabbench"):
        Store(tmp_path).records()


def test_a_finished_record_counts_more_than_a_failed_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    add(store, record("a", "ok"))
    add(store, record("a", "failed"))
    add(store, record("b", "failed"))
    assert {found["key"]: found["status"] for found in saved(store)} == {"a": "ok", "b": "failed"}


def test_what_other_writers_append_is_seen(tmp_path: Path) -> None:
    mine, other = Store(tmp_path), Store(tmp_path)
    mine.refresh()
    add(other, record("a"))
    mine.refresh()
    assert mine.record("a") is not None
    add(other, record("b"))
    mine.refresh()
    assert mine.record("b") is not None


def fill(folder: Path) -> None:
    (folder / "half").write_text("half")
    raise OSError("the disk is full")


def test_an_artefact_is_complete_or_not_there(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(OSError, match="disk is full"), store.write_artefact("pretrain", "k") as folder:
        fill(folder)
    assert not store.has_artefact("pretrain", "k")
    assert list((tmp_path / "artefacts" / "pretrain").iterdir()) == []
    with store.write_artefact("pretrain", "k") as folder:
        (folder / "whole").write_text("whole")
    with store.write_artefact("pretrain", "k") as folder:
        (folder / "whole").write_text("second")
    assert (store.artefact("pretrain", "k") / "whole").read_text() == "whole"


def test_the_parquet_copy_says_the_same_as_the_lines(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(5):
        add(store, record(f"k{number}", seed=number, score=number / 10))
    columns = ["key", "score", "seed", "flags", "test"]
    before = store.read_table(columns)
    store.compact()
    assert (tmp_path / "records.parquet").exists()
    assert store.read_table(columns).equals(before)
    add(store, record("new"))
    assert store.read_table(["key"]).num_rows == 6
    frame = pd.read_parquet(tmp_path / "records.parquet")
    assert json.loads(frame["test"][0]) == {"accuracy": 0.5}


def test_a_copy_that_grows_over_its_row_groups_finds_every_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tabbench.results.copy.ROW_GROUP", 7)
    monkeypatch.setattr("tabbench.results.copy.CHUNK", 3)
    writer = Store(tmp_path)
    for until in (5, 12, 30):
        while (number := len(saved(writer))) < until:
            add(writer, record(f"k{number}", seed=number))
        Store(tmp_path).compact()
        reader = Store(tmp_path)
        reader.refresh()
        assert all((found := reader.record(f"k{i}")) is not None and found.seed == i for i in range(until))
        sizes = [group.num_rows for group in open_parts(tmp_path)]
        assert sizes == [7] * (until // 7) + [until % 7] * (until % 7 > 0)


def test_a_full_disk_while_the_copy_is_written_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabbench.results.copy.CHUNK", 3)
    monkeypatch.setattr("tabbench.results.store.CHUNK", 3)
    monkeypatch.setattr("tabbench.results.copy.ROW_GROUP", 4)
    store = Store(tmp_path)
    for number in range(20):
        add(store, record(f"k{number}"))

    def fill(self: object, table: object, row_group_size: int) -> None:
        raise OSError("disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("pyarrow.parquet.ParquetWriter.write_table", fill)
        assert store.read_table(["key"]).num_rows == 20
        assert not (tmp_path / "records.parquet").exists()
    assert store.read_table(["key"]).num_rows == 20
    assert (tmp_path / "records.parquet").exists()
    assert not list(tmp_path.glob(".records-*"))


def open_parts(root: Path) -> list[Any]:
    copied = open_copy(root)
    assert copied is not None
    return list(copied.parts())


def test_a_broken_or_outdated_parquet_copy_is_not_believed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    add(store, record("a"))
    store.compact()
    (tmp_path / "records.parquet").write_bytes(b"PAR1 not really")
    assert store.read_table(["key"]).num_rows == 1
    store.compact()
    (file,) = (tmp_path / "records").glob("*.jsonl")
    file.unlink()
    assert Store(tmp_path).read_table(["key"]).num_rows == 0


def test_lines_are_read_by_pandas_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    add(store, record("a"))
    (file,) = (tmp_path / "records").glob("*.jsonl")
    assert pd.read_json(file, lines=True)["model"].tolist() == ["mlp"]


def test_a_results_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    with pytest.raises(UsageError, match="this is a file, not a folder"):
        Store(tmp_path / "results")
    with pytest.raises(UsageError, match="/results is a file, not a folder"):
        Store(tmp_path / "results" / "deeper" / "still")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="a place where nobody can make a folder")
def test_a_results_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    store = Store(Path("/proc/nowhere"))
    for use in (lambda: add(store, record("a")), lambda: store.save_experiment({}), lambda: store.lock("k")):
        with pytest.raises(
            UsageError, match="--results /proc/nowhere: .* cannot be created .*: give a writable folder"
        ):
            use()
    add(Store(tmp_path), record("a", hashes={"predictions": "p"}))
    done = tabbench("results", "merge", tmp_path, "--results", "/proc/nowhere")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_the_lock_of_a_dead_process_is_free(tmp_path: Path) -> None:
    take = f"assert Store({str(tmp_path)!r}).lock('k').take()"
    code = f"from tabbench.results.store import Store; import os; {take}; os._exit(7)"
    assert subprocess.run([sys.executable, "-c", code], check=False, env=dict(os.environ)).returncode == 7
    assert Store(tmp_path).lock("k").take()


def test_a_hundred_thousand_records_are_tabulated_within_a_second(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    names = {name: f"%({name})s" for name in ("key", "ssl", "model", "data")}
    line = json.dumps({**record(**names), "seed": -1, "score": -2, "time": -3, "schema": 1})
    for number, name in enumerate(("seed", "score", "time"), 1):
        line = line.replace(f"-{number}", f"%({name})s")
    lines = [
        line % {"key": f"k{i}", "ssl": f"s{i % 8}", "model": f"m{i // 8 % 7}", "data": f"d{i // 56 % 20}",
                "seed": i // 1120, "score": (i * 7919 % 1000) / 1000, "time": float(i)}
        for i in range(100_000)
    ]  # fmt: skip
    (folder / "x.jsonl").write_text("\n".join(lines) + "\n")
    assert len(lines) > CHUNK
    store = Store(tmp_path)
    store.compact()
    tries = []
    for _ in range(3):
        started = time.process_time()
        table = tabulate(store)
        tries.append(time.process_time() - started)
    seconds = min(tries)
    started = time.process_time()
    assert all(json.loads(line) for line in lines)
    parsing = time.process_time() - started  # half a second, and more on a slow machine
    assert len(table.rows) == 56
    assert sum(len(cell.found) for row in table.rows for cell in row.cells.values()) == 100_000
    assert seconds < max(1.0, 2 * parsing), f"{seconds:.2f} CPU seconds, parsing {parsing:.2f}"
