"""The options of ``tabbench run``, as one typed value."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tabbench.cli.options import DEFAULT_RESULTS, PluginFiles, ResultsFolder, split_names
from tabbench.errors import unknown

if TYPE_CHECKING:
    from tabbench.experiment.spec import Entries
    from tabbench.results.locks import LockKind
    from tabbench.running.request import Conditions


@dataclass(frozen=True)
class RunOptions:
    """The command line's options. A field named like an entry of an experiment file overrides that entry."""

    experiment: Annotated[Path | None, typer.Argument(help="An experiment file (TOML); options override it.")] = None
    ssl: Annotated[str | None, typer.Option(metavar="A,B", help="SSL methods; see: tabbench list ssl.")] = None
    model: Annotated[str | None, typer.Option(metavar="A,B", help="Downstream models; see: tabbench list models.")] = (
        None
    )
    data: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Datasets, demo, openml:ID, cc18, FILE:TARGET.", show_default="demo"),
    ] = None
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="quick, standard or paper.", show_default="quick for demo or --budget below 1h"
        ),
    ] = None
    protocol: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="How encoders are used: frozen, finetune.", show_default="frozen"),
    ] = None
    labels: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Labelled training rows: 1%,10% or 50,200.", show_default="100%"),
    ] = None
    validation_labels: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Labelled validation rows: same (the same share, at least 32 rows) or all.",
            show_default="same",
        ),
    ] = None
    probe: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Labels that may choose an encoder's weights: kept (those not hidden) or never (none).",
            show_default="never if labels are hidden and --ssl-trials is 0",
        ),
    ] = None
    splits: Annotated[int | None, typer.Option(min=1, metavar="K", help="Number of data splits.")] = None
    seeds: Annotated[int | None, typer.Option(min=1, metavar="N", help="Initialisations per model.")] = None
    trials: Annotated[int | None, typer.Option(min=0, metavar="N", help="Tuning trials per model.")] = None
    ssl_trials: Annotated[int | None, typer.Option(min=0, metavar="N", help="Tuning trials per SSL method.")] = None
    sampler: Annotated[
        str | None, typer.Option(metavar="NAME", help="Tuning sampler: tpe, gp or random.", show_default="tpe")
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME.KEY=VALUE", help="A setting of a plugin; repeatable."),
    ] = None
    controls: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help='Controls to run: none, untrained, or "" for neither.', show_default="by the preset"
        ),
    ] = None
    rows: Annotated[int | None, typer.Option(min=10, metavar="N", help="Use only N rows of each dataset.")] = None
    split_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that holds train/validation/test or a fold.")
    ] = None
    group: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Keep rows of the same group on one side of a split.")
    ] = None
    time: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column to split by time: train on the past.")] = (
        None
    )
    folds: Annotated[
        str | None, typer.Option(metavar="K", help="Cross-validation; server: the folds of an OpenML task.")
    ] = None
    duplicates: Annotated[
        str | None, typer.Option(metavar="keep|group", help="group: keep identical rows on one side of a split.")
    ] = None
    transductive: Annotated[
        bool | None, typer.Option("--transductive", help="Also pretrain on unlabelled rows from the test side.")
    ] = None
    categorical: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns of FILE:TARGET to treat as categories.")
    ] = None
    numeric: Annotated[str | None, typer.Option(metavar="A,B", help="Columns of FILE:TARGET to treat as numbers.")] = (
        None
    )
    drop: Annotated[str | None, typer.Option(metavar="A,B", help="Columns of FILE:TARGET to leave out.")] = None
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help="classification or regression.", show_default="by the target")
    ] = None
    unlabelled: Annotated[
        str | None,
        typer.Option(metavar="FILE|drop", help="File with more rows to pretrain on; drop: use no unlabelled rows."),
    ] = None
    class_weights: Annotated[
        str | None, typer.Option(metavar="balanced", help="Weight classes equally in training.")
    ] = None
    weights: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of row weights for training; scores stay unweighted.")
    ] = None
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps.")] = "auto"
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Parallel jobs.", show_default="cores / threads")
    ] = None
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Metric for tuning, stopping, probes and ranks: auroc, log_loss, balanced_accuracy, "
            "macro_f1, mae, ...",
            show_default="accuracy, RMSE",
        ),
    ] = None
    threads: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Threads per job; each number makes separate records.", show_default="1"),
    ] = None
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Do what fits into this time: 10m, 2h. The next run resumes.")
    ] = None
    timeout: Annotated[float | None, typer.Option(min=0.1, metavar="S", help="Time limit per job, in seconds.")] = None
    memory: Annotated[float | None, typer.Option(min=0.1, metavar="GB", help="Memory limit per job.")] = None
    retries: Annotated[
        int, typer.Option(min=0, metavar="N", help="Restarts of a job whose worker was killed or lost.")
    ] = 2
    executor: Annotated[str, typer.Option(metavar="NAME", help="See: tabbench list executors.")] = "local"
    detach: Annotated[bool, typer.Option("--detach", help="Run in the background, or as a cluster job.")] = False
    lock: Annotated[
        str, typer.Option(metavar="KIND", help="Kind of lock: flock, or lease if the file system has no locks.")
    ] = "flock"
    results: ResultsFolder = DEFAULT_RESULTS
    plugin: PluginFiles = None
    offline: Annotated[bool, typer.Option("--offline", help="Do not use the network.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and exit.")] = False
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="With --dry-run: time a few epochs of each training.")
    ] = False
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first failure.")] = False
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print more.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the table.")] = False

    def entries(self) -> "Entries":
        """What to run, as entries of an experiment file."""
        from tabbench.experiment.spec import LISTS, NAMES, parse_settings

        given: Entries = {"set": parse_settings(self.settings or [])}
        for name in NAMES:
            value = getattr(self, name, None)
            if value is not None:
                given[name] = split_names(value) if name in LISTS else value
        return given

    def terms(self) -> "Conditions":
        """How to run it."""
        from tabbench.running.request import Conditions, parse_duration

        return Conditions(
            executor=self.executor,
            jobs=self.jobs,
            device=self.device,
            timeout=self.timeout,
            memory=self.memory,
            retries=self.retries,
            budget=parse_duration(self.budget),
            fail_fast=self.fail_fast,
            offline=self.offline,
        )

    @property
    def locks(self) -> "LockKind":
        """Check the name of a kind of lock."""
        if self.lock not in ("flock", "lease"):
            raise unknown("kind of lock", self.lock, ("flock", "lease"))
        return "lease" if self.lock == "lease" else "flock"
