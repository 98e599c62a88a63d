"""``tabbench embed``: a representation of your own rows, outside any benchmark."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabbench.cli.options import PluginFiles, split_names
from tabbench.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from tabbench.data.reading import Reading

WRITERS = (".parquet", ".csv", ".npy")


def embed(
    file: Annotated[
        str, typer.Argument(help="CSV, TSV, parquet, Excel or Feather; FILE:TARGET drops the target column.")
    ],
    ssl: Annotated[str, typer.Option(metavar="NAME", help="SSL method; see: tabbench list ssl.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Output file: .parquet, .csv, or .npy (keeps tokens).")],
    encoder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Stored encoder to use instead of pretraining on FILE.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder to save the encoder in.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME.KEY=VALUE", help="A setting of the method; can be repeated."),
    ] = None,
    categorical: Annotated[str | None, typer.Option(metavar="A,B", help="Columns to treat as categories.")] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the initialisation.")] = 0,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps.")] = "auto",
    plugin: PluginFiles = None,
) -> None:
    """Pretrain a method on all rows of a file, or load a stored encoder, and write the rows' representation.

    A benchmark's encoders are in RESULTS/artefacts/pretrain; --encoder takes any folder there.
    """
    from tabbench.experiment.controls import NONE, UNTRAINED
    from tabbench.experiment.settings import check_settings, choose
    from tabbench.experiment.spec import make_spec, parse_settings
    from tabbench.registry import make_registry

    # Training can take hours, so anything that would fail afterwards is reported before.
    if out.suffix not in WRITERS:
        raise UsageError(f"--out {out}: its name must end in {', '.join(WRITERS)}")
    _check_writable("--out", out.parent)
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder; give a file")
    if save is not None:
        _check_writable("--save", save)
    if encoder is not None and (settings or categorical or seed):
        option = "--set" if settings else "--categorical" if categorical else "--seed"
        raise UsageError(f"{option} is for pretraining; the encoder in {encoder} has the settings it was trained with")
    registry = make_registry(plugin or [])
    if ssl.lower().partition(":")[0] in (NONE, UNTRAINED):
        raise UsageError(f"--ssl {ssl}: a control has no encoder to train; choose a method from tabbench list ssl")
    spec = make_spec({"ssl": [ssl], "model": [NONE], "set": parse_settings(settings or [])})
    choice = choose(spec, registry, "ssl", ssl, Path(file).name)  # no dataset that has a preset of its own
    check_settings(spec, registry, [choice])
    if choice.entry.plugin.uses_labels:
        raise UsageError(
            f"{choice.name!r} learns from labels, and a file to embed has none: choose a label-free method"
        )
    if encoder is not None:
        from tabbench.running.stored_encoder import check_encoder

        check_encoder(encoder, choice.entry, registry)
    from tabbench.data.reading import Reading
    from tabbench.running.embedding import load_reading, save_reading, write_representation
    from tabbench.running.resources import pick_device
    from tabbench.running.stored_encoder import load_encoder, refusing

    chosen = pick_device(device)
    if encoder is not None:
        method = load_encoder(encoder, choice.entry, registry, chosen)
        reading = load_reading(encoder, method.schema)
        frame = _read_more(file, reading)
    else:
        kinds = split_names(categorical or "")
        frame, reading = _read(file, Reading(categorical=tuple(kinds)))
        method_class = registry.load(choice.entry)
        method = method_class(method_class.Config.resolve(choice.config, choice.name))
        frame, kinds = _worth_having(frame, kinds)
        _pretrain(method, frame, seed, chosen, kinds)
    saved = ""
    try:
        if save is not None:
            method.save(save)
            save_reading(save, reading)
            saved = f"; the encoder is in {save}"
        if encoder is None:
            shape = write_representation(method, frame, out)
        else:
            with refusing(f"the encoder in {encoder} cannot encode {file}"):
                shape = write_representation(method, frame, out)
    except OSError as error:  # a full disk, say; whatever could be checked earlier was
        what = out if saved or save is None else save
        raise UsageError(f"cannot write {what} ({error.strerror}){saved}") from None
    print(f"{out}: {' x '.join(map(str, shape))}")


def _check_writable(option: str, folder: Path) -> None:
    """Refuse a folder that cannot be created or written to."""
    if option == "--out" and not folder.is_dir():
        raise UsageError(f"--out: there is no folder {folder}")
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise UsageError(f"{option} {folder}: {place} is a file, not a folder")
    if not os.access(place, os.W_OK):
        raise UsageError(f"{option} {folder}: cannot write to {place}")


def _read(reference: str, reading: "Reading") -> "tuple[pd.DataFrame, Reading]":
    """The columns of a file, without the target if there is one, and how to read more such rows."""
    from tabbench.data.files import read_features, split_reference

    path, target = split_reference(reference)
    frame, notes, found = read_features(Path(path).expanduser(), reading)
    _tell(notes)
    return _without(path, target, frame), found


def _read_more(reference: str, reading: "Reading") -> "pd.DataFrame":
    """Rows for a stored encoder."""
    from tabbench.data.files import read_rows, split_reference

    path, target = split_reference(reference)
    frame, notes = read_rows(Path(path).expanduser(), reading)
    _tell(notes)
    return _without(path, target, frame)


def _without(path: str, target: str, frame: "pd.DataFrame") -> "pd.DataFrame":
    from tabbench.frames import no_column

    if target and target not in frame.columns:
        raise DataError(f"{path}: {no_column('column', target, frame.columns)}")
    if len(frame) == 0:
        raise DataError(f"{path}: the table has columns, but no rows")
    return frame.drop(columns=target) if target else frame


def _tell(notes: list[str]) -> None:
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


def _worth_having(frame: "pd.DataFrame", categorical: list[str]) -> "tuple[pd.DataFrame, list[str]]":
    """The columns a benchmark would keep, and which of them are categorical."""
    from tabbench.data.cleaning import clean_features
    from tabbench.frames import categorical_columns, no_column

    for name in categorical:
        if name not in frame.columns:
            raise no_column("column", name, frame.columns)
    kinds = {*categorical_columns(frame), *categorical}
    columns, notes = clean_features(frame, kinds)
    _tell(notes)
    return frame[list(columns)], [name for name in columns if name in kinds]


def _pretrain(method: Any, frame: Any, seed: int, device: str, categorical: list[str]) -> None:
    from rich.console import Console
    from rich.progress import Progress

    from tabbench.context import Context
    from tabbench.contracts.job import Event
    from tabbench.running.display import describe
    from tabbench.running.resources import available_cores

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("pretraining", total=None)

        def report(step: int, total: int, metrics: dict[str, float]) -> None:
            progress.update(task, completed=step, total=total, description=describe(Event("", step, total, metrics)))

        context = Context(root_seed=seed, device=device, threads=available_cores(), on_report=report)
        method.fit(frame, context=context, categorical=categorical)
