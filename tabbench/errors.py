"""The errors that tabbench raises on purpose. Anything else is a bug and shows its trace."""

from collections.abc import Iterable
from difflib import get_close_matches


class TabbenchError(Exception):
    """Something the user can mend. The command line prints it on one line, without a traceback."""

    exit_code = 1


class UsageError(TabbenchError):
    """A name, option or file that was given cannot be used."""

    exit_code = 2


class DataError(UsageError):
    """A dataset cannot be loaded, or is not what it is said to be."""


class PluginError(UsageError):
    """A plugin cannot be imported or breaks the contract."""


class TabbenchWarning(UserWarning):
    """Something the user should know, though the work goes on. The command line prints it on one line."""


class Interruption(Exception):  # noqa: N818 - control flow, not a failure
    """Raised by ``Context.report`` to end a training from outside. Methods let it pass."""


class DeadlineReached(Interruption):
    """The time of this job is used up."""


class Pruned(Interruption):
    """The tuner has seen enough of this trial."""


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
