"""CPU-hours of T-JEPA's pretraining at the published size on each table of the paper, from our own speed.

    python benchmarks/paper_hours.py [--table NAME]

Measures CPU-seconds of an optimiser step with the settings of the preset ``paper`` on generated rows with the columns
of each table, on one thread, and multiplies them by the steps of a whole pretraining. A step has 512 rows; on wide
tables a part of them is measured, and the time multiplied. ``GPU-hours`` are those that the paper states for an A100.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time

import torch
from tabbench_tjepa.method import TJEPA
from tabbench_tjepa.training import Work, make_optimizer

from tabbench import Context, Table
from tabbench.data.cache import Manifest
from tabbench.data.gather import expect_data
from tabbench.experiment.payloads import Shape
from tabbench.registry import make_registry
from tabbench.running.calibration import make_labelled

GPU_HOURS = {
    "adult": 0.84,
    "higgs": 1.80,
    "helena": 1.03,
    "jannis": 1.27,
    "aloi": 3.64,
    "california": 0.34,
    "mnist": 4.80,
}
STEPS = 3
TOKENS = 512 * 54
"""Rows times columns of a measured step, about: wider tables are measured with fewer rows."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", choices=GPU_HOURS, help="measure this table only")
    only = parser.parse_args().table
    torch.set_num_threads(1)
    settings = {name: value for name, value in TJEPA.Config.presets()["paper"].items() if name != "source"}
    manifests, _ = expect_data(["paper"], make_registry())
    print(f"{'table':<11} {'rows':>7} {'columns':>7} {'steps':>7} {'s / step':>9} {'CPU-hours':>10} {'GPU-hours':>10}")
    for manifest in sorted(manifests, key=lambda each: each.n_numeric + each.n_categorical):
        if only in (None, manifest.name):
            method = TJEPA(TJEPA.Config.resolve(settings, "tjepa"))
            rows = manifest.rows - 2 * round(0.1 * manifest.rows)
            steps = method.config.exp_epochs * math.ceil(rows / method.config.exp_batch_size)
            seconds = step_seconds(method, manifest)
            print(
                f"{manifest.name:<11} {rows:>7,} {manifest.n_numeric + manifest.n_categorical:>7} {steps:>7,} "
                f"{seconds:>9.2f} {steps * seconds / 3600:>10,.0f} {GPU_HOURS[manifest.name]:>10.2f}",
                flush=True,
            )


def step_seconds(method: TJEPA, manifest: Manifest) -> float:
    """CPU-seconds of a step of a whole batch."""
    whole = method.config.exp_batch_size
    batch = min(whole, max(TOKENS // (manifest.n_numeric + manifest.n_categorical), 16))
    features = make_labelled(batch, Shape.of(manifest, batch), 0).features
    assert isinstance(features, Table)
    method.initialise(features, Context())
    work = Work(method, features, Context())
    optimizer = make_optimizer(method.networks, method.config)
    method.networks.train()
    found = []
    for _ in range(1 + STEPS):  # the first is slower: it allocates
        start = time.process_time()
        optimizer.zero_grad(set_to_none=True)
        work.loss(torch.arange(batch))
        optimizer.step()
        work.follower.follow(0, 1000)
        found.append(time.process_time() - start)
    return statistics.fmean(found[1:]) * whole / batch


if __name__ == "__main__":
    main()
