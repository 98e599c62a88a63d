"""A study while it runs: which trials are stored, which run, which come next."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import filelock

from tabbench.job import Event, Job, Outcome, content_key
from tabbench.plan import Step
from tabbench.registry import Registry
from tabbench.store import Store
from tabbench.tuning import Study, Trial


class OpenStudy:
    """The trials of one study, by jobs and records."""

    def __init__(self, step: Step, registry: Registry, store: Store, lock: filelock.BaseFileLock) -> None:
        assert step.study is not None
        self.step = step
        self.plan = step.study
        self.store = store
        self.lock = lock
        """Held while the study is open: one driver at a time proposes trials."""
        choice = self.plan.choice
        self.study = Study(
            step.key,
            registry.load_config(choice.entry),
            choice.config,
            self.plan.tuned,
            self.plan.n_trials,
            self.plan.sampler,
        )
        self.jobs: dict[str, Job] = {}
        self.trials: dict[str, list[Trial]] = {}
        """By the key of the job: a sampler may propose the same settings twice."""
        self.outcomes: dict[str, Outcome] = {}
        """Of jobs that have ended."""
        self.errors: dict[int, Outcome] = {}
        self.stopped = False
        self._delayed: list[Job] = []
        self._restore()

    def _restore(self) -> None:
        """Take over what is stored, batch by batch; the rest of a batch was under way when its driver ended."""
        for number in range(self.study.n_trials):
            record = self.store.record(self.record_key(number))
            if record is None:
                break
            trial = Trial(number, {})
            self._take_over(trial, record)
            self.study.restore(trial)

    def _take_over(self, trial: Trial, record: dict[str, Any]) -> None:
        trial.config, trial.value, trial.status = record["config"], record["value"], record["status"]
        trial.reports = {int(epoch): value for epoch, value in record["reports"].items()}
        if trial.status not in ("ok", "pruned"):
            outcome = Outcome(record["status"], error=record["error"], traceback=record["traceback"])
            self.errors[trial.number] = outcome

    def record_key(self, number: int) -> str:
        return content_key({"study": self.step.key, "number": number})

    @property
    def finished(self) -> bool:
        return self.study.finished or (self.stopped and all(trial.finished for trial in self.study.trials))

    def stop(self) -> None:
        """Propose nothing any more."""
        self.stopped = True
        self._delayed.clear()

    def next_job(self, busy: Container[str]) -> Job | None:
        """The job of the next trial; None if there is none now. ``busy`` holds the keys of running jobs."""
        if self.stopped:
            return None
        if self._delayed:
            return None if self._delayed[0].key in busy else self._delayed.pop(0)
        if not self.study.may_propose():
            return None
        trial = self.study.propose()
        record = self.store.record(self.record_key(trial.number))
        if record is not None:  # it ended before an earlier one of its batch, and the driver was killed in between
            self._take_over(trial, record)
            return self.next_job(busy)
        job = self.plan.make_job(trial.config)
        twins = self.trials.setdefault(job.key, [])
        twins.append(trial)
        self.jobs[job.key] = job
        if len(twins) > 1 and job.key not in self.outcomes:
            return self.next_job(busy)  # the job is under way: its end will be the end of both
        if job.key in busy:
            self._delayed.append(job)
            return None
        return job

    def put_back(self, job: Job) -> None:
        """Another driver works on the same job: its result is looked for later."""
        self._delayed.append(job)

    def is_stored(self, job: Job) -> bool:
        """Whether the trial needs no run: the same job was made for something else."""
        return job.key in self.outcomes or (job.kind == "pretrain" and self.store.has_artefact("pretrain", job.key))

    def stored_outcome(self, job: Job) -> Outcome:
        """The end of a job that needs no run; what it had reported on its way is judged as if it ran now."""
        from tabbench.runner import read_step

        if job.key in self.outcomes:
            return self.outcomes[job.key]
        about = read_step(self.store.artefact("pretrain", job.key))
        for step, value in about["reports"]:
            self.report(Event(job.key, step, metrics={"probe": value}))
        return Outcome("ok", {"value": about["probe"], "seconds": about["seconds"]})

    def report(self, event: Event) -> bool:
        """Note what a running trial reports; whether it should be given up."""
        trial = self.trials[event.key][0]
        if event.score is None or trial.finished or not self.study.report(trial, event.step, event.score):
            return False
        # Decided here and now: whether the job hears of it before it ends must not change the study.
        trial.status = "pruned"
        return True

    def finish(self, job: Job, outcome: Outcome) -> list[dict[str, Any]]:
        """Enter the end of a job; the records of the trials that it was for."""
        if any(trial.status == "pruned" for trial in self.trials[job.key]):
            outcome = Outcome("pruned")
        elif outcome.status == "ok" and outcome.result.get("value") is None:
            outcome = Outcome("failed", error="it has no finite score on validation")
        self.outcomes[job.key] = outcome
        reports = self.trials[job.key][0].reports
        records = []
        for trial in self.trials[job.key]:
            if trial.finished and trial.status != "pruned":
                continue
            trial.status, trial.value, trial.reports = outcome.status, outcome.result.get("value"), reports
            if trial.status not in ("ok", "pruned"):
                self.errors[trial.number] = outcome
            records.append(self._record(trial, outcome))
        return records

    def _record(self, trial: Trial, outcome: Outcome) -> dict[str, Any]:
        return {
            **self.plan.record,
            "key": self.record_key(trial.number),
            "study": self.step.key,
            "number": trial.number,
            "status": trial.status,
            "value": trial.value,
            "config": trial.config,
            "reports": trial.reports,
            "seconds": outcome.result.get("seconds"),
            "error": outcome.error,
            "traceback": outcome.traceback,
        }

    def progress(self) -> Event:
        done = sum(trial.finished for trial in self.study.trials)
        best = self.study.best
        metrics = {} if best is None or best.value is None else {"best": best.value}
        return Event(self.step.key, done, self.study.n_trials, metrics)

    def outcome(self) -> Outcome:
        """The best settings, and how they were found; or why there are none."""
        best = self.study.best
        if best is None or self.stopped:
            first = self.errors.get(0) or next(iter(self.errors.values()), None)
            error = first.error if first is not None else "the time was used up"
            return Outcome(first.status if first is not None else "cancelled", error=error,
                           traceback=first.traceback if first is not None else "")  # fmt: skip
        self.study.write_journal(self.store.root / "studies" / f"{self.step.key}.journal")
        first_value = self.study.trials[0].value
        return Outcome(
            "ok",
            {
                "config": best.config,
                "job": self.plan.make_job(best.config).key,
                "tuning": {
                    "study": self.step.key,
                    "trials": len(self.study.trials),
                    "pruned": sum(trial.status == "pruned" for trial in self.study.trials),
                    "failed": len(self.errors),
                    "best_trial": best.number,
                    "best_value": best.value,
                    "default_value": first_value,
                },
            },
        )
