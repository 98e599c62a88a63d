"""tabbench: a benchmark harness for self-supervised learning on tabular data whose tables can be believed.

What stands in ``__all__``, with ``tabbench.nn`` and ``tabbench.testing``, is what plugins may use.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from tabbench.errors import DataError, DeadlineReached, Interruption, PluginError, Pruned, TabbenchError, UsageError
from tabbench.hookspecs import CONTRACT_VERSION, Plugin, hookimpl

if TYPE_CHECKING:
    from tabbench.config import Choice, Config, Float, Int, load_presets
    from tabbench.context import Context
    from tabbench.contracts import (
        Dataset,
        DownstreamModel,
        Executor,
        JointMethod,
        Limits,
        LoadedData,
        PublishedCell,
        Reference,
        SSLMethod,
        State,
    )
    from tabbench.job import Event, Job, Outcome
    from tabbench.network_config import NetworkConfig
    from tabbench.scaling import Scaler
    from tabbench.table import FIRST_LEVEL, Features, Labelled, Representation, Schema, Table, Task

try:
    __version__ = version("tabbench-ssl")
except PackageNotFoundError:  # a source tree that nobody installed
    __version__ = "0+unknown"

# pydantic and numpy cost a third of the time that `tabbench list` may take: what needs them is imported on first use.
_HOMES = {
    "tabbench.config": ("Choice", "Config", "Float", "Int", "load_presets"),
    "tabbench.context": ("Context",),
    "tabbench.contracts": (
        "Dataset",
        "DownstreamModel",
        "Executor",
        "JointMethod",
        "Limits",
        "LoadedData",
        "PublishedCell",
        "Reference",
        "SSLMethod",
        "State",
    ),
    "tabbench.job": ("Event", "Job", "Outcome"),
    "tabbench.network_config": ("NetworkConfig",),
    "tabbench.scaling": ("Scaler",),
    "tabbench.table": ("FIRST_LEVEL", "Features", "Labelled", "Representation", "Schema", "Table", "Task"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tabbench' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


__all__ = [
    "CONTRACT_VERSION",
    "FIRST_LEVEL",
    "Choice",
    "Config",
    "Context",
    "DataError",
    "Dataset",
    "DeadlineReached",
    "DownstreamModel",
    "Event",
    "Executor",
    "Features",
    "Float",
    "Int",
    "Interruption",
    "Job",
    "JointMethod",
    "Labelled",
    "Limits",
    "LoadedData",
    "NetworkConfig",
    "Outcome",
    "Plugin",
    "PluginError",
    "Pruned",
    "PublishedCell",
    "Reference",
    "Representation",
    "SSLMethod",
    "Scaler",
    "Schema",
    "State",
    "TabbenchError",
    "Table",
    "Task",
    "UsageError",
    "__version__",
    "hookimpl",
    "load_presets",
]
