"""PTaRL: prototype-based tabular representation learning via space calibration (Ye et al., ICLR 2024).

Paper: https://arxiv.org/abs/2407.05364, https://openreview.net/forum?id=G32oY4Vnm8
Authors' code: https://github.com/HangtingYe/PTaRL, commit c3fa26e. Read, not copied.

A supervised scheme in two stages. The first trains a network on the labels and clusters its hidden vectors into K
prototypes. The second starts the network afresh, represents each row as a convex combination of the prototypes, and
trains all of it, prototypes included, by the task's loss and three regularisers.

Shapes: ``n`` rows, ``D`` hidden units, ``K`` prototypes ``B (K, D)``, coordinates ``r (n, K)`` that sum to 1.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import nn

from tabbench import Context, DownstreamModel, Features, JointMethod, Labelled, PluginError, Representation, Table, Task
from tabbench.nn import (
    MLP,
    Batch,
    FeatureEncoder,
    FlatColumns,
    Inputs,
    InputShape,
    NetworkEncoder,
    Objective,
    Pretext,
    Terms,
    choose_batch_size,
    forward_all,
    make_optimizer,
    seeded,
    train_pretext,
)
from tabbench_ptarl.config import PTaRLConfig, PTaRLRepresentationConfig

MIN_BATCH = 2
"""BatchNorm, which a backbone may have, cannot train on one row."""
MAX_BATCH = 128
"""The paper's batch; small tables get smaller ones, because they need steps too."""
KMEANS_STARTS = 4
AT_ONE_POINT = 1e-3
"""Mean distance of coordinates below which all rows are at one point; their largest distance is 2.

For some initialisations the projection term draws every row to the same prototype before the task's loss can tell rows
apart. The diversity term does not prevent it: without distances it is 0. Predictions from one point are constant.
"""
JUDGED_ROWS = 1024
"""Training rows on which that is measured."""
PREDICT_BATCH = 1024


class PTaRL(JointMethod):
    """PTaRL on the backbone of the downstream model: what both papers report as "model + PTaRL"."""

    Config = PTaRLConfig
    gives = "predictions"

    def fit(
        self,
        train: Labelled,
        validation: Labelled,
        task: Task,
        context: Context,
        model: DownstreamModel | None = None,
    ) -> None:
        """Train a new backbone of ``model`` in each stage; validation labels only decide when to stop."""
        if model is None:
            raise PluginError("ptarl trains the backbone of a downstream model, so it needs one")
        config: PTaRLConfig = self.config
        self.device, self.memory = context.device, context.memory
        self.inputs = Inputs(config.scaling).fit(train.features)
        self.objective = Objective(task, train.y)

        def split(part: Labelled) -> Part:
            rows = self.inputs.load(part.features, context.device, context.memory)
            return Part(len(rows), rows.batch, self.objective.targets(part.y, context.device))

        def make_space(context: Context) -> PrototypeSpace:
            backbone = model.make_backbone(train.features, context)
            with seeded(context.seed("coordinates")):
                return PrototypeSpace(backbone, count_columns(train.features), config).to(context.device)

        about_model = (type(model).__name__, model.config)
        identity = (config, train.features, train.y, validation.features, validation.y, *about_model)
        stages = Stages(make_space, split(train), split(validation), self.objective, config, identity)
        self.network, self.diagnostics = stages.run(context)

    def predict(self, features: Features) -> NDArray[np.float32]:
        rows = self.inputs.load(features, self.device, self.memory)
        return self.objective.predictions(forward_all(self.network, rows, PREDICT_BATCH))


class PTaRLRepresentation(NetworkEncoder, JointMethod):
    """PTaRL with an MLP backbone, frozen after both stages. The representation is flat: ``(n, D)`` or ``(n, K)``."""

    Config = PTaRLRepresentationConfig
    gives = "representation"
    network: "PrototypeSpace"

    def make_inputs(self) -> FeatureEncoder:
        return FeatureEncoder(self.schema, self.config.scaling, "ordinal")

    def make_network(self) -> "PrototypeSpace":
        backbone = EmbeddingMLP(self.inputs.n_numeric, self.schema.cardinalities, self.config)
        return PrototypeSpace(backbone, self.schema.n_features, self.config)

    def embed(self, matrix: torch.Tensor) -> torch.Tensor:
        projected: Projected = self.network(matrix)
        if self.config.export == "h":
            return projected.hidden
        return projected.coordinates if self.config.export == "r" else projected.combined

    def fit(
        self,
        train: Labelled,
        validation: Labelled,
        task: Task,
        context: Context,
        model: DownstreamModel | None = None,
    ) -> None:
        """Train both stages; validation labels only decide when to stop."""
        assert isinstance(train.features, Table)
        self.initialise(train.features, context)
        objective = Objective(task, train.y)

        def split(part: Labelled) -> Part:
            assert isinstance(part.features, Table)
            matrix = self.inputs.matrix(part.features, self.device)
            return Part(len(matrix), matrix.__getitem__, objective.targets(part.y, self.device))

        def make_space(context: Context) -> PrototypeSpace:
            with seeded(context.seed("init")):
                return self.make_network().to(context.device)

        identity = (self.config, train.features, train.y, validation.features, validation.y)
        stages = Stages(make_space, split(train), split(validation), objective, self.config, identity)
        network, self.diagnostics = stages.run(context)
        self.network = network.space


