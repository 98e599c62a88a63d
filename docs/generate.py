"""Write the pages of docs/reference/ from the code, and the printed tables from records: ``python docs/generate.py``.

``tests/test_docs.py`` fails where a page is not what this gives.
"""

import ast
import importlib.util
import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import printed
import rooms
import typer.core
import typer.main

from tabbench import api, config, context, contracts, errors, hookspecs, values
from tabbench.cli.app import app
from tabbench.cli.listing import HEADINGS
from tabbench.contracts import job
from tabbench.experiment import payloads
from tabbench.nn import scaling
from tabbench.results import face, record
from tabbench.running import jobs, pipeline, pool, process
from tabbench.testing.verdicts import CHECKS, Check

REFERENCE = Path(__file__).parent / "reference"
NOTE = "<!-- Written by docs/generate.py from the code; edit the docstrings there. -->"
WIDTH = 100
"""Longer signatures get a line for each parameter."""

HOOKS_INTRODUCTION = f"""\
A plugin is a module with one or more of the hooks below, each marked with `@tabbench.hookimpl`. It is found by an entry
point of the group `tabbench`, or given as a file with `--plugin FILE`. A hook returns descriptors, `tabbench.Plugin`;
a descriptor names the class that does the work, which is imported when a job needs it. So the module with the hooks
imports `tabbench` and nothing heavier.

This is version {hookspecs.CONTRACT_VERSION} of the contract. The names on this page are imported from `tabbench`.
[Write a plugin](../plugins.md) leads through it step by step.
"""

SECTIONS: tuple[tuple[str, str, ModuleType, tuple[str, ...]], ...] = (
    (
        "Classes to implement",
        "Each hook's descriptors name a class of one of these kinds. Methods marked *abstract* must be written; the "
        "others have a default. `Configurable` is the base of methods, models and executors; it is not imported by "
        "name.",
        contracts,
        (
            "Configurable",
            "SSLMethod",
            "BackboneMethod",
            "JointMethod",
            "DownstreamModel",
            "Dataset",
            "DataScheme",
            "Executor",
            "Reference",
        ),
    ),
    (
        "Values of these classes",
        "",
        contracts,
        ("State", "TrainableEncoder", "LoadedData", "Limits", "Site", "PublishedCell"),
    ),
    ("What a training is given", "", context, ("Context",)),
    (
        "Tables and representations",
        "",
        values,
        ("Schema", "Table", "FIRST_LEVEL", "Representation", "Features", "Task", "Labelled"),
    ),
    ("Scaling", "", scaling, ("Scaler",)),
    ("Settings", "", config, ("Config", "Float", "Int", "Choice", "load_presets")),
    ("Settings of networks", "", config, ("NetworkConfig",)),
    ("Jobs", "What an executor handles. All of it is JSON.", job, ("Job", "Outcome", "Event")),
    ("Running a job", "", jobs, ("run_job",)),
    (
        "Warm workers",
        "Most executors subclass `WorkerPool`; see [Write an executor](../executors.md).",
        pool,
        ("WorkerPool", "PoolWorker", "PipeWorker"),
    ),
    ("A worker's process", "", process, ("WorkerProcess", "worker_command", "worker_environment")),
    (
        "Errors",
        "Raise a subclass of `TabbenchError` for what a user can fix: it is printed on one line, without a traceback.",
        errors,
        (
            "TabbenchError",
            "UsageError",
            "DataError",
            "PluginError",
            "Interruption",
            "DeadlineReached",
            "Pruned",
            "Evicted",
        ),
    ),
)

CLI_INTRODUCTION = """\
Every command takes `-h` or `--help`. Output for people goes to the terminal; `--json` and `--format json` are for
programs and stable. Errors are one line that says what was given, what would work, and the nearest match.

| exit code | meaning |
|---|---|
| 0 | all done |
| 1 | a check or a training failed, something was refused, or a file cannot be written |
| 2 | usage error: an unknown name, option or file |
| 3 | some jobs failed or did not start (the table is still printed), or an audit has findings |
| 130 | interrupted; run the same command to resume |

| environment variable | meaning |
|---|---|
| `TABBENCH_CACHE` | dataset folder, instead of the user's cache folder |
| `TABBENCH_DISABLED_PLUGINS` | entry points or distributions to leave out, separated by commas |
| `TABBENCH_MAX_UNPACKED` | largest size of an unpacked file, in GB; 4 |
| `TABBENCH_OPENML_SERVER` | another OpenML address, such as a mirror |
| `TABBENCH_OPENML_TIMEOUT` | time limit of a download from OpenML, in seconds |
"""


