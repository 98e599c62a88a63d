"""How long a training would take, from a few of its epochs."""

import time

import pytest
from harness import Bench
from sklearn.linear_model import LogisticRegression

from tabbench.context import Context
from tabbench.contracts import Outcome
from tabbench.errors import DeadlineReached
from tabbench.experiment.payloads import Shape
from tabbench.running.calibration import FEW, make_labelled, measure
from tabbench.running.clock import Clock
from tabbench.running.forecast import BEFORE_WORK, PER_JOB, SEARCHED, Calibration, Forecast
from tabbench.running.launch import make_launcher
from tabbench.running.studies import OpenStudy
from tabbench.running.tuning import BATCH
from tabbench.values import Labelled, Table, Task

EPOCHS, EPOCH, SETUP = 50, 0.02, 0.8


class Slow:
    """A model that needs long before its first epoch, and little for each."""

    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        time.sleep(SETUP)
        for epoch in range(EPOCHS):
            time.sleep(EPOCH * len(train.y) / FEW)
            context.report(epoch + 1, EPOCHS)


def test_what_comes_before_the_first_epoch_counts_once() -> None:
    shape = Shape(rows=4 * FEW, n_numeric=2, n_categorical=0, task="binary", n_classes=2)
    seconds = measure(Slow(), shape, Context(), settings={})
    assert seconds == pytest.approx(SETUP + 4 * EPOCHS * EPOCH, rel=0.5)


def test_trainings_that_stop_early_are_not_counted_in_full() -> None:
    shape = Shape(rows=FEW, n_numeric=2, n_categorical=0, task="binary", n_classes=2)
    whole = measure(Slow(), shape, Context(), settings={"max_epochs": EPOCHS})
    early = measure(Slow(), shape, Context(), settings={"max_epochs": EPOCHS, "patience": 2})
    assert early - SETUP == pytest.approx((whole - SETUP) * 6 / EPOCHS, rel=0.5)


