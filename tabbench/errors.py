"""The errors that tabbench raises on purpose. Anything else is a bug and shows its trace."""

import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

FILE_MODULE = "tabbench_file_"
"""Modules of unpublished plugins begin so."""


class TabbenchError(Exception):
    """Something the user can mend. The command line prints it on one line, without a traceback."""

    exit_code = 1


class UsageError(TabbenchError, ValueError):
    """A name, option, file or table that was given cannot be used."""

    exit_code = 2


class DataError(UsageError):
    """A dataset cannot be loaded, or is not what it is said to be."""


class PluginError(UsageError):
    """A plugin cannot be imported or breaks the contract."""


class ArtefactError(TabbenchError):
    """A stored encoder or representation is damaged; it has been set aside and is made again."""


class TabbenchWarning(UserWarning):
    """Something the user should know, though the work goes on. The command line prints it on one line."""


class Interruption(BaseException):
    """Raised by ``Context.report`` to end a training from outside. Methods let it pass.

    Like ``KeyboardInterrupt`` it is not an ``Exception``, so that ``except Exception`` does not swallow it.
    """


class DeadlineReached(Interruption):
    """The time of this job is used up."""


class Pruned(Interruption):
    """The tuner has seen enough of this trial."""


class Evicted(Interruption):
    """The machine is needed for something else: the job goes on elsewhere, from its checkpoint."""


def did_you_mean(given: str, available: Iterable[str]) -> str:
    """The tail of an error about a wrong name: nearest match, then what there is."""
    names = sorted(set(available))
    lowered = {name.lower(): name for name in names}
    near = get_close_matches(given.lower(), lowered, n=1, cutoff=0.6)
    hint = f" Did you mean: {lowered[near[0]]}?" if near else ""
    return f"{hint} Available: {', '.join(names) or 'none'}."


def unknown(what: str, given: str, available: Iterable[str]) -> UsageError:
    """``unknown("SSL method", "tjpea", names)`` is the error for a name that nobody registered."""
    return UsageError(f"Unknown {what} {given!r}.{did_you_mean(given, available)}")


def plugin_line(error: BaseException) -> str:
    """Where a plugin failed, for the end of a message: `` (tabbench_vime/method.py:83)``; empty if none was running."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("tabbench_"):  # what plugins are called, unpublished files included
            path = Path(frame.f_code.co_filename)
            return f" ({path.name if module.startswith(FILE_MODULE) else '/'.join(path.parts[-2:])}:{line})"
    return ""
