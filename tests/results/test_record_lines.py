"""Records as columns: parts, order and defaults, read from the lines or from the copy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_records import scores, write_records

from tabbench.results.record_lines import SPLIT_RULE, RecordLines, read_lines
from tabbench.results.selection import results_among
from tabbench.results.store import Store
from tabbench.results.tabulate import tabulate

MIXED: list[dict[str, Any]] = [
    *scores("none", [0.5, 0.6, 0.7]),
    *scores("vime", [0.8, 0.9], protocol=None, labels=None, split_rule=None, variant=None, trials=None),
    *scores("none", [0.4], model="linear", seed=None, time=None),
    {"ssl": "vime", "kind": "trial", "score": None, "study": "s", "value": 0.25},
    {"ssl": "vime", "status": "failed", "score": None, "test": None, "error": "boom", "split": 4},
]


@pytest.fixture(params=["lines", "copy"])
def lines(request: pytest.FixtureRequest, tmp_path: Path) -> RecordLines:
    store = write_records(tmp_path, MIXED)
    if request.param == "copy":
        store.compact()
    return read_lines(store, ["value"])


def test_each_record_comes_back_with_its_own_values_and_the_defaults(lines: RecordLines) -> None:
    found: list[dict[str, Any]] = [dict(record) for record in lines.to_dicts()]
    assert [record["score"] for record in found] == [0.5, 0.6, 0.7, 0.8, 0.9, 0.4, None, None]
    assert [record["split"] for record in found] == [0, 1, 2, 0, 1, 0, 0, 4]
    assert [record["protocol"] for record in found] == ["raw"] * 3 + ["frozen"] * 2 + ["raw"] + ["frozen"] * 2
    assert {(record["labels"], record["split_rule"], record["variant"]) for record in found} == {
        ("100%", SPLIT_RULE, "")
    }
    assert (found[3]["trials"], found[5]["seed"], found[5]["time"]) == (0, None, 0.0)
    assert (found[6]["value"], found[7]["error"], found[7]["test"]) == (0.25, "boom", None)


def test_groups_hold_every_record_once_and_share_what_they_say(lines: RecordLines) -> None:
    groups = lines.groups()
    assert [group.where.tolist() for group in groups] == [[0, 1, 2], [3, 4], [5], [6], [7]]
    everything = lines.to_dicts()
    for shared, where in groups:
        assert all(shared.items() <= everything[record].items() for record in where.tolist())


def test_part_of_the_records_is_read_like_the_whole(lines: RecordLines) -> None:
    everything = lines.to_dicts()
    chosen = np.array([7, 0, 4])
    part = lines.take(chosen)
    assert part.to_dicts() == [everything[record] for record in chosen]
    assert part.values("key") == [part.value("key", record) for record in range(3)]
    assert part.where() == [(4, 0), (0, 0), (1, 0)]
    assert [record["ssl"] for record in lines.filter(lambda shared: shared["ssl"] == "none").to_dicts()] == ["none"] * 4
    assert len(results_among(lines)) == 7
    assert [record["split"] for record in results_among(lines, [everything[4]["key"]]).to_dicts()] == [1]


def test_a_folder_without_records_gives_an_empty_table(tmp_path: Path) -> None:
    assert read_lines(Store(tmp_path)).to_dicts() == []
    assert tabulate(Store(tmp_path)).rows == []


def test_a_table_of_many_records_makes_no_object_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = write_records(tmp_path, scores("none", [0.5] * 30))
    monkeypatch.setattr(RecordLines, "to_dicts", lambda lines: pytest.fail("records were made one by one"))
    assert tabulate(store).rows[0].cells["wine"].n == 30
