from dataclasses import dataclass

import pytest

from tabbench.contracts.job import Event
from tabbench.data.cache import Manifest
from tabbench.experiment.payloads import Address, FitPayload, SplitChoice
from tabbench.experiment.plan import Step
from tabbench.running.clock import Clock


@dataclass
class Watch:
    """A clock that the test moves."""

    time: float = 0.0

    def __call__(self) -> float:
        return self.time


def fit(key: str, model: str, data: str = "wine") -> Step:
    address = Address(name=model, target="m:C", distribution="d", version="1", revision=1, config={})
    manifest = Manifest(data, "k", "", "", 100, 3, 0, "binary", 2, ("a", "b"), "y", (), "", (), 1)
    split = SplitChoice(rule="80/10/10", seed=0)
    return Step(key, "fit", key, FitPayload(manifest=manifest, split=split, seed=0, features=None, model=address))


def run(clock: Clock, watch: Watch, step: Step, seconds: float, epochs: int, of: int) -> None:
    clock.started(step)
    watch.time += seconds
    clock.progress(step, Event(step.key, epochs, of))
    clock.finished(step)


def test_nothing_is_said_before_anything_is_known() -> None:
    clock = Clock(Watch())
    clock.begin([fit("a", "mlp")], 1)
    clock.started(fit("a", "mlp"))
    assert clock.left() is None


def test_a_first_training_is_judged_by_its_pace() -> None:
    watch, step = Watch(), fit("a", "mlp")
    clock = Clock(watch)
    clock.begin([step], 1)
    clock.started(step)
    watch.time = 10.0
    clock.progress(step, Event("a", 20, 100))
    assert clock.left() == pytest.approx(40.0)


def test_trainings_that_stop_early_are_expected_to_do_so_again() -> None:
    watch = Watch()
    clock = Clock(watch)
    first, second, third = (fit(name, "dcnv2") for name in "abc")
    clock.begin([first, second, third], 1)
    run(clock, watch, first, 400.0, epochs=60, of=2000)
    assert clock.left() == pytest.approx(800.0)
    clock.started(second)
    watch.time += 300.0
    clock.progress(second, Event("b", 40, 2000))  # a little slower: 60 epochs would take 450 s
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
