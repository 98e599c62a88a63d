"""Built-in methods on tables whose answer is known: no gain where none can be, a sensible order where there is one."""

from pathlib import Path
from typing import Any

import pytest
from harness import Bench
from tabbench_known.tables import make_table

from tabbench.results.gains import GainCell, gains_of
from tabbench.results.selection import select_records
from tabbench.results.statistics.gains import Gain

BRIEF: dict[str, dict[str, Any]] = {
    "tjepa": {"exp_epochs": 2, "exp_batch_size": 128, "preset": "tiny"},
    "vime": {"epochs": 10},
    "subtab": {"epochs": 2, "width": 32, "latent": 32},
    "binrecon": {"epochs": 10, "width": 64},
    "switchtab": {"epochs": 2},
}
BACKBONES: dict[str, dict[str, Any]] = {
    "reconstruct": {"epochs": 10, "head_width": 32},
    "predict_mask": {"epochs": 10, "head_width": 32},
}
NETWORK = {"mlp": {"n_layers": 1, "width": 32, "max_epochs": 10, "batch_size": 64, "lr": 3e-3}}
SPLITS = 3
RAW, LUCK = 0.63, 0.05
"""RMSE of raw columns with 50 labels, about; how far three small test parts may be from what new rows would give."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, GainCell]]:
    """The gains of every method on two tables, by table and method."""
    bench = Bench(Path(tmp_path_factory.mktemp("known")), inline=True)
    common: dict[str, Any] = {
        "ssl": list(BRIEF), "model": ["linear"], "controls": ["none", "untrained"], "splits": SPLITS, "set": BRIEF,
        "rows": 600,
    }  # fmt: skip
    bench.run(**common, data=["known-independent"])
    bench.run(**common, data=["known-factors"], labels=["50"])
    backbones = {"ssl": list(BACKBONES), "model": ["mlp"], "protocol": ["finetune"], "set": {**BACKBONES, **NETWORK}}
    bench.run(**{**common, **backbones}, data=["known-independent"])
    table = gains_of(select_records(bench.store))
    return {
        name: {row.row.ssl: row.cells[name] for row in table.rows if name in row.cells}
        for name in ("known-independent", "known-factors")
    }


@pytest.mark.parametrize("method", [*BRIEF, *BACKBONES])
def test_nobody_gains_on_raw_columns_that_tell_nothing_about_each_other(
    found: dict[str, dict[str, GainCell]], method: str
) -> None:
    cell = found["known-independent"][method]
    assert cell.to_none is not None
    assert cell.to_none.n > 1  # a collapsed encoder is flagged and takes no part
    assert cell.to_none.verdict != "helps"


@pytest.mark.parametrize("method", [*BRIEF, *BACKBONES])
def test_training_changes_nothing_beyond_its_interval_where_there_is_nothing_to_find(
    found: dict[str, dict[str, GainCell]], method: str
) -> None:
    gain = found["known-independent"][method].to_untrained
    if method == "switchtab":
        assert gain is None, "its untrained encoder is flagged as collapsed"
        return
    assert gain is not None
    assert gain.n == SPLITS
    assert gain.verdict == "not shown"


def test_training_finds_what_columns_have_in_common(found: dict[str, dict[str, GainCell]]) -> None:
    """With 50 labels: encoders that learned to fill in columns are better than untrained ones, on average and most of
    them; nobody is better than the best model there is."""
    cells = found["known-factors"]
    gains = {method: mean for method in BRIEF if (mean := mean_of(cells[method].to_untrained)) is not None}
    assert gains["binrecon"] > 0
    assert gains["vime"] > 0
    assert sum(gains.values()) > 0
    best = make_table("known-factors").best
    for method in BRIEF:
        gain = mean_of(cells[method].to_none)
        assert gain is not None
        assert RAW - gain > best - LUCK, f"{method} is better than possible"


def mean_of(gain: Gain | None) -> float | None:
    return None if gain is None else gain.mean
