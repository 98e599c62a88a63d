"""Ranks, conventions, and what is left out."""

from pathlib import Path
from typing import Any

import pytest
from made_records import scores, write_records

from tabbench.errors import UsageError
from tabbench.results.formats import format_table
from tabbench.results.formats.axes import By
from tabbench.results.formats.layouts import column_blocks
from tabbench.results.formats.notes import left_out_notes, score_notes
from tabbench.results.formats.scores import score_grid, score_lines
from tabbench.results.gains import tabulate_gains
from tabbench.results.json_shapes import LeftOut
from tabbench.results.score_table import Row, ScoreTable
from tabbench.results.selection import Filters
from tabbench.results.store import Store
from tabbench.results.tabulate import scores_of, tabulate

RMSE = {"data": "ca", "metric": "rmse"}


def make(tmp_path: Path, records: list[dict[str, Any]], **options: Any) -> ScoreTable:
    return tabulate(write_records(tmp_path, records), **options)


def texts(table: ScoreTable, **options: Any) -> list[list[str]]:
    return [[cell.text for cell in line] for line in score_grid(table, **options).lines]


def row(table: ScoreTable, ssl: str, model: str = "mlp") -> Row:
    return next(row for row in table.rows if (row.ssl, row.model) == (ssl, model))


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
    spread = "1-2 records per cell, mean ± standard deviation over splits and seeds"
    assert score_notes(table)[0] == f"fidelity quick; not tuned; {spread}."


def test_a_result_without_a_seed_counts_for_every_seed(tmp_path: Path) -> None:
    mlps = [{"ssl": "a", "split": k, "seed": seed, "score": 0.7 + 0.1 * seed} for k in (0, 1) for seed in (0, 1, 2)]
    table = make(tmp_path, [
        *mlps,
        {"ssl": "a", "model": "linear", "seed": None, "score": 0.6},
        {"ssl": "a", "model": "linear", "seed": None, "split": 1, "score": 0.8},
        {"ssl": "a", "model": "knn", "seed": None, "score": 0.5},
    ])  # fmt: skip
    linear, knn, mlp = (row(table, "a", model).cells["wine"] for model in ("linear", "knn", "mlp"))
    assert (linear.results, linear.aside) == ({(0, 0): 0.6}, 1), "split 1 is not shared"
    assert mlp.results == pytest.approx({(0, 0): 0.7, (0, 1): 0.8, (0, 2): 0.9})
    assert (linear.is_partial, knn.is_partial, mlp.is_partial) == (False, True, False)
    assert (linear.rank, knn.rank, mlp.rank) == (2, 3, 1)
    assert (linear.n, linear.std, mlp.n) == (1, None, 3)
    alone = make(tmp_path / "alone", [{"ssl": "a", "seed": None}, {"ssl": "b", "seed": None}])
    assert [found.cells["wine"].n for found in alone.rows] == [1, 1]


@pytest.mark.parametrize("seedless_first", [True, False])
@pytest.mark.parametrize(("age", "expected"), [(1.0, {(0, 0): 0.6}), (-1.0, {(0, 0): 0.1, (0, 1): 0.2})])
def test_the_kind_of_result_that_is_newer_counts_where_a_model_lost_its_seeds_or_got_some(
    tmp_path: Path, age: float, expected: dict[tuple[int, int], float], *, seedless_first: bool
) -> None:
    linear: dict[str, Any] = {"ssl": "a", "model": "linear"}
    records = [{**linear, "seed": seed, "time": 100.0, "score": 0.1 + 0.1 * seed} for seed in (0, 1)]
    failed = {**linear, "seed": 2, "time": 300.0, "status": "failed", "error": "x", "score": None}
    without = {**linear, "seed": None, "time": 100.0 + age, "score": 0.6}
    mlps = [{"ssl": "a", "seed": seed} for seed in range(4)]
    order = [without, *records, failed] if seedless_first else [failed, *records, without]
    table = make(tmp_path, [*order, *mlps], common="none")
    cell = row(table, "a", "linear").cells["wine"]
    assert cell.found == pytest.approx(expected)
    assert cell.incomplete == (age < 0), "what failed with a seed belongs to results with seeds"
    assert len(row(table, "a").cells["wine"].results) == 4


