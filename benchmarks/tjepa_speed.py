"""Speed and memory of one T-JEPA step on one CPU thread, beside the matrix products that it cannot do without.

    python benchmarks/tjepa_speed.py                      all four cases
    python benchmarks/tjepa_speed.py --case "CA mid" --json
    python benchmarks/tjepa_speed.py --case "CA mid" --profile

Times are CPU-seconds per optimiser step of 512 rows, for mask sizes drawn as in training. ``floor`` is the time of the
step's products with weight matrices alone in float32, forward and backward, for the same sizes and the whole batch at
once; products of attention, and everything else, are left out. Steps with and without dropout and the floor take turns
in one process, because a shared machine is not equally fast all the time, and the medians count. Memory is the peak of
a process that does nothing but steps, with the environment of a worker; about 0.45 GB of it are PyTorch, scikit-learn
and pandas. ``--bf16 false`` measures float32, which is also what a CPU without bfloat16
gets. ``reference`` and ``prototype`` were measured once, on another day of a machine of this kind: the authors' code
(whose four target masks are one), and a plain implementation of the paper.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tabbench import worker_environment

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


DROPOUT = {"model_dropout_prob": 0.005, "pred_p_dropout": 0.005}
"""The middle of the range that the search space has."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, help="measure this case only")
    parser.add_argument("--steps", type=int, help="steps to measure, instead of the case's own number")
    parser.add_argument("--bf16", choices=("auto", "true", "false"), default="auto", help="setting of T-JEPA")
    parser.add_argument("--json", action="store_true", help="print one JSON object per case")
    parser.add_argument("--profile", action="store_true", help="print the profile of one case")
    parser.add_argument("--measure", choices=("time", "memory"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.profile:
        profile(options)
    elif options.measure:
        print(json.dumps((measure_time if options.measure == "time" else measure_memory)(options)))
    else:
        for name in [options.case] if options.case else CASES:
            found = {"case": name, **in_a_process(name, "time", options), **in_a_process(name, "memory", options)}
            print(json.dumps(found) if options.json else in_words(found), flush=True)


def in_words(found: dict[str, Any]) -> str:
    known = "  ".join(f"{seconds:5.2f} s {gb:4.1f} GB" for seconds, gb in CASES[found["case"]].known)
    shares = ", ".join(f"{part} {share:.0%}" for part, share in found["shares"].items())
    return (
        f"{found['case']:10} step {found['step']:6.3f} s  floor {found['floor']:6.3f} s  ratio {found['ratio']:.2f}  "
        f"with dropout {found['step_with_dropout']:6.3f} s  {found['gigabytes']:.2f} GB   "
        f"reference, prototype: {known}\n{'':10} {shares}"
    )


def in_a_process(name: str, kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """Peak memory is a property of a process, and threads are set when one starts."""
    command = [sys.executable, __file__, "--case", name, "--measure", kind, "--bf16", options.bf16]
    if options.steps is not None:
        command += ["--steps", str(options.steps)]
    environment = {**os.environ, **worker_environment(1)}
    finished = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    result: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return result


class Stepper:
    """A pretraining of one case, step by step."""

    def __init__(self, options: argparse.Namespace, **settings: Any) -> None:
        import numpy as np
        import torch
        from tabbench_tjepa.method import TJEPA
        from tabbench_tjepa.training import Work, make_optimizer

        from tabbench import Context, Schema, Table

        torch.set_num_threads(1)
        case = CASES[options.case or "CA mid"]
        values = np.random.default_rng(0).standard_normal((ROWS, case.d), dtype=np.float32)
        schema = Schema(tuple(f"x{j}" for j in range(case.d)))
        table = Table(values, np.empty((ROWS, 0), dtype=np.int64), schema)
        bf16 = {"auto": "auto", "true": True, "false": False}[options.bf16]
        self.method = TJEPA(**case.settings, bf16=bf16, **settings)
        self.method.initialise(table, Context())
        self.work = Work(self.method, table, Context())
        self.optimizer = make_optimizer(self.method.networks, self.method.config)
        self.method.networks.train()
        self.batch = torch.arange(BATCH)

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.work.loss(self.batch)
        self.optimizer.step()
        self.work.follower.follow(0, 1000)

    def sizes(self, seed: int) -> tuple[int, int]:
        """The mask sizes that the next step will draw."""
        self.work.mask_sizes.manual_seed(seed)
        sizes: tuple[int, int] = self.method.sizes.draw(self.work.mask_sizes)
        self.work.mask_sizes.manual_seed(seed)
        return sizes


def seconds_of(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def measure_time(options: argparse.Namespace) -> dict[str, Any]:
    plain, dropping = Stepper(options), Stepper(options, **DROPOUT)
    steps = options.steps or CASES[options.case].steps
    for stepper in (plain, dropping):
        stepper.step()
    found: dict[str, list[float]] = {"step": [], "step_with_dropout": [], "floor": []}
    for seed in range(steps):
        floor = products(plain.method, plain.sizes(seed))
        dropping.sizes(seed)
        found["step"].append(seconds_of(plain.step))
        found["floor"].append(seconds_of(floor))
        found["step_with_dropout"].append(seconds_of(dropping.step))
    ratio, dropout = (
        statistics.median(a / b for a, b in zip(found[name], found[beside], strict=True))
        for name, beside in (("step", "floor"), ("step_with_dropout", "step"))
    )
    means = {name: statistics.fmean(values) for name, values in found.items()}
    return {**means, "ratio": ratio, "dropout_ratio": dropout, "shares": shares(plain, max(steps // 4, 2))}


def shares(stepper: Stepper, steps: int) -> dict[str, float]:
    """Which share of a step's time goes where."""
    networks = stepper.method.networks
    spent: dict[str, float] = {}
    modules = {
        "target encoder": networks.target_encoder,
        "context encoder": networks.context_encoder,
        "predictor": networks.predictor,
    }
    for name, module in modules.items():
        began: list[float] = []
        spent[name] = 0.0

        def before(*_: Any, began: list[float] = began) -> None:
            began.append(time.process_time())

        def after(*_: Any, name: str = name, began: list[float] = began) -> None:
            spent[name] += time.process_time() - began.pop()

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)
    optimise = stepper.optimizer.step
    spent["optimiser"] = 0.0

    def timed_step(*arguments: Any) -> None:
        spent["optimiser"] += seconds_of(lambda: optimise(*arguments))

    setattr(stepper.optimizer, "step", timed_step)  # noqa: B010 - a method is replaced
    total = sum(seconds_of(stepper.step) for _ in range(steps))
    spent["backward and the rest"] = total - sum(spent.values())
    return {name: value / total for name, value in spent.items()}


def measure_memory(options: argparse.Namespace) -> dict[str, float]:
    stepper = Stepper(options)
    for _ in range(max((options.steps or CASES[options.case].steps) // 2, 2)):
        stepper.step()
    return {"gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9}


def profile(options: argparse.Namespace) -> None:
    import torch

    stepper = Stepper(options)
    stepper.step()
    with torch.profiler.profile() as found:
        for _ in range(options.steps or 4):
            stepper.step()
    print(found.key_averages().table(sort_by="self_cpu_time_total", row_limit=25))


def products(method: Any, sizes: tuple[int, int]) -> Callable[[], None]:
    """The products with weight matrices of one step, whose operands are made before the clock starts."""
    import torch

    config, d, rows = method.config, method.schema.n_features, BATCH
    n_ctx, n_tgt = sizes
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
        for x, weight, gradient, count, backward in operands:
            for _ in range(count):
                x @ weight.t()
                if backward:
                    gradient @ weight
                    gradient.t() @ x

    return work


if __name__ == "__main__":
    main()
