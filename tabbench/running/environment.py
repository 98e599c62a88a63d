"""Versions, machine and memory of the process that runs a job, for its record."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from tabbench.context import Context
from tabbench.results.record import Environment

PACKAGES = ("tabbench-ssl", "torch", "numpy", "pandas", "scikit-learn")
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
"""The name at the start of a requirement."""


def versions_of(distributions: Iterable[str]) -> dict[str, str]:
    """Versions of the packages behind every result, and of those that these plugins' distributions require."""
    found = {name: version(name) for name in PACKAGES}
    for distribution in distributions:
        found |= _requirements(distribution)
    return found


@cache
def _requirements(distribution: str) -> dict[str, str]:
    """Versions of the packages that a distribution requires, without extras; none for an unpublished file."""
    try:
        lines = requires(distribution) or []
    except (PackageNotFoundError, ValueError):
        return {}
    found = {}
    for line in lines:
        name = NAME.match(line)
        if name is None or re.search(r";.*\bextra\b", line):
            continue
        try:
            found[name.group()] = version(name.group())
        except PackageNotFoundError:  # it is for another platform or Python
            continue
    return found


def environment(context: Context, distributions: Iterable[str] = ()) -> Environment:
    """Where this job ran; ``distributions`` are those of the plugins that took part."""
    return Environment(
        python=platform.python_version(),
        platform=platform.platform(terse=True),
        machine=platform.machine(),
        device=context.device,
        threads=context.threads,
        peak_memory=peak_memory(),
        versions=versions_of(distributions),
    )


def reset_peak_memory() -> None:
    """Reset the peak, so that it belongs to this job and not to an earlier one in the same process."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:  # not Linux: the peak is then that of the process
        return


def peak_memory() -> int:
    """Peak resident bytes since the last reset."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError):
        import psutil

        return int(psutil.Process().memory_info().rss)
