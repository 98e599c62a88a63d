"""The package that ``tabbench plugins new`` writes: templates with ``{{words}}`` filled in."""

from __future__ import annotations

import datetime
import importlib.util
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from tabbench import __version__
from tabbench.errors import UsageError, unknown
from tabbench.hookspecs import KIND_NAMES
from tabbench.registry import Registry

NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")


@dataclass(frozen=True)
class Template:
    """What differs between the kinds of plugins."""

    kind: str
    """As in ``tabbench list --json``."""
    module: str
    """The module that does the work."""
    run: str
    """A short run that uses the plugin."""
    settings: str = ""
    """What makes its checks fast."""


TEMPLATES = {
    "ssl": Template("ssl", "method", "run --ssl {name} --model linear --data wine", ', settings={"epochs": 2}'),
    "model": Template(
        "model", "model", "run --ssl none --model {name} --data wine", ', settings={"max_epochs": 10, "lr": 0.01}'
    ),
    "joint": Template("ssl", "method", "run --ssl {name} --model linear --data wine", ', settings={"epochs": 2}'),
    "dataset": Template("data", "dataset", "run --ssl none --model linear --data {name} --preset quick"),
    "scheme": Template("scheme", "scheme", "run --ssl none --model linear --data {name}:7 --preset quick"),
    "executor": Template("executor", "executor", "run --ssl none --model linear --data wine --executor {name}"),
    "reference": Template("reference", "published", "table --against {name}"),
}


def make_package(kind: str, name: str, registry: Registry) -> dict[str, str]:
    """The files of a new package by their paths. ``registry`` says which names are taken."""
    if kind not in TEMPLATES:
        raise unknown("kind of plugin", kind, TEMPLATES)
    template = TEMPLATES[kind]
    check_name(name, template.kind, registry)
    underscored = name.replace("-", "_")
    package = f"tabbench_{underscored}"
    noun = KIND_NAMES[template.kind]
    words = {
        "name": name,
        "underscored": underscored,
        "package": package,
        "module": template.module,
        "class": "".join(part.capitalize() for part in underscored.split("_")),
        "noun": f"{'an' if noun[0] in 'aeiouS' else 'a'} {noun}",
        "run": template.run.format(name=name),
        "show": "list data" if template.kind in ("data", "scheme") else f"show {name}",
        "settings": template.settings,
        "host_version": __version__,
        "year": str(datetime.date.today().year),
    }
    sources = {
        "pyproject.toml": "package/pyproject.toml.txt",
        "README.md": "package/README.md.txt",
        "LICENSE": "package/LICENSE.txt",
        ".github/workflows/ci.yml": "package/ci.yml.txt",
        ".github/workflows/leaderboard.yml": "package/leaderboard.yml.txt",
        f"{package}/__init__.py": f"{kind}/init.py.txt",
        f"{package}/{template.module}.py": f"{kind}/{template.module}.py.txt",
        f"tests/test_{underscored}.py": "package/test.py.txt",
    }
    folder = resources.files("tabbench.testing") / "templates"
    return {path: fill(folder.joinpath(source).read_text(encoding="utf-8"), words) for path, source in sources.items()}


def fill(text: str, words: dict[str, str]) -> str:
    """Replace each ``{{word}}``; an unknown word is an error."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: words[match[1]], text)


def check_name(name: str, kind: str, registry: Registry) -> None:
    """Refuse a name that would clash with what is installed."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"Bad name {name!r}: lower-case letters and digits, a letter first, single '-' or '_' between them"
        )
    if name.startswith("tabbench"):
        raise UsageError(f"Bad name {name!r}: the package will be called tabbench-NAME, so leave 'tabbench' out")
    for entry in registry.entries(kind):
        if name in (entry.name, *(alias.lower() for alias in entry.plugin.aliases)):
            raise UsageError(f"{KIND_NAMES[kind]} {name!r} is already offered by {entry.distribution}: choose another")
    if kind == "data" and name in registry.groups():
        raise UsageError(f"{name!r} is the name of a group of datasets: choose another")
    package = f"tabbench_{name.replace('-', '_')}"
    if importlib.util.find_spec(package) is not None:
        raise UsageError(f"the package {package} is already installed: choose another name")


def write_package(files: dict[str, str], folder: Path) -> None:
    """Write the files into a folder that must not be there yet."""
    if folder.exists():
        raise UsageError(f"{folder} already exists and is not overwritten; remove it, or choose another with --into")
    try:
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--into {folder.parent}: cannot write {folder} ({error.strerror})") from None
