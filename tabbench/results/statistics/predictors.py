"""Which label-free score of an encoder predicts its downstream performance? Works on values, without I/O."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tabbench.results.statistics.scores import Floats

FEWEST = 3
"""Fewest comparable encoders whose order says anything."""
SHUFFLES = 1000


@dataclass(frozen=True)
class Judged:
    """An encoder, its label-free scores, and how one reader performs on it."""

    dataset: str
    split: Hashable
    """Encoders are compared within a dataset and split."""
    reader: Hashable
    """What is trained on the encoder: a model with its protocol and labels, or the probe."""
    encoder: Hashable
    family: str
    """The method. Some scores can be compared only within one method."""
    scores: Mapping[str, float | None]
    quality: float
    """Higher is better."""


@dataclass(frozen=True)
class RatedScore:
    """How well the order of encoders by one score agrees with their order by downstream performance."""

    score: str
    tau: float
    """Kendall's tau, averaged over readers and splits of a dataset, then over datasets."""
    low: float
    high: float
    """The middle 95 % of the same average with the scores shuffled among encoders."""
    p_value: float
    """Share of shuffles that are at least as far from zero."""
    by_dataset: dict[str, float]
    encoders: int
    """Encoders that took part, each counted once per dataset and split."""

    def without(self, dataset: str) -> float | None:
        """The average over the other datasets; None if there is none."""
        others = [tau for name, tau in self.by_dataset.items() if name != dataset]
        return math.fsum(others) / len(others) if others else None


@dataclass(frozen=True)
class HeldOut:
    """A table whose best predictor was chosen on the other tables."""

    dataset: str
    score: str
    sign: int
    """1: more is better; -1: less is better."""
    elsewhere: float
    """Tau on the other tables, times the sign."""
    here: float
    """Tau on this table, times the sign: the honest figure."""


def rate_predictors(
    judged: Sequence[Judged],
    within_family: Collection[str] = (),
    *,
    shuffles: int = SHUFFLES,
    seed: int = 0,
) -> list[RatedScore]:
    """Rate each score; the one that agrees most, in either direction, comes first.

    Args:
        judged: encoders with their scores.
        within_family: scores that can be compared only within one method.
        shuffles: how often scores are shuffled among the encoders of a split. All readers of an encoder see the same
            shuffle, since their results depend on each other.
        seed: of the shuffles.
    """
    names = dict.fromkeys(name for each in judged for name in each.scores)
    found = [_rate(name, judged, name in within_family, shuffles, seed) for name in names]
    return sorted((each for each in found if each is not None), key=lambda each: -abs(each.tau))


def hold_out(predictors: Sequence[RatedScore]) -> list[HeldOut]:
    """For each table, the score that agrees most on the other tables, and how well it does here."""
    held = []
    for dataset in dict.fromkeys(name for each in predictors for name in each.by_dataset):
        elsewhere = [(tau, each) for each in predictors if (tau := each.without(dataset)) is not None]
        candidates = [(tau, each) for tau, each in elsewhere if dataset in each.by_dataset]
        if candidates:
            tau, best = max(candidates, key=lambda pair: abs(pair[0]))
            sign = 1 if tau >= 0 else -1
            held.append(HeldOut(dataset, best.score, sign, sign * tau, sign * best.by_dataset[dataset]))
    return held


def _rate(name: str, judged: Iterable[Judged], within_family: bool, shuffles: int, seed: int) -> RatedScore | None:
    groups: dict[tuple[str, Hashable], list[Judged]] = {}
    for each in judged:
        value = each.scores.get(name)
        if value is not None and math.isfinite(value) and math.isfinite(each.quality):
            family = each.family if within_family else ""
            groups.setdefault((each.dataset, (each.split, family)), []).append(each)
    taus: dict[str, list[Floats]] = {}
    encoders = 0
    for number, ((dataset, _), members) in enumerate(groups.items()):
        order = list(dict.fromkeys(each.encoder for each in members))
        place = {encoder: index for index, encoder in enumerate(order)}
        values = np.zeros(len(order))
        for each in members:
            values[place[each.encoder]] = each.scores[name] or 0.0
        generator = np.random.default_rng([seed, number])
        shuffled = generator.permuted(np.tile(values, (shuffles, 1)), axis=1)
        candidates = np.vstack([values, shuffled])  # the first row is what was observed
        readers: dict[Hashable, dict[Hashable, list[float]]] = {}
        for each in members:
            readers.setdefault(each.reader, {}).setdefault(each.encoder, []).append(each.quality)
        read = False
        for found in readers.values():
            # Several results on one encoder, such as the same weights chosen in two ways, are one point.
            quality = np.array([math.fsum(several) / len(several) for several in found.values()])
            columns = [place[encoder] for encoder in found]
            if len(found) >= FEWEST and np.ptp(quality) > 0 and np.ptp(values[columns]) > 0:
                taus.setdefault(dataset, []).append(kendall_taus(candidates[:, columns], quality))
                read = True
        encoders += len(order) if read else 0
    if not taus:
        return None
    by_dataset = {dataset: np.mean(here, axis=0) for dataset, here in taus.items()}
    average = np.mean(list(by_dataset.values()), axis=0)
    observed, null = float(average[0]), average[1:]
    low, high = np.quantile(null, [0.025, 0.975]) if len(null) else (math.nan, math.nan)
    beyond = np.sum(np.abs(null) >= abs(observed) - 1e-12)
    return RatedScore(
        score=name,
        tau=observed,
        low=float(low),
        high=float(high),
        p_value=float((beyond + 1) / (len(null) + 1)),
        by_dataset={dataset: float(here[0]) for dataset, here in by_dataset.items()},
        encoders=encoders,
    )


def kendall_taus(candidates: NDArray[np.float64], quality: NDArray[np.float64]) -> NDArray[np.float64]:
    """Kendall's tau-b of every row of ``candidates`` with ``quality``; 0 where a row is constant."""
    ours = np.sign(candidates[:, :, None] - candidates[:, None, :])
    theirs = np.sign(quality[:, None] - quality[None, :])
    scale = np.sqrt(np.sum(ours**2, axis=(1, 2)) * np.sum(theirs**2))
    return np.asarray(np.divide(np.sum(ours * theirs, axis=(1, 2)), scale, out=np.zeros(len(ours)), where=scale > 0))
