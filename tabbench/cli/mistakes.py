"""Errors of the command-line parser, on one line like every other error of tabbench."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import typer

from tabbench.errors import in_words

# typer has no name of its own for these two, and where click's are depends on its version.
UsageMistake: type[Exception] = typer.BadParameter.__mro__[1]
ParserError: type[Exception] = typer.BadParameter.__mro__[2]


def explain(error: Any, arguments: Sequence[str]) -> str:
    """What was given, what would work, and the nearest match; ``arguments`` is the command line."""
    context = getattr(error, "ctx", None)
    help_ = f" See: {context.command_path} --help" if context is not None else ""
    option = getattr(error, "option_name", None)
    command = re.match("No such command '(.*?)'", error.format_message())
    if command is not None and context is not None:
        return f"Unknown command {command[1]!r}.{_nearest(command[1], list(context.command.commands))}{help_}"
    if option is not None and hasattr(error, "possibilities"):
        names = [name for parameter in context.command.params for name in parameter.opts] if context else []
        return f"Unknown option {option!r}.{_nearest(option, names)}{help_}"
    parameter = getattr(error, "param", None)
    if isinstance(error, typer.BadParameter) and parameter is not None and error.message:
        name, value = _given(parameter, arguments)
        return _one_line(f"{name} {value}".strip() + f": {in_words(error.message)}")
    if option is not None:  # one value too many or too few
        written = next((each for each in arguments if each.startswith(f"{option}=")), "")
        return _one_line(f"{written}: {error.format_message()}" if written else error.format_message())
    extra = re.match(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", error.format_message(), re.DOTALL)
    if extra is not None:
        return _one_line(f"Unexpected argument: {extra[1]}.{help_}")
    return _one_line(error.format_message()) + help_


def _nearest(given: str, names: Sequence[str]) -> str:
    near = get_close_matches(given.lower(), names, n=1)
    return f" Did you mean: {near[0]}?" if near else ""


def _given(parameter: Any, arguments: Sequence[str]) -> tuple[str, str]:
    """The name of an option or argument, and the given value if it can be found."""
    if parameter.param_type_name != "option":
        return str(parameter.metavar or parameter.name).upper(), ""
    name, value = parameter.opts[0], ""
    for place, word in enumerate(arguments):
        written, equals, rest = word.partition("=")
        if written in parameter.opts:
            name, value = written, rest if equals else "".join(arguments[place + 1 : place + 2])
    return name, value


def _one_line(text: str) -> str:
    return " ".join(text.split())
