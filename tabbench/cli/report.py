"""``tabbench report``: a results folder as one self-contained page."""

from pathlib import Path
from typing import Annotated

import typer

from tabbench.cli.options import DEFAULT_RESULTS, ResultsFolder
from tabbench.errors import UsageError


def report(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the page.")] = Path("report.html"),
    fidelity: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which records to show.", show_default="the highest there is")
    ] = None,
    any_budget: Annotated[
        bool, typer.Option("--any-budget", help="Rank rows together that had different numbers of tuning trials.")
    ] = False,
    results: ResultsFolder = DEFAULT_RESULTS,
) -> None:
    """Write one HTML page, with nothing loaded from elsewhere: table, scores, curves of pretraining, evidence."""
    from tabbench.cli.table import grid, notes
    from tabbench.page import check_place, make_page, write_page
    from tabbench.report import tabulate
    from tabbench.store import Store

    if not (results / "records").is_dir():
        raise UsageError(f"There are no results in {results}: start with 'tabbench run', or name a folder by --results")
    check_place(out)
    store = Store(results)
    made = tabulate(store, "rank", fidelity=fidelity, any_budget=any_budget)
    write_page(out, make_page(store, made, grid(made), notes(made)))
    print(f"{out}: {len(made.rows)} rows, {len(made.datasets)} dataset(s)")
