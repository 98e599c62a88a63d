"""How costs grow: records, rows, columns, classes, plans, and the commands on tables of a million rows.

    python benchmarks/growth.py                        everything, up to the sizes that are promised; about 15 minutes
    python benchmarks/growth.py records rows --largest 100000
    python benchmarks/growth.py --out benchmarks/growth.txt

Each measurement is a process of its own, with one thread. Times are CPU seconds, with those of its children; memory is
the largest of any process. The exponent is the slope of a cost over the size, both in logarithms, for the two largest
sizes: 1 is linear, and one well above 1 is a defect. What is promised is printed where it applies.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Costs = dict[str, float]
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
N_COLUMNS = 20
"""Of tables whose rows grow."""


def cpu_seconds() -> float:
    """Of this process and of children that have ended."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def gigabytes() -> float:
    """The most that this process, or one of its children, has held."""
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 2**20


@contextmanager
def timed(costs: Costs, name: str) -> Iterator[None]:
    before = cpu_seconds()
    yield
    costs[name] = cpu_seconds() - before


def tabbench(*arguments: object) -> None:
    """A command, in a process of its own."""
    command = [sys.executable, "-m", "tabbench", *map(str, arguments)]
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, **THREADS}
    )


# Records.


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


def measure_records(n: int, folder: Path) -> Costs:
    """A first table, a second one, and what a run does that finds everything stored; all as commands would."""
    from tabbench.results.lines import to_line

    (folder / "records").mkdir()
    with (folder / "records" / "made-up.jsonl").open("wb") as file:
        for number in range(n):
            file.write(to_line(example(number)))
    costs: Costs = {}
    for name, what in {"first table": "table", "second table": "table", "nothing to do": "look"}.items():
        child = [sys.executable, __file__, "--measure", what, str(n), "--folder", str(folder)]
        told = json.loads(subprocess.run(child, check=True, stdout=subprocess.PIPE).stdout)
        costs[name] = told["cost"]
        costs["gigabytes"] = max(costs.get("gigabytes", 0.0), told["gigabytes"])
    return costs


def measure_table(n: int, folder: Path) -> Costs:
    from tabbench.results.store import Store
    from tabbench.results.tabulate import tabulate

    costs: Costs = {}
    with timed(costs, "cost"):
        tabulate(Store(folder))
    return costs


def measure_look(n: int, folder: Path) -> Costs:
    from tabbench.results.store import Store

    costs: Costs = {}
    with timed(costs, "cost"):
        store = Store(folder)
        store.refresh()
        assert all(store.is_stored(f"{number:024x}") for number in range(n))
    return costs


# Tables.


def write_table(path: Path, rows: int, columns: int, classes: int) -> None:
    """Numbers, and one column in ten with words; the target is a class."""
    import numpy as np
    import pandas as pd

    random = np.random.default_rng(0)
    values = random.normal(size=(rows, columns)).astype(np.float32)
    levels = [f"level {i}" for i in range(12)]
    made = {f"x{j}": values[:, j] for j in range(columns)}
    made |= {f"x{j}": pd.Categorical.from_codes(random.integers(0, 12, rows), levels) for j in range(0, columns, 10)}
    labels = random.permutation(np.arange(rows) % classes)
    frame = pd.DataFrame(
        made | {"y": pd.Categorical.from_codes(labels, [f"class {label}" for label in range(classes)])}
    )
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path, index=False)


def read_and_split(path: Path) -> Costs:
    """From a file to the arrays that a job gets."""
    from tabbench.data.cache import store_dataset
    from tabbench.data.files import read_file
    from tabbench.data.prepare import open_split

    costs: Costs = {}
    with timed(costs, "read the file"):
        loaded = read_file(path, "y")
    with timed(costs, "clean and cache it"):
        manifest = store_dataset("grown", loaded, revision="1")
    del loaded
    with timed(costs, "open a split"):
        open_split(manifest, 0)
    return costs


def measure_rows(n: int, folder: Path) -> Costs:
    write_table(folder / "rows.csv", n, N_COLUMNS, 2)
    return read_and_split(folder / "rows.csv")


def measure_columns(n: int, folder: Path) -> Costs:
    write_table(folder / "columns.csv", 1000, n, 2)
    return read_and_split(folder / "columns.csv")


def measure_classes(n: int, folder: Path) -> Costs:
    path = folder / "classes.parquet"
    write_table(path, 20_000, N_COLUMNS, n)
    costs = read_and_split(path)
    with timed(costs, "run linear"):
        run_linear(path, folder)
    return costs


# Commands on large files.


def run_linear(path: Path, folder: Path) -> None:
    tabbench(
        "run", "--ssl", "none", "--model", "linear", "--data", f"{path}:y", "--preset", "quick",
        "--results", folder / "results", "--jobs", 1,
    )  # fmt: skip


def measure_commands(n: int, folder: Path) -> Costs:
    path = folder / "table.parquet"
    write_table(path, n, N_COLUMNS, 2)
    costs: Costs = {}
    with timed(costs, "data show"):
        tabbench("data", "show", f"{path}:y")
    with timed(costs, "run linear"):
        run_linear(path, folder)
    return costs


