"""What methods add to their controls: hand-worked records."""

import json
from pathlib import Path
from typing import Any

import pytest
from harness import tabbench
from made_records import scores, write_records

from tabbench.results.formats import make_grid
from tabbench.results.gains import GainTable, tabulate_gains
from tabbench.results.row_settings import split_settings
from tabbench.results.selection import Filters


def make(tmp_path: Path, records: list[dict[str, Any]], **options: Any) -> GainTable:
    return tabulate_gains(write_records(tmp_path, records), **options)


def test_a_gain_is_paired_split_by_split(tmp_path: Path) -> None:
    (row, control) = make(tmp_path, [
        *scores("a", [0.80, 0.82, 0.90, 0.95]),
        *scores("none", [0.75, 0.78, 0.84]),
        *scores("untrained:a", [0.80, 0.80, 0.88]),
    ]).rows  # fmt: skip
    assert (row.row.ssl, control.row.ssl) == ("a", "untrained:a")
    to_none, to_untrained = row.cells["wine"].to_none, row.cells["wine"].to_untrained
    assert to_none is not None
    assert to_untrained is not None
    # Differences 0.05, 0.04, 0.06: mean 0.05, standard error 0.01 / sqrt(3), t = 4.303. The fourth split has no pair.
    assert to_none.mean == pytest.approx(0.05)
    assert to_none.low == pytest.approx(0.05 - 4.302653 * 0.01 / 3**0.5, abs=1e-6)
    assert (to_none.n, to_none.verdict) == (3, "helps")
    assert to_untrained.mean == pytest.approx(0.04 / 3)
    assert to_untrained.verdict == "not shown"
    assert control.cells["wine"].to_untrained is None


def test_smaller_errors_are_gains_and_one_split_is_not_estimable(tmp_path: Path) -> None:
    fields = {"metric": "rmse", "data": "ca"}
    (row,) = make(tmp_path, [*scores("a", [0.4], **fields), *scores("none", [0.5], **fields)]).rows
    gain = row.cells["ca"].to_none
    assert gain is not None
    assert gain.to_json() == {
        "mean": pytest.approx(0.1), "low": None, "high": None, "n": 1, "verdict": "not estimable"
    }  # fmt: skip
    assert row.over_none.percent == pytest.approx(20)


def test_controls_are_of_the_same_model_labels_protocol_and_settings(tmp_path: Path) -> None:
    records = [
        {"ssl": "a", "score": 0.9, "protocol": "finetune", "labels": "10%", "variant": "a.dim=8 mlp.lr=0.1"},
        {"ssl": "none", "score": 0.6, "protocol": "raw", "labels": "10%", "variant": "mlp.lr=0.1"},
        {"ssl": "none", "score": 0.1, "protocol": "raw", "labels": "10%"},
        {"ssl": "none", "score": 0.2, "protocol": "raw", "variant": "mlp.lr=0.1"},
        {"ssl": "none", "score": 0.3, "model": "linear", "protocol": "raw", "labels": "10%"},
        {"ssl": "untrained:a", "score": 0.8, "protocol": "finetune", "labels": "10%", "variant": "a.dim=8 mlp.lr=0.1"},
        {"ssl": "untrained:a", "score": 0.4, "protocol": "frozen", "labels": "10%", "variant": "a.dim=8 mlp.lr=0.1"},
    ]
    row = next(row for row in make(tmp_path, records).rows if row.row.ssl == "a")
    cell = row.cells["wine"]
    assert cell.to_none
    assert cell.to_none.mean == pytest.approx(0.3)
    assert cell.to_untrained
    assert cell.to_untrained.mean == pytest.approx(0.1)
    assert split_settings("a.dim=8 mlp.lr=0.1 mlp.name=x y", "mlp") == ("a.dim=8", "mlp.lr=0.1 mlp.name=x y")


