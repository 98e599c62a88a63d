"""How long steps take, judged by similar ones that a results folder has records of."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from tabbench.experiment.controls import method_of
from tabbench.experiment.graph import Step
from tabbench.experiment.payloads import Address, EncodePayload, FitPayload, PretrainPayload
from tabbench.results.record_lines import Shared, read_lines
from tabbench.results.store import Store
from tabbench.running.clock import Clock, duration
from tabbench.running.sizes import first_job, rows_of
from tabbench.running.todo import urgency

Place = tuple[str, str]
"""A kind of training, and its plugins."""
SEARCHED = 4.0
"""How much longer than with the default settings trials are taken to be, on average, if only the defaults are known."""


def trained_by(step: Step) -> Address:
    """The plugin that does the work of a step."""
    assert isinstance(step.payload, PretrainPayload | EncodePayload | FitPayload)
    return step.payload.model if isinstance(step.payload, FitPayload) else step.payload.method


def _places(ssl: str, model: str, *, finetune: bool) -> list[Place]:
    """How the training of a pair is known, closest first. An untrained encoder takes as long as a trained one; fine-
    tuning takes the time of both networks."""
    pair = f"{method_of(ssl)} + {model}"
    return [("finetune", pair)] if finetune else [("fit", pair), ("fit", model)]


def _rates(shared: Shared, counts: Mapping[str, int], seconds: Mapping[str, float]) -> Iterator[tuple[Place, float]]:
    """What one record says: seconds per million table cells."""
    beside, cells = counts["validation"] + counts["test"], counts["features"] / 1e6
    for place in _places(shared["ssl"], shared["model"], finetune=shared["protocol"] == "finetune"):
        yield place, seconds["fit"] / ((counts["train"] + beside) * cells)
    if seconds["pretrain"]:
        rows = (counts.get("pretraining") or counts["train"]) + beside
        yield ("pretrain", shared["ssl"]), seconds["pretrain"] / (rows * cells)


class Timings:
    """What similar steps took on this machine, from the records of a results folder."""

    source = "scaled by table size from steps stored here"

    def __init__(self, store: Store, preset: str) -> None:
        """Judge by the records of a preset: others have other settings."""
        self.store = store
        self.preset = preset

    @cached_property
    def seconds(self) -> dict[Place, dict[str, list[float]]]:
        """Seconds per million table cells, by kind and plugins, then by table.

        Read when first asked for, as columns: there may be a million records, and often nothing to run.
        """
        found: dict[Place, dict[str, list[float]]] = {}
        lines = read_lines(self.store, ["preset"])
        lines = lines.filter(lambda shared: shared["kind"] != "trial" and shared["status"] == "ok")
        for shared, where in lines.groups():
            alike = lines.take(where)
            columns = (alike.values(name) for name in ("preset", "counts", "seconds"))
            for preset, counts, seconds in zip(*columns, strict=True):
                if preset in (None, self.preset) and counts is not None and seconds is not None:
                    for place, value in _rates(shared, json.loads(counts), json.loads(seconds)):
                        found.setdefault(place, {}).setdefault(shared["data"], []).append(value)
        return found

    def of_job(self, step: Step, trial: int | None = None, *, closely: bool = False) -> float | None:
        """Seconds that one job of a step may take; None if nothing similar was run.

        Args:
            step: the step; for a study, one of its trials is meant.
            trial: which of them.
            closely: similar is only the same model on what the same method makes of the same table. Others may be off
                by a factor of fifty: a small table of many columns may need no more than a large one of few.
        """
        if step.kind == "encode":
            return 0.0
        payload = first_job(step).payload
        places = [("pretrain", trained_by(first_job(step)).name)]
        planned = step.planned or (step.study.planned if step.study is not None else None)
        if isinstance(payload, FitPayload):
            ssl = planned.ssl if planned else ""
            places = _places(ssl, payload.model.name, finetune=payload.method is not None)[: 1 if closely else None]
        elif isinstance(payload, PretrainPayload) and not payload.trained:
            return 0.0
        known = self._closest(places, payload.manifest.name, closely)
        if not known:
            return None
        seconds = statistics.median(known) * rows_of(step) * payload.manifest.n_features / 1e6
        return seconds * (SEARCHED if step.study is not None else 1.0)

    def _closest(self, places: Iterable[Place], table: str, closely: bool) -> list[float]:
        """What is known of the closest place, on this table if it is known there."""
        for place in places:
            by_table = self.seconds.get(place, {})
            known = by_table.get(table) or ([] if closely else [value for each in by_table.values() for value in each])
            if known:
                return known
        return []

    def describe(self, steps: Iterable[Step], slots: int) -> str:
        todo = sorted(steps, key=urgency)
        clock = Clock(prior=self.of_job)
        clock.begin(todo, slots)
        seconds = clock.left()
        if not todo:
            return "nothing to run"
        if not seconds:
            return (
                "time: unknown, because nothing similar is stored here; --calibrate times a few epochs of each training"
            )
        missing = sum(self.of_job(step) is None for step in todo)
        beside = f", and {missing} step(s) of unknown length" if missing else ""
        return f"time: about {duration(seconds)} with {slots} job(s) at a time, {self.source}{beside}"
