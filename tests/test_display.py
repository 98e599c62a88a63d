"""How a run looks: on a terminal of 80 columns, and in a log."""

import io
from collections.abc import Iterator
from dataclasses import replace

import pytest
from harness import Bench
from rich.console import Console

from tabbench.contracts import Event, Outcome
from tabbench.experiment.graph import Plan, Step
from tabbench.running.clock import Clock
from tabbench.running.display import PlainDisplay, RichDisplay

METRICS = {"loss": 0.02834, "ema": 0.9983, "target_moved": 6.092, "embedding_variance": 0.0491, "collapsed": 0.0}


@pytest.fixture
def plan(bench: Bench) -> Plan:
    return bench.plan()


def named(plan: Plan, words: str) -> Step:
    return next(step for step in plan.steps.values() if words in step.label)


def renamed(step: Step, data: str) -> Step:
    """The step on a dataset of another name."""
    manifest = replace(step.payload.manifest, name=data)
    label = step.label.replace("wine", data)
    return replace(step, label=label, payload=step.payload.model_copy(update={"manifest": manifest}))


@pytest.fixture
def display(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> Iterator[RichDisplay]:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    shown = RichDisplay()
    todo = list(plan.steps.values())
    clock = Clock()
    clock.begin(todo, 2)
    shown.begin(todo, 0, 2, clock)
    yield shown
    shown.end()


def screen(display: RichDisplay) -> list[str]:
    """What a terminal of 80 columns shows."""
    console = Console(width=80, file=io.StringIO())
    with console.capture() as captured:
        console.print(display._render())
    return captured.get().rstrip("\n").split("\n")


def test_at_80_columns_the_bar_and_the_name_of_the_step_stay(display: RichDisplay, plan: Plan) -> None:
    step = renamed(named(plan, "pretrain"), "a-file-whose-name-is-rather-long-2026-11.csv:a_long_target")
    display.started(step)
    display.progress(step, Event(step.key, 17, 30, METRICS))
    lines = screen(display)
    assert len(lines) == 2, "a line for all steps, and one for the running one"
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].startswith("pretrain projection (a-file")
    assert "━━━━" in lines[1]
    assert "17/30 loss 0.02834" in lines[1]
    assert "ema" not in lines[1]


def test_the_table_is_shown_as_it_grows(display: RichDisplay, plan: Plan) -> None:
    assert "so far" not in "\n".join(screen(display))
    for words, score in (("none + nearest", 0.875), ("projection + nearest", 0.91666)):
        display.finished(named(plan, words), Outcome("ok", {"score": score, "metric": "accuracy"}, seconds=1.0))
    assert [line.rstrip() for line in screen(display)[:3]] == [
        "so far                wine (accuracy)",
        "none + nearest                  0.875",
        "projection + nearest           0.9167",
    ]


def test_a_log_has_a_line_per_job_and_one_per_minute(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 1000.0
    monkeypatch.setattr("tabbench.running.display.time.monotonic", lambda: now)
    display, step = PlainDisplay(), named(plan, "pretrain")
    display.begin(list(plan.steps.values()), 0, 2, Clock())
    display.started(step)
    for epoch in range(180):  # three minutes
        now += 1.0
        display.progress(step, Event(step.key, epoch, 180, METRICS))
    display.finished(step, Outcome("ok", {}, seconds=180.0))
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "4 step(s) to run, 2 at a time"
    assert [line.split(": ")[0] for line in said[1:3]] == ["[0/4] wine/0 pretrain projection"] * 2
    assert said[3:] == ["[1/4] wine/0 pretrain projection in 3 min 0 s"]