class CutOff:
    """A model that is out of time after so many epochs."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        for epoch in range(self.epochs):
            time.sleep(EPOCH)
            context.report(epoch + 1, EPOCHS)
        raise DeadlineReached("time ran out")


def test_a_training_that_is_cut_off_is_judged_by_what_it_did() -> None:
    shape = Shape(rows=FEW, n_numeric=2, n_categorical=0, task="binary", n_classes=2)
    assert measure(CutOff(2), shape, Context(), settings={}) >= EPOCHS * EPOCH
    with pytest.raises(DeadlineReached):
        measure(CutOff(0), shape, Context(), settings={})


def test_made_up_labels_can_be_learnt_in_part() -> None:
    shape = Shape(rows=1000, n_numeric=3, n_categorical=2, task="multiclass", n_classes=4)
    train, test = make_labelled(1000, shape, 0), make_labelled(500, shape, 1)
    assert isinstance(train.features, Table)
    assert isinstance(test.features, Table)
    model = LogisticRegression().fit(train.features.numeric, train.y)
    assert 0.4 < model.score(test.features.numeric, test.y) < 0.95
    assert set(train.y) == set(range(4))


def test_each_training_is_measured_on_its_largest_table_first(bench: Bench) -> None:
    plan = bench.plan(data=["wine", "diabetes"], ssl=["projection"], model=["nearest", "linear"], controls=["none"])
    sparing = Calibration(plan, plan.steps.values(), sparingly=True)
    every = Calibration(plan, plan.steps.values())
    assert {step.payload.manifest.name for _, step in sparing.waiting.values()} == {"diabetes"}
    assert len(every.waiting) == 2 * len(sparing.waiting)
    assert [*every.waiting][-len(sparing.waiting) :] == [*sparing.waiting], "the next one is the last"


def test_a_study_is_judged_by_the_settings_of_its_first_trials(bench: Bench) -> None:
    plan = bench.plan(ssl=["none"], model=["xgboost"], controls=[], trials=6)
    calibration = Calibration(plan, plan.steps.values())
    tune, final = plan.steps.values()
    measured = calibration._of_step(tune)
    assert [each.number for each in measured] == list(range(BATCH))
    assert [each.key for each in measured] == [each.key for each in calibration._of_step(final)]
    study = OpenStudy(tune, bench.store, bench.store.lock("k"))
    tried = [study.study.propose().config for _ in range(BATCH)]
    assert [each.payload.model and each.payload.model.config for each in measured] == tried, "what will be tried"
    calibration.take(measured[0].key, Outcome("ok", {"seconds": 10.0}))
    assert calibration.of_job(tune) == pytest.approx(PER_JOB + SEARCHED * 10.0), "while only the defaults are known"
    for each in measured[1:]:
        assert not calibration.is_measured(tune)
        calibration.take(each.key, Outcome("ok", {"seconds": 100.0}))
    assert calibration.is_measured(tune)
    assert calibration.of_job(tune) == calibration.of_job(final) == pytest.approx(PER_JOB + 77.5)


def test_settings_of_models_and_of_encoders_are_tried_together(bench: Bench) -> None:
    plan = bench.plan(ssl=["vime"], model=["xgboost"], controls=[], trials=4, ssl_trials=4)
    calibration = Calibration(plan, plan.steps.values())
    encoders, models = (
        [each.payload for each in calibration._of_step(step)] for step in plan.steps.values() if step.study is not None
    )
    widths = [each.plugin and each.plugin.config["width"] for each in encoders]
    assert len(set(map(str, widths))) > 1
    assert [each.encoder and each.encoder.config["width"] for each in models] == widths


def test_other_settings_are_measured_before_other_tables(bench: Bench) -> None:
    plan = bench.plan(data=["wine", "diabetes"], ssl=["none"], model=["xgboost"], controls=[], trials=4)
    waiting = list(Calibration(plan, plan.steps.values()).waiting.values())[::-1]
    assert [step.payload.manifest.name for _, step in waiting] == ["diabetes"] * BATCH + ["wine"] * BATCH


def test_a_run_measures_for_a_minute_at_most(bench: Bench) -> None:
    plan = bench.plan(data=["wine", "diabetes"], ssl=["none"], model=["xgboost"], controls=[], trials=4)
    forecast, at = Forecast(plan, bench.store, make_launcher(bench.registry, jobs=1)), [0.0]
    clock = Clock(now=lambda: at[0])
    assert forecast.next(clock) is not None
    at[0] = BEFORE_WORK
    assert forecast.next(clock) is None


def test_another_table_is_judged_by_the_same_pair(bench: Bench) -> None:
    plan = bench.plan(data=["wine", "diabetes"], ssl=["projection"], model=["linear"], controls=["none"])
    calibration = Calibration(plan, plan.steps.values())
    fits = {(step.planned.ssl, step.planned.data): step for step in plan.records if step.planned is not None}
    for ssl, seconds in (("none", 10.0), ("projection", 500.0)):
        (measured,) = calibration._of_step(fits[ssl, "diabetes"])
        calibration.take(measured.key, Outcome("ok", {"seconds": seconds}))
    raw, wide = (calibration.of_job(fits[ssl, "wine"]) for ssl in ("none", "projection"))
    assert raw is not None
    assert wide is not None
    assert (wide - PER_JOB) == pytest.approx(50 * (raw - PER_JOB))
    assert not calibration.is_measured(fits["none", "wine"])
    assert calibration.is_measured(fits["none", "diabetes"])


def test_a_run_of_few_jobs_is_not_measured(bench: Bench) -> None:
    launcher = make_launcher(bench.registry, jobs=1)
    few = bench.plan(data=["wine"], ssl=["projection"], model=["linear"])
    many = bench.plan(data=["wine"], ssl=["projection"], model=["linear"], splits=10)
    assert not Forecast(few, bench.store, launcher).calibration.waiting
    assert len(Forecast(many, bench.store, launcher).calibration.waiting) == 3