def test_a_missing_split_of_a_model_without_seeds_is_one_result(tmp_path: Path) -> None:
    mlps = [{"ssl": "a", "split": k, "seed": seed} for k in (0, 1) for seed in (0, 1, 2)]
    table = make(tmp_path, [*mlps, {"ssl": "a", "model": "linear", "seed": None}])
    assert row(table, "a", "linear").cells["wine"].expected == 2
    assert row(table, "a").cells["wine"].expected == 6


def test_a_gain_over_a_result_without_a_seed_is_one_over_every_seed(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = []
    for split in (0, 1):
        records += [{"ssl": "a", "split": split, "seed": k, "score": score} for k, score in enumerate((0.7, 0.9, 0.95))]
        records += [{"ssl": "none", "split": split, "seed": None, "score": 0.8}]
    gain = tabulate_gains(write_records(tmp_path, records)).rows[0].cells["wine"].to_none
    assert gain is not None
    assert gain.mean == pytest.approx(0.05)


def test_statistics_see_a_result_without_a_seed_at_every_seed(tmp_path: Path) -> None:
    records = [{"ssl": "a", "seed": None, "score": 0.75}]
    records += [{"ssl": "b", "seed": seed, "score": 0.5 + 0.25 * seed} for seed in (0, 1, 2)]
    table = make(tmp_path, records)
    here = scores_of(table.rows, table.units).shared().by_dataset["wine"]
    assert here.places == ((0, 0), (0, 1), (0, 2))
    assert {tuple(values) for values in here.values.tolist()} == {(0.75,) * 3, (0.5, 0.75, 1.0)}


def test_one_record_per_cell_has_no_spread_to_speak_of(tmp_path: Path) -> None:
    assert score_notes(make(tmp_path, [{"ssl": "a"}]))[0] == "fidelity quick; not tuned; 1 record per cell."


def test_flagged_and_failed_records_are_left_out_and_named(tmp_path: Path) -> None:
    table = make(tmp_path, [
        {"ssl": "a"},
        {"ssl": "b", "flags": ["collapsed embedding"]},
        {"ssl": "c", "status": "failed", "error": "no luck", "score": None, "test": None},
    ])  # fmt: skip
    assert [row.ssl for row in table.rows] == ["a"]
    assert {item["reason"] for item in table.left_out} == {"flagged: collapsed embedding", "failed: no luck"}
    assert "left out: 1 record of c + mlp on wine: failed: no luck" in score_notes(table)


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
    assert [line[0] for line in texts(table)] == ["none", "none [mlp.lr=0.1]", "none [a]"]
    assert f"[a] {long}" in score_notes(table)


def test_ranks_compare_equal_budgets_unless_told_otherwise(tmp_path: Path) -> None:
    table = make(
        tmp_path, [{"ssl": "a", "trials": 5}, {"ssl": "b", "trials": 5}, {"ssl": "b", "trials": 0, "score": 0.9}]
    )
    assert [(row.ssl, row.budget) for row in table.rows] == [("a", (0, 5)), ("b", (0, 5))]
    assert table.left_out == [{"reason": "another budget: not tuned (--any-budget)", "records": 1}]
    assert "tuned with 0 + 5 trials" in score_notes(table)[0], "the table says how many trials its rows had"
    mixed = tabulate(Store(tmp_path), any_budget=True)
    assert [line[0] for line in texts(mixed)] == ["b (0 + 0 trials)", "a (0 + 5 trials)", "b (0 + 5 trials)"]


def test_two_contents_under_one_name_are_not_mixed(tmp_path: Path) -> None:
    table = make(tmp_path, [{"ssl": "a", "data_key": "old", "seed": 1}, {"ssl": "a", "data_key": "new", "score": 0.7}])
    assert row(table, "a").cells["wine"].values == [0.7]
    assert table.left_out == [{"reason": "made with older content of wine", "records": 1}]


def test_the_newest_record_of_a_place_counts(tmp_path: Path) -> None:
    table = make(tmp_path, [{"score": 0.1}, {"score": 0.2}, {"status": "failed", "error": "x", "score": None}])
    assert row(table, "none").cells["wine"].values == [0.2]


def test_time_and_named_metrics(tmp_path: Path) -> None:
    fields = {"test": {"auroc": 0.75, "accuracy": 0.5}, "seconds": {"pretrain": 2.0, "fit": 1.5}}
    assert row(make(tmp_path, [fields], metric="time"), "none").cells["wine"].mean == 3.5
    assert row(tabulate(Store(tmp_path), "auroc"), "none").cells["wine"].mean == 0.75
    with pytest.raises(UsageError, match="No record has the metric 'rmse'. Available: accuracy, auroc, time."):
        tabulate(Store(tmp_path), "rmse")
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
    assert missing == {"mean": None, "std": None, "n": 0, "rank": 2, "found": 0, "expected": 1, "incomplete": 0}


def test_the_other_content_of_a_name_is_counted_among_what_is_left_out(tmp_path: Path) -> None:
    table = make(tmp_path, [{"data_key": "old", "score": 0.9, "time": 1.0}, {"data_key": "new", "time": 2.0}])
    assert row(table, "none").cells["wine"].n == 1
    assert [item["reason"] for item in table.left_out] == ["made with older content of wine"]


def test_the_same_content_goes_by_the_name_that_the_user_gave(tmp_path: Path) -> None:
    assert make(tmp_path, [{"data": "old name", "data_key": "w"}], names={"w": "new name"}).datasets == ["new name"]


def test_small_errors_keep_their_digits(tmp_path: Path) -> None:
    records = [{"metric": "rmse", "score": 1.4e-5, "seed": 0}, {"metric": "rmse", "score": 1.6e-5, "seed": 1}]
    assert texts(make(tmp_path, records))[0][2] == "0.0000150 ± 0.0000014 (1)"


def test_numbers_beyond_reading_have_an_exponent(tmp_path: Path) -> None:
    tiny = texts(make(tmp_path / "a", [{"metric": "rmse", "score": 9.6e-16}]))
    huge = texts(make(tmp_path / "b", [{"metric": "rmse", "score": 1.3473412e31}]))
    assert (tiny[0][2], huge[0][2]) == ("9.60e-16 (1)", "1.35e+31 (1)")


def test_a_narrow_terminal_gets_blocks_of_columns() -> None:
    assert column_blocks([10, 5, 20, 20, 20], None) == [[0, 1, 2, 3, 4]]
    assert column_blocks([10, 5, 20, 20, 20], 60) == [[0, 1, 2, 3], [0, 1, 4]]
    assert column_blocks([10, 5, 90], 60) == [[0, 1, 2]], "what fits nowhere is printed all the same"


def test_rows_are_compared_on_the_splits_that_all_of_them_have(tmp_path: Path) -> None:
    records = [
        *scores("a", [0.80]),
        *scores("b", [0.70]),
        *scores("c", [0.75, 0.99, 0.99, 0.99, 0.99]),
    ]
    table = make(tmp_path, records)
    assert [(row.ssl, row.cells["wine"].mean, row.cells["wine"].rank) for row in table.rows] == [
        ("a", 0.80, 1),
        ("c", 0.75, 2),
        ("b", 0.70, 3),
    ]
    assert (
        "left aside: c + mlp has 4 more splits on wine. Rows are compared on the splits and seeds that all of them "
        "have (--common none shows all)." in score_notes(table)
    )
    assert [line[2] for line in texts(table)] == ["0.800 (1) 1/5", "0.750 (2)", "0.700 (3) 1/5"]
    everything = tabulate(Store(tmp_path), common="none")
    assert row(everything, "c").cells["wine"].mean == pytest.approx(0.942)
    assert {row.cells["wine"].rank for row in everything.rows} == {None}, "means over different splits have no ranks"
    assert "No ranks where rows have different splits or seeds." in score_notes(everything)


def test_a_failure_on_a_hard_split_improves_nobody(tmp_path: Path) -> None:
    hard = {"ssl": "b", "split": 2, "status": "failed", "error": "out of luck", "score": None, "test": None}
    table = make(tmp_path, [*scores("a", [0.80, 0.82, 0.30]), *scores("b", [0.79, 0.81]), hard])
    assert row(table, "a").cells["wine"].mean == pytest.approx(0.81), "the hard split counts for neither"
    assert [(row.ssl, row.cells["wine"].rank) for row in table.rows] == [("a", 1), ("b", 2)]
    assert (row(table, "b").cells["wine"].is_partial, row(table, "b").cells["wine"].incomplete) == (True, 1)


def test_seeds_are_averaged_within_a_split_first(tmp_path: Path) -> None:
    records = [{"split": 0, "seed": 0, "score": 0.2}, {"split": 0, "seed": 1, "score": 0.4}, {"split": 1, "score": 0.9}]
    assert row(make(tmp_path, records), "none").cells["wine"].mean == pytest.approx((0.3 + 0.9) / 2)


def test_rows_without_a_common_split_are_not_compared(tmp_path: Path) -> None:
    table = make(tmp_path, [{"ssl": "a", "split": 0}, {"ssl": "b", "split": 1}])
    assert [line[2] for line in texts(table)] == ["not shared", "not shared"]
    assert [row.average_rank for row in table.rows] == [None, None]


def test_missing_cells_say_why_they_are_missing(tmp_path: Path) -> None:
    failed = {"ssl": "b", "data": "ca", "status": "failed", "error": "x", "score": None, "test": None}
    table = make(tmp_path, [{"ssl": "a"}, {"ssl": "a", "data": "ca"}, {"ssl": "b"}, {"ssl": "c"}, failed])
    assert {line[0]: line[2] for line in texts(table)} == {"a": "0.500 (1)", "b": "left out", "c": "-"}


def test_protocols_and_numbers_of_labels_never_share_a_rank(tmp_path: Path) -> None:
    table = make(tmp_path, [
        {"ssl": "a", "protocol": "frozen", "score": 0.6},
        {"ssl": "a", "protocol": "finetune", "score": 0.9},
        {"ssl": "none", "protocol": "raw", "score": 0.7},
        {"ssl": "none", "protocol": "raw", "labels": "10%", "score": 0.4},
    ])  # fmt: skip
    found = [(row.group.protocol, row.labels, row.ssl, row.protocol, row.average_rank) for row in table.rows]
    assert found == [
        ("frozen", "100%", "none", "raw", 1),
        ("frozen", "100%", "a", "frozen", 2),
        ("finetune", "100%", "a", "finetune", 1),
        ("finetune", "100%", "none", "raw", 2),
        ("raw", "10%", "none", "raw", 1),
    ]
    value = table.to_json()
    assert (value["rows"][0]["protocol"], value["rows"][0]["labels"]) == ("raw", "100%")
    assert score_grid(table).headers[:4] == ["SSL", "model", "protocol", "labels"]
    assert score_grid(table).rules == {2, 4}, "a rule between groups"


def test_split_rules_and_main_metrics_never_share_a_rank(tmp_path: Path) -> None:
    records = [{"ssl": "a"}, {"ssl": "b", "split_rule": "time:when"}, {"ssl": "c", "main_metric": "auroc"}]
    assert [row.average_rank for row in make(tmp_path, records).rows] == [1, 1, 1]


def test_an_axis_can_be_set_side_by_side(tmp_path: Path) -> None:
    table = make(tmp_path, [
        {"ssl": "a", "model": "mlp", "score": 0.8}, {"ssl": "a", "model": "linear", "score": 0.7},
        {"ssl": "none", "model": "mlp", "score": 0.6},
    ], metric="score")  # fmt: skip
    assert score_grid(table, "model").headers == ["SSL", "linear", "mlp"]
    told = "fidelity quick; not tuned; 1 record per cell."
    assert score_grid(table, "model").notes[0] == f"wine (accuracy): {told}", "one dataset is named once"
    assert score_grid(table).notes[0] == told
    assert texts(table, by="model") == [["a", "0.700", "0.800"], ["none", "", "0.600"]]
    assert texts(table, by="ssl") == [["mlp", "0.800", "0.600"], ["linear", "0.700", ""]]


def test_with_an_axis_side_by_side_columns_name_their_dataset_and_its_unit(tmp_path: Path) -> None:
    records = [{"ssl": "a", "model": model, **on} for model in ("mlp", "linear") for on in ({}, RMSE)]
    few = {"train": 10, "validation": 9, "test": 9}
    wine, ca = "wine {}\n(accuracy)", "ca {}\n(rmse)"
    columns = [form.format(model) for model in ("linear", "mlp") for form in (ca, wine)]
    assert score_grid(make(tmp_path, records, metric="score"), "model").headers == ["SSL", *columns]
    alone = make(tmp_path / "alone", [{"ssl": "a", "counts": few}], metric="score")
    assert score_grid(alone, "model").notes[0].startswith("wine (accuracy) †: fidelity quick;")


def test_with_an_axis_side_by_side_the_best_method_of_each_model_is_marked(tmp_path: Path) -> None:
    lr = "linear.lr=1"
    table = make(tmp_path, [
        {"ssl": "a", "model": "mlp", "score": 0.8, "variant": "a.dim=8"}, {"ssl": "none", "model": "mlp", "score": 0.9},
        {"ssl": "a", "model": "linear", "score": 0.7, "variant": f"a.dim=8 {lr}"},
        {"ssl": "none", "model": "linear", "score": 0.6, "variant": lr},
        {"ssl": "none", "model": "linear", "score": 0.5, "variant": "linear.lr=2"},
    ], metric="score")  # fmt: skip

    def places(by: By | None) -> dict[str, str]:
        return {cell.text: cell.place for line in score_grid(table, by).lines for cell in line if "0." in cell.text}

    whole = {"0.900": "best", "0.800": "second", "0.700": "", "0.600": "", "0.500": ""}
    assert places(None) == whole
    apart = {"0.900": "best", "0.800": "second", "0.700": "best", "0.600": "second", "0.500": ""}
    assert places("model") == places("ssl") == apart, "a model with other settings is another model"
    grid = score_grid(table, "model")
    names = ["linear [linear.lr=1]", "linear [linear.lr=2]", "mlp"]
    assert grid.headers == ["SSL", *names], "what all rows share is left out"
    assert [line[0].text for line in grid.lines] == ["none", "a"]
    assert grid.notes[1:] == ["All rows of a: dim=8."]
    told = "Bold: the best SSL method with each model on each dataset."
    shown = {
        layout: told in format_table(table, layout, "model") for layout in ("terminal", "markdown", "latex", "html")
    }
    assert shown == {"terminal": False, "markdown": True, "latex": True, "html": True}, "no bold without a terminal"


def test_labels_side_by_side_come_with_their_worth_in_raw_labels(tmp_path: Path) -> None:
    raw = [(1, 0.5), (10, 0.7), (100, 0.9)]
    records: list[dict[str, Any]] = [{"labels": f"{share}%", "score": score} for share, score in raw]
    records += [{"ssl": "a", "labels": "1%", "score": 0.6}, {"ssl": "a", "labels": "100%", "score": 0.95}]
    for record in records:
        record["counts"] = {"train": 10 * int(record["labels"][:-1])}
    table = make(tmp_path, records, metric="score")
    assert score_grid(table, "labels").headers == ["SSL", "model", "protocol", "1%", "10%", "100%"]
    # The budgets are 10, 100 and 1000 labels. Half way from 10 to 100 on the logarithmic scale: the root of 1000.
    assert texts(table, by="labels")[0] == ["a", "mlp", "frozen", "0.600 [≈ 32]", "", "0.950 [> all]"]


def test_filters_choose_what_is_compared(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"ssl": "a"}, {"ssl": "untrained:a", "score": 0.7}, {"ssl": "b", "protocol": "finetune", "model": "linear"},
        {"ssl": "none", "data": "ca", "labels": "50"},
    ]  # fmt: skip
    store = write_records(tmp_path, records)

    def shown(**where: tuple[str, ...]) -> list[str]:
        return [row.ssl for row in tabulate(store, where=Filters(**where)).rows]

    assert shown(ssl=("A", "untrained")) == ["untrained:a", "a"]
    assert shown(model=("linear",)) == ["b"]
    assert shown(protocol=("finetune",)) == ["b", "none"], "raw rows belong to every protocol"
    assert shown(data=("ca",), labels=("50",)) == ["none"]
    with pytest.raises(UsageError, match="--model resnet: no record has it. Available: linear, mlp."):
        shown(model=("resnet",))


