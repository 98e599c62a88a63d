"""Frozen or fine-tuned, with few labels or many: what is planned, what is shared, and what no label may reach."""

from pathlib import Path
from typing import Any

import pytest
from harness import TOYS, Bench, tabbench

from tabbench.errors import UsageError
from tabbench.experiment.graph import Plan, Step
from tabbench.running.launch import make_launcher
from tabbench.running.measurements import PER_JOB, Calibration
from tabbench.running.sizes import work_of
from tabbench.running.timings import Timings

SMALL = {
    "vime": {"epochs": 2},
    "mlp": {"n_layers": 1, "width": 8, "max_epochs": 2, "batch_size": 32},
    "linear_head": {"max_epochs": 2, "batch_size": 32},
}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """No worker has to start here."""
    return Bench(tmp_path / "results", inline=True)


def steps(plan: Plan, kind: str) -> list[Step]:
    return [step for step in plan.steps.values() if step.kind == kind]


def small(*names: str) -> dict[str, Any]:
    return {name: SMALL[name] for name in names if name in SMALL}


def test_one_pretraining_serves_both_protocols_all_models_and_seeds(bench: Bench) -> None:
    plan = bench.plan(ssl=["vime"], model=["mlp", "linear_head"], protocol=["frozen", "finetune"], seeds=2, controls=[])
    assert len(steps(plan, "pretrain")) == len(steps(plan, "encode")) == 1
    found = [(step.planned.protocol, step.planned.model, step.planned.seed) for step in plan.records if step.planned]
    assert len(found) == len(set(found)) == 8
    tuned = [step for step in steps(plan, "fit") if step.planned and step.planned.protocol == "finetune"]
    assert {need for step in tuned for need in step.needs} == {steps(plan, "pretrain")[0].key}, "nothing is encoded"


def test_raw_rows_are_run_once_for_all_protocols(bench: Bench) -> None:
    plan = bench.plan(ssl=["vime"], model=["mlp"], protocol=["frozen", "finetune"])
    raw = [step.planned for step in plan.records if step.planned and step.planned.ssl == "none"]
    assert [each.protocol for each in raw] == ["raw"]


def test_defaults_say_nothing_in_a_key(bench: Bench) -> None:
    before = bench.plan(ssl=["vime"], model=["mlp"])
    after = bench.plan(
        ssl=["vime"], model=["mlp"], protocol=["frozen", "finetune"], labels=["100%", "10%"], probe="kept"
    )
    assert set(before.steps) < set(after.steps)


def test_settings_of_finetuning_do_not_touch_what_is_frozen(bench: Bench) -> None:
    before, after = (
        bench.plan(ssl=["vime"], model=["mlp"], protocol=["frozen", "finetune"], set={"mlp": given})
        for given in ({}, {"encoder_lr_scale": 0.3})
    )
    changed = [step.planned for key, step in after.steps.items() if key not in before.steps]
    assert [(each.protocol, each.variant) for each in changed if each] == [("finetune", "mlp.encoder_lr_scale=0.3")]


def test_the_rate_of_the_encoder_is_tuned_where_it_matters(bench: Bench) -> None:
    plan = bench.plan(ssl=["vime"], model=["mlp"], protocol=["frozen", "finetune"], trials=2)
    tuned = {step.label: step.study.tuned for step in steps(plan, "tune") if step.study}
    assert "encoder_lr_scale" in tuned["wine/0 tune vime + mlp, fine-tuned"]
    assert "encoder_lr_scale" not in tuned["wine/0 tune vime + mlp"] | tuned["wine/0 tune none + mlp"]


def test_pairs_that_cannot_be_finetuned_are_skipped_with_a_reason(bench: Bench) -> None:
    plan = bench.plan(
        ssl=["vime", "projection"],
        model=["mlp", "xgboost"],
        protocol=["frozen", "finetune"],
        splits=2,
        controls=["none"],
    )
    assert [skipped.to_json() for skipped in plan.skipped] == [
        {"ssl": ssl, "model": model, "protocol": "finetune", "reason": reason}
        for ssl, model, reason in [
            ("vime", "xgboost", "xgboost cannot train together with an encoder"),
            ("projection", "mlp", "projection has no encoder that can be fine-tuned"),
            ("projection", "xgboost", "projection has no encoder that can be fine-tuned"),
        ]
    ]
    assert len(plan.records) == 2 * (2 + 2 + 2 + 1)


def test_joint_methods_skip_models_without_a_backbone(bench: Bench) -> None:
    plan = bench.plan(ssl=["ptarl"], model=["mlp", "xgboost"], controls=[])
    assert [str(skipped) for skipped in plan.skipped] == [
        "ptarl + xgboost (raw): xgboost has no backbone for ptarl to train"
    ]


def test_an_experiment_of_which_nothing_is_possible_is_refused(bench: Bench) -> None:
    with pytest.raises(UsageError, match="Nothing to run: projection has no encoder that can be fine-tuned"):
        bench.plan(ssl=["projection"], model=["mlp"], protocol=["finetune"])


