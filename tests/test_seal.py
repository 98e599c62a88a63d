"""The test part is sealed: what is in it changes the final score, and nothing that was chosen before."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import Bench
from small_settings import SETTINGS

from tabbench.context import Context
from tabbench.contracts import Limits, SSLMethod
from tabbench.data.prepare import SealedTest, SplitData, open_split
from tabbench.experiment.graph import Plan
from tabbench.results.store import Store
from tabbench.running import features, steps
from tabbench.values import Table


def scramble(split: SplitData) -> SplitData:
    """Other test rows, and other labels for them."""
    generator = np.random.default_rng(1)
    numeric = split.test.numeric[:, ::-1] * 7 + generator.normal(size=split.test.numeric.shape).astype(np.float32)
    categorical = generator.integers(0, 2, split.test.categorical.shape)
    n = len(split.test)
    y = generator.normal(size=n) if split.task.is_regression else generator.integers(0, split.task.n_classes, n)
    return replace(
        split,
        test=Table(numeric, categorical, split.test.schema),
        sealed=SealedTest(split.task, y, split.target_mean, split.target_std),
    )


def run_chain(plan: Plan, store: Store) -> dict[str, dict[str, Any]]:
    results = {}
    for step in plan.steps.values():
        results[step.label] = steps.do_job(step.to_job(), store, Limits())
    return results


def chosen_files(store: Store) -> dict[str, bytes]:
    """Encoders, and the representations of training and validation rows."""
    names = ("state.safetensors", "train.npy", "validation.npy")
    files = [path for path in (store.root / "artefacts").rglob("*") if path.name in names]
    return {str(path.relative_to(store.root)): path.read_bytes() for path in files}


@pytest.mark.parametrize("method", ["projection", "tjepa", "vime", "subtab", "binrecon", "switchtab"])
@pytest.mark.parametrize("data", ["wine", "diabetes"])
def test_scrambling_the_test_part_changes_only_the_final_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, data: str
) -> None:
    small = {"mlp": {**SETTINGS["model", "mlp"], "max_epochs": 20}, method: SETTINGS.get(("ssl", method), {})}
    plan = Bench(tmp_path / "plan").plan(ssl=[method], model=["mlp"], data=[data], controls=[], set=small)
    honest = Store(tmp_path / "honest")
    before = run_chain(plan, honest)
    monkeypatch.setattr(features, "open_split", lambda *given, **named: scramble(open_split(*given, **named)))
    scrambled = Store(tmp_path / "scrambled")
    after = run_chain(plan, scrambled)
    assert len(chosen_files(honest)) == 3
    assert chosen_files(honest) == chosen_files(scrambled)
    (one,) = [result for label, result in before.items() if "seed" in label]
    (other,) = [result for label, result in after.items() if "seed" in label]
    assert one["validation"] == other["validation"]
    assert one["diagnostics"] == other["diagnostics"], "epochs of early stopping among them"
    assert one["hashes"]["encoder"] == other["hashes"]["encoder"]
    assert one["score"] != other["score"]
    assert one["hashes"]["predictions"] != other["hashes"]["predictions"]


def test_pretraining_gets_training_rows_and_no_labels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[Table] = []
    bench = Bench(tmp_path)
    plan = bench.plan(controls=[])
    method = bench.registry.load(bench.registry.find("ssl", "projection"))

    def watch(self: SSLMethod, table: Table, context: Context) -> None:
        seen.append(table)
        self.initialise(table, context)

    monkeypatch.setattr(method, "pretrain", watch)
    step = next(iter(plan.steps.values()))
    steps.do_job(step.to_job(), bench.store, Limits())
    split = features.open_job_split(step.payload)
    np.testing.assert_array_equal(seen[0].numeric, split.train.features.numeric)  # type: ignore[union-attr]
    assert len(seen[0]) == 142


def test_trials_of_tuning_do_not_see_the_test_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path / "plan")
    plan = bench.plan(ssl=["vime"], model=["mlp"], controls=["none"], trials=4, ssl_trials=4)
    studies = [step.study for step in plan.steps.values() if step.study is not None]
    jobs = [
        study.make_step(study.configured.config).to_job()
        for study in studies
        if study.planned.model == "" or study.planned.ssl == "none"
    ]
    assert {job.kind for job in jobs} == {"pretrain", "trial"}
    before = [steps.do_job(job, Store(tmp_path / "honest"), Limits()) for job in jobs]
    monkeypatch.setattr(features, "open_split", lambda *given, **named: scramble(open_split(*given, **named)))
    after = [steps.do_job(job, Store(tmp_path / "scrambled"), Limits()) for job in jobs]
    assert [result["value"] for result in before] == [result["value"] for result in after]
    assert all("test" not in result for result in before)
