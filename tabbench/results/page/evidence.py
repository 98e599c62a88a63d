"""The part of a page that needs no script: the evidence for results, how to repeat them, and what went wrong."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tabbench.results.escaping import escape_html as escape
from tabbench.results.files import read_json
from tabbench.results.formats.comparisons import compared_grid
from tabbench.results.formats.layouts import to_html
from tabbench.results.formats.notes import skipped_pairs
from tabbench.results.page.commands import Experiment, repeat_command
from tabbench.results.page.verdict import name_of
from tabbench.results.published import PublishedComparison
from tabbench.results.row_settings import SharedSettings
from tabbench.results.score_table import Row, ScoreTable
from tabbench.results.selection import failure_reason, row_of

TRACEBACK = 4000
"""Characters of a traceback to show, from its end, which says most."""
FAILURES = 100
"""How many kinds of failures to show."""
Records = Sequence[Mapping[str, Any]]


def table_of(headers: Sequence[str], lines: Iterable[Sequence[str]], caption: str = "") -> str:
    """A plain table that scrolls on its own on a narrow screen."""
    head = "".join(f'<th scope="col">{escape(header)}</th>' for header in headers)
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in line) + "</tr>" for line in lines)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    table = f'<table class="plain">{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption or headers[0])}">{table}</div>'


def published_section(compared: Sequence[PublishedComparison]) -> str:
    """Our figures next to published ones, where both have a cell."""
    blocks = []
    for made in compared:
        grid = compared_grid(made, brief=True)
        notes = "<br>".join(map(escape, grid.notes))
        blocks.append(
            f'<h3>{escape(made.reference)}</h3><div class="wide" tabindex="0" role="region" '
            f'aria-label="{escape(made.reference)}">{to_html(replace(grid, notes=[]))}</div>'
            f'<p class="notes small">{notes}</p>'
        )
    return "".join(blocks)


def failures_section(failed: Records, table: ScoreTable) -> str:
    """What was left out: failures with their traceback, flags, and other tables' records."""
    parts = []
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in failed:
        groups.setdefault(_reason(record), []).append(record)
    for reason, hit in list(groups.items())[:FAILURES]:
        places = [_place(record) for record in hit]
        names = ", ".join(places[:6]) + (f" and {len(places) - 6} more" if len(places) > 6 else "")
        trace = next((record["traceback"] for record in hit if record["traceback"]), "") or ""
        count = f"{len(hit)} record{'s' * (len(hit) != 1)}"
        body = f"<p>{escape(names)}</p>" + (f"<pre>{_lines(trace[-TRACEBACK:])}</pre>" if trace else "")
        parts.append(f"<details><summary><b>{escape(reason)}</b> ({count})</summary>{body}</details>")
    if len(groups) > FAILURES:
        parts.append(f"<p>{len(groups) - FAILURES} more kinds of failures are not shown.</p>")
    hidden = [(item["records"], item["reason"]) for item in table.left_out if "records" in item]
    others = [f"{number} record{'s' * (number != 1)}: {reason}" for number, reason in hidden]
    others += [f"skipped: {text}" for text in skipped_pairs(table.left_out)]
    if others:
        parts.append("<ul>" + "".join(f"<li>{escape(text)}</li>" for text in others) + "</ul>")
    return "".join(parts) or "<p>Nothing was left out.</p>"


def _lines(text: str) -> str:
    """Text of several lines, each escaped."""
    return "\n".join(escape(line) for line in text.splitlines())


def _reason(record: Mapping[str, Any]) -> str:
    if record["status"] != "ok":
        return failure_reason(record["status"], record["error"] or "no message")
    return "flagged: " + ", ".join(json.loads(record["flags"] or "[]"))


def _place(record: Mapping[str, Any]) -> str:
    seed = "" if record["seed"] is None else f", seed {record['seed']}"
    return f"{record['ssl']} + {record['model']} on {record['data']}, split {record['split']}{seed}"


def rows_section(table: ScoreTable, records: Records, experiments: Sequence[Experiment]) -> str:
    """For each row: the command that repeats it, its evidence, its settings and its records."""
    by_row: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for record in records:
        by_row.setdefault(row_of(record), []).append(record)
    shown: set[tuple[Any, ...]] = set()
    settings = SharedSettings(table.rows)
    parts = []
    for row in table.rows:
        name = (row.ssl, row.model, row.variant, *row.budget, row.protocol, *row.group[1:])
        if name in shown:  # a raw row is in the group of each protocol
            continue
        shown.add(name)
        parts.append(_row_details(row, by_row.get(name, []), experiments, settings))
    return "".join(parts)


def row_id(row: Row) -> str:
    """The anchor of a row's details; the script makes the same."""
    words = (row.ssl, row.model, row.protocol, row.labels, row.variant, *map(str, row.budget))
    return "row-" + "-".join("".join(c if c.isascii() and c.isalnum() else "_" for c in word) for word in words)


