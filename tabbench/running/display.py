"""Show a run: bars with the time left on a terminal, plain lines elsewhere. Displays only observe."""

from __future__ import annotations

import sys
import time
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabbench.contracts.job import Event, Outcome
from tabbench.experiment.graph import Step
from tabbench.results.escaping import escape_terminal
from tabbench.running.clock import Clock, duration
from tabbench.running.growing import GrowingTable
from tabbench.running.observer import Summary

if TYPE_CHECKING:
    from rich.console import Group
    from rich.progress import Progress, TaskID

DEFAULT_RESULTS = Path("results")
LINE_EVERY = 60.0
"""Seconds between two plain lines about running jobs."""
UPDATE_EVERY = 0.5
"""Seconds between two updates in a notebook."""
SHOWN_LINES = 4
"""Lines that a notebook keeps visible."""


def harmless(text: str) -> str:
    """Remove anything that a terminal would act on: names and errors come from outside."""
    return "\n".join(escape_terminal(line) for line in text.split("\n"))


class PlainDisplay:
    """One line per finished job, and now and then one about running jobs."""

    def __init__(self, verbose: bool = False) -> None:
        self.verbose = verbose
        self.clock = Clock()
        self.table = GrowingTable()
        self.total = 0
        self.ended = 0
        self.last_line = time.monotonic()

    def say(self, text: str) -> None:
        print(harmless(text), file=sys.stderr, flush=True)

    def begin(self, todo: list[Step], done: int, slots: int, clock: Clock) -> None:
        self.clock = clock
        self.total = len(todo)
        stored = f", {done} record(s) already stored" if done else ""
        self.say(f"{self.total} step(s) to run, {slots} at a time{stored}")

    def started(self, step: Step) -> None:
        if self.verbose:
            self.say(f"started: {step.label}")

    def progress(self, step: Step, event: Event) -> None:
        if time.monotonic() - self.last_line > LINE_EVERY:
            self.last_line = time.monotonic()
            self.say(f"[{self.ended}/{self.total}] {step.label}: {shortly(event)}{self._left()}")

    def finished(self, step: Step, outcome: Outcome) -> None:
        self.table.add(step, outcome)
        self.ended += 1
        self.last_line = time.monotonic()
        self.say(f"[{self.ended}/{self.total}] {verdict(step, outcome)}{self._left()}")

    def waiting(self, why: str) -> None:
        self.say(f"waiting: {why}")

    def left_out(self, step: Step, why: str) -> None:
        self.total -= 1
        self.say(f"left out: {why}")

    def retried(self, step: Step, outcome: Outcome) -> None:
        self.say(f"{outcome.status.replace('_', ' ')}, restarted: {step.label}: {outcome.error}")

    def end(self) -> None:
        pass

    def _left(self) -> str:
        left = self.clock.left()
        return f" (about {duration(left)} left)" if left else ""

    def summary(self, summary: Summary, results: Path = DEFAULT_RESULTS) -> None:
        where = "" if results == DEFAULT_RESULTS else f" --results {results}"
        parts = [f"{summary.done} record(s) made"]
        if summary.done_before:
            parts.append(f"{summary.done_before} already stored")
        if summary.elsewhere:
            parts.append(f"{summary.elsewhere} made by another run")
        if summary.unfinished:
            parts.append(f"{summary.unfinished} with unfinished tuning; run the same command to finish it")
        if summary.failures:
            parts.append(f"{len(summary.failures)} failed")
        if summary.left_out:
            parts.append(f"{len(summary.left_out)} left out by the budget; run the same command to resume")
        self.say(", ".join(parts))
        for error in dict.fromkeys(outcome.error for _, outcome in summary.failures):
            hit = [(step, outcome) for step, outcome in summary.failures if outcome.error == error]
            step, outcome = hit[0]
            more = f" and {len(hit) - 1} more" if len(hit) > 1 else ""
            self.say(f"failed: {step.label}{more}: {error}")
            what = "the traceback" if outcome.traceback else "the record"  # a killed job has no traceback
            self.say(f"  {what}: tabbench show {step.key[:8]}{where}")
        if summary.interrupted:
            self.say("interrupted; run the same command to resume")


class QuietDisplay(PlainDisplay):
    """Prints only failures."""

    def say(self, text: str) -> None:
        if text.startswith("failed:"):
            super().say(text)


