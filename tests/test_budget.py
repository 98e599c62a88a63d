"""What a run does first, and what it leaves out when it may not take long."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from harness import Bench, InProcess, Watcher

from tabbench.contracts import Job, Outcome
from tabbench.contracts.job import Event
from tabbench.errors import UsageError
from tabbench.running.budget import Budget
from tabbench.running.clock import Prior
from tabbench.running.driver import run_plan
from tabbench.running.forecast import Forecast
from tabbench.running.launch import make_launcher
from tabbench.running.measurements import CALIBRATE
from tabbench.running.request import parse_duration


def slow(*words: str, seconds: float = 1e6) -> "Prior":
    """Steps whose labels have one of these words take long, all others no time."""
    return lambda step, trial=None: seconds if any(word in step.label for word in words) else 0.0


def test_tuned_baselines_are_there_before_a_pretraining_begins(bench: Bench) -> None:
    bench.run(executor=InProcess, trials=3, controls=["none"])
    begun = bench.watcher.begun
    assert begun.index("wine/0 none + nearest seed 0") < begun.index("wine/0 pretrain projection")


def test_the_trials_of_baselines_come_before_those_of_methods(bench: Bench) -> None:
    bench.run(executor=InProcess, trials=3, ssl_trials=6, controls=["none"])
    first = [record for record in bench.records() if record["kind"] == "trial"][:3]
    assert {record["ssl"] for record in first} == {"none"}


def test_what_takes_longer_than_the_budget_is_left_out_by_name_and_done_by_the_next_run(bench: Bench) -> None:
    summary = bench.run(executor=InProcess, budget=3600.0, prior=slow("pretrain"), controls=["none"])
    assert (summary.done, summary.is_incomplete) == (1, True)
    ((place),) = summary.places_left_out()
    assert (place["ssl"], place["model"], place["data"]) == ("projection", "nearest", "wine")
    assert str(place["reason"]).startswith("wine/0 pretrain projection would need about 277 h 46 min, with ")
    assert list(bench.watcher.omitted) == ["wine/0 pretrain projection"], "said once, at its root"
    again = bench.run(executor=InProcess, controls=["none"])
    assert (again.done, again.done_before, again.left_out) == (1, 1, [])


def test_what_would_only_just_fit_is_left_out_as_too_close() -> None:
    clock: Any = SimpleNamespace(now=lambda: 0.0, needed=lambda step: 1.9)
    step: Any = None
    assert Budget(clock, 2.0).why_not(step) == "would need about 1.9 s, too close to the 2.0 s left"
    assert Budget(clock, 1.0).why_not(step) == "would need about 1.9 s, with 1.0 s left"
    assert Budget(clock, 3.0).why_not(step) == ""


def test_a_pretraining_is_not_begun_if_no_model_could_be_trained_on_it(bench: Bench) -> None:
    summary = bench.run(executor=InProcess, budget=3600.0, prior=slow("projection + nearest"), controls=[])
    assert (summary.done, len(summary.left_out)) == (0, 1)
    assert bench.watcher.begun == []


def test_what_fits_is_done_though_something_before_it_does_not(bench: Bench) -> None:
    prior = slow("projection + nearest")
    summary = bench.run(executor=InProcess, budget=3600.0, prior=prior, controls=[], model=["nearest", "linear"])
    assert [step.label for step, _ in summary.left_out] == ["wine/0 projection + nearest seed 0"]
    assert summary.done == 1


def test_no_study_is_opened_before_its_time_is_known(bench: Bench) -> None:
    """Workers take a while to start. Until then there is no room, for a measurement neither."""
    order: list[str] = []

    class Slow(InProcess):
        looks = 0

        def room(self, kind: str) -> int:
            self.looks += 1
            return int(self.looks > 5)

        def expect(self, ready: Mapping[str, int]) -> None:
            assert self.looks > 5 or ready, "otherwise no worker is started"

        def submit(self, job: Job) -> None:
            order.append(job.kind)
            seconds = 1e6 if job.kind == CALIBRATE else 0.0
            self.events.append(Event(job.key, outcome=Outcome("ok", {"seconds": seconds})))

    plan = bench.plan(ssl=["none"], model=["xgboost"], trials=4, controls=[])
    launcher = replace(make_launcher(bench.registry, jobs=1), start=Slow)
    forecast = Forecast(plan, bench.store, launcher, 3600.0)
    summary = run_plan(plan, bench.store, launcher, Watcher(), budget=3600.0, forecast=forecast)
    assert set(order) == {CALIBRATE}, "it was left out, as it would take days"
    assert (summary.done, len(summary.left_out)) == (0, 1)


def test_a_job_that_runs_when_the_budget_ends_is_ended_and_resumed(bench: Bench) -> None:
    settings = {"nearest": {"sleep": 30.0}}
    summary = bench.run(ssl=["none"], set=settings, budget=1.0)
    assert [(step.label, why) for step, why in summary.left_out] == [
        ("wine/0 none + nearest seed 0", "the budget was used up")
    ]
    assert bench.records() == []


@pytest.mark.parametrize("given, seconds", [("10m", 600.0), ("2h", 7200.0), ("1d", 86400.0), ("90", 90.0), (5, 5.0)])
def test_a_budget_is_a_number_with_a_unit_or_seconds(given: str | float, seconds: float) -> None:
    assert parse_duration(given) == seconds


@pytest.mark.parametrize("given", ["", "ten", "-5m", "nan", "0"])
def test_a_budget_that_makes_no_sense_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match=r"write a number with s, m, h or d, for example 90m"):
        parse_duration(given)


def test_a_run_of_less_than_an_hour_is_quick_unless_told_otherwise(bench: Bench) -> None:
    from tabbench.experiment.settings import default_preset

    assert default_preset(["churn.csv:Exited"], bench.registry, 600.0) == "quick"
    assert default_preset(["churn.csv:Exited"], bench.registry, 7200.0) == "standard"
    assert default_preset(["churn.csv:Exited"], bench.registry) == "standard"


def test_a_run_ends_with_its_verdict(bench: Bench) -> None:
    from tabbench.results.gains import tabulate_gains
    from tabbench.results.page.verdict import tell

    bench.run(executor=InProcess, ssl=["none"])
    assert tell(tabulate_gains(bench.store)) == [], "nothing is said of methods where there is none"
    bench.run(executor=InProcess)
    said = tell(tabulate_gains(bench.store))
    assert said[0] == "No verdict yet: with one split there is no interval.", "the count is in the next sentence"
    assert [line.split()[0] for line in said[1:]] == ["projection"]
