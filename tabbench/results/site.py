"""Result folders -> a static site: an index, a page per dataset, a page per method with its card.

Every page is self-contained and every link is relative, so that any static host will do. Folders are merged by the
rules of ``results merge``: records that contradict each other or cannot be read are refused, and named on the index.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabbench.errors import TabbenchError, UsageError
from tabbench.experiment.controls import NONE, method_of
from tabbench.registry import Registry
from tabbench.results.escaping import escape_html as escape
from tabbench.results.gains import gains_of
from tabbench.results.merge import Merged, merge_results
from tabbench.results.page import CHARTS, MORE
from tabbench.results.page.document import board_section, chart, document, section
from tabbench.results.page.evidence import environment_section, notes_section, rows_section
from tabbench.results.page.history import learning_curves
from tabbench.results.page.verdict import make_verdict
from tabbench.results.page.views import PageData, dataset_counts, label_worth, make_view
from tabbench.results.record_lines import read_lines
from tabbench.results.row_settings import SharedSettings
from tabbench.results.score_table import ScoreTable
from tabbench.results.selection import Selection, results_among, select_from
from tabbench.results.store import Store
from tabbench.results.tabulate import tabulate_records
from tabbench.results.writing import write_file

MARK = ".tabbench-site"
"""The file that marks a folder as ours, with the names of its pages."""


@dataclass(frozen=True)
class Leaderboard:
    """The pages of a leaderboard, by their path."""

    pages: dict[str, str]
    rows: int
    datasets: int
    refused: list[str]


def make_site(
    folders: Sequence[Path], registry: Registry, *, fidelity: str | None = None, any_budget: bool = False
) -> Leaderboard:
    """The pages of a leaderboard of several result folders."""
    with tempfile.TemporaryDirectory(prefix="tabbench-") as place:
        store = Store(Path(place))
        merged = merge_results(list(dict.fromkeys(folders)), store)
        results = results_among(read_lines(store, MORE))
    selection = select_from(results, fidelity=fidelity, any_budget=any_budget)
    table = tabulate_records(selection, "rank", ci=True)
    methods = sorted({method_of(row.ssl) for row in table.rows} - {NONE})
    links = {
        "data": {name: f"data/{slug(name)}.html" for name in table.datasets},
        "method": {name: f"methods/{slug(name)}.html" for name in methods},
    }
    pages = {"index.html": _index(selection, table, links, registry, merged)}
    for name, path in links["data"].items():
        pages[path] = _dataset_page(name, _part(selection, lambda record, name=name: record["data"] == name))
    for name, path in links["method"].items():
        own = _part(selection, lambda record, name=name: method_of(record["ssl"]) in (name, NONE))
        pages[path] = _method_page(name, own, _card(name, registry, own))
    return Leaderboard(pages, len(table.rows), len(table.datasets), merged.refused)


def write_site(site: Leaderboard, folder: Path) -> None:
    """Write the pages; those of an older site in the same folder are replaced.

    Raises:
        UsageError: the folder holds something else.
    """
    mark = folder / MARK
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"--out {folder} is a {'link' if folder.is_symlink() else 'file'}; give a folder")
    if folder.is_dir() and any(folder.iterdir()) and not mark.is_file():
        raise UsageError(f"--out {folder} holds something else; give a new folder")
    try:
        for place in ("data", "methods"):
            (folder / place).mkdir(parents=True, exist_ok=True)
        old = json.loads(mark.read_text(encoding="utf-8")) if mark.is_file() else []
    except (OSError, ValueError) as error:
        raise UsageError(f"--out {folder}: {error}") from None
    for path, text in site.pages.items():
        write_file(folder / path, text)
    for path in {str(each) for each in old} - set(site.pages):
        if re.fullmatch(r"(data|methods)/[\w.-]+\.html", path):
            (folder / path).unlink(missing_ok=True)
    write_file(mark, json.dumps(sorted(site.pages)))
    write_file(folder / ".nojekyll", "")  # GitHub Pages then serves the files as they are


def slug(name: str) -> str:
    """A file name for any text; names that lose characters get a digest, so that no two are the same."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:80]
    if plain == name and not plain.startswith("."):
        return plain
    return f"{plain.lstrip('.')}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _part(selection: Selection, wanted: Any) -> Selection:
    lines = selection.lines.filter(wanted)
    left_out = [item for item in selection.left_out if "records" not in item]
    return Selection(lines, selection.fidelity, [item for item in left_out if wanted(item)], selection.incomplete)


