"""README and docs say what is so: commands parse, examples run, links lead somewhere, the reference is complete.

A code block below ``<!-- run -->`` is run, in the order of its page, in a folder of the page. ``<!-- run: COMMAND -->``
runs a tabbench command before it, for what the reader has done by then. Of a ``console`` block the shown lines must be
in the output, in their order; ``...`` stands for what was left out.
"""

import importlib
import importlib.util
import math
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import printed
import pytest
import typer
from harness import INLINE, tabbench
from tabbench_tjepa.method import TJEPA
from typer.main import get_command

import tabbench as public
from tabbench.cli.app import app
from tabbench.data.gather import expect_data
from tabbench.experiment.plan import make_plan
from tabbench.experiment.spec import PRESETS, make_spec, read_experiment
from tabbench.hookspecs import KINDS
from tabbench.registry import make_registry
from tabbench.results.verify import verify_results
from tabbench.running import tripwires

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
SPECS = sorted((ROOT / "examples" / "specs").glob("*.toml"))
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>run)(?:: (?P<first>[^\n]*))? -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
SHELL = ("bash", "console", "sh", "shell")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    language: str
    text: str
    is_run: bool
    first: str
    """A tabbench command to run before it."""

    @property
    def commands(self) -> list[str]:
        """The commands of a shell block, without prompts, comments and outputs."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return [line for line in lines if shlex.split(line, comments=True)]


def blocks(page: Path) -> list[Block]:
    """The code blocks of a page."""
    return [
        Block(page, found["language"], found["text"], found["mark"] is not None, found["first"] or "")
        for found in BLOCK.finditer(page.read_text(encoding="utf-8"))
    ]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def tabbench_words(command: str) -> list[str] | None:
    """The words behind ``tabbench`` or ``.venv/bin/tabbench``; None for other commands."""
    words = shlex.split(command, comments=True)
    return words[1:] if Path(words[0]).name == "tabbench" else None


def parse(command: Any, words: list[str]) -> None:
    """Let the application read a command line: unknown commands, options and values are errors, nothing is run."""
    while getattr(command, "commands", None) and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"there is no command {words[0]!r}"
        command, words = command.commands[words[0]], words[1:]
    try:
        command.make_context("tabbench", list(words))
    except typer.Exit:  # --help, --version
        return


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_are_what_the_command_line_takes(page: Path) -> None:
    for block in blocks(page):
        if block.language not in SHELL:
            continue
        for command in block.commands:
            syntax = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True, check=False)
            assert syntax.returncode == 0, syntax.stderr
            words = tabbench_words(command)
            if words is not None:
                try:
                    parse(get_command(app), words)
                except Exception as error:
                    pytest.fail(f"{command}: {error}")


@pytest.mark.parametrize("wrong", ["tabbench rnu", "tabbench run --modle mlp", "tabbench run --seeds many"])
def test_a_wrong_command_would_be_noticed(wrong: str) -> None:
    with pytest.raises(Exception, match="rnu|modle|valid integer"):
        parse(get_command(app), tabbench_words(wrong) or [])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_blocks_compile(page: Path) -> None:
    for number, block in enumerate(blocks(page)):
        if block.language == "python":
            compile(block.text, f"{page.name}, block {number}", "exec")


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.is_run for block in blocks(page))], ids=name_of)
def test_marked_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        if not block.is_run:
            continue
        if block.first:
            run_command(block.first, tmp_path)
        if block.language == "python":
            exec(compile(block.text, page.name, "exec"), {"__name__": "__main__"})
        else:
            assert block.language in SHELL, f"{page.name}: a block of {block.language!r} cannot be run"
            output = "".join(run_command(command, tmp_path) for command in block.commands)
            if block.language == "console":
                check_shown(block, output)


def run_command(command: str, folder: Path) -> str:
    """Run a tabbench command of a page; its output."""
    words = tabbench_words(command)
    assert words is not None, f"only tabbench commands are run, not: {command}"
    done = tabbench(*words, *(INLINE if words[0] == "run" else ()), cwd=folder)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def check_shown(block: Block, output: str) -> None:
    """Every shown line is in the output, in this order."""
    left = iter([" ".join(line.split()) for line in output.splitlines()])
    for line in block.text.splitlines():
        shown = " ".join(line.split())
        if line.startswith("$ ") or shown == "...":
            continue
        pattern = re.compile(re.escape(shown).replace(re.escape("..."), ".*"))
        assert any(pattern.fullmatch(given) for given in left), (
            f"{block.page.name} shows {line!r}, but it was:\n{output}"
        )


def test_the_plugin_of_the_readme_runs(tmp_path: Path) -> None:
    plugin = next(block for block in blocks(ROOT / "README.md") if block.text.startswith("# my_method.py"))
    (tmp_path / "my_method.py").write_text(plugin.text, encoding="utf-8")
    options = ("--plugin", "my_method.py", "--ssl", "mine", "--model", "linear", "--data", "wine")
    done = tabbench("run", *options, *INLINE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 record(s) made" in done.stderr
    assert re.search(r"^mine +linear", done.stdout, re.M), done.stdout
    checked = tabbench("plugins", "check", "mine", "--plugin", "my_method.py", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files(page: Path) -> None:
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for found in LINK.finditer(text):
        target, _, anchor = found["target"].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = page.parent / target if target else page
        assert file.exists(), f"{name_of(page)} points to {found['target']}"
        if anchor:
            assert anchor in anchors(file), f"{name_of(page)}: {file.name} has no heading for #{anchor}"


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links."""
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


