"""How often rank intervals hold the truth, and how often rank groups tell equal rows apart.

    python benchmarks/rank_groups.py [--tables 400] [--rows 6] [--plain]

Each table is drawn from a known model: a row has an effect, an effect of its own on each dataset, and noise on each
split. A true average rank is the mean over many tables of the same size. Both shares should be near 95 % and below 5 %.
``--plain`` takes plain percentiles, on the same tables.
"""

import argparse

import numpy as np

from tabbench.results.statistics import Ranking, Scores, rank_rows, ranking

SIZES = ((3, 3), (5, 3), (5, 10), (10, 1), (10, 3), (20, 5))
SPREADS = ((0.02, 0.02), (0.005, 0.02), (0.02, 0.005))


def draw(
    rng: np.random.Generator, effects: np.ndarray, size: tuple[int, int], spread: tuple[float, float]
) -> np.ndarray:
    """(rows, datasets, splits) scores."""
    by_dataset = effects[:, None] + spread[0] * rng.normal(size=(len(effects), size[0]))
    return by_dataset[:, :, None] + spread[1] * rng.normal(size=(len(effects), *size))


def average_ranks(scores: np.ndarray) -> np.ndarray:
    return (np.argsort(np.argsort(-scores.mean(axis=2), axis=0), axis=0) + 1).mean(axis=1)


def rank(scores: np.ndarray) -> Ranking[int]:
    places = np.ndindex(scores.shape)
    return rank_rows(
        Scores.collect((row, f"{data:02}", split, 0, scores[row, data, split]) for row, data, split in places)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=400)
    parser.add_argument("--rows", type=int, default=6)
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    if options.plain:
        ranking.expanded_level = lambda scores, level: level
    rng = np.random.default_rng(0)
    print("effects  datasets  splits  spread          covered  told apart")
    for largest in (0.0, 0.03):
        effects = np.linspace(0, largest, options.rows)
        for spread in SPREADS:
            for size in SIZES:
                truth = np.mean([average_ranks(draw(rng, effects, size, spread)) for _ in range(1500)], axis=0)
                tables = [rank(draw(rng, effects, size, spread)).rows.values() for _ in range(options.tables)]
                covered = np.mean([
                    row.low <= true <= row.high for rows in tables for row, true in zip(rows, truth, strict=True)
                ])  # fmt: skip
                apart = np.mean([not set.intersection(*(set(row.group) for row in rows)) for rows in tables])
                print(
                    f"{largest:7.2f}  {size[0]:8d}  {size[1]:6d}  {spread!s:14}  {covered:7.1%}  {apart:10.1%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
