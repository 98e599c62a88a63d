"""How long a training would take, from a few of its epochs."""

import time
from collections.abc import Callable

import pytest
from harness import Bench, Watcher
from sklearn.linear_model import LogisticRegression

from tabbench.context import Context
from tabbench.contracts import Outcome
from tabbench.errors import DeadlineReached
from tabbench.experiment.graph import Step
from tabbench.experiment.payloads import CalibratePayload, Shape
from tabbench.running.calibration import FEW, make_labelled, measure
from tabbench.running.clock import Clock
from tabbench.running.driver import run_plan
from tabbench.running.forecast import BEFORE_WORK, SHARE, Forecast
from tabbench.running.launch import make_launcher
from tabbench.running.measurements import PER_JOB, Calibration
from tabbench.running.studies import OpenStudy, known_trials
from tabbench.running.timings import SEARCHED
from tabbench.running.tuning import BATCH, STARTUP_TRIALS
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


def drain(calibration: Calibration) -> list[CalibratePayload]:
    """All that it would measure, in this order."""
    jobs = iter(calibration.next, None)
    return [CalibratePayload.model_validate(job.payload) for job in jobs if job is not None]


def take(calibration: Calibration, seconds: Callable[[CalibratePayload, int], float]) -> None:
    """Measure everything; ``seconds`` get the payload and its number."""
    for number, job in enumerate(iter(calibration.next, None)):
        assert job is not None
        payload = CalibratePayload.model_validate(job.payload)
        calibration.take(job.key, Outcome("ok", {"seconds": seconds(payload, number)}))


def test_each_training_is_measured_on_its_largest_table_first(bench: Bench) -> None:
    plan = bench.plan(data=["wine", "diabetes"], ssl=["projection"], model=["nearest", "linear"], controls=["none"])
    sparing = drain(Calibration(plan, plan.steps.values(), sparingly=True))
    every = drain(Calibration(plan, plan.steps.values()))
    assert {payload.shape.rows for payload in sparing} == {round(0.8 * 442)}, "diabetes"
    assert len(every) == 2 * len(sparing)
    assert every[: len(sparing)] == sparing


def test_a_trial_is_judged_by_its_own_settings(bench: Bench) -> None:
    plan = bench.plan(ssl=["none"], model=["xgboost"], controls=[], trials=12)
    calibration = Calibration(plan, plan.steps.values())
    tune, final = plan.steps.values()
    study = OpenStudy(tune, bench.store, bench.store.lock("k"))
    tried = [study.study.propose().config for _ in range(STARTUP_TRIALS)]
    first = calibration.next()
    assert first is not None
    calibration.take(first.key, Outcome("ok", {"seconds": 10.0}))
    assert calibration.of_job(tune) == pytest.approx(PER_JOB + SEARCHED * 10.0), "while only the defaults are known"
    assert not calibration.is_measured(tune)
    measured = [first.payload["model"]["config"]]
    for number in range(1, STARTUP_TRIALS):
        assert not calibration.is_measured(tune, number)
        job = calibration.next()
        assert job is not None
        measured.append(job.payload["model"]["config"])
        calibration.take(job.key, Outcome("ok", {"seconds": 100.0 * number}))
        assert calibration.is_measured(tune, number)
        assert calibration.of_job(tune, number) == pytest.approx(PER_JOB + 100.0 * number)
    assert calibration.next() is None
    assert measured == tried, "what will be tried"
    assert calibration.of_job(tune) == calibration.of_job(tune, 9) == pytest.approx(PER_JOB + 400.0), "random settings"
    assert calibration.of_job(final) == pytest.approx(PER_JOB + 351.25), "the defaults may be the best"


def test_trials_are_known_whatever_earlier_ones_result_in(bench: Bench) -> None:
    plan = bench.plan(ssl=["none"], model=["xgboost"], controls=[], trials=STARTUP_TRIALS)
    tune = next(iter(plan.steps.values()))
    study = OpenStudy(tune, bench.store, bench.store.lock("k")).study
    proposed = []
    for _ in range(STARTUP_TRIALS):
        trial = study.propose()
        proposed.append(trial.config)
        if len(study.trials) % BATCH == 0:
            for each in study.trials[-BATCH:]:
                each.status, each.value = "ok", 1.0 / (1 + each.number)
    assert proposed == known_trials(tune)


