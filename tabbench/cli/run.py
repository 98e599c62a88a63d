"""``tabbench run``: spec -> plan -> jobs -> executor -> store -> table."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabbench.cli.dry_run import print_plan
from tabbench.cli.options import DEFAULT_RESULTS, PluginFiles, ResultsFolder, split_names
from tabbench.errors import UsageError, unknown

if TYPE_CHECKING:
    from tabbench.experiment.spec import Spec
    from tabbench.registry import Registry
    from tabbench.results.locks import LockKind
    from tabbench.results.store import Store
    from tabbench.running.launch import Launcher

FAILED, INTERRUPTED = 3, 130


def run(
    experiment: Annotated[Path | None, typer.Argument(help="An experiment file (TOML); options override it.")] = None,
    ssl: Annotated[str | None, typer.Option(metavar="A,B", help="SSL methods; see: tabbench list ssl.")] = None,
    model: Annotated[
        str | None, typer.Option(metavar="A,B", help="Downstream models; see: tabbench list models.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Datasets, demo, openml:ID, cc18, FILE:TARGET.", show_default="demo"),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="quick, standard or paper.", show_default="quick for demo, else standard"),
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="frozen, finetune: how an encoder is used.", show_default="frozen"),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Labelled training rows: 1%,10% or 50,200.", show_default="100%"),
    ] = None,
    validation_labels: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="same: the same share, at least 32; or all.", show_default="same"),
    ] = None,
    probe: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Labels that choose an encoder's weights: kept, or never any.",
            show_default="never if some labels are hidden",
        ),
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
    rows: Annotated[int | None, typer.Option(min=10, metavar="N", help="Use only N rows of each dataset.")] = None,
    split_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="It says train, validation, test, or the fold.")
    ] = None,
    group: Annotated[str | None, typer.Option(metavar="COLUMN", help="Keep rows of a group on one side.")] = None,
    time: Annotated[str | None, typer.Option(metavar="COLUMN", help="Train on the past, test on the future.")] = None,
    folds: Annotated[
        str | None, typer.Option(metavar="K", help="Cross-validation; server: the folds of an OpenML task.")
    ] = None,
    duplicates: Annotated[
        str | None, typer.Option(metavar="keep|group", help="group: keep equal rows on one side.")
    ] = None,
    transductive: Annotated[
        bool | None, typer.Option("--transductive", help="Pretrain on unlabelled rows of the test side, too.")
    ] = None,
    categorical: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns of FILE:TARGET to take as categories.")
    ] = None,
    numeric: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns of FILE:TARGET to take as numbers.")
    ] = None,
    drop: Annotated[str | None, typer.Option(metavar="A,B", help="Columns of FILE:TARGET to leave out.")] = None,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help="classification or regression.", show_default="by the target")
    ] = None,
    unlabelled: Annotated[
        str | None,
        typer.Option(metavar="FILE|drop", help="More rows without a target for pretraining; drop: without any."),
    ] = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps.")] = "auto",
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Jobs at a time.", show_default="cores / threads")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What tuning, stopping, probe and ranks look at: auroc, log_loss, balanced_accuracy, "
            "macro_f1, mae, ...",
            show_default="accuracy, RMSE",
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Threads of each job; part of what is run.", show_default="1")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Start no job after this time: 30m, 2h. The next run resumes.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(min=0.1, metavar="S", help="Seconds a job may take.")] = None,
    memory: Annotated[float | None, typer.Option(min=0.1, metavar="GB", help="Memory a job may use.")] = None,
    retries: Annotated[
        int, typer.Option(min=0, metavar="N", help="Start a job again whose worker was killed or lost.")
    ] = 2,
    executor: Annotated[str, typer.Option(metavar="NAME", help="See: tabbench list executors.")] = "local",
    detach: Annotated[
        bool, typer.Option("--detach", help="Drive the run in the background, or as a job of the cluster.")
    ] = False,
    lock: Annotated[
        str, typer.Option(metavar="KIND", help="flock, or lease where the file system has no locks.")
    ] = "flock",
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
    from tabbench.cli.table import show
    from tabbench.data.gather import find_data, freeze
    from tabbench.experiment.plan import check_spec, make_plan
    from tabbench.registry import make_registry
    from tabbench.results.store import Store
    from tabbench.results.tabulate import tabulate
    from tabbench.running.display import make_display
    from tabbench.running.driver import run_plan
    from tabbench.running.launch import make_launcher

    lists = {"ssl": ssl, "model": model, "data": data, "controls": controls, "protocol": protocol, "labels": labels}
    lists |= {"categorical": categorical, "numeric": numeric, "drop": drop}
    options: dict[str, Any] = {name: split_names(value) for name, value in lists.items() if value is not None}
    options |= {"preset": preset, "splits": splits, "seeds": seeds, "trials": trials, "ssl_trials": ssl_trials}
    options |= {"sampler": sampler, "rows": rows, "validation_labels": validation_labels, "probe": probe}
    options |= {"task": task, "unlabelled": unlabelled, "duplicates": duplicates, "transductive": transductive}
    options |= {"split_column": split_column, "group": group, "time": time, "folds": folds}
    options |= {"threads": threads, "metric": metric}
    registry = make_registry(plugin or [])
    for problem in registry.problems:
        print(f"tabbench: {problem}", file=sys.stderr)
    spec, executor_settings = read_spec(experiment, options, settings or [], executor, registry)
    limits: dict[str, Any] = {"jobs": jobs, "threads": spec.threads, "timeout": timeout, "memory": memory}
    limits["device"] = check_device(device)
    launcher = make_launcher(registry, executor, settings=executor_settings, **limits)
    seconds = parse_duration(budget)
    check_spec(spec, registry)  # wrong names are told before anything is downloaded
    store = Store(results, locks=check_lock(lock))
    if dry_run:
        print_plan(spec, registry, store, launcher, offline=offline, calibrate=calibrate)
        return
    if detach:
        print_detached(launcher, store)
        return

    display = make_display(quiet=quiet, verbose=verbose)
    about: dict[str, Any] = {"reading": spec.reading, "rule": spec.rule, "frozen": store.frozen_tables()}
    manifests = find_data(spec.data, registry, offline=offline, say=display.say, **about)
    plan = make_plan(spec, registry, manifests)
    for skipped in plan.skipped:
        display.say(f"skipped: {skipped}")
    tables = freeze(spec.data, manifests, registry)
    store.save_experiment(spec.to_json(), [skipped.to_json() for skipped in plan.skipped], tables)
    how: dict[str, Any] = {"fail_fast": fail_fast, "budget": seconds, "retries": retries}
    summary = run_plan(plan, store, launcher, display, **how)
    display.summary(summary, results)
    show(tabulate(store, only=[step.key for step in plan.records], names=plan.names), "terminal")
    sys.exit(INTERRUPTED if summary.interrupted else FAILED if summary.is_incomplete else 0)


def read_spec(
    experiment: Path | None, options: Mapping[str, Any], settings: Sequence[str], executor: str, registry: "Registry"
) -> "tuple[Spec, dict[str, Any]]":
    """What to run: the experiment file with what the command line says instead; and the executor's settings."""
    from tabbench.experiment.settings import default_preset
    from tabbench.experiment.spec import DEFAULT_DATA, make_spec, merge_options, parse_setting, read_experiment
    from tabbench.running.executors import refuse_unused, take_settings

    entry = registry.find("executor", executor)
    refuse_unused([parse_setting(text)[0] for text in settings], entry, registry)
    given = merge_options(read_experiment(experiment) if experiment is not None else {}, options, settings)
    executor_settings = take_settings(given["set"], entry, registry)
    for kind in ("ssl", "model"):
        if not given.get(kind):
            raise UsageError(f"--{kind} is missing. Available: {', '.join(registry.names(kind))}.")
    return make_spec(given, default_preset(given.get("data", [DEFAULT_DATA]), registry)), executor_settings


def check_lock(name: str) -> "LockKind":
    """A kind of lock that there is."""
    if name not in ("flock", "lease"):
        raise unknown("kind of lock", name, ("flock", "lease"))
    return "lease" if name == "lease" else "flock"


def print_detached(launcher: "Launcher", store: "Store") -> None:
    """Start this very command elsewhere, without --detach, and say how to follow it."""
    command = [sys.executable, "-m", "tabbench", *(word for word in sys.argv[1:] if word != "--detach")]
    print(f"driver: {launcher.detach(command, store)}")
    print(f"follow it with: tabbench status --results {store.root} --watch")


def check_device(name: str) -> str:
    """A device as torch writes it, or ``auto``."""
    if name not in ("auto", "cpu", "mps") and name.partition(":")[0] != "cuda":
        raise UsageError(f"Unknown device {name!r}. Available: auto, cpu, cuda, mps.")
    return name


def parse_duration(text: str | None) -> float | None:
    """``2h`` as 7200 seconds."""
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
