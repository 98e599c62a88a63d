"""Options that several commands share."""

import re
from pathlib import Path
from typing import Annotated

import typer

PluginFiles = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", help="A Python file with an unpublished plugin; can be given again."),
]
ResultsFolder = Annotated[Path, typer.Option("--results", metavar="DIR", help="Folder of records and artefacts.")]
DEFAULT_RESULTS = Path("results")


def split_names(value: str) -> list[str]:
    """``"a, b"`` as ``["a", "b"]``; doubles are dropped. A comma within a name is written ``\\,``."""
    names = (name.replace("\\,", ",").strip() for name in re.split(r"(?<!\\),", value))
    return list(dict.fromkeys(name for name in names if name))
