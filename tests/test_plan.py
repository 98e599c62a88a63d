"""Keys hash everything that determines a result, and nothing else."""

from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
import pytest
from harness import Bench
from tabbench_mlp.config import MLPConfig

from tabbench.config import preset_settings
from tabbench.contracts.job import Outcome
from tabbench.data.gather import store_frames
from tabbench.errors import UsageError
from tabbench.experiment.graph import Origin, Plan, Planned, StudyPlan
from tabbench.experiment.plan import make_plan
from tabbench.experiment.settings import Configured, choose
from tabbench.experiment.spec import make_spec, parse_setting
from tabbench.registry import make_registry
from tabbench.results.record import Record


def labels(plan: Plan) -> list[str]:
    return [step.label for step in plan.steps.values()]


def keys(plan: Plan, kind: str) -> set[str]:
    return {step.key for step in plan.steps.values() if step.kind == kind}


def test_a_plan_is_the_cross_product_with_shared_pretraining(bench: Bench) -> None:
    plan = bench.plan(ssl=["projection"], model=["nearest"], data=["wine", "digits"], splits=2, seeds=3)
    assert len(keys(plan, "pretrain")) == len(keys(plan, "encode")) == 4
    assert len(keys(plan, "fit")) == 2 * 2 * 3 * 2
    assert len(plan.records) == 24
    order = list(plan.steps)
    assert all(order.index(need) < order.index(key) for key, step in plan.steps.items() for need in step.needs)


def test_a_model_without_chance_is_trained_once_per_split(bench: Bench) -> None:
    how: dict[str, Any] = {"ssl": ["projection"], "data": ["wine"], "splits": 2}
    once = bench.plan(model=["linear", "knn"], **how)
    thrice = bench.plan(model=["linear", "knn", "nearest"], seeds=3, **how)
    assert set(once.steps) < set(thrice.steps), "its key is that of the first seed, as in older results"
    seeds: dict[str, list[int | None]] = {}
    for step in thrice.records:
        if step.planned is not None and step.planned.split == 0 and step.planned.ssl == "none":
            seeds.setdefault(step.planned.model, []).append(step.planned.seed)
    assert seeds == {"linear": [None], "knn": [None], "nearest": [0, 1, 2]}


def test_a_preset_may_bring_its_own_ranges(bench: Bench) -> None:
    """Rubachev et al. tune 1 to 8 layers of 512, and a learning rate between 5e-5 and 5e-3."""

    def study(**settings: Any) -> StudyPlan:
        plan = bench.plan(ssl=["none"], model=["mlp"], trials=3, set={"mlp": settings})
        (found,) = [step.study for step in plan.steps.values() if step.study is not None]
        return found

    theirs = study(preset="rubachev")
    assert theirs.tuned == {"n_layers", "lr", "weight_decay"}
    assert str(theirs.configured.space["lr"]) == "5e-05 .. 0.005 (log)"
    assert str(theirs.configured.space["weight_decay"]) == "0 or 1e-06 .. 0.001 (log)"
    assert str(study().configured.space["lr"]) == "1e-05 .. 0.01 (log)"
    assert study(preset="rubachev", lr=1e-3).tuned == {"n_layers", "weight_decay"}


