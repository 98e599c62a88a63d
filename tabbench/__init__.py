"""tabbench: a benchmark harness for self-supervised learning on tabular data, with tables you can trust.

Plugins may use the names in ``__all__``, ``tabbench.nn`` and ``tabbench.testing``.
"""

# Nothing is imported here: Ctrl-C within the first moments of the command must find someone who deals with it, and
# pydantic and numpy cost a third of the time that `tabbench list` may take. All names are imported on first use.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tabbench.api import run
    from tabbench.config import Choice, Config, Float, Int, NetworkConfig, load_presets
    from tabbench.context import Context
    from tabbench.contracts import (
        BackboneMethod,
        DataScheme,
        Dataset,
        DownstreamModel,
        Event,
        Executor,
        Job,
        JointMethod,
        Limits,
        LoadedData,
        Outcome,
        PublishedCell,
        Reference,
        Site,
        SSLMethod,
        State,
        TrainableEncoder,
    )
    from tabbench.errors import (
        DataError,
        DeadlineReached,
        Evicted,
        Interruption,
        PluginError,
        Pruned,
        TabbenchError,
        UsageError,
    )
    from tabbench.hookspecs import CONTRACT_VERSION, Plugin, hookimpl
    from tabbench.nn.scaling import Scaler
    from tabbench.results.face import open_results as results
    from tabbench.running.jobs import run_job
    from tabbench.running.pipeline import load
    from tabbench.running.pool import PipeWorker, PoolWorker, WorkerPool
    from tabbench.running.process import WorkerProcess, worker_command, worker_environment
    from tabbench.values import FIRST_LEVEL, Features, Labelled, Representation, Schema, Table, Task

__version__ = "0.2.0.dev0"

_HOMES = {
    "tabbench.api": ("run",),
    "tabbench.config": ("Choice", "Config", "Float", "Int", "NetworkConfig", "load_presets"),
    "tabbench.context": ("Context",),
    "tabbench.contracts": (
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
        "TrainableEncoder",
    ),
    "tabbench.errors": (
        "DataError",
        "DeadlineReached",
        "Evicted",
        "Interruption",
        "PluginError",
        "Pruned",
        "TabbenchError",
        "UsageError",
    ),
    "tabbench.hookspecs": ("CONTRACT_VERSION", "Plugin", "hookimpl"),
    "tabbench.nn.scaling": ("Scaler",),
    "tabbench.running.jobs": ("run_job",),
    "tabbench.running.pipeline": ("load",),
    "tabbench.running.pool": ("PipeWorker", "PoolWorker", "WorkerPool"),
    "tabbench.running.process": ("WorkerProcess", "worker_command", "worker_environment"),
    "tabbench.values": ("FIRST_LEVEL", "Features", "Labelled", "Representation", "Schema", "Table", "Task"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name == "results":  # the name belongs to the function that opens a results folder, not to the package
        return import_module("tabbench.results")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tabbench' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


__all__ = [
    "CONTRACT_VERSION",
    "FIRST_LEVEL",
    "BackboneMethod",
    "Choice",
    "Config",
    "Context",
    "DataError",
    "DataScheme",
    "Dataset",
    "DeadlineReached",
    "DownstreamModel",
    "Event",
    "Evicted",
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
    "PipeWorker",
    "Plugin",
    "PluginError",
    "PoolWorker",
    "Pruned",
    "PublishedCell",
    "Reference",
    "Representation",
    "SSLMethod",
    "Scaler",
    "Schema",
    "Site",
    "State",
    "TabbenchError",
    "Table",
    "Task",
    "TrainableEncoder",
    "UsageError",
    "WorkerPool",
    "WorkerProcess",
    "__version__",
    "hookimpl",
    "load",
    "load_presets",
    "results",
    "run",
    "run_job",
    "worker_command",
    "worker_environment",
]
