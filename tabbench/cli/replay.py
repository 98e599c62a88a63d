"""``tabbench replay``: run a stored record again and compare the result."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tabbench.cli.options import DEFAULT_RESULTS, PluginFiles, ResultsFolder
from tabbench.errors import UsageError

if TYPE_CHECKING:
    from tabbench.results.record import Record
    from tabbench.results.replay import Replay


def replay(
    record: Annotated[str, typer.Argument(help="First characters of a record's key.")],
    results: ResultsFolder = DEFAULT_RESULTS,
    plugin: PluginFiles = None,
    data: Annotated[
        str | None, typer.Option(metavar="FILE:TARGET", help="The data's current path, if it was a file.")
    ] = None,
    executor: Annotated[str, typer.Option(metavar="NAME", help="See: tabbench list executors.")] = "local",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME.KEY=VALUE", help="A setting of the executor; repeatable."),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not use the network.")] = False,
    print_only: Annotated[bool, typer.Option("--print", help="Print the command and exit.")] = False,
) -> None:
    """Print a record's command, run it again in a fresh folder, and compare score and predictions.

    Exit codes: 0 same, 1 different, 2 cannot be run again (one line says why).
    """
    from tabbench.cli.show import get_record
    from tabbench.results.replay import check_again, differences, prepare_replay

    stored = get_record(results, record)
    prepared = prepare_replay(stored, results, plugin or [], data)
    print(prepared.command, flush=True)
    if print_only:
        return
    again = run_again(prepared, results, executor, settings or [], offline)
    lines = check_again(stored, again)
    for line in lines:
        word = "same" if line.same else "DIFFERENT"
        print(f"{line.what:<12} stored {line.stored}  again {line.again}  {word}")
    if all(line.same for line in lines):
        return
    for difference in differences(stored, again):
        print(f"  {difference}")
    sys.exit(1)


def run_again(prepared: "Replay", results: Path, executor: str, settings: "Sequence[str]", offline: bool) -> "Record":
    """The record of a second run, on the same device with the same threads."""
    from tabbench.experiment.spec import parse_setting
    from tabbench.results.store import Store
    from tabbench.running.display import make_display
    from tabbench.running.driver import run_plan
    from tabbench.running.launch import make_launcher

    display = make_display(quiet=True, verbose=False)
    spec, before = prepared.spec, prepared.record.environment
    plan, last = prepared.plan(*prepared.find_data(offline, display.say))
    assert before is not None
    registry = prepared.registry
    entry = registry.find("executor", executor)
    given = [parse_setting(text) for text in settings]
    for name, key, _ in given:
        if name.lower() != entry.name:
            raise UsageError(f"--set {name}.{key}: only settings of the executor {entry.name!r} can be set here")
    own = {key: value for _, key, value in given}
    launcher = make_launcher(registry, entry.name, settings=own, jobs=1, threads=spec.threads, device=before.device)
    # Cluster nodes see the results folder but not our temporary one.
    place = results if launcher.start.patience else None
    with tempfile.TemporaryDirectory(prefix=".replay-", dir=place) as folder:
        store = Store(Path(folder))
        summary = run_plan(plan, store, launcher, display)
        if summary.interrupted:
            raise KeyboardInterrupt
        for step, outcome in summary.failures:
            raise UsageError(f"the job failed this time: {step.label}: {outcome.error}")
        store.refresh()
        again = store.record(last.key)
    assert again is not None
    return again
