"""``tabbench fit`` and ``tabbench predict``: a pipeline to deploy, and its predictions for new rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tabbench.cli.options import DEFAULT_RESULTS, PluginFiles, ResultsFolder, split_names
from tabbench.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from tabbench.context import Context
    from tabbench.experiment.spec import Entries
    from tabbench.running.pipeline import Pipeline

WRITERS = (".csv", ".parquet")


def fit(
    record: Annotated[
        str | None, typer.Argument(metavar="[RECORD]", help="First characters of a record's key.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write the pipeline.")] = Path("pipeline"),
    ssl: Annotated[str | None, typer.Option(metavar="NAME", help="SSL method or none; instead of RECORD.")] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Downstream model; instead of RECORD.")] = None,
    data: Annotated[
        str | None, typer.Option(metavar="NAME|FILE:TARGET", help="Dataset; with RECORD, its file's current path.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(metavar="NAME", help="quick, standard or paper.", show_default="standard")
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="frozen, or finetune to train the encoder together with the model.",
            show_default="frozen",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME.KEY=VALUE", help="A setting of a plugin; can be repeated."),
    ] = None,
    categorical: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns of FILE:TARGET to treat as categories.")
    ] = None,
    numeric: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns of FILE:TARGET to take as numbers.")
    ] = None,
    drop: Annotated[str | None, typer.Option(metavar="A,B", help="Columns of FILE:TARGET to leave out.")] = None,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help="classification or regression.", show_default="by the target")
    ] = None,
    class_weights: Annotated[
        str | None, typer.Option(metavar="balanced", help="Weight classes equally in training.")
    ] = None,
    weights: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of row weights for training.")] = None,
    as_recorded: Annotated[
        bool, typer.Option("--as-recorded", help="Refit the record's exact model, on its training rows only.")
    ] = False,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps.")] = "auto",
    results: ResultsFolder = DEFAULT_RESULTS,
    plugin: PluginFiles = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not use the network.")] = False,
) -> None:
    """Fit encoder and model on all labelled rows and save them without pickle, for 'tabbench predict'.

    Give a benchmark record, or a method, a model and a table. A tenth of the rows decides when to stop training.
    """
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is not a folder: give another")
    if (out / "pipeline.json").exists():
        raise UsageError(f"--out {out} already has a pipeline, which is not overwritten; give another folder")
    if record is not None and (ssl or model):
        raise UsageError("give either a RECORD or --ssl, --model and --data")
    if as_recorded and record is None:
        raise UsageError("--as-recorded needs a RECORD")
    if record is not None:
        chosen = {"--preset": preset, "--protocol": protocol, "--set": settings,
                  "--categorical": categorical, "--numeric": numeric, "--drop": drop, "--task": task,
                  "--class-weights": class_weights, "--weights": weights}  # fmt: skip
        for option in (option for option, given in chosen.items() if given):
            raise UsageError(f"{option} goes with --ssl, --model and --data: with a RECORD, its own settings are used")
        made = _fit_record(record, results, data, plugin or [], device, offline, as_recorded)
    else:
        for name, value in (("ssl", ssl), ("model", model), ("data", data)):
            if value is None:
                raise UsageError(f"--{name} is missing: give either a RECORD or --ssl, --model and --data")
        lists = {"categorical": categorical, "numeric": numeric, "drop": drop}
        words = {"preset": preset, "task": task, "class_weights": class_weights, "weights": weights}
        given: Entries = {name: split_names(value) for name, value in lists.items() if value is not None}
        given |= {name: value for name, value in words.items() if value is not None}
        given |= {"ssl": [ssl], "model": [model], "data": [data], "controls": []}
        given |= {"protocol": [protocol or "frozen"]}
        made = _fit_named(given, settings or [], plugin or [], device, offline)
    made.save(out)
    what = f"{made.method_name} + {made.model_name}" if made.method_name else made.model_name
    print(f"{out}: {what}, predicts {made.target!r} from {made.schema.n_features} columns")


def _fit_record(
    start: str, results: Path, data: str | None, plugins: list[Path], device: str, offline: bool, as_recorded: bool
) -> Pipeline:
    from tabbench.cli.show import get_record
    from tabbench.experiment.controls import NONE, is_untrained
    from tabbench.experiment.plan import metric_of
    from tabbench.experiment.settings import choose
    from tabbench.results.replay import prepare_replay
    from tabbench.results.store import Store
    from tabbench.running.finalise import fit_as_recorded, fit_pipeline

    stored = get_record(results, start)
    prepared = prepare_replay(stored, results, plugins, data)
    spec = prepared.spec
    (manifest,) = prepared.find_data(offline, _say)
    plan, last = prepared.plan(manifest)
    context = _context(device, stored.environment.threads if stored.environment else 1)
    if as_recorded:
        return fit_as_recorded(stored, plan, last, Store(results), context)
    if is_untrained(stored.ssl):
        raise UsageError(f"{stored.ssl} is a control: choose a method, or add --as-recorded")
    method = None if stored.ssl == NONE else choose(spec, prepared.registry, "ssl", stored.ssl, manifest.name)
    model = choose(spec, prepared.registry, "model", stored.model, manifest.name)
    return fit_pipeline(
        method,
        model,
        manifest,
        prepared.registry,
        context,
        spec.rule.columns,
        spec.weighting,
        finetune=stored.protocol == "finetune",
        metric=metric_of(spec, manifest),
    )


def _fit_named(given: Entries, settings: list[str], plugins: list[Path], device: str, offline: bool) -> Pipeline:
    from tabbench.data.gather import find_data
    from tabbench.data.sources import find_sources
    from tabbench.experiment.controls import NONE, UNTRAINED
    from tabbench.experiment.plan import check_spec
    from tabbench.experiment.settings import choose
    from tabbench.experiment.spec import make_spec, parse_settings
    from tabbench.registry import make_registry
    from tabbench.running.finalise import fit_pipeline

    registry = make_registry(plugins)
    spec = make_spec({**given, "set": parse_settings(settings)})
    if spec.ssl[0].lower().partition(":")[0] == UNTRAINED:
        raise UsageError(f"--ssl {spec.ssl[0]} is a control: choose a method")
    if spec.ssl[0].lower() == NONE and spec.protocol[0] == "finetune":
        raise UsageError("--protocol finetune: --ssl none has no encoder to fine-tune")
    check_spec(spec, registry)
    sources = find_sources(spec.data[0], registry, offline=offline)
    if len(sources) > 1:
        raise UsageError(f"--data {spec.data[0]} is a group; pick one: {', '.join(each.name for each in sources)}")
    (manifest,) = find_data(
        spec.data, registry, offline=offline, reading=spec.reading, weighting=spec.weighting, say=_say
    )
    if spec.class_weights and manifest.task == "regression":
        raise UsageError(f"--class-weights needs a target with classes, but {manifest.target!r} is a number")
    raw = spec.ssl[0].lower() == NONE
    method = None if raw else choose(spec, registry, "ssl", spec.ssl[0], manifest.name)
    model = choose(spec, registry, "model", spec.model[0], manifest.name)
    finetune = method is not None and spec.protocol[0] == "finetune"
    context = _context(device, 1)
    return fit_pipeline(method, model, manifest, registry, context, weighting=spec.weighting, finetune=finetune)


def _context(device: str, threads: int) -> Context:
    import torch

    from tabbench.context import Context
    from tabbench.contracts.job import Event
    from tabbench.running.display import describe
    from tabbench.running.resources import pick_device

    torch.set_num_threads(threads)

    def report(step: int, total: int, metrics: dict[str, float]) -> None:
        if sys.stderr.isatty():
            print(f"\r{describe(Event('', step, total, metrics))[:78]:<78}", end="", file=sys.stderr)

    return Context(device=pick_device(device), threads=threads, on_report=report)


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def predict(
    pipeline: Annotated[Path, typer.Argument(metavar="PIPELINE", help="Folder written by 'tabbench fit'.")],
    file: Annotated[Path, typer.Argument(help="New rows: CSV, TSV, parquet, Excel or Feather.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Output file: .csv or .parquet.")],
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps.")] = "auto",
    plugin: PluginFiles = None,
) -> None:
    """Predict each row of a file, with the probability of each class.

    Columns are matched by name. A target column in the file is ignored.
    """
    from tabbench.data.files import read_rows
    from tabbench.results.writing import check_place
    from tabbench.running.pipeline import load
    from tabbench.running.resources import pick_device

    if out.suffix not in WRITERS:
        raise UsageError(f"--out {out}: its name must end in {' or '.join(WRITERS)}")
    check_place(out)
    if out.exists() and file.exists() and out.samefile(file):
        raise UsageError(f"--out {out} is the file with the new rows; give another")
    fitted = load(pipeline, pick_device(device), tuple(plugin or ()))
    frame, notes = read_rows(file, fitted.reading)
    try:
        notes += fitted.surprises(frame)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None
    for note in notes:
        _say(f"note: {note}")
    _write(fitted.predict(frame), out)
    print(f"{out}: {len(frame):,} rows")


def _write(frame: pd.DataFrame, out: Path) -> None:
    if out.suffix == ".parquet":
        frame.to_parquet(out, index=False)
    else:
        frame.to_csv(out, index=False)
