"""How a representation develops during training: metrics by epoch, maps, and the tokens of a row.

After the T-JEPA paper, "Discussion": divergence, distance and uniformity of the embeddings of a fixed sample of
training rows, two-dimensional maps of it, the tokens of one row at critical moments of the training, and the training
loss with and without some part of the method. Nothing is stored as a result; this is for inspection only.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tabbench.context import Context
from tabbench.contracts import SSLMethod
from tabbench.data.prepare import SplitData
from tabbench.nn import mean_pairwise_distance, mean_pairwise_kl, probe_score, rank_me, uniformity
from tabbench.results.json_shapes import InspectionShape, TargetShape
from tabbench.running.features import as_table, pretraining_rows
from tabbench.running.rankings import Rankings
from tabbench.values import Table

SAMPLE = 1000
"""Training rows to watch; the metrics use all pairs of them."""
DRAWN = 400
"""Rows on a map."""
TOKENS, WIDTH = 40, 64
"""How many features and dimensions of a row's tokens are kept."""
METRICS = ("kl", "distance", "uniformity", "rank_me", "probe")


@dataclass(frozen=True)
class Snapshot:
    """The representation of the sample after an epoch; 0 is the untrained encoder."""

    epoch: int
    kl: float
    distance: float
    uniformity: float
    rank_me: float
    """How many directions are used."""
    probe: float
    """Linear probe on validation: accuracy, or minus the RMSE in standard deviations of the target."""
    map: NDArray[np.float32]
    """(rows, 2): the first two principal components."""
    tokens: NDArray[np.float32] | None
    """(features, dimensions) of the first row; None if the method gives no tokens."""


@dataclass(frozen=True)
class Inspection:
    """What was seen of a method on a dataset."""

    ssl: str
    data: str
    snapshots: list[Snapshot]
    training: dict[str, list[float | None]]
    """Curves reported by the training itself, by epoch."""
    target: TargetShape
    rankings: Rankings | None = None
    ablation: dict[str, Inspection] = field(default_factory=dict)
    """The same method with another setting, by its name."""
    source: str = ""
    """Where the encoder comes from, if it was not trained for this."""

    def to_json(self) -> InspectionShape:
        """Return the data that the page draws."""
        snapshots = self.snapshots
        value: InspectionShape = {
            "ssl": self.ssl,
            "data": self.data,
            "source": self.source,
            "metrics": {
                "epoch": [each.epoch for each in snapshots],
                **{name: [_short(getattr(each, name)) for each in snapshots] for name in METRICS},
            },
            "training": self.training,
            "ablation": {name: _part(other.to_json()) for name, other in self.ablation.items()},
            "maps": [{"epoch": each.epoch, "points": _numbers(each.map[:DRAWN])} for each in snapshots],
            "target": self.target,
        }
        if snapshots[0].tokens is not None:
            names = self.rankings.names if self.rankings else [str(j) for j in range(len(snapshots[0].tokens))]
            frames = [_numbers(each.tokens[:TOKENS, :WIDTH]) for each in snapshots if each.tokens is not None]
            value["tokens"] = {"names": list(names[:TOKENS]), "frames": frames}
        if self.rankings is not None:
            measures = self.rankings.scores
            value["kendall"] = {"names": list(measures), "values": _numbers(self.rankings.tau)}
            value["features"] = {
                "names": list(self.rankings.names),
                "scores": {name: [_short(score) for score in scores] for name, scores in measures.items()},
            }
        return value


def _part(value: InspectionShape) -> dict[str, object]:
    return {**value["metrics"], "training": value["training"]}


