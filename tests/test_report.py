"""Ranks, conventions, and what is left out."""

from pathlib import Path
from typing import Any

import pytest
from test_store import record

from tabbench.cli.table import column_blocks, grid, notes
from tabbench.errors import UsageError
from tabbench.report import Row, Table, rank_values, tabulate
from tabbench.store import Store


def make(tmp_path: Path, records: list[dict[str, Any]], **options: Any) -> Table:
    store = Store(tmp_path)
    for number, fields in enumerate(records):
        store.add({**record(f"key{number}"), **fields})
    return tabulate(store, **options)


def row(table: Table, ssl: str, model: str = "mlp") -> Row:
    return next(row for row in table.rows if (row.ssl, row.model) == (ssl, model))


def test_ranks_by_hand() -> None:
    assert rank_values([0.3, 0.1, 0.2]) == [3, 1, 2]
    assert rank_values([0.1, 0.1, 0.2]) == [1, 1, 3]
    assert rank_values([0.1, 0.1, 0.2], ties="average") == [1.5, 1.5, 3]
    assert rank_values([0.1, None, 0.2, None]) == [1, 3, 2, 3]
    assert rank_values([0.1, None, 0.2], missing="skip") == [1, None, 2]


def test_ranks_are_taken_per_dataset_on_means_and_averaged(tmp_path: Path) -> None:
    table = make(tmp_path, [
        {"ssl": "a", "seed": 0, "score": 0.8}, {"ssl": "a", "seed": 1, "score": 0.9},
        {"ssl": "b", "seed": 0, "score": 0.7}, {"ssl": "b", "seed": 1, "score": 0.99},
        {"ssl": "a", "data": "ca", "metric": "rmse", "score": 0.5},
        {"ssl": "b", "data": "ca", "metric": "rmse", "score": 0.4},
    ])  # fmt: skip
    assert row(table, "a").cells["wine"].mean == pytest.approx(0.85)
    assert row(table, "a").cells["wine"].std == pytest.approx(0.0707107, abs=1e-6)
    assert row(table, "a").cells["wine"].rank == 1
    assert row(table, "b").cells["ca"].rank == 1, "a smaller error is better"
    assert row(table, "a").average_rank == row(table, "b").average_rank == 1.5
    assert table.units == {"wine": "accuracy", "ca": "rmse"}
    spread = "1-2 records a cell, mean ± standard deviation over splits and seeds"
    assert notes(table)[0] == f"fidelity quick; not tuned; {spread}."


def test_one_record_a_cell_has_no_spread_to_speak_of(tmp_path: Path) -> None:
    assert notes(make(tmp_path, [{"ssl": "a"}]))[0] == "fidelity quick; not tuned; 1 record a cell."


def test_flagged_and_failed_records_are_left_out_and_named(tmp_path: Path) -> None:
    table = make(tmp_path, [
        {"ssl": "a"},
        {"ssl": "b", "flags": ["collapsed embedding"]},
        {"ssl": "c", "status": "failed", "error": "no luck", "score": None},
    ])  # fmt: skip
    assert [row.ssl for row in table.rows] == ["a"]
    assert {item["reason"] for item in table.left_out} == {"flagged: collapsed embedding", "failed: no luck"}
    assert "left out: 1 record(s) of c + mlp on wine: failed: no luck" in notes(table)


def test_fidelities_never_share_a_table(tmp_path: Path) -> None:
    records = [
        {"ssl": "a", "fidelity": "quick"},
        {"ssl": "b", "fidelity": "standard"},
        {"ssl": "c", "fidelity": "standard, 500 rows"},
    ]
    table = make(tmp_path, records)
    assert (table.fidelity, [row.ssl for row in table.rows]) == ("standard", ["b"])
    reasons = {item["reason"] for item in table.left_out}
    assert reasons == {"fidelity quick (--fidelity)", "fidelity standard, 500 rows (--fidelity)"}
    assert [row.ssl for row in tabulate(Store(tmp_path), fidelity="quick").rows] == ["a"]
    with pytest.raises(UsageError, match="No records of fidelity 'papr'"):
        tabulate(Store(tmp_path), fidelity="papr")


def test_rows_that_use_labels_are_ranked_apart(tmp_path: Path) -> None:
    table = make(tmp_path, [
        {"ssl": "a", "score": 0.5},
        {"ssl": "b", "score": 0.6},
        {"ssl": "p", "score": 0.9, "uses_labels": True},
    ])  # fmt: skip
    assert [(row.ssl, row.average_rank) for row in table.rows] == [("b", 1), ("a", 2), ("p", 1)]


def test_differently_set_rows_are_kept_apart(tmp_path: Path) -> None:
    table = make(tmp_path, [{"variant": ""}, {"variant": "mlp.lr=0.1", "score": 0.4}])
    assert [row.variant for row in table.rows] == ["", "mlp.lr=0.1"]