def test_intervals_and_letters_where_asked_for(tmp_path: Path) -> None:
    records = [*scores("a", [0.8, 0.82, 0.84] * 2), *scores("b", [0.5, 0.52, 0.54] * 2)]
    table = make(tmp_path, records, ci=True)
    # The mean of six splits, t = 2.571: 0.82 +- 2.571 * 0.01789 / sqrt(6).
    assert texts(table)[0][2:] == ["0.820 [0.801, 0.839] (1)", "1.00 [1.0, 1.0] a"]
    assert texts(table)[1][3] == "2.00 [2.0, 2.0] b"
    alone = make(tmp_path / "one", [{"ssl": "a"}, {"ssl": "b"}], ci=True)
    assert texts(alone)[0][2] == "0.500 [not estimable] (1)"
    assert "No rank groups: a row has 1 result (splits, summed over datasets); 6 are needed to tell rows apart." in (
        score_notes(alone)
    )


def test_an_interval_ends_where_the_range_of_its_metric_does(tmp_path: Path) -> None:
    records = [*scores("a", [0.9, 1.0]), *scores("a", [0.1, 0.5], data="ca", metric="rmse")]
    table = make(tmp_path, records, ci=True)
    # Two splits, t = 12.71: 0.95 +- 0.635 and 0.3 +- 2.541. No accuracy is above 1, no error below 0.
    assert texts(table)[0][2:4] == ["0.300 [0.000, 2.841] (1)", "0.950 [0.315, 1.000] (1)"]
    assert "Intervals end where the metric's range does." in score_grid(table).notes
    low, high = (score_lines(table)[0].index(name) for name in ("low", "high"))
    assert [(line[low], line[high]) for line in score_lines(table)[1:]] == [
        (0.0, pytest.approx(2.841, abs=1e-3)),
        (pytest.approx(0.315, abs=1e-3), 1.0),
    ]
    narrow = make(tmp_path / "narrow", scores("a", [0.5, 0.51]), ci=True)
    assert not any("range" in note for note in score_grid(narrow).notes)


