"""``run --metric``: what tuning, early stopping, the probe and ranks look at."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from harness import Bench, InProcess

from tabbench.contracts.metrics import goodness
from tabbench.data.sources import resolve_data
from tabbench.errors import UsageError
from tabbench.experiment.plan import make_plan
from tabbench.experiment.spec import make_spec
from tabbench.nn import probe_score
from tabbench.nn.training import Objective
from tabbench.results.tabulate import tabulate
from tabbench.values import Task


def test_the_metric_is_in_every_key_unless_it_is_the_usual_one(bench: Bench) -> None:
    tuned = {"trials": 2, "ssl_trials": 2}
    usual, named, other = (bench.plan(**tuned, metric=name) for name in ("", "accuracy", "log_loss"))
    assert list(usual.steps) == list(named.steps)
    assert set(usual.steps).isdisjoint(other.steps)


def test_a_table_of_another_kind_keeps_its_metric(bench: Bench) -> None:
    plan = bench.plan(data=["wine", "diabetes"], metric="auroc")
    assert {(step.planned.data, step.planned.main_metric) for step in plan.records if step.planned} == {
        ("wine", "auroc"),
        ("diabetes", None),
    }


@pytest.mark.parametrize(
    "metric, said",
    [
        ("aurok", "Unknown metric 'aurok'. Did you mean: auroc?"),
        ("ece", "--metric ece cannot drive a run: predicting the class frequencies"),
        ("mae", "--metric mae needs a numeric target, but no table in this run has one"),
    ],
)
def test_a_metric_that_does_not_fit_is_refused(bench: Bench, metric: str, said: str) -> None:
    with pytest.raises(UsageError, match=said[:40].replace("?", "")):
        bench.plan(metric=metric)


def test_tuning_and_the_table_follow_the_metric(bench: Bench) -> None:
    bench.run(executor=InProcess, ssl=["none"], trials=5, metric="log_loss")
    records = bench.store.records()
    (result,) = (record for record in records if record.kind == "result")
    assert result.test is not None
    assert (result.metric, result.main_metric, result.score) == ("log_loss", "log_loss", result.test["log_loss"])
    assert result.tuning is not None
    assert result.validation is not None
    trials = {record.number: record.value for record in records if record.kind == "trial"}
    best = result.tuning["model"]
    assert best.best_value == max(value for value in trials.values() if value is not None) < 0, "lower loss is better"
    assert tabulate(bench.store).units == {"wine": "log_loss"}


def test_networks_stop_by_the_metric() -> None:
    """Three of four rows are right, but the class of two rows has only one of them."""
    logits = torch.tensor([[-2.0], [-2.0], [-2.0], [1.0]])
    y = np.array([0, 0, 1, 1])
    objective = {name: Objective(Task("binary", 2, name), y) for name in ("", "balanced_accuracy", "log_loss")}
    scores = {name: each.score(logits, each.targets(y, "cpu")) for name, each in objective.items()}
    assert scores[""] == scores["balanced_accuracy"] == 0.75
    losses = [np.log(1 + np.exp(-2.0)), np.log(1 + np.exp(-2.0)), np.log(1 + np.exp(2.0)), np.log(1 + np.exp(-1.0))]
    assert scores["log_loss"] == pytest.approx(-np.mean(losses), abs=1e-6)


def test_numbers_are_scored_in_their_own_unit() -> None:
    y = np.array([10.0, 20.0, 30.0])
    objective = Objective(Task("regression", metric="mae"), y)
    off_by_one = (torch.from_numpy(y + 1.0).float() - objective.centre) / objective.scale
    assert objective.score(off_by_one[:, None], objective.targets(y, "cpu")) == pytest.approx(-1.0, abs=1e-5)


def test_the_probe_follows_the_metric() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3)).astype(np.float32)
    y = (x[:, 0] + 0.1 * rng.normal(size=400) > 1.5).astype(np.int64)  # few are of class 1
    parts = (x[:200], y[:200], x[200:], y[200:])
    auroc = probe_score(*parts, Task("binary", 2, "auroc"))
    assert 0.97 < auroc <= 1.0
    assert auroc != probe_score(*parts, Task("binary", 2))


def test_goodness_is_higher_for_the_better() -> None:
    y, good, bad = np.array([0, 1]), np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.6, 0.4], [0.4, 0.6]])
    task = Task("binary", 2, "log_loss")
    assert goodness(task, y, good) == pytest.approx((np.log(0.9) + np.log(0.8)) / 2)
    assert goodness(task, y, good) > goodness(task, y, bad)


@pytest.mark.parametrize("metric, notes", [("", 1), ("auroc", 0)])
def test_accuracy_that_cannot_tell_is_noted(tmp_path: Path, bench: Bench, metric: str, notes: int) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=400), "b": rng.normal(size=400), "y": ["rare"] * 20 + ["usual"] * 380})
    frame.to_csv(tmp_path / "rare.csv", index=False)
    data = f"{tmp_path / 'rare.csv'}:y"
    manifests = resolve_data(data, bench.registry, offline=True)
    spec = make_spec({"ssl": ["none"], "model": ["nearest"], "data": [data], "preset": "quick", "metric": metric})
    assert len(make_plan(spec, bench.registry, manifests).records) == 1
    bench.run(executor=InProcess, ssl=["none"], data=[data], metric=metric)
    (record,) = bench.store.records()
    said = "one class has 95% of the rows, so accuracy says little; try --metric balanced_accuracy or auroc"
    assert (record.notes or []).count(said) == notes
