"""Tables in six formats: terminal, markdown, latex, csv, json and html.

The command line, the report and the Python API print with the same functions. One function of
:mod:`tabbench.results.escaping` per format escapes text from outside.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tabbench.results.escaping import escape_csv, json_values
from tabbench.results.formats.axes import AXES, By
from tabbench.results.formats.comparisons import compared_grid, compared_lines, gain_grid, gain_lines
from tabbench.results.formats.grid import Grid
from tabbench.results.formats.layouts import to_html, to_latex, to_markdown, to_terminal
from tabbench.results.formats.scores import score_grid, score_lines
from tabbench.results.gains import GainTable
from tabbench.results.labels import equivalences
from tabbench.results.published import PublishedComparison
from tabbench.results.score_table import ScoreTable

__all__ = ["AXES", "FORMATS", "By", "Grid", "Tabular", "format_table", "make_grid", "table_lines"]

Tabular = ScoreTable | GainTable | PublishedComparison
_LAYOUTS: dict[str, Callable[[Grid], str]] = {
    "terminal": to_terminal,
    "markdown": to_markdown,
    "latex": to_latex,
    "html": to_html,
}
FORMATS = (*_LAYOUTS, "csv", "json")


def format_table(made: Tabular, layout: str, by: By | None = None) -> str:
    """Format a table as text, without a final line break; ``by`` as in ``score_grid``."""
    if layout == "json":
        return json.dumps(json_values(_to_json(made, by)), indent=1, allow_nan=False)
    if layout == "csv":
        return _to_csv(table_lines(made))
    return _LAYOUTS[layout](make_grid(made, by))


def make_grid(made: Tabular, by: By | None = None) -> Grid:
    """A table as text cells for people."""
    if isinstance(made, ScoreTable):
        return score_grid(made, by)
    return gain_grid(made, by) if isinstance(made, GainTable) else compared_grid(made)


def _to_json(made: Tabular, by: By | None) -> Mapping[str, object]:
    if by == "labels" and isinstance(made, ScoreTable):
        table = made.to_json()
        found = equivalences(made)
        for row, told in zip(made.rows, table["rows"], strict=True):
            for name, cell in told["cells"].items():
                equal = found.get((id(row), name))
                cell["label_equivalence"] = None if equal is None else {**vars(equal), "text": str(equal)}
        return {**table, "by": by}
    return made.to_json() if by is None else {**made.to_json(), "by": by}


def table_lines(made: Tabular) -> list[list[Any]]:
    """One line per cell, after a line of column names."""
    if isinstance(made, ScoreTable):
        return score_lines(made)
    return gain_lines(made) if isinstance(made, GainTable) else compared_lines(made)


def _to_csv(lines: Sequence[Sequence[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([escape_csv(value) for value in line] for line in lines)
    return out.getvalue().rstrip("\n")
