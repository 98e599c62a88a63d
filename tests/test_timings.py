"""What stored results say of the time of other steps."""

from pathlib import Path
from typing import Any

import pytest
from harness import Bench, Watcher
from made_records import write_records

from tabbench.running.driver import run_plan
from tabbench.running.forecast import Forecast
from tabbench.running.launch import make_launcher
from tabbench.running.timings import Timings

CELLS = 1200 * 4 / 1e6
"""Millions of table cells of a record made for tests."""


def took(pretrain: float, fit: float) -> dict[str, float]:
    return {"pretrain": pretrain, "encode": 0.1, "fit": fit, "predict": 0.1}


def test_trainings_are_known_by_method_and_model_from_results_of_the_same_preset(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"ssl": "vime", "seconds": took(4.0, 2.0)},
        {"ssl": "untrained:vime", "seconds": took(0.0, 3.0), "preset": None},
        {"ssl": "vime", "seconds": took(0.0, 8.0), "protocol": "finetune"},
        {"ssl": "vime", "seconds": took(9.0, 9.0), "preset": "paper"},
        {"ssl": "vime", "seconds": took(9.0, 9.0), "kind": "trial"},
        {"ssl": "vime", "seconds": None, "status": "failed", "score": None, "test": None},
    ]
    assert Timings(write_records(tmp_path, records), "quick").seconds == {
        ("fit", "vime + mlp"): {"wine": pytest.approx([2.0 / CELLS, 3.0 / CELLS])},
        ("fit", "mlp"): {"wine": pytest.approx([2.0 / CELLS, 3.0 / CELLS])},
        ("pretrain", "vime"): {"wine": pytest.approx([4.0 / CELLS])},
        ("finetune", "vime + mlp"): {"wine": pytest.approx([8.0 / CELLS])},
    }


def test_a_table_that_was_run_says_more_of_itself_than_others_do(tmp_path: Path, bench: Bench) -> None:
    """Seconds per cell differ by a factor of fifty between tables; a training that is unknown here is measured."""
    step = next(iter(bench.plan(ssl=["none"], controls=[]).records))
    assert step.planned is not None
    fields = {"ssl": "none", "model": step.planned.model}
    elsewhere = {**fields, "data": "elsewhere", "seconds": took(0.0, 50.0)}
    others = Timings(write_records(tmp_path / "others", [elsewhere]), "quick")
    assert others.of_job(step, closely=True) is None
    assert (far := others.of_job(step)) is not None
    here = {**fields, "data": step.planned.data, "seconds": took(0.0, 1.0)}
    both = Timings(write_records(tmp_path / "both", [elsewhere, here]), "quick")
    assert both.of_job(step) == both.of_job(step, closely=True) == pytest.approx(far / 50)


def test_a_run_with_nothing_to_do_does_not_read_what_others_took(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.run(ssl=["none"], controls=[])
    plan = bench.plan(ssl=["none"], controls=[])
    launcher = make_launcher(bench.registry, jobs=1)
    monkeypatch.setattr(Timings, "seconds", property(lambda timings: pytest.fail("all records were read")))
    summary = run_plan(plan, bench.store, launcher, Watcher(), forecast=Forecast(plan, bench.store, launcher))
    assert summary.done_before == len(plan.records)
