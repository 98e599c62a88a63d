"""``tabbench table``: ranks, scores or gains from a results folder, in six formats."""

import sys
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tabbench.cli.options import DEFAULT_RESULTS, TO_START, ResultsFolder, split_names
from tabbench.errors import TabbenchError, UsageError, did_you_mean

if TYPE_CHECKING:
    from tabbench.registry import Registry
    from tabbench.results.formats import By, Tabular
    from tabbench.results.selection import Filters
    from tabbench.results.statistics import Missing, Ties
    from tabbench.results.tabulate import Common

FORMATS = ("terminal", "markdown", "latex", "csv", "json", "html")
AXES = ("ssl", "model", "labels", "protocol")

DataFilter = Annotated[str, typer.Option("--data", metavar="NAMES", help="Show only these datasets.")]
SSLFilter = Annotated[str, typer.Option("--ssl", metavar="NAMES", help="Show only these methods.")]
ModelFilter = Annotated[str, typer.Option("--model", metavar="NAMES", help="Show only these models.")]
ProtocolFilter = Annotated[
    str, typer.Option("--protocol", metavar="NAMES", help="Show only these protocols; raw rows always show.")
]
LabelsFilter = Annotated[str, typer.Option("--labels", metavar="NUMBERS", help="Show only these label counts.")]
Fidelity = Annotated[
    str | None,
    typer.Option("--fidelity", metavar="NAME", help="Which records to compare.", show_default="the highest stored"),
]
AnyBudget = Annotated[
    bool, typer.Option("--any-budget", help="Rank rows together even if their numbers of tuning trials differ.")
]


def table(
    metric: Annotated[
        str, typer.Option(metavar="NAME", help="rank, score, gain, time, accuracy, rmse, auroc, log_loss, ece, ...")
    ] = "rank",
    by: Annotated[
        str | None, typer.Option(metavar="AXIS", help="Spread over the columns: ssl, model, labels or protocol.")
    ] = None,
    ci: Annotated[
        bool, typer.Option("--ci", help="Show 95 % intervals, and letters that group indistinguishable rows.")
    ] = False,
    ties: Annotated[str, typer.Option(metavar="RULE", help="Rank of equal means: min or average.")] = "min",
    missing: Annotated[
        str, typer.Option(metavar="RULE", help="Rows without a value: last (ranked last) or skip.")
    ] = "last",
    common: Annotated[
        str,
        typer.Option(metavar="RULE", help="all: compare on splits that all rows have; none: show all, without ranks."),
    ] = "all",
    data: DataFilter = "",
    ssl: SSLFilter = "",
    model: ModelFilter = "",
    protocol: ProtocolFilter = "",
    labels: LabelsFilter = "",
    fidelity: Fidelity = None,
    any_budget: AnyBudget = False,
    against: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Published results to compare with; see: tabbench list references."),
    ] = None,
    layout: Annotated[
        str, typer.Option("--format", metavar="NAME", help="terminal, markdown, latex, csv, json or html.")
    ] = "terminal",
    results: ResultsFolder = DEFAULT_RESULTS,
) -> None:
    """Print means, spreads and ranks per dataset. Flagged and failed records are left out and named."""
    from tabbench.results.files import check_results

    _check_choices(format=layout, ties=ties, missing=missing, common=common, by=by)
    if against is None:
        check_results(results, TO_START)
    elif by is not None:
        raise UsageError("--against cannot be combined with --by")
    where = read_filters(data, ssl, model, protocol, labels)
    from tabbench.results.store import Store

    store = Store(results)
    if metric == "gain":
        from tabbench.results.gains import tabulate_gains

        if against is not None:
            raise UsageError("--metric gain cannot be combined with --against")
        for option, changed in (("ties", ties != "min"), ("missing", missing != "last"), ("common", common != "all")):
            if changed:
                raise UsageError(f"--{option} cannot be combined with --metric gain, which compares pairs of rows")
        gains = tabulate_gains(store, fidelity=fidelity, any_budget=any_budget, where=where)
        show(gains, layout, cast("By | None", by))
        return
    from tabbench.results.tabulate import tabulate

    rules = cast("Ties", ties), cast("Missing", missing)
    made = tabulate(
        store, metric, ties=rules[0], missing=rules[1], common=cast("Common", common), fidelity=fidelity,
        any_budget=any_budget, where=where, ci=ci,
    )  # fmt: skip
    if against is None:
        show(made, layout, cast("By | None", by))
        return
    from tabbench.registry import make_registry
    from tabbench.results.published import compare_with_published

    show(compare_with_published(made, against, make_registry(), *rules).where(where), layout)


def _check_choices(**given: str | None) -> None:
    allowed = {"format": FORMATS, "ties": ("min", "average"), "missing": ("last", "skip"), "common": ("all", "none"),
               "by": AXES}  # fmt: skip
    for option, value in given.items():
        if value is not None and value not in allowed[option]:
            raise UsageError(f"--{option} {value!r} is unknown.{did_you_mean(value, allowed[option])}")


def read_filters(data: str, ssl: str, model: str, protocol: str, labels: str) -> "Filters":
    """The filters given on the command line, with plugin aliases resolved."""
    from tabbench.results.selection import Filters

    given = {"data": data, "ssl": ssl, "model": model, "protocol": protocol, "labels": labels}
    words = {name: tuple(split_names(value)) for name, value in given.items()}
    if any(words[kind] for kind in ("data", "ssl", "model")):
        from tabbench.registry import make_registry

        registry = make_registry()
        for kind in ("data", "ssl", "model"):
            words[kind] = tuple(_plain_name(registry, kind, word) for word in words[kind])
    return Filters(**words)


def _plain_name(registry: "Registry", kind: str, word: str) -> str:
    try:
        return registry.find(kind, word).name
    except TabbenchError:  # a file, a control, or a plugin that is not installed here
        return word


def show(made: "Tabular", layout: str, by: "By | None" = None) -> None:
    """Print a table in one of the formats."""
    from tabbench.results.formats import format_table, make_grid
    from tabbench.results.gains import GainTable

    if not made.rows and layout == "terminal":
        nothing = "no record can be shown" if make_grid(made).notes else "no records to show yet"
        if isinstance(made, GainTable) and made.units:
            nothing = "nothing to compare: every row is raw features, or no control was run"
        print(nothing, file=sys.stderr)
    text = format_table(made, layout, by)
    if text:
        print(text)
    if layout == "csv":  # stdout is for programs, so notes go to stderr
        from tabbench.results.escaping import escape_terminal

        for note in make_grid(made).notes:
            print(escape_terminal(note), file=sys.stderr)
