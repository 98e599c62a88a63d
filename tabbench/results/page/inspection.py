"""The page of ``tabbench inspect``, and its place in a results folder."""

from __future__ import annotations

import json
import re
from typing import Any

from tabbench.results.escaping import escape_html as escape
from tabbench.results.json_shapes import InspectionShape
from tabbench.results.page.document import document, section
from tabbench.results.page.evidence import table_of
from tabbench.results.store import Store
from tabbench.results.writing import write_file

NAMES = {"kl": "KL divergence", "rank_me": "effective rank", "token_variance": "variance of tokens",
         "probe": "linear probe"}  # fmt: skip
"""Labels of metrics whose names are not clear."""


def make_inspection_page(one: InspectionShape) -> str:
    """Curves, maps, tokens and features of one inspection, in the shape of ``Inspection.to_json``."""
    metrics = one["metrics"]
    last = len(metrics["epoch"]) - 1
    facts = [f"{NAMES.get(name, name)} {_change(metrics[name], last)}" for name in metrics if name != "epoch"]
    source = f"<li>{escape(one['source'])}</li>" if one.get("source") else ""
    body = (
        f"<h1>{escape(one['ssl'])} on {escape(one['data'])}: how the representation develops</h1>"
        f'<ul class="facts">{"".join(f"<li>{escape(fact)}</li>" for fact in facts)}{source}</ul>'
        + section("over-epochs", "Over epochs", '<div id="inspection"></div>' + _numbers(metrics))
        + _features(one)
    )
    return document(f"tabbench inspect: {one['ssl']} on {one['data']}", body, {"inspection": one})


def _change(values: list[float | None], last: int) -> str:
    first, end = values[0], values[last]
    if first is None or end is None:
        return "-"
    return f"{first:.4g} → {end:.4g}" if last else f"{end:.4g}"


def _numbers(metrics: dict[str, list[Any]]) -> str:
    """The curves as a table, for readers without JavaScript."""
    lines = [
        ["-" if value is None else f"{value:.4g}" for value in line] for line in zip(*metrics.values(), strict=True)
    ]
    table = table_of([NAMES.get(name, name) for name in metrics], lines, "Metrics by epoch")
    return f"<details><summary>The numbers</summary>{table}</details>"


def _features(one: InspectionShape) -> str:
    told = one.get("features")
    if not told:
        return ""
    measures = told["scores"]
    first = next(iter(measures.values()))
    order = sorted(range(len(told["names"])), key=lambda j: -(first[j] or 0.0))
    lines = [[told["names"][j], *(f"{scores[j] or 0.0:.4g}" for scores in measures.values())] for j in order]
    lead = (
        "Scores of each feature by several measures; higher means more important. "
        "The matrix above shows how far they agree."
    )
    return section("features", "Features", table_of(["feature", *measures], lines, "Features"), lead)


def keep_inspection(store: Store, one: InspectionShape) -> None:
    """Store an inspection in a results folder for its report; it replaces an older one of the same pair."""
    name = re.sub(r"[^\w.-]", "_", f"{one['ssl']}-{one['data']}")[:120]
    write_file(store.folder("inspections") / f"{name}.json", json.dumps(one, allow_nan=False))