def _data(selection: Selection, table: ScoreTable, *, is_index: bool) -> PageData:
    """What the script draws: rows over datasets on the index, trainings on the pages below."""
    view = {**make_view(selection, table, compared=is_index), "labelWorth": label_worth(table)} if table.rows else None
    views = [] if view is None else [view]
    found = {"sets": [], "of": 0} if is_index else learning_curves(selection.records)
    return {"views": views, "curves": found, "tuning": {"studies": [], "of": 0}, "inspections": []}


def _charts(names: Sequence[str]) -> str:
    return "".join(chart(name, *CHARTS[name]) for name in names)


def _index(
    selection: Selection,
    table: ScoreTable,
    links: Mapping[str, Mapping[str, str]],
    registry: Registry,
    merged: Merged,
) -> str:
    data = _data(selection, table, is_index=True)
    verdict = make_verdict(table, gains_of(selection))
    cards = "".join(
        f'<li><a href="{escape(path)}"><b>{escape(name)}</b></a><br>{escape(_summary(name, registry))}</li>'
        for name, path in links["method"].items()
    )
    sets = "".join(f'<li><a href="{escape(path)}">{escape(name)}</a></li>' for name, path in links["data"].items())
    sources = "".join(
        f"<li>{escape(folder.name)}: {count} record{'s' * (count != 1)}</li>" for folder, count in merged.added.items()
    )
    refused = "".join(f"<li>{escape(reason)}</li>" for reason in merged.refused[:50])
    problems = f"<p>Refused:</p><ul>{refused}</ul>"
    body = (
        f'<h1>Leaderboard</h1><p class="soft">{escape(verdict.headline)}</p>'
        + section("ranking", "Ranking", _ranking(table, data, links["method"]), RATING)
        + section("table", "All rows", board_section("Main table", table) + notes_section(table.data_notes))
        + _charts(("gains", "difference", "wins", "time"))
        + section("methods", "Methods", f'<ul class="cards">{cards}</ul>')
        + section("datasets", "Datasets", f'<ul class="cards">{sets}</ul>')
        + section("submissions", "Submissions", f"<ul>{sources}</ul>{problems if refused else ''}")
    )
    return document("tabbench leaderboard", body, data, [(name.lower(), name) for name in INDEX])


RANKED = 15
"""Rows of a ranking; the main table has all."""
INDEX = ("Ranking", "Table", "Gains", "Wins", "Time", "Methods", "Datasets", "Submissions")
"""Sections of the index in its navigation bar."""
RATING = (
    "Elo from a Bradley-Terry fit over datasets, with 95 % bootstrap intervals: 400 points more mean odds of 10 to 1 "
    "of being better on a dataset. Improvability: how far the best row's error is below this row's, in percent."
)


def _ranking(table: ScoreTable, data: PageData, pages: Mapping[str, str]) -> str:
    """One table for each group of rows that share their ranks, the best first."""
    if not data["views"]:
        return "<p>No results to show yet.</p>"
    blocks = []
    settings = SharedSettings(table.rows)
    for group in data["views"][0]["statistics"]:
        elo, distance = group["elo"], group["improvability"]
        order = sorted(elo, key=lambda number: -elo[number][0])
        lines = []
        for number in order[:RANKED]:
            row = table.rows[number]
            points, low, high = elo[number]
            interval = "" if low is None else f' <small class="letters between">[{low:.0f}, {high:.0f}]</small>'
            rank = "-" if row.average_rank is None else f"{row.average_rank:.2f} {row.rank_group}"
            far = "-" if distance.get(number) is None else f"{distance[number]:.1f} %"
            page = pages.get(method_of(row.ssl))
            tag = settings.tag(row.variant, row.ssl)
            name = escape(f"{row.ssl} + {row.model}" + (f" [{tag}]" if tag else ""))
            link = f'<a href="{escape(page)}">{name}</a>' if page else name
            cells = f"<td>{points:.0f}{interval}</td><td>{escape(rank)}</td><td>{far}</td>"
            lines.append(f'<tr><th scope="row">{link}</th>{cells}</tr>')
        head = "".join(f'<th scope="col">{name}</th>' for name in ("row", "Elo", "average rank", "improvability"))
        shown = f'<table class="ranking"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
        title = escape(group["group"])
        scroll = f'<div class="wide" tabindex="0" role="region" aria-label="Ranking, {title}">'
        more = len(order) - RANKED
        rest = f'<p class="soft">{more} more rows: see the table below.</p>' if more > 0 else ""
        blocks.append(f"<figure><h3>{title}</h3>{scroll}{shown}</div>{rest}</figure>")
    return f'<div class="charts roomy">{"".join(blocks)}</div>'


