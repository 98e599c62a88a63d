"""``tabbench replay``: run a stored record again and compare."""

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabbench.cli.options import DEFAULT_RESULTS, PluginFiles, ResultsFolder
from tabbench.errors import UsageError

if TYPE_CHECKING:
    from tabbench.replay import Replay


def replay(
    record: Annotated[str, typer.Argument(help="The first characters of a record's key.")],
    results: ResultsFolder = DEFAULT_RESULTS,
    plugin: PluginFiles = None,
    data: Annotated[
        str | None, typer.Option(metavar="FILE:TARGET", help="Where the data are, if they were a file.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never touch the network.")] = False,
    print_only: Annotated[bool, typer.Option("--print", help="Print the command and leave.")] = False,
) -> None:
    """Print the command of a record, run it again in a fresh folder, and compare score and predictions.

    Exit codes: 0 the same, 1 different, 2 it cannot be run again, which is said in one line.
    """
    from tabbench.cli.show import find_record
    from tabbench.replay import compare, differences, prepare_replay

    stored = find_record(results, record)
    if stored is None:
        raise UsageError(f"there is no record {record!r} in {results}: give the first characters of a key, at least 4")
    prepared = prepare_replay(stored, results, plugin or [], data)
    print(prepared.command, flush=True)
    if print_only:
        return
    again = run_again(prepared, offline)
    lines = compare(stored, again)
    for line in lines:
        word = "same" if line.same else "DIFFERENT"
        print(f"{line.what:<12} stored {line.stored}  again {line.again}  {word}")
    if all(line.same for line in lines):
        return
    for difference in differences(stored, again):
        print(f"  {difference}")
    sys.exit(1)


def run_again(prepared: "Replay", offline: bool) -> dict[str, Any]:
    """The record that a second run makes, with the device and the threads of the first."""
    from tabbench.cli.display import make_display
    from tabbench.cli.run import find_data
    from tabbench.contracts import Executor, Limits
    from tabbench.data.cache import cache_dir
    from tabbench.execution import Execution
    from tabbench.store import Store

    display = make_display(quiet=True, verbose=False)
    plan, last = prepared.plan(*find_data(prepared.spec, prepared.registry, offline, display.say))
    before = prepared.record["environment"]
    limits = Limits(threads=before["threads"], device=before["device"])
    executor_class = prepared.registry.load(prepared.registry.find("executor", "local"))
    with tempfile.TemporaryDirectory(prefix="tabbench-replay-") as folder:
        store = Store(Path(folder))

        def start() -> Executor:
            started: Executor = executor_class(1, limits, store.root / "logs")
            return started

        execution = Execution(plan, prepared.registry, store, display, cache=str(cache_dir().absolute()))
        summary = execution.run(start)
        for step, outcome in summary.failures:
            raise UsageError(f"the job failed this time: {step.job.label}: {outcome.error}")
        store.refresh()
        again = store.record(last.key)
    assert again is not None
    return again