def count_columns(features: Features) -> int:
    """Original columns of a table, tokens or columns of a representation."""
    return int(features.array.shape[1]) if isinstance(features, Representation) else features.n_features


def count_prototypes(n_columns: int, wanted: int | None) -> int:
    """K: the logarithm of the number of columns, rounded up, and at least two."""
    return wanted or max(math.ceil(math.log2(n_columns)), 2)


@dataclass(frozen=True)
class Part:
    """Rows of training or validation, with their labels."""

    n_rows: int
    batch: Callable[[torch.Tensor], Any]
    """What the backbone takes, for rows given by their indices."""
    target: torch.Tensor


# The three terms besides the task's loss.


def projection_loss(
    hidden: torch.Tensor, coordinates: torch.Tensor, prototypes: torch.Tensor, *, released: bool = False
) -> torch.Tensor:
    """Optimal transport from each hidden vector to the prototypes, weighted by its coordinates.

    From a single point, the plan is the coordinates themselves; the cost is 1 - cosine. The released code adds the
    similarity instead of the distance to the loss, which drives coordinates to the least similar prototypes.
    """
    cosine = F.normalize(hidden, dim=1) @ F.normalize(prototypes, dim=1).T
    return (coordinates * (cosine if released else 1 - cosine)).sum(dim=1).mean()


