"""Which methods kept the weights that they started with, so that their rows repeat those of their untrained control."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable

from tabbench.experiment.controls import is_untrained, untrained
from tabbench.results.json_shapes import KeptUntrained
from tabbench.results.score_table import Cell, Row


def kept_untrained(rows: Iterable[Row], shown: Collection[Row] | None = None) -> list[KeptUntrained]:
    """How many encoders of each method are those of its untrained control, by method and dataset.

    Args:
        rows: all rows, controls too.
        shown: the rows to look at; by default all.
    """
    rows = list(rows)
    controls = {_identity(row, row.ssl): row for row in rows if is_untrained(row.ssl)}
    trained: dict[tuple[str, str], list[Cell]] = {}
    starts: dict[tuple[str, str], list[Cell]] = {}
    suspects: set[tuple[str, str]] = set()
    for row in rows if shown is None else shown:
        control = controls.get(_identity(row, untrained(row.ssl)))
        if control is None:
            continue
        for data, cell in row.cells.items():
            start = control.cells[data]
            trained.setdefault((row.ssl, data), []).append(cell)
            starts.setdefault((row.ssl, data), []).append(start)
            # Equal encoders give equal scores, so hashes are read only where a score is the same.
            if cell.found.items() & start.found.items():
                suspects.add((row.ssl, data))
    found: list[KeptUntrained] = []
    for ssl, data in sorted(suspects):
        encoders, before = _encoders(trained[ssl, data]), _encoders(starts[ssl, data])
        if kept := encoders & before:
            found.append({"ssl": ssl, "data": data, "kept": len(kept), "encoders": len(encoders)})
    return found


def _identity(row: Row, ssl: str) -> tuple[object, ...]:
    return ssl, row.model, row.variant, row.budget, row.group


def _encoders(cells: Iterable[Cell]) -> set[str]:
    """Hashes of the encoders behind the results of some cells."""
    texts = {text for cell in cells if cell.lines is not None for text in cell.lines.values("hashes") if text}
    return {encoder for text in texts if (encoder := json.loads(text).get("encoder"))}
