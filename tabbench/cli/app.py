"""The command line: one module per command, in the order of a typical workflow.

Nothing heavy is imported before a command needs it, so that ``tabbench --help`` answers at once.
"""

import errno
import io
import sys
import warnings
from typing import Annotated, NoReturn, TextIO

import typer

from tabbench import TabbenchError, __version__
from tabbench.cli import (
    audit,
    cite,
    data,
    embed,
    fit,
    inspect,
    leaderboard,
    listing,
    plugins,
    replay,
    report,
    results,
    run,
    show,
    status,
    table,
)
from tabbench.cli.mistakes import ParserError, UsageMistake, explain
from tabbench.cli.options import CommandGroup
from tabbench.cli.text import printable
from tabbench.errors import TabbenchWarning

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
"""Disk errors that the user can fix."""

UNUSABLE = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR)
"""Errors of a path that was given."""

app = CommandGroup(
    name="tabbench",
    help="Benchmark self-supervised learning on tabular data, with tables you can trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tabbench {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Benchmark self-supervised learning on tabular data, with tables you can trust."""


app.command("run")(run.run)
app.command("status")(status.status)
app.command("table")(table.table)
app.command("report")(report.report)
app.command("leaderboard")(leaderboard.leaderboard)
app.command("list")(listing.list_plugins)
app.command("show")(show.show)
app.command("cite")(cite.cite)
app.command("inspect")(inspect.inspect)
app.command("embed")(embed.embed)
app.add_typer(data.app, name="data")
app.command("fit")(fit.fit)
app.command("predict")(fit.predict)
app.command("replay")(replay.replay)
app.add_typer(results.app, name="results")
app.command("audit")(audit.audit)
app.add_typer(plugins.app, name="plugins")


def main() -> None:
    """The console script. Errors that the user can fix are one line, without a traceback."""
    _shorten_warnings()
    _print_in_any_encoding()
    try:
        code = app(prog_name="tabbench", standalone_mode=False)
    except TabbenchError as error:
        _leave(str(error), error.exit_code)
    except UsageMistake as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # `tabbench data`: the help has been printed
            sys.exit(2)
        _leave(explain(error, sys.argv[1:]), 2)
    except ParserError as error:
        _leave(" ".join(str(error).split()), 1)
    except BrokenPipeError:  # `tabbench list | head`
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno in UNUSABLE:
            _leave(f"{str(error.filename)[:100]}: {error.strerror}: give another file or folder", 2)
        if error.errno not in UNWRITABLE:
            raise
        what = "read or write" if error.errno == errno.EACCES else "write"
        place = f" {error.filename}" if error.filename else ""
        _leave(f"cannot {what}{place}: {error.strerror}. Finished records are kept.", 1)
    if code == run.INTERRUPTED:  # Ctrl-C; a run that has begun says more, and leaves by itself
        _leave("interrupted", run.INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _leave(message: str, code: int) -> NoReturn:
    print(f"tabbench: {printable(message, limit=2000)}", file=sys.stderr)
    sys.exit(code)


def _print_in_any_encoding() -> None:
    """Escape characters that the terminal or file cannot take, as Python does on stderr: ``±`` in a Latin-9 locale."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _shorten_warnings() -> None:
    """Print tabbench's warnings on one line; Python would add the source line that raised them."""
    show = warnings.showwarning

    def show_shortly(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, TabbenchWarning):
            print(f"tabbench: {printable(str(message), limit=2000)}", file=file or sys.stderr)
        else:
            show(message, category, filename, lineno, file, line)

    warnings.showwarning = show_shortly
