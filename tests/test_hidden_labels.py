"""No hidden label touches anything: exchanging all of them changes no byte of what is learned, chosen or scored."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from harness import Bench

from tabbench.contracts import Limits
from tabbench.data import prepare
from tabbench.data.cache import Manifest, cache_dir, read_frame
from tabbench.data.evidence import SHARED_ROWS
from tabbench.data.gather import find_data
from tabbench.data.labels import LabelledRows, choose_labelled
from tabbench.data.rules import divide
from tabbench.data.splits import Split
from tabbench.experiment.graph import Plan
from tabbench.registry import make_registry
from tabbench.results.store import Store
from tabbench.running.steps import do_job

VOLATILE = ("seconds", "environment", "encode_seconds")


class Hidden:
    """Exchanges the labels of hidden rows, with the rows chosen as they were before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parts: dict[int, Split] = {}
        self.chosen: dict[str, LabelledRows] = {}
        self.swap = False
        self.swapped = 0

        def divided(rule: Any, seed: int, *rest: Any) -> Split:
            return self.parts.setdefault(seed, divide(rule, seed, *rest))

        def chosen(y: Any, other: Any, regression: bool, budget: Any, seed: int, **options: Any) -> LabelledRows:
            return self.chosen.setdefault(budget.text, choose_labelled(y, other, regression, budget, seed, **options))

        def exchanged(manifest: Manifest) -> pd.DataFrame:
            return self.exchange(read_frame(manifest), manifest.target)

        monkeypatch.setattr(prepare, "divide", divided)
        monkeypatch.setattr(prepare, "choose_labelled", chosen)
        monkeypatch.setattr(prepare, "read_frame", exchanged)

    def exchange(self, frame: pd.DataFrame, target: str) -> pd.DataFrame:
        if not self.swap:
            return frame
        split, (labelled,) = self.parts[0], self.chosen.values()
        hidden = np.concatenate(
            [
                np.delete(split.train, labelled.train),
                np.delete(split.validation, labelled.validation),
            ]
        )
        labels = frame[target].copy()
        labels.iloc[hidden] = np.roll(frame[target].iloc[hidden].to_numpy(), 11)
        self.swapped = int((labels != frame[target]).sum())
        return frame.assign(**{target: labels})


def everything(plan: Plan, store: Store) -> dict[tuple[str, ...], Any]:
    """All that the steps of a plan find out or store, without what depends on the clock."""
    places = {"store": str(store.root), "cache": str(cache_dir())}
    found: dict[tuple[str, ...], Any] = {}
    for key, step in plan.steps.items():
        result = do_job(step.to_job(**places), store, Limits(1, "cpu"))
        found[step.label, key] = {name: value for name, value in result.items() if name not in VOLATILE}
        if step.kind in ("pretrain", "encode"):
            for file in sorted(store.artefact(step.kind, key).iterdir()):
                if file.name not in ("step.json", "digests.json"):  # they tell how long it took
                    found[step.label, key, file.name] = file.read_bytes()
    return found


@pytest.mark.parametrize("data, task", [("wine", "classes"), ("diabetes", "numbers")])
@pytest.mark.parametrize("probe", ["kept", "never"])
def test_exchanging_all_hidden_labels_changes_no_byte(
    data: str, task: str, probe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path / "plans")
    plan = bench.plan(
        ssl=["vime", "switchtab_sup"],
        model=["mlp", "linear"],
        data=[data],
        labels=["20%"],
        probe=probe,
        protocol=["frozen", "finetune"],
        controls=["none"],
        set={
            "vime": {"epochs": 2},
            "switchtab_sup": {"epochs": 1, "width": 8, "layers": 1},
            "mlp": {"n_layers": 1, "width": 8, "max_epochs": 2},
        },
    )
    hidden = Hidden(monkeypatch)
    before = everything(plan, Store(tmp_path / "before"))
    hidden.swap = True
    after = everything(plan, Store(tmp_path / "after"))
    assert hidden.swapped > 30
    assert before.keys() == after.keys()
    assert [place for place in before if before[place] != after[place]] == []


