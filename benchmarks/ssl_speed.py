"""Samples per CPU-second of every method's pretraining, beside ts3l 0.70 where both have it.

    python benchmarks/ssl_speed.py --other /path/to/venv/bin/python
    python benchmarks/ssl_speed.py --profile switchtab          which operations take the time of its pretraining

One thread, 20,000 rows of 54 numbers, batches of 512, an encoder of 256-256 units. The other library lives in an
environment of its own (``pip install torch==2.13.0 ts3l==0.70``); without ``--other`` only ours is measured. Turns of
the two alternate, because a shared machine is not equally fast all the time, and the best turn of each counts.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

N_ROWS, N_COLUMNS, BATCH_SIZE, WIDTH = 20_000, 54, 512, 256
TARGETS = {"vime": 8.0, "subtab": 2.0, "binrecon": 1.0, "switchtab-mlp": 1.0}
"""How many times faster than the other library ours must be, where it has the method."""
EPOCHS = {"vime": 10, "subtab": 2, "binrecon": 6, "switchtab": 1, "switchtab-mlp": 4, "ptarl": 4}
"""Methods, and how many epochs are timed."""

PRODUCTS = ("mm", "linear", "attention_for_cpu", "attention_for_cpu_backward")
"""What the names of matrix products end with."""


def make_training(method_name: str) -> Callable[[int], None]:
    """A method's whole pretraining of so many epochs."""
    import numpy as np
    import torch
    from tabbench_binrecon.method import BinRecon
    from tabbench_ptarl.method import PTaRLRepresentation
    from tabbench_subtab.method import SubTab
    from tabbench_switchtab.method import SwitchTab
    from tabbench_vime.method import VIME

    from tabbench import Context, JointMethod, Labelled, Schema, SSLMethod, Table, Task

    torch.set_num_threads(1)
    values = np.random.default_rng(0).normal(size=(N_ROWS, N_COLUMNS)).astype(np.float32)
    schema = Schema(tuple(f"x{j}" for j in range(N_COLUMNS)))
    table = Table(values, np.empty((N_ROWS, 0), dtype=np.int64), schema)

    makers: dict[str, Callable[..., SSLMethod | JointMethod]] = {
        "vime": partial(VIME, width=WIDTH, depth=2),
        "subtab": partial(SubTab, width=WIDTH, latent=WIDTH, depth=2),
        "binrecon": partial(BinRecon, width=WIDTH, depth=1, corruption="shuffle", dropout=0.0),
        "switchtab": partial(SwitchTab, width=32, layers=2),
        "switchtab-mlp": partial(SwitchTab, encoder="mlp", width=WIDTH, layers=2),
        "ptarl": partial(PTaRLRepresentation, width=WIDTH, layers=2, patience=None),
    }

    def train(n_epochs: int) -> None:
        method = makers[method_name](batch_size=BATCH_SIZE, epochs=n_epochs)
        if isinstance(method, JointMethod):  # two stages: each sees the rows
            labels = (values[:, 0] > 0).astype(np.int64)
            few = Labelled(table.take(slice(0, 1000)), labels[:1000])
            method.fit(Labelled(table, labels), few, Task("binary", 2), Context())
        else:
            method.pretrain(table, Context())

    return train


def measure_ours(method_name: str, epochs: int) -> float:
    """Everything that ``pretrain`` does is timed: scaling, corruption, training."""
    train = make_training(method_name)
    train(1)  # first calls allocate and initialise
    start = time.process_time()
    train(epochs)
    stages = 2 if method_name == "ptarl" else 1
    return N_ROWS * epochs * stages / (time.process_time() - start)


def profile(method_name: str) -> None:
    """How much of an epoch are matrix products, and the operations that take longest."""
    import torch

    train = make_training(method_name)
    train(1)
    with torch.profiler.profile() as found:
        train(1)
    operations = sorted(found.key_averages(), key=lambda each: -each.self_cpu_time_total)
    total = sum(each.self_cpu_time_total for each in operations)
    products = sum(each.self_cpu_time_total for each in operations if each.key.endswith(PRODUCTS))
    print(f"{method_name}: {products / total:.0%} of {total / 1e6:.2f} s are products; the longest operations:")
    for each in operations[:12]:
        print(f"  {each.self_cpu_time_total / total:6.1%}  {each.count:7}  {each.key}")