def test_models_are_measured_with_the_default_encoder_and_encoders_with_the_default_model(bench: Bench) -> None:
    plan = bench.plan(ssl=["vime"], model=["xgboost"], controls=[], trials=4, ssl_trials=4)
    calibration = Calibration(plan, plan.steps.values())
    encoders, models = (step for step in plan.steps.values() if step.study is not None)
    tried = known_trials(encoders)
    seen = set()

    def seconds(payload: CalibratePayload, number: int) -> float:
        if payload.encoder is None:
            return 1.0
        assert payload.plugin is not None
        base = tried.index(payload.encoder.config)
        seen.add((known_trials(models).index(payload.plugin.config), base))
        return 10.0 * (1 + base) - PER_JOB

    take(calibration, seconds)
    assert seen == {(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (0, 2), (0, 3)}
    assert calibration.of_job(models, 2) == pytest.approx(25.0), "any of four encoders"
    calibration.decide(encoders, tried[3])
    assert calibration.of_job(models, 2) == calibration.of_job(models) == pytest.approx(40.0)


def test_what_makes_up_most_of_the_time_is_measured_next(bench: Bench) -> None:
    plan = bench.plan(data=["wine", "diabetes"], ssl=["none"], model=["xgboost", "mlp"], controls=[], trials=4)
    calibration = Calibration(plan, plan.steps.values())
    asked = []

    def seconds(payload: CalibratePayload, number: int) -> float:
        assert payload.plugin is not None
        asked.append((payload.plugin.name, payload.shape.rows))
        return 1000.0 if asked[-1] == ("mlp", 142) else 1.0

    take(calibration, seconds)
    diabetes = round(0.8 * 442)
    assert sorted(asked[:2]) == [("mlp", diabetes), ("xgboost", diabetes)], "every training once"
    wine = asked.index(("mlp", 142))
    assert asked[wine : wine + 4] == [("mlp", 142)] * 4, "all its settings, once it is known to be slow"


@pytest.mark.parametrize(("budget", "most"), [(None, BEFORE_WORK), (3600.0, BEFORE_WORK), (60.0, SHARE * 60.0)])
def test_a_run_measures_for_a_minute_or_a_share_of_its_budget_at_most(
    bench: Bench, budget: float | None, most: float
) -> None:
    plan = bench.plan(data=["wine", "diabetes"], ssl=["none"], model=["xgboost"], controls=[], trials=4)
    forecast, at = Forecast(plan, bench.store, make_launcher(bench.registry, jobs=1), budget), [0.0]
    forecast.begin(Clock(now=lambda: at[0]))
    assert forecast.next() is not None
    assert not forecast.is_ready()
    at[0] = most
    assert forecast.next() is None
    assert forecast.is_ready(), "nobody waits for longer"


def test_a_run_without_room_for_measurements_says_how_long_it_takes(bench: Bench) -> None:
    """Baselines begin first and fill all slots; none is measured, since the first one tells what the others take."""
    said: list[float | None] = []

    class Listener(Watcher):
        def begin(self, todo: list[Step], done: int, slots: int, clock: Clock) -> None:
            self.clock = clock

        def finished(self, step: Step, outcome: Outcome) -> None:
            said.append(self.clock.left())

    plan = bench.plan(ssl=["none"], model=["nearest"], controls=[], splits=5, seeds=4)
    launcher = make_launcher(bench.registry, jobs=1)
    forecast = Forecast(plan, bench.store, launcher)
    assert forecast.calibration.first, "there is something to measure"
    run_plan(plan, bench.store, launcher, Listener(), forecast=forecast)
    assert len(said) == 20
    assert all(said[1:-1])


def test_a_forecast_is_ready_when_every_training_was_measured_once(bench: Bench) -> None:
    plan = bench.plan(data=["wine", "diabetes"], ssl=["none"], model=["xgboost", "linear"], controls=[], trials=4)
    forecast = Forecast(plan, bench.store, make_launcher(bench.registry, jobs=1))
    forecast.begin(Clock(now=lambda: 0.0))
    for _ in range(2):
        job = forecast.next()
        assert job is not None
        assert not forecast.is_ready()
        forecast.take(job.key, Outcome("ok", {"seconds": 10.0}))
    assert forecast.is_ready(), "of each model one measurement"
    assert forecast.next() is not None, "there is more to measure"
    assert forecast.is_ready(), "which nobody waits for"


def test_another_table_is_judged_by_the_same_pair(bench: Bench) -> None:
    plan = bench.plan(data=["wine", "diabetes"], ssl=["projection"], model=["linear"], controls=["none"])
    calibration = Calibration(plan, plan.steps.values())
    fits = {(step.planned.ssl, step.planned.data): step for step in plan.records if step.planned is not None}
    for _ in range(3):  # the pretraining and the two fits, on the larger table
        job = calibration.next()
        assert job is not None
        calibration.take(job.key, Outcome("ok", {"seconds": 500.0 if job.payload["encoder"] else 10.0}))
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
    assert not drain(Forecast(few, bench.store, launcher).calibration)
    assert len(drain(Forecast(many, bench.store, launcher).calibration)) == 3