NN_INTRODUCTION = """\
Building blocks for methods and models: import them from `tabbench.nn`. This imports torch, so do not import it in the
module with a plugin's hooks. The built-in plugins use these parts.
"""

TESTING_INTRODUCTION = """\
The promises that a plugin must keep, as checks that anyone can run: `tabbench plugins check NAME`, or in the plugin's
own tests. [Write a plugin](../plugins.md) shows both. All checks are at the end of this page.
"""

CHECKED_KINDS = {
    "ssl": "SSL methods",
    "joint_representation": "Joint methods that give a representation",
    "joint_predictions": "Joint methods that give predictions",
    "model": "Models",
    "data": "Datasets",
    "scheme": "Data schemes",
    "executor": "Executors",
    "reference": "References",
}


def render() -> dict[str, str]:
    """Name and text of each generated page."""
    return {
        "hooks.md": render_hooks(),
        "cli.md": render_cli(),
        "python.md": render_python(),
        "records.md": render_records(),
        "nn.md": render_package("tabbench.nn", NN_INTRODUCTION),
        "testing.md": render_testing(),
    }


# Hooks and contracts.


def render_hooks() -> str:
    """The plugin contract: hooks, descriptor, classes, values."""
    tree = parse(hookspecs)
    parts = [NOTE, "# Hooks and contracts", HOOKS_INTRODUCTION, "## Hooks"]
    for kind, name in hookspecs.KINDS.items():
        parts += [f"### {name}", *find(tree, name), f"`tabbench list` has them under `{HEADINGS[kind]}`."]
    parts += ["## Plugin", *find(tree, "Plugin")]
    for title, text, module, names in SECTIONS:
        parts += [f"## {title}", *([text] if text else [])]
        for name in names:
            parts += [f"### {name}", *find(parse(module), name)]
    return _join(parts)


# Packages with many small parts.


def render_package(package: str, introduction: str) -> str:
    """Everything that a package exports, by the modules it comes from, in the order of its ``__init__``."""
    parts = [NOTE, f"# {package}", introduction]
    for node in _module(package).body:
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(package):
            continue
        tree = _module(str(node.module))
        parts.append(f"## {_title(tree)}")
        for alias in node.names:
            parts += [f"### {alias.name}", *find(tree, alias.name)]
    return _join(parts)


def render_testing() -> str:
    """The conformance kit: what it exports, and every check with its promise."""
    parts = [render_package("tabbench.testing", TESTING_INTRODUCTION), "## Checks"]
    for kind, functions in CHECKS.items():
        rows = [(f"`{check.name}`", markdown(check.promise)) for check in map(Check, functions)]
        parts += [f"### {CHECKED_KINDS[kind]}", _table(("check", "promise"), rows)]
    return _join(parts)


def _module(name: str) -> ast.Module:
    found = importlib.util.find_spec(name)
    assert found is not None
    return ast.parse(Path(str(found.origin)).read_text(encoding="utf-8"))


def _title(tree: ast.Module) -> str:
    """The first sentence of a module's docstring, as a heading."""
    first = (ast.get_docstring(tree) or "").split("\n\n")[0]
    return " ".join(first.split()).partition(". ")[0].rstrip(".").replace("``", "`")


def source(node: ast.AST) -> str:
    """A piece of code as it would be written here."""
    return ast.unparse(node).replace("'", '"')


def parse(module: ModuleType) -> ast.Module:
    """The code of a module; of a package, that of all its modules."""
    files = [Path(str(module.__file__))]
    if hasattr(module, "__path__"):
        files = sorted(files[0].parent.glob("*.py"))
    return ast.parse("\n".join(file.read_text(encoding="utf-8") for file in files if file.name != "__main__.py"))


