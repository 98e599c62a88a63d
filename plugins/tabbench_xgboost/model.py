"""XGBoost with native categories and early stopping on validation."""

from __future__ import annotations

from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from tabbench import FIRST_LEVEL, Context, DownstreamModel, Features, Labelled, Representation, State, Task, UsageError
from tabbench.nn import MAX_FLAT_COLUMNS, flat_columns, max_flat_columns
from tabbench_xgboost.config import XGBoostConfig

MANY_CLASSES = 200
"""With more classes, 2,000 rounds would mean 2,000 trees per class, so rounds, depth and bins are capped.

One tree with a vector of 200 numbers in each leaf is ten times slower than 200 trees, and worse (XGBoost 3.2).
"""
MANY_CLASSES_ROUNDS = 200
MANY_CLASSES_DEPTH = 6
MANY_CLASSES_BINS = 64
REPORT_EVERY = 10
METRICS = {
    "binary": ("binary:logistic", "error", "logloss"),
    "multiclass": ("multi:softprob", "merror", "mlogloss"),
    "regression": ("reg:squarederror", "rmse", "rmse"),
}
"""Objective, metric and loss of each kind of task."""


class XGBoost(DownstreamModel):
    """Gradient-boosted trees. Missing numbers, and missing or unknown categories, are missing values.

    Tokens (rows, d, h) are flattened and reduced by ``flat_columns`` to at most 4,096 columns, or to what fits into a
    quarter of the job's memory.
    """

    Config = XGBoostConfig

    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        if len(train.y) == 0 or len(validation.y) == 0:
            raise UsageError(f"{len(train.y)} training rows and {len(validation.y)} validation rows: both are needed")
        config: XGBoostConfig = self.config
        self.task, self.threads = task, context.threads
        self.max_columns = max_flat_columns(len(train.y), context.memory)
        many = task.n_classes > MANY_CLASSES
        n_rounds = min(config.n_rounds, MANY_CLASSES_ROUNDS) if many else config.n_rounds
        max_bin = MANY_CLASSES_BINS if many else 256
        objective, metric, loss = METRICS[task.kind]
        parameters = {
            **config.model_dump(include={"min_child_weight", "subsample", "colsample_bytree", "colsample_bylevel"}),
            **config.model_dump(include={"gamma", "reg_lambda", "reg_alpha"}),
            "learning_rate": config.lr,
            "max_depth": min(config.max_depth, MANY_CLASSES_DEPTH) if many else config.max_depth,
            "max_bin": max_bin,
            "max_cat_to_onehot": 4 if config.categories == "partition" else 2**31 - 1,
            "objective": objective,
            "eval_metric": _watched(task, metric, loss) if config.stop_on == "metric" else loss,
            "tree_method": "hist",
            "device": context.device if context.device.startswith("cuda") else "cpu",
            "nthread": context.threads,
            "seed": context.seed("xgboost") % 2**31,
        }
        if task.kind == "multiclass":
            parameters["num_class"] = task.n_classes
        if task.kind == "binary":  # the share of a class; it may be absent, but its log-odds must be finite
            share = np.average(train.y, weights=context.weights)
            parameters["base_score"] = float(np.clip(share, 1e-3, 1 - 1e-3))
        matrix, types = to_matrix(train.features, self.max_columns)
        data = xgb.QuantileDMatrix(
            matrix,
            train.y,
            weight=context.weights,
            feature_types=types,
            enable_categorical=True,
            max_bin=max_bin,
            nthread=context.threads,
        )
        held_out = xgb.QuantileDMatrix(
            to_matrix(validation.features, self.max_columns)[0],
            validation.y,
            ref=data,
            feature_types=types,
            enable_categorical=True,
            max_bin=max_bin,
            nthread=context.threads,
        )
        self.booster = xgb.train(
            parameters,
            data,
            n_rounds,
            evals=[(held_out, "validation")],
            early_stopping_rounds=config.patience,
            callbacks=[_Report(context, n_rounds)],
            verbose_eval=False,
        )
        self.n_trees = self.booster.best_iteration + 1
        self.diagnostics = {
            "best_round": self.n_trees,
            "n_rounds": self.booster.num_boosted_rounds(),
            "device": parameters["device"],
            "capped": many,
        }

    def predict(self, features: Features) -> NDArray[np.float32]:
        if len(features) == 0:  # otherwise the library warns and forgets the classes
            width = () if self.task.is_regression else (max(self.task.n_classes, 2),)
            return np.empty((0, *width), dtype=np.float32)
        matrix, types = to_matrix(features, self.max_columns)
        data = xgb.DMatrix(matrix, feature_types=types, enable_categorical=True, nthread=self.threads)
        output = np.asarray(self.booster.predict(data, iteration_range=(0, self.n_trees)), dtype=np.float32)
        return np.stack([1 - output, output], axis=1) if self.task.kind == "binary" else output

    def get_state(self) -> State:
        booster = np.frombuffer(bytes(self.booster.save_raw("ubj")), dtype=np.uint8)
        return {"booster.ubj": booster, "sizes": np.array([self.n_trees, self.max_columns], dtype=np.int64)}

    def set_state(self, state: State, task: Task, device: str = "cpu") -> None:
        self.task, self.threads = task, 1
        self.n_trees, self.max_columns = (int(size) for size in state["sizes"])
        self.booster = xgb.Booster()
        self.booster.load_model(bytearray(state["booster.ubj"].tobytes()))
        self.booster.set_param({"device": device if device.startswith("cuda") else "cpu", "nthread": 1})


def _watched(task: Task, metric: str, loss: str) -> str:
    """The library's name for the main metric; the loss instead of macro averages, which it lacks."""
    return {"": metric, "auroc": "auc", "mae": "mae", "r2": "rmse"}.get(task.metric, loss)


class _Report(xgb.callback.TrainingCallback):
    """Reports progress to the harness; a deadline or a pruned trial ends training with an exception."""

    def __init__(self, context: Context, n_rounds: int) -> None:
        self.context = context
        self.n_rounds = n_rounds

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if (epoch + 1) % REPORT_EVERY == 0:
            name, values = next(iter(evals_log["validation"].items()))
            score = 1 - values[-1] if name.endswith("error") else values[-1] if name == "auc" else -values[-1]
            self.context.report(epoch + 1, self.n_rounds, validation=score)
        elif epoch < REPORT_EVERY:  # no score yet, but whoever watches learns how long a round takes
            self.context.report(epoch + 1, self.n_rounds)
        self.context.check_deadline(f"after {epoch + 1} of {self.n_rounds} rounds")  # a single round can take minutes
        return False


def to_matrix(features: Features, max_columns: int = MAX_FLAT_COLUMNS) -> tuple[NDArray[np.float32], list[str]]:
    """One float32 matrix with NaN for missing, and the type of each column: ``q`` for numbers, ``c`` for categories."""
    if isinstance(features, Representation):
        matrix = flat_columns(features.array, max_columns)
        return matrix, ["q"] * matrix.shape[1]
    codes = features.categorical.astype(np.float32) - FIRST_LEVEL
    codes[codes < 0] = np.nan
    types = ["q"] * features.numeric.shape[1] + ["c"] * codes.shape[1]
    return np.concatenate([features.numeric, codes], axis=1), types