def _row_details(row: Row, records: Records, experiments: Sequence[Experiment], settings: SharedSettings) -> str:
    command = repeat_command(row, records, experiments)
    facts = [("command", f"<code>{escape(command)}</code>")]
    if records:
        first = records[0]
        facts += [
            ("replay a record", f"<code>tabbench replay {escape(first['key'][:12])}</code>"),
            ("plugins", escape(_plugins(first))),
            ("seconds per record", escape(_seconds(records))),
            ("settings", f"<code>{escape(_settings(first))}</code>"),
            ("evidence", _evidence(records)),
        ]
    lines = "".join(f"<dt>{name}</dt><dd>{body}</dd>" for name, body in facts)
    summary = f"<summary>{escape(name_of(row, settings))}</summary>"
    return f'<details class="row" id="{row_id(row)}">{summary}<dl>{lines}</dl></details>'


def _plugins(record: Mapping[str, Any]) -> str:
    origins = json.loads(record["plugins"] or "{}")
    return ", ".join(
        f"{role}: {origin.get('distribution')} {origin.get('version')} (revision {origin.get('revision')})"
        for role, origin in origins.items()
    )


def _seconds(records: Records) -> str:
    totals = [sum(json.loads(record["seconds"] or "{}").values()) for record in records]
    return f"median {statistics.median(totals):.3g}, at most {max(totals):.3g}"


def _settings(record: Mapping[str, Any]) -> str:
    config = json.loads(record["config"] or "{}")
    told = {part: values for part, values in config.items() if values}
    return f"{record['data']}, split {record['split']}: {json.dumps(told)}"


def _evidence(records: Records) -> str:
    """One record for each dataset: its inputs and its result."""
    seen: dict[str, Mapping[str, Any]] = {}
    for record in records:
        seen.setdefault(str(record["data"]), record)
    lines = []
    for name, record in seen.items():
        hashes = json.loads(record["hashes"] or "{}")
        count = sum(1 for each in records if each["data"] == name)
        digests = [str(hashes.get(part) or "-")[:12] for part in ("data", "split", "encoder", "predictions")]
        lines.append([name, str(count), record["key"][:12], *digests])
    return table_of(["dataset", "records", "first record", "data", "split", "encoder", "predictions"], lines)


def data_section(records: Records) -> str:
    """Rows, splits and hashes of each dataset."""
    lines = []
    for name, record in sorted({str(record["data"]): record for record in records}.items()):
        counts, hashes = json.loads(record["counts"] or "{}"), json.loads(record["hashes"] or "{}")
        parts = [f"{counts.get(part, 0):,}" for part in ("train", "validation", "test")]
        task = f"{counts['classes']} classes" if counts.get("classes") else str(record["task"])
        lines.append([name, task, *parts, str(counts.get("features", "")), str(hashes.get("data") or "")[:12]])
    headers = ["dataset", "task", "training rows", "validation rows", "test rows", "features", "hash of the data"]
    return table_of(headers, lines, "Datasets") if lines else ""


def notes_section(notes: Mapping[str, Sequence[str]]) -> str:
    """Notes of the records on their tables and splits."""
    lines = [f"<li><b>{escape(name)}</b>: {escape(note)}</li>" for name, told in notes.items() for note in told[:20]]
    return f"<h3>Notes on the datasets</h3><ul>{''.join(lines)}</ul>" if lines else ""


def environment_section(records: Records) -> str:
    """Machines and versions, each listed once."""
    found: dict[str, int] = {}
    for record in records:
        about = json.loads(record["environment"] or "{}")
        versions = ", ".join(f"{name} {version}" for name, version in sorted(about.get("versions", {}).items()))
        threads = f"{about.get('threads')} thread{'s' * (about.get('threads') != 1)}"
        text = f"Python {about.get('python')} on {about.get('platform')}, device {about.get('device')}, {threads}: "
        text += versions
        found[text] = found.get(text, 0) + 1
    lines = sorted(found.items(), key=lambda item: -item[1])[:50]
    return (
        "<ul>"
        + "".join(f"<li>{escape(text)} ({count} record{'s' * (count != 1)})</li>" for text, count in lines)
        + "</ul>"
    )


def experiments_section(folder: Path) -> str:
    """The resolved experiments that were run here."""
    blocks = []
    for path in sorted(folder.glob("*.json"))[:50]:
        try:
            text = json.dumps(read_json(path), indent=1)
        except (OSError, ValueError):
            text = "this file cannot be read"
        blocks.append(f"<details><summary>experiment {escape(path.stem)}</summary><pre>{_lines(text)}</pre></details>")
    return "".join(blocks)
