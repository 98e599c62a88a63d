"""Speed and memory of one T-JEPA step on one CPU thread, beside the matrix products that it cannot do without.

    python benchmarks/tjepa_speed.py                      all four cases, each in a process of its own
    python benchmarks/tjepa_speed.py --case "CA mid" --profile

Times are CPU-seconds per optimiser step of 512 rows, a mean over steps whose mask sizes are drawn as in training.
``floor`` is the time of the step's products with weight matrices alone, forward and backward, for the same sizes and
the whole batch at once; products of attention, and everything else, are left out. ``parts`` is the same floor for
micro-batches, as the training takes them. ``reference`` and ``prototype`` were measured once, on another day of a
machine of this kind: the authors' code (whose four target masks are one), and a plain implementation of the paper.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

BATCH = 512
ROWS = 4096
MID: dict[str, Any] = {}
LAUNCH = {
    "model_num_layers": 16,
    "model_num_heads": 2,
    "model_dim_feedforward": 64,
    "pred_embed_dim": 16,
    "pred_num_layers": 16,
}


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    d: int
    settings: dict[str, Any]
    steps: int
    known: tuple[tuple[float, float], tuple[float, float]]
    """Seconds and gigabytes of the reference and of the prototype."""


CASES = {
    "CA mid": Case(8, MID, 24, ((0.58, 1.2), (0.30, 0.6))),
    "CA launch": Case(8, LAUNCH, 12, ((1.5, 3.2), (0.89, 1.1))),
    "54 mid": Case(54, MID, 8, ((6.7, 4.4), (2.7, 1.8))),
    "54 launch": Case(54, LAUNCH, 6, ((16.8, 9.4), (7.0, 3.0))),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, help="measure this case only")
    parser.add_argument("--steps", type=int, help="steps to measure, instead of the case's own number")
    parser.add_argument("--micro-batch", type=int, help="rows at a time, instead of the automatic choice")
    parser.add_argument("--profile", action="store_true", help="print the profile of one case")
    parser.add_argument("--measure", choices=("step", "floor", "parts"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure or options.profile:
        measure(options)
        return
    print(f"{'case':10} {'s/step':>7} {'floor':>7} {'parts':>7} {'ratio':>6} {'GB':>5}   reference      prototype")
    for name in [options.case] if options.case else CASES:
        case = CASES[name]
        found = {kind: in_a_process(name, kind, options) for kind in ("step", "floor", "parts")}
        seconds, floor, parts = (found[kind]["seconds"] for kind in ("step", "floor", "parts"))
        print(
            f"{name:10} {seconds:7.3f} {floor:7.3f} {parts:7.3f} {seconds / floor:6.2f}"
            f" {found['step']['gigabytes']:5.2f}   {'  '.join(f'{s:5.2f} {gb:4.1f} GB' for s, gb in case.known)}",
            flush=True,
        )


def in_a_process(name: str, kind: str, options: argparse.Namespace) -> dict[str, float]:
    """Peak memory is a property of a process, so each measurement has one."""
    command = [sys.executable, __file__, "--case", name, "--measure", kind]
    for option in ("steps", "micro_batch"):
        if getattr(options, option) is not None:
            command += [f"--{option.replace('_', '-')}", str(getattr(options, option))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    finished = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    result: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return result


def measure(options: argparse.Namespace) -> None:
    import numpy as np
    import torch
    from tabbench_tjepa.method import TJEPA
    from tabbench_tjepa.training import Training

    from tabbench import Context, Schema, Table
    from tabbench.nn import shuffled_batches

    torch.set_num_threads(1)
    case = CASES[options.case or "CA mid"]
    steps = options.steps or case.steps
    random = np.random.default_rng(0)
    table = Table(
        random.standard_normal((ROWS, case.d), dtype=np.float32),
        np.empty((ROWS, 0), dtype=np.int64),
        Schema(tuple(f"x{j}" for j in range(case.d))),
    )
    context = Context()
    method = TJEPA(**case.settings, micro_batch=options.micro_batch)
    method.initialise(table, context)
    training = Training(method, table, context)
    method.networks.train()
    if options.measure in (None, "step"):
        batches = shuffled_batches(ROWS, BATCH, context.generator("order"))
        batch = training.rows.take(next(batches))
        if options.profile:
            with torch.profiler.profile() as profile:
                for _ in range(steps):
                    training.train_step(batch)
            print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=25))
            return
        works: Iterator[Callable[[], Any]] = iter([lambda: training.train_step(batch)] * (steps + 2))
    else:
        sizes = [method.sizes.draw(training.mask_sizes) for _ in range(steps + 2)]
        works = (products(method, size, whole=options.measure == "floor") for size in sizes)
    for _ in range(2):
        next(works)()
    spent = 0.0
    for work in works:
        start = time.process_time()
        work()
        spent += time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": spent / steps, "gigabytes": peak * 1024 / 1e9}))


def products(method: Any, sizes: tuple[int, int], whole: bool) -> Callable[[], None]:
    """The products with weight matrices of one step, whose operands are made before the clock starts."""
    import torch
    from tabbench_tjepa.memory import micro_batch_rows

    config, d = method.config, method.schema.n_features
    n_ctx, n_tgt = sizes
    rows = BATCH if whole else micro_batch_rows(config, BATCH, d, sizes, "cpu", None)
    h, p = config.model_dim_hidden, config.pred_embed_dim

    def layers(n: int, width: int, hidden: int, count: int) -> list[tuple[int, int, int, int]]:
        return [
            (n, width, 3 * width, count),
            (n, width, width, count),
            (n, width, hidden, count),
            (n, hidden, width, count),
        ]

    encoder = config.model_dim_feedforward, config.model_num_layers
    shapes_forward = [*layers((d + config.n_reg) * rows, h, *encoder), (d * rows, h, h, 1)]
    shapes_both = [
        *layers((n_ctx + config.n_reg) * rows, h, *encoder),
        (n_ctx * rows, h, h, 1),
        (n_ctx * rows, h, p, 1),
        *layers(4 * (n_ctx + n_tgt) * rows, p, config.pred_dim_feedforward, config.pred_num_layers),
        (4 * n_tgt * rows, p, h, 1),
    ]
    operands = [
        (torch.randn(n, a), torch.randn(b, a), torch.randn(n, b), count, backward)
        for shapes, backward in ((shapes_forward, False), (shapes_both, True))
        for n, a, b, count in shapes
    ]

    def work() -> None:
        for _ in range(-(-BATCH // rows)):
            for x, weight, gradient, count, backward in operands:
                for _ in range(count):
                    x @ weight.t()
                    if backward:
                        gradient @ weight
                        gradient.t() @ x

    return work


if __name__ == "__main__":
    main()
