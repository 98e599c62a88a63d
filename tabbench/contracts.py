"""What plugin authors subclass: SSLMethod, JointMethod, DownstreamModel, Dataset, Executor, Reference."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

from tabbench.config import Config as AnyConfig
from tabbench.context import Context
from tabbench.errors import DataError, PluginError
from tabbench.table import Features, Labelled, Representation, Schema, Table, Task

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import torch
    from numpy.typing import NDArray

    from tabbench.job import Event, Job

State = dict[str, "NDArray[Any]"]
"""Arrays by name, as stored in a safetensors file."""

AnyMethod = TypeVar("AnyMethod", bound="SSLMethod | JointMethod")


class Configurable:
    """A class with settings: ``Method(lr=1e-3)`` or ``Method(Method.Config(lr=1e-3))``."""

    Config: ClassVar[type[AnyConfig]] = AnyConfig

    def __init__(self, config: AnyConfig | None = None, **settings: Any) -> None:
        if config is not None and settings:
            raise TypeError("give a Config or keyword settings, not both")
        self.config: Any = config if config is not None else self.Config.resolve(settings, type(self).__name__)
        self.diagnostics: dict[str, Any] = {}
        """What training had to say, as JSON values; it becomes part of the record."""


class SSLMethod(Configurable, ABC):
    """Learns an encoder from rows without labels, and encodes rows with it.

    It is a scikit-learn style transformer too: ``Method().fit(frame).transform(frame)``.
    """

    schema: Schema

    @abstractmethod
    def pretrain(self, table: Table, context: Context) -> None:
        """Train on ``table``, the training rows. Sets ``self.schema = table.schema``."""

    @abstractmethod
    def encode(self, table: Table) -> Representation:
        """Encode rows, each for itself: neither its neighbours nor chance play a part."""

    @abstractmethod
    def get_state(self) -> State:
        """Every array that ``encode`` needs beside the config and the schema."""

    @abstractmethod
    def set_state(self, state: State) -> None:
        """Rebuild the encoder from ``self.config``, ``self.schema`` and what ``get_state`` gave."""

    def initialise(self, table: Table, context: Context) -> None:
        """Do what ``pretrain`` does before its first step (scalers, networks), for the untrained control."""
        raise PluginError(f"{type(self).__name__} has no untrained encoder: its plugin should say untrained=False")

    def save(self, path: Path) -> None:
        """Write the encoder to the folder ``path``: ``method.json`` and ``state.safetensors``."""
        save_method(self, path)

    @classmethod
    def load(cls, path: Path, device: str = "cpu") -> Self:
        """Read what ``save`` wrote; ``encode`` then runs on ``device``."""
        return load_method(cls, path, device)

    # The scikit-learn face.

    device: str = "cpu"
    """Where ``encode`` computes."""

    def fit(
        self,
        X: pd.DataFrame,  # noqa: N803 - scikit-learn's name
        y: object = None,
        *,
        context: Context | None = None,
        categorical: Sequence[str] | None = None,
    ) -> Self:
        """Pretrain on all rows of ``X``. ``y`` is accepted for scikit-learn's sake and never looked at."""
        from tabbench.data.tables import fit_schema, to_table

        context = context or Context()
        self.device = context.device
        self.pretrain(to_table(X, fit_schema(X, categorical)), context)
        return self

    def transform(self, X: pd.DataFrame) -> NDArray[np.float32]:  # noqa: N803
        """Encode the rows of ``X`` as a matrix ``(rows, k)``; tokens are laid side by side."""
        from tabbench.data.tables import to_table

        array = self.encode(to_table(X, self.schema)).array
        return array.reshape(len(array), -1)

    def fit_transform(self, X: pd.DataFrame, y: object = None, **options: Any) -> NDArray[np.float32]:  # noqa: N803
        return self.fit(X, y, **options).transform(X)


class JointMethod(Configurable, ABC):
    """Learns with labels, alone or together with a downstream model. Tables show its rows apart.

    ``gives = "representation"``: ``fit`` trains an encoder, ``encode`` and save/load work as for an SSLMethod, and
    downstream models are trained on the result. ``gives = "predictions"``: ``fit`` trains the downstream model's own
    backbone in its own way, and ``predict`` is the end of it.
    """

    uses_labels: ClassVar[bool] = True
    gives: ClassVar[Literal["representation", "predictions"]]
    schema: Schema
    device: str = "cpu"

    @abstractmethod
    def fit(
        self, train: Labelled, validation: Labelled, task: Task, context: Context, model: DownstreamModel | None = None
    ) -> None:
        """Train; validation labels only decide when to stop. ``model`` is given if ``gives = "predictions"``."""

    def predict(self, features: Features) -> NDArray[np.float32]:
        """As ``DownstreamModel.predict``; for ``gives = "predictions"``."""
        raise PluginError(f"{type(self).__name__} gives a {self.gives}, not predictions")

    def encode(self, table: Table) -> Representation:
        """As ``SSLMethod.encode``; for ``gives = "representation"``."""
        raise PluginError(f"{type(self).__name__} gives {self.gives}, not a representation")

    def get_state(self) -> State:
        """As ``SSLMethod.get_state``; for ``gives = "representation"``."""
        raise PluginError(f"{type(self).__name__} gives {self.gives}: there is no encoder to store")

    def set_state(self, state: State) -> None:
        """As ``SSLMethod.set_state``; for ``gives = "representation"``."""
        raise PluginError(f"{type(self).__name__} gives {self.gives}: there is no encoder to load")

    def save(self, path: Path) -> None:
        save_method(self, path)

    @classmethod
    def load(cls, path: Path, device: str = "cpu") -> Self:
        return load_method(cls, path, device)


