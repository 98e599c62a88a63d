"""``tabbench inspect``: how a method's representation develops on a dataset, as numbers and as a page."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabbench.cli.options import PluginFiles
from tabbench.errors import UsageError

if TYPE_CHECKING:
    from tabbench.inspection import Importance, Snapshot

SHOWN = 10
"""Features that are printed; the page has all of them."""


def inspect(
    ssl: Annotated[str, typer.Option(metavar="NAME", help="A label-free SSL method; see: tabbench list ssl.")],
    data: Annotated[str, typer.Option(metavar="NAME", help="A dataset, or FILE:TARGET.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the page.")] = Path("inspect.html"),
    snapshots: Annotated[int, typer.Option(min=1, metavar="N", help="How often to look while it is trained.")] = 8,
    rows: Annotated[int | None, typer.Option(min=10, metavar="N", help="Only so many rows of the dataset.")] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of the split and the initialisation.")] = 0,
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="quick, standard or paper.", show_default="quick for demo, else standard"),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME.KEY=VALUE", help="A setting; can be repeated.")
    ] = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps.")] = "auto",
    offline: Annotated[bool, typer.Option("--offline", help="Never touch the network.")] = False,
    plugin: PluginFiles = None,
) -> None:
    """Pretrain a method on a dataset and look at its representation: metrics over epochs, maps, feature importance.

    Metrics are those of the T-JEPA paper, over all pairs of up to 1,000 training rows: mean KL divergence of softmaxed
    embeddings, mean distance, uniformity; and a linear probe on validation. Nothing is stored as a result.
    """
    from tabbench.cli.run import default_preset
    from tabbench.data.references import resolve_data
    from tabbench.page import check_place, write_page
    from tabbench.plan import check_settings, choose
    from tabbench.registry import make_registry
    from tabbench.spec import make_spec, parse_setting

    check_place(out)
    registry = make_registry(plugin or [])
    given: dict[str, Any] = {"ssl": [ssl], "model": ["none"], "data": [data], "set": {}}
    for text in settings or []:
        name, key, value = parse_setting(text)
        given["set"].setdefault(name, {})[key] = value
    spec = make_spec({**given, **({"preset": preset} if preset else {})}, default_preset(given["data"], registry))
    entry = registry.find("ssl", ssl)
    if entry.plugin.uses_labels or not entry.plugin.untrained:
        raise UsageError(f"{entry.name!r} cannot be inspected: choose a label-free method with an encoder")
    manifests = resolve_data(data, registry, offline=offline, progress=lambda line: print(line, file=sys.stderr))
    if len(manifests) != 1:
        raise UsageError(f"--data {data} is a group: name one of {', '.join(each.name for each in manifests)}")
    choice = choose(spec, registry, "ssl", ssl, manifests[0].name)
    check_settings(spec, registry, [choice])
    method_class = registry.load(entry)
    method = method_class(method_class.Config.resolve(choice.config, choice.name))

    from tabbench.context import Context
    from tabbench.data.prepare import open_split
    from tabbench.inspection import feature_importance, inspect_training
    from tabbench.resources import available_cores, pick_device

    split = open_split(manifests[0], seed, rows)
    context = Context(root_seed=seed, device=pick_device(device), threads=available_cores())
    print(f"{'epoch':>5}  {'KL':>9}  {'distance':>9}  {'uniformity':>10}  {'probe':>8}")
    found = inspect_training(method, split, context, snapshots, tell=lambda each: print(as_line(each), flush=True))
    importance = feature_importance(method, split, context.threads)
    if importance is not None:
        print_importance(importance)
    title = f"{choice.name} on {manifests[0].name}"
    write_page(out, make_inspection_page(title, found, importance))
    print(f"{out}: curves, {len(found)} maps" + (", importance of features" if importance is not None else ""))


def as_line(snapshot: "Snapshot") -> str:
    return (
        f"{snapshot.epoch:>5}  {snapshot.kl:>9.4g}  {snapshot.distance:>9.4g}  {snapshot.uniformity:>10.4g}"
        f"  {snapshot.probe:>8.4f}"
    )


def print_importance(importance: "Importance") -> None:
    ranked = sorted(range(len(importance.names)), key=lambda j: -importance.variance[j])
    print(f"\n{'feature':<24} {'embedding variance':>18}  {'gain of trees':>13}")
    for j in ranked[:SHOWN]:
        print(f"{importance.names[j][:24]:<24} {importance.variance[j]:>18.4g}  {importance.trees[j]:>13.4g}")
    print(f"Kendall's tau of the two rankings: {importance.tau:.2f} (p = {importance.p_value:.2g})")


def make_inspection_page(title: str, found: "list[Snapshot]", importance: "Importance | None") -> str:
    """The page: curves, maps, and a table of features."""
    from html import escape

    from tabbench.page import chart, document, html_table, section, wide

    epochs = [snapshot.epoch for snapshot in found]
    curves = {
        "mean pairwise KL divergence": [snapshot.kl for snapshot in found],
        "mean pairwise distance": [snapshot.distance for snapshot in found],
        "uniformity": [snapshot.uniformity for snapshot in found],
        "linear probe on validation": [snapshot.probe for snapshot in found],
    }
    charts = "".join(chart(name, values, epochs) for name, values in curves.items())
    maps = "".join(scatter(snapshot) for snapshot in found)
    parts = [
        f"<h1>{escape(title)}</h1>",
        section("Over epochs", f'<div class="charts">{charts}</div>'),
        section("Maps: the first two principal components of the same rows", f'<div class="charts">{maps}</div>'),
    ]
    if importance is not None:
        ranked = sorted(range(len(importance.names)), key=lambda j: -importance.variance[j])
        body = [[importance.names[j], f"{importance.variance[j]:.4g}", f"{importance.trees[j]:.4g}"] for j in ranked]
        note = f"Kendall's tau of the two rankings: {importance.tau:.2f} (p = {importance.p_value:.2g})."
        table = html_table(["feature", "embedding variance", "gain of trees"], body, "plain")
        parts.append(section("Features", f'<p class="notes">{escape(note)}</p>' + wide(table)))
    return document(f"tabbench inspect: {title}", "".join(parts))


def scatter(snapshot: "Snapshot", size: int = 200) -> str:
    """A map as points, scaled to its own extent: shape is what is shown."""
    low, high = snapshot.map.min(axis=0), snapshot.map.max(axis=0)
    span = (high - low).max() or 1.0
    points = (snapshot.map - (low + high) / 2) / span * (size - 12) + size / 2
    dots = "".join(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="1.4"/>' for x, y in points)
    caption = "untrained" if snapshot.epoch == 0 else f"epoch {snapshot.epoch}"
    label = f"map, {caption}"
    return (
        f'<figure><svg width="{size}" height="{size}" role="img" aria-label="{label}">{dots}</svg>'
        f"<figcaption>{caption}</figcaption></figure>"
    )
