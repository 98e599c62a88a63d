"""A sound SSL method, and methods that each break one promise."""

import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from testing.broken_plugins import fails

from tabbench import (
    Choice,
    Config,
    Context,
    DeadlineReached,
    Float,
    Int,
    Representation,
    SSLMethod,
    State,
    Table,
    TrainableEncoder,
    UsageError,
)
from tabbench.testing import make_table

Array = NDArray[np.float32]


class GoodConfig(Config):
    width: Annotated[int, Int(4, 16)] = 8
    """Length of the embedding."""
    epochs: int = 2
    """Rounds of training."""
    lr: Annotated[float, Float(1e-3, 1e-1, log=True)] = 0.1
    """How much a round changes."""

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return {"quick": {"source": "this test", "epochs": 3}}


class Good(SSLMethod):
    """Random directions of scaled columns, turned towards the directions in which training rows spread."""

    Config = GoodConfig

    def initialise(self, table: Table, context: Context) -> None:
        self.schema = table.schema
        raw = self.columns(table)
        self.mean, self.std = raw.mean(axis=0), raw.std(axis=0) + 1e-3
        self.weights = self.draw(context, raw.shape[1]).astype(np.float32)

    def draw(self, context: Context, n_columns: int) -> NDArray[np.float64]:
        return np.random.default_rng(context.seed("init")).normal(size=(n_columns, self.config.width))

    def pretrain(self, table: Table, context: Context) -> None:
        self.initialise(table, context)
        rows = self.inputs(table)
        for epoch in range(self.config.epochs):
            self.weights += self.config.lr * np.tanh(rows.T @ (rows @ self.weights) / len(rows))
            context.report(epoch + 1, self.config.epochs, spread=float(np.abs(self.weights).mean()))

    def columns(self, table: Table) -> Array:
        parts: list[NDArray[Any]] = [np.nan_to_num(table.numeric), np.isnan(table.numeric)]
        for j, cardinality in enumerate(table.schema.cardinalities):
            parts.append(np.eye(cardinality)[table.categorical[:, j]])
        return np.concatenate(parts, axis=1).astype(np.float32)

    def inputs(self, table: Table) -> Array:
        return np.asarray((self.columns(table) - self.mean) / self.std, dtype=np.float32)

    def encode(self, table: Table) -> Representation:
        # Row by row in float64: a sum must not depend on how many rows are multiplied at a time.
        return Representation(np.tanh(self.inputs(table).astype(np.float64) @ self.weights).astype(np.float32))

    def get_state(self) -> State:
        return {"mean": self.mean, "std": self.std, "weights": self.weights}

    def set_state(self, state: State) -> None:
        self.mean, self.std, self.weights = state["mean"], state["std"], state["weights"]


# Methods: the embedding.


@fails("check_embedding_is_finite_float32")
class GivesDoubles(Good):
    def encode(self, table: Table) -> Representation:
        return Representation(super().encode(table).array.astype(np.float64))


@fails("check_embedding_is_finite_float32")
class GivesInfinities(Good):
    def encode(self, table: Table) -> Representation:
        array = super().encode(table).array
        rare = np.nan_to_num(table.numeric[:, :1]).sum(axis=1) if table.numeric.shape[1] == 4 else np.ones(len(table))
        first = make_table(1, 4, 2, seed=1).numeric[0, 0]
        array[rare == first] = np.inf
        return Representation(array)


@fails("check_encode_is_deterministic")
class DropsOutWhenEncoding(Good):
    def encode(self, table: Table) -> Representation:
        array = super().encode(table).array
        return Representation(array * (np.random.default_rng().random(array.shape) > 0.1))


@fails("check_encode_is_deterministic")
class RemembersWhatItEncoded(Good):
    seen = 0.0

    def encode(self, table: Table) -> Representation:
        array = super().encode(table).array + np.float32(self.seen)
        self.seen += float(np.abs(table.numeric).max(initial=0.0) > 1e5)
        return Representation(array)


@fails("check_rows_are_encoded_alone")
class CentresTheBatch(Good):
    def encode(self, table: Table) -> Representation:
        array = super().encode(table).array
        return Representation(array - array.mean(axis=0))


@fails("check_rows_are_encoded_alone")
class CountsRows(Good):
    def encode(self, table: Table) -> Representation:
        array = super().encode(table).array
        return Representation(array + np.arange(len(array), dtype=np.float32)[:, None])


