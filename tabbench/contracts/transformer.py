"""The scikit-learn interface of SSL methods: ``fit``, ``transform``, ``get_params`` and the rest.

scikit-learn takes a second to import, so nothing imports this module before a method is asked for.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from tabbench.config import Config as AnyConfig
from tabbench.config import Settings
from tabbench.context import Context
from tabbench.contracts.configurable import Configurable
from tabbench.errors import DataError, PluginError
from tabbench.frames import fit_schema, to_table, unique_names
from tabbench.values import FIRST_LEVEL, MISSING, JsonObject, Representation, Schema, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    class _Estimator:
        """What type checkers know of scikit-learn's base classes, which have no types."""

        def set_output(self, *, transform: str | None = None) -> Self: ...

        def __sklearn_tags__(self) -> Any: ...
else:
    from sklearn.base import BaseEstimator, TransformerMixin

    class _Estimator(TransformerMixin, BaseEstimator):
        pass


COMMON: Mapping[str, Any] = {"random_state": 0, "device": "cpu"}
"""Parameters that every transformer has besides its settings, with their defaults."""


class Transformer(_Estimator, Configurable, ABC):
    """A class with a Config as a scikit-learn transformer.

    Its parameters are the fields of ``Config``, ``random_state`` and ``device``. As usual in scikit-learn, a wrong name
    is refused at once, a wrong value when first used.
    """

    schema: Schema
    random_state: Any
    """Seeds all randomness in ``fit``: a number, a ``numpy.random.RandomState``, or None for a new seed each time."""
    device: str
    """Where ``fit`` and ``encode`` compute."""

    def __init__(self, config: AnyConfig | None = None, /, **parameters: Any) -> None:
        self._settings: Settings = {}
        if config is not None:
            if parameters.keys() - COMMON.keys():
                raise TypeError("give a Config or keyword settings, not both")
            self._settings = {name: getattr(config, name) for name in type(config).model_fields}
            self.config = config
        Transformer.set_params(self, **{**COMMON, **parameters})

    def __init_subclass__(cls, **options: Any) -> None:
        """Give each class a constructor whose signature names its settings: ``help`` and scikit-learn read it."""
        super().__init_subclass__(**options)
        taken = COMMON.keys() & cls.Config.model_fields.keys()
        if taken:
            raise PluginError(f"{cls.__name__}.Config: every method has a parameter {taken.pop()!r}; rename the field")
        if cls.__init__ is Transformer.__init__ or hasattr(cls.__init__, "__signature__"):

            def __init__(self: Transformer, config: AnyConfig | None = None, /, **parameters: Any) -> None:  # noqa: N807
                Transformer.__init__(self, config, **parameters)

            __init__.__signature__ = _signature(cls.Config)  # type: ignore[attr-defined]
            cls.__init__ = __init__  # type: ignore[method-assign]

    @cached_property
    def config(self) -> Any:
        """The settings, checked."""
        plain = {
            name: value.item() if isinstance(value, np.generic) else value for name, value in self._settings.items()
        }
        return self.Config.resolve(plain, type(self).__name__)

    @abstractmethod
    def pretrain(self, table: Table, context: Context) -> None:
        """Train on ``table``."""

    @abstractmethod
    def encode(self, table: Table) -> Representation:
        """Encode rows."""

    # Parameters.

    def get_params(self, deep: bool = True) -> Settings:
        """Every parameter with its value; ``deep`` makes no difference."""
        settings = {**_defaults(self.Config), **self._settings}
        return settings | {name: getattr(self, name) for name in COMMON}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; short names of settings work as well."""
        for name in COMMON.keys() & parameters.keys():
            setattr(self, name, parameters.pop(name))
        if parameters:
            self._settings |= self.Config.full_names(parameters, type(self).__name__)
            vars(self).pop("config", None)
        return self

    # Fitting and encoding.

    def fit(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: object = None,
        *,
        context: Context | None = None,
        categorical: Sequence[Any] | None = None,
    ) -> Self:
        """Pretrain on all rows of ``X``, a DataFrame or an array.

        Args:
            X: rows; columns of strings, categories and booleans hold categories.
            y: ignored; accepted for scikit-learn.
            context: device, seed, deadline and progress, instead of ``device`` and ``random_state``.
            categorical: labels of the categorical columns (for an array: their numbers), instead of going by type.
        """
        frame = self._learn_columns(X)
        if categorical is not None:
            labels = X.columns if isinstance(X, pd.DataFrame) else range(frame.shape[1])
            names = dict(zip(labels, frame.columns, strict=True))
            categorical = [names.get(label, str(label)) for label in categorical]
        if context is None:
            context = Context(root_seed=self._seed(), device=self.device)
        self.device = context.device
        vars(self).pop("diagnostics", None)
        self.pretrain(to_table(frame, fit_schema(frame, categorical)), context)
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """Encode the rows of ``X`` as a matrix ``(rows, k)``; tokens are flattened.

        Columns are matched by name; by position if ``X`` or the fitted table has no names.
        """
        check_is_fitted(self)
        array = self.encode(to_table(self._match_columns(X), self.schema)).array
        return array.reshape(len(array), -1)

    def fit_transform(self, X: Any, y: object = None, **options: Any) -> NDArray[np.float32]:  # noqa: N803
        """``fit``, then ``transform`` of the same rows."""
        return self.fit(X, y, **options).transform(X)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:
        """Names of the columns of ``transform``: ``vime0``, ``vime1``; for tokens, ``tjepa_age_0``."""
        check_is_fitted(self)
        shape = self.encode(_example(self.schema)).array.shape[1:]
        prefix = type(self).__name__.lower()
        names = [f"{prefix}{number}" for number in range(int(np.prod(shape)))]
        if len(shape) == 2 and shape[0] == self.schema.n_features:
            names = [f"{prefix}_{name}_{number}" for name in self.schema.names for number in range(shape[1])]
        return np.array(names, dtype=object)

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    # Columns.

    def _learn_columns(self, X: Any) -> pd.DataFrame:  # noqa: N803
        frame, named = self._read(X, reset=True)
        self._set_columns(list(frame.columns), named)
        return frame

    def _set_columns(self, columns: list[str], named: bool) -> None:
        self._columns, self._named = columns, named
        self.n_features_in_ = len(columns)
        if named:
            self.feature_names_in_ = np.array(columns, dtype=object)
        else:
            vars(self).pop("feature_names_in_", None)

    def _match_columns(self, X: Any) -> pd.DataFrame:  # noqa: N803
        """Rows to be encoded, with the names that were fitted."""
        frame, named = self._read(X, reset=False)
        columns = getattr(self, "_columns", list(self.schema.names))
        fitted_named = getattr(self, "_named", True)
        if named and fitted_named:
            return frame
        name = type(self).__name__
        if frame.shape[1] != len(columns):
            raise DataError(
                f"X has {frame.shape[1]} features, but {name} is expecting {len(columns)} features as input"
            )
        if named or (fitted_named and isinstance(X, pd.DataFrame)):  # of an array, scikit-learn has warned already
            has, had = ("has", "without") if named else ("does not have valid", "with")
            warnings.warn(f"X {has} feature names, but {name} was fitted {had} feature names", stacklevel=3)
        return frame.set_axis(columns, axis=1)

    def _read(self, X: Any, reset: bool) -> tuple[pd.DataFrame, bool]:  # noqa: N803
        """A table whose columns have strings as names, and whether these are its own."""
        if hasattr(X, "to_pandas"):  # polars and arrow
            X = X.to_pandas()  # noqa: N806
        if not isinstance(X, pd.DataFrame):
            array = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False)
            names = [f"x{number}" for number in range(array.shape[1])]
            return pd.DataFrame(array, columns=names).infer_objects(), False
        if 0 in X.shape:
            what = "row" if X.shape[1] else "column"
            raise DataError(f"the table has no {what}s: {type(self).__name__} needs at least one {what}")
        if any(dtype.kind == "c" for dtype in X.dtypes):
            raise DataError("Complex data not supported: give real and imaginary parts as two columns")
        named = X.columns.is_unique and all(isinstance(label, str) for label in X.columns)
        return (X if named else X.set_axis(unique_names(X.columns), axis=1)), named

    def columns_to_json(self) -> JsonObject:
        """What ``transform`` must know about the fitted columns; empty if ``pretrain`` was called without ``fit``."""
        return {"columns": self._columns, "named": self._named} if hasattr(self, "_columns") else {}

    def columns_from_json(self, value: Mapping[str, Any]) -> None:
        """Restore what ``columns_to_json`` returned."""
        if "columns" in value:
            self._set_columns(value["columns"], value["named"])

    # What scikit-learn asks.

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "schema")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []  # always float32
        return tags


def _defaults(config: type[AnyConfig]) -> Settings:
    fields = config.model_fields.items()
    return {name: field.get_default(call_default_factory=True) for name, field in fields if not field.is_required()}


def _signature(config: type[AnyConfig]) -> Signature:
    defaults = {**_defaults(config), **COMMON}
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=defaults.get(name, Parameter.empty))
        for name in (*config.model_fields, *COMMON)
    ]
    return Signature([Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *parameters])


def _example(schema: Schema) -> Table:
    """One row, such as it might be."""
    codes = [FIRST_LEVEL if levels else MISSING for levels in schema.levels]
    numbers = np.zeros((1, len(schema.numeric)), dtype=np.float32)
    return Table(numbers, np.array([codes], dtype=np.int64).reshape(1, -1), schema)