def measure_embed(n: int, folder: Path) -> Costs:
    """With an encoder that was trained on few rows: 256 numbers per row, a gigabyte for a million rows."""
    few, many = folder / "few.parquet", folder / "many.parquet"
    write_table(few, 1000, N_COLUMNS, 2)
    write_table(many, n, N_COLUMNS, 2)
    vime = ("--ssl", "vime", "--device", "cpu")
    tabbench(
        "embed", f"{few}:y", *vime, "--set", "vime.epochs=1", "--set", "vime.width=256",
        "--out", folder / "few.npy", "--save", folder / "encoder",
    )  # fmt: skip
    costs: Costs = {}
    with timed(costs, "embed"):
        tabbench("embed", f"{many}:y", *vime, "--encoder", folder / "encoder", "--out", folder / "many.npy")
    return costs


# Plans.

SSL = ["tjepa", "vime", "subtab", "binrecon", "switchtab", "none"]
MODELS = ["linear_head", "mlp", "resnet", "dcnv2", "autoint", "ft_transformer", "xgboost", "catboost"]


def measure_plan(n: int, folder: Path) -> Costs:
    """``n`` splits of 6 methods x 8 models x 7 tables x 3 seeds."""
    import numpy as np
    import pandas as pd

    from tabbench.data.sources import store_frame
    from tabbench.experiment.plan import make_plan
    from tabbench.experiment.spec import make_spec
    from tabbench.registry import make_registry

    random = np.random.default_rng(0)
    manifests = []
    for number in range(7):
        frame = pd.DataFrame(random.normal(size=(100, 3)), columns=["a", "b", "c"])
        frame["y"] = np.where(frame["a"] > 0, "yes", "no")
        manifests.append(store_frame(f"table{number}", frame, "y"))
    spec = make_spec({"ssl": SSL, "model": MODELS, "preset": "standard", "splits": n, "seeds": 3, "controls": ["none"]})
    registry = make_registry()
    costs: Costs = {}
    with timed(costs, "make the plan"):
        plan = make_plan(spec, registry, manifests)
    assert len(plan.records) == 6 * 8 * 7 * n * 3, len(plan.records)
    return costs


MEASURES: dict[str, tuple[Callable[[int, Path], Costs], tuple[int, ...], str]] = {
    "records": (measure_records, (1_000, 10_000, 100_000, 1_000_000), "100,000: 3 s, then 1 s; 1,000,000: 10 s, 2 GB"),
    "rows": (measure_rows, (10_000, 100_000, 1_000_000), "no Python per row or cell"),
    "columns": (measure_columns, (50, 500, 5_000), "no Python per row or cell"),
    "classes": (measure_classes, (10, 100, 1_000), "1,000 classes work"),
    "commands": (measure_commands, (10_000, 100_000, 1_000_000), "1,000,000 rows: 60 s and 3 GB"),
    "embed": (measure_embed, (10_000, 100_000, 1_000_000), "memory does not grow with the representation"),
    "plan": (measure_plan, (2, 6, 20), "20 splits (20,160 records): 5 s and 0.5 GB"),
}
INNER = {"table": measure_table, "look": measure_look}


def in_a_process(what: str, size: int) -> Costs:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **THREADS, "TABBENCH_CACHE": f"{folder}/cache"}
        command = [sys.executable, __file__, "--measure", what, str(size), "--folder", folder]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    found: Costs = json.loads(done.stdout.splitlines()[-1])
    return found


def exponent(sizes: tuple[int, ...], costs: list[float]) -> float:
    """Of the two largest sizes."""
    (a, b), (x, y) = sizes[-2:], costs[-2:]
    return math.log(max(y, 1e-6) / max(x, 1e-6)) / math.log(b / a)


def report(what: str, largest: int) -> Iterator[str]:
    _, sizes, promise = MEASURES[what]
    taken = tuple(size for size in sizes if size <= largest)
    found = [in_a_process(what, size) for size in taken]
    yield f"{what} (promised: {promise})"
    for name in found[0]:
        costs, unit = [costs[name] for costs in found], "GB" if name == "gigabytes" else "s"
        shown = "   ".join(f"{size:,}: {cost:.2f} {unit}" for size, cost in zip(taken, costs, strict=True))
        grows = f"   exponent {exponent(taken, costs):.2f}" if len(taken) > 1 else ""
        yield f"  {'memory' if unit == 'GB' else name:20} {shown}{grows}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help=f"of {', '.join(MEASURES)} (default: all)")
    parser.add_argument("--largest", type=int, default=1_000_000, help="leave larger sizes out")
    parser.add_argument("--out", type=Path, help="write the figures there, too")
    parser.add_argument("--measure", nargs=2, metavar=("WHAT", "SIZE"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.what) - MEASURES.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}. Available: {', '.join(MEASURES)}")
    if options.measure:
        what, size = options.measure
        work = INNER[what] if what in INNER else MEASURES[what][0]
        costs = work(int(size), options.folder)
        costs.setdefault("gigabytes", gigabytes())
        print(json.dumps(costs))
        return
    lines = []
    for what in options.what or MEASURES:
        for line in report(what, options.largest):
            print(line, flush=True)
            lines.append(line)
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
