"""How long steps take, judged by similar ones that a results folder has records of."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from tabbench.experiment.graph import Step
from tabbench.experiment.payloads import Address, EncodePayload, FitPayload, PretrainPayload
from tabbench.results.store import Store
from tabbench.running.clock import Clock, duration
from tabbench.running.sizes import first_job, rows_of
from tabbench.running.todo import urgency

SEARCHED = 4.0
"""How much longer than with the default settings trials are taken to be, on average, if only the defaults are known."""


def trained_by(step: Step) -> Address:
    """The plugin that does the work of a step."""
    assert isinstance(step.payload, PretrainPayload | EncodePayload | FitPayload)
    return step.payload.model if isinstance(step.payload, FitPayload) else step.payload.method


def _places(ssl: str, model: str, *, finetune: bool) -> list[tuple[str, str]]:
    """How the training of a pair is known, closest first. An untrained encoder takes as long as a trained one; fine-
    tuning takes the time of both networks."""
    pair = f"{ssl.rpartition(':')[2]} + {model}"
    return [("finetune", pair)] if finetune else [("fit", pair), ("fit", model)]


class Timings:
    """What similar steps took on this machine, from the records of a results folder."""

    source = "scaled by table size from steps stored here"

    def __init__(self, store: Store, preset: str) -> None:
        """Read the records of a preset: others have other settings."""
        self.seconds: dict[tuple[str, str], list[float]] = {}
        """Seconds per million table cells, by kind and plugins."""
        for record in store.records():
            counts, seconds = record.counts, record.seconds
            if record.kind == "trial" or record.status != "ok" or counts is None or seconds is None:
                continue
            if record.preset not in (None, preset):
                continue
            cells = counts.features / 1e6
            rows = counts.train + counts.validation + counts.test
            for place in _places(record.ssl, record.model, finetune=record.protocol == "finetune"):
                self._add(*place, seconds["fit"] / (rows * cells))
            if seconds["pretrain"]:
                rows = (counts.pretraining or counts.train) + counts.validation + counts.test
                self._add("pretrain", record.ssl, seconds["pretrain"] / (rows * cells))

    def _add(self, kind: str, plugin: str, value: float) -> None:
        self.seconds.setdefault((kind, plugin), []).append(value)

    def of_job(self, step: Step, trial: int | None = None, *, closely: bool = False) -> float | None:
        """Seconds that one job of a step may take; None if nothing similar was run.

        Args:
            step: the step; for a study, one of its trials is meant.
            trial: which of them.
            closely: similar is only the same model on what the same method makes.
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
        known = next((self.seconds[place] for place in places if place in self.seconds), None)
        if known is None:
            return None
        seconds = statistics.median(known) * rows_of(step) * payload.manifest.n_features / 1e6
        return seconds * (SEARCHED if step.study is not None else 1.0)

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
