"""``tabbench table``: the rank table of a results folder, in five formats."""

import csv
import io
import json
import math
import shutil
import string
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tabbench.cli.options import DEFAULT_RESULTS, ResultsFolder
from tabbench.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from tabbench.comparison import ComparedCell, Comparison
    from tabbench.report import Cell, Missing, Table, Ties
    from tabbench.store import Store

GAP = 2
"""Spaces between two columns of a terminal's table."""
SHORT = 24
"""Longer settings of a row stand below the table."""
NAMED = 4
"""So many rows are named for each reason to leave records out."""
SMALL, LARGE = 1e-6, 1e9
"""Numbers beyond these are written with an exponent."""
FORMATS = ("terminal", "markdown", "latex", "csv", "json")


def table(
    metric: Annotated[
        str, typer.Option(metavar="NAME", help="rank, score, time, accuracy, rmse, auroc, log_loss, ...")
    ] = "rank",
    ties: Annotated[str, typer.Option(metavar="RULE", help="Equal means share the min or the average rank.")] = "min",
    missing: Annotated[
        str, typer.Option(metavar="RULE", help="Rows without a value are ranked last, or skip.")
    ] = "last",
    fidelity: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which records to compare.", show_default="the highest there is")
    ] = None,
    any_budget: Annotated[
        bool, typer.Option("--any-budget", help="Rank rows together that had different numbers of tuning trials.")
    ] = False,
    against: Annotated[
        str | None, typer.Option(metavar="NAME", help="Published results beside ours; see: tabbench list references.")
    ] = None,
    layout: Annotated[
        str, typer.Option("--format", metavar="NAME", help="terminal, markdown, latex, csv or json.")
    ] = "terminal",
    results: ResultsFolder = DEFAULT_RESULTS,
) -> None:
    """Print means with their spread and ranks per dataset. Flagged and failed records are left out, and named."""
    from tabbench.report import tabulate
    from tabbench.store import Store

    for option, given, allowed in (
        ("--format", layout, FORMATS), ("--ties", ties, ("min", "average")), ("--missing", missing, ("last", "skip")),
    ):  # fmt: skip
        if given not in allowed:
            raise UsageError(f"{option} {given!r} is unknown.{did_you_mean(given, allowed)}")
    if against is None and not (results / "records").is_dir():
        raise UsageError(f"There are no results in {results}: start with 'tabbench run', or name a folder by --results")
    rules = cast("Ties", ties), cast("Missing", missing)
    made = tabulate(Store(results), metric, ties=rules[0], missing=rules[1], fidelity=fidelity, any_budget=any_budget)
    if against is None:
        show(made, layout)
        return
    from tabbench.comparison import compare
    from tabbench.registry import make_registry

    show_comparison(compare(made, against, make_registry(), *rules), layout)


def print_table(store: "Store", only: Collection[str], names: Mapping[str, str]) -> None:
    """The table of the given records, for the end of a run; ``names`` as in ``tabulate``."""
    from tabbench.report import tabulate

    made = tabulate(store, "rank", only=only, names=names)
    if made.rows or made.left_out:
        show(made, "terminal")


def show(made: "Table", layout: str) -> None:
    """Print a table in one of the formats."""
    if layout == "json":
        print(json.dumps(made.to_json(), indent=1))
    elif layout == "csv":
        _print_csv(_numbers(made))
        for line in notes(made):  # beside the file, which is for programs
            print(line, file=sys.stderr)
    elif not made.rows and layout == "terminal":
        print("no records to show yet" if not made.left_out else "no record can be shown", file=sys.stderr)
        for line in notes(made):
            print(line)
    else:
        headers, body = grid(made)
        best = [[number >= 2 and text.endswith("(1)") for number, text in enumerate(line)] for line in body]
        _print_grid(headers, body, notes(made), layout, best)


