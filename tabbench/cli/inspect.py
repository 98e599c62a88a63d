"""``tabbench inspect``: how a method's representation develops on a dataset, as numbers and a page."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tabbench.cli.options import PluginFiles
from tabbench.errors import UsageError

if TYPE_CHECKING:
    from tabbench.context import Context
    from tabbench.contracts import SSLMethod
    from tabbench.data.cache import Manifest
    from tabbench.data.prepare import SplitData
    from tabbench.experiment.settings import Configured
    from tabbench.registry import Registry
    from tabbench.running.inspection import Inspection, Snapshot
    from tabbench.running.rankings import Rankings

SHOWN = 10
"""Number of features printed; the page has all of them."""


def inspect(
    ssl: Annotated[str, typer.Option(metavar="NAME", help="A label-free SSL method; see: tabbench list ssl.")],
    data: Annotated[str, typer.Option(metavar="NAME", help="A dataset, or FILE:TARGET.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the page.")] = Path("inspect.html"),
    snapshots: Annotated[int, typer.Option(min=1, metavar="N", help="Snapshots during training.")] = 8,
    rows: Annotated[int | None, typer.Option(min=10, metavar="N", help="Use only N rows of the dataset.")] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the split and the initialisation.")] = 0,
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="quick, standard or paper.", show_default="quick for demo, else standard"),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME.KEY=VALUE", help="A setting; can be repeated.")
    ] = None,
    ablate: Annotated[
        str | None,
        typer.Option(metavar="KEY=A,B", help="Also train with each of these values and plot them together."),
    ] = None,
    encoder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Inspect a stored encoder without training.")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Use the encoder from these results if stored; keep the inspection there."),
    ] = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps.")] = "auto",
    offline: Annotated[bool, typer.Option("--offline", help="Do not use the network.")] = False,
    plugin: PluginFiles = None,
) -> None:
    """Pretrain a method on a dataset and inspect its representation: metrics by epoch, maps, tokens, features.

    Metrics are those of the T-JEPA paper, over all pairs of up to 1,000 training rows: mean KL divergence of softmaxed
    embeddings, mean distance, uniformity; the effective rank; and a linear probe on validation.
    """
    from tabbench.registry import make_registry
    from tabbench.results.writing import check_place, write_file

    check_place(out)
    if encoder is not None and (ablate is not None or settings or preset):
        raise UsageError("--encoder inspects a stored encoder: leave out --ablate, --set and --preset")
    registry = make_registry(plugin or [])
    entry = registry.find("ssl", ssl)
    if entry.plugin.uses_labels or not entry.plugin.untrained:
        raise UsageError(f"{entry.name!r} cannot be inspected: choose a label-free method that has an encoder")
    given = ablation_settings(entry.name, settings or [], ablate)
    manifest = _find_data(registry, data, offline)
    choices = {name: _choose(registry, ssl, data, manifest.name, preset, texts) for name, texts in given.items()}

    from tabbench.context import Context
    from tabbench.data.prepare import open_split
    from tabbench.running.resources import available_cores, pick_device

    split = open_split(manifest, seed, rows)
    context = Context(root_seed=seed, device=pick_device(device), threads=available_cores())
    if encoder is None and results is not None and ablate is None and not settings and rows is None:
        encoder = stored_encoder(results, next(iter(choices.values())), manifest, seed, exact=preset is not None)
    look = partial(_inspect, registry, manifest, split, context, snapshots, encoder)
    made = {name: look(choice, name) for name, choice in choices.items()}
    (title, first), *others = made.items()
    one = replace(first, ssl=title, ablation=dict(others)) if others else first
    if one.rankings is not None:
        print_features(one.rankings)

    from tabbench.results.page.inspection import keep_inspection, make_inspection_page

    write_file(out, make_inspection_page(one.to_json()))
    if results is not None:
        from tabbench.results.store import Store

        keep_inspection(Store(results), one.to_json())
    print(f"{out}: curves, {len(one.snapshots)} maps" + (", features" if one.rankings is not None else ""))


def ablation_settings(ssl: str, settings: list[str], ablate: str | None) -> dict[str, list[str]]:
    """The settings of each training, by its title on the page."""
    if ablate is None:
        return {ssl: settings}
    key, sign, values = ablate.partition("=")
    words = [value.strip() for value in values.split(",") if value.strip()]
    if not sign or not key.strip() or not words:
        raise UsageError(f"--ablate {ablate!r}: write KEY=VALUE,VALUE, for example n_reg=0,1")
    name = key.strip() if "." in key else f"{ssl}.{key.strip()}"
    return {f"{ssl}, {key.strip()}={word}": [*settings, f"{name}={word}"] for word in words}


def _choose(
    registry: "Registry", ssl: str, data: str, name_of_data: str, preset: str | None, settings: list[str]
) -> "Configured":
    from tabbench.experiment.settings import check_settings, choose, default_preset
    from tabbench.experiment.spec import Entries, make_spec, parse_settings

    given: Entries = {"ssl": [ssl], "model": ["none"], "data": [data], "set": parse_settings(settings)}
    spec = make_spec({**given, **({"preset": preset} if preset else {})}, default_preset([data], registry))
    choice = choose(spec, registry, "ssl", ssl, name_of_data)
    check_settings(spec, registry, [choice])
    return choice


def _find_data(registry: "Registry", data: str, offline: bool) -> "Manifest":
    from tabbench.data.sources import resolve_data

    manifests = resolve_data(data, registry, offline=offline, progress=lambda line: print(line, file=sys.stderr))
    if len(manifests) != 1:
        raise UsageError(f"--data {data} is a group; pick one: {', '.join(each.name for each in manifests)}")
    return manifests[0]


def stored_encoder(
    results: Path, choice: "Configured", manifest: "Manifest", split: int, *, exact: bool = False
) -> Path | None:
    """The folder of this method's newest encoder for this content and split, if the results have one.

    Encoders of other split rules or of fewer rows were trained on rows that are for validation here. ``exact``: with
    the settings chosen, not with any.
    """
    import hashlib

    from tabbench.contracts.weighting import Weighting
    from tabbench.results.store import Store

    records = [
        record
        for record in Store(results).records()
        if record.status == "ok" and record.kind == "result" and record.hashes is not None and record.hashes.encoder
        and (record.ssl, record.split, record.hashes.data) == (choice.name, split, manifest.key)
        and (record.split_rule, record.rows_limit) == (None, None)
        and record.weights in (None, Weighting(balanced=True).name)
        and not (exact and (record.config or {}).get("ssl") != choice.config)
    ]  # fmt: skip
    wanted = {record.hashes.encoder: record.time for record in records if record.hashes is not None}
    found: dict[float, Path] = {}
    for state in sorted((results / "artefacts" / "pretrain").glob("*/state.safetensors")):
        digest = hashlib.sha256(state.read_bytes()).hexdigest()
        if digest in wanted:
            found[wanted[digest]] = state.parent
    return found[max(found)] if found else None


def _inspect(
    registry: "Registry",
    manifest: "Manifest",
    split: "SplitData",
    context: "Context",
    snapshots: int,
    encoder: Path | None,
    choice: "Configured",
    title: str,
) -> "Inspection":
    """Train or load one encoder and inspect it."""
    from tabbench.running.inspection import Inspection, describe_target, inspect_stored, inspect_training
    from tabbench.running.rankings import rank_features

    print(f"{title} on {manifest.name}" + ("" if encoder is None else f", stored in {encoder}"))
    print(f"{'epoch':>5}  {'KL':>9}  {'distance':>9}  {'uniformity':>10}  {'rank':>7}  {'probe':>8}")

    def tell(snapshot: "Snapshot") -> None:
        print(as_line(snapshot), flush=True)

    if encoder is None:
        method_class = registry.load(choice.entry)
        method = method_class(method_class.Config.resolve(choice.config, choice.name))
        method.device = context.device
        seen, curves = inspect_training(method, split, context, snapshots, tell)
    else:
        method = _load(encoder, choice, registry, split, context.device)
        seen, curves = inspect_stored(method, split, context, tell)
    rankings = rank_features(method, split, context.threads, context.root_seed)
    target = describe_target(split, context, manifest.target)
    source = "" if encoder is None else f"a stored encoder ({encoder.name[:12]}), not trained again"
    if encoder is not None and len(seen) == 1:
        kept = "no epoch of training beat the untrained encoder, so that was kept"
        print(kept)
        source += f"; {kept}"
    return Inspection(choice.name, manifest.name, seen, curves, target, rankings, source=source)


def _load(folder: Path, choice: "Configured", registry: "Registry", split: "SplitData", device: str) -> "SSLMethod":
    from tabbench.running.stored_encoder import load_encoder

    method = load_encoder(folder, choice.entry, registry, device)
    if method.schema != getattr(split.train.features, "schema", None):
        raise UsageError(
            f"{folder} was trained on different columns or categories: give its --data, and the --seed of its split"
        )
    return method


def as_line(snapshot: "Snapshot") -> str:
    return (
        f"{snapshot.epoch:>5}  {snapshot.kl:>9.4g}  {snapshot.distance:>9.4g}  {snapshot.uniformity:>10.4g}"
        f"  {snapshot.rank_me:>7.3g}  {snapshot.probe:>8.4f}"
    )


def print_features(rankings: "Rankings") -> None:
    """The features that stand out most by the encoder's own measure, next to the gain in trees."""
    first = next(iter(rankings.scores))
    own, trees = rankings.scores[first], rankings.scores["gain of trees"]
    ranked = sorted(range(len(rankings.names)), key=lambda j: -own[j])
    print(f"\n{'feature':<24} {first:>25}  {'gain of trees':>13}")
    for j in ranked[:SHOWN]:
        print(f"{rankings.names[j][:24]:<24} {own[j]:>25.4g}  {trees[j]:>13.4g}")
    place = list(rankings.scores).index("gain of trees")
    print(f"Kendall's tau of the two rankings: {rankings.tau[0, place]:.2f} (p = {rankings.p_values[0, place]:.2g})")
