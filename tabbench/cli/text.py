"""Make text from outside safe for a terminal."""

from tabbench.results.escaping import escape_terminal

WIDEST = 160
"""Longer text is cut."""


def printable(text: str, limit: int = WIDEST) -> str:
    """Text on one line, cut if long, with control characters escaped."""
    return escape_terminal(text[:limit]) + ("..." if len(text) > limit else "")
