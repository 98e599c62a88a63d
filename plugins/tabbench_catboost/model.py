"""CatBoost with native categories and early stopping on validation."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import catboost
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tabbench import Context, DownstreamModel, Features, Interruption, Labelled, Representation, State, Task, UsageError
from tabbench.nn import MAX_FLAT_COLUMNS, flat_columns, max_flat_columns
from tabbench_catboost.config import CatBoostConfig

MANY_CLASSES = 200
"""With more classes, each split weighs hundreds of gradients, so rounds and depth are capped."""
MANY_CLASSES_ROUNDS = 200
MANY_CLASSES_DEPTH = 6
MANY_CLASSES_ON_CPU: dict[str, Any] = {"border_count": 32, "rsm": 0.1, "leaf_estimation_method": "Gradient"}
"""A tenth of the columns per split and few split points: ten times faster with 200 classes.

Newton's method would need a classes x classes matrix for every leaf: 8 MB each with 1,000 classes.
"""
MANY_CLASSES_LR = 0.2
"""About what the library's rule gives for 200 rounds; the library does not apply it to gradient steps."""
REPORT_EVERY = 10
ROWS_AT_ONCE = 4096
METRICS = {"binary": ("Logloss", "Accuracy"), "multiclass": ("MultiClass", "Accuracy"), "regression": ("RMSE", "RMSE")}
"""Loss and metric of each kind of task."""
HIGHER_IS_BETTER = ("Accuracy", "AUC", "R2")


class CatBoost(DownstreamModel):
    """Gradient-boosted oblivious trees.

    Tokens (rows, d, h) are flattened and reduced by ``flat_columns`` to at most 4,096 columns, or to what fits into a
    quarter of the job's memory. Results on a GPU differ from those on a CPU, so the device is part of the diagnostics.
    On a GPU the library takes no callbacks, so there is no progress, and a deadline is noticed only at the end.
    """

    Config = CatBoostConfig

    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        if len(train.y) == 0 or len(validation.y) == 0:
            raise UsageError(f"{len(train.y)} training rows and {len(validation.y)} validation rows: both are needed")
        config: CatBoostConfig = self.config
        self.task, self.threads = task, context.threads
        self.max_columns = max_flat_columns(len(train.y), context.memory)
        # CatBoost knows only the classes of training rows. Others get probability 0, so no model can be right on
        # validation rows of those classes.
        self.classes = None if task.is_regression else np.unique(train.y)
        self.model: catboost.CatBoost | None = None
        if np.all(train.y == train.y[0]) or is_constant(train.features):  # the library refuses these
            self.constant = _without_features(train.y, task, context.weights)
            self.diagnostics = {"constant": True}
            return
        if self.classes is not None:
            validation = _with_classes(validation, self.classes)
        many = task.n_classes > MANY_CLASSES
        n_rounds = min(config.n_rounds, MANY_CLASSES_ROUNDS) if many else config.n_rounds
        on_gpu = context.device.startswith("cuda")
        kind = task.kind if self.classes is None or len(self.classes) > 2 else "binary"
        loss, metric = METRICS[kind]
        parameters: dict[str, Any] = {
            "iterations": n_rounds,
            "depth": min(config.max_depth, MANY_CLASSES_DEPTH) if many else config.max_depth,
            "learning_rate": None if config.lr == "auto" else config.lr,
            "bagging_temperature": config.bagging_temperature,
            "bootstrap_type": None if config.bagging_temperature is None else "Bayesian",
            "l2_leaf_reg": config.l2_leaf_reg,
            "leaf_estimation_iterations": config.leaf_estimation_iterations,
            "loss_function": loss,
            "eval_metric": _watched(task, metric, loss) if config.stop_on == "metric" else loss,
            "od_type": "Iter",
            "od_wait": config.patience,
            "task_type": "GPU" if on_gpu else "CPU",
            "devices": (context.device.partition(":")[2] or "0") if on_gpu else None,  # otherwise it uses all of them
            "thread_count": context.threads,
            "random_seed": context.seed("catboost") % 2**31,
            "allow_writing_files": False,
            "logging_level": "Silent",
        }
        if many and not on_gpu:
            parameters |= MANY_CLASSES_ON_CPU
            parameters["learning_rate"] = parameters["learning_rate"] or MANY_CLASSES_LR
        if context.memory is not None and not on_gpu:
            parameters["used_ram_limit"] = context.memory
        model = catboost.CatBoost({name: value for name, value in parameters.items() if value is not None})
        report = _Report(context, n_rounds)
        model.fit(
            self._pool(train.features, train.y, context.weights),
            eval_set=self._pool(validation.features, validation.y) if len(validation.y) else None,
            use_best_model=len(validation.y) > 0,
            callbacks=None if on_gpu else [report],
        )
        if report.interruption is not None:
            raise report.interruption
        self.model = model
        self.diagnostics = {
            "best_round": int(model.tree_count_),
            "device": parameters["task_type"],
            "capped": many,
            "lr": float(model.get_all_params()["learning_rate"]),
        }

    def predict(self, features: Features) -> NDArray[np.float32]:
        if self.model is None:
            return np.repeat(self.constant[None], len(features), axis=0)
        if self.classes is None:
            numbers = self.model.predict(self._pool(features), thread_count=self.threads)
            return np.asarray(numbers, dtype=np.float32)
        probabilities = np.zeros((len(features), max(self.task.n_classes, 2)), dtype=np.float32)
        probabilities[:, self.classes] = self.model.predict(
            self._pool(features), prediction_type="Probability", thread_count=self.threads
        )
        return probabilities

    def get_state(self) -> State:
        state: State = {"max_columns": np.array(self.max_columns)}
        if self.classes is not None:
            state["classes"] = self.classes
        if self.model is None:
            return state | {"constant": self.constant}
        with tempfile.TemporaryDirectory() as folder:  # the library can only write to files
            file = Path(folder) / "model.cbm"
            self.model.save_model(str(file), format="cbm")
            return state | {"model.cbm": np.frombuffer(file.read_bytes(), dtype=np.uint8)}

    def set_state(self, state: State, task: Task, device: str = "cpu") -> None:
        self.task, self.threads, self.max_columns = task, 1, int(state["max_columns"])
        self.classes, self.model = state.get("classes"), None
        if "constant" in state:
            self.constant = state["constant"]
        else:
            self.model = catboost.CatBoost().load_model(blob=state["model.cbm"].tobytes())

    def _pool(
        self, features: Features, y: NDArray[Any] | None = None, weights: NDArray[np.float32] | None = None
    ) -> catboost.Pool:
        return to_pool(features, self.threads, y, self.max_columns, weights)


