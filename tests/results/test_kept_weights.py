"""Methods that kept the weights that they started with are named: their rows repeat those of their control."""

from pathlib import Path
from typing import Any

import pytest
from made_records import write_records

from tabbench.results.formats.comparisons import gain_grid
from tabbench.results.formats.notes import score_notes
from tabbench.results.gains import tabulate_gains
from tabbench.results.selection import Filters
from tabbench.results.tabulate import tabulate

NOTE = "untrained weights kept, as no epoch was better on validation: "


def pair(split: int, before: str, after: str, method: str = "a", **fields: Any) -> list[dict[str, Any]]:
    """A method's result on one split and that of its control; equal encoders have equal scores."""
    gained = 0.0 if before == after else 0.1
    return [
        {"ssl": name, "split": split, "score": score, "hashes": {"encoder": encoder}, **fields}
        for name, score, encoder in ((f"untrained:{method}", 0.5, before), (method, 0.5 + gained, after))
    ]


def notes_of(folder: Path, records: list[dict[str, Any]]) -> list[list[str]]:
    """The notes of both kinds of table."""
    store = write_records(folder, records)
    made, gains = tabulate(store), tabulate_gains(store)
    assert made.to_json()["kept_untrained"] == gains.to_json()["kept_untrained"]
    return [[line for line in lines if NOTE in line] for lines in (score_notes(made), gain_grid(gains).notes)]


def test_both_kinds_of_table_count_the_encoders_that_were_kept(tmp_path: Path) -> None:
    records = [*pair(0, "w0", "w0"), *pair(1, "w1", "t1"), *pair(2, "w2", "w2")]
    models = [{**record, "model": model} for record in records for model in ("mlp", "linear")]
    shown = [f"{NOTE}a on wine (2 of 3 encoders)"]
    assert notes_of(tmp_path, models) == [shown, shown], "models share encoders, which count once"


@pytest.mark.parametrize("first", [*pair(0, "w0", "w0")])
def test_nothing_is_said_without_the_control_or_without_the_method(tmp_path: Path, first: dict[str, Any]) -> None:
    assert notes_of(tmp_path, [first, {"ssl": "none"}]) == [[], []]


def test_another_encoder_with_the_same_score_is_not_a_kept_one(tmp_path: Path) -> None:
    same_score = [{**record, "score": 1.0} for record in pair(0, "w0", "t0")]
    assert notes_of(tmp_path, same_score) == [[], []]


def test_records_without_hashes_say_nothing(tmp_path: Path) -> None:
    nothing: list[dict[str, str] | None] = [{}, None]
    records = [{**record, "hashes": hashes} for record in pair(0, "w0", "w0") for hashes in nothing]
    assert notes_of(tmp_path, records) == [[], []]


def test_only_methods_that_are_shown_are_named(tmp_path: Path) -> None:
    records = [{"ssl": "none"}, *pair(0, "w0", "w0"), *pair(0, "v0", "v0", method="b")]
    gains = tabulate_gains(write_records(tmp_path, records), where=Filters(ssl=("b",)))
    assert gains.kept_untrained == [{"ssl": "b", "data": "wine", "kept": 1, "encoders": 1}]


def test_many_names_are_cut(tmp_path: Path) -> None:
    records = [record for data in "stuvwx" for record in pair(0, "w0", "w0", data=data)]
    told, _ = notes_of(tmp_path, records)
    assert told == [f"{NOTE}{', '.join(f'a on {data} (1 of 1 encoders)' for data in 'stuv')} and 2 more"]
