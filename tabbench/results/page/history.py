"""How results were made: the curves of every training, and the history of every search."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tabbench.results.formats.grid import unit_name
from tabbench.results.page.views import PageData, short
from tabbench.results.score_table import LOWER_IS_BETTER

POINTS = 60
"""Most points of a curve on a page; longer curves are thinned."""
CURVE_SETS = 500
"""How many trainings a page shows; at most one split and seed of each row and dataset."""
STUDIES = 300
"""How many searches a page shows."""


def learning_curves(records: Sequence[Mapping[str, Any]]) -> PageData:
    """Curves over epochs: one set for each pretraining, and one for each model, of the first split and seed."""
    found: dict[tuple[str, ...], PageData] = {}
    pretrainings: set[tuple[str, ...]] = set()
    done: set[tuple[str, ...]] = set()
    for record in sorted(records, key=lambda record: (record["split"], record["seed"] or 0)):
        about = (record["data"], record["ssl"], record["protocol"], record["labels"], record["variant"] or "")
        names = {"ssl": about, "model": (*about, record["model"])}
        wanted = [part for part, name in names.items() if (part, *name) not in done]
        diagnostics = json.loads(record["diagnostics"] or "{}") if wanted else {}
        for part in wanted:
            told = diagnostics.get(part)
            curves = _curves(told) if isinstance(told, dict) else {}
            if told is None or not curves:
                continue
            done.add((part, *names[part]))
            if part == "ssl":  # one pretraining serves all protocols and numbers of labels: it is drawn once
                same = (record["data"], record["ssl"], record["variant"] or "", json.dumps(curves))
                if same in pretrainings:
                    continue
                pretrainings.add(same)
            found[part, *names[part]] = {
                "what": "pretraining" if part == "ssl" else "model",
                "data": record["data"],
                "ssl": record["ssl"],
                "model": record["model"] if part == "model" else "",
                "protocol": record["protocol"],
                "labels": record["labels"],
                "variant": record["variant"] or "",
                "split": record["split"],
                "best": told.get("best_epoch"),
                "curves": curves,
            }
    ordered = sorted(found.values(), key=lambda each: (each["data"], each["what"] != "pretraining", each["ssl"]))
    return {"sets": ordered[:CURVE_SETS], "of": len(ordered)}


def _curves(told: Mapping[str, Any]) -> dict[str, list[list[Any]]]:
    """[epochs, values] of each list of numbers; thinned evenly, the last value kept."""
    found = {}
    for name, values in told.items():
        if isinstance(values, list) and len(values) > 1 and all(_is_number(value) for value in values):
            step = max(1, -(-len(values) // POINTS))
            places = sorted({*range(0, len(values), step), len(values) - 1})
            found[name] = [[place + 1 for place in places], [short(values[place], 4) for place in places]]
    return found


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def tuning_history(trials: Sequence[Mapping[str, Any]], records: Sequence[Mapping[str, Any]]) -> PageData:
    """The trials of each study: [number, value, status]; trial 0 has the default settings.

    A search maximises. A value to minimise, such as an error, is stored with a minus sign and shown without it.
    """
    roles: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for record in records:
        tuning = json.loads(record["tuning"]) if record["tuning"] not in (None, "{}") else {}
        for role, summary in tuning.items():
            if isinstance(summary, dict):
                roles.setdefault(str(summary.get("study")), (role, record))
    studies: dict[str, list[Any]] = {}
    for trial in trials:
        if trial["study"] in roles and trial["number"] is not None:
            lower = roles[trial["study"]][1]["metric"] in LOWER_IS_BETTER
            value = trial["value"] if trial["value"] is None or not lower else -trial["value"]
            studies.setdefault(trial["study"], []).append([trial["number"], short(value, 4), trial["status"]])
    found = []
    for study, (role, record) in roles.items():
        if study in studies:
            about = {name: record[name] for name in ("data", "ssl", "model", "split", "protocol", "labels")}
            told = {"unit": unit_name(record["metric"]), "lower": record["metric"] in LOWER_IS_BETTER}
            found.append({**about, **told, "role": role, "trials": sorted(studies[study])})
    found.sort(key=lambda each: (each["data"], each["ssl"], each["model"], each["split"]))
    return {"studies": found[:STUDIES], "of": len(found)}
