"""How the cores of this machine are shared among jobs."""

import os

from tabbench.errors import UsageError


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def jobs_at_a_time(threads: int) -> int:
    """How many jobs fit on the cores with this many threads each."""
    return max(1, available_cores() // threads)


def pick_device(name: str) -> str:
    """``auto`` as the best available device; an unavailable device is an error."""
    import torch

    found = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if found[device])
    if not found.get(name.partition(":")[0], False):
        raise UsageError(f"--device {name}: this machine has {', '.join(d for d, there in found.items() if there)}")
    return name
