"""``tabbench plugins``: what it writes works at once, and its verdicts can be read."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from harness import INLINE, tabbench, written_records
from packages import install

from tabbench import UsageError, __version__
from tabbench.registry import make_registry
from tabbench.testing.scaffold import make_package
from tabbench.testing.subject import find_subject

MODULES = {
    "ssl": "method",
    "joint": "method",
    "model": "model",
    "dataset": "dataset",
    "scheme": "scheme",
    "executor": "executor",
    "reference": "published",
}


def test_new_says_what_it_wrote_and_what_to_do_next(tmp_path: Path) -> None:
    done = tabbench("plugins", "new", "ssl", "fresh-idea", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "wrote tabbench-fresh-idea:\n"
        "  pyproject.toml\n"
        "  README.md\n"
        "  LICENSE\n"
        "  .github/workflows/ci.yml\n"
        "  .github/workflows/leaderboard.yml\n"
        "  tabbench_fresh_idea/__init__.py\n"
        "  tabbench_fresh_idea/method.py\n"
        "  tests/test_fresh_idea.py\n"
        "next:\n"
        '  pip install -e "tabbench-fresh-idea[test]"\n'
        "  pytest tabbench-fresh-idea\n"
        "  tabbench run --ssl fresh-idea --model linear --data wine\n"
    )
    written = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    named = [line.strip() for line in done.stdout.splitlines()[1:9]]
    assert written == sorted(f"tabbench-fresh-idea/{name}" for name in named)


@pytest.mark.slow
def test_the_workflow_of_a_new_package_checks_replays_and_publishes_submissions(tmp_path: Path) -> None:
    assert tabbench("plugins", "new", "ssl", "fresh-idea", "--into", tmp_path).returncode == 0
    project = tmp_path / "tabbench-fresh-idea"
    ours = project / "submissions" / "ours"
    what = ("--ssl", "none", "--model", "linear", "--data", "wine")
    assert tabbench("run", *what, *INLINE, "--results", ours).returncode == 0
    text = (project / ".github" / "workflows" / "leaderboard.yml").read_text(encoding="utf-8")
    steps = re.findall(r"run: (?:\|\n((?: {10}.*\n)+)|(tabbench .*)\n)", text)
    commands = [block or line for block, line in steps]
    assert len(commands) == 3
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "GITHUB_RUN_ID": "19450000000"}
    said = []
    for command in commands:
        shell = ["bash", "-euo", "pipefail", "-c", command]
        done = subprocess.run(
            shell, cwd=project, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr + done.stdout
        said.append(done.stdout)
    assert "0 replayed\nno problems found" in said[0]
    assert "1 replayed\nno problems found" in said[1], "there is one result, and it came out the same"
    assert (project / "site" / "index.html").is_file()


@pytest.mark.slow
def test_new_packages_of_every_kind_pass_their_own_tests_and_run_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All kinds in one process for their tests, and in one worker for a run: what takes long is starting Python."""
    projects = [tmp_path / f"tabbench-fresh-{kind}" for kind in MODULES]
    for kind, project in zip(MODULES, projects, strict=True):
        done = tabbench("plugins", "new", kind, f"fresh-{kind}", "--into", tmp_path)
        assert done.returncode == 0, done.stderr
        environment = install(project, tmp_path / "site")

    command = [sys.executable, "-P", "-m", "pytest", "-v", "-W", "error", "-p", "no:cacheprovider", *map(str, projects)]
    tested = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert tested.returncode == 0, tested.stdout
    for kind in MODULES:
        assert re.search(rf"test_fresh_{kind}\.py::.* PASSED", tested.stdout), kind

    results = ["--results", str(tmp_path / "results")]
    monkeypatch.syspath_prepend(tmp_path / "site")  # for the command, which runs here
    monkeypatch.setenv("PYTHONPATH", environment["PYTHONPATH"])  # for its worker
    ran = tabbench(
        "run", "--ssl", "fresh-ssl,fresh-joint", "--model", "fresh-model", "--preset", "quick",
        "--data", "wine,fresh-dataset,fresh-scheme:7", "--executor", "fresh-executor", "--jobs", "1", "--offline",
        "--set", "fresh-ssl.epochs=2", "--set", "fresh-joint.epochs=2", "--set", "fresh-model.max_epochs=2", *results,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    records = {(record["ssl"], record["model"], record["data"]) for record in written_records(tmp_path / "results")}
    arms, tables = ("none", "fresh-ssl", "fresh-joint"), ("wine", "fresh-dataset", "fresh-scheme:7")
    assert records == {(arm, "fresh-model", table) for arm in arms for table in tables}

    shown = tabbench("table", *results, "--against", "fresh-reference")
    assert shown.returncode == 0, shown.stderr
    assert ".972" in shown.stdout


@pytest.mark.parametrize("kind", MODULES)
def test_new_package_is_short_typed_and_says_who_it_is(kind: str) -> None:
    files = make_package(kind, "fresh-idea", make_registry())
    code = files[f"tabbench_fresh_idea/{MODULES[kind]}.py"]
    assert len(code.splitlines()) <= 65
    for path, text in files.items():
        assert "{{" not in text.replace("${{", ""), path
        if path.endswith(".py"):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef):
                    assert node.returns is not None, f"{path}: {node.name}"
    project = tomllib.loads(files["pyproject.toml"])["project"]
    assert project["name"] == "tabbench-fresh-idea"
    assert re.match("FreshIdea, an? ", project["description"])
    assert not re.search(r"\b(a [aeiouS]|an [^aeiouS])", project["description"]), "the article fits"
    assert project["entry-points"]["tabbench"] == {"fresh_idea": "tabbench_fresh_idea"}
    assert project["dependencies"] == [f"tabbench-ssl>={__version__}"]
    assert "MIT License" in files["LICENSE"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["ssl", "Fresh"], "Bad name 'Fresh': lower-case letters and digits"),
        (["ssl", "2fast"], "a letter first"),
        (["ssl", "a--b"], "single '-' or '_' between them"),
        (["ssl", "../evil"], "Bad name '../evil'"),
        (["ssl", ""], "Bad name ''"),
        (["ssl", "tabbench-noise"], "leave 'tabbench' out"),
        (["ssl", "vime"], "SSL method 'vime' is already offered by tabbench-ssl"),
        (["ssl", "untrained"], "SSL method 'untrained' is already offered by tabbench-ssl"),
        (["dataset", "demo"], "'demo' is the name of a group of datasets"),
        (["ssl", "mlp"], "the package tabbench_mlp is already installed"),
        (
            ["method", "fresh"],
            "Unknown kind of plugin 'method'. Available: dataset, executor, joint, model,",
        ),
        (["modle", "fresh"], "Did you mean: model?"),
    ],
)
def test_new_refuses_bad_kinds_and_names(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        make_package(arguments[0], arguments[1], make_registry())


def test_new_refuses_in_one_line_and_writes_nothing(tmp_path: Path) -> None:
    done = tabbench("plugins", "new", "ssl", "../evil", cwd=tmp_path)
    assert done.returncode == 2
    assert "Bad name '../evil'" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_new_overwrites_nothing(tmp_path: Path) -> None:
    mine = tmp_path / "tabbench-fresh" / "README.md"
    mine.parent.mkdir()
    mine.write_text("mine")
    done = tabbench("plugins", "new", "ssl", "fresh", cwd=tmp_path)
    assert done.returncode == 2
    said = "tabbench: tabbench-fresh already exists and is not overwritten; remove it, or choose another with --into\n"
    assert done.stderr == said
    assert mine.read_text() == "mine"
    assert list(mine.parent.iterdir()) == [mine]


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unpublished dataset that is another one each time."""
    file = tmp_path_factory.mktemp("leaky") / "leaky.py"
    file.write_text(
        """
import numpy as np, pandas as pd
from tabbench import Dataset, LoadedData, Plugin, hookimpl

class Leaky(Dataset):
    def load(self, cache, offline):
        frame = pd.DataFrame({"x": np.random.default_rng().normal(size=50)})
        return LoadedData(frame.assign(y=frame["x"]), "y", "regression")

@hookimpl
def tabbench_datasets():
    return [Plugin("leaky", f"{__name__}:Leaky")]
"""
    )
    return file


def test_check_prints_a_verdict_for_each_promise(leaky: Path) -> None:
    done = tabbench("plugins", "check", "leaky", "--plugin", leaky)
    assert done.returncode == 1, done.stderr
    assert done.stdout == (
        f"leaky: dataset of {leaky} unpublished\n"
        "  skip              check_hook_module_is_light: "
        "Importing the module with the hooks imports neither torch nor another heavy library.\n"
        "                      an unpublished file is one module: split it when it becomes a package\n"
        "  FAIL              check_loads_the_same_twice: "
        "Loading twice gives the same table: same columns, types, rows and order.\n"
        "                      the rows differ\n"
        "  pass              check_table_is_sound: "
        "The table passes the harness's checks: the target is there, columns are numbers unless named as categories.\n"
        "                      50 rows, 1 features, regression\n"
        "  pass              check_global_generators_are_untouched: "
        "Loading neither uses nor seeds the global generators of random, numpy and torch.\n"
        "2 pass, 1 FAIL, 1 skip\n"
    )


def test_check_takes_expected_failures_with_their_reasons(leaky: Path) -> None:
    expected = tabbench(
        "plugins",
        "check",
        "leaky",
        "--plugin",
        leaky,
        "--json",
        "--expect",
        "check_loads_the_same_twice=it is a stream",
    )
    assert expected.returncode == 0, expected.stderr
    verdicts = {verdict["check"]: verdict for verdict in json.loads(expected.stdout)}
    assert verdicts["check_loads_the_same_twice"]["status"] == "expected"
    assert verdicts["check_loads_the_same_twice"]["note"] == "it is a stream (the rows differ)"
    surprised = tabbench("plugins", "check", "wine", "--expect", "check_loads_the_same_twice=it is a stream")
    assert surprised.returncode == 1
    assert "UNEXPECTED PASS   check_loads_the_same_twice" in surprised.stdout


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["wine", "--expect", "check_loads_the_same_twice"], "write it as CHECK=REASON"),
        (["linear", "--set", "penlty=1"], "Unknown setting 'linear.penlty'"),
        (["wine", "--expect", "check_load_the_same_twice=x"], "Did you mean: check_loads_the_same_twice?"),
        (
            ["linear", "--kind", "modle"],
            "Unknown kind of plugin 'modle'. Did you mean: model?",
        ),
        (["mpl"], "Unknown plugin 'mpl'. Did you mean: mlp?"),
        (["wnie"], "Did you mean: wine?"),
        (["none"], "'none' is a control, not a method: there is nothing to check"),
        (["untrained", "--kind", "ssl"], "'untrained' is a control, not a method: there is nothing to check"),
    ],
)
def test_check_refuses_in_one_line(arguments: list[str], message: str) -> None:
    done = tabbench("plugins", "check", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_check_takes_the_kind_in_the_words_of_users(leaky: Path) -> None:
    for kind in ("data", "dataset", "Datasets"):
        assert find_subject("leaky", kind=kind, files=[leaky]).kind == "data"


def test_a_class_that_cannot_be_imported_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "gone.py"
    file.write_text(
        "from tabbench import Plugin, hookimpl\n\n@hookimpl\ndef tabbench_models():\n"
        "    return [Plugin('gone', 'nowhere.at_all:Gone')]\n"
    )
    done = tabbench("plugins", "check", "gone", "--plugin", file)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "cannot import nowhere.at_all:Gone" in done.stderr
    assert done.stderr.count("\n") == 1


def test_new_into_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "ok.csv").write_text("a\n")
    done = tabbench("plugins", "new", "ssl", "zed", "--into", "ok.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "tabbench: --into ok.csv: cannot write ok.csv/tabbench-zed (Not a directory)\n"
