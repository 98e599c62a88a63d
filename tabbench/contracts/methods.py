"""What authors of self-supervised methods subclass: SSLMethod, or JointMethod if the method learns from labels."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

from tabbench.context import Context
from tabbench.contracts.configurable import Configurable, State
from tabbench.contracts.transformer import Transformer
from tabbench.errors import PluginError
from tabbench.values import Features, Labelled, Representation, Schema, Table, Task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tabbench.contracts.encoders import TrainableEncoder
    from tabbench.contracts.models import DownstreamModel

AnyMethod = TypeVar("AnyMethod", bound="SSLMethod | JointMethod")


class SSLMethod(Transformer):
    """Learns an encoder from rows without labels, and encodes rows with it.

    It is also a scikit-learn transformer: ``Method(lr=1e-3).fit(frame).transform(frame)``; see ``Transformer``.
    """

    @abstractmethod
    def pretrain(self, table: Table, context: Context) -> None:
        """Train on ``table``, the training rows. Sets ``self.schema = table.schema``."""

    @abstractmethod
    def encode(self, table: Table) -> Representation:
        """Encode each row on its own, deterministically: neighbouring rows have no influence."""

    @abstractmethod
    def get_state(self) -> State:
        """Every array that ``encode`` needs besides the config and the schema."""

    @abstractmethod
    def set_state(self, state: State) -> None:
        """Rebuild the encoder from ``self.config``, ``self.schema`` and what ``get_state`` returned."""

    def initialise(self, table: Table, context: Context) -> None:
        """Do what ``pretrain`` does before its first step (scalers, networks), for the untrained control."""
        raise PluginError(f"{type(self).__name__} has no untrained encoder: its plugin should say untrained=False")

    def trainable_encoder(self) -> TrainableEncoder:
        """The current encoder as a trainable network; the plugin then sets ``finetune=True``.

        Training changes the encoder: ``encode`` may return something different afterwards.
        """
        raise PluginError(f"{type(self).__name__} has no trainable encoder: its plugin should not say finetune=True")

    def save(self, path: str | Path) -> None:
        """Write the encoder to the folder ``path``: ``method.json`` and ``state.safetensors``."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        save_method(self, path)

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu") -> Self:
        """Read what ``save`` wrote; ``encode`` then runs on ``device``."""
        return load_method(cls, path, device)


class BackboneMethod(SSLMethod):
    """Pretrains a downstream model's own backbone without labels; the model is then fine-tuned.

    Its plugin sets ``gives="backbone"``. There is one pretraining per model, and ``trainable_encoder`` returns the
    backbone (``is_backbone=True``). ``encode`` returns its hidden vectors.
    """

    model: DownstreamModel | None = None
    """Whose backbone is pretrained: set before ``pretrain`` and ``initialise``. None: a network of the method's own."""

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu", model: DownstreamModel | None = None) -> Self:
        """Read what ``save`` wrote; ``model`` has the settings that it had then."""
        return load_method(cls, path, device, model=model)


class JointMethod(Configurable, ABC):
    """Learns from labels, alone or together with a downstream model. Tables rank its rows separately.

    ``gives = "representation"``: ``fit`` trains an encoder, ``encode`` and save/load work as for an SSLMethod, and
    downstream models are trained on the result. ``gives = "predictions"``: ``fit`` trains the downstream model's own
    backbone in its own way, and ``predict`` uses it.
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

    def save(self, path: str | Path) -> None:
        save_method(self, path)

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu") -> Self:
        return load_method(cls, path, device)


def save_method(method: SSLMethod | JointMethod, path: str | Path) -> None:
    """Write ``method.json`` (settings, schema) and ``state.safetensors`` into the folder ``path``."""
    import numpy as np
    from safetensors.numpy import save_file

    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    state = {name: np.require(array, requirements="C") for name, array in method.get_state().items()}
    save_file(state, path / "state.safetensors")
    about = {
        "class": f"{type(method).__module__}:{type(method).__qualname__}",
        "config": method.config.to_json(),
        "schema": method.schema.to_json(),
        "diagnostics": method.diagnostics,
    }
    if isinstance(method, Transformer):
        about |= method.columns_to_json()
    (path / "method.json").write_text(json.dumps(about, indent=1), encoding="utf-8")


def load_method(cls: type[AnyMethod], path: str | Path, device: str, **attributes: Any) -> AnyMethod:
    """Read what ``save_method`` wrote; ``attributes`` are set before the state is."""
    from safetensors.numpy import load_file

    path = Path(path)
    about = json.loads((path / "method.json").read_text(encoding="utf-8"))
    method = cls(cls.Config.resolve(about["config"], cls.__name__))
    method.device = device
    for name, value in attributes.items():
        setattr(method, name, value)
    method.schema = Schema.from_json(about["schema"])
    method.diagnostics = about["diagnostics"]
    if isinstance(method, Transformer):
        method.columns_from_json(about)
    method.set_state(load_file(path / "state.safetensors"))
    return method