def test_both_protocols_run_and_say_so_in_their_records(bench: Bench) -> None:
    summary = bench.run(
        ssl=["vime"],
        model=["mlp"],
        protocol=["frozen", "finetune"],
        controls=["none", "untrained"],
        set=small("vime", "mlp"),
    )
    assert not summary.failures
    found = {(record["ssl"], record["protocol"]): record for record in bench.records()}
    assert set(found) == {
        ("none", "raw"),
        *((ssl, protocol) for ssl in ("vime", "untrained:vime") for protocol in ("frozen", "finetune")),
    }
    assert {record["labels"] for record in found.values()} == {"100%"}
    frozen, finetuned = found["vime", "frozen"], found["vime", "finetune"]
    assert frozen["hashes"]["encoder"] == finetuned["hashes"]["encoder"], "the same pretraining"
    assert frozen["hashes"]["predictions"] != finetuned["hashes"]["predictions"]
    assert finetuned["counts"]["pretraining"] == finetuned["counts"]["train"] == 142
    assert "representation" not in finetuned["hashes"] or finetuned["hashes"]["representation"] is None
    assert finetuned["diagnostics"]["model"]["parameters"] > frozen["diagnostics"]["model"]["parameters"]


def test_tuned_encoders_are_finetuned_too(bench: Bench) -> None:
    entries: dict[str, Any] = {"ssl": ["vime"], "model": ["mlp"], "protocol": ["finetune"], "controls": []}
    summary = bench.run(**entries, ssl_trials=2, trials=2, set={"vime": {"epochs": 1}, "mlp": {"max_epochs": 1}})
    assert not summary.failures
    (result,) = (record for record in bench.records() if record["kind"] == "result")
    assert set(result["tuning"]) == {"encoder", "model"}
    assert result["hashes"]["encoder"]


