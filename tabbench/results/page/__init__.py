"""Records -> one self-contained HTML page: the verdict, tables and charts, and the evidence behind them.

No script, font or picture is loaded from elsewhere: the page can be mailed, archived or opened offline. Verdict, main
table, failures and evidence are plain HTML; our own script draws sorting, filters and charts. A chart library would add
a megabyte or three, its own styles, and code that nobody here can vouch for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tabbench.results.escaping import escape_html as escape
from tabbench.results.files import read_json
from tabbench.results.gains import gains_of
from tabbench.results.json_shapes import InspectionShape, RecordLine
from tabbench.results.page import evidence
from tabbench.results.page.commands import experiments_of
from tabbench.results.page.document import board_section, chart, document, section
from tabbench.results.page.history import learning_curves, tuning_history
from tabbench.results.page.verdict import make_verdict
from tabbench.results.page.views import is_control, label_worth, make_view
from tabbench.results.record_lines import RecordLines, read_lines
from tabbench.results.score_table import ScoreTable
from tabbench.results.selection import Filters, Selection, fidelity_order, results_among, select_from
from tabbench.results.tabulate import tabulate_records
from tabbench.results.writing import check_place, write_file

if TYPE_CHECKING:
    from tabbench.registry import Registry
    from tabbench.results.published import PublishedComparison
    from tabbench.results.store import Store

MORE = ["preset", "rows_limit", "threads", "probe", "task", "config", "plugins", "environment",
        "diagnostics", "traceback", "study", "number", "value"]  # fmt: skip
"""Columns that a page needs in addition to those of a table."""
CHARTS = {
    "scores": ("Scores", "Means with 95 % intervals over splits, cut at the ends of the metric's range. A row without "
               "a whisker has one split."),
    "gains": ("What self-supervision adds", "Differences from raw features, and from the same encoder without "
              "training, paired by split."),
    "labels": ("Few labels", "Scores by number of labels. Whiskers: 95 % intervals over splits, cut at the frame."),
    "difference": ("Which rows differ", "Average ranks, ratings and distances to the best row over datasets; with ten "
                   "datasets or more, a test."),
    "wins": ("Who beats whom", ""),
    "time": ("Score against time", ""),
    "curves": ("Learning curves", ""),
    "tuning": ("Tuning", ""),
    "inspections": ("Representations", "From tabbench inspect, as stored in this folder."),
}  # fmt: skip
NAMES = {"difference": "Ranks", "gains": "Gains", "labels": "Labels", "wins": "Wins", "time": "Time",
         "curves": "Curves", "inspections": "Representations"}  # fmt: skip


def write_report(
    store: Store,
    path: Path,
    *,
    fidelity: str | None = None,
    any_budget: bool = False,
    where: Filters | None = None,
    only: Collection[str] | None = None,
) -> ScoreTable:
    """Write the page of a results folder, with published results next to ours; returns the table shown first."""
    from tabbench.registry import make_registry

    check_place(path)
    page, table = make_page(
        store, fidelity=fidelity, any_budget=any_budget, where=where, only=only, registry=make_registry()
    )  # fmt: skip
    write_file(path, page)
    return table


def make_page(
    store: Store,
    *,
    fidelity: str | None = None,
    any_budget: bool = False,
    where: Filters | None = None,
    only: Collection[str] | None = None,
    registry: Registry | None = None,
) -> tuple[str, ScoreTable]:
    """Make the whole page of a results folder, and return it with the table shown first.

    Args:
        store: where the records are.
        fidelity: which records to show first; by default the highest fidelity stored.
        any_budget: compare rows with different numbers of tuning trials.
        where: which records to show, by name.
        only: keys of the results to show; all by default.
        registry: where to find published results; without it there are none.
    """
    lines = read_lines(store, MORE)
    results = results_among(lines, only)
    trials = lines.filter(lambda shared: shared["kind"] == "trial").to_dicts()
    first = select_from(
        results, fidelity=fidelity, any_budget=any_budget, where=where, skipped=store.skipped()
    )  # fmt: skip
    names = sorted({shared["fidelity"] for shared in results.shared_here()}, key=fidelity_order)
    selections = [first]
    for name in names:
        if name != first.fidelity and fidelity is None:
            selections.append(_select(results, name, any_budget, where))
    tables = [tabulate_records(selection, "rank", ci=True) for selection in selections]
    views = [
        {**make_view(selection, table), "labelWorth": label_worth(table)}
        for selection, table in zip(selections, tables, strict=True)
        if table.rows
    ]
    shown = [record for selection in selections for record in selection.records]
    data = {
        "views": views,
        "curves": learning_curves(first.records),
        "tuning": tuning_history(trials, first.records),
        "inspections": stored_inspections(store),
    }
    published = _published(tables[0], registry)
    body = _body(store, first, tables[0], shown, _failed(results, selections), published)
    sections = [("table", "Table"), *((name, NAMES.get(name, title)) for name, (title, _) in CHARTS.items())]
    sections += [("published", "Published")] * bool(published)
    sections += [("left-out", "Left out"), ("rows", "Rows"), ("evidence", "Evidence")]
    return document("tabbench report", body, data, sections), tables[0]


def _select(results: RecordLines, fidelity: str, any_budget: bool, where: Filters | None) -> Selection:
    kept = results if where is None else results.filter(where.matched(results.shared_here()).keep)
    there = any(shared["fidelity"] == fidelity for shared in kept.shared_here())
    if not there:
        return Selection(kept.filter(lambda shared: False), fidelity, [])
    return select_from(kept, fidelity=fidelity, any_budget=any_budget)


def _failed(results: RecordLines, selections: Sequence[Selection]) -> list[RecordLine]:
    keys = {item["key"] for selection in selections for item in selection.left_out if "key" in item}
    return results_among(results, keys).to_dicts()


def _published(table: ScoreTable, registry: Registry | None) -> list[PublishedComparison]:
    """Our results next to each reference that shares cells with them; leaves out rows and datasets without both."""
    if registry is None or not table.rows:
        return []
    from tabbench.results.published import compare_with_published

    found = []
    for name in registry.names("reference"):
        made = compare_with_published(table, name, registry)
        rows = [row for row in made.rows if any(c.published and c.own_mean is not None for c in row.cells.values())]
        if rows:
            both = [
                each
                for each in made.datasets
                if any(row.cells[each].published and row.cells[each].own_mean is not None for row in rows)
            ]
            found.append(made.only(rows, both))
    return found


def _body(
    store: Store,
    selection: Selection,
    table: ScoreTable,
    shown: list[RecordLine],
    failed: list[RecordLine],
    published: list[PublishedComparison],
) -> str:
    verdict = make_verdict(table, gains_of(selection))
    sentences = _list(verdict.sentences, "verdict")
    others = "More: other methods, protocols and numbers of labels"
    more = f"<details><summary>{others}</summary>{_list(verdict.more, 'verdict')}</details>"
    limits = " ".join(verdict.limits)
    parts = [
        f"<h1>{escape(verdict.headline)}</h1>{_facts(table, shown)}",
        sentences + (more if verdict.more else ""),
        f'<p class="soft limits">{escape(limits)}</p>' if limits else "",
        section("table", "All rows", board_section("Main table", table)) if table.rows else "",
        *(chart(name, title, lead) for name, (title, lead) in CHARTS.items()),
    ]
    if published:
        lead = "Own / published (difference), in the published unit. Numbered footnotes explain doubtful figures."
        parts.append(
            section("published", "Compared with published results", evidence.published_section(published), lead)
        )
    parts += [
        section(
            "left-out",
            "Left out: failures, flags and records of other tables",
            evidence.failures_section(failed, table),
        ),
        _rows(store, selection, table) if table.rows else "",
        section("evidence", "Evidence", _evidence(store, table, shown)),
    ]
    return "".join(parts)


def _rows(store: Store, selection: Selection, table: ScoreTable) -> str:
    rows = evidence.rows_section(table, selection.records, experiments_of(store.root))
    return section("rows", "How to reproduce each row", rows, "Click a row of the table to open its entry here.")


def _list(texts: Sequence[str], kind: str) -> str:
    return f'<ul class="{kind}">{"".join(f"<li>{escape(text)}</li>" for text in texts if text)}</ul>' if texts else ""


def _facts(table: ScoreTable, shown: list[RecordLine]) -> str:
    methods = {row.ssl for row in table.rows if not is_control(row.ssl)}
    splits = {record["split"] for record in shown}
    facts = [
        (f"{len(shown):,}", "results"), (f"{len(table.datasets)}", "datasets"), (f"{len(methods)}", "methods"),
        (f"{len({row.model for row in table.rows})}", "models"), (f"{len(splits)}", "splits"),
        (str(table.fidelity), "fidelity"),
    ]  # fmt: skip
    items = "".join(
        f"<li><b>{escape(number)}</b> {name.removesuffix('s') if number == '1' else name}</li>"
        for number, name in facts
    )
    return f'<ul class="facts">{items}</ul>' if shown else ""


def _evidence(store: Store, table: ScoreTable, shown: list[RecordLine]) -> str:
    return (
        evidence.data_section(shown)
        + evidence.notes_section(table.data_notes)
        + (f"<h3>Machines and versions</h3>{evidence.environment_section(shown)}" if shown else "")
        + "<h3>Resolved experiments</h3>"
        + evidence.experiments_section(store.root / "experiments")
    )


def stored_inspections(store: Store) -> list[InspectionShape]:
    """The inspections that ``tabbench inspect`` stored in the folder; skips other files."""
    found: list[InspectionShape] = []
    for path in sorted((store.root / "inspections").glob("*.json"))[:20]:
        try:
            one = read_json(path)
        except (OSError, ValueError):
            continue
        if isinstance(one, dict) and {"ssl", "data", "metrics"} <= set(one):
            found.append(cast("InspectionShape", one))
    return found
