"""Shell completion of option values: names of methods, models, data and metrics; in a list, of the last one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Word:
    """One offer, as typer's shells read it."""

    value: str
    type: str = "plain"
    help: str | None = None


def complete(command: str, parameter: str, incomplete: str) -> list[str]:
    """Words that start with what was typed. ``mlp,re`` becomes ``mlp,resnet``; if nothing matches, files are offered.

    Args:
        command: such as ``run``.
        parameter: such as ``ssl``, without dashes.
        incomplete: what was typed of the value.
    """
    names = _NAMES.get((command, parameter)) or _NAMES.get(("", parameter))
    if names is None:
        return []
    several = parameter in LISTS
    given, comma, start = incomplete.rpartition(",") if several else ("", "", incomplete)
    before = {name.lower() for name in given.split(",")}
    return [
        f"{given}{comma}{name}"
        for name in dict.fromkeys(names())
        if name.lower().startswith(start.lower()) and name.lower() not in before
    ]


def offer(command: str, parameter: Any) -> None:
    """Have a parameter of a command offer its names."""

    def shell_complete(context: object, incomplete: str) -> list[Word]:
        return [Word(word) for word in complete(command, str(parameter.name), incomplete)]

    if (command, parameter.name) in _NAMES or ("", parameter.name) in _NAMES:
        parameter.shell_complete = shell_complete


def _plugins(*kinds: str) -> Callable[[], Iterable[str]]:
    def names() -> list[str]:
        from tabbench.registry import make_registry

        registry = make_registry()
        return [name for kind in kinds for name in registry.names(kind)]

    return names


def _data() -> list[str]:
    """Datasets, groups of them, and suites by name."""
    from tabbench.registry import make_registry

    registry = make_registry()
    shortcuts = [name for entry in registry.entries("scheme") for name in entry.plugin.shortcuts]
    return [*registry.names("data"), *registry.groups(), *shortcuts]


def _metrics_of_a_table() -> list[str]:
    from tabbench.results.tabulate import METRICS

    return [*METRICS, "gain"]


def _metrics_of_a_run() -> list[str]:
    from tabbench.contracts.metrics import CLASSIFICATION_METRICS, REGRESSION_METRICS

    return [name for name in (*CLASSIFICATION_METRICS, *REGRESSION_METRICS) if name != "ece"]


def _words(*words: str) -> Callable[[], Iterable[str]]:
    return lambda: words


LISTS = ("ssl", "model", "data", "protocol", "controls")
"""Options that take several names, with commas between them."""
_NAMES: dict[tuple[str, str], Callable[[], Iterable[str]]] = {
    ("", "ssl"): _plugins("ssl"),
    ("", "model"): _plugins("model"),
    ("", "data"): _data,
    ("", "executor"): _plugins("executor"),
    ("", "against"): _plugins("reference"),
    ("", "preset"): _words("quick", "standard", "paper"),
    ("", "protocol"): _words("frozen", "finetune"),
    ("", "controls"): _words("none", "untrained"),
    ("", "class_weights"): _words("balanced"),
    ("", "device"): _words("auto", "cpu", "cuda", "mps"),
    ("run", "metric"): _metrics_of_a_run,
    ("table", "metric"): _metrics_of_a_table,
    ("table", "by"): _words("ssl", "model", "labels", "protocol"),
    ("table", "layout"): _words("terminal", "markdown", "latex", "csv", "json", "html"),
    ("show", "name"): _plugins("ssl", "model", "data", "executor", "reference"),
    ("cite", "names"): _plugins("ssl", "model", "data", "reference"),
    ("check", "name"): _plugins("ssl", "model", "data", "executor", "reference"),
    ("fetch", "names"): _data,
}
"""Names by command and parameter; an empty command stands for all."""
