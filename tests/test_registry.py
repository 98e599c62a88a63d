"""Plugins are found by entry points, one by one; a bad one is named and costs nobody else."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, distributions
from pathlib import Path

import pytest

from tabbench.errors import PluginError, UsageError
from tabbench.hookspecs import KINDS
from tabbench.registry import make_registry

GOOD = """
from tabbench import Plugin, hookimpl

@hookimpl
def tabbench_ssl_methods():
    return [Plugin("mine", "tabbench_mine.method:Mine", summary="my method", aliases=("MN",))]
"""


def install(folder: Path, name: str, code: str, version: str = "1.0") -> None:
    """Lay out what pip would: a module and the metadata of its distribution."""
    (folder / f"tabbench_{name}.py").write_text(code)
    info = folder / f"tabbench_{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tabbench-{name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[tabbench]\n{name} = tabbench_{name}\n")


def points(folder: Path) -> list[EntryPoint]:
    found = distributions(path=[str(folder)])
    return [point for distribution in found for point in distribution.entry_points if point.group == "tabbench"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.startswith("tabbench_") and "file" not in name]:
        if name.count("_") == 1 and name.removeprefix("tabbench_") in ("mine", "bad", "other", "old"):
            monkeypatch.delitem(sys.modules, name)
    return tmp_path


def test_a_plugin_is_found_by_name_and_alias_in_any_case(folder: Path) -> None:
    install(folder, "mine", GOOD)
    registry = make_registry(points=points(folder))
    entry = registry.find("ssl", "mn")
    assert (entry.name, entry.distribution, entry.version) == ("mine", "tabbench-mine", "1.0")
    assert registry.problems == []


@pytest.mark.parametrize(
    "code, message",
    [
        ("raise RuntimeError('no luck')", "cannot import tabbench_bad: RuntimeError: no luck"),
        ("import package_that_nobody_has", "No module named 'package_that_nobody_has'"),
        (GOOD.replace("return [", "1 / 0\n    return ["), "tabbench_ssl_methods() failed: ZeroDivisionError"),
        (GOOD.replace('summary="my method"', "contract=99"), "written for version 99 of the plugin contract"),
        (GOOD.replace('"mine"', '"My Method"'), "bad name 'My Method'"),
        (GOOD.replace("tabbench_mine.method:Mine", "nowhere"), "bad target 'nowhere'"),
        (GOOD.replace("tabbench_ssl_methods", "tabbench_ssl_method"), "tabbench_ssl_method is not a hook of tabbench"),
        (GOOD.replace("[Plugin(", "[dict("), "TypeError"),
    ],
)
def test_a_bad_plugin_is_named_and_the_others_work(folder: Path, code: str, message: str) -> None:
    install(folder, "bad", code)
    install(folder, "mine", GOOD)
    registry = make_registry(points=points(folder))
    assert registry.names("ssl") == ["mine"]
    (problem,) = registry.problems
    assert problem.distribution == "tabbench-bad"
    assert message in str(problem)
    assert "\n" not in str(problem)


def test_asking_for_a_broken_plugin_says_why(folder: Path) -> None:
    install(folder, "bad", "raise RuntimeError('no luck')")
    with pytest.raises(PluginError, match=r"'bad' cannot be used: plugin of tabbench-bad.*no luck"):
        make_registry(points=points(folder)).find("ssl", "bad")


def test_two_plugins_of_one_name_are_refused_naming_both(folder: Path) -> None:
    install(folder, "mine", GOOD)
    install(folder, "other", GOOD)
    registry = make_registry(points=points(folder))
    assert registry.names("ssl") == []
    with pytest.raises(PluginError, match=r"tabbench-mine and tabbench-other|tabbench-other and tabbench-mine"):
        registry.find("ssl", "mine")
    settled = make_registry(points=points(folder), disabled=["other"])
    assert settled.find("ssl", "mine").distribution == "tabbench-mine"


def test_an_alias_does_not_take_the_name_of_another_plugin(folder: Path) -> None:
    """The plugin that came first in the alphabet was run under the other's name."""
    install(folder, "mine", GOOD)
    install(folder, "other", GOOD.replace('"mine"', '"a-copy"').replace('"MN"', '"Mine", "mN", "copy"'))
    registry = make_registry(points=points(folder))
    assert registry.names("ssl") == ["a-copy"]
    assert registry.find("ssl", "copy").name == "a-copy"
    for name in ("mine", "mn"):
        with pytest.raises(PluginError, match=r"tabbench-mine and tabbench-other|tabbench-other and tabbench-mine"):
            registry.find("ssl", name)
    install(folder, "old", GOOD.replace('"mine"', '"old"'))
    registry = make_registry(points=points(folder), disabled=["other"])
    assert registry.names("ssl") == ["mine", "old"]
    with pytest.raises(PluginError, match="'MN' cannot be used: .*SSL method 'mn' is offered by"):
        registry.find("ssl", "MN")