def test_the_ranges_of_a_preset_are_part_of_the_key_of_a_study(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning = {"ssl": ["none"], "model": ["mlp"], "trials": 3, "set": {"mlp": {"preset": "rubachev"}}}
    before = keys(bench.plan(**tuning), "tune")
    presets = {name: dict(preset) for name, preset in MLPConfig.presets().items()}
    presets["rubachev"]["search"] = {**presets["rubachev"]["search"], "n_layers": {"low": 1, "high": 9}}
    monkeypatch.setattr(MLPConfig, "presets", classmethod(lambda cls: presets))
    assert keys(bench.plan(**tuning), "tune").isdisjoint(before)


def test_controls_stand_beside_methods_once(bench: Bench) -> None:
    plan = bench.plan(ssl=["none", "projection", "untrained:projection"], controls=["none", "untrained"])
    assert labels(plan) == [
        "wine/0 none + nearest seed 0",
        "wine/0 pretrain untrained:projection",
        "wine/0 encode untrained:projection",
        "wine/0 untrained:projection + nearest seed 0",
        "wine/0 pretrain projection",
        "wine/0 encode projection",
        "wine/0 projection + nearest seed 0",
    ]


def test_more_models_and_seeds_keep_the_keys_that_were_there(bench: Bench) -> None:
    small = bench.plan(seeds=1)
    large = bench.plan(seeds=5, model=["nearest", "mlp"], data=["wine", "digits"])
    assert set(small.steps) < set(large.steps)


@pytest.mark.parametrize(
    "change, same_pretraining",
    [
        ({"set": {"nearest": {"sleep": 0.1}}}, True),
        ({"set": {"projection": {"sleep": 0.1}}}, False),
        ({"rows": 100}, False),
        ({"data": ["digits"]}, False),
        ({"preset": "standard", "trials": 0, "ssl_trials": 0, "seeds": 1, "controls": []}, True),
    ],
)
def test_what_changes_a_result_changes_its_key(bench: Bench, change: dict[str, Any], same_pretraining: bool) -> None:
    before, after = bench.plan(controls=[]), bench.plan(**{"controls": [], **change})
    assert (keys(before, "pretrain") == keys(after, "pretrain")) == same_pretraining
    assert not keys(before, "fit") & keys(after, "fit")


@pytest.mark.parametrize(
    "ssl, protocol, trials, kinds",
    [
        ("ptarl", "frozen", 0, {"fit"}),
        ("vime_semi", "frozen", 3, {"tune", "fit"}),
        ("reconstruct", "finetune", 3, {"tune", "pretrain", "fit"}),
        ("vime", "frozen", 0, {"pretrain", "encode", "fit"}),
    ],
)
def test_rows_without_a_target_are_part_of_the_key_of_what_learns_from_them(
    ssl: str, protocol: str, trials: int, kinds: set[str]
) -> None:
    """A joint method's fit and a backbone's trial learn from them: with and without them had the same key."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200)})
    frame["y"] = ["no", "yes"] * 75 + [None] * 50
    made = []
    for unlabelled in ("keep", "drop"):
        how = {"protocol": [protocol], "trials": trials, "ssl_trials": 0, "unlabelled": unlabelled}
        spec = make_spec({"ssl": [ssl], "model": ["mlp"], **how})
        made.append(make_plan(spec, make_registry(), store_frames({"t": (frame, "y")}, spec.reading)))
    with_rows, without = ({key: step for key, step in plan.steps.items() if ssl in step.label} for plan in made)
    assert {step.kind for step in with_rows.values()} == kinds
    assert not with_rows.keys() & without.keys()
    studies = [{step.study.first.key for step in steps.values() if step.study} for steps in (with_rows, without)]
    assert not studies[0] & studies[1]


def test_plans_are_the_same_in_every_process(bench: Bench) -> None:
    assert list(bench.plan().steps) == list(Bench(bench.store.root / "other").plan().steps)


@pytest.mark.parametrize(
    "entries, message",
    [
        ({"ssl": ["projektion"]}, r"Unknown SSL method 'projektion'\. Did you mean: projection\?"),
        ({"model": ["nearst"]}, r"Unknown model 'nearst'\. Did you mean: nearest\?"),
        ({"data": ["wien"]}, r"Unknown dataset 'wien'\. Did you mean: wine\?"),
        ({"ssl": ["untrained"]}, "untrained:METHOD"),
        ({"ssl": ["untrained:none"]}, "has no encoder"),
        ({"set": {"nearest": {"slep": 1}}}, r"Unknown setting 'nearest\.slep'\. Did you mean: sleep\?"),
        ({"set": {"nearest": {"sleep": "long"}}}, r"Bad nearest\.sleep='long': .*number"),
        ({"set": {"nearest": {"preset": "none"}}}, "Unknown preset of nearest 'none'"),
        ({"set": {"mlp": {"lr": 1}}}, "'mlp' is not part of this run"),
        ({"set": {"neerest": {"lr": 1}}}, r"'neerest' is not a plugin\. Did you mean: nearest\?"),
        ({"model": ["mlp"], "set": {"mlp": {"warm_head_epochs": 5}}}, "is for fine-tuning: add --protocol finetune"),
        ({"model": ["mlp"], "set": {"mlp": {"preset": "rtdl-AD", "width": 9}}}, "mlp.width has no effect with the"),
        ({"set": {"nearest": {"sleep": True}}}, r"Bad nearest\.sleep=True: give a number"),
        ({"seeds": True}, "seeds = True: true and false are for transductive alone"),
        ({"preset": "fast"}, r"Unknown preset 'fast'"),
        ({"sseds": 3}, r"Unknown entry 'sseds' in the experiment\. Did you mean: seeds\?"),
        ({"seeds": 0}, "Bad entry 'seeds'"),
    ],
)
def test_mistakes_are_named_with_the_nearest_match(bench: Bench, entries: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        bench.plan(**entries)
    assert "\n" not in str(caught.value)


def test_a_family_of_presets_gives_each_dataset_its_own() -> None:
    registry = make_registry()
    spec = make_spec({"ssl": ["none"], "model": ["mlp"], "set": {"mlp": {"preset": "rtdl", "dropout": 0.3}}})
    adult, california = (choose(spec, registry, "model", "mlp", data) for data in ("adult", "california"))
    assert adult.config["widths"] == [42, 503, 503, 503, 111]
    assert california.config["widths"] == [510, 263, 363]
    assert adult.overrides == california.overrides == {"preset": "rtdl", "dropout": 0.3}, "one row of the table"
    with pytest.raises(UsageError, match="mlp has no preset 'rtdl' for mnist. Available: rtdl-AD"):
        choose(spec, registry, "model", "mlp", "mnist")


def test_what_the_user_sets_is_not_tuned_nor_is_a_preset_that_he_names() -> None:
    registry = make_registry()

    def chosen(**settings: Any) -> Configured:
        spec = make_spec({"ssl": ["none"], "model": ["mlp"], "set": {"mlp": settings}})
        return choose(spec, registry, "model", "mlp", "adult")

    assert chosen().tuned(raw=True) == {"lr", "weight_decay", "n_layers", "width", "dropout"}
    assert chosen().tuned(raw=False) == chosen().tuned(raw=True) | {"projection"}, "only tokens are projected"
    assert chosen(lr=0.1).tuned(raw=True) == chosen().tuned(raw=True) - {"lr"}
    assert chosen(widths=[32]).tuned(raw=True) == {"lr", "weight_decay", "dropout"}, "the rest has no effect"
    assert chosen(preset="rtdl").tuned(raw=True) == frozenset()
    assert chosen(preset="rtdl").tuned(raw=False) == {"projection"}


def test_published_settings_are_used_as_they_are_even_where_others_are_tuned(bench: Bench) -> None:
    def kinds(**settings: Any) -> set[str]:
        plan = bench.plan(ssl=["none"], model=["mlp"], trials=3, set={"mlp": settings})
        return {step.kind for step in plan.steps.values()}

    assert kinds() == {"tune", "fit"}
    assert kinds(preset="rtdl-AD") == {"fit"}


def test_the_preset_of_a_run_takes_what_was_published_for_the_dataset() -> None:
    registry = make_registry()
    spec = make_spec({"ssl": ["vime"], "model": ["mlp"], "preset": "paper"})
    presets = registry.load_config(registry.find("ssl", "vime")).presets()
    jannis, adult = (choose(spec, registry, "ssl", "vime", data) for data in ("jannis", "adult"))
    assert {"paper", "paper-JA"} <= set(presets)
    assert "paper-AD" not in presets
    paper, added = (preset_settings(presets[name]) for name in ("paper", "paper-JA"))
    assert adult.config.items() >= paper.items()
    assert jannis.config.items() >= {**paper, **added}.items()
    assert jannis.config != adult.config


@pytest.mark.parametrize(
    "text, parsed",
    [
        ("a.b=1", ("a", "b", 1)),
        ("a.b=1e-3", ("a", "b", 1e-3)),
        ("a.b=[1, 2]", ("a", "b", [1, 2])),
        ("a.b=True", ("a", "b", True)),
        ("a.b=conv", ("a", "b", "conv")),
        ("a.b=None", ("a", "b", None)),
    ],
)
def test_settings_are_parsed(text: str, parsed: tuple[str, str, Any]) -> None:
    assert parse_setting(text) == parsed


@pytest.mark.parametrize("text", ["a", "a.b", "a=1", ".b=1", "a.=1"])
def test_bad_settings_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="for example --set mlp.lr"):
        parse_setting(text)


def test_the_preset_gives_what_was_not_said() -> None:
    spec = make_spec({"ssl": ["a"], "model": ["b"], "preset": "paper", "seeds": 2})
    assert (spec.seeds, spec.splits, spec.controls) == (2, 1, ("none", "untrained"))


def test_a_spec_survives_json() -> None:
    spec = make_spec({"ssl": ["a"], "model": ["b"], "set": {"a": {"x": [1, 2]}}})
    assert make_spec(spec.to_json()) == spec


def test_a_table_that_is_smaller_than_asked_for_is_taken_whole(bench: Bench) -> None:
    whole, beyond = bench.plan(), bench.plan(rows=1000)
    assert list(beyond.steps) == list(whole.steps)
    assert {step.planned.fidelity for step in beyond.records if step.planned} == {"quick"}


def test_a_record_keeps_everything_that_was_planned() -> None:
    planned = Planned(
        "result", "vime", "mlp", "wine", "3f", split=1, fidelity="quick", protocol="frozen", labels="10%",
        validation_labels="all", probe="never", split_rule="by time", seed=3, preset="quick", rows_limit=90, trials=4,
        ssl_trials=5, variant="mlp.width=8", uses_labels=True, plugins={"ssl": Origin("mine", "1.0", 2)}, threads=2,
        main_metric="auroc", weights="balanced classes",
    )  # fmt: skip
    told = planned.to_json()
    assert set(told) == {each.name for each in fields(Planned)}, "every field has a value here"
    record = Record.make(planned, "0" * 24, Outcome("failed", error="for some reason")).to_json()
    assert {name: record.get(name) for name in told} == told
