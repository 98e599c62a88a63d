"""What the T-JEPA paper says about its training, to be seen again on a table of one's own or on one that ships.

    python benchmarks/phenomena.py reg [--data FILE:TARGET]     loss and spread of embeddings, without and with [REG]
    python benchmarks/phenomena.py dip [--data FILE:TARGET]     uniformity dips and recovers
    python benchmarks/phenomena.py tau --data FILE:TARGET       variance of tokens against importance for boosted trees

``reg`` scales numbers to [0, 1] and has fixed positions, as the authors' code does, which is where an encoder collapses
most easily. It needs some 2,000 steps, so its table is California unless ``--data`` is given: three CPU-minutes for
each of the two trainings. ``dip`` standardises numbers, as the paper says. ``tau`` prints Kendall's tau for the trained
and for the untrained encoder. Their table is scikit-learn's diabetes. Uniformity is 0 if all embeddings are one point,
and higher the more they spread out. Networks are small; ``--set`` changes any setting.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch
from tabbench_tjepa.method import TJEPA

from tabbench import Context
from tabbench.data.prepare import SplitData, open_split
from tabbench.data.sources import resolve_data
from tabbench.experiment.spec import parse_setting
from tabbench.registry import make_registry
from tabbench.running.rankings import rank_features

SMALL: dict[str, Any] = {
    "model_dim_hidden": 16,
    "model_num_layers": 1,
    "model_num_heads": 2,
    "model_dim_feedforward": 32,
    "pred_embed_dim": 8,
    "pred_num_layers": 1,
    "pred_num_heads": 2,
    "pred_dim_feedforward": 16,
    "exp_lr": 3e-3,
    "exp_batch_size": 64,
    "exp_epochs": 60,
    "model_ema_start": 0.98,
    "bf16": False,
}
"""A target that follows within a run of hundreds of steps, as the paper's does within its tens of thousands."""
AS_CODE: dict[str, Any] = {
    "scaling": "minmax",
    "positions": "sincos",
    "model_dim_hidden": 32,
    "model_num_layers": 2,
    "model_num_heads": 4,
    "model_dim_feedforward": 64,
    "pred_embed_dim": 16,
    "pred_num_layers": 2,
    "pred_num_heads": 4,
    "pred_dim_feedforward": 64,
    "exp_lr": 1e-3,
    "exp_batch_size": 512,
    "exp_epochs": 60,
    "exp_warmup_share": 1 / 12,
    "model_ema_start": 0.996,
    "bf16": False,
}
"""Inputs, batches and momentum of the authors' code, with networks that a CPU can train."""
AS_PAPER = {"scaling": "standard"}


def pretrain(split: SplitData, seed: int, settings: dict[str, Any]) -> TJEPA:
    method = TJEPA(**settings)
    method.pretrain(split.train_rows, Context(root_seed=seed))
    return method


def course(method: TJEPA) -> str:
    """Start, lowest and last value of the two curves."""
    told = method.diagnostics
    loss, spread = np.array(told["loss"]), np.array([told["start"]["uniformity"], *told["uniformity"]])
    collapsed = "collapsed" if told["collapsed"][-1] else "not collapsed"
    return (
        f"uniformity {spread[0]:.2g} -> {spread.min():.2g} (epoch {spread.argmin()}) -> {spread[-1]:.2g}   "
        f"loss {loss[0]:.2g} -> {loss.min():.2g} (epoch {loss.argmin() + 1}) -> {loss[-1]:.2g}   "
        f"{collapsed} at the end"
    )


def show_reg(split: SplitData, seed: int, given: dict[str, Any]) -> None:
    for n_reg in (0, 1):
        method = pretrain(split, seed, {**AS_CODE, **given, "n_reg": n_reg})
        print(f"seed {seed}, {n_reg} [REG]: {course(method)}", flush=True)


def show_dip(split: SplitData, seed: int, given: dict[str, Any]) -> None:
    print(f"seed {seed}: {course(pretrain(split, seed, {**SMALL, **AS_PAPER, **given}))}", flush=True)


def show_tau(split: SplitData, seed: int, given: dict[str, Any]) -> None:
    method = pretrain(split, seed, {**SMALL, **AS_PAPER, **given})
    untrained = TJEPA(method.config)
    untrained.initialise(split.train_rows, Context(root_seed=seed))
    for name, encoder in (("trained", method), ("untrained", untrained)):
        ranked = rank_features(encoder, split, threads=1, seed=seed)
        if ranked is None:
            raise SystemExit("the table has too few or too many features to rank")
        names = list(ranked.scores)
        tokens, trees = names.index("variance of tokens"), names.index("gain of trees")
        tau, p = ranked.tau[tokens, trees], ranked.p_values[tokens, trees]
        print(f"seed {seed}, {name}: Kendall's tau {tau:+.2f} (p = {p:.3f}, {len(ranked.names)} features)", flush=True)


SHOWS = {"reg": show_reg, "dip": show_dip, "tau": show_tau}
TABLES = {"reg": "california", "dip": "diabetes", "tau": "diabetes"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=SHOWS)
    parser.add_argument("--data", help="a dataset, or FILE:TARGET")
    parser.add_argument("--rows", type=int, help="use only so many rows")
    parser.add_argument("--seeds", type=int, default=1, help="initialisations (default 1)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of T-JEPA")
    options = parser.parse_args()
    torch.set_num_threads(1)
    given = {key: value for _, key, value in (parse_setting(f"tjepa.{text}") for text in options.set)}
    given = TJEPA.Config.full_names(given, "tjepa")
    split = open_split(resolve_data(options.data or TABLES[options.what], make_registry())[0], 0, options.rows)
    for seed in range(options.seeds):
        SHOWS[options.what](split, seed, given)


if __name__ == "__main__":
    main()
