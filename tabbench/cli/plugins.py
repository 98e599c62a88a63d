"""``tabbench plugins``: write a new plugin, or check one."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tabbench.cli.options import CommandGroup, PluginFiles
from tabbench.errors import UsageError
from tabbench.hookspecs import KIND_NAMES
from tabbench.registry import make_registry

if TYPE_CHECKING:
    from tabbench.testing import CheckResult, Subject

app = CommandGroup(help="Write a new plugin, or check one.", no_args_is_help=True)

WORDS = {
    "passed": "pass",
    "failed": "FAIL",
    "expected": "expected failure",
    "unexpected": "UNEXPECTED PASS",
    "skipped": "skip",
}


@app.command("new")
def new(
    kind: Annotated[str, typer.Argument(help="ssl, joint, model, dataset, scheme, executor or reference.")],
    name: Annotated[str, typer.Argument(help="What users will type; the package becomes tabbench-NAME.")],
    into: Annotated[
        Path, typer.Option("--into", metavar="DIR", help="Where to create the folder tabbench-NAME.")
    ] = Path(),
) -> None:
    """Write a package tabbench-NAME with a working plugin, its test, README, licence and CI example."""
    from tabbench.testing.scaffold import TEMPLATES, make_package, write_package

    files = make_package(kind.lower(), name, make_registry())
    folder = into / f"tabbench-{name}"
    write_package(files, folder)
    print(f"wrote {folder}:")
    for path in files:
        print(f"  {path}")
    print("next:")
    print(f'  pip install -e "{folder}[test]"')
    print(f"  pytest {folder}")
    print(f"  tabbench {TEMPLATES[kind.lower()].run.format(name=name)}")


@app.command("check")
def check(
    name: Annotated[str, typer.Argument(help="A plugin's name; see: tabbench list.")],
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind", metavar="KIND", help="ssl, model, data, scheme, executor or reference, if NAME is ambiguous."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting that makes the checks fast; repeatable."),
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option("--expect", metavar="CHECK=REASON", help="A check expected to fail, and why; repeatable."),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            metavar="S",
            min=1,
            help="Time limit per check, in seconds.",
            show_default="120; executors 300",
        ),
    ] = None,
    known: Annotated[
        bool, typer.Option("--known", help="Instead, run a method or model on tables whose answer is known.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="NAME", help="With --known: the model on top of a method.", show_default="linear"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for programs.")] = False,
    plugin: PluginFiles = None,
) -> None:
    """Check that a plugin keeps the contract. Exit codes: 0 it does, 1 it does not."""
    from tabbench.experiment.spec import parse_setting
    from tabbench.testing import check_plugin
    from tabbench.testing.known import PROBE, check_known
    from tabbench.testing.subject import find_subject

    chosen = dict(parse_setting(f"{name}.{text}")[1:] for text in settings or [])
    reasons = dict(_parse_reason(text) for text in expect or [])
    on_verdict: Callable[[CheckResult], None] = (lambda verdict: None) if as_json else print_verdict
    if known:
        if reasons or time_limit:
            raise UsageError("--expect and --time-limit are for the other checks, not for --known")
        found = check_known(
            name, kind=kind, model=model or PROBE, settings=chosen, files=plugin or [], on_verdict=on_verdict
        )
        _conclude(found, as_json)
    if model:
        raise UsageError("--model goes with --known")
    subject = find_subject(name, kind=kind, settings=chosen, files=plugin or [])
    subject.load()  # without the class, every check would fail with the same line
    if not as_json:
        print(_heading(subject), flush=True)
    verdicts = check_plugin(
        subject,
        expected_failures=reasons,
        time_limit=time_limit,
        on_verdict=on_verdict,
    )
    _conclude(verdicts, as_json, "the other checks were not run: they need a plugin that trains" * subject.cannot_train)


def _conclude(verdicts: "Sequence[CheckResult]", as_json: bool, note: str = "") -> NoReturn:
    """Print the end of it, and leave with the exit code."""
    if as_json:
        print(json.dumps([{**asdict(verdict), "ok": verdict.ok} for verdict in verdicts], indent=1))
    else:
        counts = Counter(WORDS[verdict.status] for verdict in verdicts)
        print(", ".join(f"{counts[word]} {word}" for word in WORDS.values() if counts[word]))
        if note:
            print(note)
    sys.exit(0 if all(verdict.ok for verdict in verdicts) else 1)


def print_verdict(verdict: "CheckResult") -> None:
    """One line for the promise, and one for the note on it."""
    width = len(WORDS["expected"])
    print(f"  {WORDS[verdict.status]:<{width}}  {verdict.check}: {verdict.promise}")
    if verdict.note:
        print(f"  {'':<{width}}    {verdict.note}", flush=True)


def _heading(subject: "Subject") -> str:
    assert subject.entry is not None
    kind = KIND_NAMES[subject.entry.kind]
    return f"{subject.name}: {kind} of {subject.entry.distribution} {subject.entry.version}"


def _parse_reason(text: str) -> tuple[str, str]:
    name, equals, reason = text.partition("=")
    if not equals:
        raise UsageError(f"--expect {text!r}: write it as CHECK=REASON")
    return name.strip(), reason.strip()