def find(tree: ast.Module, name: str) -> Iterator[str]:
    """What there is to say about a class, function or constant at the top of a module."""
    for node, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef) and node.name == name:
            yield from _describe_class(node)
        elif isinstance(node, ast.FunctionDef) and node.name == name:
            yield from (_code(signature(node)), markdown(ast.get_docstring(node)))
        elif isinstance(node, ast.Assign) and source(node.targets[0]) == name:
            yield from (_code(source(node)), _docstring_below(following))


def _describe_class(node: ast.ClassDef) -> Iterator[str]:
    hidden = ("ABC", "NamedTuple", "pydantic.BaseModel")
    bases = [base for base in map(source, node.bases) if base not in hidden]
    if bases:
        yield f"Derived from {', '.join(f'`{base}`' for base in bases)}."
    yield markdown(ast.get_docstring(node))
    fields = list(_fields(node))
    if fields:
        yield _table(("field", "type", "default", "meaning"), fields)
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
            yield _code(signature(method))
            yield markdown(ast.get_docstring(method))


def _docstring_below(node: ast.stmt | None) -> str:
    """The string that stands below a name, if one does."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return markdown(inspect.cleandoc(str(node.value.value)))
    return ""


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, ...]]:
    """Annotated names of a class body, with the docstring that stands below each."""
    for statement, following in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if statement.target.id.startswith("_"):
            continue
        default = "" if statement.value is None else _default(statement.value)
        annotation = f"`{source(statement.annotation)}`"
        yield f"`{statement.target.id}`", annotation, default, _docstring_below(following)


def _default(value: ast.expr) -> str:
    """``field(default_factory=dict)`` as ``{}``, ``field(default=x)`` as ``x``, anything else as it is written."""
    if isinstance(value, ast.Call) and source(value.func) == "field":
        given = {keyword.arg: source(keyword.value) for keyword in value.keywords}
        return f"`{given['default']}`" if "default" in given else "`{}`"
    return f"`{source(value)}`"


def signature(node: ast.FunctionDef) -> str:
    """A function's first lines, without what only type checkers need."""
    decorators = [source(decorator) for decorator in node.decorator_list]
    kept = [f"@{name}" for name in decorators if name in ("property", "classmethod")]
    returns = f" -> {source(node.returns)}" if node.returns is not None else ""
    comment = "  # abstract" if "abstractmethod" in decorators else ""
    shown = list(_parameters(node.args))
    line = f"def {node.name}({', '.join(shown)}){returns}{comment}"
    if len(line) > WIDTH:
        lines = "".join(f"    {parameter},\n" for parameter in shown)
        line = f"def {node.name}({comment}\n{lines}){returns}"
    return "\n".join([*kept, line])


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(positional) - len(arguments.defaults)), *arguments.defaults]
    yield from map(_parameter, positional, defaults)
    if arguments.vararg is not None:
        yield f"*{_parameter(arguments.vararg)}"
    elif arguments.kwonlyargs:
        yield "*"
    yield from map(_parameter, arguments.kwonlyargs, arguments.kw_defaults)
    if arguments.kwarg is not None:
        yield f"**{_parameter(arguments.kwarg)}"


def _parameter(argument: ast.arg, default: ast.expr | None = None) -> str:
    typed = argument.arg if argument.annotation is None else f"{argument.arg}: {source(argument.annotation)}"
    return typed if default is None else f"{typed} = {source(default)}"


def markdown(docstring: str | None) -> str:
    """A Google-style docstring as markdown: sections as lists, ``:return:`` as a sentence."""
    text = re.sub(r"^:return: (\w)", lambda found: f"Returns {found[1]}", docstring or "", flags=re.MULTILINE)
    lines: list[str] = []
    in_section = False
    for line in text.splitlines():
        if re.fullmatch(r"(Args|Raises|Returns):", line):
            in_section = True
            lines += [line, ""]
        elif in_section and (item := re.fullmatch(r"    (\**\w+): (.*)", line)):
            lines.append(f"- `{item[1]}`: {item[2]}")
        elif in_section and line.strip():
            lines.append(f"  {line.strip()}")
        else:
            lines.append(line.strip() if in_section else line)
    return "\n".join(lines).replace("``", "`")


# The Python face, and what a record holds.

PYTHON_INTRODUCTION = """\
`tabbench.run` does what the command of that name does. Errors are exceptions, children of `TabbenchError`, with the
same one-line messages.
"""