def test_a_method_that_uses_labels_has_a_gain_over_raw_features(tmp_path: Path) -> None:
    (row,) = make(tmp_path, [{"ssl": "p", "uses_labels": True, "score": 0.7}, {"ssl": "none", "score": 0.6}]).rows
    assert (gain := row.cells["wine"].to_none)
    assert gain.mean == pytest.approx(0.1)


def test_a_filter_on_methods_does_not_lose_their_controls(tmp_path: Path) -> None:
    records = [{"ssl": "a", "score": 0.9}, {"ssl": "b", "score": 0.8}, {"ssl": "none", "score": 0.5}]
    (row,) = make(tmp_path, records, where=Filters(ssl=("a",))).rows
    assert (gain := row.cells["wine"].to_none)
    assert gain.mean == pytest.approx(0.4)


def test_the_promised_json_shape(tmp_path: Path) -> None:
    write_records(tmp_path, [*scores("a", [0.8, 0.9]), *scores("none", [0.7, 0.7])])
    done = tabbench("table", "--metric", "gain", "--format", "json", "--results", tmp_path)
    value = json.loads(done.stdout)
    assert value["metric"] == "gain"
    (row,) = value["rows"]
    assert (row["ssl"], row["model"], row["protocol"], row["labels"]) == ("a", "mlp", "frozen", "100%")
    assert set(row["cells"]["wine"]["to_none"]) == {"mean", "low", "high", "n", "verdict"}
    assert row["cells"]["wine"]["to_untrained"] is None


@pytest.mark.parametrize("given", [("--ties", "average"), ("--missing", "skip"), ("--common", "none")])
def test_options_of_ranks_are_refused(tmp_path: Path, given: tuple[str, str]) -> None:
    write_records(tmp_path, scores("a", [0.8, 0.9]))
    done = tabbench("table", "--metric", "gain", *given, "--results", tmp_path)
    told = f"tabbench: {given[0]} cannot be combined with --metric gain, which compares pairs of rows\n"
    assert (done.returncode, done.stderr) == (2, told)


def test_along_an_axis_gains_are_counted_over_datasets(tmp_path: Path) -> None:
    def on(data: str, model: str, gain: float, noise: float) -> list[dict[str, Any]]:
        fields = {"data": data, "model": model}
        own = [0.6 + gain - noise, 0.6 + gain, 0.6 + gain + noise]
        return [*scores("a", own, **fields, variant=f"a.dim=8 {model}.lr=0.1")] + [
            record
            for name, variant in (("none", f"{model}.lr=0.1"), ("untrained:a", f"a.dim=8 {model}.lr=0.1"))
            for record in scores(name, [0.6, 0.6, 0.6], **fields, variant=variant)
        ]

    made = make(tmp_path, [
        *on("wine", "mlp", 0.1, 0.01), *on("iris", "mlp", 0.1, 0.2), *on("seeds", "mlp", -0.1, 0.01),
        *on("wine", "linear", 0.2, 0.01),
    ], where=Filters(ssl=("a",)))  # fmt: skip
    grid = make_grid(made, "model")
    assert grid.headers == ["SSL", "gain over", "linear", "mlp"]
    assert [[cell.text for cell in line] for line in grid.lines] == [
        # 0.2 of an error of 0.4 are 50 %; (25 + 25 - 25) / 3 = 8.3 %.
        ["a", "none", "1 / 0 / 0 (+50.0 %)", "1 / 1 / 1 (+8.3 %)"],
        ["a", "untrained", "1 / 0 / 0 (+50.0 %)", "1 / 1 / 1 (+8.3 %)"],
    ]
    assert grid.notes[1:] == ["All rows of a: dim=8.", "All rows of linear and mlp: lr=0.1."]
    done = tabbench("table", "--metric", "gain", "--by", "model", "--format", "json", "--results", tmp_path)
    assert json.loads(done.stdout)["by"] == "model"
    columns = [cell.text for cell in make_grid(made, "ssl").lines[0]]
    assert columns == ["linear", "none", "1 / 0 / 0 (+50.0 %)"]
