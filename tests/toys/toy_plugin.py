"""Unpublished plugins for tests of the harness: fast, without torch, and with every way to go wrong."""

import ctypes
import os
import time
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tabbench import (
    Choice,
    Context,
    DownstreamModel,
    Event,
    Executor,
    Features,
    Float,
    Int,
    Job,
    Labelled,
    Plugin,
    Representation,
    Site,
    SSLMethod,
    State,
    Table,
    Task,
    hookimpl,
    run_job,
)
from tabbench import Config as BaseConfig


class RandomProjection(SSLMethod):
    """Projects standardised numbers to eight random directions; "training" scales them by the data."""

    class Config(BaseConfig):
        width: Annotated[int, Int(2, 16)] = 8
        """Directions."""
        collapse: bool = False
        """Encode every row alike."""
        sleep: float = 0.0
        """Seconds that training takes."""
        behave: Literal["well", "fail", "exit", "leak"] = "well"
        """What training does."""

    def initialise(self, table: Table, context: Context) -> None:
        self.schema = table.schema
        self.mean = np.nan_to_num(np.nanmean(table.numeric, axis=0))
        generator = np.random.default_rng(context.seed("weights"))
        self.weights = generator.normal(size=(len(self.mean), self.config.width)).astype(np.float32)

    def pretrain(self, table: Table, context: Context) -> None:
        self.initialise(table, context)
        for step in range(10):
            time.sleep(self.config.sleep / 10)
            context.report(step + 1, 10, loss=1.0 / (step + 1), probe=self.config.width + 0.01 * step)
        misbehave(self.config.behave)
        if self.config.behave == "exit":
            os._exit(7)
        self.weights = self.weights / (1e-6 + np.nanstd(table.numeric, axis=0, dtype=np.float32)[:, None])
        self.diagnostics["rows"] = len(table)

    def encode(self, table: Table) -> Representation:
        numbers = np.nan_to_num(table.numeric - self.mean).astype(np.float32)
        codes = numbers @ self.weights.astype(np.float32)
        return Representation(np.ones_like(codes) if self.config.collapse else codes)

    def get_state(self) -> State:
        return {"mean": self.mean, "weights": self.weights}

    def set_state(self, state: State) -> None:
        self.mean, self.weights = state["mean"], state["weights"]


class NearestMean(DownstreamModel):
    """Predicts the class whose training mean is nearest, or the training mean of a regression target."""

    class Config(BaseConfig):
        shrink: Annotated[float, Float(1e-3, 10.0, log=True)] = 1.0
        """How much means are drawn to zero."""
        power: Annotated[int, Choice(1, 2, 3)] = 2
        """Of the distance."""
        bad_above: float = 1e9
        """Fail if ``shrink`` is above this."""
        sleep: float = 0.0
        """Seconds that training takes."""
        behave: dict[int, str] | None = None
        """What training does with a seed: fail, hang, segfault, eat memory, leak state or leak and fail."""
        constant: bool = False
        """Predict the same class always."""

    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        misbehave((self.config.behave or {}).get(context.root_seed, "well"))
        epochs = 10
        for epoch in range(epochs):
            time.sleep(self.config.sleep / epochs)
            context.report(epoch + 1, epochs, validation=-self.config.shrink + 0.01 * epoch)
        if self.config.shrink > self.config.bad_above:
            raise RuntimeError("shrink is too large")
        self.task = task
        rows = _matrix(train.features)
        self.mean, self.std = rows.mean(axis=0), rows.std(axis=0) + 1e-6
        rows = (rows - self.mean) / self.std
        if task.is_regression:
            target = train.y.astype(np.float64)
            self.weights = np.linalg.lstsq(rows.T @ rows + np.eye(rows.shape[1]), rows.T @ target, rcond=None)[0]
        else:
            noise = np.random.default_rng(context.seed("noise")).normal(0, 1e-3, (task.n_classes, rows.shape[1]))
            self.means = np.stack([rows[train.y == k].mean(axis=0) for k in range(task.n_classes)]) + noise
            self.means /= 1 + self.config.shrink
        self.diagnostics["best_epoch"] = epochs

    def predict(self, features: Features) -> NDArray[np.float32]:
        rows = (_matrix(features) - self.mean) / self.std
        if self.task.is_regression:
            return np.asarray(rows @ self.weights, dtype=np.float32)
        if self.config.constant:
            return np.tile(np.eye(self.task.n_classes, dtype=np.float32)[0], (len(rows), 1))
        distances = (np.abs(rows[:, None, :] - self.means[None]) ** self.config.power).sum(axis=2)
        scores = np.exp(-(distances - distances.min(axis=1, keepdims=True)))
        return np.asarray(scores / scores.sum(axis=1, keepdims=True), dtype=np.float32)


class InProcess(Executor):
    """Runs each job in this process as soon as it is submitted: no worker has to start."""

    slots = 1

    def __init__(self, site: Site, config: BaseConfig | None = None) -> None:
        super().__init__(site, config)
        self.events: list[Event] = []

    def submit(self, job: Job) -> None:
        def report(step: int, total: int, metrics: dict[str, float]) -> None:
            self.events.append(Event(job.key, step, total, metrics))

        self.events.append(Event(job.key, outcome=run_job(job, self.site.limits, report)))

    def wait(self, seconds: float) -> list[Event]:
        events, self.events = self.events, []
        return events

    def close(self) -> None:
        pass


def _matrix(features: Features) -> NDArray[Any]:
    array = features.numeric if isinstance(features, Table) else features.array
    return np.nan_to_num(np.asarray(array, dtype=np.float64).reshape(len(array), -1))


def misbehave(how: str) -> None:
    if "leak" in how:
        import torch

        torch.set_default_dtype(torch.float64)
        np.seterr(all="raise")
        os.environ["LEAKED"] = "yes"
        os.chdir("/")
    if "fail" in how:
        raise RuntimeError("the toy was told to fail")
    if how == "hang":
        time.sleep(3600)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "eat":
        hoard = []
        while True:
            hoard.append(np.ones(2**23))
            time.sleep(0.01)


@hookimpl
def tabbench_ssl_methods() -> list[Plugin]:
    return [Plugin("projection", f"{__name__}:RandomProjection", summary="random projection")]


@hookimpl
def tabbench_models() -> list[Plugin]:
    return [Plugin("nearest", f"{__name__}:NearestMean", summary="nearest class mean")]


@hookimpl
def tabbench_executors() -> list[Plugin]:
    return [Plugin("inline", f"{__name__}:InProcess", summary="in the driver's own process")]
