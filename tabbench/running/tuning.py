"""Bayesian tuning with Optuna, which is used only here.

A study is a sequence of trials, each a job like any other. What it proposes depends on the study's key, the number of
the trial and the trials of earlier batches, and on nothing else: not on how many jobs run in parallel, which of them
ends first, or a kill in between. So a resumed study proposes what it would have proposed anyway. Finished trials are
records of the store; a study in memory is rebuilt from them.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import statistics
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabbench.config import Choice, Config, Float, Int, Range, Settings
from tabbench.contracts.job import FINAL, content_key
from tabbench.errors import TabbenchError, UsageError
from tabbench.experiment.spec import Sampler

if TYPE_CHECKING:
    import optuna

BATCH = 4
"""Trials proposed together: the number of jobs of a study that can run in parallel."""
STARTUP_TRIALS = 8
"""Trials (the defaults and random ones) before the model of a sampler is used."""
PRUNE_AFTER = 8
"""Trials that are never stopped early."""
WARM_UP = 4
"""Epochs of a trial before it may be given up, at least."""
WARM_UP_SHARE = 0.25
"""A trial may be given up after this share of the usual training. In the first rounds of boosting the largest learning
rate is always ahead, and it is not the best in the end."""
ATTEMPTS = 500
"""How many times a sampler may propose settings that the Config refuses, such as heads that do not divide a width."""


@dataclass
class Trial:
    """One set of settings and its outcome."""

    number: int
    config: Settings
    value: float | None = None
    """Higher is better; None while it runs, or if it failed."""
    status: str = "running"
    reports: dict[int, float] = field(default_factory=dict)
    """Validation scores by epoch."""

    @property
    def finished(self) -> bool:
        return self.status != "running"


class Study:
    """Proposes settings and remembers their scores."""

    def __init__(
        self,
        key: str,
        config_class: type[Config],
        base: Mapping[str, Any],
        tuned: frozenset[str],
        n_trials: int,
        sampler: Sampler = "tpe",
        space: Mapping[str, Range] | None = None,
    ) -> None:
        """Start a study.

        Args:
            key: decides the random numbers.
            config_class: has the search space.
            base: the default settings. They are trial 0, and the values of settings that are not searched.
            tuned: the fields to search.
            n_trials: how many trials there will be.
            sampler: how settings are proposed.
            space: the search space, if it is not the one of the class.
        """
        self.key = key
        self.config_class = config_class
        self.base = dict(base)
        whole = config_class.search_space() if space is None else space
        self.space = {name: range_ for name, range_ in whole.items() if name in tuned}
        # Without a search space there is one trial to make, whatever the budget.
        self.n_trials = n_trials if self.space else 1
        self.sampler: Sampler = sampler
        self.trials: list[Trial] = []

    @property
    def finished(self) -> bool:
        return len(self.trials) >= self.n_trials and all(trial.finished for trial in self.trials)

    @property
    def best(self) -> Trial | None:
        """The finished trial with the highest value; the first on ties."""
        good = [trial for trial in self.trials if trial.status == "ok" and trial.value is not None]
        return max(good, key=lambda trial: (trial.value, -trial.number), default=None)

    @property
    def given_up(self) -> list[int]:
        """Trials that ended because of how they were run (killed, lost): their settings were not judged."""
        return [trial.number for trial in self.trials if trial.finished and trial.status not in FINAL]

    def may_propose(self) -> bool:
        """Whether another trial can be proposed now: a batch waits for the end of the one before."""
        number = len(self.trials)
        if number >= self.n_trials:
            return False
        before = number - number % BATCH
        return all(trial.finished for trial in self.trials[:before])

    def propose(self) -> Trial:
        """The next trial."""
        number = len(self.trials)
        config = self.base if number == 0 else self._sample(number)
        trial = Trial(number, dict(config))
        self.trials.append(trial)
        return trial

    def restore(self, trial: Trial) -> None:
        """Take a finished trial that was stored, in the order of numbers."""
        self.trials.append(trial)

    def report(self, trial: Trial, epoch: int, value: float) -> bool:
        """Note a validation score; returns whether to give the trial up.

        It is given up if its best score so far is below the median of what earlier batches had reached by then, but
        not before a quarter of the median length of their trainings.
        """
        trial.reports[epoch] = value
        earlier = [other for other in self.trials[: trial.number - trial.number % BATCH] if other.reports]
        lengths = [max(other.reports) for other in earlier if other.status == "ok"]
        if trial.status != "running" or not lengths or len(earlier) < PRUNE_AFTER:
            return False
        if epoch < max(WARM_UP, WARM_UP_SHARE * statistics.median(lengths)):
            return False
        reached = []
        for other in earlier:
            scores = [score for step, score in other.reports.items() if step <= epoch]
            if scores:
                reached.append(max(scores))
        return len(reached) >= PRUNE_AFTER and max(trial.reports.values()) < statistics.median(reached)

    def _sample(self, number: int) -> Settings:
        study = self._in_memory(number)
        distributions = {name: distribution_of(range_) for name, range_ in self.space.items()}
        for attempt in range(ATTEMPTS):
            study.sampler = make_sampler(self.sampler, int(content_key([self.key, number, attempt])[:8], 16))
            asked = study.ask(distributions)
            values = {name: from_optuna(self.space[name], value) for name, value in asked.params.items()}
            try:
                return self.config_class.resolve({**self.base, **values}, self.config_class.__name__).to_json()
            except UsageError:  # a combination that makes no sense
                import optuna

                study.tell(asked, state=optuna.trial.TrialState.FAIL)
        raise TabbenchError(
            f"{self.config_class.__name__}: {ATTEMPTS} samples of its search space in a row are invalid"
        )

    def _in_memory(self, number: int) -> optuna.Study:
        """What Optuna may know when it proposes trial ``number``: earlier batches, and proposals of this batch."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)  # Optuna prints lines of its own
        study = optuna.create_study(direction="maximize", sampler=make_sampler("random", 0))
        states = {"ok": optuna.trial.TrialState.COMPLETE, "pruned": optuna.trial.TrialState.PRUNED}
        for trial in self.trials:
            in_batch = trial.number >= number - number % BATCH
            state = optuna.trial.TrialState.RUNNING if in_batch else states.get(trial.status)
            if state is None:
                continue
            known = self._to_optuna(trial, state)
            # gp models only parameters that all trials have: a default outside its range would remove that parameter.
            if self.sampler != "gp" or len(known.params) == len(self.space):
                study.add_trial(known)
        return study

    def _to_optuna(self, trial: Trial, state: optuna.trial.TrialState) -> optuna.trial.FrozenTrial:
        import optuna

        params: dict[str, object] = {}
        distributions: dict[str, optuna.distributions.BaseDistribution] = {}
        for name, range_ in self.space.items():
            distribution, value = distribution_of(range_), to_optuna(range_, trial.config[name])
            if value is not None:
                params[name], distributions[name] = value, distribution
        complete = state == optuna.trial.TrialState.COMPLETE
        return optuna.trial.create_trial(
            state=state,
            value=trial.value if complete else None,
            params=params,
            distributions=distributions,
            intermediate_values=trial.reports if state == optuna.trial.TrialState.PRUNED else {},
            user_attrs={"number": trial.number},
        )

    def write_journal(self, path: Path) -> None:
        """Keep the finished study as an Optuna journal, for Optuna's own tools."""
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        states = {"ok": optuna.trial.TrialState.COMPLETE, "pruned": optuna.trial.TrialState.PRUNED}
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{secrets.token_hex(4)}.journal")
        storage = JournalStorage(JournalFileBackend(str(draft)))
        study = optuna.create_study(study_name=self.key, storage=storage, direction="maximize")
        for trial in self.trials:
            state = states.get(trial.status, optuna.trial.TrialState.FAIL)
            study.add_trial(self._to_optuna(trial, state))
        os.replace(draft, path)


