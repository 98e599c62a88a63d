"""Tables in README and docs that are printed from records: ``python docs/generate.py`` writes them anew.

A page says which command prints a table, and where it ends:

    <!-- printed by: tabbench table --results results/published/california --metric gain -->
    <!-- end of print -->
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- printed by: (?P<command>tabbench .*?) -->\n(?P<text>.*?)<!-- end of print -->", re.S)


def pages() -> list[Path]:
    """README and the pages of docs that have printed tables."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [page for page in found if BLOCK.search(page.read_text(encoding="utf-8"))]


def run(command: str) -> str:
    """What a command prints, run from the root of the repository."""
    words = shlex.split(command)[1:]
    done = subprocess.run(
        [sys.executable, "-m", "tabbench", *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


def block(command: str, printed: str) -> str:
    """A command and what it prints, as it stands on a page."""
    is_markdown = "--format markdown" in command
    text = f"\n{printed.strip()}\n\n" if is_markdown else f"```text\n{printed.rstrip()}\n```\n"
    return f"<!-- printed by: {command} -->\n{text}<!-- end of print -->"


def with_tables(page: str) -> str:
    """A page with its tables as the records give them now."""
    return BLOCK.sub(lambda found: block(found["command"], run(found["command"])), page)
