"""What studies have decided, and the stand-ins for what they could not decide yet."""

from __future__ import annotations

from typing import Any

from tabbench.contracts import Job
from tabbench.experiment.graph import Step
from tabbench.experiment.payloads import TuningSummary
from tabbench.running.studies import BestTrial, instead_of


class Decisions:
    """Best trials by study, and the jobs of steps that build on them."""

    def __init__(self, **places: str | float) -> None:
        """``places`` are fields of every payload: where results and data are."""
        self.places = places
        self.best: dict[str, BestTrial] = {}
        """The best trial of each finished study."""
        self.stand_ins: dict[str, str] = {}
        """By the key of a planned artefact: the key of its stand-in, made after a study that gave up on a trial."""

    def stand_in(self, step: Step) -> Step:
        """Return the step itself, or a copy with a separate key if a study before it is incomplete.

        So the copy is not mistaken for the planned step once the study is complete. A record keeps its key: it is
        flagged.
        """
        marks = self.marks(step)
        if not marks or step.planned is not None:
            return step
        stand_in = instead_of(step, marks)
        self.stand_ins[step.key] = stand_in.key
        return stand_in

    def marks(self, step: Step) -> list[str]:
        """The stand-ins that a step is based on."""
        best = [self.best[study] for study in step.tuned.values()]
        found = [self.stand_ins[need] for need in step.needs if need in self.stand_ins]
        return [each.key for each in best if each.summary.given_up] + found

    def make_job(self, step: Step, decided_for: Step, **changes: Any) -> Job:
        """The job of a step, with what the studies before it (or before the study it is a trial of) decided."""
        for part in ("features", "encoder"):
            planned = getattr(step.payload, part, None)
            if planned in self.stand_ins:
                changes[part] = self.stand_ins[planned]
        for role, study in decided_for.tuned.items():
            best = self.best[study]
            if role == "encoder":
                # The job carries how its settings were found: the study may be closed when its record is written.
                changes |= {"encoder": best.key, "tuning": {role: best.summary}}
            else:
                changes[role] = getattr(step.payload, role).model_copy(update={"config": best.config})
        return step.to_job(**self.places, **changes)

    def tuning_of(self, step: Step) -> dict[str, TuningSummary]:
        """How the parts of a step were found."""
        return {part: self.best[study].summary for part, study in step.tuned.items() if study in self.best}