RECORDS_INTRODUCTION = """\
Records are JSON lines in `results/records/*.jsonl`, one file per writer. `results/records.parquet` is a copy in one
file, with nested fields as JSON texts. `tabbench show KEY` prints one record, and
`tabbench.results(folder).records()` gives all of them as a DataFrame. Fields that do not apply are left out.
"""


def render_python() -> str:
    """What `import tabbench` offers to notebooks and scripts."""
    parts = [NOTE, "# Python", PYTHON_INTRODUCTION, "## run", *find(parse(api), "run")]
    parts += ["## results", *(text.replace("open_results", "results") for text in find(parse(face), "open_results"))]
    parts += ["## Results", *find(parse(face), "Results")]
    parts += ["## TableView", *find(parse(face), "TableView")]
    parts += ["## load", *find(parse(pipeline), "load"), "## Pipeline", *find(parse(pipeline), "Pipeline")]
    return _join(parts)


def render_records() -> str:
    """Every field of a record."""
    parts = [NOTE, "# Records", RECORDS_INTRODUCTION]
    for name in ("Record", "Counts", "Hashes", "Environment"):
        parts += [f"## {name}", *find(parse(record), name)]
    return _join([*parts, "## TuningSummary", *find(parse(payloads), "TuningSummary")])


# The command line.


def render_cli() -> str:
    """Every command with its arguments and options."""
    parts = [NOTE, "# Command line", CLI_INTRODUCTION]
    for path, command in commands():
        parts += [f"## {path}", markdown(inspect.cleandoc(command.help or ""))]
        if not isinstance(command, typer.core.TyperGroup):
            parts.append(_code(f"{path} {_usage(command)}".rstrip(), "text"))
        arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
        options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
        if arguments:
            rows = [(f"`{metavar(argument)}`", _help(argument)) for argument in arguments]
            parts.append(_table(("argument", "meaning"), rows))
        if options:
            parts.append(
                _table(
                    ("option", "default", "meaning"),
                    [(_names(option), _shown_default(option), _help(option)) for option in options],
                )
            )
    return _join(parts)


def commands() -> Iterator[tuple[str, Any]]:
    """Every command of the application with its full name, groups before what they hold."""
    waiting: list[tuple[str, Any]] = [("tabbench", typer.main.get_command(app))]
    while waiting:
        path, command = waiting.pop(0)
        yield path, command
        if isinstance(command, typer.core.TyperGroup):
            waiting[:0] = [(f"{path} {name}", child) for name, child in command.commands.items()]


def _usage(command: Any) -> str:
    words = [metavar(parameter) for parameter in command.params if parameter.param_type_name == "argument"]
    return " ".join([*words, "[OPTIONS]"])


def metavar(parameter: Any) -> str:
    """What stands for the value of an argument or option; empty for a flag."""
    if parameter.param_type_name == "option" and parameter.is_flag:
        return ""
    word = str(parameter.metavar or parameter.name.upper())
    optional = parameter.param_type_name == "argument" and not parameter.required and not word.startswith("[")
    return f"[{word}]" if optional else word


def _names(option: Any) -> str:
    value = metavar(option)
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    return f"{names} `{value}`" if value else names


def _shown_default(option: Any) -> str:
    if option.required:
        return "required"
    if isinstance(option.show_default, str):
        return option.show_default
    return "" if option.default in (None, False, "") else f"`{option.default}`"


def _help(parameter: Any) -> str:
    return str(parameter.help or "")


# Markdown.


def _join(parts: list[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _code(text: str, language: str = "py") -> str:
    return f"```{language}\n{text}\n```"


def _table(headers: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [headers, ("---",) * len(headers), *rows]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def with_rooms(page: str) -> str:
    """docs/design.md with the picture of the rooms as it is now."""
    start, end = "<!-- rooms -->\n", "<!-- end of rooms -->"
    before, rest = page.split(start)
    return f"{before}{start}```text\n{rooms.picture()}\n```\n{end}{rest.split(end)[1]}"


def main() -> None:
    design = REFERENCE.parent / "design.md"
    design.write_text(with_rooms(design.read_text(encoding="utf-8")), encoding="utf-8")
    REFERENCE.mkdir(exist_ok=True)
    for name, text in render().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
    for page in printed.pages():
        page.write_text(printed.with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