SMALL: dict[str, dict[str, Any]] = {
    "vime": {"epochs": 2},
    "tjepa": {"preset": "tiny", "exp_epochs": 3, "probe_every": 1},
    "reconstruct": {"epochs": 2, "head_width": 8},
    "vime_semi": {"epochs": 1, "semi_epochs": 2},
    "mlp": {"n_layers": 1, "width": 8, "max_epochs": 2, "batch_size": 32},
    "xgboost": {"n_rounds": 5},
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "tuning": ("wine", {"ssl": ["vime"], "model": ["mlp"], "ssl_trials": 3, "trials": 3}),
    "tjepa": ("wine", {"ssl": ["tjepa"], "model": ["knn", "mlp"], "probe": "kept"}),
    "backbone": ("wine", {"ssl": ["reconstruct"], "model": ["mlp"], "probe": "kept", "trials": 2}),
    "semi": ("wine", {"ssl": ["vime_semi"], "model": ["mlp"]}),
    "class weights": ("wine", {"ssl": ["none"], "model": ["mlp", "linear", "xgboost"], "class_weights": "balanced"}),
    "auroc": ("wine", {"ssl": ["vime"], "model": ["mlp", "xgboost"], "metric": "auroc", "probe": "kept"}),
    "mae": ("diabetes", {"ssl": ["vime"], "model": ["mlp", "knn"], "metric": "mae", "probe": "kept"}),
    "all validation labels": ("wine", {"ssl": ["none"], "model": ["mlp"], "validation_labels": "all"}),
}


@pytest.mark.parametrize("case", CASES)
def test_whole_runs_end_in_the_same_records(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tuning, weights chosen by the probe or by fine-tuning, class weights, metrics: configurations, trials,
    predictions, scores, label-free scores and flags."""
    data, entries = CASES[case]
    names = [*entries["ssl"], *entries["model"]]
    settings = {name: dict(SMALL[name]) for name in names if name in SMALL}
    if case == "backbone":
        settings["reconstruct"]["select"] = "finetune"
    hidden = Hidden(monkeypatch)
    found = []
    for folder in ("before", "after"):
        bench = Bench(tmp_path / folder, inline=True)
        given = {"protocol": ["frozen", "finetune"], "controls": ["none"], "data": [data], "labels": ["30%"]}
        summary = bench.run(**{**given, **entries}, set=settings)
        assert not summary.failures
        found.append(bench.stable_records())
        hidden.swap = True
    assert hidden.swapped > 30
    assert found[0] == found[1]
    trials = [record for record in found[0].values() if record["kind"] == "trial"]
    assert len(trials) == {"tuning": 3 * 4, "backbone": 2 * 2}.get(case, 0)


def test_hidden_labels_do_not_decide_which_rows_count_as_shared_with_the_test_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row is there four times, so that most test rows have a twin whose label is hidden."""
    wine = read_frame(find_data(["wine"], make_registry(), offline=True)[0])
    pd.concat([wine] * 4).to_csv(tmp_path / "twins.csv", index=False)
    plan = Bench(tmp_path / "plans").plan(
        ssl=["none"], model=["linear"], data=[f"{tmp_path / 'twins.csv'}:{wine.columns[-1]}"], labels=["20%"]
    )
    hidden = Hidden(monkeypatch)
    ((_, before),) = everything(plan, Store(tmp_path / "before")).items()
    hidden.swap = True
    ((_, after),) = everything(plan, Store(tmp_path / "after")).items()
    assert hidden.swapped > 100
    assert before["flags"] == [SHARED_ROWS], "of those with a visible label there are enough"
    assert before == after


def test_the_proof_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Bench(tmp_path / "plans").plan(ssl=["none"], model=["linear"], data=["diabetes"], labels=["20%"])
    hidden = Hidden(monkeypatch)
    before = everything(plan, Store(tmp_path / "before"))
    hidden.swap = True
    (few,) = hidden.chosen.values()
    leak = np.union1d(few.train, np.setdiff1d(np.arange(300), few.train)[:1])
    monkeypatch.setattr(prepare, "choose_labelled", lambda *given, **options: replace(few, train=leak))
    assert before != everything(plan, Store(tmp_path / "after")), "one more label is seen"
