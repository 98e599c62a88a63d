"""Records -> one self-contained HTML page: tables, scores, curves of pretraining, and the evidence behind them.

No script, no font and no picture is loaded from elsewhere: the page can be mailed, archived or opened offline.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from tabbench import __version__
from tabbench.controls import NONE, UNTRAINED
from tabbench.errors import UsageError
from tabbench.report import LOWER_IS_BETTER, Cell, Row, Table
from tabbench.store import Store

CURVES = ("loss", "validation_loss", "uniformity", "embedding_variance")
"""Curves of pretraining that are drawn, where a method has them."""
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 320, 170, 46, 22, 10
"""Of a chart, in pixels."""
LINE, LABELS, SCORES = 22, 190, 260
"""Of a plot of scores: height of a row, width of its label, width of the scale."""

STYLE = """
:root { --ink: #1c2430; --soft: #5d6b7c; --rule: #d9dfe6; --paper: #ffffff; --mark: #1f6feb; --raw: #8793a1; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6ebf1; --soft: #9aa7b5; --rule: #313b47; --paper: #14191f; --mark: #6cb0ff; --raw: #7d8a98; }
}
body { margin: 2.5rem auto; max-width: 62rem; padding: 0 1rem; color: var(--ink); background: var(--paper);
       font: 15px/1.5 system-ui, sans-serif; }
h1 { margin: 0; font-size: 1.7rem; } h2 { margin: 2.4rem 0 .6rem; font-size: 1.15rem; }
h3 { margin: 1rem 0 .2rem; font-size: .95rem; font-weight: 600; }
p, li { max-width: 48rem; } .soft, figcaption, .notes { color: var(--soft); font-size: .88rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .3rem .8rem .3rem 0; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th:nth-child(-n+2), td:nth-child(-n+2), .plain th, .plain td { text-align: left; }
td.best { font-weight: 650; } .charts { display: flex; flex-wrap: wrap; gap: 1.2rem; }
figure { margin: 0; } svg text { fill: var(--soft); font: 11px system-ui, sans-serif; }
svg .name { fill: var(--ink); font-size: 12px; } svg .axis { stroke: var(--rule); }
svg .dot { fill: var(--mark); } svg .control { fill: var(--raw); } svg .curve { fill: none; stroke: var(--mark);
  stroke-width: 1.6; } svg .spread { stroke: var(--soft); stroke-width: 1.2; }
pre { overflow-x: auto; font-size: .8rem; } details { margin: .4rem 0; }
"""


def make_page(store: Store, made: Table, grid: tuple[list[str], list[list[str]]], notes: Sequence[str]) -> str:
    """The whole page.

    Args:
        store: where the records are.
        made: the table to show.
        grid: its headers and text cells.
        notes: what must be known to read it.
    """
    shown = {(row.ssl, row.model) for row in made.rows}
    records = [
        record
        for record in store.records()
        if record.get("kind") != "trial"
        and record["status"] == "ok"
        and record["fidelity"] == made.fidelity
        and (record["ssl"], record["model"]) in shown
    ]
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    parts = [
        "<h1>tabbench report</h1>",
        f'<p class="soft">{len(records)} results on {len(made.datasets)} dataset(s); made {now} '
        f"by tabbench {escape(__version__)}</p>",
        section("Table", wide(html_table(*grid)) + html_notes(notes)),
        section("Scores", "".join(scores(made, dataset) for dataset in made.datasets)),
        section("Pretraining", pretraining(records)),
        section("Left out", left_out(made)),
        section("Evidence", evidence(records) + experiments(store)),
    ]
    return document("tabbench report", "".join(parts))


def document(title: str, body: str) -> str:
    """A whole page."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
    return (
        f'<!doctype html>\n<html lang="en"><head><title>{escape(title)}</title>{head}</head>'
        f"<body>{body}</body></html>\n"
    )


def check_place(path: Path) -> None:
    """Refuse a page that could not be written, before any work is done for it."""
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--out {path}: there is no folder {path.parent}")
    if path.is_dir():
        raise UsageError(f"--out {path}: this is a folder; a file is needed")


def write_page(path: Path, text: str) -> None:
    """Write a page all at once: whoever has the old one open never sees half of the new."""
    draft = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)


