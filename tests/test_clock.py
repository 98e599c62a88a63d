from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from harness import Bench

from tabbench.contracts.job import Event
from tabbench.data.cache import Manifest
from tabbench.experiment.graph import Step
from tabbench.experiment.payloads import Address, FitPayload, SplitChoice
from tabbench.running.clock import DOUBT, OVERTIME, TRUST, Clock
from tabbench.running.sizes import BASE, BOOSTING, usual_share
from tabbench.running.tuning import Trial


@dataclass
class Watch:
    """A clock that the test moves."""

    time: float = 0.0

    def __call__(self) -> float:
        return self.time


def fit(
    key: str, model: str, data: str = "wine", rows: int = 100, settings: Mapping[str, object] | None = None
) -> Step:
    config = dict(settings or {})
    address = Address(name=model, target="m:C", distribution="d", version="1", revision=1, config=config)
    manifest = Manifest(data, "k", "", "", rows, 3, 0, "binary", 2, ("a", "b"), "y", (), "", (), 1)
    split = SplitChoice(rule="80/10/10", seed=0)
    return Step(key, "fit", key, FitPayload(manifest=manifest, split=split, seed=0, features=None, model=address))


def run(clock: Clock, watch: Watch, step: Step, seconds: float, epochs: int, of: int) -> None:
    clock.started(step.key, step)
    watch.time += seconds
    clock.progress(Event(step.key, epochs, of))
    clock.finished(step.key)


def test_nothing_is_said_before_anything_is_known() -> None:
    clock = Clock(Watch())
    clock.begin([fit("a", "mlp")], 1)
    clock.started("a", fit("a", "mlp"))
    assert clock.left() is None


def test_nothing_is_said_while_most_of_the_run_is_being_measured() -> None:
    ready: list[bool] = []
    clock = Clock(Watch(), prior=lambda step, trial=None: 10.0, is_ready=lambda: bool(ready))
    clock.begin([fit("a", "mlp")], 1)
    assert (clock.left(), clock.guess()) == (None, 10.0)
    ready.append(True)
    assert clock.left() == 10.0


def test_what_boosting_needed_on_another_table_is_half_of_what_it_is_expected_to_need() -> None:
    watch, settings = Watch(), {"n_rounds": 300, "patience": 15}  # without a learning rate it should need all rounds
    small, large = fit("a", "catboost", settings=settings), fit("b", "catboost", "adult", 5000, settings)
    clock = Clock(watch)
    clock.begin([small, large], 1)
    run(clock, watch, small, 1.0, epochs=30, of=300)
    clock.started("b", large)
    for rounds in (30, 60):
        watch.time += 10.0
        clock.progress(Event("b", rounds, 300))
    assert clock.left() == pytest.approx(((0.1 + 1.0) / 2 - 0.2) * 100.0)


def test_a_first_training_is_judged_by_its_pace() -> None:
    watch, step = Watch(), fit("a", "mlp")
    clock = Clock(watch)
    clock.begin([step], 1)
    clock.started(step.key, step)
    watch.time = 10.0
    clock.progress(Event("a", 20, 100))
    assert clock.left() == pytest.approx(40.0)


def test_before_anything_is_done_what_waits_is_judged_by_the_pace_of_what_runs() -> None:
    watch = Watch()
    steps = [fit(key, "mlp") for key in "abcde"]
    clock = Clock(watch, prior=lambda step, trial=None: None)
    clock.begin(steps, 2)
    assert clock.left() is None
    for step in steps[:2]:
        clock.started(step.key, step)
    assert clock.left() is None
    watch.time = 10.0
    clock.progress(Event("a", 20, 100))
    clock.progress(Event("b", 25, 100))
    # a needs 50 s in all and b 40 s, so the three that wait need 45 s each.
    assert clock.left() == pytest.approx((40.0 + 30.0 + 3 * 45.0) / 2)


def test_trainings_that_stop_early_are_expected_to_do_so_again() -> None:
    watch = Watch()
    clock = Clock(watch)
    first, second, third = (fit(name, "dcnv2") for name in "abc")
    clock.begin([first, second, third], 1)
    run(clock, watch, first, 400.0, epochs=60, of=2000)
    assert clock.left() == pytest.approx(800.0)
    clock.started("b", second)
    watch.time += 7.5
    clock.progress(Event("b", 1, 2000))
    watch.time += 292.5
    clock.progress(Event("b", 40, 2000))  # a little slower: 60 epochs would take 450 s
    assert clock.left() == pytest.approx(150.0 + 400.0)


