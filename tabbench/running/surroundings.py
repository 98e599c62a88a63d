"""State that all jobs of a warm worker share, and that a job must not change.

A method that calls ``torch.set_default_dtype`` or changes the working directory would change the results of the
innocent jobs after it. So the state after each job is compared with the state before. Changes are undone, the worker is
replaced, and the record is flagged.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import locale
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn
import threadpoolctl
import torch


@dataclass(frozen=True)
class Aspect:
    """One piece of the state, with how to read and restore it."""

    name: str
    read: Callable[[], Any]
    put_back: Callable[[Any], object]


TINY = 1e-40
"""A denormal number of float32; it is 0 if the processor is told to flush such numbers."""
OWN_VARIABLES = ("TORCHINDUCTOR_", "TRITON_")
"""Variables that torch sets for itself when it is first asked to compile."""
SHOWN = 60
"""Characters of a value that are shown."""


def _put_back_device(device: Any) -> None:
    # A default device that is set, even to the CPU, makes every call slower: None is what a fresh process has.
    torch.set_default_device(None if device.type == "cpu" else device)


def _determinism() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)}


def _put_back_environment(variables: Mapping[str, str]) -> None:
    for name in _environment().keys() - variables.keys():
        del os.environ[name]
    os.environ.update(variables)


def _handlers() -> dict[str, object]:
    return {number.name: signal.getsignal(number) for number in signal.Signals}


def _put_back_handlers(handlers: Mapping[str, Any]) -> None:
    for name, handler in handlers.items():
        number = signal.Signals[name]
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def _keeps_denormals() -> bool:
    return bool(torch.full((1,), TINY, dtype=torch.float32, device="cpu").mul(1.0)[0] != 0)


def _cudnn() -> dict[str, bool]:
    return {name: getattr(torch.backends.cudnn, name) for name in ("enabled", "benchmark", "deterministic")}


def _put_back_cudnn(flags: Mapping[str, bool]) -> None:
    for name, value in flags.items():
        setattr(torch.backends.cudnn, name, value)


def _error_filters() -> list[Any]:
    """Filters that turn warnings into errors. Others, which libraries add on import, only change what is printed."""
    return [entry for entry in warnings.filters if entry[0] == "error"]


@functools.cache
def _blas() -> Any:
    """The BLAS libraries of a fresh worker; libraries that a plugin loads later have separate threads."""
    return threadpoolctl.ThreadpoolController().select(user_api="blas")


def _blas_threads() -> dict[str, int]:
    return {pool["filepath"]: pool["num_threads"] for pool in _blas().info()}


def _put_back_blas_threads(threads: Mapping[str, int]) -> None:
    for library in _blas().lib_controllers:
        library.set_num_threads(threads[library.filepath])


ASPECTS = (
    Aspect("torch's default dtype", torch.get_default_dtype, torch.set_default_dtype),
    Aspect("torch's default device", torch.get_default_device, _put_back_device),
    Aspect("torch's threads", torch.get_num_threads, torch.set_num_threads),
    Aspect("torch's gradient mode", torch.is_grad_enabled, torch.set_grad_enabled),
    Aspect(
        "torch's deterministic algorithms",
        _determinism,
        lambda before: torch.use_deterministic_algorithms(before[0], warn_only=before[1]),
    ),
    Aspect(
        "torch's matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision
    ),
    Aspect("torch's cudnn flags", _cudnn, _put_back_cudnn),
    Aspect("denormal numbers", _keeps_denormals, lambda before: torch.set_flush_denormal(not before)),
    Aspect("threads of BLAS", _blas_threads, _put_back_blas_threads),
    Aspect("numpy's error state", np.geterr, lambda before: np.seterr(**before)),
    Aspect("scikit-learn's configuration", sklearn.get_config, lambda before: sklearn.set_config(**before)),
    Aspect("environment variables", _environment, _put_back_environment),
    Aspect("working directory", os.getcwd, os.chdir),
    Aspect("locale", lambda: locale.setlocale(locale.LC_ALL), lambda before: locale.setlocale(locale.LC_ALL, before)),
    Aspect("signal handlers", _handlers, _put_back_handlers),
    Aspect("warnings as errors", _error_filters, lambda before: None),
    Aspect("sys.path", lambda: list(sys.path), lambda before: sys.path.__setitem__(slice(None), before)),
    Aspect("recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    Aspect("garbage collection", gc.isenabled, lambda before: gc.enable() if before else gc.disable()),
    Aspect("socket timeout", socket.getdefaulttimeout, socket.setdefaulttimeout),
)  # fmt: skip


class Surroundings:
    """The state when this object was made."""

    def __init__(self) -> None:
        self._before = {aspect: aspect.read() for aspect in ASPECTS}
        self._filters = list(warnings.filters)

    def changes(self) -> list[str]:
        """What has changed, in words: ``torch's threads: 1 became 4``."""
        return [_describe(aspect.name, self._before[aspect], now) for aspect, now in self._changed()]

    def put_right(self) -> list[str]:
        """Restore everything; returns what had changed."""
        changed = self._changed()
        for aspect, _ in changed:
            with contextlib.suppress(Exception):  # it cannot be restored, but its worker is replaced anyway
                aspect.put_back(self._before[aspect])
        if warnings.filters != self._filters:
            warnings.resetwarnings()
            warnings.filters.extend(self._filters)  # type: ignore[attr-defined]
        return [_describe(aspect.name, self._before[aspect], now) for aspect, now in changed]

    def _changed(self) -> list[tuple[Aspect, Any]]:
        found = []
        for aspect, before in self._before.items():
            try:
                now = aspect.read()
            except Exception as error:  # the working directory was deleted
                now = error
            if now != before:
                found.append((aspect, now))
        return found


def _describe(name: str, before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        keys = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
        shown = ", ".join(f"{key} {_short(before.get(key))} became {_short(now.get(key))}" for key in keys[:3])
        return f"{name}: {shown}"
    if isinstance(before, list) and isinstance(now, list):
        return f"{name}: {len(before)} entries became {len(now)}"
    return f"{name}: {_short(before)} became {_short(now)}"


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
