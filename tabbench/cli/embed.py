"""``tabbench embed``: a representation of one's own rows, outside any benchmark."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tabbench.cli.options import PluginFiles, split_names
from tabbench.errors import DataError, UsageError

WRITERS = (".parquet", ".csv", ".npy")


def embed(
    file: Annotated[str, typer.Argument(help="CSV, TSV or parquet; FILE:TARGET leaves a target column out.")],
    ssl: Annotated[str, typer.Option(metavar="NAME", help="SSL method; see: tabbench list ssl.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write: .parquet, .csv, or .npy (keeps tokens).")],
    encoder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A stored encoder to use, instead of pretraining on FILE.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to keep the encoder.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME.KEY=VALUE", help="A setting of the method; can be repeated."),
    ] = None,
    categorical: Annotated[str | None, typer.Option(metavar="A,B", help="Columns to take as categories.")] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the initialisation.")] = 0,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps.")] = "auto",
    plugin: PluginFiles = None,
) -> None:
    """Pretrain a method on all rows of a file, or take a stored encoder, and write the representation of its rows.

    Encoders of a benchmark are in RESULTS/artefacts/pretrain; each folder is one that --encoder takes.
    """
    from tabbench.plan import choose
    from tabbench.registry import make_registry
    from tabbench.spec import make_spec, parse_setting

    if out.suffix not in WRITERS:
        raise UsageError(f"--out {out}: its name must end in {', '.join(WRITERS)}")
    registry = make_registry(plugin or [])
    given: dict[str, dict[str, Any]] = {}
    for text in settings or []:
        name, key, value = parse_setting(text)
        given.setdefault(name, {})[key] = value
    choice = choose(make_spec({"ssl": [ssl], "model": ["none"], "set": given}), registry, "ssl", ssl)
    if choice.entry.plugin.uses_labels:
        raise UsageError(
            f"{choice.name!r} learns with labels, and a file to embed has none: choose a label-free method"
        )
    frame = _read(file)
    from tabbench.resources import pick_device

    chosen = pick_device(device)
    method_class = registry.load(choice.entry)
    if encoder is not None:
        if not (encoder / "method.json").is_file():
            raise UsageError(f"--encoder {encoder}: there is no stored encoder in this folder")
        method = method_class.load(encoder, chosen)
    else:
        method = method_class(method_class.Config.resolve(choice.config, choice.name))
        _pretrain(method, frame, seed, chosen, split_names(categorical) if categorical else None)
    if save is not None:
        method.save(save)
    _write(method, frame, out)


def _read(reference: str) -> Any:
    """The columns of a file, without the target if one is named."""
    from tabbench.data.files import is_file_name, read_table

    path, _, target = reference.rpartition(":")
    if not path or is_file_name(reference):
        path, target = reference, ""
    frame = read_table(Path(path))
    if target and target not in frame.columns:
        raise DataError(f"{path} has no column {target!r}")
    return frame.drop(columns=target) if target else frame


def _pretrain(method: Any, frame: Any, seed: int, device: str, categorical: list[str] | None) -> None:
    from rich.console import Console
    from rich.progress import Progress

    from tabbench.cli.display import describe
    from tabbench.context import Context
    from tabbench.job import Event
    from tabbench.resources import available_cores

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("pretraining", total=None)

        def report(step: int, total: int, metrics: dict[str, float]) -> None:
            progress.update(task, completed=step, total=total, description=describe(Event("", step, total, metrics)))

        context = Context(root_seed=seed, device=device, threads=available_cores(), on_report=report)
        method.fit(frame, context=context, categorical=categorical)


def _write(method: Any, frame: Any, out: Path) -> None:
    import numpy as np
    import pandas as pd

    from tabbench.data.tables import to_table

    array = method.encode(to_table(frame, method.schema)).array
    if out.suffix == ".npy":
        np.save(out, array, allow_pickle=False)
    else:
        flat = array.reshape(len(array), -1)
        columns = pd.DataFrame(flat, columns=[f"z{number}" for number in range(flat.shape[1])])
        if out.suffix == ".parquet":
            columns.to_parquet(out, index=False)
        else:
            columns.to_csv(out, index=False)
    shape = " x ".join(str(size) for size in array.shape)
    print(f"{out}: {shape}")
