"""CatBoost with native categories and early stopping on validation."""

from __future__ import annotations

from typing import Any

import catboost
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tabbench import Context, DownstreamModel, Features, Interruption, Labelled, Representation, Task, UsageError
from tabbench.nn import flat_columns
from tabbench_catboost.config import CatBoostConfig

MANY_CLASSES = 200
"""Beyond this, each split is weighed with hundreds of gradients: rounds and depth are capped."""
MANY_CLASSES_ROUNDS = 200
MANY_CLASSES_DEPTH = 6
MANY_CLASSES_ON_CPU = {"border_count": 32, "rsm": 0.1}
"""A tenth of the columns for each split, and few places to split: ten times faster with 200 classes."""
REPORT_EVERY = 10
METRICS = {"binary": ("Logloss", "Accuracy"), "multiclass": ("MultiClass", "Accuracy"), "regression": ("RMSE", "RMSE")}
"""Loss and metric of each kind of task."""


class CatBoost(DownstreamModel):
    """Gradient boosted oblivious trees.

    Tokens (rows, d, h) are laid side by side, reduced to at most 4,096 columns by ``flat_columns``. Results on a GPU
    differ from those on a CPU: the device is part of the diagnostics. On a GPU the library takes no callbacks, so that
    progress is not reported and a deadline is not seen before the end.
    """

    Config = CatBoostConfig

    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        if len(train.y) == 0 or len(validation.y) == 0:
            raise UsageError(f"{len(train.y)} training rows and {len(validation.y)} validation rows: both need some")
        config: CatBoostConfig = self.config
        self.task, self.threads = task, context.threads
        # CatBoost knows only the classes that training rows have; others get probability 0, and validation rows with
        # them cannot be right whatever the model is.
        self.classes = None if task.is_regression else np.unique(train.y)
        self.model: catboost.CatBoost | None = None
        if self.classes is not None and len(self.classes) == 1:
            self.diagnostics = {"constant": True}
            return
        if self.classes is not None:
            validation = _with_classes(validation, self.classes)
        many = task.n_classes > MANY_CLASSES
        n_rounds = min(config.n_rounds, MANY_CLASSES_ROUNDS) if many else config.n_rounds
        on_gpu = context.device.startswith("cuda")
        kind = task.kind if self.classes is None or len(self.classes) > 2 else "binary"
        loss, metric = METRICS[kind]
        parameters = {
            "iterations": n_rounds,
            "depth": min(config.max_depth, MANY_CLASSES_DEPTH) if many else config.max_depth,
            "learning_rate": None if config.lr == "auto" else config.lr,
            "bagging_temperature": config.bagging_temperature,
            "bootstrap_type": "Bayesian",
            "l2_leaf_reg": config.l2_leaf_reg,
            "leaf_estimation_iterations": config.leaf_estimation_iterations or None,
            "loss_function": loss,
            "eval_metric": metric if config.stop_on == "metric" else loss,
            "od_type": "Iter",
            "od_wait": config.patience,
            "task_type": "GPU" if on_gpu else "CPU",
            "thread_count": context.threads,
            "random_seed": context.seed("catboost") % 2**31,
            "allow_writing_files": False,
            "logging_level": "Silent",
        }
        if many and not on_gpu:
            parameters |= MANY_CLASSES_ON_CPU
        if context.memory is not None and not on_gpu:
            parameters["used_ram_limit"] = context.memory
        model = catboost.CatBoost({name: value for name, value in parameters.items() if value is not None})
        report = _Report(context, n_rounds)
        model.fit(
            to_pool(train.features, self.threads, train.y),
            eval_set=to_pool(validation.features, self.threads, validation.y) if len(validation.y) else None,
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
        if self.classes is None:
            assert self.model is not None
            numbers = self.model.predict(to_pool(features, self.threads), thread_count=self.threads)
            return np.asarray(numbers, dtype=np.float32)
        probabilities = np.zeros((len(features), max(self.task.n_classes, 2)), dtype=np.float32)
        if self.model is None:
            probabilities[:, self.classes] = 1.0
        else:
            probabilities[:, self.classes] = self.model.predict(
                to_pool(features, self.threads), prediction_type="Probability", thread_count=self.threads
            )
        return probabilities


class _Report:
    """Tells the harness how far the training is. An exception may not pass through the library: it is kept."""

    def __init__(self, context: Context, n_rounds: int) -> None:
        self.context = context
        self.n_rounds = n_rounds
        self.interruption: Interruption | None = None

    def after_iteration(self, info: Any) -> bool:
        """Whether training goes on."""
        if info.iteration % REPORT_EVERY == 0 and "validation" in info.metrics:
            name, values = next(iter(info.metrics["validation"].items()))
            try:
                self.context.report(
                    info.iteration, self.n_rounds, validation=values[-1] if name == "Accuracy" else -values[-1]
                )
            except Interruption as interruption:
                self.interruption = interruption
                return False
        return True


def to_pool(features: Features, threads: int, y: NDArray[Any] | None = None) -> catboost.Pool:
    """The library's own form of rows: numbers with NaN for missing, category codes as they are."""
    if isinstance(features, Representation):
        return catboost.Pool(flat_columns(features.array), y, thread_count=threads)
    frame = pd.concat(
        [pd.DataFrame(features.numeric).add_prefix("n"), pd.DataFrame(features.categorical).add_prefix("c")], axis=1
    )
    categorical = list(range(features.numeric.shape[1], features.n_features))
    return catboost.Pool(frame, y, cat_features=categorical, thread_count=threads)


def _with_classes(rows: Labelled, classes: NDArray[Any]) -> Labelled:
    known = np.isin(rows.y, classes)
    return rows if known.all() else Labelled(rows.features.take(known), rows.y[known])
