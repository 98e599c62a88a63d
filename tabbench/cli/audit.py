"""``tabbench audit``: run the tripwires on anyone's released results."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tabbench.cli.text import printable

if TYPE_CHECKING:
    from tabbench.results.audit import Audit

FOUND = 3
"""Exit code if there is a finding."""


def audit(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES...", help="CSV or JSON files, folders of them, or results folders.")
    ],
    mapping: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="TOML file that maps columns or JSON paths to fields."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for programs.")] = False,
) -> None:
    """Check anyone's released results: is validation the test set, were cells filled in, do the ranks follow?

    Columns named dataset, method, model, seed, validation and test need no mapping. Exit codes: 0 nothing found,
    2 the files cannot be used, 3 something found.
    """
    from tabbench.results.audit import audit_files

    found = audit_files(files, mapping)
    print(json.dumps(found.to_json(), indent=1) if as_json else "\n".join(describe(found)))
    sys.exit(FOUND if found.findings else 0)


def describe(found: "Audit") -> list[str]:
    """The findings as lines of text."""
    lines = [f"{found.runs:,} run(s) on {found.datasets:,} dataset(s) in {found.files:,} file(s)"]
    for finding in found.findings:
        lines += ["", f"{finding.what}: {finding.count:,} of {finding.total:,} {finding.unit}", f"  {finding.why}"]
        lines += [
            f"  for example {printable(example.name)}: {printable(example.detail)} ({printable(example.where)})"
            for example in finding.examples
        ]
    lines += ["", f"{len(found.findings)} finding(s)" if found.findings else "no findings"]
    lines += [
        f"by chance: {item.what}: {item.count:,} of {item.total:,} {item.unit}; rounding or few test "
        "rows can explain this"
        for item in found.by_chance
    ]
    lines += [f"not checked: {item.what}: {printable(item.reason)}" for item in found.not_checked]
    lines += [f"left out: {printable(line)}" for line in found.left_out]
    return lines
