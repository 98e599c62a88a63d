"""Training speed of downstream networks beside a plain PyTorch loop over the same network.

    OMP_NUM_THREADS=1 python benchmarks/training_speed.py [--rows 20000] [--columns 54] [--rounds 5]

Both sides run the same architecture, optimizer, batches of 512 and one validation pass per epoch, in turns, on one
thread. What tabbench does beyond the plain loop is its overhead: reports, early stopping, copies of the best weights.
Figures are CPU seconds per epoch, the median over the rounds.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tabbench_ft_transformer.model import FTTransformerModel
from tabbench_mlp.model import MLPModel

from tabbench import Context, Labelled, Representation, Task
from tabbench.nn import Batch, InputShape, NetworkModel
from tabbench.nn.training import Network

BATCH = 512
TASK = Task("binary", 2)
EPOCHS = {MLPModel: 4, FTTransformerModel: 1}
SETTINGS: dict[type[NetworkModel], dict[str, Any]] = {
    MLPModel: {"n_layers": 4, "width": 256},
    FTTransformerModel: {"n_blocks": 2, "d_token": 32, "n_heads": 4},  # small: overhead shows more
}


def make_rows(rows: int, columns: int, seed: int) -> Labelled:
    x = np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)
    return Labelled(Representation(x), (x[:, 0] * x[:, 1] > 0).astype(np.int64))


def time_tabbench(model: type[NetworkModel], train: Labelled, validation: Labelled) -> float:
    """CPU seconds per epoch, without the first, which has the start-up of the libraries in it."""
    ticks: list[float] = []
    context = Context(on_report=lambda *_: ticks.append(time.process_time()))
    fitted = model(**SETTINGS[model], batch_size=BATCH, max_epochs=EPOCHS[model] + 1, patience=100)
    fitted.fit(train, validation, TASK, context)
    return (ticks[-1] - ticks[0]) / EPOCHS[model]


def time_plain_loop(model: type[NetworkModel], train: Labelled, validation: Labelled) -> float:
    """The same by hand: what one writes in a notebook."""
    assert isinstance(train.features, Representation)
    assert isinstance(validation.features, Representation)
    x, y = torch.from_numpy(train.features.array), torch.from_numpy(train.y).float()
    x_val, y_val = torch.from_numpy(validation.features.array), torch.from_numpy(validation.y)
    network = Network(model(**SETTINGS[model]).build(InputShape(n_numeric=x.shape[1])), 1)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, fused=True)
    loss_of = torch.nn.BCEWithLogitsLoss()
    ticks: list[float] = []
    for _ in range(EPOCHS[model] + 1):
        network.train()
        for index in torch.split(torch.randperm(len(x)), BATCH):
            optimizer.zero_grad()
            loss = loss_of(network(Batch(numeric=x[index])).squeeze(1), y[index])
            loss.backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            output = torch.cat([network(Batch(numeric=part)) for part in torch.split(x_val, 2 * BATCH)]).squeeze(1)
            float(((output > 0) == y_val).double().mean())
        ticks.append(time.process_time())
    return (ticks[-1] - ticks[0]) / EPOCHS[model]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=54)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    train, validation = make_rows(options.rows, options.columns, 0), make_rows(options.rows // 8, options.columns, 1)
    sides: dict[str, Callable[[type[NetworkModel], Labelled, Labelled], float]] = {
        "tabbench": time_tabbench,
        "plain loop": time_plain_loop,
    }
    for model in SETTINGS:
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(options.rounds):
            for name, run in sides.items():
                seconds[name].append(run(model, train, validation))
        ours, plain = (statistics.median(seconds[name]) for name in sides)
        print(
            f"{model.__name__:20s} tabbench {ours:.3f} s per epoch ({options.rows / ours:,.0f} rows/s), "
            f"plain loop {plain:.3f} s, overhead {100 * (ours / plain - 1):+.1f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
