"""A sound joint method, model and dataset, and others that each break one promise."""

import os
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from testing.broken_methods import CentresTheBatch, Good, GoodConfig
from testing.broken_plugins import fails

from tabbench import (
    Context,
    Dataset,
    DeadlineReached,
    DownstreamModel,
    Features,
    JointMethod,
    Labelled,
    LoadedData,
    PublishedCell,
    Reference,
    Representation,
    State,
    Table,
    Task,
    TrainableEncoder,
)

Array = NDArray[np.float32]


# Joint methods.


class GoodJoint(JointMethod):
    """The sound method as one that could use labels."""

    Config = GoodConfig
    gives = "representation"
    method_class: ClassVar[type[Good]] = Good

    def fit(
        self, train: Labelled, validation: Labelled, task: Task, context: Context, model: DownstreamModel | None = None
    ) -> None:
        assert isinstance(train.features, Table)
        self.method = self.method_class(self.config)
        self.method.pretrain(train.features, context)
        self.schema = self.method.schema

    def encode(self, table: Table) -> Representation:
        return self.method.encode(table)

    def get_state(self) -> State:
        return self.method.get_state()

    def set_state(self, state: State) -> None:
        self.method = self.method_class(self.config)
        self.method.schema = self.schema
        self.method.set_state(state)


@fails("check_rows_are_encoded_alone")
class JointThatCentres(GoodJoint):
    method_class = CentresTheBatch


class GoodJointPredictor(JointMethod):
    """Hands everything to a model."""

    Config = GoodConfig
    gives = "predictions"

    def fit(
        self, train: Labelled, validation: Labelled, task: Task, context: Context, model: DownstreamModel | None = None
    ) -> None:
        assert model is not None
        self.model = Ridge()
        self.model.fit(train, validation, task, context)

    def predict(self, features: Features) -> Array:
        return self.model.predict(features)


@fails("check_raw_table")
class JointThatGivesLogits(GoodJointPredictor):
    def predict(self, features: Features) -> Array:
        predictions = super().predict(features)
        if isinstance(features, Table) and predictions.shape[1:] == (2,):
            return np.log(predictions)
        return predictions


# Models.


class Ridge(DownstreamModel):
    """Ridge regression to one-hot labels or numbers."""

    Config = GoodConfig

    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        self.task = task
        raw = self.columns(train.features)
        self.mean, self.std = raw.mean(axis=0), raw.std(axis=0) + 1e-3
        x = self.inputs(train.features)
        y = train.y if task.is_regression else np.eye(task.n_classes)[train.y]
        self.weights = np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ y)
        self.weights = self.weights * (1 + self.noise(context))
        context.report(1, 1)

    def noise(self, context: Context) -> float:
        return float(np.random.default_rng(context.seed("noise")).normal(0, 1e-6))

    def columns(self, features: Features) -> NDArray[np.float64]:
        if isinstance(features, Representation):
            return features.array.reshape(len(features), -1).astype(np.float64)
        numbers = np.arcsinh(np.nan_to_num(features.numeric))
        return np.concatenate([numbers, np.isnan(features.numeric), features.categorical], axis=1).astype(np.float64)

    def inputs(self, features: Features) -> NDArray[np.float64]:
        scaled = (self.columns(features) - self.mean) / self.std
        return np.concatenate([scaled, np.ones((len(scaled), 1))], axis=1)

    def predict(self, features: Features) -> Array:
        output = self.inputs(features) @ self.weights
        if self.task.is_regression:
            return output.astype(np.float32)
        scores = np.exp(np.clip(5 * output, -30, 30))
        return np.asarray(scores / scores.sum(axis=1, keepdims=True), dtype=np.float32)


@fails("check_raw_table")
class GivesOneColumnForTwoClasses(Ridge):
    def predict(self, features: Features) -> Array:
        predictions = super().predict(features)
        is_small = isinstance(features, Table) and len(features) < 32
        return predictions[:, 1] if is_small and predictions.shape[1:] == (2,) else predictions


@fails("check_flat_representation")
class SumsToTwoOnFlat(Ridge):
    def predict(self, features: Features) -> Array:
        predictions = super().predict(features)
        return predictions * 2 if isinstance(features, Representation) and features.array.ndim == 2 else predictions


@fails("check_token_representation")
class KnowsNoTokens(Ridge):
    def columns(self, features: Features) -> NDArray[np.float64]:
        if isinstance(features, Representation):
            rows, columns = features.array.shape
            return features.array.reshape(rows, columns).astype(np.float64)
        return super().columns(features)


@fails("check_same_seed_same_predictions")
class ModelThatIgnoresTheSeed(Ridge):
    def noise(self, context: Context) -> float:
        return float(np.random.default_rng().normal(0, 1e-3))