def test_letters_are_explained_only_where_there_are_some(tmp_path: Path) -> None:
    few = [{"ssl": ssl, "labels": labels, "split": k} for ssl in "ab" for labels, n in (("100%", 3), ("10%", 2))
           for k in range(n)]  # fmt: skip
    none = "No rank groups: rows have too few results (splits, summed over datasets) to tell them apart."
    assert none in score_notes(make(tmp_path, few, ci=True))
    some = [*few, *({"ssl": ssl, "data": f"d{d}", "split": k} for ssl in "ab" for d in range(3) for k in range(3))]
    told = "Rows of a group that share a letter cannot be told apart (95 %, over datasets and splits)."
    assert told in score_notes(make(tmp_path / "some", some, ci=True))


def test_methods_that_are_skipped_for_one_reason_share_a_line() -> None:
    pairs: list[LeftOut] = [
        {"reason": "no", "ssl": ssl, "model": model, "protocol": "finetune"} for model in ("knn", "linear")
        for ssl in ("abcdef" if model == "knn" else "a")
    ]  # fmt: skip
    assert left_out_notes(pairs) == [
        "skipped: a, b, c, d and 2 more methods + knn (finetune): no",
        "skipped: a + linear (finetune): no",
    ]


def test_a_record_without_a_score_breaks_no_table(tmp_path: Path) -> None:
    table = make(tmp_path, [{"ssl": "a", "score": None, "test": {"accuracy": None}}, {"ssl": "b"}])
    assert [row.ssl for row in table.rows] == ["b"]