def show_comparison(compared: "Comparison", layout: str) -> None:
    """Print ours beside theirs: ``own / published (difference)`` in each cell."""
    if layout == "json":
        print(json.dumps(compared.to_json(), indent=1))
        return
    if layout == "csv":
        _print_csv(_compared_numbers(compared))
        return
    headers = ["SSL", "model", *compared.datasets, "own rank", "printed rank", "recomputed rank"]
    body: list[list[str]] = []
    caveats: dict[str, int] = {}
    marks = variant_marks(compared.table)
    for row in compared.rows:
        variant = "" if row.own is None else row.own.variant
        line = [f"{row.ssl} [{marks[variant]}]" if variant else row.ssl, row.model]
        for name in compared.datasets:
            cell = row.cells[name]
            mark = ""
            if cell.published is not None and cell.published.caveat:
                mark = f" [{caveats.setdefault(cell.published.caveat, len(caveats) + 1)}]"
            line.append(_compared(cell) + mark)
        own_rank = None if row.own is None else row.own.average_rank
        line += ["" if rank is None else f"{rank:.2f}" for rank in (own_rank, row.published_rank, row.recomputed_rank)]
        body.append(line)
    under = [f"own / published (difference), in the published unit; against {compared.reference}."]
    under += [f"Recomputed ranks: from the printed means, ties {compared.table.convention['ties']}, missing cells "
              f"{compared.table.convention['missing']}."]  # fmt: skip
    under += [f"[{number}] {caveat}" for caveat, number in caveats.items()]
    _print_grid(headers, body, under + notes(compared.table, with_spread=False), layout)


def _compared(cell: "ComparedCell") -> str:
    own = "-" if cell.own_mean is None else f"{cell.own_mean:.3f}"
    if cell.published is None:
        return own if own != "-" else ""
    difference = "" if cell.difference is None else f" ({cell.difference:+.3f})"
    return f"{own} / {cell.published.mean:.3f}{difference}"


def _compared_numbers(compared: "Comparison") -> list[list[Any]]:
    """One line per cell, with full precision and its caveat, for programs that read CSV."""
    names = "ssl model variant dataset own n published published_std difference caveat own_rank published_rank"
    lines: list[list[Any]] = [[*names.split(), "recomputed_rank"]]
    for row in compared.rows:
        own_rank, variant = (None, "") if row.own is None else (row.own.average_rank, row.own.variant)
        for name in compared.datasets:
            cell, theirs = row.cells[name], row.cells[name].published
            published = [None, None] if theirs is None else [theirs.mean, theirs.std]
            caveat = "" if theirs is None else theirs.caveat
            lines.append([row.ssl, row.model, variant, name, cell.own_mean, cell.own["n"], *published, cell.difference,
                          caveat, own_rank, row.published_rank, row.recomputed_rank])  # fmt: skip
    return lines


def _print_csv(lines: list[list[Any]]) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    print(out.getvalue(), end="")


def _print_grid(
    headers: list[str], body: list[list[str]], under: list[str], layout: str, strong: list[list[bool]] | None = None
) -> None:
    """Text cells as a terminal, markdown or latex table, with lines below it."""
    if layout == "terminal":
        _print_rich(headers, body, strong)
    else:
        from tabulate import tabulate as lay_out

        # A bar would end a markdown cell. Figures are text here: 1.00 must not become 1.
        headers, *cells = ([text.replace("|", "/") for text in line] for line in (headers, *body))
        aligned = ["left"] * 2 + ["right"] * (len(headers) - 2)
        style = "github" if layout == "markdown" else "latex_booktabs"
        print(lay_out(cells, headers, tablefmt=style, disable_numparse=True, colalign=aligned if body else None))
        if layout == "markdown":
            print()
    comment = "% " if layout == "latex" else ""
    for line in under:
        print(f"{comment}{line}")


def grid(made: "Table") -> tuple[list[str], list[list[str]]]:
    """Headers and text cells for people."""
    headers = ["SSL", "model", *(f"{name} ({made.units[name]})" for name in made.datasets)]
    ranked = made.metric == "rank"
    if ranked:
        headers.append("average rank")
    several_budgets = len({row.budget for row in made.rows}) > 1
    marks = variant_marks(made)
    body = []
    for row in made.rows:
        mark = f" [{marks[row.variant]}]" if row.variant else ""
        trials = f" ({row.budget[0]} + {row.budget[1]} trials)" if several_budgets else ""
        line = [row.ssl + mark + trials + (" *" if row.uses_labels else ""), row.model]
        line += [_cell(row.cells[name], ranked) for name in made.datasets]
        if ranked:
            line.append("" if row.average_rank is None else f"{row.average_rank:.2f}")
        body.append(line)
    return headers, body


def variant_marks(made: "Table") -> dict[str, str]:
    """How each set of settings is named in the table: short ones by themselves, long ones by a letter."""
    variants = list(dict.fromkeys(row.variant for row in made.rows if row.variant))
    letters = iter(string.ascii_lowercase)
    return {variant: variant if len(variant) <= SHORT else next(letters, variant) for variant in variants}


