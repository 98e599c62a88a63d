"""Load an encoder from an untrusted folder: it is valid, or refused in one sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tabbench.contracts import SSLMethod
from tabbench.errors import TabbenchError, UsageError
from tabbench.registry import Entry, Registry
from tabbench.results.artefacts import DIGESTS, find_fault
from tabbench.results.files import open_regular, read_json

FILES = ("method.json", "state.safetensors")
MODULES, COPIES = 2 * 2**30, 16
"""Memory that loading may take: bytes for what a method imports and builds, and copies of the stored weights."""


def check_encoder(folder: Path, entry: Entry, registry: Registry) -> None:
    """Refuse a folder with no encoder, a damaged one, or one of another method.

    Raises:
        UsageError: says which of these it is.
    """
    for name in FILES:
        try:
            open_regular(folder / name).close()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"--encoder {folder}: there is no stored encoder in this folder ({name}: {why})") from None
    fault = find_fault(folder) if (folder / DIGESTS).exists() else ""
    if fault:
        raise UsageError(f"--encoder {folder}: it {fault}")
    try:
        about = read_json(folder / FILES[0])
        stored = about["class"]
    except (OSError, ValueError, KeyError, TypeError):
        stored = None
    if not isinstance(stored, str):
        raise UsageError(f"--encoder {folder}: its {FILES[0]} is damaged")
    owner = next((each.name for each in registry.entries("ssl") if each.plugin.target == stored), None)
    # The module of an unpublished plugin is named after its content, so only the class name is compared.
    if owner is None and stored.rpartition(":")[2] == entry.plugin.target.rpartition(":")[2]:
        return
    if owner != entry.name:
        what = f"a {owner} encoder" if owner else f"an encoder of {stored}"
        remedy = f"give --ssl {owner}" if owner else "name the plugin that it belongs to"
        raise UsageError(f"{folder} holds {what}, not one of {entry.name}: {remedy}")


def load_encoder(folder: Path, entry: Entry, registry: Registry, device: str) -> SSLMethod:
    """The encoder in a folder.

    Raises:
        UsageError: it cannot be loaded, whatever the reason.
    """
    check_encoder(folder, entry, registry)
    method_class: type[SSLMethod] = registry.load(entry)
    with refusing(f"--encoder {folder}: it does not hold an encoder that can be loaded"), _bounded_memory(folder):
        return method_class.load(folder, device)


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Turn any error that an untrusted file makes a plugin raise into one sentence."""
    try:
        yield
    except (TabbenchError, OSError):
        raise
    except Exception as error:
        told = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(f"{what} ({told[:200]})") from None


@contextmanager
def _bounded_memory(folder: Path) -> Iterator[None]:
    """Make allocations fail that no honest encoder of this size needs: settings in a file may ask for any width."""
    if sys.platform != "linux":
        yield
        return
    import resource

    import psutil

    before = resource.getrlimit(resource.RLIMIT_DATA)
    used = psutil.Process().memory_info().data
    stored = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    limit = used + min(psutil.virtual_memory().available, MODULES + COPIES * stored)
    if before[0] != resource.RLIM_INFINITY:
        limit = min(limit, before[0])
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
