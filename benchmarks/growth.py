"""How costs grow: records to read, tables to prepare, plans to make. Prints each cost with the exponent of its growth.

    python benchmarks/growth.py [records] [--largest 100000]

An exponent of 1 is linear; one well above 1 is a defect. Times are CPU seconds of this process.
"""

import argparse
import math
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tabbench.results import copy
from tabbench.results.lines import to_line
from tabbench.results.store import Store
from tabbench.results.tabulate import tabulate


def example(number: int) -> dict[str, object]:
    """A record as a real run writes it, as far as its size goes."""
    scores = dict.fromkeys(("accuracy", "balanced_accuracy", "macro_f1", "auroc"), 0.5 + number % 97 / 1000)
    return {
        "key": f"{number:024x}", "status": "ok", "kind": "result", "schema": 2, "time": 1.8e9 + number,
        "ssl": f"method{number % 6}", "model": f"model{number // 6 % 8}", "data": f"table{number // 48 % 7}",
        "data_key": f"{number // 48 % 7:012x}", "split": number // 336 % 20, "seed": number // 6720,
        "fidelity": "paper", "preset": "paper", "trials": 50, "ssl_trials": 50, "variant": "", "uses_labels": False,
        "task": "binary", "metric": "accuracy", "score": scores["accuracy"], "test": scores,
        "validation": scores, "flags": [],
        "counts": {"train": 800, "validation": 100, "test": 100, "features": 20, "classes": 2},
        "hashes": dict.fromkeys(("data", "split", "encoder", "representation", "predictions"), f"{number:064x}"),
        "seconds": {"pretrain": 10.0, "encode": 1.0, "fit": 2.0, "predict": 0.1},
        "environment": {"python": "3.11", "threads": 1, "versions": {"torch": "2.13.0", "numpy": "2.4"}},
        "config": {"model": {"lr": 0.001, "width": 256, "dropout": 0.1}, "ssl": {"epochs": 100}, "joint": {}},
        "diagnostics": {"model": {"train_loss": [1.0 / (epoch + 1) for epoch in range(20)]}, "ssl": {}},
    }  # fmt: skip


def write_records(root: Path, n: int) -> None:
    folder = root / "records"
    folder.mkdir(parents=True)
    with (folder / "made-up.jsonl").open("wb") as file:
        for number in range(n):
            file.write(to_line(example(number)))


def cpu(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def measure_records(n: int) -> dict[str, float]:
    """A first table, a second one, and what a run does that finds everything stored."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_records(root, n)
        costs = {"first table": cpu(lambda: tabulate(Store(root)))}
        copy._KNOWN.clear()
        costs["second table"] = cpu(lambda: tabulate(Store(root)))
        copy._KNOWN.clear()
        costs["look for what is done"] = cpu(lambda: Store(root).refresh())
    return costs


MEASURES = {"records": (measure_records, (1_000, 10_000, 100_000, 1_000_000))}


def exponent(sizes: list[int], costs: list[float]) -> float:
    """The slope of the cost over the size, both in logarithms."""
    x, y = [math.log(size) for size in sizes], [math.log(max(cost, 1e-6)) for cost in costs]
    return statistics.linear_regression(x, y).slope


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=list(MEASURES))
    parser.add_argument("--largest", type=int, default=100_000)
    options = parser.parse_args()
    for what in options.what:
        measure, sizes = MEASURES[what]
        taken = [size for size in sizes if size <= options.largest]
        found = [measure(size) for size in taken]
        for name in found[0]:
            costs = [costs[name] for costs in found]
            shown = ", ".join(f"{size:,}: {cost:.2f} s" for size, cost in zip(taken, costs, strict=True))
            print(f"{what}, {name}: {shown}; grows with exponent {exponent(taken[1:], costs[1:]):.2f}")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


if __name__ == "__main__":
    main()