def make_sampler(name: Sampler, seed: int) -> optuna.samplers.BaseSampler:
    """A sampler with its own random numbers."""
    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if name == "random":
            return optuna.samplers.RandomSampler(seed=seed)
        if name == "gp":
            return optuna.samplers.GPSampler(seed=seed, n_startup_trials=STARTUP_TRIALS)
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS, constant_liar=True)


def distribution_of(range_: Range) -> optuna.distributions.BaseDistribution:
    """A search range in Optuna's terms."""
    import optuna

    if isinstance(range_, Float):
        low = _lowest_of_zero(range_) if range_.zero else range_.low
        return optuna.distributions.FloatDistribution(low, range_.high, log=range_.log)
    if isinstance(range_, Int):
        return optuna.distributions.IntDistribution(range_.low, range_.high, step=range_.step, log=range_.log)
    return optuna.distributions.CategoricalDistribution([_plain(value) for value in range_.values])


def to_optuna(range_: Range, value: Any) -> Any:
    """A setting as Optuna's parameter; None if it is outside the range."""
    if isinstance(range_, Choice):
        plain = _plain(value)
        return plain if plain in [_plain(choice) for choice in range_.values] else None
    if isinstance(range_, Float) and range_.zero and value == 0:
        return _middle_of_zero(range_)
    if not isinstance(value, (int, float)) or not range_.low <= value <= range_.high:  # a default may be None
        return None
    on_grid = not isinstance(range_, Int) or (value - range_.low) % range_.step == 0
    return value if on_grid else None


def from_optuna(range_: Range, value: Any) -> Any:
    """A parameter of Optuna as a setting."""
    if isinstance(range_, Choice):
        return next(choice for choice in range_.values if _plain(choice) == value)
    return 0.0 if isinstance(range_, Float) and range_.zero and value < range_.low else value


def _lowest_of_zero(range_: Float) -> float:
    """A range with ``zero`` extends below ``low`` by its own length; all values there mean 0."""
    return range_.low * (range_.low / range_.high) if range_.log else 2 * range_.low - range_.high


def _middle_of_zero(range_: Float) -> float:
    """The value that tells a sampler that 0 was tried."""
    low = _lowest_of_zero(range_)
    return math.sqrt(low * range_.low) if range_.log else (low + range_.low) / 2


def _plain(value: Any) -> Any:
    """A value as Optuna's category: plain values as they are, others as JSON."""
    return value if isinstance(value, (str, int, float, bool)) else json.dumps(value)