def test_dry_run_and_run_name_what_is_skipped_and_the_table_remembers(tmp_path: Path) -> None:
    options = ["--ssl", "vime", "--model", "linear,linear_head", "--data", "wine", "--protocol", "finetune"]
    options += ["--controls", "", "--set", "vime.epochs=1", "--set", "linear_head.max_epochs=1", "--results", "r"]
    said = "vime + linear (finetune): linear cannot train together with an encoder"
    assert f"skipped: {said}" in tabbench("run", *options, "--dry-run", cwd=tmp_path).stdout
    done = tabbench("run", *options, "--plugin", TOYS, "--executor", "inline", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"skipped: {said}" in done.stdout + done.stderr
    table = tabbench("table", "--results", "r", "--format", "json", cwd=tmp_path).stdout
    assert '"reason": "linear cannot train together with an encoder"' in table


def test_records_hold_label_free_scores_of_the_encoder(bench: Bench) -> None:
    bench.run(
        ssl=["vime"], model=["linear"], controls=["none", "untrained"], labels=["50%"], set={"vime": {"epochs": 3}}
    )
    found: dict[str, Any] = {record["ssl"]: record.get("encoder_scores") for record in bench.records()}
    assert found["none"] is None
    scores = found["vime"]
    assert scores["rows"] == 142
    assert 1 < scores["rank_me"] <= 128
    assert scores["uniformity"] > 0
    assert scores["embedding_variance"] > 0
    diagnostics = next(record["diagnostics"]["ssl"] for record in bench.records() if record["ssl"] == "vime")
    assert scores["pretext_loss"] == diagnostics["validation_loss"][diagnostics["best_epoch"] - 1]
    assert found["untrained:vime"]["pretext_loss"] is None
    assert found["untrained:vime"]["rank_me"] != scores["rank_me"]


def test_the_estimate_knows_what_finetuning_takes_and_that_few_labels_take_less(bench: Bench) -> None:
    axes: dict[str, Any] = {"ssl": ["vime"], "model": ["mlp"], "protocol": ["frozen", "finetune"], "controls": ["none"]}
    bench.run(**axes, set=small("vime", "mlp"))
    timings = Timings(bench.store, "quick")
    timings.seconds = {("fit", "mlp"): {"wine": [1.0]}, ("finetune", "vime + mlp"): {"wine": [7.0]}}
    plan = bench.plan(**axes, labels=["50%", "100%"], set=small("vime", "mlp"))
    cells = 178 * 13 / 1e6
    found = {
        (step.planned.ssl, step.planned.protocol, step.planned.labels): timings.of_job(step)
        for step in plan.records
        if step.planned
    }
    assert found["vime", "frozen", "100%"] == pytest.approx(cells)
    assert found["vime", "finetune", "100%"] == pytest.approx(7 * cells)
    assert found["vime", "finetune", "50%"] == pytest.approx(3.5 * cells, rel=0.01)


@pytest.mark.parametrize("ssl", ["vime", "reconstruct"])
def test_finetuning_can_be_measured_beforehand(bench: Bench, ssl: str) -> None:
    settings = {"vime": {"epochs": 1}, "reconstruct": {"epochs": 1}, **small("mlp")}
    plan = bench.plan(
        ssl=[ssl], model=["mlp"], protocol=["finetune"], controls=[], set={ssl: settings[ssl], **small("mlp")}
    )
    launcher = make_launcher(bench.registry, "inline", device="cpu")
    calibration = Calibration(plan, plan.steps.values()).measure(launcher, bench.store)
    assert all((seconds := calibration.of_job(step)) is not None and seconds > 0 for step in plan.steps.values())


def test_what_there_is_no_time_to_measure_is_scaled_from_the_same_plugin_on_another_table(bench: Bench) -> None:
    plan = bench.plan(ssl=["none"], model=["mlp"], data=["wine", "diabetes"], controls=[], set=small("mlp"))
    calibration = Calibration(plan, plan.steps.values())
    assert len(calibration.trainings) == 2
    launcher = make_launcher(bench.registry, "local", jobs=1, threads=1, device="cpu")
    calibration.measure(launcher, bench.store, seconds=0.0)  # one at a time: only the first begins
    found = sorted(filter(None, (calibration.of_job(step) for step in plan.steps.values())))
    wine, diabetes = work_of(142, 13, n_classes=3), work_of(354, 10)
    assert len(calibration.measured) == 1
    assert len(found) == 2
    assert (found[1] - PER_JOB) / (found[0] - PER_JOB) == pytest.approx(diabetes / wine)


# Labels.


def test_one_pretraining_serves_every_number_of_labels_if_no_label_chooses_its_weights(bench: Bench) -> None:
    plan = bench.plan(ssl=["vime"], model=["mlp"], labels=["10%", "50", "100%"], protocol=["frozen", "finetune"])
    assert len(steps(plan, "pretrain")) == len(steps(plan, "encode")) == 1
    found = [step.planned for step in plan.records if step.planned]
    assert len(found) == 3 * 3
    assert {each.variant for each in found if each.ssl == "vime"} == {"vime.probe=never"}


def test_weights_that_labels_choose_need_a_pretraining_for_each_number_of_labels(bench: Bench) -> None:
    plan = bench.plan(ssl=["vime"], model=["mlp"], labels=["10%", "50", "100%"], probe="kept", controls=["untrained"])
    assert [step.label for step in steps(plan, "pretrain")] == [
        "wine/0 pretrain untrained:vime",
        *["wine/0 pretrain vime"] * 3,
    ]


def test_methods_that_learn_with_labels_learn_with_those_that_are_kept(bench: Bench) -> None:
    plan = bench.plan(ssl=["switchtab_sup"], model=["mlp"], labels=["10%", "100%"], controls=[])
    chosen = [step.payload.labels.budget if step.payload.labels else None for step in steps(plan, "pretrain")]
    assert chosen == ["10%", None]


def test_tuning_by_the_probe_is_done_for_each_number_of_labels(bench: Bench) -> None:
    plan = bench.plan(ssl=["vime"], model=["mlp"], labels=["10%", "50%"], ssl_trials=2, controls=[])
    assert len(steps(plan, "tune")) == 2
    with pytest.raises(UsageError, match="--probe never: SSL methods are tuned by the probe; add --ssl-trials 0"):
        bench.plan(ssl=["vime"], model=["mlp"], labels=["10%"], ssl_trials=2, probe="never")


def test_a_budget_that_a_table_cannot_have_is_skipped_there(bench: Bench) -> None:
    plan = bench.plan(ssl=["none"], model=["mlp"], data=["wine", "digits"], labels=["1%", "1000"])
    assert [str(skipped) for skipped in plan.skipped] == [
        "none + mlp (raw, wine, 1% labels): 1% of 142 training rows is fewer than 2 labels",
        "none + mlp (raw, wine, 1000 labels): there are only 142 training rows for 1000 labels",
    ]
    assert len(plan.records) == 2


@pytest.mark.parametrize("text", ["0%", "101%", "1", "many", "", "-5", "2.5"])
def test_a_budget_that_makes_no_sense_is_refused(bench: Bench, text: str) -> None:
    with pytest.raises(UsageError, match="give a share of the training rows, such as 10%") as caught:
        bench.plan(labels=[text])
    assert "\n" not in str(caught.value)


def test_all_validation_labels_are_a_fidelity_of_their_own(bench: Bench) -> None:
    plan = bench.plan(ssl=["none"], model=["mlp"], labels=["10%", "100%"], validation_labels="all")
    assert [step.planned.fidelity for step in plan.records if step.planned] == ["quick, all validation labels", "quick"]


def test_records_count_the_labels_that_there_were(bench: Bench) -> None:
    summary = bench.run(
        ssl=["vime"], model=["mlp"], protocol=["frozen", "finetune"], labels=["10%"], set=small("vime", "mlp")
    )
    assert not summary.failures
    for record in bench.records():
        assert record["labels"] == "10%"
        counts = record["counts"]
        assert (counts["train"], counts["validation"], counts["test"]) == (14, 18, 18), "validation has less than 32"
        assert counts["pretraining"] == (0 if record["ssl"] == "none" else 142)
