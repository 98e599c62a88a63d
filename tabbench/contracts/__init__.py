"""What plugin authors subclass, one module per kind of plugin."""

from typing import TYPE_CHECKING, Any

from tabbench.contracts.configurable import State
from tabbench.contracts.datasets import DataScheme, Dataset, LoadedData
from tabbench.contracts.encoders import TrainableEncoder
from tabbench.contracts.executors import Executor, Limits, Site
from tabbench.contracts.job import Event, Job, Outcome, Status
from tabbench.contracts.models import DownstreamModel
from tabbench.contracts.references import PublishedCell, Reference

if TYPE_CHECKING:
    from tabbench.contracts.methods import BackboneMethod, JointMethod, SSLMethod


def __getattr__(name: str) -> Any:
    """Import methods lazily: they are scikit-learn transformers, and planning and tables do not need scikit-learn."""
    if name not in ("BackboneMethod", "JointMethod", "SSLMethod"):
        raise AttributeError(f"module 'tabbench.contracts' has no attribute {name!r}")
    from tabbench.contracts import methods

    return getattr(methods, name)


__all__ = [
    "BackboneMethod",
    "DataScheme",
    "Dataset",
    "DownstreamModel",
    "Event",
    "Executor",
    "Job",
    "JointMethod",
    "Limits",
    "LoadedData",
    "Outcome",
    "PublishedCell",
    "Reference",
    "SSLMethod",
    "Site",
    "State",
    "Status",
    "TrainableEncoder",
]
