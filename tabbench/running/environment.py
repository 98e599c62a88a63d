"""Versions, machine and memory of the process that runs a job, for its record."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

from tabbench.context import Context
from tabbench.results.record import Environment

PACKAGES = ("tabbench-ssl", "torch", "numpy", "pandas", "scikit-learn")


def environment(context: Context) -> Environment:
    """Where this job ran."""
    return Environment(
        python=platform.python_version(),
        platform=platform.platform(terse=True),
        machine=platform.machine(),
        device=context.device,
        threads=context.threads,
        peak_memory=peak_memory(),
        versions={package: version(package) for package in PACKAGES},
    )


def reset_peak_memory() -> None:
    """Let the peak be that of this job, not of an earlier one in the same process."""
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