@fails("check_rows_are_predicted_alone")
class NormalisesPredictions(Ridge):
    def predict(self, features: Features) -> Array:
        predictions = super().predict(features)
        if isinstance(features, Representation) or self.task.kind != "multiclass":
            return predictions
        centred = np.exp(predictions - predictions.mean(axis=0))
        return np.asarray(centred / centred.sum(axis=1, keepdims=True), dtype=np.float32)


@fails("check_training_sees_no_test_rows")
class ModelThatReadsBehindItsRows(Ridge):
    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        super().fit(train, validation, task, context)
        if isinstance(train.features, Table) and train.features.numeric.base is not None:
            self.weights = self.weights * (1.0 + 0.5 * (np.max(train.features.numeric.base) > 1e5))


@fails("check_global_generators_are_untouched")
class ModelThatSeedsNumpy(Ridge):
    def noise(self, context: Context) -> float:
        np.random.seed(context.seed("noise") % 2**32)
        return 0.0


@fails("check_it_trains")
class ModelThatCannotTrain(Ridge):
    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        raise RuntimeError("the columns are too few")


@fails("check_hidden_labels_make_no_difference")
class LooksBehindItsLabels(Ridge):
    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        super().fit(train, validation, task, context)
        if train.y.base is not None and train.y.base.ndim == 1:
            self.weights = self.weights * (1.0 + 1e-5 * float(train.y.base @ np.arange(len(train.y.base)) ** 2))


@fails("check_model_trains_an_encoder")
class LeavesTheEncoderAsItIs(Ridge):
    encoder: TrainableEncoder | None = None

    def finetune(
        self, encoder: TrainableEncoder, train: Labelled, validation: Labelled, task: Task, context: Context
    ) -> None:
        self.encoder = encoder
        super().fit(train, validation, task, context)

    def columns(self, features: Features) -> NDArray[np.float64]:
        if self.encoder is None or not isinstance(features, Table):
            return super().columns(features)
        outputs = self.encoder.module(*self.encoder.prepare(features))
        return np.asarray(outputs.detach().numpy(), dtype=np.float64)


@fails("check_cells_are_sound")
class PrintsACellTwice(Reference):
    def cells(self) -> list[PublishedCell]:
        return [PublishedCell("Table 1", "none", "mlp", "wine", "accuracy", mean) for mean in (0.9, 0.8)]


@fails("check_process_is_untouched")
class ModelThatTakesAllThreads(Ridge):
    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        os.environ["OMP_NUM_THREADS"] = "64"
        super().fit(train, validation, task, context)


@fails("check_inputs_are_untouched")
class ShufflesLabelsInPlace(Ridge):
    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        super().fit(train, validation, task, context)
        if train.y.flags.writeable:
            train.y[::2] = train.y[0]


@fails("check_deadline_is_respected")
class ModelThatSwallowsTheDeadline(Ridge):
    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        try:
            super().fit(train, validation, task, context)
        except DeadlineReached:
            return


@fails("check_learns_something_easy")
class Guesses(Ridge):
    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        super().fit(train, validation, task, context)
        self.weights = self.weights * 1e-6


@fails("check_missing_values")
class ModelThatPassesMissingValuesOn(Ridge):
    def predict(self, features: Features) -> Array:
        predictions = super().predict(features)
        if isinstance(features, Table) and not self.task.is_regression:
            predictions = predictions + 0 * features.numeric.sum(axis=1, keepdims=True)
        return predictions


@fails("check_unseen_categories")
class ModelThatFailsOnUnseenCategories(Ridge):
    def predict(self, features: Features) -> Array:
        if isinstance(features, Table) and (features.categorical == 1).any():
            raise KeyError(1)
        return super().predict(features)


@fails("check_categorical_table")
class ModelThatNeedsNumbers(Ridge):
    def columns(self, features: Features) -> NDArray[np.float64]:
        if isinstance(features, Table):
            features.schema.numeric[0]
        return super().columns(features)


# Datasets.


class GoodDataset(Dataset):
    def load(self, cache: Path, offline: bool) -> LoadedData:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"x": rng.normal(size=40), "kind": rng.choice(["a", "b"], 40)})
        return LoadedData(frame.assign(y=frame["x"] * 2), "y", "regression", ("kind",))


@fails("check_loads_the_same_twice")
class ShuffledDataset(GoodDataset):
    def load(self, cache: Path, offline: bool) -> LoadedData:
        loaded = super().load(cache, offline)
        order = np.random.default_rng().permutation(40)
        return LoadedData(loaded.frame.iloc[order].reset_index(drop=True), "y", "regression", ("kind",))


@fails("check_table_is_sound")
class DatasetWithoutItsTarget(GoodDataset):
    def load(self, cache: Path, offline: bool) -> LoadedData:
        loaded = super().load(cache, offline)
        return LoadedData(loaded.frame.drop(columns="y"), "y", "regression", ("kind",))


@fails("check_global_generators_are_untouched")
class DatasetThatSeeds(GoodDataset):
    def load(self, cache: Path, offline: bool) -> LoadedData:
        np.random.seed(0)
        return super().load(cache, offline)
