"""How an encoder is used, and which pairs of method and model that rules out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from tabbench.contracts.weighting import Weighting
from tabbench.experiment.settings import Arm, Configured
from tabbench.experiment.spec import Protocol

UsedAs = Literal["frozen", "finetune", "raw"]
"""``raw``: there is no encoder, or a joint method trains the model on the raw table."""


@dataclass(frozen=True)
class Skipped:
    """A pair that is skipped, and why."""

    reason: str
    ssl: str
    model: str
    protocol: UsedAs
    data: str = ""
    """Where it is skipped; empty means everywhere."""
    labels: str = ""

    def to_json(self) -> dict[str, str]:
        return {name: value for name, value in asdict(self).items() if value}

    def __str__(self) -> str:
        place = ", ".join(filter(None, [self.protocol, self.data, self.labels and f"{self.labels} labels"]))
        return f"{self.ssl} + {self.model} ({place}): {self.reason}"


def ways_to_use(arm: Arm, protocols: tuple[Protocol, ...]) -> tuple[UsedAs, ...]:
    """The protocols an arm is evaluated under. An arm without an encoder runs once and is shown with every protocol."""
    return ("raw",) if arm.method is None or arm.trains_model else protocols


def why_not(arm: Arm, model: Configured, used_as: UsedAs, weighting: Weighting) -> str:
    """Why a method and a model cannot be combined under a protocol; empty if they can."""
    if weighting and arm.uses_labels:
        return f"{arm.label} learns from labels and does not support weights"
    if weighting and not model.entry.plugin.weights:
        return f"{model.name} does not support weights"
    if arm.method is None:
        return ""
    method, offered = arm.method.entry.plugin, model.entry.plugin
    if (arm.trains_model or arm.pretrains_backbone) and not offered.backbone:
        return f"{model.name} has no backbone for {method.name} to train"
    if arm.pretrains_backbone and used_as == "frozen":
        return f"{method.name} pretrains the model's own backbone, which is then fine-tuned: add --protocol finetune"
    if used_as != "finetune":
        return ""
    if not (method.finetune or arm.pretrains_backbone):
        return f"{method.name} has no encoder that can be fine-tuned"
    return "" if offered.finetune else f"{model.name} cannot train together with an encoder"