def diversity_loss(coordinates: torch.Tensor, classes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Share of the coordinates' pairwise distances that lies within classes, and the mean distance.

    The share is also 0 if all coordinates are equal: only with the mean distance does it say anything.
    """
    distances = torch.cdist(coordinates, coordinates, p=1)
    same = classes[:, None] == classes[None]
    return (distances * same).sum() / (distances.sum() + 1e-8), distances.mean().detach()


def orthogonality_loss(prototypes: torch.Tensor, *, released: bool = False) -> torch.Tensor:
    """Sparsity of the matrix of absolute cosines, and its excess over that of orthogonal prototypes."""
    unit = F.normalize(prototypes, dim=1)
    cosines = (unit @ unit.T).abs()
    excess = cosines.sum() - len(prototypes)
    return cosines.sum() / cosines.square().sum() + (0.5 * excess.abs() if released else excess.clamp_min(0))


def classes_of(target: torch.Tensor, task: Task) -> torch.Tensor:
    """Labels as classes; numbers fall into bins of equal width within the batch, as many as Sturges' rule gives."""
    if not task.is_regression:
        return target
    n_bins = 1 + math.floor(math.log2(len(target)))
    low, high = target.aminmax()
    width = (high - low).clamp_min(1e-12) / n_bins  # all numbers may be equal
    return ((target - low) / width).floor().clamp_max(n_bins - 1)


# The network.


class EmbeddingMLP(nn.Module):
    """The released backbone: numbers and embedded categories through layers of Linear, ReLU and dropout.

    It takes rows of ``FeatureEncoder.matrix``: numbers first, then category codes.
    """

    def __init__(self, n_numeric: int, cardinalities: tuple[int, ...], config: PTaRLRepresentationConfig) -> None:
        super().__init__()
        self.n_numeric = n_numeric
        self.columns = FlatColumns(InputShape(n_numeric, cardinalities), d_embedding=config.d_embedding)
        self.layers = MLP(self.columns.out_features, [config.width] * config.layers, dropout=config.dropout)
        self.out_features = self.layers.out_features

    def forward(self, matrix: torch.Tensor) -> torch.Tensor:
        batch = Batch(matrix[:, : self.n_numeric], matrix[:, self.n_numeric :].long())
        hidden: torch.Tensor = self.layers(self.columns(batch))
        return hidden


class Projected(NamedTuple):
    """A batch in the space of prototypes."""

    hidden: torch.Tensor
    """(n, D), by the backbone"""
    coordinates: torch.Tensor
    """(n, K)"""
    combined: torch.Tensor
    """(n, D), the combination of prototypes by the coordinates"""


class PrototypeSpace(nn.Module):
    """Backbone, network of coordinates, and prototypes (zero until they are set)."""

    def __init__(self, backbone: nn.Module, n_columns: int, config: PTaRLConfig) -> None:
        super().__init__()
        self.backbone = backbone
        self.n_hidden: int = backbone.out_features  # type: ignore[assignment]
        n_prototypes = count_prototypes(n_columns, config.n_prototypes)
        self.coordinates = MLP(
            self.n_hidden,
            [config.projector_width] * config.projector_layers,
            n_prototypes,
            activation=nn.GELU,
            dropout=config.projector_dropout,
        )
        self.prototypes = nn.Parameter(torch.zeros(n_prototypes, self.n_hidden))

    def forward(self, batch: Any) -> Projected:
        hidden = self.backbone(batch)
        coordinates = self.coordinates(hidden).softmax(dim=1)
        return Projected(hidden, coordinates, coordinates @ self.prototypes)


class PrototypeNetwork(nn.Module):
    """The space of prototypes with a linear head."""

    def __init__(self, space: PrototypeSpace, n_outputs: int, config: PTaRLConfig) -> None:
        super().__init__()
        self.space = space
        self.head = nn.Linear(space.n_hidden, n_outputs)
        self.from_hidden = config.head_input == "hidden"

    def predict(self, projected: Projected) -> torch.Tensor:
        """Outputs for a batch in the space of prototypes."""
        outputs: torch.Tensor = self.head(projected.hidden if self.from_hidden else projected.combined)
        return outputs

    def forward(self, batch: Any) -> torch.Tensor:
        return self.predict(self.space(batch))


# The two stages.


@dataclass(frozen=True)
class Stages:
    """Training in two stages; ``make_space`` gives a new untrained network, seeded by its context."""

    make_space: Callable[[Context], PrototypeSpace]
    train: Part
    validation: Part
    objective: Objective
    config: PTaRLConfig
    identity: tuple[Any, ...]
    """What decides how the training goes."""

    def run(self, context: Context) -> tuple[PrototypeNetwork, dict[str, Any]]:
        """Both stages, and what they had to say."""
        prototypes, first = self.find_prototypes(self._context(context, 1), "1")
        for restarts in range(self.config.restarts + 1):
            network, second = self.calibrate(prototypes, self._context(context, 2, restarts), f"2-{restarts}")
            collapsed = self.config.head_input == "pspace" and second["kept_coordinate_distance"] < AT_ONE_POINT
            if not collapsed:
                break
        about = {
            "prototypes": len(prototypes),
            "head_input": self.config.head_input,
            "epochs": max(first["epochs"], second["epochs"]),
            "restarts": restarts,
            "collapsed": collapsed,
            "flags": ["collapsed embedding"] if collapsed else [],
        }
        return network, {**about, "stage1": first, "stage2": second}

    def _context(self, context: Context, stage: int, restarts: int = 0) -> Context:
        """The context of one stage: seeds of its own, and progress over both."""

        def report(step: int, total: int, metrics: dict[str, float]) -> None:
            if context.on_report is not None:
                context.on_report((stage - 1) * total + step, 2 * total, metrics)

        return replace(context, root_seed=context.seed(f"stage {stage}/{restarts}"), on_report=report)

    def find_prototypes(self, context: Context, stage: str) -> tuple[torch.Tensor, dict[str, Any]]:
        """Stage 1: train backbone and head on the labels; the prototypes are cluster centres of hidden vectors."""
        space = self.make_space(context)
        with seeded(context.seed("head")):
            head = nn.Linear(space.n_hidden, self.objective.task.n_outputs).to(context.device)
        network = nn.Sequential(space.backbone, head)

        def loss(rows: torch.Tensor) -> Terms:
            return {"loss": self.objective.loss(network(self.train.batch(rows)), self.train.target[rows])}

        diagnostics = self._fit(network, loss, context, stage)
        with torch.no_grad():
            parts = torch.split(torch.arange(self.train.n_rows, device=context.device), PREDICT_BATCH)
            hidden = torch.cat([space.backbone(self.train.batch(rows)) for rows in parts])
        return cluster_centres(hidden, len(space.prototypes), context), diagnostics

    def calibrate(
        self, prototypes: torch.Tensor, context: Context, stage: str
    ) -> tuple[PrototypeNetwork, dict[str, Any]]:
        """Stage 2: start afresh, and train in the space of the prototypes."""
        space = self.make_space(context)
        with torch.no_grad():
            space.prototypes.copy_(prototypes)
        with seeded(context.seed("head")):
            network = PrototypeNetwork(space, self.objective.task.n_outputs, self.config).to(context.device)
        generator = context.generator("pairs")

        def loss(rows: torch.Tensor) -> Terms:
            projected, target = space(self.train.batch(rows)), self.train.target[rows]
            half = torch.randperm(len(rows), generator=generator, device=generator.device)[: max(len(rows) // 2, 1)]
            terms = self.terms(projected, space.prototypes, classes_of(target, self.objective.task), half)
            return self.total({"task": self.objective.loss(network.predict(projected), target), **terms})

        diagnostics = self._fit(network, loss, context, stage, generator)
        return network, {**diagnostics, "kept_coordinate_distance": self.coordinate_distance(space)}

    @torch.no_grad()
    def coordinate_distance(self, space: PrototypeSpace) -> float:
        """The mean distance between coordinates of training rows by the weights that were kept.

        Those of the last epoch may have collapsed, or not, since the best one.
        """
        space.eval()
        rows = torch.arange(self.train.n_rows, device=space.prototypes.device)
        spread = rows[:: max(self.train.n_rows // JUDGED_ROWS, 1)][:JUDGED_ROWS]  # the table may be sorted
        coordinates = space(self.train.batch(spread)).coordinates
        return float(torch.cdist(coordinates, coordinates, p=1).mean())

    def terms(
        self, projected: Projected, prototypes: torch.Tensor, classes: torch.Tensor, half: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """The regularisers; ``half`` are the rows of the batch that the diversity term compares."""
        hidden, coordinates, _ = projected
        released = self.config.released_losses
        diversity, distance = diversity_loss(coordinates[half], classes[half])
        return {
            "projection": projection_loss(hidden, coordinates, prototypes, released=released),
            "diversity": diversity,
            "orthogonality": orthogonality_loss(prototypes, released=released),
            "coordinate_distance": distance,
        }

    def total(self, terms: dict[str, torch.Tensor]) -> Terms:
        """The terms with their weighted sum."""
        total = (
            terms["task"]
            + self.config.w_proj * terms["projection"]
            + self.config.w_div * terms["diversity"]
            + self.config.w_orth * terms["orthogonality"]
        )
        return {"loss": total, **terms}

    def _fit(
        self,
        network: nn.Module,
        loss: Callable[[torch.Tensor], Terms],
        context: Context,
        stage: str,
        *generators: torch.Generator,
    ) -> dict[str, Any]:
        """AdamW with early stopping on the validation metric: error rate, or squared error."""

        def error(rows: torch.Tensor) -> Terms:
            output, target = network(self.validation.batch(rows)), self.validation.target[rows]
            loss = self.objective.loss(output, target)
            if self.objective.task.is_regression:
                return {"loss": loss, "score": -loss}
            # Among equal error rates the loss decides: at first predictions are constant while the loss falls.
            accuracy = self.objective.score(output, target)
            return {
                "loss": torch.tensor(1 - accuracy + 1e-6 * float(loss), dtype=torch.float64),
                "score": torch.tensor(accuracy, dtype=torch.float64),
            }

        config = self.config
        return train_pretext(
            network,
            make_optimizer(network, config),
            Pretext(self.train.n_rows, loss),
            context,
            epochs=config.epochs,
            batch_size=config.batch_size or min(choose_batch_size("auto", self.train.n_rows), MAX_BATCH),
            identity=self.identity,
            generators=generators,
            min_rows=MIN_BATCH,
            select_untrained=False,
            stage=stage,
            validation=Pretext(self.validation.n_rows, error),
            patience=config.patience,
        )


def cluster_centres(hidden: torch.Tensor, n_clusters: int, context: Context) -> torch.Tensor:
    """K-Means centres ``(K, D)`` of hidden vectors.

    Hidden vectors may have collapsed (dead units), or be fewer than K. What is missing, is zero or comes twice is
    drawn at random on their scale: two equal prototypes would stay equal.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    vectors = hidden.float().cpu().numpy()
    kmeans = KMeans(min(n_clusters, len(vectors)), n_init=KMEANS_STARTS, random_state=context.seed("kmeans") % 2**32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct vectors than clusters
        found = torch.from_numpy(kmeans.fit(vectors).cluster_centers_.astype(np.float32))
    scale = float(vectors.std()) or 1.0
    generator = context.generator("prototypes", "cpu")
    centres = scale * torch.randn(n_clusters, vectors.shape[1], generator=generator)
    kept: list[torch.Tensor] = []
    for centre in found:
        others = torch.stack([torch.zeros_like(centre), *kept])
        if (others - centre).norm(dim=1).min() > 1e-6 * scale:
            kept.append(centre)
    if kept:
        centres[: len(kept)] = torch.stack(kept)
    return centres.to(hidden.device)
