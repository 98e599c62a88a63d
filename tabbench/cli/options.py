"""Options that several commands share."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import typer.core

from tabbench.cli.completion import offer
from tabbench.errors import UsageError

NAMES = "A,B"
"""The metavar of options that take a list."""
AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
Options = TypeVar("Options")


class _Parameters:
    """In the help a flag is its name alone, not ``--offline <bool>``. Names are completed by the shell."""

    name: str | None

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in found:
            if getattr(parameter, "is_flag", False) and parameter.metavar is None:
                parameter.metavar = ""
            offer(self.name or "", parameter)
        return found

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse a list that is given twice, as in ``--ssl a --ssl b``: only the last would count."""
        _, _, given = self.make_parser(ctx).parse_args(list(args))  # type: ignore[attr-defined]
        for parameter in given:
            if parameter.metavar == NAMES and given.count(parameter) > 1:
                raise UsageError(f"{parameter.opts[0]} is given twice: write {parameter.opts[0]} {NAMES}")
        rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return rest


class _Command(_Parameters, typer.core.TyperCommand):
    pass


class _Group(_Parameters, typer.core.TyperGroup):
    pass


class CommandGroup(typer.Typer):
    """A group of commands whose help pages show flags without a type."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=_Group, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[AnyFunction], AnyFunction]:
        return super().command(name, cls=_Command, **options)


def takes(options: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Turn a function of one value into a command whose options are the fields of the dataclass ``options``."""

    def make_command(function: Callable[[Options], None]) -> Callable[..., None]:
        def command(**given: Any) -> None:
            function(options(**given))

        signature = inspect.signature(options)
        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
        vars(command)["__signature__"] = signature
        return command

    return make_command


PluginFiles = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", help="Python file with an unpublished plugin; repeatable."),
]
ResultsFolder = Annotated[Path, typer.Option("--results", metavar="DIR", help="Folder with records and artefacts.")]
DEFAULT_RESULTS = Path("results")
TO_START = "start with 'tabbench run', or give a folder with --results"
"""What to do where there are no results."""


def split_names(value: str) -> list[str]:
    """``"a, b"`` as ``["a", "b"]``; duplicates are dropped. A comma within a name is written ``\\,``."""
    names = (name.replace("\\,", ",").strip() for name in re.split(r"(?<!\\),", value))
    return list(dict.fromkeys(name for name in names if name))