def _watched(task: Task, metric: str, loss: str) -> str:
    """The library's name for the main metric; the loss if it has none."""
    auroc = "AUC" if task.kind == "binary" else loss
    return {"": metric, "auroc": auroc, "mae": "MAE", "r2": "R2"}.get(task.metric, loss)


class _Report:
    """Reports progress to the harness. Exceptions must not pass through the library, so they are kept."""

    def __init__(self, context: Context, n_rounds: int) -> None:
        self.context = context
        self.n_rounds = n_rounds
        self.interruption: Interruption | None = None

    def after_iteration(self, info: Any) -> bool:
        """Whether to continue training."""
        try:
            if info.iteration % REPORT_EVERY == 0 and "validation" in info.metrics:
                name, values = next(iter(info.metrics["validation"].items()))
                self.context.report(
                    info.iteration, self.n_rounds, validation=values[-1] if name in HIGHER_IS_BETTER else -values[-1]
                )
            elif info.iteration < REPORT_EVERY:  # no score yet, but whoever watches learns how long a round takes
                self.context.report(info.iteration, self.n_rounds)
            self.context.check_deadline(
                f"after {info.iteration} of {self.n_rounds} rounds"
            )  # a single round can take minutes
        except Interruption as interruption:
            self.interruption = interruption
        return self.interruption is None


def to_pool(
    features: Features,
    threads: int,
    y: NDArray[Any] | None = None,
    max_columns: int = MAX_FLAT_COLUMNS,
    weights: NDArray[np.float32] | None = None,
) -> catboost.Pool:
    """Rows in the library's format: numbers with NaN for missing, and category codes."""
    if isinstance(features, Representation):
        return catboost.Pool(flat_columns(features.array, max_columns), y, weight=weights, thread_count=threads)
    frame = pd.concat(
        [pd.DataFrame(features.numeric).add_prefix("n"), pd.DataFrame(features.categorical).add_prefix("c")], axis=1
    )
    categorical = list(range(features.numeric.shape[1], features.n_features))
    return catboost.Pool(frame, y, cat_features=categorical, weight=weights, thread_count=threads)


def is_constant(features: Features) -> bool:
    """Whether all rows are the same; stops at the first that differs."""
    if isinstance(features, Representation):
        arrays: tuple[NDArray[Any], ...] = (features.array,)
    else:
        arrays = (features.numeric, features.categorical)
    return all(
        np.array_equal(part, np.broadcast_to(array[0], part.shape), equal_nan=array.dtype.kind == "f")
        for array in arrays
        for part in (array[start : start + ROWS_AT_ONCE] for start in range(0, len(array), ROWS_AT_ONCE))
    )


def _without_features(y: NDArray[Any], task: Task, weights: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """The best constant prediction: the mean, or the shares of the classes."""
    if task.is_regression:
        return np.asarray(np.average(y, weights=weights), dtype=np.float32)
    counts = np.bincount(y, weights=weights, minlength=max(task.n_classes, 2))
    shares: NDArray[np.float32] = (counts / counts.sum()).astype(np.float32)
    return shares


def _with_classes(rows: Labelled, classes: NDArray[Any]) -> Labelled:
    known = np.isin(rows.y, classes)
    return rows if known.all() else Labelled(rows.features.take(known), rows.y[known])
