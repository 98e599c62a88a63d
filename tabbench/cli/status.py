"""``tabbench status``: what the drivers of a results folder are doing."""

import json
import socket
import sys
import time
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from tabbench.cli.options import DEFAULT_RESULTS, TO_START, ResultsFolder
from tabbench.values import JsonObject

if TYPE_CHECKING:
    from tabbench.results.drivers import Driver, RunningJob
    from tabbench.results.store import Store

WATCH_EVERY = 5.0
SHOWN_JOBS = 3
"""Jobs named per node; the rest are counted."""
SHOWN_ENDED = 5
"""Drivers shown that are no longer at work; the rest are counted."""


def status(
    results: ResultsFolder = DEFAULT_RESULTS,
    watch: Annotated[
        bool, typer.Option("--watch", help="Refresh every few seconds until no driver is running.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON for programs; with --watch, one line per refresh.")
    ] = False,
) -> None:
    """Show the drivers of a results folder: alive or dead, what is running where, waiting, or failed.

    It only reads, so you can run it at any time on any machine that sees the folder.
    """
    from tabbench.results.drivers import read_drivers
    from tabbench.results.escaping import escape_terminal
    from tabbench.results.files import check_results
    from tabbench.results.store import Store

    if not (results / "drivers").is_dir():
        check_results(results, TO_START)
    store = Store(results)
    while True:
        drivers = read_drivers(results)
        about = describe(store, drivers)
        if as_json:
            print(json.dumps(about, indent=None if watch else 1), flush=True)
        else:
            if watch and sys.stdout.isatty():
                print("\033[2J\033[H", end="")
            print("\n".join(map(escape_terminal, as_text(about, drivers))), flush=True)
        if not watch or not any(driver["alive"] for driver in about["drivers"]):
            return
        time.sleep(WATCH_EVERY)


class StatusShape(TypedDict):
    """``tabbench status --json``."""

    results: str
    records: dict[str, int]
    running: int
    queued: int
    ready: int
    left: float | None
    drivers: list[JsonObject]
    """What each driver said last, whether it is ``alive``, and for how many seconds it has been ``silent``."""


def describe(store: "Store", drivers: "list[Driver]") -> StatusShape:
    """Everything that is known, as JSON."""
    records = Counter(record.status for record in store.records() if record.kind == "result")
    told = [{**asdict(driver), "alive": driver.is_alive(), "silent": _since(driver.time)}
            for driver in drivers]  # fmt: skip
    alive = [driver for driver in told if driver["alive"]]
    lefts = [driver["left"] for driver in alive if driver["left"] is not None]
    return {
        "results": str(store.root),
        "records": dict(sorted(records.items())),
        "running": sum(not job["queued"] for driver in alive for job in driver["jobs"]),
        "queued": sum(job["queued"] for driver in alive for job in driver["jobs"]),
        "ready": sum(driver["ready"] for driver in alive),
        "left": max(lefts, default=None),
        "drivers": told,
    }


def as_text(about: StatusShape, drivers: "list[Driver]") -> list[str]:
    """The status as lines of text."""
    records = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in about["records"].items())
    lines = [f"{about['results']}: records: {records or 'none'}"]
    if not drivers:
        return [*lines, "no driver is running here, and none has run here lately"]
    ended, started_later = 0, set[str]()
    for told, driver in zip(about["drivers"], drivers, strict=True):  # latest first
        ended += not told["alive"]
        if told["alive"] or ended <= SHOWN_ENDED:
            lines += ["", *_driver(told, driver, resumed=driver.command in started_later)]
        started_later.add(driver.command)
    if ended > SHOWN_ENDED:
        lines += ["", f"and {ended - SHOWN_ENDED} more that ran earlier (all of them with --json)"]
    return lines


def _driver(told: JsonObject, driver: "Driver", *, resumed: bool) -> list[str]:
    from tabbench.running.clock import duration

    lines = [f"{driver.host} {driver.pid}, --executor {driver.executor or '?'}: {_state(told, resumed=resumed)}"]
    if told["alive"] and not driver.total:
        return [*lines, "  starting"]
    left = f", about {duration(driver.left)} left" if told["alive"] and driver.left is not None else ""
    lines.append(f"  {driver.done} of {driver.total} steps done, {driver.failed} failed{left}")
    if told["alive"]:
        lines += _jobs(driver)
        if driver.waiting_for:
            lines.append(f"  waiting: {driver.waiting_for}")
    if driver.last_error:
        lines.append(f"  last error: {driver.last_error}")
    if not told["alive"] and driver.ended in ("", "interrupted") and driver.command and not resumed:
        lines.append(f"  resume with: {driver.command}")
    return lines


def _state(told: JsonObject, *, resumed: bool) -> str:
    from tabbench.running.clock import duration

    if told["alive"]:
        return f"running for {duration(_since(told['started']))}"
    ago = duration(told["silent"])
    later = "; resumed later" if resumed else ""
    if told["ended"]:
        return f"{told['ended']} {ago} ago{later if told['ended'] == 'interrupted' else ''}"
    if told["host"] == socket.gethostname():
        return f"dead; last heard from {ago} ago{later}"
    return f"probably dead; no sign of life for {ago}{later}"


def _jobs(driver: "Driver") -> list[str]:
    running = [job for job in driver.jobs if not job.queued]
    queued = len(driver.jobs) - len(running)
    counts = f"{len(running)} running, {queued} queued, {driver.ready} ready, {driver.blocked} waiting for other steps"
    lines = [f"  {counts}; {driver.slots} at a time"]
    by_node: dict[str, list[RunningJob]] = {}
    for job in running:
        by_node.setdefault(job.node or "?", []).append(job)
    for node, jobs in sorted(by_node.items()):
        shown = ", ".join(_job(job) for job in jobs[:SHOWN_JOBS])
        more = f" and {len(jobs) - SHOWN_JOBS} more" if len(jobs) > SHOWN_JOBS else ""
        lines.append(f"    {node}: {shown}{more}")
    return lines


def _job(job: "RunningJob") -> str:
    from tabbench.running.clock import duration

    progress = f" {job.step}/{job.total}" if job.total else ""
    return f"{job.label}{progress} ({duration(_since(job.since))})"


def _since(then: float) -> float:
    """Seconds; none if the clock of another machine is ahead of ours."""
    return max(0.0, time.time() - then)
