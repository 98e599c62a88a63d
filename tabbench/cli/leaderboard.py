"""``tabbench leaderboard``: a static site from result folders."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tabbench.cli.options import PluginFiles
from tabbench.cli.table import AnyBudget, Fidelity

REFUSED = 20
"""Refusals that are printed; a folder can have thousands of the same kind."""


def leaderboard(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Result folders, one per submission.")],
    out: Annotated[Path, typer.Option(metavar="SITE", help="Output folder.")] = Path("site"),
    fidelity: Fidelity = None,
    any_budget: AnyBudget = False,
    plugin: PluginFiles = None,
) -> None:
    """Write a static site: an index with ratings, a page per dataset, and a page per method with its card.

    Folders are merged as by 'tabbench results merge'; the index names refused records. Any static host can serve
    the site. Exit codes: 0 all merged, 1 something was refused.
    """
    from tabbench.registry import make_registry
    from tabbench.results.site import make_site, write_site

    site = make_site(folders, make_registry(plugin or []), fidelity=fidelity, any_budget=any_budget)
    write_site(site, out)
    print(f"{out}: {len(site.pages)} pages, {site.rows} rows, {site.datasets} dataset(s)")
    for reason in site.refused[:REFUSED]:
        print(f"refused: {reason}", file=sys.stderr)
    if len(site.refused) > REFUSED:
        print(f"refused: {len(site.refused) - REFUSED} more, see: tabbench results verify DIR", file=sys.stderr)
    sys.exit(1 if site.refused else 0)