def test_long_settings_stand_below_the_table(tmp_path: Path) -> None:
    long = "tjepa.model_dim_hidden=32 tjepa.model_num_layers=2"
    table = make(tmp_path, [{"variant": ""}, {"variant": "mlp.lr=0.1", "score": 0.4}, {"variant": long, "score": 0.3}])
    assert [line[0] for line in grid(table)[1]] == ["none", "none [mlp.lr=0.1]", "none [a]"]
    assert f"[a] {long}" in notes(table)


def test_ranks_compare_equal_budgets_unless_told_otherwise(tmp_path: Path) -> None:
    table = make(
        tmp_path, [{"ssl": "a", "trials": 5}, {"ssl": "b", "trials": 5}, {"ssl": "b", "trials": 0, "score": 0.9}]
    )
    assert [(row.ssl, row.budget) for row in table.rows] == [("a", (0, 5)), ("b", (0, 5))]
    assert table.left_out == [{"reason": "another budget: not tuned (--any-budget)", "records": 1}]
    assert "tuned with 0 + 5 trials" in notes(table)[0], "the table says how many trials its rows had"
    mixed = tabulate(Store(tmp_path), any_budget=True)
    assert [line[0] for line in grid(mixed)[1]] == ["b (0 + 0 trials)", "a (0 + 5 trials)", "b (0 + 5 trials)"]


def test_two_contents_under_one_name_are_not_mixed(tmp_path: Path) -> None:
    table = make(tmp_path, [{"ssl": "a", "data_key": "old", "seed": 1}, {"ssl": "a", "data_key": "new", "score": 0.7}])
    assert row(table, "a").cells["wine"].values == [0.7]
    assert table.left_out == [{"reason": "an older content of wine", "records": 1}]


def test_the_newest_record_of_a_place_counts(tmp_path: Path) -> None:
    table = make(tmp_path, [{"score": 0.1}, {"score": 0.2}, {"status": "failed", "error": "x", "score": None}])
    assert row(table, "none").cells["wine"].values == [0.2]


def test_time_and_named_metrics(tmp_path: Path) -> None:
    fields = {"test": {"auroc": 0.75, "accuracy": 0.5}, "seconds": {"pretrain": 2.0, "fit": 1.5}}
    assert row(make(tmp_path, [fields], metric="time"), "none").cells["wine"].mean == 3.5
    assert row(tabulate(Store(tmp_path), "auroc"), "none").cells["wine"].mean == 0.75
    assert tabulate(Store(tmp_path), "rmse").rows == []
    with pytest.raises(UsageError, match="Unknown metric 'acuracy'. Did you mean: accuracy"):
        tabulate(Store(tmp_path), "acuracy")


def test_the_promised_json_shape(tmp_path: Path) -> None:
    value = make(tmp_path, [{"ssl": "a"}, {"ssl": "b", "data": "ca"}]).to_json()
    assert {"metric", "convention", "datasets", "rows", "left_out"} <= set(value)
    for line in value["rows"]:
        assert {"ssl", "model", "cells", "average_rank"} <= set(line)
        assert set(line["cells"]) == set(value["datasets"]) == {"wine", "ca"}
        for cell in line["cells"].values():
            assert {"mean", "std", "n", "rank"} <= set(cell)
    missing = value["rows"][0]["cells"]["ca"]
    assert missing == {"mean": None, "std": None, "n": 0, "rank": 2}


def test_the_other_content_of_a_name_is_counted_among_what_is_left_out(tmp_path: Path) -> None:
    table = make(tmp_path, [{"data_key": "old", "score": 0.9, "time": 1.0}, {"data_key": "new", "time": 2.0}])
    assert row(table, "none").cells["wine"].n == 1
    assert [item["reason"] for item in table.left_out] == ["an older content of wine"]


def test_the_same_content_goes_by_the_name_that_the_user_gave(tmp_path: Path) -> None:
    assert make(tmp_path, [{"data": "old name", "data_key": "w"}], names={"w": "new name"}).datasets == ["new name"]


def test_small_errors_keep_their_digits(tmp_path: Path) -> None:
    records = [{"metric": "rmse", "score": 1.4e-5, "seed": 0}, {"metric": "rmse", "score": 1.6e-5, "seed": 1}]
    _, body = grid(make(tmp_path, records))
    assert body[0][2] == "0.0000150 ± 0.0000014 (1)"


def test_numbers_beyond_reading_have_an_exponent(tmp_path: Path) -> None:
    _, tiny = grid(make(tmp_path / "a", [{"metric": "rmse", "score": 9.6e-16}]))
    _, huge = grid(make(tmp_path / "b", [{"metric": "rmse", "score": 1.3473412e31}]))
    assert (tiny[0][2], huge[0][2]) == ("9.60e-16 (1)", "1.35e+31 (1)")


def test_a_narrow_terminal_gets_blocks_of_columns() -> None:
    assert column_blocks([10, 5, 20, 20, 20], None) == [[0, 1, 2, 3, 4]]
    assert column_blocks([10, 5, 20, 20, 20], 60) == [[0, 1, 2, 3], [0, 1, 4]]
    assert column_blocks([10, 5, 90], 60) == [[0, 1, 2]], "what fits nowhere is printed all the same"
