"""The table of a run while it grows, for a display: mean scores so far, without ranks or verdicts."""

from __future__ import annotations

import statistics

from tabbench.contracts.job import Outcome
from tabbench.experiment.graph import Step

WIDEST = 6
"""Most columns of datasets to show; with more, only the latest are shown."""
LONGEST = 16
"""Most rows to show, the latest."""
NAME = 18
"""Longer names are cut."""


class GrowingTable:
    """Scores as they come in: a row for each method and model, a column for each dataset."""

    def __init__(self) -> None:
        self.scores: dict[str, dict[str, list[float]]] = {}
        self.metrics: dict[str, str] = {}

    def add(self, step: Step, outcome: Outcome) -> None:
        """Take the end of a step; only a step that makes a record has a score."""
        score = outcome.result.get("score") if outcome.status == "ok" else None
        if step.planned is None or score is None:
            return
        planned = step.planned
        words = [f"{planned.ssl} + {planned.model}", planned.protocol if planned.protocol == "finetune" else ""]
        words.append("" if planned.labels == "100%" else f"{planned.labels} labels")
        row = self.scores.setdefault(", ".join(filter(None, words)), {})
        row.setdefault(planned.data, []).append(float(score))
        self.metrics[planned.data] = str(outcome.result["metric"])

    def lines(self) -> list[str]:
        """The table as text; empty before the first score."""
        if not self.scores:
            return []
        datasets = list(self.metrics)[-WIDEST:]
        heads = [cut(f"{name} ({self.metrics[name]})", NAME + 8) for name in datasets]
        widths = [max(len(head), 10) for head in heads]
        rows = dict(list(self.scores.items())[-LONGEST:])
        first = max(len(name) for name in (*rows, "so far"))
        lines = [("so far", heads)]
        lines += [(name, [_cell(cells.get(data, [])) for data in datasets]) for name, cells in rows.items()]
        return [
            name.ljust(first) + "".join(f"  {text:>{width}}" for text, width in zip(texts, widths, strict=True))
            for name, texts in lines
        ]


def _cell(scores: list[float]) -> str:
    if not scores:
        return ""
    count = f" ({len(scores)})" if len(scores) > 1 else ""
    return f"{statistics.fmean(scores):.4g}{count}"


def cut(text: str, width: int) -> str:
    """Cut a text to ``width``, keeping its end, which says more than its beginning."""
    return text if len(text) <= width else "…" + text[-(width - 1) :]
