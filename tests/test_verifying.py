"""A results folder is checked byte by byte, and what no record needs is removed."""

import json
import os
import shutil
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from elsewhere import copy_of
from harness import TOYS, stable
from made_records import write_records
from typer.testing import CliRunner

from tabbench import UsageError
from tabbench.cli.app import app
from tabbench.results import copy
from tabbench.results.cleaning import find_drafts, sweep_drafts
from tabbench.results.copy import open_copy, to_arrow, write_copy
from tabbench.results.drivers import Presence
from tabbench.results.record import COLUMNS
from tabbench.results.store import Store
from tabbench.results.verify import _included, choose_cells, verify_results


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


def test_lines_are_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy, "CHUNK", 50)

    def peak(count: int) -> int:
        folder = tmp_path / str(count)
        store = write_records(folder, [{"notes": [f"{number} " * 300]} for number in range(count)])
        store.compact()
        tracemalloc.start()
        try:
            assert verify_results(folder).results == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(100)  # modules are loaded
    assert peak(1200) - peak(300) < 900 * 1200, "a line of 3 kB leaves less than half of it behind"


def test_a_file_that_is_cut_off_during_the_check_does_not_hang_it(theirs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(theirs, folder)
    opened = open_copy(folder)
    assert opened is not None
    whole = list(_included(folder, opened))
    file = next((folder / "records").glob("*.jsonl"))
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    assert list(_included(folder, opened)) == whole[:-1]


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
    assert len(choose_cells(theirs, found, 9, 0)) == 4
    assert len({tuple(record.key for record in choose_cells(theirs, found, 2, seed)) for seed in range(9)}) > 1

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
