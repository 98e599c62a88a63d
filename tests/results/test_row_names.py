"""Rows are named by the settings that tell them apart; what they share is said once, below the table."""

from pathlib import Path
from typing import Any

from made_records import write_records

from tabbench.results.formats.comparisons import gain_grid
from tabbench.results.formats.names import RowNames
from tabbench.results.formats.scores import score_grid
from tabbench.results.gains import tabulate_gains
from tabbench.results.tabulate import tabulate


def records(*variants: str, ssl: str = "a", model: str = "mlp") -> list[dict[str, Any]]:
    return [{"ssl": ssl, "model": model, "variant": variant} for variant in variants]


def named(folder: Path, made: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    rows = tabulate(write_records(folder, made)).rows
    names = RowNames(rows)
    return [names.ssl(row) for row in rows], names.notes()


def test_shared_settings_are_said_once(tmp_path: Path) -> None:
    made = records("a.dim=8 mlp.lr=1") + records("mlp.lr=1", ssl="none") + records("a.dim=8", model="linear")
    assert named(tmp_path, made) == (["a", "a", "none"], ["All rows of a: dim=8.", "All rows of mlp: lr=1."])


def test_settings_that_differ_stand_in_the_name(tmp_path: Path) -> None:
    names, notes = named(tmp_path, records("", "a.dim=8", "a.dim=9"))
    assert (names, notes) == (["a", "a [a.dim=8]", "a [a.dim=9]"], [])


def test_long_ones_get_as_many_letters_as_it_takes(tmp_path: Path) -> None:
    long = [f"a.dim={number:030d}" for number in range(30)]
    names, notes = named(tmp_path, records(*long))
    assert names[0] == "a [a]"
    assert names[25:28] == ["a [z]", "a [aa]", "a [ab]"]
    assert notes == [f"[{name[3:-1]}] {variant}" for name, variant in zip(names, long, strict=True)]


def test_tables_of_scores_and_of_gains_use_the_same_names(tmp_path: Path) -> None:
    made = records("a.dim=8 mlp.lr=1", "a.dim=9 mlp.lr=1") + records("mlp.lr=1", ssl="none")
    store = write_records(tmp_path, made)
    grids = [score_grid(tabulate(store)), gain_grid(tabulate_gains(store))]
    for grid in grids:
        assert {"a [a.dim=8]", "a [a.dim=9]"} <= {line[0].text for line in grid.lines}
        assert "All rows of mlp: lr=1." in grid.notes