def section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>" if body else ""


def wide(body: str) -> str:
    """A block that scrolls by itself where the screen is narrow."""
    return f'<div class="wide">{body}</div>'


def html_table(headers: Sequence[str], body: Iterable[Sequence[str]], kind: str = "") -> str:
    lines = ["<tr>" + "".join(f"<th>{escape(header)}</th>" for header in headers) + "</tr>"]
    for line in body:
        cells = (
            f'<td class="best">{escape(text)}</td>' if text.endswith("(1)") else f"<td>{escape(text)}</td>"
            for text in line
        )
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return f'<table class="{kind}">{"".join(lines)}</table>'


def html_notes(notes: Sequence[str]) -> str:
    return '<p class="notes">' + "<br>".join(escape(note) for note in notes) + "</p>"


def scores(made: Table, dataset: str) -> str:
    """One dataset: a dot for each row of the table, the best on top, with its standard deviation."""
    unit = made.units[dataset]
    found = [(row, cell, cell.mean) for row in made.rows if (cell := row.cells[dataset]).mean is not None]
    ordered = sorted(found, key=lambda item: item[2] or 0.0, reverse=unit not in LOWER_IS_BETTER)
    if not ordered:
        return ""
    spreads = [(mean or 0.0, cell.std or 0.0) for _, cell, mean in ordered]
    low, high = min(mean - std for mean, std in spreads), max(mean + std for mean, std in spreads)
    margin = 0.06 * (high - low) or 0.01
    low, high = low - margin, high + margin

    def x(value: float) -> float:
        return LABELS + SCORES * (value - low) / (high - low)

    lines = []
    for number, (row, cell, mean) in enumerate(ordered):
        lines.append(_score_line(row, cell, mean or 0.0, LINE * number + LINE / 2, x))
    height = LINE * len(ordered)
    axis = f'<line class="axis" x1="{LABELS}" y1="0" x2="{LABELS}" y2="{height}"/>'
    width = LABELS + SCORES + 120
    title = f"{dataset} ({unit}, {'lower' if unit in LOWER_IS_BETTER else 'higher'} is better)"
    svg = f'<svg width="{width}" height="{height}" role="img" aria-label="{escape(title)}">{axis}{"".join(lines)}</svg>'
    return f"<h3>{escape(title)}</h3>{wide(svg)}"


def _score_line(row: Row, cell: Cell, mean: float, y: float, x: Any) -> str:
    name = f"{row.ssl} + {row.model}"
    is_control = row.ssl == NONE or row.ssl.startswith(f"{UNTRAINED}:")
    spread = ""
    if cell.std:
        spread = f'<line class="spread" x1="{x(mean - cell.std):.1f}" y1="{y}" x2="{x(mean + cell.std):.1f}" y2="{y}"/>'
    figure = f"{mean:.4g}" + (f" ± {cell.std:.2g}" if cell.std is not None else "")
    return (
        f'<text class="name" x="0" y="{y + 4}">{escape(shorten(name, 28))}<title>{escape(name)}</title></text>{spread}'
        f'<circle class="{"control" if is_control else "dot"}" cx="{x(mean):.1f}" cy="{y}" r="4">'
        f"<title>{escape(f'{name}: {figure}, n = {cell.n}')}</title></circle>"
        f'<text x="{LABELS + SCORES + 8}" y="{y + 4}">{escape(figure)}</text>'
    )


def pretraining(records: Sequence[Mapping[str, Any]]) -> str:
    """Curves over epochs, one set for each encoder."""
    drawn: dict[tuple[str, str, int], str] = {}
    for record in records:
        place = (record["data"], record["ssl"], record["split"])
        diagnostics = record.get("diagnostics", {}).get("ssl", {})
        curves = {name: diagnostics[name] for name in CURVES if _is_curve(diagnostics.get(name))}
        if not curves or place in drawn:
            continue
        charts = "".join(chart(name, values) for name, values in curves.items())
        title = f"{record['ssl']} on {record['data']}, split {record['split']}"
        drawn[place] = f'<h3>{escape(title)}</h3><div class="charts">{charts}</div>'
    return "".join(drawn[place] for place in sorted(drawn))


