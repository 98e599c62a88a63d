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
from tabbench.data.labels import LabelledRows, choose_labelled
from tabbench.data.rules import divide
from tabbench.data.splits import Split
from tabbench.experiment.graph import Plan
from tabbench.results.store import Store
from tabbench.running.steps import do_job

VOLATILE = ("seconds", "environment", "value", "encode_seconds")


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


def test_the_proof_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Bench(tmp_path / "plans").plan(ssl=["none"], model=["linear"], data=["diabetes"], labels=["20%"])
    hidden = Hidden(monkeypatch)
    before = everything(plan, Store(tmp_path / "before"))
    hidden.swap = True
    (few,) = hidden.chosen.values()
    leak = np.union1d(few.train, np.setdiff1d(np.arange(300), few.train)[:1])
    monkeypatch.setattr(prepare, "choose_labelled", lambda *given, **options: replace(few, train=leak))
    assert before != everything(plan, Store(tmp_path / "after")), "one more label is seen"