def measure_other(method_name: str, epochs: int) -> float:
    """A plain loop over the library's data set, model and loss; the preparation of the data is not timed."""
    import logging
    import warnings

    import numpy as np
    import pandas as pd
    import torch
    from torch.utils.data import DataLoader
    from ts3l.pl_modules import SubTabLightning, SwitchTabLightning, TabularBinningLightning, VIMELightning
    from ts3l.utils.backbone_utils import MLPBackboneConfig
    from ts3l.utils.embedding_utils import IdentityEmbeddingConfig
    from ts3l.utils.subtab_utils import SubTabConfig, SubTabDataset
    from ts3l.utils.switchtab_utils import SwitchTabConfig, SwitchTabDataset, SwitchTabFirstPhaseCollateFN
    from ts3l.utils.tabularbinning_utils import (
        TabularBinningConfig,
        TabularBinningDataset,
        TabularBinningFirstPhaseCollateFN,
    )
    from ts3l.utils.vime_utils import VIMEConfig, VIMEDataset

    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    names = [f"x{j}" for j in range(N_COLUMNS)]
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(N_ROWS, N_COLUMNS)), columns=names)
    common = {
        "task": "regression",
        "loss_fn": "MSELoss",
        "metric": "mean_squared_error",
        "output_dim": 1,
        "embedding_config": IdentityEmbeddingConfig(input_dim=N_COLUMNS),
        "backbone_config": MLPBackboneConfig(
            input_dim=N_COLUMNS, hidden_dims=WIDTH, output_dim=WIDTH, use_batch_norm=False, dropout_rate=0.0
        ),
    }
    collate = None
    if method_name == "binrecon":
        config = TabularBinningConfig(decoder_dim=WIDTH, decoder_depth=2, mask_type="random", **common)
        module = TabularBinningLightning(config)
        data = TabularBinningDataset(config, frame, continuous_cols=names)
        collate = TabularBinningFirstPhaseCollateFN(config)
    elif method_name == "switchtab-mlp":
        config = SwitchTabConfig(**common)
        module = SwitchTabLightning(config)
        data = SwitchTabDataset(frame, config=config, continuous_cols=names, category_cols=[])
        collate = SwitchTabFirstPhaseCollateFN()
    elif method_name == "vime":
        config = VIMEConfig(num_continuous=N_COLUMNS, cat_cardinality=[], **common)
        module = VIMELightning(config)
        data = VIMEDataset(frame, config=config, continuous_cols=names, category_cols=[])
    else:
        module = SubTabLightning(SubTabConfig(mask_ratio=0.3, projection_dim=WIDTH, **common))
        data = SubTabDataset(frame, continuous_cols=names, category_cols=[])
    optimiser = torch.optim.AdamW(module.parameters(), lr=1e-3)
    loader = DataLoader(data, BATCH_SIZE, shuffle=True, drop_last=True, collate_fn=collate)
    n_rows = 0
    start = time.process_time()
    for _ in range(epochs):
        for batch in loader:
            loss = module._get_first_phase_loss(batch)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            n_rows += BATCH_SIZE
    return n_rows / (time.process_time() - start)


def run_in_process(python: str, side: str, method: str, epochs: int) -> float:
    """The measurement in a process of its own, with one thread."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [python, __file__, "--measure", side, method, str(epochs)]
    done = subprocess.run(command, env={**os.environ, **threads}, check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> int:
    """Print the table; the exit code is 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", metavar="PYTHON", help="interpreter that has ts3l 0.70")
    parser.add_argument("--turns", type=int, default=3, help="measurements of each side (default 3)")
    parser.add_argument("--measure", nargs=3, metavar=("SIDE", "METHOD", "EPOCHS"), help=argparse.SUPPRESS)
    parser.add_argument("--profile", choices=list(EPOCHS), help="show where one method's time goes")
    options = parser.parse_args()
    if options.profile:
        profile(options.profile)
        return 0
    if options.measure:
        side, method, epochs = options.measure
        print(json.dumps((measure_ours if side == "ours" else measure_other)(method, int(epochs))))
        return 0
    missed = False
    for method, epochs in EPOCHS.items():
        ours, theirs = [], []
        for _ in range(options.turns):
            ours.append(run_in_process(sys.executable, "ours", method, epochs))
            if options.other and method in TARGETS:
                theirs.append(run_in_process(options.other, "other", method, 1))
        line = f"{method:14} tabbench {max(ours):8,.0f} samples per CPU-second"
        if theirs:
            ratio = max(ours) / max(theirs)
            missed |= ratio < TARGETS[method]
            line += f"   ts3l {max(theirs):8,.0f}   {ratio:.1f} times as fast (wanted: {TARGETS[method]:g})"
        print(line, flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
