"""An unpublished method for tests of clusters: it trains by sleeping, keeps a checkpoint, and leaves a trace."""

import json
import os
import socket
import time
from pathlib import Path

import numpy as np

from tabbench import Config as BaseConfig
from tabbench import Context, Plugin, Representation, SSLMethod, State, Table, hookimpl


class Patient(SSLMethod):
    """Scales the numbers of a table, slowly."""

    class Config(BaseConfig):
        epochs: int = 10
        """How many."""
        seconds: float = 1.0
        """How long each takes."""
        eat: int = 0
        """Megabytes to allocate in the third epoch."""
        trace: str = ""
        """A file: each epoch adds a line with where it ran. Another, NAME.starts, has such a line for each start."""
        gate: str = ""
        """A file without which the third epoch does not begin."""

    def initialise(self, table: Table, context: Context) -> None:
        self.schema = table.schema
        self.mean = np.nan_to_num(np.nanmean(table.numeric, axis=0)).astype(np.float32)
        self.trained = np.zeros(1, dtype=np.float32)

    def pretrain(self, table: Table, context: Context) -> None:
        self.initialise(table, context)
        assert context.scratch is not None
        checkpoint = context.scratch / "epoch.json"
        done = json.loads(checkpoint.read_text()) if checkpoint.exists() else 0
        self._leave_trace(done, ".starts")
        for epoch in range(done, self.config.epochs):
            while self.config.gate and epoch == 2 and not Path(self.config.gate).exists():
                time.sleep(0.1)
                context.check_deadline("at the gate")
            for _ in range(10):
                time.sleep(self.config.seconds / 10)
                context.check_deadline(f"in epoch {epoch + 1}")
            if self.config.eat and epoch == 2:
                eaten = np.ones(self.config.eat * 2**17)
                time.sleep(20)
                del eaten
            self._leave_trace(epoch + 1)
            draft = checkpoint.with_suffix(".draft")
            draft.write_text(json.dumps(epoch + 1))
            draft.replace(checkpoint)
            context.report(epoch + 1, self.config.epochs, loss=1.0 / (epoch + 1))
        self.trained[0] = self.config.epochs

    def _leave_trace(self, epoch: int, file: str = "") -> None:
        if self.config.trace:
            node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
            with Path(f"{self.config.trace}{file}").open("a") as lines:
                lines.write(f"{epoch} {node} {os.getpid()}\n")

    def encode(self, table: Table) -> Representation:
        return Representation(np.nan_to_num(table.numeric - self.mean).astype(np.float32))

    def get_state(self) -> State:
        return {"mean": self.mean, "trained": self.trained}

    def set_state(self, state: State) -> None:
        self.mean, self.trained = state["mean"], state["trained"]


@hookimpl
def tabbench_ssl_methods() -> list[Plugin]:
    return [Plugin("patient", f"{__name__}:Patient", summary="sleeps")]
