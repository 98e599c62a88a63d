"""Fake releases of results. Honest ones are simulated row by row, so that their scores coincide as real ones do."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Line = dict[str, str]
"""One run: what stands in its columns."""
Floats = NDArray[np.float64]

METRICS = ("accuracy", "auroc", "rmse", "macro_f1", "error")
METHODS = ("none", "vime", "scarf")
MODELS = ("mlp", "resnet", "ft_transformer", "xgboost", "catboost")
SIZES = (18, 45, 57, 100, 150, 250, 400, 700, 1000, 1500, 2000)
"""Rows of the test part, and of the validation part too; datasets take them in turn."""


def written(value: float, decimals: int | None) -> str:
    """A score as people write it: rounded, or with all digits."""
    return repr(float(value)) if decimals is None else f"{value:.{decimals}f}"


def simulate(rng: np.random.Generator, metric: str, rows: int, cells: int, seeds: int) -> Floats:
    """Scores ``(cells, seeds, 2)`` on validation and on test.

    The rows of the two parts are different, but the same for all cells. What is hard about a row is hard for every
    method; what a training adds to it is its own.
    """
    labels = rng.random((2, rows)) < 0.3
    labels[:, :2] = (True, False)
    hardness = rng.normal(size=(2, rows))
    skills = rng.normal(rng.uniform(0.2, 2.5), 0.15, cells)
    noise = 10 ** rng.uniform(-1, -0.3, cells)
    wobble = 10 ** rng.uniform(-3, -1.3, cells)
    found = np.empty((cells, seeds, 2))
    for cell in range(cells):
        for seed in range(seeds):
            latent = hardness + noise[cell] * rng.normal(size=(2, rows))
            found[cell, seed] = SCORES[metric](skills[cell] + rng.normal(0, wobble[cell]), latent, labels)
    return found


def _accuracy(skill: float, latent: Floats, labels: NDArray[np.bool_]) -> Floats:
    return np.asarray((latent + skill > 0).mean(axis=1))


def _auroc(skill: float, latent: Floats, labels: NDArray[np.bool_]) -> Floats:
    areas = []
    for part, positive in zip(latent + skill * labels, labels, strict=True):
        ranks = part.argsort().argsort() + 1.0
        n = positive.sum()
        areas.append((ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(part) - n)))
    return np.asarray(areas)


def _rmse(skill: float, latent: Floats, labels: NDArray[np.bool_]) -> Floats:
    return np.asarray(np.sqrt(((latent / (1 + skill)) ** 2).mean(axis=1)))


def _macro_f1(skill: float, latent: Floats, labels: NDArray[np.bool_]) -> Floats:
    predicted = latent + skill * (2 * labels - 1) > 0
    means = []
    for answers, truth in zip(predicted, labels, strict=True):
        hits, of_class = [(answers & truth).sum(), (~answers & ~truth).sum()], [truth.sum(), (~truth).sum()]
        given = [answers.sum(), (~answers).sum()]
        means.append(np.mean([2 * hit / (all_ + told) for hit, all_, told in zip(hits, of_class, given, strict=True)]))
    return np.asarray(means)


def _error(skill: float, latent: Floats, labels: NDArray[np.bool_]) -> Floats:
    return 1 - _accuracy(skill, latent, labels)


SCORES: dict[str, Callable[[float, Floats, NDArray[np.bool_]], Floats]] = {
    "accuracy": _accuracy,
    "auroc": _auroc,
    "rmse": _rmse,
    "macro_f1": _macro_f1,
    "error": _error,
}


def honest_release(
    seed: int,
    runs: int,
    *,
    decimals: Sequence[int | None] = (3, 4, None),
    sizes: Sequence[int] = SIZES,
    metrics: Sequence[str] = METRICS,
    methods: Sequence[str] = METHODS,
    models: Sequence[str] = MODELS,
    seeds: int = 15,
) -> list[Line]:
    """Runs of an honest benchmark; each dataset has its own size, metric and number of decimals."""
    rng = np.random.default_rng(seed)
    cells = [(method, model) for method in methods for model in models]
    lines: list[Line] = []
    while len(lines) < runs:
        number = len(lines) // (len(cells) * seeds)
        rows, metric = sizes[number % len(sizes)], metrics[number % len(metrics)]
        digits = decimals[number // len(metrics) % len(decimals)]
        scores = simulate(rng, metric, rows, len(cells), seeds)
        for place, (method, model) in enumerate(cells):
            for run, (validation, test) in enumerate(scores[place]):
                lines.append(
                    {"dataset": f"data{number}", "method": method, "model": model, "seed": str(run), "metric": metric,
                     "validation": written(validation, digits), "test": written(test, digits), "n_test": str(rows)}
                )  # fmt: skip
    return lines[:runs]


def write_csv(path: Path, lines: Sequence[Line], leave_out: Sequence[str] = ()) -> Path:
    """A CSV file with these lines, some columns left out."""
    names = [name for name in lines[0] if name not in leave_out]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    return path
