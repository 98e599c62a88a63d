"""The errors that tabbench raises on purpose. Anything else is a bug and shows its traceback."""

import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

FILE_MODULE = "tabbench_file_"
"""Prefix of the modules of unpublished plugins."""


class TabbenchError(Exception):
    """Something the user can fix. The command line prints it on one line, without a traceback."""

    exit_code = 1


class UsageError(TabbenchError, ValueError):
    """A given name, option, file or table cannot be used."""

    exit_code = 2


class DataError(UsageError):
    """A dataset cannot be loaded, or is not what it claims to be."""


class PluginError(UsageError):
    """A plugin cannot be imported or breaks the contract."""


class ArtefactError(TabbenchError):
    """A stored encoder or representation is damaged. It is set aside and computed again."""


class TabbenchWarning(UserWarning):
    """Something the user should know; the run continues. The command line prints it on one line."""


class Interruption(BaseException):
    """Raised by ``Context.report`` to stop training from outside. Methods must not catch it.

    Like ``KeyboardInterrupt`` it is not an ``Exception``, so that ``except Exception`` does not swallow it.
    """


class DeadlineReached(Interruption):
    """This job has used up its time."""


class Pruned(Interruption):
    """The tuner has seen enough of this trial."""


class Evicted(Interruption):
    """The machine is needed for something else. The job resumes elsewhere from its checkpoint."""


LIMITS = {
    "Input should be greater than or equal to ": "give at least ",
    "Input should be less than or equal to ": "give at most ",
    "Input should be greater than ": "give more than ",
    "Input should be less than ": "give less than ",
    "Input should be a valid integer": "give a whole number",
    "Input should be a valid number": "give a number",
    "Input should be a finite number": "give a finite number",
}
"""How pydantic begins a message, and how we say it. Of the last three the rest of the message is left out."""


def in_words(fault: str) -> str:
    """A message of pydantic as we would say it: ``give at least 1``."""
    fault = fault.removeprefix("Value error, ")
    for theirs, ours in LIMITS.items():
        if fault.startswith(theirs):
            return ours + fault.removeprefix(theirs) if ours.endswith(" ") else ours
    return fault


def did_you_mean(given: str, available: Iterable[str]) -> str:
    """The end of an error about a wrong name: the nearest match, then all valid names."""
    names = sorted(set(available))
    lowered = {name.lower(): name for name in names}
    near = get_close_matches(given.lower(), lowered, n=1, cutoff=0.6)
    if not near and len(given) > 1:  # acc: accuracy
        near = [name for name in lowered if name.startswith(given.lower())]
    hint = f" Did you mean: {lowered[near[0]]}?" if near else ""
    return f"{hint} Available: {', '.join(names) or 'none'}."


def near_file(path: Path) -> str:
    """The end of an error about a file that does not exist: the nearest name in its folder; empty if there is none."""
    beside = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
    near = get_close_matches(path.name, beside, n=1)
    return f" Did you mean: {path.with_name(near[0])}?" if near else ""


def unknown(what: str, given: str, available: Iterable[str]) -> UsageError:
    """``unknown("SSL method", "tjpea", names)`` is the error for a name that nobody registered."""
    return UsageError(f"Unknown {what} {given!r}.{did_you_mean(given, available)}")


def plugin_line(error: BaseException) -> str:
    """Where a plugin failed, as the end of a message: `` (tabbench_vime/method.py:83)``; empty if none was running."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("tabbench_"):  # the prefix of all plugin modules, unpublished files included
            path = Path(frame.f_code.co_filename)
            return f" ({path.name if module.startswith(FILE_MODULE) else '/'.join(path.parts[-2:])}:{line})"
    return ""
