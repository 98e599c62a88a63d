"""The frame of a page, with styles and scripts inside and nothing loaded from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tabbench import __version__
from tabbench.results.escaping import escape_html as escape
from tabbench.results.escaping import json_values
from tabbench.results.formats import make_grid
from tabbench.results.formats.layouts import to_html
from tabbench.results.score_table import ScoreTable

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("core", "inspection", "board", "charts", "main")


def document(title: str, body: str, data: Any, sections: Sequence[tuple[str, str]] = (), home: str = "") -> str:
    """A whole page.

    Args:
        title: title of the window.
        body: content of the page.
        data: data that the script draws.
        sections: anchors and names for the navigation bar.
        home: link behind the bar's name, on a site of several pages.
    """
    style = (ASSETS / "page.css").read_text(encoding="utf-8")
    script = '"use strict";\n' + "".join((ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Even if some text were not escaped, the browser would run no other script and load nothing.
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; base-uri 'none'"
    )
    links = "".join(f'<a href="#{anchor}">{escape(name)}</a>' for anchor, name in sections)
    name = f'<a href="{escape(home)}"><strong>Leaderboard</strong></a>' if home else "<strong>tabbench</strong>"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
        '<a class="skip" href="#content">Skip to the content</a>'
        f'<header class="top"><div>{name}<nav aria-label="Sections">{links}</nav>'
        '<button type="button" id="theme" hidden></button></div></header>'
        f'<main id="content">{body}</main>'
        f"<footer>Made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by tabbench {escape(__version__)}.</footer>"
        f'<script type="application/json" id="data">{embedded(data)}</script><script>{script}</script></body></html>\n'
    )


def embedded(data: Any) -> str:
    """JSON for a script element; no text in it can end the element or begin a comment."""
    text = json.dumps(json_values(data), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def section(anchor: str, title: str, body: str, lead: str = "", *, hidden: bool = False) -> str:
    """A part of the page with its heading."""
    told = f'<p class="soft">{escape(lead)}</p>' if lead else ""
    return (
        f'<section id="{anchor}" aria-labelledby="{anchor}-title"{" hidden" if hidden else ""}>'
        f'<h2 id="{anchor}-title">{escape(title)}</h2>{told}{body}</section>'
    )


def board_section(label: str, table: ScoreTable) -> str:
    """The main table, plain and with its notes, until the script draws it with shorter ones."""
    plain = make_grid(replace(table, data_notes={}))  # these have a section of their own
    return (
        '<div id="controls" class="controls" role="group" aria-label="Choose what the table shows"></div>'
        '<p id="status" class="soft" role="status"></p>'
        f'<div id="board" tabindex="0" role="region" aria-label="{escape(label)}">{to_html(plain)}</div>'
        '<p id="notes" class="notes"></p>'
        '<p class="soft" id="plain">Sorting, filters and charts need JavaScript. The rest of this page does not.</p>'
    )


def chart(anchor: str, title: str, lead: str) -> str:
    """A part that the script fills; it is hidden without the script."""
    return section(anchor, title, f'<div data-chart="{anchor}"></div>', lead, hidden=True)
