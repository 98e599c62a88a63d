"""Who may import whom: arrows point one way, and plugins use what is public."""

import ast
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
import rooms

ROOT = Path(__file__).parent.parent
PLUGINS = sorted((ROOT / "plugins").glob("tabbench_*"))
HEAVY = {"torch", "optuna", "openml", "xgboost", "catboost"}
MAY_BE_HEAVY = ("running/", "nn/", "testing/")


def imports(path: Path, top_level: bool = False) -> Iterator[str]:
    """Modules that a file imports, those for type checkers left out; with ``top_level`` only on import."""
    tree = ast.parse(path.read_text())
    nodes: list[ast.AST] = list(tree.body) if top_level else list(ast.walk(tree))
    typing_only = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    for node in nodes:
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("package", PLUGINS, ids=lambda path: path.name)
def test_plugins_use_only_what_is_public_and_not_each_other(package: Path) -> None:
    for file in package.rglob("*.py"):
        for module in imports(file):
            if module.startswith("tabbench"):
                allowed = module in ("tabbench", "tabbench.nn", "tabbench.testing") or module.startswith(package.name)
                assert allowed, f"{file.relative_to(ROOT)} imports {module}"


def test_arrows_between_rooms_point_one_way() -> None:
    order = list(rooms.ROOMS)
    for room, used in rooms.arrows().items():
        allowed = rooms.ALONE.get(room, set(order[: order.index(room)]))
        assert used <= allowed, f"{room} imports {', '.join(sorted(used - allowed))}"


def test_no_module_imports_itself_in_a_circle_not_even_lazily() -> None:
    known = rooms.modules()
    graph = {
        module: {name for name in rooms.imports(path, known) if name not in ("tabbench", module)}
        for module, path in known.items()
        if module != "tabbench"
    }
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_the_root_has_at_most_ten_modules() -> None:
    assert len(list((ROOT / "tabbench").glob("*.py"))) <= 10


def test_the_design_page_shows_the_rooms_as_they_are() -> None:
    page = (ROOT / "docs" / "design.md").read_text()
    assert rooms.picture() in page, "run: python docs/generate.py"


NAMES_OF_ONE_IDEA = {"Config", "main", "train_step"}
"""Names that several modules define on purpose: every plugin's settings."""


def test_no_two_public_things_of_the_host_share_a_name() -> None:
    homes: dict[str, list[str]] = {}
    for module, path in rooms.modules().items():
        if module.startswith(("tabbench.cli", "tabbench.testing")):  # commands and checks are named alike on purpose
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module)
    twice = {name: where for name, where in homes.items() if len(where) > 1 and name not in NAMES_OF_ONE_IDEA}
    assert not twice


@pytest.mark.parametrize("package", PLUGINS, ids=lambda path: path.name)
def test_hook_modules_are_light(package: Path) -> None:
    assert set(imports(package / "__init__.py")) <= {"tabbench", "collections.abc", "typing"}


def test_the_host_imports_no_plugin() -> None:
    names = {package.name for package in PLUGINS}
    for file in (ROOT / "tabbench").rglob("*.py"):
        for module in imports(file):
            assert module.partition(".")[0] not in names, f"{file.relative_to(ROOT)} imports {module}"


def test_heavy_libraries_are_imported_only_where_work_is_done() -> None:
    for file in (ROOT / "tabbench").rglob("*.py"):
        place = str(file.relative_to(ROOT / "tabbench"))
        if place.startswith(MAY_BE_HEAVY):
            continue
        for module in imports(file, top_level=True):
            assert module.partition(".")[0] not in HEAVY, f"{place} imports {module}"


def test_the_host_knows_no_method_model_or_dataset_by_name() -> None:
    from tabbench.registry import make_registry

    protocol = {"none", "untrained", "local", "linear"}
    names = {entry.name for entry in make_registry().entries()} - protocol
    for file in (ROOT / "tabbench").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value not in names, f"{file.relative_to(ROOT)}:{node.lineno} knows {node.value!r}"


def test_folders_packages_and_entry_points_are_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    points = project["project"]["entry-points"]["tabbench"]
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    folders = {package.name for package in PLUGINS}
    assert set(points.values()) == folders
    assert {f"tabbench_{name}" for name in points} == folders
    assert set(packages) == {"tabbench", *(f"plugins/{name}" for name in folders)}
    for package in PLUGINS:
        assert (package / "py.typed").exists()


def test_each_plugin_has_its_row_in_the_readme_of_plugins() -> None:
    text = (ROOT / "plugins" / "README.md").read_text()
    for package in PLUGINS:
        assert f"`{package.name}`" in text, package.name
