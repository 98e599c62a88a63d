"""Where broken plugins are registered, with the check that each of them fails."""

from typing import Any

BROKEN: dict[type, str] = {}
"""Broken plugins, and the check that each of them fails."""


def fails(check: str) -> Any:
    def register(cls: type) -> type:
        BROKEN[cls] = check
        return cls

    return register
