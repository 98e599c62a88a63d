"""Which room of the house imports which, read from the code: ``python docs/rooms.py`` prints the picture.

Imports inside functions count, those for type checkers do not. ``tests/test_architecture.py`` fails where an arrow
points the wrong way, and where docs/design.md does not show the picture as it is.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "tabbench"
ROOMS = {
    "contract": "what a plugin's author reads: hooks, classes to subclass, values, settings, errors",
    "registry": "finds plugins",
    "data": "tables from names and files, the cache, cleaning, splits, metrics",
    "nn": "building blocks of methods and models",
    "experiment": "what is to be run: spec, settings, plan",
    "results": "what came out: records, store, tables, statistics, pages",
    "running": "how it is run: driver, studies, workers, what a job does",
    "testing": "the conformance kit, and templates of plugins",
    "api": "the Python API",
    "cli": "the command line, one module per command",
}
"""Rooms from the ground up: each may import those above it in this list."""
ALONE = {"nn": {"contract"}, "data": {"contract", "registry"}}
"""Rooms that know less than their place would allow."""


def modules() -> dict[str, Path]:
    """Every module of the host by its name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room_of(module: str) -> str:
    """``tabbench.results.store`` is in ``results``; the modules of the root are the contract, except for two."""
    first = module.split(".")[1] if "." in module else ""
    if first in ("registry", "api"):
        return first
    if first == "__main__":
        return "cli"
    return first if first in ROOMS else "contract"


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Modules of the host that a file imports, wherever in the file; those for type checkers left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            while name not in known and "." in name:
                name = name.rpartition(".")[0]
            if name in known:
                yield name


def arrows() -> dict[str, set[str]]:
    """For each room the rooms it imports."""
    known = modules()
    found: dict[str, set[str]] = {room: set() for room in ROOMS}
    for module, path in known.items():
        if module == "tabbench":  # the public face names everything, and imports it on first use
            continue
        for name in imports(path, known):
            if name != "tabbench" and room_of(name) != room_of(module):
                found[room_of(module)].add(room_of(name))
    return found


def picture() -> str:
    """The rooms with their arrows, as text."""
    found = arrows()
    width = max(len(room) for room in ROOMS)
    lines = []
    for room, what in ROOMS.items():
        inside = sum(room_of(module) == room for module in modules())
        used = ", ".join(name for name in ROOMS if name in found[room]) or "nothing"
        lines += [f"{room:<{width}}  {what} ({inside} module{'s' * (inside != 1)})", f"{'':<{width}}    imports {used}"]
    return "\n".join(lines)


if __name__ == "__main__":
    print(picture())