def test_a_plugin_file_that_is_given_twice_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(GOOD)
    registry = make_registry([path, str(path)])
    assert registry.problems == []
    assert registry.find("ssl", "mine").file == path.resolve()


def test_plugins_are_disabled_by_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(folder, "mine", GOOD)
    monkeypatch.setenv("TABBENCH_DISABLED_PLUGINS", "foo, mine")
    assert make_registry(points=points(folder)).entries() == []


def test_a_wrong_name_gets_the_nearest_match() -> None:
    with pytest.raises(UsageError, match=r"Unknown model 'mpl'\. Did you mean: mlp\? Available: .*resnet"):
        make_registry().find("model", "mpl")


def test_a_class_that_cannot_be_imported_names_its_distribution(folder: Path) -> None:
    install(folder, "mine", GOOD)
    registry = make_registry(points=points(folder))
    with pytest.raises(PluginError, match="plugin of tabbench-mine: cannot import tabbench_mine.method:Mine"):
        registry.load(registry.find("ssl", "mine"))


def test_a_package_that_a_plugin_needs_is_named(folder: Path) -> None:
    install(folder, "mine", GOOD.replace('summary="my method"', 'needs=("package_that_nobody_has",)'))
    registry = make_registry(points=points(folder))
    with pytest.raises(PluginError, match="needs the package 'package_that_nobody_has'"):
        registry.load(registry.find("ssl", "mine"))


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("absent.py", None, "there is no such file"),
        ("notes.txt", "hello", "not a Python file"),
        ("empty.py", "x = 1", "no function marked @hookimpl returns a plugin"),
        ("broken.py", "def f(:", "SyntaxError"),
        ("leaves.py", "import sys; sys.exit(0)", "cannot import it: SystemExit: 0"),
    ],
)
def test_a_bad_plugin_file_is_refused(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=message):
        make_registry([path])


def test_editing_a_plugin_file_changes_its_revision(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(GOOD)
    before = make_registry([path]).find("ssl", "mine").revision
    path.write_text(GOOD + "\n# better now\n")
    assert make_registry([path]).find("ssl", "mine").revision != before


def test_all_built_in_plugins_load() -> None:
    registry = make_registry()
    assert registry.problems == []
    assert {entry.kind for entry in registry.entries()} >= {"ssl", "model", "data", "executor"}
    for entry in registry.entries():
        assert entry.plugin.summary, f"{entry.name} has no summary"
        missing = [package for package in entry.plugin.needs if importlib.util.find_spec(package) is None]
        if missing:  # an extra, such as ray
            with pytest.raises(PluginError, match=f"needs the package '{missing[0]}', which is not installed: pip"):
                registry.load(entry)
        elif entry.plugin.target != "tabbench.experiment.controls:Control":  # a control is a rule, not a class
            registry.load(entry)


def run_python(code: str, environment: Sequence[tuple[str, str]] = ()) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **dict(environment)},
    )
    return done.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["list", "--json"], ["run", "--help"], ["data", "--help"]])
def test_help_and_list_import_nothing_heavy(arguments: list[str]) -> None:
    code = f"""
import sys
sys.argv = ["tabbench", *{arguments!r}]
from tabbench.cli.app import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
heavy = {{"torch", "numpy", "pandas", "pyarrow", "sklearn", "optuna", "openml", "xgboost", "catboost"}}
print("heavy:", sorted(heavy & set(sys.modules)))
"""
    assert run_python(code).splitlines()[-1] == "heavy: []"


def test_every_kind_has_a_hook() -> None:
    from tabbench import hookspecs

    for hook in KINDS.values():
        assert getattr(hookspecs, hook).__doc__