def test_steps_with_the_same_plugins_on_the_same_data_say_most() -> None:
    watch = Watch()
    clock = Clock(watch)
    quick, slow, left = fit("a", "mlp"), fit("b", "ft_transformer"), fit("c", "ft_transformer", "adult")
    clock.begin([quick, slow, left], 1)
    run(clock, watch, quick, 1.0, epochs=10, of=10)
    assert clock.left() == pytest.approx(2.0)  # nothing better is known
    run(clock, watch, slow, 100.0, epochs=10, of=10)
    assert clock.left() == pytest.approx(100.0)


def test_jobs_side_by_side_share_the_time() -> None:
    watch = Watch()
    clock = Clock(watch)
    clock.begin([fit(name, "mlp") for name in "abcde"], 2)
    run(clock, watch, fit("a", "mlp"), 10.0, epochs=1, of=1)
    assert clock.left() == pytest.approx(20.0)


def test_a_first_training_that_stops_early_is_not_expected_to_take_all_its_epochs() -> None:
    watch, step = Watch(), fit("a", "mlp", settings={"max_epochs": 2000, "patience": 16})
    clock = Clock(watch)
    clock.begin([step], 1)
    clock.started("a", step)
    for epoch in (1, 2):
        watch.time += 10.0
        clock.progress(Event("a", epoch, 2000))
    assert clock.left() == pytest.approx(46 * 10.0)  # three times the patience


def test_a_training_that_resumes_is_judged_by_its_pace_since_then() -> None:
    watch, step = Watch(), fit("a", "mlp")
    clock = Clock(watch)
    clock.begin([step], 1)
    clock.started("a", step)
    for epoch in (80, 81):
        watch.time += 5.0
        clock.progress(Event("a", epoch, 100))
    assert clock.left() == pytest.approx(19 * 5.0)


def test_other_tables_count_by_their_size() -> None:
    watch = Watch()
    clock = Clock(watch)
    small, large = fit("a", "mlp", "small", rows=5_000), fit("b", "mlp", "large", rows=50_000)
    clock.begin([small, large], 1)
    run(clock, watch, small, 10.0, epochs=10, of=10)
    assert clock.left() == pytest.approx(10.0 * (150_000 + BASE) / (15_000 + BASE))


def test_what_was_known_before_is_corrected_by_what_has_run_the_more_the_longer_it_took() -> None:
    watch = Watch()
    clock = Clock(watch, prior=lambda step, trial=None: {"wine": 100.0, "adult": 1000.0}[step.payload.manifest.name])
    first, second, other = fit("a", "mlp"), fit("b", "resnet"), fit("c", "linear", "adult")
    clock.begin([first, second, other], 1)
    assert clock.left() == pytest.approx(1200.0)
    run(clock, watch, first, 200.0, epochs=10, of=10)
    by_role = (200.0 + DOUBT) / (100.0 + DOUBT)
    by_model = (200.0 + DOUBT * by_role) / (100.0 + DOUBT)
    by_pair = (200.0 + DOUBT * by_model) / (100.0 + DOUBT)
    assert 1 < by_role < by_model < by_pair < TRUST, "the closer, the more it says"
    assert clock.expected(other) == pytest.approx(1000.0 * by_role)
    assert clock.expected(fit("d", "mlp", "adult")) == pytest.approx(1000.0 * by_pair)
    assert clock.left() == pytest.approx(1100.0 * by_role)


def test_a_prior_that_was_scaled_from_another_table_corrects_nothing() -> None:
    watch = Watch()
    clock = Clock(watch, prior=lambda step, trial=None: 100.0, is_measured=lambda step, trial=None: False)
    first, second = fit("a", "mlp"), fit("b", "mlp", "adult")
    clock.begin([first, second], 1)
    run(clock, watch, first, 1.0, epochs=10, of=10)
    assert clock.left() == pytest.approx(100.0)


def study_of(bench: Bench, n_trials: int) -> Step:
    plan = bench.plan(ssl=["none"], model=["xgboost"], controls=[], trials=n_trials)
    return next(step for step in plan.steps.values() if step.study is not None)


def test_a_trial_that_was_measured_is_not_judged_by_others(bench: Bench) -> None:
    watch, said = Watch(), {0: 10.0, 1: 200.0, 2: 20.0, 3: 50.0}

    def prior(step: Step, trial: int | None = None) -> float:
        return 70.0 if trial is None else said[trial]

    clock = Clock(watch, prior, is_measured=lambda step, trial=None: trial in (None, *said))
    study = study_of(bench, 4)
    clock.begin([study], 1)
    assert clock.left() == pytest.approx(sum(said.values()))
    for number in range(2):
        clock.started(f"trial {number}", study, Trial(number, {}))
        clock.trials_left(study, 3 - number)
        watch.time += said[number]
        clock.finished(f"trial {number}")
    assert clock.left() == pytest.approx(said[2] + said[3]), "not what the first two took"


