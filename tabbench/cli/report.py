"""``tabbench report``: a results folder as one self-contained page."""

from pathlib import Path
from typing import Annotated

import typer

from tabbench.cli.options import DEFAULT_RESULTS, TO_START, ResultsFolder
from tabbench.cli.table import (
    AnyBudget,
    DataFilter,
    Fidelity,
    LabelsFilter,
    ModelFilter,
    ProtocolFilter,
    SSLFilter,
    read_filters,
)


def report(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the page.")] = Path("report.html"),
    data: DataFilter = "",
    ssl: SSLFilter = "",
    model: ModelFilter = "",
    protocol: ProtocolFilter = "",
    labels: LabelsFilter = "",
    fidelity: Fidelity = None,
    any_budget: AnyBudget = False,
    results: ResultsFolder = DEFAULT_RESULTS,
) -> None:
    """Write one self-contained HTML page: verdict, table, charts, failures, evidence."""
    from tabbench.results.files import check_results
    from tabbench.results.page import write_report
    from tabbench.results.store import Store

    check_results(results, TO_START)
    where = read_filters(data, ssl, model, protocol, labels)
    made = write_report(Store(results), out, fidelity=fidelity, any_budget=any_budget, where=where)
    print(f"{out}: {len(made.rows)} rows, {len(made.datasets)} dataset(s), {out.stat().st_size / 1e6:.1f} MB")