class RichDisplay(PlainDisplay):
    """A bar for the run with the time left, and one for each running job."""

    def __init__(self, verbose: bool = False) -> None:
        super().__init__(verbose)
        self.bars: dict[str, TaskID] = {}
        self.progress_bars: Progress | None = None

    def say(self, text: str) -> None:
        if self.progress_bars is None:
            super().say(text)
        else:
            self.progress_bars.console.print(harmless(text), markup=False, highlight=False)

    def begin(self, todo: list[Step], done: int, slots: int, clock: Clock) -> None:
        super().begin(todo, done, slots, clock)
        from rich.console import Console
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        # Text that does not fit the width is cut, the numbers of an epoch first: the bar and the step's name stay.
        name = Column(no_wrap=True, overflow="ellipsis", ratio=5)
        numbers = Column(no_wrap=True, overflow="ellipsis", ratio=4)
        self.progress_bars = Progress(
            TextColumn("{task.description}", markup=False, table_column=name),
            BarColumn(bar_width=16, table_column=Column(width=16)),
            TextColumn("{task.fields[note]}", markup=False, table_column=numbers),
            console=Console(stderr=True),
            expand=True,
        )
        self.overall = self.progress_bars.add_task("all steps", total=self.total, note="")
        self.live = Live(
            get_renderable=self._render, console=self.progress_bars.console, transient=True, refresh_per_second=4
        )
        self.live.start()

    def _render(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        assert self.progress_bars is not None
        lines = [harmless(line) for line in self.table.lines()]
        return Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in lines), self.progress_bars)

    def started(self, step: Step) -> None:
        super().started(step)
        if self.progress_bars is not None:
            name = harmless(name_first(step))
            self.bars[step.key] = self.progress_bars.add_task(name, total=None, note="starting")

    def progress(self, step: Step, event: Event) -> None:
        if self.progress_bars is not None and step.key in self.bars:
            self.progress_bars.update(self.bars[step.key], completed=event.step, total=event.total, note=shortly(event))
            self._update_overall()

    def finished(self, step: Step, outcome: Outcome) -> None:
        if self.progress_bars is not None and step.key in self.bars:
            self.progress_bars.remove_task(self.bars.pop(step.key))
        super().finished(step, outcome)
        self._update_overall()

    def left_out(self, step: Step, why: str) -> None:
        super().left_out(step, why)
        self._update_overall()

    def _update_overall(self) -> None:
        if self.progress_bars is not None:
            left = self.clock.left()
            note = f"{self.ended}/{self.total}" + (f", about {duration(left)} left" if left else "")
            self.progress_bars.update(self.overall, completed=self.ended, total=self.total, note=note)

    def end(self) -> None:
        if self.progress_bars is not None:
            self.live.stop()
            self.progress_bars = None

    def _left(self) -> str:
        return ""


class NotebookDisplay(PlainDisplay):
    """One bar in the output of a notebook's cell, and the last lines below it."""

    def __init__(self, verbose: bool = False) -> None:
        super().__init__(verbose)
        from IPython.display import display

        self.lines: list[str] = []
        self.running: dict[str, str] = {}
        self.last_update = 0.0
        show: Any = display
        self.output = show({"text/plain": ""}, raw=True, display_id=True)

    def say(self, text: str) -> None:
        self.lines.append(text)
        self._update(now=True)

    def started(self, step: Step) -> None:
        super().started(step)
        self.running[step.key] = step.label

    def progress(self, step: Step, event: Event) -> None:
        self.running[step.key] = f"{step.label}: {describe(event)}"
        self._update()

    def finished(self, step: Step, outcome: Outcome) -> None:
        self.running.pop(step.key, None)
        super().finished(step, outcome)

    def _update(self, now: bool = False) -> None:
        if not now and time.monotonic() - self.last_update < UPDATE_EVERY:
            return
        self.last_update = time.monotonic()
        shown = [*self.lines[-SHOWN_LINES:], *self.running.values()]
        plain = "\n".join(shown)
        bar = f'<progress value="{self.ended}" max="{max(self.total, 1)}" aria-label="steps done"></progress>'
        text = "<br>".join(escape(line) for line in shown)
        html = f"{bar} {self.ended}/{self.total}{escape(self._left())}<br><small>{text}</small>"
        self.output.update({"text/plain": plain, "text/html": html}, raw=True)


def make_display(quiet: bool = False, verbose: bool = False) -> PlainDisplay:
    """The right display for where the output goes."""
    if quiet:
        return QuietDisplay()
    if "ipykernel" in sys.modules:
        return NotebookDisplay(verbose)
    return RichDisplay(verbose) if sys.stderr.isatty() else PlainDisplay(verbose)


def describe(event: Event) -> str:
    """``3/20 loss 0.12``, with all numbers."""
    numbers = " ".join(f"{name} {value:.4g}" for name, value in event.metrics.items())
    return f"{event.step}/{event.total} {numbers}".strip()


def shortly(event: Event) -> str:
    """The same with the first number only."""
    first = dict(list(event.metrics.items())[:1])
    return describe(Event(event.key, event.step, event.total, first))


def name_first(step: Step) -> str:
    """``pretrain tjepa (churn.csv:Exited/0)``: if it is cut, what the step does is kept."""
    place = f"{step.payload.manifest.name}/{step.payload.split.seed}"
    return f"{step.label.removeprefix(place).strip()} ({place})"


def verdict(step: Step, outcome: Outcome) -> str:
    """One line about the end of a job."""
    if outcome.status != "ok":
        return f"{outcome.status.replace('_', ' ')}: {step.label}: {outcome.error}"
    if step.study is not None:
        tuning = outcome.result["tuning"]
        default = "failed" if tuning["default_value"] is None else f"{tuning['default_value']:.4g}"
        return f"{step.label}: {tuning['trials']} trials, best {tuning['best_value']:.4g}, defaults {default}"
    score = outcome.result.get("score")
    scored = "" if score is None else f": {outcome.result['metric']} {score:.4g}"
    flags = outcome.result.get("flags")
    flagged = f" flagged: {', '.join(flags)}" if flags else ""
    return f"{step.label}{scored} in {duration(outcome.seconds)}{flagged}"