def _short(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None


def _numbers(array: NDArray[Any]) -> list[list[float | None]]:
    return [[_short(value) for value in line] for line in array.tolist()]


def inspect_training(
    method: SSLMethod, split: SplitData, context: Context, n_snapshots: int, tell: Callable[[Snapshot], None]
) -> tuple[list[Snapshot], dict[str, list[float | None]]]:
    """Pretrain ``method`` and inspect it before the first epoch and then about ``n_snapshots`` times.

    Returns:
        the snapshots, and the curves of the training.
    """
    train = as_table(split.train.features)
    sample = _sample(train, context)
    snapshots: list[Snapshot] = []

    def look(learner: SSLMethod, epoch: int) -> None:
        snapshots.append(take_snapshot(learner, sample, split, epoch, snapshots[-1] if snapshots else None))
        tell(snapshots[-1])

    def watch(epoch: int, total: int, metrics: dict[str, float]) -> None:
        wanted = np.unique(np.linspace(1, total, min(n_snapshots, total)).round().astype(int))
        if epoch in wanted:
            look(method, epoch)

    rows = pretraining_rows(split)
    look(_initialised(method, rows, context), 0)
    validation = as_table(split.validation.features)
    method.pretrain(rows, replace(context, validation=validation, on_report=watch))
    return snapshots, curves_of(method.diagnostics)


def inspect_stored(
    method: SSLMethod, split: SplitData, context: Context, tell: Callable[[Snapshot], None]
) -> tuple[list[Snapshot], dict[str, list[float | None]]]:
    """Inspect a stored encoder and the same one untrained, without training.

    There is one snapshot if they are the same: no epoch beat the untrained encoder, so that was kept.
    """
    train = as_table(split.train.features)
    sample = _sample(train, context)
    before = take_snapshot(_initialised(method, pretraining_rows(split), context), sample, split, 0)
    tell(before)
    kept = method.diagnostics.get("best_epoch")
    if kept == 0:
        return [before], curves_of(method.diagnostics)
    epochs = int(kept or method.diagnostics.get("epochs") or 1)
    after = take_snapshot(method, sample, split, epochs, before)
    tell(after)
    return [before, after], curves_of(method.diagnostics)


def curves_of(diagnostics: Mapping[str, Any]) -> dict[str, list[float | None]]:
    """Lists of numbers, one per epoch."""
    found = {}
    for name, values in diagnostics.items():
        if isinstance(values, list) and len(values) > 1 and all(_is_number(each) for each in values):
            found[name] = [_short(float(each)) for each in values]
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def describe_target(split: SplitData, context: Context, name: str) -> TargetShape:
    """The target of the rows on a map: classes by number, or numbers as shares of their range."""
    train = as_table(split.train.features)
    y = split.train.y[_chosen(len(train), context)][:DRAWN]
    if not split.task.is_regression:
        return {"kind": "class", "name": name, "values": [int(each) for each in y], "names": list(split.class_names)}
    values = y.astype(np.float64) * split.target_std + split.target_mean
    low, high = np.quantile(values, [0.02, 0.98])
    shares = np.clip((values - low) / (high - low or 1.0), 0, 1)
    return {"kind": "number", "name": name, "low": _short(low), "high": _short(high),
            "values": [round(float(each), 3) for each in shares]}  # fmt: skip


def take_snapshot(
    method: SSLMethod, sample: Table, split: SplitData, epoch: int, before: Snapshot | None = None
) -> Snapshot:
    """Inspect the current encoder; the map is rotated to match the one ``before``."""
    embeddings = torch.from_numpy(np.array(method.encode(sample).array))
    flat = embeddings.flatten(1).double()
    centred = flat - flat.mean(0)
    _, _, axes = torch.linalg.svd(centred, full_matrices=False)
    coordinates = centred @ axes[:2].t()
    if coordinates.shape[1] < 2:
        coordinates = torch.nn.functional.pad(coordinates, (0, 2 - coordinates.shape[1]))
    train, validation = as_table(split.train.features), as_table(split.validation.features)
    chosen = np.unique(np.linspace(0, len(train) - 1, min(len(train), 10 * SAMPLE)).astype(int))
    probe = probe_score(
        method.encode(train.take(chosen)).array,
        split.train.y[chosen],
        method.encode(validation).array,
        split.validation.y,
        split.task,
    )
    return Snapshot(
        epoch,
        mean_pairwise_kl(embeddings),
        mean_pairwise_distance(embeddings),
        uniformity(embeddings),
        rank_me(embeddings),
        probe,
        turned(coordinates, before).float().numpy(),
        embeddings[0].float().numpy() if embeddings.ndim == 3 else None,
    )


def turned(coordinates: torch.Tensor, before: Snapshot | None) -> torch.Tensor:
    """A map rotated and mirrored to match the one before: the sign of principal components is arbitrary."""
    if before is None:
        return coordinates
    u, _, v = torch.linalg.svd(coordinates.t() @ torch.from_numpy(before.map).double())
    found: torch.Tensor = coordinates @ (u @ v)
    return found


def _initialised(method: SSLMethod, train: Table, context: Context) -> SSLMethod:
    untrained = copy.deepcopy(method)
    untrained.initialise(train, context)
    return untrained


def _chosen(n_rows: int, context: Context) -> NDArray[np.intp]:
    generator = np.random.default_rng(context.seed("inspected rows"))
    return generator.permutation(n_rows)[:SAMPLE]


def _sample(train: Table, context: Context) -> Table:
    return train.take(_chosen(len(train), context))
