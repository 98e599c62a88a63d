"""Published tables beside ours."""

import dataclasses
import json
from pathlib import Path

import pytest
from harness import add, tabbench
from test_store import record

from tabbench.errors import UsageError
from tabbench.registry import make_registry
from tabbench.results.published import PublishedComparison, compare_with_published
from tabbench.results.store import Store
from tabbench.results.tabulate import tabulate

RECOMPUTED = {
    ("none", "mlp"): 9.29, ("ptarl", "mlp"): 5.0, ("switchtab", "mlp"): 4.29, ("vime", "mlp"): 9.0,
    ("binrecon", "mlp"): 11.57, ("subtab", "mlp"): 8.0, ("tjepa", "mlp"): 3.71, ("none", "resnet"): 10.29,
    ("ptarl", "resnet"): 6.0, ("vime", "resnet"): 7.29, ("binrecon", "resnet"): 6.71, ("subtab", "resnet"): 6.0,
    ("tjepa", "resnet"): 2.57,
}  # fmt: skip


@pytest.fixture
def compared(tmp_path: Path) -> PublishedComparison:
    store = Store(tmp_path)
    add(
        store,
        record("a", ssl="tjepa", data="california", metric="rmse", score=0.55, test={"rmse": 0.55, "rmse_std": 0.48}),
    )
    add(store, record("b", ssl="tjepa", data="adult", score=0.86, test={"accuracy": 0.86}))
    add(store, record("c", ssl="scarf", data="adult", score=0.85, test={"accuracy": 0.85}))
    return compare_with_published(tabulate(store), "tjepa-paper", make_registry())


def test_ranks_recomputed_from_the_printed_means(compared: PublishedComparison) -> None:
    found = {(row.ssl, row.model): row.recomputed_rank for row in compared.rows}
    for place, rank in RECOMPUTED.items():
        assert found[place] == pytest.approx(rank, abs=0.005)
    printed = {(row.ssl, row.model): row.published_rank for row in compared.rows}
    assert printed["tjepa", "resnet"] == 2.6
    assert printed["vime", "mlp"] == 7.4
    both = next(row for row in compared.rows if (row.ssl, row.model) == ("tjepa", "mlp"))
    assert set(both.recomputed_ranks) == {"ssl_methods", "downstream_models"}


def test_own_figures_stand_beside_published_ones_in_their_unit(compared: PublishedComparison) -> None:
    row = next(row for row in compared.rows if (row.ssl, row.model) == ("tjepa", "mlp"))
    assert row.cells["adult"].difference == pytest.approx(0.86 - 0.866)
    assert row.cells["california"].difference == pytest.approx(0.48 - 0.468), "both in standard deviations"
    assert row.cells["california"].own_mean == 0.48
    with pytest.raises(UsageError, match="Unknown metric of tjepa-paper 'time'"):
        compare_with_published(dataclasses.replace(compared.table, metric="time"), "tjepa-paper", make_registry())
    own_only = next(row for row in compared.rows if row.ssl == "scarf")
    assert own_only.cells["adult"].published is None


def test_every_set_of_settings_has_a_row_of_its_own(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for key, variant, score in (("a", "mlp.lr=1", 0.81), ("b", "", 0.85)):
        add(store, record(key, ssl="none", variant=variant, data="adult", score=score, test={"accuracy": score}))
    compared = compare_with_published(tabulate(store), "tjepa-paper", make_registry())
    rows = [row for row in compared.rows if (row.ssl, row.model) == ("none", "mlp")]
    assert [row.cells["adult"].own["mean"] for row in rows] == [0.85, 0.81], "the better one is not picked silently"
    assert {row.published_rank for row in rows} == {rows[0].published_rank}


def test_doubtful_cells_carry_a_caveat(compared: PublishedComparison) -> None:
    rows = {(row.ssl, row.model): row for row in compared.rows}

    def caveat(ssl: str, model: str, dataset: str) -> str:
        published = rows[ssl, model].cells[dataset].published
        assert published is not None
        return published.caveat

    for model in ("mlp", "dcnv2", "autoint", "ft_transformer"):
        assert "smoke run" in caveat("tjepa", model, "higgs")
    assert "smoke run" not in caveat("tjepa", "resnet", "higgs")
    assert "standard deviations" in caveat("tjepa", "resnet", "california")
    assert "data's unit" in caveat("none", "xgboost", "california")
    assert "raw table" in caveat("tjepa", "mlp", "helena")
    assert "another value" in caveat("vime", "mlp", "higgs")


def test_the_promised_json_and_the_other_formats(tmp_path: Path) -> None:
    store = Store(tmp_path)
    add(store, record("b", ssl="tjepa", data="adult", score=0.86, test={"accuracy": 0.86}))
    value = json.loads(tabbench("table", "--against", "tjepa-paper", "--format", "json", "--results", tmp_path).stdout)
    row = next(row for row in value["rows"] if (row["ssl"], row["model"]) == ("tjepa", "mlp"))
    assert {"published", "published_rank", "recomputed_rank"} <= set(row)
    assert {"mean", "std", "n", "rank", "published"} <= set(row["cells"]["adult"])
    assert row["cells"]["adult"]["published"] == {
        "mean": 0.866,
        "std": 0.002,
        "caveat": row["cells"]["adult"]["published"]["caveat"],
    }
    for layout in ("terminal", "markdown", "latex", "csv"):
        shown = tabbench("table", "--against", "tjepa-paper", "--format", layout, "--results", tmp_path)
        assert shown.returncode == 0, shown.stderr
        assert "0.866" in shown.stdout


def test_a_reference_can_be_read_without_own_results(tmp_path: Path) -> None:
    shown = tabbench("table", "--against", "rtdl", "--results", tmp_path / "none")
    assert shown.returncode == 0, shown.stderr
    assert "ft_transformer" in shown.stdout


def test_filters_apply_to_published_figures_too(tmp_path: Path) -> None:
    add(Store(tmp_path), record("b", ssl="tjepa", data="adult", score=0.86, test={"accuracy": 0.86}))
    chosen = ["--data", "adult", "--ssl", "tjepa", "--model", "mlp", "--format", "json"]
    value = json.loads(tabbench("table", "--against", "tjepa-paper", *chosen, "--results", tmp_path).stdout)
    assert value["datasets"] == ["adult"]
    rows = {(row["ssl"], row["model"]): row for row in value["rows"]}
    assert rows.keys() == {("tjepa", "mlp")}
    assert all(row["cells"].keys() == {"adult"} for row in rows.values())
    assert rows["tjepa", "mlp"]["recomputed_rank"] == pytest.approx(RECOMPUTED["tjepa", "mlp"], abs=0.005)