def test_notes_and_small_test_parts_are_told(tmp_path: Path) -> None:
    notes = ["column 'copy' tells the target", "only 18 test rows: a single row changes the score a lot"]
    told = {"notes": notes, "counts": {"train": 80, "test": 18}}
    table = make(tmp_path, [{"ssl": "a", **told}, {"ssl": "b", **told}])
    assert score_grid(table).headers[2] == "wine\n(accuracy) †"
    assert "note on wine: column 'copy' tells the target" in score_notes(table)
    assert "† fewer than 50 test rows: a single row changes the score a lot." in score_notes(table)
    assert sum("a single row" in note for note in score_notes(table)) == 1, "it is said once"
    assert table.to_json()["notes"] == {"wine": notes}


def test_only_notes_on_datasets_of_the_table_are_told(tmp_path: Path) -> None:
    number = {"metric": "rmse", "task": "regression", "test": {"rmse": 2.0}, "notes": ["a note on diabetes"]}
    table = make(tmp_path, [{"notes": ["a note on wine"]}, {"data": "diabetes", **number}], metric="rmse")
    assert [note for note in score_notes(table) if "a note" in note] == ["note on diabetes: a note on diabetes"]


def test_a_run_without_records_has_no_note_on_ranks(tmp_path: Path) -> None:
    assert score_notes(make(tmp_path, [])) == []