def _dataset_page(name: str, selection: Selection) -> str:
    table = tabulate_records(selection, "rank", ci=True)
    counts = data_facts(table, name)
    body = (
        f'<h1>{escape(name)}</h1><ul class="facts">{counts}</ul>'
        + section("table", "All rows", board_section(f"Rows on {name}", table) + notes_section(table.data_notes))
        + _charts(("scores", "gains", "labels", "curves"))
        + section("rows", "How to reproduce each row", rows_section(table, selection.records, []))
    )
    return _page(name, body, selection, table)


def _page(name: str, body: str, selection: Selection, table: ScoreTable) -> str:
    """A page below the index."""
    sections = [(part.lower(), part) for part in ("Table", "Scores", "Gains", "Labels", "Curves", "Rows")]
    data = _data(selection, table, is_index=False)
    return document(f"{name}: tabbench leaderboard", body, data, sections, "../index.html")


def data_facts(table: ScoreTable, name: str) -> str:
    """Rows, features and metric of a dataset, as items of a list."""
    counts = dataset_counts(table, name)
    names = {"train": "training rows", "test": "test rows", "features": "features", "classes": "classes"}
    facts = [f"<li><b>{counts[key]:,}</b> {text}</li>" for key, text in names.items() if counts.get(key)]
    return "".join([*facts, f"<li>scored by <b>{escape(table.units.get(name, ''))}</b></li>"])


def _method_page(name: str, selection: Selection, card: str) -> str:
    table = tabulate_records(selection, "rank", ci=True)
    verdict = make_verdict(table, gains_of(selection))
    own = verdict.sentences[1:] if len(table.rows) > 1 else verdict.sentences  # without the one on the best row
    told = "".join(f"<li>{escape(text)}</li>" for text in [*own, *verdict.more])
    body = (
        f'<h1>{escape(name)}</h1>{card}<ul class="verdict">{told}</ul>'
        + section("table", "All rows", board_section(f"Rows of {name}", table) + notes_section(table.data_notes))
        + _charts(("gains", "scores", "labels", "curves"))
        + section("rows", "How to reproduce each row", rows_section(table, selection.records, []))
        + section("environment", "Machines and versions", environment_section(selection.records))
    )
    return _page(name, body, selection, table)


def _summary(name: str, registry: Registry) -> str:
    try:
        return registry.find("ssl", name).plugin.summary
    except TabbenchError:
        return "not installed where this page was made"


def _card(name: str, registry: Registry, selection: Selection) -> str:
    """What a method is: from its plugin if that is installed, and from its records."""
    lines: list[tuple[str, str]] = []
    try:
        plugin = registry.find("ssl", name).plugin
        paper = ", ".join(filter(None, [plugin.paper, plugin.url]))
        told = {"summary": plugin.summary, "paper": paper, "code": plugin.code}
        lines += [(key, _linked(text)) for key, text in told.items() if text]
    except TabbenchError:
        lines.append(("summary", "not installed where this page was made"))
    versions = {
        f"{origin.get('distribution')} {origin.get('version')} (revision {origin.get('revision')})"
        for record in selection.records
        if method_of(record["ssl"]) == name and (origin := json.loads(record["plugins"] or "{}").get("ssl"))
    }
    lines += [("plugin", escape(text)) for text in sorted(versions)]
    return "<dl>" + "".join(f"<dt>{key}</dt><dd>{text}</dd>" for key, text in lines) + "</dl>"


def _linked(text: str) -> str:
    """Text with its web addresses as links; nothing else becomes a link."""
    safe = escape(text)
    return re.sub(r"https://[\w./~%#?=+-]+", lambda found: f'<a href="{found[0]}" rel="noopener">{found[0]}</a>', safe)
