"""A flipped bit anywhere in a results folder is noticed, and never changes a number."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import Bench, add, saved, stable

from tabbench.errors import ArtefactError, TabbenchWarning
from tabbench.results import copy
from tabbench.results.lines import read_line, to_line
from tabbench.results.record import BadRecordError
from tabbench.results.store import Store
from tabbench.results.tabulate import tabulate


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """No worker has to start here."""
    return Bench(tmp_path / "results", inline=True)


def record(number: int) -> dict[str, object]:
    return {
        "key": f"key{number}", "status": "ok", "ssl": "none", "model": "mlp", "data": "wine", "split": number,
        "seed": 0, "data_key": "w", "kind": "result", "fidelity": "quick", "variant": "", "uses_labels": False,
        "trials": 0, "ssl_trials": 0, "metric": "accuracy", "score": 0.5 + number / 1000, "flags": [],
        "test": {"accuracy": 0.5 + number / 1000}, "seconds": {"fit": 1.0, "pretrain": 0.0},
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("folder")
    store = Store(root)
    for number in range(20):
        add(store, record(number))
    store.compact()
    return root


def flip(data: bytes, place: int, bit: int) -> bytes:
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


def read_quietly(root: Path) -> tuple[dict[str, object], list[str]]:
    """Scores by key from the lines alone, and what was said about lines that were skipped."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores = {str(value["key"]): value["score"] for value in Store(root)._new_lines()}
    return scores, [str(warning.message) for warning in caught]


def test_a_thousand_flips_in_the_lines_change_no_score(folder: Path, tmp_path: Path) -> None:
    (file,) = (folder / "records").glob("*.jsonl")
    data, truth = file.read_bytes(), read_quietly(folder)[0]
    copied = tmp_path / "records" / file.name
    copied.parent.mkdir()
    rng = np.random.default_rng(0)
    for place, bit in zip(rng.integers(0, len(data), 1000), rng.integers(0, 8, 1000), strict=True):
        copied.write_bytes(flip(data, int(place), int(bit)))
        scores, said = read_quietly(tmp_path)
        assert said, f"nobody noticed bit {bit} of byte {place}"
        assert scores.items() <= truth.items()


def test_three_thousand_flips_in_the_copy_are_not_believed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy, "GRACE", 0.0)
    root = tmp_path / "root"
    shutil.copytree(folder, root)
    rng = np.random.default_rng(1)
    for name, flips in ((copy.NAME, 2500), (f"{copy.NAME}.json", 500)):
        whole = (root / name).read_bytes()
        for place, bit in zip(rng.integers(0, len(whole), flips), rng.integers(0, 8, flips), strict=True):
            (root / name).write_bytes(flip(whole, int(place), int(bit)))
            copy._KNOWN.clear()
            assert copy.open_copy(root) is None, f"nobody noticed bit {bit} of byte {place} of {name}"
        (root / name).write_bytes(whole)
    assert copy.open_copy(root) is not None


def test_a_damaged_copy_gives_the_table_of_the_lines(folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(folder, root)
    before = tabulate(Store(root)).to_json()
    path = root / copy.NAME
    path.write_bytes(flip(path.read_bytes(), 100, 3))
    assert tabulate(Store(root)).to_json() == before


def test_a_damaged_line_is_named_and_its_job_is_run_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "results", inline=True)
    bench.run(ssl=["none"])
    (file,) = (bench.store.root / "records").glob("*.jsonl")
    undisturbed = bench.stable_records()
    text = file.read_text()
    file.write_text(text.replace('"score":1.0', '"score":0.9', 1))
    assert file.read_text() != text
    (bench.store.root / copy.NAME).unlink()
    again = Bench(tmp_path / "results", inline=True)
    with pytest.warns(TabbenchWarning, match="its digest does not match"):
        summary = again.run(ssl=["none"])
    assert summary.done == 1
    assert stable([each for each in again.store.records() if each.status == "ok"]) == undisturbed


def test_a_line_comes_back_as_it_was() -> None:
    value = {"key": "k", "schema": 2, "text": 'quotes " and \\ and é', "list": [1, {"digest": "mine"}]}
    assert read_line(to_line(value).rstrip(b"\n")) == value


def test_half_a_character_does_not_make_a_folder_unreadable(tmp_path: Path) -> None:
    store = Store(tmp_path)
    add(store, {**record(0), "status": "failed", "error": "bad name \udce9.csv"})
    assert b"udce9" not in next((tmp_path / "records").iterdir()).read_bytes(), "other readers could not decode it"
    assert saved(Store(tmp_path))[0]["error"] == "bad name ?.csv"
    assert Store(tmp_path).read_table(["error"])["error"].to_pylist() == ["bad name ?.csv"]
    # A line of somebody else's, who did not clean it.
    (file,) = (tmp_path / "records").glob("*.jsonl")
    other = {**record(1), "schema": 1, "error": "\udce9", "status": "failed"}
    file.write_text(file.read_text() + json.dumps(other) + "\n")
    assert Store(tmp_path).read_table(["error"])["error"].to_pylist() == ["bad name ?.csv", "?"]


def test_a_line_of_this_version_without_a_digest_is_not_believed() -> None:
    with pytest.raises(BadRecordError, match="it has no digest"):
        read_line(json.dumps({**record(0), "schema": 2}).encode())


@pytest.mark.parametrize("name", ["train.npy", "test.npy", "step.json"])
def test_a_damaged_artefact_is_set_aside_when_it_is_opened(tmp_path: Path, name: str) -> None:
    bench = Bench(tmp_path / "results", inline=True)
    bench.run(controls=[])
    (folder,) = (bench.store.root / "artefacts" / "encode").iterdir()
    path = folder / name
    path.write_bytes(flip(path.read_bytes(), path.stat().st_size - 3, 0))
    with pytest.raises(ArtefactError, match=rf"is damaged \({name}\); it was set aside and will be computed again"):
        Store(bench.store.root).open_artefact("encode", folder.name)
    assert not bench.store.has_artefact("encode", folder.name)


def damage(path: Path) -> None:
    path.write_bytes(flip(path.read_bytes(), path.stat().st_size // 2, 4))


@pytest.mark.parametrize("tuned", [{}, {"ssl_trials": 2, "trials": 2}], ids=["plain", "tuned"])
@pytest.mark.parametrize("kind", ["encode", "pretrain"])
def test_a_run_makes_damaged_artefacts_again(tmp_path: Path, kind: str, tuned: dict[str, Any]) -> None:
    undisturbed = Bench(tmp_path / "undisturbed", inline=True)
    undisturbed.run(controls=[], seeds=2, **tuned)
    bench = Bench(tmp_path / "results", inline=True)
    bench.run(controls=[], seeds=1, **tuned)
    if kind == "pretrain":  # else nobody opens the encoder
        shutil.rmtree(bench.store.root / "artefacts" / "encode")
    for path in (bench.store.root / "artefacts" / kind).rglob("*.*"):
        if path.suffix in (".npy", ".safetensors"):
            damage(path)
    summary = Bench(tmp_path / "results", inline=True).run(controls=[], seeds=2, **tuned)
    assert (summary.done, summary.failures) == (1, [])
    assert bench.stable_records() == undisturbed.stable_records()
