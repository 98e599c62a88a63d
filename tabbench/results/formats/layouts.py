"""A grid in each of the formats for people."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable

from tabbench.results.escaping import (
    escape_html,
    escape_latex,
    escape_latex_comment,
    escape_markdown,
    escape_terminal,
)
from tabbench.results.formats.grid import Grid, Text

GAP = 2
"""Spaces between two columns of a terminal's table."""


def to_terminal(grid: Grid) -> str:
    """Align the columns. Nothing is cut: on a narrow terminal the datasets come in blocks."""
    blocks = []
    if grid.lines:
        titles = [[escape_terminal(part) for part in header.split("\n")] for header in grid.headers]
        cells = [[escape_terminal(cell.text) for cell in line] for line in grid.lines]
        widths = [
            max(_width(text) for text in [*title, *(line[j] for line in cells)]) for j, title in enumerate(titles)
        ]
        room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        for block in column_blocks([width + GAP for width in widths], room, grid.names):
            blocks.append(_terminal_block(grid, titles, cells, widths, block))
    notes = grid.all_notes if sys.stdout.isatty() else grid.notes
    return "\n".join(["\n\n".join(blocks)] * bool(blocks) + [escape_terminal(note) for note in notes])


def column_blocks(widths: list[int], room: int | None, names: int = 2) -> list[list[int]]:
    """Group columns into blocks that fit; the first columns, which name the row, start every block."""
    named = list(range(names))
    blocks = [[*named]]
    for j in range(names, len(widths)):
        if room is not None and len(blocks[-1]) > names and sum(widths[i] for i in [*blocks[-1], j]) > room:
            blocks.append([*named])
        blocks[-1].append(j)
    return blocks


def _terminal_block(
    grid: Grid, titles: list[list[str]], cells: list[list[str]], widths: list[int], block: list[int]
) -> str:
    height = max(len(title) for title in titles)
    bold = sys.stdout.isatty()
    lines = []
    for level in range(height):
        parts = []
        for j in block:
            title = [""] * (height - len(titles[j])) + titles[j] if j < grid.names else _top(titles[j], height)
            parts.append(_pad(title[level], widths[j], j < grid.names))
        lines.append(_emphasise((" " * GAP).join(parts).rstrip(), bold))
    for i, line in enumerate(cells):
        if i in grid.rules:
            lines.append("")
        padded = [_pad(line[j], widths[j], j < grid.names) for j in block]
        strong = [bold and grid.lines[i][j].place == "best" for j in block]
        texts = [_emphasise(text, here) for text, here in zip(padded, strong, strict=True)]
        lines.append((" " * GAP).join(texts).rstrip())
    return "\n".join(lines)


def _top(title: list[str], height: int) -> list[str]:
    return title + [""] * (height - len(title)) if len(title) > 1 else [""] * (height - 1) + title


def _emphasise(text: str, wanted: bool) -> str:
    return f"\x1b[1m{text}\x1b[0m" if wanted and text else text


def _pad(text: str, width: int, left: bool) -> str:
    room = " " * (width - _width(text))
    return text + room if left else room + text


def _width(text: str) -> int:
    """Columns that a text takes on a terminal; some letters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def to_markdown(grid: Grid) -> str:
    """A GitHub table, with the notes below it."""
    headers = [escape_markdown(header) for header in grid.headers]
    lines = [[_strong(escape_markdown(cell.text), cell, "**{}**") for cell in line] for line in grid.lines]
    widths = [max(len(line[j]) for line in [headers, *lines]) for j in range(len(headers))]
    rule = [":" + "-" * width + "-" if j < grid.names else "-" * (width + 1) + ":" for j, width in enumerate(widths)]
    text = ["| " + " | ".join(_pad_all(headers, widths, grid.names)) + " |", "|" + "|".join(rule) + "|"]
    text += ["| " + " | ".join(_pad_all(line, widths, grid.names)) + " |" for line in lines]
    return "\n".join([*text, "", *(f"{escape_markdown(note)}  " for note in grid.all_notes)])


def _pad_all(texts: list[str], widths: list[int], names: int) -> list[str]:
    return [
        text.ljust(width) if j < names else text.rjust(width)
        for j, (text, width) in enumerate(zip(texts, widths, strict=True))
    ]


def _strong(text: str, cell: Text, best: str, second: str = "{}") -> str:
    return best.format(text) if cell.place == "best" else second.format(text) if cell.place == "second" else text


def to_latex(grid: Grid) -> str:
    """A tabular with booktabs: the best in bold, the second underlined; notes are comments."""
    columns = "l" * grid.names + "r" * (len(grid.headers) - grid.names)
    lines = [
        "% \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        _latex_line(grid.headers, escape_latex),
        "\\midrule",
    ]
    for number, line in enumerate(grid.lines):
        if number in grid.rules:
            lines.append("\\midrule")
        texts = [_latex_strong(escape_latex(cell.text), cell) for cell in line]
        lines.append(_latex_line(texts, str))
    lines += ["\\bottomrule", "\\end{tabular}"]
    return "\n".join(lines + [f"% {escape_latex_comment(note)}" for note in grid.all_notes])


def _latex_strong(text: str, cell: Text) -> str:
    command = {"best": "\\textbf", "second": "\\underline"}.get(cell.place)
    return f"{command}{{{text}}}" if command else text


def _latex_line(texts: list[str], escape: Callable[[str], str]) -> str:
    # Start with an empty group, or LaTeX takes a cell that begins with a bracket or a star for an argument of \\.
    return "{}" + " & ".join(escape(text) for text in texts) + " \\\\"


def to_html(grid: Grid) -> str:
    """A table element with its notes, for a page or a notebook."""
    left = ' style="text-align: left"'
    head = "".join(
        f'<th scope="col"{left if j < grid.names else ""}>{escape_html(header)}</th>'
        for j, header in enumerate(grid.headers)
    )
    body = []
    for number, line in enumerate(grid.lines):
        cells = "".join(_html_cell(cell, j < grid.names) for j, cell in enumerate(line))
        body.append(f'<tr class="rule">{cells}</tr>' if number in grid.rules else f"<tr>{cells}</tr>")
    table = f'<table class="tabbench"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'
    notes = "<br>".join(escape_html(note) for note in grid.all_notes)
    return table + (f'<p class="notes">{notes}</p>' if notes else "")


def _html_cell(cell: Text, is_name: bool) -> str:
    text = _strong(escape_html(cell.text), cell, "<b>{}</b>", "<u>{}</u>")
    return f'<th scope="row" style="text-align: left">{text}</th>' if is_name else f"<td>{text}</td>"
