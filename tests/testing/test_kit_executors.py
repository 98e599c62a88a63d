"""The checks of executors find what is wrong, and the local executor passes them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tabbench import Event, Executor, Job, Outcome
from tabbench.testing import Check, CheckFailed, checks_for, executing
from tabbench.testing.subject import Subject, find_subject


class Pretender(Executor):
    """Does no work, and answers as a sound executor would; ``flaw`` changes what it says."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.news: list[Event] = []

    @property
    def slots(self) -> int:
        return 2

    def submit(self, job: Job) -> None:
        epochs = job.payload["epochs"]
        reports = [Event(job.key, epoch + 1, epochs, {"validation": 1.0}) for epoch in range(epochs)]
        place = {"hostname": "here"}
        endings = {
            "end": Outcome("ok", {"echo": job.payload["echo"]}, place=place),
            "fail": Outcome("failed", error="told to fail", traceback="RuntimeError", place=place),
            "lose": Outcome("lost", error="told to lose its place", place=place),
            "crash": Outcome("killed", error="its process ended by SIGKILL", place=place),
            "hang": Outcome("timeout", place=place),
            "eat": Outcome("out_of_memory", place=place),
        }
        self.news += self.flaw([*reports, Event(job.key, outcome=endings[job.payload["then"]])])

    def flaw(self, events: list[Event]) -> list[Event]:
        return events

    def wait(self, seconds: float) -> list[Event]:
        news, self.news = self.news, []
        return news

    def close(self) -> None:
        self.news.clear()


class Twice(Pretender):
    def flaw(self, events: list[Event]) -> list[Event]:
        return [*events, events[-1]]


class Backwards(Pretender):
    def flaw(self, events: list[Event]) -> list[Event]:
        return [*events[-2::-1], events[-1]]


class Nowhere(Pretender):
    def flaw(self, events: list[Event]) -> list[Event]:
        outcome = events[-1].outcome
        assert outcome is not None
        return [*events[:-1], replace(events[-1], outcome=replace(outcome, place={}))]


class Optimist(Pretender):
    def flaw(self, events: list[Event]) -> list[Event]:
        return [*events[:-1], replace(events[-1], outcome=Outcome("ok", {"echo": 0}, place={"hostname": "here"}))]


class Once(Pretender):
    """Takes a job that it has seen before for a mistake."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.seen: set[str] = set()

    def flaw(self, events: list[Event]) -> list[Event]:
        key = events[-1].key
        known, self.seen = key in self.seen, self.seen | {key}
        return [] if known else events


def check(name: str) -> Callable[[Subject], None]:
    return next(each for each in checks_for("executor") if each.name == name)


@pytest.mark.parametrize("name", ["check_each_job_ends_once", "check_failures_are_told",
                                  "check_reports_of_a_trial_come_in_order", "check_a_crash_costs_one_job",
                                  "check_a_lost_job_can_run_again", "check_limits_hold",
                                  "check_unknown_jobs_are_no_trouble"])  # fmt: skip
def test_a_sound_executor_passes(name: str) -> None:
    check(name)(find_subject(Pretender))


@pytest.mark.parametrize(
    "flawed, name, complaint",
    [
        (Twice, "check_each_job_ends_once", "a job has ended 2 times"),
        (Nowhere, "check_each_job_ends_once", "does not say where its job ran"),
        (Optimist, "check_each_job_ends_once", "a job has another job's result"),
        (Optimist, "check_failures_are_told", "it ended as ok"),
        (Backwards, "check_reports_of_a_trial_come_in_order", "reported epochs: "),
        (Optimist, "check_prune_reaches_a_job", "it ended as ok"),
        (Optimist, "check_cancel_stops_a_job", "it ended as ok"),
        (Optimist, "check_a_crash_costs_one_job", "it ended as ok"),
        (Optimist, "check_a_lost_job_can_run_again", "it ended as ok"),
        (Once, "check_a_lost_job_can_run_again", "a job that was started again has not ended"),
        (Optimist, "check_limits_hold", "a job that hangs ended as ok"),
    ],
)
def test_a_flaw_is_found(flawed: type[Executor], name: str, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executing, "PATIENCE", 0.5)
    with pytest.raises(CheckFailed, match=complaint):
        check(name)(find_subject(flawed))


@pytest.mark.slow
@pytest.mark.parametrize("check", checks_for("executor"), ids=str)
def test_the_local_executor_keeps_its_promises(check: Check, local: Subject) -> None:
    check(local)


@pytest.fixture(scope="module")
def local() -> Subject:
    return find_subject("local", kind="executor")
