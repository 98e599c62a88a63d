"""What a step costs: an MLP on stored tokens of a frozen T-JEPA, and the same MLP trained together with the encoder.

    python benchmarks/finetuning.py [ROWS COLUMNS]

Prints CPU time of a training step and the peak memory of a process that does nothing else. One thread.
"""

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS = 10
BATCH = 256


def main(how: str, rows: int, columns: int) -> None:
    import numpy as np
    import torch
    from tabbench_mlp.model import MLPModel
    from tabbench_tjepa.method import TJEPA

    from tabbench import Context, Interruption, Labelled, Representation, Schema, Table, Task

    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    numeric = generator.standard_normal((rows, columns), dtype=np.float32)
    table = Table(numeric, np.zeros((rows, 0), dtype=np.int64), Schema(tuple(f"x{j}" for j in range(columns))))
    small = {name: value for name, value in TJEPA.Config.presets()["small"].items() if name != "source"}
    encoder = TJEPA(TJEPA.Config.resolve(small, "tjepa"))
    encoder.initialise(table.take(slice(0, BATCH)), Context())
    marks: list[float] = []

    def enough() -> None:
        marks.append(time.process_time())
        if len(marks) > STEPS:
            raise Interruption

    y = (numeric[:, 0] > 0).astype(np.int64)
    model, task, context = MLPModel(max_epochs=1, batch_size=BATCH), Task("binary", 2), Context(interrupt=enough)
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(Interruption):
        if how == "frozen":
            shape = (rows, columns, encoder.config.model_dim_hidden)
            stored = np.lib.format.open_memmap(Path(folder) / "tokens.npy", "w+", np.float32, shape)
            for start in range(0, rows, BATCH):
                part = stored[start : start + BATCH]
                part[:] = generator.standard_normal(part.shape, dtype=np.float32)
            reset_peak()
            train = Labelled(Representation(stored), y)
            model.fit(train, Labelled(Representation(stored[:BATCH]), y[:BATCH]), task, context)
        else:
            reset_peak()
            train = Labelled(table, y)
            validation = Labelled(table.take(slice(0, BATCH)), y[:BATCH])
            model.finetune(encoder.trainable_encoder(), train, validation, task, context)
    seconds = (marks[-1] - marks[0]) / (len(marks) - 1)
    print(f"{how:<10} {1000 * seconds:8.1f} ms a step   {peak() / 2**20:8.0f} MiB at the most")


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=int, nargs="?", default=50_000)
    parser.add_argument("columns", type=int, nargs="?", default=54)
    parser.add_argument("--how", choices=("frozen", "finetune"), help="measure one of them, in this process")
    asked = parser.parse_args()
    if asked.how:
        main(asked.how, asked.rows, asked.columns)
    else:
        print(f"{asked.rows} rows, {asked.columns} columns, batches of {BATCH}", flush=True)
        for each in ("frozen", "finetune"):
            size = [str(asked.rows), str(asked.columns)]
            subprocess.run([sys.executable, __file__, *size, "--how", each], check=True)