def save_method(method: SSLMethod | JointMethod, path: Path) -> None:
    """Write ``method.json`` (settings, schema) and ``state.safetensors`` into the folder ``path``."""
    import numpy as np
    from safetensors.numpy import save_file

    path.mkdir(parents=True, exist_ok=True)
    state = {name: np.ascontiguousarray(array) for name, array in method.get_state().items()}
    save_file(state, path / "state.safetensors")
    about = {
        "class": f"{type(method).__module__}:{type(method).__qualname__}",
        "config": method.config.to_json(),
        "schema": method.schema.to_json(),
        "diagnostics": method.diagnostics,
    }
    (path / "method.json").write_text(json.dumps(about, indent=1), encoding="utf-8")


def load_method(cls: type[AnyMethod], path: Path, device: str) -> AnyMethod:
    """Read what ``save_method`` wrote."""
    from safetensors.numpy import load_file

    about = json.loads((path / "method.json").read_text(encoding="utf-8"))
    method = cls(cls.Config.resolve(about["config"], cls.__name__))
    method.device = device
    method.schema = Schema.from_json(about["schema"])
    method.diagnostics = about["diagnostics"]
    method.set_state(load_file(path / "state.safetensors"))
    return method


class DownstreamModel(Configurable, ABC):
    """Learns to predict labels from features: a raw table or a representation. It never meets a test label."""

    @abstractmethod
    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        """Train on ``train``; ``validation`` decides when to stop and which weights to keep."""

    @abstractmethod
    def predict(self, features: Features) -> NDArray[np.float32]:
        """Class probabilities ``(rows, n_classes)``, or numbers ``(rows,)`` in the unit of the training labels."""

    def make_backbone(self, example: Features, context: Context) -> torch.nn.Module:
        """The untrained network without its head, for joint methods.

        A module that takes what ``tabbench.nn.Inputs`` gives for a batch and returns hidden vectors
        ``(rows, backbone.out_features)``. Models without one refuse.
        """
        raise PluginError(f"{type(self).__name__} has no backbone that a joint method could train")


@dataclass(frozen=True)
class LoadedData:
    """A dataset as its loader gives it: everything still in one piece, nothing fitted."""

    frame: pd.DataFrame
    """Features and target, one row per example."""
    target: str
    """Name of the target column."""
    task: Literal["classification", "regression"]
    categorical: tuple[str, ...] = ()
    """Feature columns that hold categories; all others must be numeric."""
    source: str = ""
    """Where the rows are from, for the record."""
    notes: tuple[str, ...] = field(default=())
    """What the user should know: columns dropped, types guessed."""


class Dataset(ABC):
    """A table that can be loaded by name. What it loads is checked, cached and hashed by the harness."""

    @abstractmethod
    def load(self, cache: Path, offline: bool) -> LoadedData:
        """Load the table, from the network only if not ``offline``; downloads are kept below ``cache``.

        Raises:
            DataError: it cannot be had, or is not what it should be; the message says what to do.
        """

    def accept(self, loaded: LoadedData) -> LoadedData:
        """Check a table that a user imports under this dataset's name, and bring it to the form that ``load`` gives.

        Here it is compared with what ``load`` gives offline. A dataset that must be downloaded overrides this with
        checks of its own, or cannot be imported.

        Raises:
            DataError: it is another table, or nothing is known to compare it with; the message says what was expected
                and what was found.
        """
        from tabbench.data.cache import cache_dir
        from tabbench.data.matching import match

        try:
            known = self.load(cache_dir(), offline=True)
        except DataError as error:
            raise DataError(
                f"whether this is the dataset of that name cannot be checked ({error}): import it under another name"
            ) from None
        try:
            return match(loaded, known)
        except DataError as error:
            raise DataError(f"this is not the dataset of that name: {error}; import it under another name") from None


@dataclass(frozen=True)
class Limits:
    """What one job may use."""

    threads: int = 1
    device: str = "cpu"
    timeout: float | None = None
    """Seconds."""
    memory: int | None = None
    """Bytes."""


class Executor(ABC):
    """Runs jobs somewhere. It sees self-contained jobs only, and never writes records."""

    def __init__(self, slots: int, limits: Limits, logs: Path) -> None:
        self.slots = slots
        self.limits = limits
        self.logs = logs

    @abstractmethod
    def submit(self, job: Job) -> None:
        """Take a job; called only while fewer than ``slots`` are under way."""

    @abstractmethod
    def wait(self, seconds: float) -> list[Event]:
        """What happened since the last call; waits up to ``seconds`` for something to happen."""

    def prune(self, key: str) -> None:
        """Ask a job that is under way to give up; an executor that cannot pass this on lets the job finish."""

    @abstractmethod
    def close(self) -> None:
        """Stop everything that is under way, and give back what was taken."""


@dataclass(frozen=True)
class PublishedCell:
    """One figure of a published table."""

    table: str
    ssl: str
    model: str
    dataset: str
    metric: str
    mean: float
    std: float | None = None
    caveat: str = ""
    compares_with: str = ""
    """Our metric in the unit of this figure, if it is not ``metric``."""


class Reference(ABC):
    """Published results to compare with."""

    @abstractmethod
    def cells(self) -> list[PublishedCell]:
        """Every figure, with a caveat where it is doubtful."""

    def printed_ranks(self) -> dict[tuple[str, str, str], float]:
        """Average ranks as printed, by (table, ssl, model)."""
        return {}
