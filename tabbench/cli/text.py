"""Text from outside, made safe for a terminal."""

from tabbench.results.escaping import escape_terminal

WIDEST = 160
"""Longer pieces are cut."""


def printable(text: str, limit: int = WIDEST) -> str:
    """Text on one line: what a terminal would act upon is written as an escape, and long text is cut."""
    return escape_terminal(text[:limit]) + ("..." if len(text) > limit else "")