def _cell(cell: "Cell", ranked: bool) -> str:
    if cell.mean is None:
        return "-"
    size = abs(cell.mean)
    # At least three significant digits: an error of 1.4e-5 is not 0.000.
    if size and not SMALL <= size < LARGE:
        style = ".2e"
    else:
        style = f".{2 if size >= 10 else 3 if size >= 0.1 or not size else 2 - math.floor(math.log10(size))}f"
    text = f"{cell.mean:{style}}"
    if cell.std is not None:
        text += f" ± {cell.std:{style}}"
    return f"{text} ({cell.rank:g})" if ranked and cell.rank is not None else text


def _numbers(made: "Table") -> list[list[Any]]:
    """One line per cell, with full precision, for programs that read CSV."""
    names = "ssl model variant uses_labels dataset metric mean std n rank average_rank"
    lines: list[list[Any]] = [names.split()]
    for row in made.rows:
        for name in made.datasets:
            cell = row.cells[name]
            lines.append([row.ssl, row.model, row.variant, row.uses_labels, name, made.units[name], cell.mean, cell.std,
                          cell.n, cell.rank, row.average_rank])  # fmt: skip
    return lines


def notes(made: "Table", with_spread: bool = True) -> list[str]:
    """What the reader must know, under the table; ``with_spread`` if its cells show spread and ranks."""
    from tabbench.report import describe_budget

    lines = []
    if made.rows:
        counts = sorted({cell.n for row in made.rows for cell in row.cells.values() if cell.n})
        number = "-".join(str(count) for count in (counts[0], counts[-1])) if len(counts) > 1 else str(counts[0])
        records = "1 record a cell" if number == "1" else f"{number} records a cell"
        if with_spread and counts[-1] > 1:
            records += ", mean ± standard deviation over splits and seeds"
        budgets = {row.budget for row in made.rows}
        tuning = describe_budget(budgets.pop()) if len(budgets) == 1 else "different tuning budgets"
        lines.append(f"fidelity {made.fidelity}; {tuning}; {records}.")
    if made.metric == "rank" and with_spread:
        rules = {"last": "missing cells are ranked last", "skip": "missing cells are not ranked"}
        lines.append(
            f"Ranks in parentheses: per dataset on means, ties get the {made.convention['ties']} rank, "
            f"{rules[made.convention['missing']]}."
        )
    lines += [f"[{mark}] {variant}" for variant, mark in variant_marks(made).items() if mark != variant]
    if any(row.uses_labels for row in made.rows):
        lines.append("* uses labels in its first stage: ranked apart from label-free rows.")
    for item in made.left_out:
        if "records" in item:
            lines.append(f"left out: {item['records']} record(s), {item['reason']}")
    return lines + _left_out_by_name(made)


def _left_out_by_name(made: "Table") -> list[str]:
    """A line for each reason, with the rows that it hit."""
    places: dict[str, Counter[str]] = {}
    for item in made.left_out:
        if "records" not in item:
            place = f"{item['ssl']} + {item['model']} on {item['data']}"
            places.setdefault(str(item["reason"]), Counter())[place] += 1
    lines = []
    for reason, hit in sorted(places.items(), key=lambda pair: -pair[1].total()):
        names = ", ".join(list(hit)[:NAMED]) + (f" and {len(hit) - NAMED} more" if len(hit) > NAMED else "")
        lines.append(f"left out: {hit.total()} record(s) of {names}: {reason}")
    return lines


def _print_rich(headers: list[str], body: list[list[str]], strong: list[list[bool]] | None) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    # Nothing is cut: on a narrow terminal the datasets come in blocks, elsewhere a table is as wide as it is.
    titles = [header.replace(" (", "\n(") for header in headers]
    widths = [
        max(len(text) for text in [*title.split("\n"), *(line[j] for line in body)]) + GAP
        for j, title in enumerate(titles)
    ]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for number, block in enumerate(column_blocks(widths, room)):
        rich_table = RichTable(box=None, pad_edge=False, header_style="bold")
        for j in block:
            rich_table.add_column(titles[j], justify="left" if j < 2 else "right", no_wrap=True)
        for i, line in enumerate(body):
            rich_table.add_row(
                *(Text(line[j], style="bold" if strong is not None and strong[i][j] else "") for j in block)
            )
        console = Console(width=1000, highlight=False)
        with console.capture() as capture:
            console.print(rich_table)
        if number:
            print()
        print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def column_blocks(widths: list[int], room: int | None) -> list[list[int]]:
    """Columns that fit side by side; the first two, which name the row, begin every block."""
    named = [0, 1]
    blocks = [[*named]]
    for j in range(2, len(widths)):
        if room is not None and len(blocks[-1]) > 2 and sum(widths[i] for i in [*blocks[-1], j]) > room:
            blocks.append([*named])
        blocks[-1].append(j)
    return blocks