def test_trials_that_were_not_measured_count_as_any_other(bench: Bench) -> None:
    clock = Clock(
        Watch(),
        prior=lambda step, trial=None: 70.0 if trial is None else 10.0,
        is_measured=lambda step, trial=None: trial == 0,
    )
    clock.begin([study_of(bench, 4)], 1)
    assert clock.left() == pytest.approx(10.0 + 3 * 70.0)


def test_a_long_job_that_comes_last_runs_alone() -> None:
    clock = Clock(Watch(), prior=lambda step, trial=None: 70.0 if step.label == "z" else 10.0)
    clock.begin([*(fit(name, name) for name in "abcdef"), fit("z", "z")], 2)
    assert clock.left() == pytest.approx(6 * 10.0 / 2 + 70.0)


def test_what_needs_a_late_step_begins_after_it_though_it_is_urgent() -> None:
    clock = Clock(Watch(), prior=lambda step, trial=None: 70.0 if step.label == "z" else 10.0)
    clock.begin([replace(fit("z", "z"), needs=("f",)), *(fit(name, name) for name in "abcdef")], 2)
    assert clock.left() == pytest.approx(6 * 10.0 / 2 + 70.0, rel=0.1)


def test_a_job_that_lasts_longer_than_usual_is_not_expected_to_end_at_once() -> None:
    watch = Watch()
    clock = Clock(watch)
    first, second = fit("a", "mlp"), fit("b", "mlp")
    clock.begin([first, second], 1)
    run(clock, watch, first, 10.0, epochs=10, of=100)
    clock.started("b", second)
    for epoch in range(1, 51):
        watch.time += 1.0
        clock.progress(Event("b", epoch, 100))
    assert clock.left() == pytest.approx(50 * OVERTIME)


def test_the_pace_of_a_running_job_says_more_of_its_like_than_the_prior() -> None:
    watch = Watch()
    clock = Clock(watch, prior=lambda step, trial=None: 5.0)
    first, second = fit("a", "mlp"), fit("b", "mlp")
    clock.begin([first, second], 1)
    clock.started("a", first)
    for epoch in (10, 20):
        watch.time += 10.0
        clock.progress(Event("a", epoch, 100))
    assert clock.left() == pytest.approx(80.0 + 100.0)


def test_the_longest_chain_takes_its_time_however_many_slots_there_are() -> None:
    watch = Watch()
    clock = Clock(watch, prior=lambda step, trial=None: 60.0)
    first = fit("a", "mlp")
    clock.begin([first, replace(fit("b", "resnet"), needs=("a",)), fit("c", "linear")], 8)
    assert clock.left() == pytest.approx(120.0)
    assert clock.needed(first) == pytest.approx(120.0)


def test_a_step_needs_the_time_of_all_that_the_quickest_record_on_it_needs() -> None:
    """A model that is tuned on an encoder needs the encoder itself and the study, which needs the encoder too."""
    clock = Clock(Watch(), prior=lambda step, trial=None: 600.0 if step.label == "tuning" else 60.0)
    encoder, tuning = fit("a", "mlp"), replace(fit("b", "resnet"), needs=("a",), label="tuning")
    tuned = replace(fit("c", "linear"), needs=("a", "b"))
    clock.begin([encoder, tuning, tuned], 8)
    assert clock.needed(encoder) == pytest.approx(720.0)
    quicker = Clock(Watch(), prior=clock.prior)
    quicker.begin([encoder, tuning, tuned, replace(fit("d", "knn"), needs=("a",))], 8)
    assert quicker.needed(encoder) == pytest.approx(120.0)


def test_boosting_with_small_steps_is_expected_to_need_more_rounds() -> None:
    settings = {"n_rounds": 2000, "patience": 50, "lr": 0.1}
    assert usual_share(settings, 2000, rows=10_000) == pytest.approx((50 + BOOSTING * 100 / 0.1) / 2000)
    assert usual_share({**settings, "lr": 0.001}, 2000, rows=10_000) == 1.0
    assert usual_share({**settings, "lr": "auto"}, 2000, rows=10_000) == 1.0, "it chooses one for its rounds"
    assert usual_share({**settings, "lr": 0.0}, 2000, rows=10_000) == 1.0, "whatever a plugin means by that"
    network = {"max_epochs": 2000, "patience": 50, "lr": 0.001}
    assert usual_share(network, 2000, rows=10_000) == pytest.approx(150 / 2000), "a network has no rounds to add"