def _is_curve(value: object) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(isinstance(item, (int, float)) for item in value)


def chart(name: str, values: Sequence[float], epochs: Sequence[int] | None = None) -> str:
    """One curve over epochs; ``epochs`` of the values, if they are not one an epoch."""
    low, high = min(values), max(values)
    span = high - low or 1.0
    at = list(range(1, len(values) + 1)) if epochs is None else epochs

    def point(epoch: int, value: float) -> str:
        x = LEFT + (WIDTH - LEFT - 8) * (epoch - at[0]) / (at[-1] - at[0] or 1)
        y = TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / span)
        return f"{x:.1f},{y:.1f}"

    line = " ".join(point(epoch, value) for epoch, value in zip(at, values, strict=True) if math.isfinite(value))
    floor = HEIGHT - BOTTOM
    axes = (
        f'<line class="axis" x1="{LEFT}" y1="{TOP}" x2="{LEFT}" y2="{floor}"/>'
        f'<line class="axis" x1="{LEFT}" y1="{floor}" x2="{WIDTH - 8}" y2="{floor}"/>'
        f'<text x="{LEFT - 6}" y="{TOP + 8}" text-anchor="end">{high:.3g}</text>'
        f'<text x="{LEFT - 6}" y="{floor}" text-anchor="end">{low:.3g}</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 6}">{at[0]}</text>'
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 6}" text-anchor="end">{at[-1]} epochs</text>'
    )
    label = name.replace("_", " ")
    return (
        f'<figure><svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{escape(label)} over epochs">{axes}'
        f'<polyline class="curve" points="{line}"/></svg><figcaption>{escape(label)}</figcaption></figure>'
    )


def left_out(made: Table) -> str:
    if not made.left_out:
        return "<p>Nothing was left out.</p>"
    lines = []
    for item in made.left_out:
        about = {key: value for key, value in item.items() if key not in ("reason", "key")}
        place = ", ".join(f"{key} {value}" for key, value in about.items())
        lines.append(f"<li>{escape(str(item['reason']))}: {escape(place)}</li>")
    return f"<ul>{''.join(lines)}</ul>"


def evidence(records: Sequence[Mapping[str, Any]]) -> str:
    """What the results stand on: rows, splits and hashes of the data, versions, devices, time."""
    data: dict[str, Mapping[str, Any]] = {record["data"]: record for record in records}
    body = []
    for name, record in sorted(data.items()):
        counts = record["counts"]
        rows = [f"{counts[part]:,}" for part in ("train", "validation", "test")]
        task = record["task"] if not counts["classes"] else f"{counts['classes']} classes"
        body.append([name, task, *rows, f"{counts['features']}", record["hashes"]["data"][:12]])
    headers = ["dataset", "task", "training rows", "validation rows", "test rows", "features", "hash of the data"]
    versions = sorted({f"{k} {v}" for record in records for k, v in record["environment"]["versions"].items()})
    devices = sorted({record["environment"]["device"] for record in records})
    seconds = [sum(record["seconds"].values()) for record in records]
    facts = [
        f"Versions: {', '.join(versions)}." if versions else "",
        f"Devices: {', '.join(devices)}." if devices else "",
        f"Time of a result: median {statistics.median(seconds):.3g} s, at most {max(seconds):.3g} s."
        if seconds
        else "",
    ]
    return wide(html_table(headers, body, "plain")) + html_notes([fact for fact in facts if fact])


def experiments(store: Store) -> str:
    """The experiments that were run here, as they were resolved."""
    blocks = []
    for path in sorted((store.root / "experiments").glob("*.json")):
        text = json.dumps(json.loads(path.read_text(encoding="utf-8")), indent=1)
        blocks.append(f"<details><summary>experiment {escape(path.stem)}</summary><pre>{escape(text)}</pre></details>")
    return "".join(blocks)


def shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
