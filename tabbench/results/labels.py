"""What pretraining is worth in labels: how many of them raw features need to reach the same score."""

from __future__ import annotations

import json

from tabbench.experiment.controls import NONE
from tabbench.results.record_lines import ALL_LABELS
from tabbench.results.row_settings import split_settings
from tabbench.results.score_table import LOWER_IS_BETTER, Cell, Row, ScoreTable
from tabbench.results.statistics import LabelEquivalence, label_equivalence
from tabbench.results.tabulate import side_by_side


def label_count(cell: Cell) -> int | None:
    """How many labelled training rows a cell had; None if its records do not say."""
    counts = json.loads(cell.counts) if cell.counts else {}
    return int(counts["train"]) if counts.get("train") else None


def equivalences(made: ScoreTable) -> dict[tuple[int, str], LabelEquivalence]:
    """Label equivalence of each row with pretraining, by its ``id`` and dataset; raw rows need at least two budgets."""
    raw_rows: dict[tuple[str, ...], list[Row]] = {}
    for row in made.rows:
        if row.ssl == NONE:
            raw_rows.setdefault(_curve(row, row.variant), []).append(row)
    found = {}
    for row in made.rows:
        curve = raw_rows.get(_curve(row, split_settings(row.variant, row.model)[1]), [])
        for name, cell in row.cells.items():
            if row.ssl != NONE and cell.found and (value := _equivalence(made, cell, name, curve)) is not None:
                found[id(row), name] = value
    return found


def equivalents(made: ScoreTable) -> dict[tuple[int, str], str]:
    """Label equivalences as short texts."""
    signs = {"about": "≈ ", "at most": "≤ ", "more than": "> "}
    return {
        place: "> all" if str(value) == "more than all" else f"{signs[value.relation]}{value.labels:,.0f}"
        for place, value in equivalences(made).items()
    }


def _curve(row: Row, variant: str) -> tuple[str, ...]:
    """What the rows on one curve over numbers of labels have in common."""
    group = row.group
    return row.model, variant, str(row.budget), group.protocol, group.split_rule, group.main_metric, group.weights


def _equivalence(made: ScoreTable, cell: Cell, name: str, curve: list[Row]) -> LabelEquivalence | None:
    counted: dict[int, Cell] = {}
    whole: list[int] = []
    for row in curve:
        here = row.cells[name]
        count = label_count(here) if here.found else None
        if count is not None:
            counted[count] = here
            whole += [count] if row.labels == ALL_LABELS else []
    if len(counted) < 2:
        return None
    own, *others = side_by_side([cell, *counted.values()])
    raw = dict(zip(counted, others, strict=True))
    total = whole[0] if whole else 10 * max(raw)  # no run had all labels, so their number is unknown here
    return label_equivalence(own, raw, total=total, lower_is_better=made.units[name] in LOWER_IS_BETTER)
