"""Make text from outside harmless: one function per format.

Names of datasets, columns and methods, settings and errors may contain anything. None of it may move a terminal's
cursor, or become a LaTeX command, a spreadsheet formula or a tag.
"""

from __future__ import annotations

import html
import math
import unicodedata
from typing import Any

_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that are invisible, or that change how others look."""
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}", "±": r"$\pm$", "≈": r"$\approx$",
    "≤": r"$\leq$", "†": r"\dag{}", "\u2212": "--", "\u2013": "--", "\u2014": "---", "\u2019": "'", "…": r"\dots{}",
}  # fmt: skip
_LATIN = 0x17F
"""The last character that plain LaTeX can typeset."""
_MARKDOWN = frozenset("\\`*[]|!~$#")
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Characters that begin a formula, including their full-width forms."""


def escape_terminal(text: str) -> str:
    """Put text on one line; characters that control a terminal or reverse text are written as ``\\x1b``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


def escape_latex(text: str) -> str:
    """Escape text for a LaTeX table; letters that LaTeX does not know are written as [U+4E2D]."""
    found = []
    for character in escape_terminal(text):
        if character in _LATEX:
            found.append(_LATEX[character])
        else:
            found.append(character if ord(character) <= _LATIN else f"[U+{ord(character):04X}]")
    return "".join(found)


def escape_latex_comment(text: str) -> str:
    """Escape text after a ``%``, so that it cannot leave its line."""
    return escape_terminal(text)


def escape_markdown(text: str) -> str:
    """Escape text in a cell or line of Markdown: no tags, links or emphasis."""
    plain = escape_terminal(text)
    found = []
    for place, character in enumerate(plain):
        inner = plain[place - 1 : place].isalnum() and plain[place + 1 : place + 2].isalnum()
        if character in _MARKDOWN or (character == "_" and not inner):
            found.append(f"\\{character}")
        else:
            found.append(html.escape(character, quote=False))
    return "".join(found)


def escape_csv(value: Any) -> Any:
    """Escape a value for CSV: text that a spreadsheet would read as a formula gets an apostrophe in front."""
    if not isinstance(value, str):
        return value
    plain = escape_terminal(value)
    return f"'{plain}" if plain.lstrip().startswith(_FORMULA) else plain


def escape_html(text: str) -> str:
    """Escape text between tags or in a quoted attribute."""
    return html.escape(escape_terminal(text))


def json_values(value: Any) -> Any:
    """Prepare a value for JSON: numbers that are not finite become null, because NaN is not JSON."""
    if isinstance(value, dict):
        return {str(name): json_values(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_values(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _visible(character: str) -> str:
    if character in "\n\r\t":
        return " "
    if unicodedata.category(character) not in _UNPRINTABLE:
        return character
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