@fails("check_rows_are_encoded_alone")
class NoticesTheBatchSize(Good):
    def encode(self, table: Table) -> Representation:
        array = super().encode(table).array
        return Representation(array * np.float32(1.5 if len(table) == 7 else 1.0))


@fails("check_every_column_counts")
class ForgetsTheLastCategory(Good):
    def inputs(self, table: Table) -> Array:
        rows = super().inputs(table)
        if table.schema.categorical:
            rows[:, -table.schema.cardinalities[-1] :] = 0
        return rows


# Methods: training.


@fails("check_same_seed_same_embedding")
class IgnoresTheSeed(Good):
    def draw(self, context: Context, n_columns: int) -> NDArray[np.float64]:
        return np.random.default_rng().normal(size=(n_columns, self.config.width))


@fails("check_pretraining_sees_no_labels")
class PriesIntoTheProbe(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        super().pretrain(table, context)
        for cell in getattr(context.probe, "__closure__", None) or ():
            if isinstance(cell.cell_contents, np.ndarray):
                self.weights += np.float32(cell.cell_contents[0])


@fails("check_pretraining_sees_no_labels")
class LooksIntoItsCaller(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        super().pretrain(table, context)
        frame: Any = sys._getframe()
        while frame is not None:
            if frame.f_code.co_name == "_train_among":
                self.weights += np.float32(frame.f_locals["labels"][0])
            frame = frame.f_back


@fails("check_pretraining_sees_no_labels")
class FitsItsY(Good):
    def fit(self, X: pd.DataFrame, y: object = None, **options: Any) -> Self:  # noqa: N803
        super().fit(X, y, **options)
        self.diagnostics["labels"] = len(y)  # type: ignore[arg-type]
        return self


@fails("check_training_sees_no_test_rows")
class ReadsBehindItsRows(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        super().pretrain(table, context)
        whole = table.numeric.base if table.numeric.base is not None else table.numeric
        self.mean = self.mean + np.float32(np.nan_to_num(whole).max(initial=0.0) > 1e5)


@fails("check_validation_rows_are_not_fitted")
class ScalesByValidation(Good):
    def initialise(self, table: Table, context: Context) -> None:
        super().initialise(table, context)
        if context.validation is not None:
            self.std = self.std + np.abs(self.columns(context.validation)).mean(axis=0)


@fails("check_untrained_encoder")
class LearnsNothing(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        self.initialise(table, context)
        context.report(1, 1)


@fails("check_global_generators_are_untouched")
class SeedsTorch(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        torch.manual_seed(context.seed("init"))
        super().pretrain(table, context)


@fails("check_global_generators_are_untouched")
class SeedsNumpy(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        np.random.seed(0)
        super().pretrain(table, context)


@fails("check_global_generators_are_untouched")
class ShufflesByRandom(Good):
    def encode(self, table: Table) -> Representation:
        random.random()
        return super().encode(table)


@fails("check_process_is_untouched")
class TrainsInDouble(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        torch.set_default_dtype(torch.float64)
        super().pretrain(table, context)


@fails("check_inputs_are_untouched")
class ImputesInPlace(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        super().pretrain(table, context)
        if table.numeric.flags.writeable:
            table.numeric[:, :1] = 0.0


@fails("check_inputs_are_untouched")
class NeedsToWrite(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        super().pretrain(table, context)
        table.numeric[:0] = 0.0


@fails("check_deadline_is_respected")
class SwallowsTheDeadline(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        try:
            super().pretrain(table, context)
        except DeadlineReached:
            self.diagnostics["stopped"] = True


@fails("check_deadline_is_respected")
class GoesOnAfterTheDeadline(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        for _ in range(3):
            try:
                super().pretrain(table, context)
            except DeadlineReached:
                continue


@fails("check_deadline_is_respected")
class NeverReports(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        super().pretrain(table, Context(context.root_seed))


@fails("check_it_trains")
class CannotTrain(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        raise RuntimeError("the columns are too few")


@fails("check_trainable_encoder")
class LearnsOnAnotherEncoder(Good):
    def trainable_encoder(self) -> TrainableEncoder:
        rows = lambda table: (torch.from_numpy(self.inputs(table)),)  # noqa: E731
        return TrainableEncoder(torch.nn.Linear(len(self.weights), self.config.width), rows)


# Methods: files.


@fails("check_saved_encoder_encodes_the_same")
class ForgetsItsScale(Good):
    def get_state(self) -> State:
        return {**super().get_state(), "std": np.ones_like(self.std)}


@fails("check_saved_encoder_encodes_the_same")
class RoundsItsWeights(Good):
    def get_state(self) -> State:
        return {**super().get_state(), "weights": np.round(self.weights, 1)}


@fails("check_files_hold_no_code")
class Pickles(Good):
    def save(self, path: str | Path) -> None:
        super().save(path)
        torch.save({"weights": torch.from_numpy(self.weights)}, Path(path) / "weights.pt")


# Methods: tables of every kind.


@fails("check_missing_values")
class FailsOnMissingTrainingValues(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        assert np.isfinite(table.numeric).all()
        super().pretrain(table, context)


@fails("check_missing_values_that_training_did_not_have")
class PassesMissingValuesOn(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        super().pretrain(table, context)
        self.diagnostics["missing"] = bool(np.isnan(table.numeric).any())

    def encode(self, table: Table) -> Representation:
        array = super().encode(table).array
        if not self.diagnostics.get("missing", True):
            array = array + 0 * table.numeric.sum(axis=1, keepdims=True, dtype=np.float32)
        return Representation(array)


@fails("check_unseen_categories")
class FailsOnUnseenCategories(Good):
    def encode(self, table: Table) -> Representation:
        if (table.categorical == 1).any():
            raise IndexError("index 1 is out of range")
        return super().encode(table)


@fails("check_categorical_table")
class NeedsNumbers(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        table.numeric.mean(axis=0)[0]
        super().pretrain(table, context)


@fails("check_numeric_table")
class NeedsCategories(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        if table.n_features > 1:
            table.schema.cardinalities[0]
        super().pretrain(table, context)


@fails("check_one_feature")
class NeedsTwoFeatures(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        table.schema.names[1]
        super().pretrain(table, context)


@fails("check_one_training_row")
class NeedsTwoRows(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        table.numeric[1]
        super().pretrain(table, context)


@fails("check_constant_column")
class DividesByTheSpread(Good):
    def initialise(self, table: Table, context: Context) -> None:
        super().initialise(table, context)
        numbers = table.numeric[:, :1]
        if len(table) > 1 and numbers.size and np.ptp(numbers) == 0:
            self.std = self.std * np.float32(np.nan)


@fails("check_one_feature")
class RefusesWithoutASentence(Good):
    def pretrain(self, table: Table, context: Context) -> None:
        if table.n_features == 1:
            raise UsageError("no")
        super().pretrain(table, context)


# Methods: settings.


@fails("check_settings_are_described")
class SaysNothing(Good):
    class Config(GoodConfig):
        noise: float = 0.0


@fails("check_settings_survive_a_record")
class ChangesWhenReadBack(Good):
    class Config(GoodConfig):
        text: str = "a"
        """A letter that grows."""

        @model_validator(mode="before")
        @classmethod
        def grow(cls, values: Any) -> Any:
            return {**values, "text": values["text"] + "a"} if "text" in values else values


@fails("check_presets_are_valid")
class HasABrokenPreset(Good):
    class Config(GoodConfig):
        @classmethod
        def presets(cls) -> Mapping[str, Mapping[str, Any]]:
            return {"quick": {"epochs": 2}, "paper": {"epohcs": 100}}


@fails("check_search_ranges_are_sound")
class SearchesWhatItRefuses(Good):
    class Config(GoodConfig):
        momentum: Annotated[float, Float(0.0, 1.0)] = Field(0.9, ge=0, lt=1)
        """One is refused, though it is in the range."""


@fails("check_search_ranges_are_sound")
class HasNoChoice(Good):
    class Config(GoodConfig):
        form: Annotated[Literal["a", "b"], Choice("a")] = "a"
        """One of one."""


@fails("check_random_settings_are_valid")
class RefusesMostOfItsSpace(Good):
    class Config(GoodConfig):
        heads: Annotated[int, Int(1, 64)] = 1
        """Few of them fit."""
        size: Annotated[int, Int(1, 64)] = 64
        """A multiple of heads."""

        @model_validator(mode="after")
        def fits(self) -> Self:
            if self.size % self.heads:
                raise ValueError(f"size {self.size} is no multiple of heads {self.heads}")
            return self
