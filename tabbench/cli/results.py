"""``tabbench results``: join result folders of several people or machines."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tabbench.cli.options import DEFAULT_RESULTS, CommandGroup, ResultsFolder

app = CommandGroup(help="Join result folders.", no_args_is_help=True)


@app.callback()
def results_commands() -> None:
    """Join result folders."""


@app.command("merge")
def merge(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Result folders to take records from.")],
    results: ResultsFolder = DEFAULT_RESULTS,
) -> None:
    """Take over the records of other result folders, each job once; what cannot be believed is refused by name.

    Records of the same job must have the same evidence (the hash of the predictions). Where they differ, neither is
    taken, and what is already in the results stays. Exit codes: 0 all taken, 1 something was refused.
    """
    from tabbench.results.merge import merge_results
    from tabbench.results.store import Store

    merged = merge_results(list(dict.fromkeys(folders)), Store(results))
    for folder, added in merged.added.items():
        print(f"{folder}: {added} new record(s)")
    notes = [f"{merged.same} already there"]
    notes += [f"{merged.failed} of jobs that failed"] if merged.failed else []
    notes += [f"{merged.flagged} flagged, which tables leave out"] if merged.flagged else []
    print(f"{results}: {sum(merged.added.values())} new record(s), {', '.join(notes)}")
    for reason in merged.refused:
        print(f"refused: {reason}", file=sys.stderr)
    sys.exit(1 if merged.refused else 0)
