"""The command line: one module per command, in the order of the average workflow.

Nothing heavy is imported before a command needs it, so that ``tabbench --help`` answers at once.
"""

import errno
import sys
from typing import Annotated

import typer

from tabbench import TabbenchError, __version__
from tabbench.cli import data, embed, listing, plugins, replay, report, results, run, show, table

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
"""Errors of the disk, which the user can mend."""

app = typer.Typer(
    name="tabbench",
    help="Benchmark self-supervised learning on tabular data, with tables that can be believed.",
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
        bool, typer.Option("--version", help="Print the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Benchmark self-supervised learning on tabular data, with tables that can be believed."""


app.command("run")(run.run)
app.command("table")(table.table)
app.command("report")(report.report)
app.command("list")(listing.list_plugins)
app.command("show")(show.show)
app.command("embed")(embed.embed)
app.add_typer(data.app, name="data")
app.command("replay")(replay.replay)
app.add_typer(results.app, name="results")
app.add_typer(plugins.app, name="plugins")


def main() -> None:
    """The console script: errors that the user can mend are one line, without a traceback."""
    try:
        app()
    except TabbenchError as error:
        print(f"tabbench: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:  # `tabbench list | head`
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        place = f" to {error.filename}" if error.filename else ""
        print(f"tabbench: cannot write{place}: {error.strerror}. What was finished is kept.", file=sys.stderr)
        sys.exit(1)
