"""A method or a model on tables whose answer is known: it must find what is there, and nothing else.

Datasets say their answer in the ``arguments`` of their descriptor: ``no gain`` if no encoder can help, ``gain`` if
training one must help with few labels, ``chance`` if nothing can be learned.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal

from tabbench.config import Settings
from tabbench.errors import UsageError
from tabbench.experiment.controls import NONE, UNTRAINED
from tabbench.experiment.spec import Entries
from tabbench.registry import DISABLED_VARIABLE, Entry, Registry, make_registry
from tabbench.results.gains import gains_of
from tabbench.results.selection import Selection, select_records
from tabbench.results.statistics import Interval
from tabbench.results.store import Store
from tabbench.results.tabulate import tabulate_records
from tabbench.running.display import QuietDisplay
from tabbench.running.driver import run_plan
from tabbench.running.request import Conditions, plan_request, read_request
from tabbench.testing.verdicts import CheckResult

Answer = Literal["no gain", "gain", "chance"]
SPLITS = 5
FEW_LABELS = "50"
PROBE = "linear"
"""The model that is trained on a method's representation, unless another is named."""
CHANCE = 0.5
"""Accuracy of guessing."""
PROMISES: Mapping[Answer, str] = {
    "no gain": "It adds nothing to raw features when columns are independent of each other.",
    "gain": f"Training the encoder helps with {FEW_LABELS} labels when hidden factors generate the columns.",
    "chance": "It scores no better than chance when labels are coin tosses.",
}
LEARNS = "It learns a label that a single column determines."


def check_known(
    name: str,
    *,
    kind: str | None = None,
    model: str = PROBE,
    settings: Settings | None = None,
    files: Iterable[Path | str] = (),
    on_verdict: Callable[[CheckResult], None] = lambda verdict: None,
) -> list[CheckResult]:
    """Run a method or a model on every table whose answer is known, and judge what came out.

    Args:
        name: of a registered SSL method or model.
        kind: ssl or model, where the name is registered as both.
        model: for a method, what is trained on its representation. A method that trains a network's own backbone
            needs a network here.
        settings: settings of the plugin, on top of the preset ``quick``.
        files: unpublished plugins to register (``--plugin FILE``).
        on_verdict: gets each verdict as soon as there is one.
    """
    registry = make_registry(files)
    entry = _find(registry, name, kind)
    networks = [each.name for each in registry.entries("model") if each.plugin.backbone]
    model = registry.find("model", model).name
    if entry.kind == "ssl" and entry.plugin.gives != "representation" and model not in networks:
        raise UsageError(
            f"{entry.name} trains a network's own backbone, and {model} has none: add --model {' or '.join(networks)}"
        )
    tables = known_tables(registry)
    if not tables:
        raise UsageError(f"no dataset with a known answer is available: does {DISABLED_VARIABLE} name 'known'?")
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="tabbench-known-") as folder:
        for table, answer in tables.items():
            if entry.kind == "model" and answer == "gain":
                continue
            started = time.perf_counter()
            entries = experiment(entry, model, table, answer, settings or {})
            selection = _run(entries, registry, Store(Path(folder)))
            promise = LEARNS if entry.kind == "model" and answer == "no gain" else PROMISES[answer]
            passed, note = judge(entry.name if entry.kind == "ssl" else None, answer, selection)
            seconds = time.perf_counter() - started
            verdict = CheckResult(table, promise, "passed" if passed else "failed", note, seconds)
            on_verdict(verdict)
            verdicts.append(verdict)
    return verdicts


def known_tables(registry: Registry) -> dict[str, Answer]:
    """Datasets by name, with their answers."""
    found: dict[str, Answer] = {}
    for entry in registry.entries("data"):
        answer: Answer | None = entry.plugin.arguments.get("answer")
        if answer is not None and answer in PROMISES:
            found[entry.name] = answer
    return found


def _find(registry: Registry, name: str, kind: str | None) -> Entry:
    if kind not in (None, "ssl", "model"):
        raise UsageError(f"--known is for SSL methods and models, not for --kind {kind}")
    kinds = [kind] if kind else ["ssl", "model"]
    both = [each for each in kinds if name.lower() in registry.names(each)]
    if len(both) > 1:
        raise UsageError(f"{name!r} is an SSL method and a model: give --kind ssl or --kind model")
    return registry.find(both[0] if both else kinds[0], name)


def experiment(entry: Entry, model: str, table: str, answer: Answer, settings: Settings) -> Entries:
    """The plugin on a table, with its controls."""
    is_model = entry.kind == "model"
    controls = [NONE, UNTRAINED] if entry.plugin.untrained else [NONE]
    return {
        "ssl": [NONE if is_model else entry.name],
        "model": [entry.name if is_model else model],
        "data": [table],
        "preset": "quick",
        "protocol": ["finetune" if entry.plugin.gives == "backbone" else "frozen"],
        "controls": [] if is_model else controls,
        "labels": [FEW_LABELS if answer == "gain" else "100%"],
        "splits": SPLITS,
        "set": {entry.name: settings} if settings else {},
    }


def _run(entries: Entries, registry: Registry, store: Store) -> Selection:
    """The records of an experiment."""
    terms = Conditions(offline=True, fail_fast=True)
    display = QuietDisplay()
    spec, launcher = read_request(entries, registry, terms)
    plan = plan_request(spec, registry, store, display.say, offline=True)
    summary = run_plan(plan, store, launcher, display, fail_fast=True)
    if summary.interrupted:
        raise KeyboardInterrupt
    for step, outcome in summary.failures:
        raise UsageError(f"{step.label}: {outcome.error}")
    return select_records(store, only=[step.key for step in plan.records], names=plan.names)


def judge(method: str | None, answer: Answer, selection: Selection) -> tuple[bool, str]:
    """Whether the answer came out for a method, or (None) for the model on raw features; and the numbers."""
    if method is None or answer == "chance":
        return _judge_score(method or NONE, answer, selection)
    rows = [row for row in gains_of(selection).rows if row.row.ssl == method]
    cells = [cell for row in rows for cell in row.cells.values()]
    if not cells:
        return False, _why_none(selection)
    trained = answer == "gain" and cells[0].to_untrained is not None
    gain = cells[0].to_untrained if trained else cells[0].to_none
    if gain is None or gain.mean is None:
        return False, "no score is finite"
    control = "its untrained encoder" if trained else "raw features"
    passed = gain.mean > 0 if answer == "gain" else gain.verdict != "helps"
    return passed, f"gain over {control} {_text(gain)}: {gain.verdict}"


def _judge_score(ssl: str, answer: Answer, selection: Selection) -> tuple[bool, str]:
    rows = [row for row in tabulate_records(selection, "score").rows if row.ssl == ssl]
    scores = [cell.interval for row in rows for cell in row.cells.values() if cell.found]
    if not scores:  # one class for all rows is an honest answer to coin tosses
        return answer == "chance", _why_none(selection)
    above = scores[0].low is not None and scores[0].low > CHANCE
    return above == (answer != "chance"), f"accuracy {_text(scores[0])}; chance is {CHANCE}"


def _why_none(selection: Selection) -> str:
    reasons = dict.fromkeys(left["reason"] for left in selection.left_out)
    return f"every record is left out: {'; '.join(reasons)}"


def _text(found: Interval) -> str:
    if found.mean is None or found.low is None or found.high is None:
        return "not estimable"
    return f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}] over {found.n} splits"
