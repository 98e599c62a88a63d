"""What authors of downstream models subclass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from tabbench.context import Context
from tabbench.contracts.configurable import Configurable, State
from tabbench.errors import PluginError
from tabbench.values import Features, Labelled, Task

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from tabbench.contracts.encoders import TrainableEncoder


class DownstreamModel(Configurable, ABC):
    """Learns to predict labels from features: a raw table or a representation. It never sees a test label."""

    @abstractmethod
    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        """Train on ``train``; ``validation`` decides when to stop and which weights to keep."""

    def finetune(
        self, encoder: TrainableEncoder, train: Labelled, validation: Labelled, task: Task, context: Context
    ) -> None:
        """Like ``fit``, but on raw tables that ``encoder`` encodes, training the encoder together with the model.

        ``predict`` then takes raw tables. Models that cannot do this refuse, and their plugins do not set
        ``finetune=True``.
        """
        raise PluginError(f"{type(self).__name__} cannot train together with an encoder")

    @abstractmethod
    def predict(self, features: Features) -> NDArray[np.float32]:
        """Class probabilities ``(rows, n_classes)``, or numbers ``(rows,)`` in the unit of the training labels."""

    def get_state(self) -> State:
        """Every array that ``predict`` needs besides the config and the task, for ``tabbench fit``.

        A library's own format is stored as its bytes (uint8). Models without this cannot be saved.
        """
        raise PluginError(f"{type(self).__name__} cannot be saved: it has no get_state")

    def set_state(self, state: State, task: Task, device: str = "cpu") -> None:
        """Rebuild the fitted model from ``self.config`` and the state; ``predict`` runs on ``device``."""
        raise PluginError(f"{type(self).__name__} cannot be loaded: it has no set_state")

    def set_finetuned_state(self, state: State, encoder: TrainableEncoder, task: Task, device: str = "cpu") -> None:
        """Like ``set_state``, after ``finetune``. The state has the encoder's new weights, ``encoder`` the old ones."""
        raise PluginError(f"{type(self).__name__} cannot be loaded with an encoder: it has no set_finetuned_state")

    def make_backbone(self, example: Features, context: Context) -> torch.nn.Module:
        """The untrained network without its head, for joint methods.

        A module that takes what ``tabbench.nn.Inputs`` returns for a batch, and returns hidden vectors
        ``(rows, backbone.out_features)``. Models without one refuse.
        """
        raise PluginError(f"{type(self).__name__} has no backbone that a joint method could train")
