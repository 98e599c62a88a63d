from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from tabbench.contracts.job import Event
from tabbench.data.cache import Manifest
from tabbench.experiment.graph import Step
from tabbench.experiment.payloads import Address, FitPayload, SplitChoice
from tabbench.running.clock import BASE, Clock


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
    clock = Clock(watch, prior=lambda step: None)
    clock.begin(steps, 2)
    assert clock.left() is None
    for step in steps[:2]:
        clock.started(step.key, step)
    assert clock.left() is None
    watch.time = 10.0
    clock.progress(Event("a", 20, 100))
    clock.progress(Event("b", 25, 100))
    # a needs 50 s in all and b 40 s, so the three that wait need 45 s each.
    assert clock.left() == pytest.approx(40.0 + 3 * 45.0 / 2)


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
    assert clock.left() == pytest.approx(62 * 10.0)  # four times the patience


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


def test_what_was_known_before_counts_until_something_like_it_has_run_and_is_corrected() -> None:
    watch = Watch()
    clock = Clock(watch, prior=lambda step: 100.0 if step.label in "ab" else 10.0)
    first, second, other = fit("a", "mlp"), fit("b", "resnet"), fit("c", "linear")
    clock.begin([first, second, other], 1)
    assert clock.left() == pytest.approx(210.0)
    run(clock, watch, first, 200.0, epochs=10, of=10)
    assert clock.left() == pytest.approx(2 * 110.0), "all take twice as long as it was said"


def test_the_longest_chain_takes_its_time_however_many_slots_there_are() -> None:
    watch = Watch()
    clock = Clock(watch, prior=lambda step: 60.0)
    first = fit("a", "mlp")
    clock.begin([first, replace(fit("b", "resnet"), needs=("a",)), fit("c", "linear")], 8)
    assert clock.left() == pytest.approx(120.0)
    assert clock.needed(first) == pytest.approx(120.0)
