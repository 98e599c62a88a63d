"""``tabbench report``: a results folder as one self-contained page."""

import os
import secrets
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
    from tabbench.page import make_page
    from tabbench.report import tabulate
    from tabbench.store import Store

    if not (results / "records").is_dir():
        raise UsageError(f"There are no results in {results}: start with 'tabbench run', or name a folder by --results")
    if not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.parent}")
    store = Store(results)
    made = tabulate(store, "rank", fidelity=fidelity, any_budget=any_budget)
    draft = out.with_name(f".{out.name}-{secrets.token_hex(4)}")
    draft.write_text(make_page(store, made, grid(made), notes(made)), encoding="utf-8")
    os.replace(draft, out)
    print(f"{out}: {len(made.rows)} rows, {len(made.datasets)} dataset(s)")
