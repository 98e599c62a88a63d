"""How long the jobs of a run take, judged by what it has done so far: the time left, and what a budget still allows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tabbench.contracts.job import Event
from tabbench.experiment.controls import method_of, untrained
from tabbench.experiment.graph import Step
from tabbench.experiment.payloads import EncodePayload, FitPayload, PretrainPayload
from tabbench.running.sizes import TRAINING, rows_of, settings_of, size_of, usual_share
from tabbench.running.tuning import BATCH, STARTUP_TRIALS, Trial

Kin = tuple[str, ...]


class Prior(Protocol):
    """What is known before the run. It is asked often."""

    def __call__(self, step: Step, trial: int | None = None) -> float | None:
        """Seconds that one job of a step may take; of a study, the trial with this number, or any. None if nothing is
        known."""


class IsMeasured(Protocol):
    """Whether what is known comes from the same training on the same table, and with the settings of this trial."""

    def __call__(self, step: Step, trial: int | None = None) -> bool: ...


DOUBT = 30.0
"""Seconds that jobs should have taken for half a correction of the prior."""
TRUST = 2.0
"""The largest factor by which finished jobs may correct the prior."""
OVERTIME = 0.2
"""A job that has gone on for longer than usual is expected to go on for this share of what it has done."""


@dataclass
class Done:
    """Sums over jobs that have ended: a long run asks for their means at every report of every job."""

    n: int = 0
    seconds: float = 0.0
    size: float = 0.0
    share: float = 0.0
    """How much of what they announced they had done by then: a training that stops early announces more epochs."""

    def add(self, seconds: float, size: float, share: float) -> None:
        self.n += 1
        self.seconds += seconds
        self.size += size
        self.share += share


@dataclass
class Begun:
    """A running job."""

    step: Step
    at: float
    trial: Trial | None = None
    """If the step is a study."""
    first: tuple[float, float] | None = None
    """When the first report came, and the share that it told: more than a little if the job resumes."""
    share: float = 0.0
    usual: float = 1.0
    """The share at which it is expected to end, while no job like it has ended."""

    @property
    def number(self) -> int | None:
        """Of the trial."""
        return None if self.trial is None else self.trial.number


@dataclass
class Pending:
    """Jobs of one kin that have not begun."""

    sample: Step
    count: int = 0


class Clock:
    """Estimates times: of running jobs by their pace, of the others by jobs like them that are done."""

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        prior: Prior = lambda step, trial=None: None,
        is_measured: IsMeasured = lambda step, trial=None: True,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        """Start with nothing to do.

        Args:
            now: the time in seconds.
            prior: what is known before.
            is_measured: whether the prior of a step was measured. If it was scaled from another table, the end of its
                job says nothing about other priors.
            is_ready: whether the prior knows what it will know of most of the run. Before that no estimate is given.
        """
        self.now = now
        self.prior = prior
        self.is_measured = is_measured
        self.is_ready = is_ready
        self.slots = 1
        self.pending: dict[Kin, Pending] = {}
        """By what they have in common with others: there are few kinds of them."""
        self.begun: dict[str, Begun] = {}
        """By the key of the job."""
        self.done: dict[Kin, Done] = {}
        self.after: dict[Kin, dict[Kin, None]] = {}
        """What waits for a kin."""
        self._order: list[Kin] = []
        """All that is to be done, in the order in which it will begin."""
        self._studies: dict[str, int] = {}
        """Trials of each study that have not begun."""
        self._waiting: dict[str, Step] = {}
        """Other steps that have not begun."""
        self._took: dict[Kin, tuple[float, float]] = {}
        """Seconds that jobs took, and what the prior had said of them."""

    def begin(self, todo: list[Step], slots: int) -> None:
        """These steps are to be done, in this order as far as each is ready."""
        self.slots = max(1, slots)
        kins = {step.key: kinship(step)[0] for step in todo}
        needs: dict[Kin, dict[Kin, None]] = {}
        for step in todo:
            kin = kins[step.key]
            self.pending.setdefault(kin, Pending(step))
            for need in step.needs:
                if need in kins:
                    self.after.setdefault(kins[need], {})[kin] = None
                    needs.setdefault(kin, {})[kins[need]] = None
            if step.study is not None:
                self.trials_left(step, step.study.n_trials)
            else:
                self._waiting[step.key] = step
                self.pending[kin].count += 1
        starts = {kin: (number, 0) for number, kin in enumerate(self.pending)}
        for kin in self.pending:
            _start_after(kin, needs, starts)
        self._order = sorted(self.pending, key=starts.__getitem__)

    def trials_left(self, study: Step, count: int) -> None:
        """Set how many trials of a study have not begun."""
        before = self._studies.get(study.key, 0)
        self._studies[study.key] = count
        kin = kinship(study)[0]
        if kin not in self.pending:
            self.pending[kin] = Pending(study)
            self._order.append(kin)
        self.pending[kin].count += count - before

    def started(self, key: str, step: Step, trial: Trial | None = None) -> None:
        """A job has begun; ``step`` is its step, or the study that it is a trial of."""
        self._leave(step)
        self.begun[key] = Begun(step, self.now(), trial)

    def progress(self, event: Event) -> None:
        """A job has reported."""
        job = self.begun.get(event.key)
        if job is None or not event.total:
            return
        job.share = event.step / event.total
        settings = settings_of(job.step) if job.trial is None else job.trial.config
        job.usual = usual_share(settings, event.total, TRAINING * rows_of(job.step))
        if job.first is None:
            job.first = (self.now(), job.share)

    def finished(self, key: str, *, counts: bool = True) -> None:
        """A job has ended; unless it was killed or failed, others like it are judged by it."""
        job = self.begun.pop(key, None)
        if job is None or not counts:
            return
        share, seconds = job.share if job.first else 1.0, self.now() - job.at
        kins = kinship(job.step)
        for kin in kins:
            self.done.setdefault(kin, Done()).add(seconds, size_of(job.step), share)
        said = self.prior(job.step, job.number) if self.is_measured(job.step, job.number) else None
        if said:
            for kin in kins:
                before = self._took.get(kin, (0.0, 0.0))
                self._took[kin] = before[0] + seconds, before[1] + said

    def settled(self, step: Step) -> None:
        """A step has ended, or will not be done."""
        if step.study is not None:
            self.trials_left(step, 0)
        self._leave(step)

    def _leave(self, step: Step) -> None:
        if self._waiting.pop(step.key, None) is not None:
            self.pending[kinship(step)[0]].count -= 1

    # Estimates.

    def left(self) -> float | None:
        """Seconds until all is done, or None while too little is known."""
        return self.guess() if self.is_ready() else None

    def guess(self) -> float | None:
        """Seconds until all is done, however little is known, or None while nothing is.

        A step is judged by jobs like it that are done; while there are none, by those that are running.
        """
        running = {key: self._left(job) for key, job in self.begun.items()}
        paces = self._paces(running)
        waiting = {kin: self._guess_all(each, paces) for kin, each in self.pending.items() if each.count}
        nothing_known = not paces and all(seconds is None for seconds in waiting.values()) and not any(running.values())
        if nothing_known and (waiting or running):
            return None
        ends = Counter[Kin]()
        for key, job in self.begun.items():
            kin = kinship(job.step)[0]
            ends[kin] = max(ends[kin], running[key])  # type: ignore[assignment]
        chains: dict[Kin, float] = {}
        latest = max((self._chain(kin, ends, waiting, chains) for kin in ends), default=0.0)
        before = sum(running.values())
        for kin in self._order:
            if kin in waiting:  # it begins when a slot is free of what comes before: a long job may be the last
                latest = max(latest, before / self.slots + self._chain(kin, ends, waiting, chains))
                before += waiting[kin] or 0.0
        return max(before / self.slots, latest)

    def _paces(self, running: Mapping[str, float]) -> dict[Kin, Done]:
        """What running jobs will have taken, by their pace; of those that have reported."""
        paces: dict[Kin, Done] = {}
        for key, job in self.begun.items():
            if job.first is not None:
                for kin in kinship(job.step):
                    paces.setdefault(kin, Done()).add(self.now() - job.at + running[key], size_of(job.step), 1.0)
        return paces

    def _guess_all(self, jobs: Pending, paces: Mapping[Kin, Done]) -> float | None:
        """Seconds of all jobs of a kin that have not begun."""
        typical = self._guess(jobs.sample, paces)
        if typical is None or jobs.sample.study is None:
            return typical and jobs.count * typical
        return self._of_trials(jobs.sample, self._studies.get(jobs.sample.key, 0), jobs.count, typical)

    def _of_trials(self, study: Step, left: int, count: int, typical: float) -> float:
        """Seconds of ``count`` trials: the last ones of a study, and others."""
        assert study.study is not None
        n_trials = study.study.n_trials
        known = [
            self.expected(study, number) or 0.0
            for number in range(n_trials - left, min(n_trials, STARTUP_TRIALS))
            if self.is_measured(study, number)
        ]
        return sum(known) + (count - len(known)) * typical

    def _guess(self, step: Step, paces: Mapping[Kin, Done]) -> float | None:
        kin = kinship(step)
        if not any(level in self.done for level in kin[:2]):
            running = next((paces[level] for level in kin[:2] if level in paces), None)
            if running is not None:
                return self._scaled(running, step)
        known = self.expected(step)
        if known is not None:
            return known
        return next((self._scaled(paces[level], step) for level in kin[2:] if level in paces), None)

    def expected(self, step: Step, trial: int | None = None) -> float | None:
        """Seconds of one job of a step, or of one trial of a study; None if nothing is known.

        Jobs with the same plugins on the same table say most. Trials differ: one that was measured itself is not judged
        by others, and for others the prior counts as one more trial, or as several if several were measured.
        """
        kin = kinship(step)
        prior = self._corrected(step, kin, trial)
        if prior and trial is not None and self.is_measured(step, trial):
            return prior
        for level in kin[:2]:
            if level in self.done:
                done = self.done[level]
                if step.study is None or not prior:
                    return done.seconds / done.n
                weight = BATCH - 1 if self.is_measured(step) else 1
                return (done.seconds + weight * prior) / (done.n + weight)
        if prior:
            return prior
        return next((self._scaled(self.done[level], step) for level in kin[2:] if level in self.done), prior)

    def _corrected(self, step: Step, kin: list[Kin], trial: int | None) -> float | None:
        """The prior, corrected by jobs of which it was wrong: of the same role, then plugin, then pair, then table.

        Each of these is believed the more, the more seconds its jobs had: short ones have other reasons to be wrong.
        """
        prior = self.prior(step, trial)
        if not prior:
            return prior
        factor = 1.0
        for level in reversed(kin):
            took, said = self._took.get(level, (0.0, 0.0))
            factor = (took + DOUBT * factor) / (said + DOUBT)
        return prior * min(max(factor, 1 / TRUST), TRUST)

    def knows(self, step: Step) -> bool:
        """Whether a job with the same plugins on the same table has ended or begun."""
        kin = kinship(step)
        return any(level in self.done for level in kin[:2]) or any(
            kinship(job.step)[1] == kin[1] for job in self.begun.values()
        )

    def needed(self, step: Step) -> float | None:
        """Seconds from the start of a step to the first record that builds on it; None if nothing is known."""
        kin = kinship(step)[0]
        return None if self._whole(kin) is None else min(self._ways(kin).values())

    def _whole(self, kin: Kin) -> float | None:
        """Seconds of one step of a kin, as if nothing else ran; trials run side by side."""
        if kin not in self.pending:  # it came back: what it made was lost
            return None
        sample = self.pending[kin].sample
        seconds = self.expected(sample)
        if seconds is None or sample.study is None:
            return seconds
        n_trials = sample.study.n_trials
        return self._of_trials(sample, n_trials, n_trials, seconds) / min(self.slots, BATCH)

    def _ways(self, kin: Kin) -> dict[Kin, float]:
        """Seconds from the start of a step to each kin of records that builds on it. A record may also need something
        that needs this step, such as a study, so the longest way to it counts."""
        own, after = self._whole(kin) or 0.0, self.after.get(kin, {})
        if self.pending[kin].sample.planned is not None or not after:
            return {kin: own}
        found: dict[Kin, float] = {}
        for each in after:
            for record, seconds in self._ways(each).items():
                found[record] = max(found.get(record, 0.0), own + seconds)
        return found

    def _chain(
        self, kin: Kin, ends: Mapping[Kin, float], waiting: Mapping[Kin, float | None], known: dict[Kin, float]
    ) -> float:
        """Seconds of the longest chain of steps that begins with a kin."""
        if kin not in known:
            own = ends.get(kin, 0.0)
            if kin in waiting:
                trials = min(self.slots, BATCH) if self.pending[kin].sample.study is not None else self.slots
                own = max(own, (waiting[kin] or 0.0) / min(self.pending[kin].count, trials))
            after = (self._chain(each, ends, waiting, known) for each in self.after.get(kin, ()))
            known[kin] = own + max(after, default=0.0)
        return known[kin]

    def _scaled(self, done: Done, step: Step) -> float:
        return done.seconds / done.size * size_of(step)

    def _left(self, job: Begun) -> float:
        """Seconds that a running job still needs."""
        now = self.now()
        running = now - job.at
        end = min(max(self._end(job), (1 + OVERTIME) * job.share, 1e-9), 1.0)
        if job.first is not None and job.share > 0:
            first_at, first_share = job.first
            if job.share > first_share:
                pace = (now - first_at) / (job.share - first_share)
                return max(end - job.share, 0.0) * pace
            if first_share < 0.5 * end:
                return max(end - job.share, 0.0) * running / job.share
        expected = self.expected(job.step, job.number)
        return max((expected or 0.0) - running, 0.0)

    def _end(self, job: Begun) -> float:
        """The share of its announced epochs at which a job is expected to end."""
        if job.trial is not None:  # a small learning rate needs more epochs than others
            return job.usual
        *same_table, any_table = kinship(job.step)[:3]
        for level in same_table:
            if level in self.done:
                return self.done[level].share / self.done[level].n
        if any_table in self.done:  # boosting of more rows needs more rounds, so what other tables show is half of it
            like = self.done[any_table]
            return (like.share / like.n + job.usual) / 2
        return job.usual


def _start_after(kin: Kin, needs: Mapping[Kin, Iterable[Kin]], starts: dict[Kin, tuple[int, int]]) -> tuple[int, int]:
    """When a kin begins, as a place in the order: what it needs comes before it, and what has begun is ended first."""
    place = starts[kin]
    if kin in needs:
        number, depth = max(_start_after(need, needs, starts) for need in needs[kin])
        starts[kin] = place = max(place, (number, depth + 1))
    return place


def kinship(step: Step) -> list[Kin]:
    """What a job has in common with others, closest first; all of one kin have one size.

    The same kind of step with the same plugins and labels on the same data; trials or not; the same plugins on any
    data; the same plugin; the same role.
    """
    role, ssl, model, labels = _about(step)
    data = step.payload.manifest.name
    name = model if role == "fit" else method_of(ssl)
    return [
        (step.kind, role, ssl, model, labels, data),
        (role, ssl, model, labels, data),
        (role, ssl, model),
        (role, name),
        (role,),
    ]


def _about(step: Step) -> tuple[str, str, str, str]:
    """Role, SSL side, model and labels of a job; for a study, of its trials."""
    planned = step.planned or (step.study.planned if step.study is not None else None)
    if planned is not None:
        role = "fit" if planned.model else "pretrain"
        ssl = f"{planned.ssl} {planned.protocol}" if planned.model else planned.ssl
        return role, ssl, planned.model, planned.labels
    payload = step.payload
    if isinstance(payload, FitPayload):
        return "fit", "", payload.model.name, payload.labels.budget if payload.labels else ""
    assert isinstance(payload, PretrainPayload | EncodePayload)
    name = payload.method.name
    if isinstance(payload, EncodePayload):
        return "encode", name, "", ""
    model = payload.model.name if payload.model else ""
    return ("pretrain", name, model, "") if payload.trained else ("initialise", untrained(name), model, "")


def duration(seconds: float) -> str:
    """``75`` as ``1 min 15 s``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
