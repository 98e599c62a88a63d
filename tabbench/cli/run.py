"""``tabbench run``: spec -> plan -> jobs -> executor -> store -> table."""

import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabbench.cli.options import DEFAULT_RESULTS, PluginFiles, ResultsFolder, split_names
from tabbench.errors import UsageError

if TYPE_CHECKING:
    from tabbench.cli.display import PlainDisplay
    from tabbench.data.cache import Manifest
    from tabbench.registry import Entry, Registry
    from tabbench.spec import Preset, Spec

FAILED, INTERRUPTED = 3, 130
DEFAULT_DATA = "demo"


def run(
    experiment: Annotated[Path | None, typer.Argument(help="An experiment file (TOML); options override it.")] = None,
    ssl: Annotated[str | None, typer.Option(metavar="A,B", help="SSL methods; see: tabbench list ssl.")] = None,
    model: Annotated[
        str | None, typer.Option(metavar="A,B", help="Downstream models; see: tabbench list models.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="A,B", help="Datasets, demo, paper, or FILE:TARGET.", show_default="demo")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="quick, standard or paper.", show_default="quick for demo, else standard"),
    ] = None,
    splits: Annotated[int | None, typer.Option(min=1, metavar="K", help="Data splits.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, metavar="N", help="Initialisations of each model.")] = None,
    trials: Annotated[int | None, typer.Option(min=0, metavar="N", help="Tuning trials of each model.")] = None,
    ssl_trials: Annotated[int | None, typer.Option(min=0, metavar="N", help="Tuning trials of each method.")] = None,
    sampler: Annotated[str | None, typer.Option(metavar="NAME", help="tpe, gp or random.", show_default="tpe")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME.KEY=VALUE", help="A setting of a plugin; can be repeated."),
    ] = None,
    controls: Annotated[
        str | None, typer.Option(metavar="A,B", help='none, untrained or "".', show_default="by the preset")
    ] = None,
    rows: Annotated[int | None, typer.Option(min=10, metavar="N", help="Only so many rows of each dataset.")] = None,
    categorical: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns of FILE:TARGET to take as categories.")
    ] = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps.")] = "auto",
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Jobs at a time.", show_default="one a core")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Start no job after so long: 30m, 2h. The next run goes on.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(min=0.1, metavar="S", help="Seconds a job may take.")] = None,
    memory: Annotated[float | None, typer.Option(min=0.1, metavar="GB", help="Memory a job may use.")] = None,
    executor: Annotated[str, typer.Option(metavar="NAME", help="See: tabbench list executors.")] = "local",
    results: ResultsFolder = DEFAULT_RESULTS,
    plugin: PluginFiles = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never touch the network.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and leave.")] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="With --dry-run: measure a few epochs of each training.")
    ] = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first failure.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the table.")] = False,
) -> None:
    """Run the cross-product of SSL methods, models and datasets; what is already stored is not run again.

    Exit codes: 0 all done, 2 wrong usage, 3 some jobs failed or were not reached, 130 interrupted.
    """
    from tabbench.cli.display import make_display
    from tabbench.cli.dry_run import print_plan
    from tabbench.plan import make_plan
    from tabbench.registry import make_registry
    from tabbench.spec import make_spec, parse_setting, read_experiment
    from tabbench.store import Store

    given: dict[str, Any] = read_experiment(experiment) if experiment is not None else {}
    lists = {"ssl": ssl, "model": model, "data": data, "controls": controls, "categorical": categorical}
    replaced = {name: split_names(value) for name, value in lists.items() if value is not None}
    # Settings of a plugin go with it when the command line leaves it out of the file's list.
    left_out = {name for kind in replaced for name in given.get(kind, []) if name not in replaced[kind]}
    if "set" in given:
        given["set"] = {name: values for name, values in given["set"].items() if name not in left_out}
    given |= replaced
    values = {"preset": preset, "splits": splits, "seeds": seeds, "trials": trials, "ssl_trials": ssl_trials}
    values |= {"sampler": sampler, "rows": rows}
    given |= {name: value for name, value in values.items() if value is not None}
    for text in settings or []:
        name, key, value = parse_setting(text)
        given.setdefault("set", {}).setdefault(name, {})[key] = value
    registry = make_registry(plugin or [])
    for problem in registry.problems:
        print(f"tabbench: {problem}", file=sys.stderr)
    for option, kind in (("ssl", "ssl"), ("model", "model")):
        if not given.get(option):
            raise UsageError(f"--{option} is missing. Available: {', '.join(registry.names(kind))}.")
    spec = make_spec(given, default_preset(given.get("data", [DEFAULT_DATA]), registry))
    # Wrong names are told before anything is downloaded.
    options = Options(
        registry.find("executor", executor),
        jobs,
        _device(device),
        timeout,
        memory,
        _seconds(budget),
        results,
        fail_fast,
    )
    make_plan(spec, registry, [])
    store = Store(results)
    if dry_run:
        print_plan(spec, registry, store, offline=offline, calibrate=calibrate)
        return
    display = make_display(quiet=quiet, verbose=verbose)
    manifests = find_data(spec, registry, offline, display.say)
    sys.exit(execute(spec, registry, manifests, display, options))


def default_preset(data: "Iterable[str]", registry: "Registry") -> "Preset":
    """``quick`` for tables that are there for a first look, ``standard`` for everything else."""
    demo = {DEFAULT_DATA, *(entry.name for entry in registry.groups().get(DEFAULT_DATA, []))}
    return "quick" if {name.lower() for name in data} <= demo else "standard"


@dataclass(frozen=True)
class Options:
    """How to run: nothing of this changes results."""

    executor: "Entry"
    jobs: int | None
    device: str
    timeout: float | None
    memory: float | None
    budget: float | None
    results: Path
    fail_fast: bool


def _device(name: str) -> str:
    if name not in ("auto", "cpu", "mps") and name.partition(":")[0] != "cuda":
        raise UsageError(f"Unknown device {name!r}. Available: auto, cpu, cuda, mps.")
    return name


def _seconds(text: str | None) -> float | None:
    """``2h`` as 7200."""
    if text is None:
        return None
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "s")
    try:
        seconds = float(number) * units[unit]
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise UsageError(f"--budget {text!r}: write a number with s, m, h or d, for example 90m")
    return seconds