@pytest.mark.parametrize(
    "tuning, said",
    [
        ({"encoder": {}, "model": {}}, "tuned with 8 + 15 trials"),
        ({"model": {}}, "models tuned with 15 trials, SSL methods have nothing to tune"),
        ({"joint": {}}, "models tuned with 15 trials, SSL methods have nothing to tune"),
        ({"encoder": {}}, "SSL methods tuned with 8 trials, models have nothing to tune"),
        ({}, "nothing to tune"),
        (None, "tuned with 8 + 15 trials"),
    ],
)
def test_only_what_could_be_tuned_is_said_to_be(tmp_path: Path, tuning: dict[str, Any] | None, said: str) -> None:
    one = {"study": "s", "trials": 8, "pruned": 0, "failed": 0, "best_trial": 0, "best_value": 1.0, "default_value": 1}
    given = None if tuning is None else dict.fromkeys(tuning, one)
    table = make(tmp_path, [{"ssl": "a", "ssl_trials": 8, "trials": 15, "tuning": given}])
    assert score_notes(table)[0] == f"fidelity quick; {said}; 1 record per cell."


def test_a_flag_with_a_remedy_names_it() -> None:
    item: LeftOut = {
        "key": "a", "reason": "flagged: test rows also occur in training", "ssl": "none", "model": "mlp",
        "data": "letter",
    }  # fmt: skip
    (line,) = left_out_notes([item])
    assert line == (
        "left out: 1 record of none + mlp on letter: flagged: test rows also occur in training; "
        "run again with --duplicates group, which keeps identical rows on one side"
    )