# The reference pages.


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", sorted(path.name for path in (DOCS / "reference").glob("*.md")))
def test_the_reference_is_up_to_date(generator: ModuleType, page: str) -> None:
    written = (DOCS / "reference" / page).read_text(encoding="utf-8")
    assert written == generator.render()[page], "run: python docs/generate.py"


PRINTED = [(page, found) for page in printed.pages() for found in printed.BLOCK.finditer(page.read_text("utf-8"))]


@pytest.mark.parametrize(
    "page, found", [pytest.param(page, found, id=f"{page.stem}-{i}") for i, (page, found) in enumerate(PRINTED)]
)
def test_printed_tables_are_what_the_records_give(page: Path, found: re.Match[str]) -> None:
    done = tabbench(*shlex.split(found["command"])[1:], cwd=printed.ROOT)
    assert done.returncode == 0, done.stderr
    assert found[0] == printed.block(found["command"], done.stdout), f"{page.name}: run: python docs/generate.py"


def sections(page: Path) -> dict[str, str]:
    """Text below each heading of a page."""
    parts = re.split(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_hook_and_public_name_has_its_heading() -> None:
    headings = set(sections(DOCS / "reference" / "hooks.md"))
    assert set(KINDS.values()) <= headings
    said_in_text = {"CONTRACT_VERSION", "__version__", "hookimpl"}
    headings |= set(sections(DOCS / "reference" / "python.md"))
    assert set(public.__all__) - said_in_text <= headings


@pytest.mark.parametrize("package, page", [("tabbench.nn", "nn.md"), ("tabbench.testing", "testing.md")])
def test_every_part_of_a_public_package_is_described(package: str, page: str) -> None:
    described = sections(DOCS / "reference" / page)
    for name in importlib.import_module(package).__all__:
        assert described.get(name, "").strip(), f"{page} does not say what {package}.{name} is"


def test_every_command_and_option_is_documented() -> None:
    documented = sections(DOCS / "reference" / "cli.md")
    for path, command in walk("tabbench", get_command(app)):
        assert path in documented, f"there is no section on {path}"
        for parameter in command.params:
            for option in getattr(parameter, "opts", []):
                named = option if option.startswith("-") else parameter.metavar or option.upper()
                assert named.strip("[]") in documented[path], f"{path} {option} is not documented"


def walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command and all below it, with their full names."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from walk(f"{path} {name}", child)


# Facts that pages repeat.


def test_the_protocol_names_every_flag_and_the_budgets_of_presets() -> None:
    text = (DOCS / "protocol.md").read_text(encoding="utf-8")
    flags = [value for name, value in vars(tripwires).items() if name.isupper() and isinstance(value, str)]
    assert flags
    for flag in flags:
        assert f"| `{flag}` |" in text
    for preset, budget in PRESETS.items():
        numbers = " | ".join(str(budget[name]) for name in ("splits", "seeds", "ssl_trials", "trials"))
        controls = ", ".join(f"`{name}`" for name in budget["controls"])
        assert f"| `{preset}` | {numbers} | {controls} |" in text


@pytest.mark.parametrize("kind", ["ssl", "model"])
def test_every_method_and_model_is_described(kind: str) -> None:
    text = (DOCS / "methods.md").read_text(encoding="utf-8")
    for entry in make_registry().entries(kind):
        if entry.distribution == "tabbench-ssl":
            assert f"`{entry.name}`" in text, f"docs/methods.md does not mention {entry.name}"


PUBLISHED = sorted(path.parent for path in (ROOT / "results" / "published").glob("*/records"))


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_published_records_are_sound_and_listed(folder: Path) -> None:
    verified = verify_results(folder)
    assert (verified.findings, verified.without_digest, verified.failures) == ([], 0, 0)
    assert verified.results > 0
    assert verified.artefacts == 0, "records only"
    assert f"| `{folder.name}` |" in (folder.parent / "README.md").read_text(encoding="utf-8")


def test_published_records_stay_small() -> None:
    files = [path for path in (ROOT / "results" / "published").rglob("*") if path.is_file()]
    assert PUBLISHED
    assert sum(path.stat().st_size for path in files) < 10e6


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_experiment_files_can_be_planned(path: Path) -> None:
    spec, registry = make_spec(read_experiment(path)), make_registry()
    manifests, _ = expect_data(spec.data, registry)
    plan = make_plan(spec, registry, manifests)
    assert {step.planned.data for step in plan.records if step.planned} == {each.name for each in manifests}
    assert {step.planned.model for step in plan.records if step.planned} == set(spec.model)
    assert set(spec.ssl) <= {step.planned.ssl for step in plan.records if step.planned}
    assert f"tabbench run examples/specs/{path.name} --dry-run" in path.read_text(encoding="utf-8")


FULL_SIZE = [path for path in SPECS if path.name.startswith("paper_table")]


@pytest.mark.parametrize("path", FULL_SIZE, ids=lambda path: path.name)
def test_full_size_runs_are_ready_to_go(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    done = tabbench("run", path, "--dry-run")
    assert done.returncode == 0, done.stderr
    jobs = re.search(r"^(\d+) job\(s\) to run", done.stdout, re.M)
    assert jobs
    assert f"about {round(int(jobs[1]), -3):,} jobs" in text
    commands = re.findall(rf"^#     (tabbench run examples/specs/{path.name} .*)$", text, re.M)
    assert {"slurm", "ray"} <= {word for command in commands for word in command.split()}
    for command in commands:
        parse(get_command(app), shlex.split(command)[1:])
    (slurm,) = (shlex.split(command) for command in commands if "--executor slurm" in command)
    planned = tabbench("run", path, *slurm[3:], "--dry-run")  # also what it would ask of the cluster
    assert planned.returncode == 0, planned.stderr
    assert "gpu" in planned.stdout.lower()


def test_the_hours_of_full_size_runs_follow_from_their_parts() -> None:
    """Rows and columns are those of the tables, steps those of the preset, and sums are sums."""
    page = (DOCS / "reproduce.md").read_text(encoding="utf-8")
    lines = [[cell.strip().replace(",", "") for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    shown = {
        cells[0].lower(): [float(cell) for cell in cells[1:]]
        for cells in lines
        if len(cells) == 7 and cells[1].isdigit()
    }
    manifests, _ = expect_data(["paper"], make_registry())
    assert shown.keys() == {manifest.name for manifest in manifests}
    config = TJEPA.Config.presets()["paper"]
    for manifest in manifests:
        rows, columns, steps, seconds, hours, _ = shown[manifest.name]
        assert rows == manifest.rows - 2 * round(0.1 * manifest.rows)
        assert columns == manifest.n_numeric + manifest.n_categorical
        assert steps == config["exp_epochs"] * math.ceil(rows / config["exp_batch_size"])
        assert hours == round(steps * seconds / 3600, 1)
    cpu, gpu = (sum(cells[place] for cells in shown.values()) for place in (4, 5))
    narrow = cpu - shown["mnist"][4]
    trials = PRESETS["paper"]["ssl_trials"]
    told = (f"{trials * gpu:.0f} GPU-hours", f"{trials * cpu:,.0f} CPU-hours", f"{trials * narrow:,.0f}")
    for text in (page, *(path.read_text(encoding="utf-8") for path in FULL_SIZE)):
        assert all(figure in text for figure in told), told


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/protocol.md"])
def test_every_promise_names_tests_that_exist(page: str) -> None:
    lines = [line for line in (ROOT / page).read_text().splitlines() if line.startswith("|") and "tests/" in line]
    assert len(lines) >= 10
    for line in lines:
        for file, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", line) or pytest.fail(line):
            assert f"def {test}(" in (ROOT / file).read_text(), f"{page} names {file}::{test}"