def find_data(spec: "Spec", registry: "Registry", offline: bool, say: Callable[[str], None]) -> "list[Manifest]":
    """Every dataset of the experiment, in the cache."""
    from tabbench.data.references import is_file, resolve_data

    found: dict[str, Manifest] = {}
    for reference in spec.data:
        for manifest in resolve_data(reference, registry, offline=offline, categorical=spec.categorical, progress=say):
            if manifest.name not in found and is_file(reference, registry):
                for note in manifest.notes:
                    say(f"{manifest.name}: {note}")
            found.setdefault(manifest.name, manifest)
            check_names(found.values(), manifest)
    return list(found.values())


def check_names(manifests: "Iterable[Manifest]", new: "Manifest") -> None:
    """Refuse two tables of one name, and one table by two names: their results could not be told apart."""
    for manifest in manifests:
        if manifest.name == new.name and manifest.key != new.key:
            raise UsageError(
                f"two different tables go by the name {new.name!r}: import one of them under a name of its own "
                "(tabbench data import NAME FILE --target T)"
            )
        if manifest.name != new.name and manifest.key == new.key:
            raise UsageError(f"{manifest.name!r} and {new.name!r} are the same table: name one of them")


def execute(
    spec: "Spec", registry: "Registry", manifests: "list[Manifest]", display: "PlainDisplay", options: Options
) -> int:
    """Plan, run, print the table; the exit code."""
    from tabbench.cli.table import print_table
    from tabbench.contracts import Executor, Limits
    from tabbench.data.cache import cache_dir
    from tabbench.execution import Execution
    from tabbench.plan import make_plan
    from tabbench.resources import share_cores
    from tabbench.store import Store

    store = Store(options.results)
    plan = make_plan(spec, registry, manifests)
    slots, threads = share_cores(options.jobs)
    memory = None if options.memory is None else int(options.memory * 2**30)
    limits = Limits(threads, options.device, options.timeout, memory)
    executor_class = registry.load(options.executor)

    def start() -> Executor:
        started: Executor = executor_class(slots, limits, store.root / "logs")
        return started

    execution = Execution(
        plan, registry, store, display,
        cache=str(cache_dir().absolute()), fail_fast=options.fail_fast, budget=options.budget,
    )  # fmt: skip
    store.save_experiment(spec.to_json())
    interrupted = False
    try:
        with _one_interruption():
            execution.run(start)
    except KeyboardInterrupt:
        interrupted = True
    summary = execution.summary
    display.summary(summary, interrupted)
    names = {manifest.key[:12]: manifest.name for manifest in manifests}
    print_table(store, [step.key for step in plan.records], names)
    if interrupted:
        return INTERRUPTED
    return FAILED if summary.failures or summary.not_reached else 0


@contextmanager
def _one_interruption() -> Iterator[None]:
    """Ctrl-C (or a scheduler's SIGTERM) once ends the run cleanly; more of them cannot disturb the cleaning up."""
    signals = (signal.SIGINT, signal.SIGTERM)

    def interrupt(number: int, frame: object) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {each: signal.signal(each, interrupt) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
