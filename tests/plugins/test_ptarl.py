import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tabbench_ptarl.method import (
    PrototypeNetwork,
    PrototypeSpace,
    PTaRL,
    PTaRLRepresentation,
    classes_of,
    cluster_centres,
    count_prototypes,
    diversity_loss,
    orthogonality_loss,
    projection_loss,
)
from torch import nn

from tabbench import Context, DownstreamModel, Features, JointMethod, Labelled, PluginError, Schema, Table, Task
from tabbench.config import preset_settings
from tabbench.nn import MLP, Backbone, Batch, FlatColumns, InputShape, NetworkModel, train_pretext
from tabbench.running.tripwires import check_training

THREE_CLASSES = Task("multiclass", 3)
QUICK: dict[str, Any] = {
    "width": 32,
    "epochs": 3,
    "patience": None,
    "layers": 2,
    "d_embedding": 4,
    "projector_width": 32,
}


def to_table(values: NDArray[Any], codes: NDArray[np.int64] | None = None) -> Table:
    if codes is None:
        codes = np.empty((len(values), 0), dtype=np.int64)
    levels = tuple(tuple(f"l{i}" for i in range(3)) for _ in range(codes.shape[1]))
    schema = Schema(
        tuple(f"x{j}" for j in range(values.shape[1])), tuple(f"c{j}" for j in range(codes.shape[1])), levels
    )
    return Table(values.astype(np.float32), codes, schema)


def labelled(n_rows: int, seed: int) -> Labelled:
    """Three classes by a linear rule with some noise, 16 columns."""
    rng = np.random.default_rng(seed)
    rule = np.random.default_rng(99).normal(size=(16, 3))
    values = rng.normal(size=(n_rows, 16))
    return Labelled(to_table(values), (values @ rule + rng.normal(size=(n_rows, 3))).argmax(axis=1))


def table_of(part: Labelled) -> Table:
    assert isinstance(part.features, Table)
    return part.features


class TinyBackbone(Backbone):
    def __init__(self, shape: InputShape) -> None:
        super().__init__()
        self.columns = FlatColumns(shape, d_embedding=4)
        self.layers = MLP(self.columns.out_features, [24])
        self.norm = nn.BatchNorm1d(24)
        self.out_features = 24

    def forward(self, batch: Batch) -> torch.Tensor:
        hidden: torch.Tensor = self.norm(self.layers(self.columns(batch)))
        return hidden


class TinyModel(NetworkModel):
    def build(self, shape: InputShape) -> TinyBackbone:
        return TinyBackbone(shape)


class TestTerms:
    overlapping = torch.tensor([[1.0, 0], [1, 1], [0, 1]])

    def test_orthogonality_equals_the_hand_worked_values(self) -> None:
        assert orthogonality_loss(self.overlapping).item() == pytest.approx(3.994113, abs=1e-5)
        assert orthogonality_loss(self.overlapping, released=True).item() == pytest.approx(2.579899, abs=1e-5)

    @pytest.mark.parametrize("released", [False, True])
    def test_orthogonal_prototypes_have_a_term_of_one_whatever_their_length(self, released: bool) -> None:
        assert orthogonality_loss(torch.eye(3) * 7, released=released).item() == pytest.approx(1.0, abs=1e-5)
        assert orthogonality_loss(5 * self.overlapping, released=released).item() == pytest.approx(
            orthogonality_loss(self.overlapping, released=released).item(), abs=1e-5
        )

    def test_projection_equals_the_hand_worked_values(self) -> None:
        hidden, prototypes = torch.tensor([[3.0, 4]]), torch.tensor([[1.0, 0], [0, 2]])
        coordinates = torch.tensor([[0.25, 0.75]])
        assert projection_loss(hidden, coordinates, prototypes).item() == pytest.approx(0.25, abs=1e-6)
        assert projection_loss(hidden, coordinates, prototypes, released=True).item() == pytest.approx(0.75, abs=1e-6)

    def test_space_combines_prototypes_by_the_softmax_of_its_network(self) -> None:
        class Given(nn.Module):
            out_features = 2

            def __init__(self, *values: float) -> None:
                super().__init__()
                self.values = torch.tensor([values])

            def forward(self, batch: torch.Tensor) -> torch.Tensor:
                return self.values.expand(len(batch), -1)

        space = PrototypeSpace(Given(3.0, 4.0), 4, PTaRL().config)
        space.coordinates = Given(math.log(0.25), math.log(0.75))  # type: ignore[assignment]
        space.prototypes.data.copy_(torch.tensor([[1.0, 0], [0, 2]]))
        hidden, coordinates, combined = space(torch.zeros(3, 1))
        assert hidden.tolist() == [[3.0, 4.0]] * 3
        assert torch.allclose(coordinates, torch.tensor([0.25, 0.75]).expand(3, -1))
        assert torch.allclose(combined, torch.tensor([0.25, 1.5]).expand(3, -1))

    def test_projection_draws_coordinates_towards_the_most_similar_prototype(self) -> None:
        logits = torch.zeros(1, 2, requires_grad=True)
        loss = projection_loss(torch.tensor([[3.0, 4]]), logits.softmax(dim=1), torch.tensor([[1.0, 0], [0, 2]]))
        (gradient,) = torch.autograd.grad(loss, logits)
        assert gradient[0, 1] < 0 < gradient[0, 0]

    def test_diversity_equals_the_hand_worked_value(self) -> None:
        coordinates = torch.tensor([[1.0, 0], [0, 1], [0.5, 0.5], [0.5, 0.5]])
        share, distance = diversity_loss(coordinates, torch.tensor([0, 0, 1, 1]))
        assert share.item() == pytest.approx(1 / 3, abs=1e-6)
        assert distance.item() == pytest.approx(12 / 16, abs=1e-6)

    def test_equal_coordinates_give_zero_and_not_nan(self) -> None:
        coordinates = torch.full((4, 3), 1 / 3, requires_grad=True)
        share, distance = diversity_loss(coordinates, torch.tensor([0, 0, 1, 1]))
        assert share.item() == 0
        assert distance.item() == 0
        (gradient,) = torch.autograd.grad(share, coordinates)
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize(
    ("n_columns", "expected"), [(14, 4), (27, 5), (54, 6), (128, 7), (8, 3), (28, 5), (784, 10), (1, 2), (2, 2)]
)
def test_number_of_prototypes_follows_the_number_of_columns(n_columns: int, expected: int) -> None:
    assert count_prototypes(n_columns, None) == expected
    assert count_prototypes(n_columns, 20) == 20


def test_numbers_fall_into_bins_of_equal_width_within_the_batch() -> None:
    target = torch.linspace(-1, 1, 128)
    bins = classes_of(target, Task("regression"))
    assert sorted(set(bins.tolist())) == list(range(8))  # 1 + log2(128)
    assert set(classes_of(torch.zeros(16), Task("regression")).tolist()) == {0.0}
    labels = torch.tensor([0, 2, 1])
    assert classes_of(labels, THREE_CLASSES) is labels


def test_collapsed_hidden_vectors_still_give_distinct_prototypes() -> None:
    for hidden in (torch.zeros(30, 5), torch.ones(30, 5), torch.randn(2, 5)):
        centres = cluster_centres(hidden, 4, Context())
        assert centres.shape == (4, 5)
        assert centres.dtype == torch.float32
        distances = torch.cdist(centres, centres) + torch.eye(4)
        assert distances.min() > 1e-4
        assert centres.norm(dim=1).min() > 0


def test_second_stage_orders_the_prototypes_and_keeps_the_accuracy_of_the_first() -> None:
    train, validation = labelled(4000, 0), labelled(1000, 1)
    orthogonality: list[float] = []

    def listen(step: int, total: int, metrics: dict[str, float]) -> None:
        if "orthogonality" in metrics:
            orthogonality.append(metrics["orthogonality"])

    method = PTaRLRepresentation(
        width=64, n_prototypes=4, epochs=20, patience=None, lr=3e-3, batch_size=128, projector_width=64
    )
    method.fit(train, validation, THREE_CLASSES, Context(on_report=listen))
    first, second = method.diagnostics["stage1"], method.diagnostics["stage2"]
    assert orthogonality[0] > 2
    assert orthogonality[-1] == pytest.approx(1.0, abs=0.02)
    assert second["diversity"][-1] < 0.35
    assert second["coordinate_distance"][-1] > 0.1
    assert second["validation_loss"][-1] < first["validation_loss"][-1] + 0.03


def test_combinations_of_prototypes_have_few_dimensions_and_coordinates_sum_to_one() -> None:
    arrays = {}
    for export in ("h", "p", "r"):
        method = PTaRLRepresentation(**{**QUICK, "epochs": 10}, lr=3e-3, n_prototypes=4, export=export)
        method.fit(labelled(300, 0), labelled(100, 1), THREE_CLASSES, Context())
        arrays[export] = method.encode(table_of(labelled(200, 2))).array
    assert arrays["h"].shape == arrays["p"].shape == (200, 32)
    assert np.allclose(arrays["r"].sum(axis=1), 1, atol=1e-5)
    centred = arrays["p"] - arrays["p"].mean(axis=0)
    assert np.linalg.matrix_rank(centred, tol=1e-4 * np.linalg.norm(centred, 2)) in (2, 3)


def encode_with(train: Labelled, validation: Labelled, task: Task = THREE_CLASSES) -> NDArray[np.float32]:
    method = PTaRLRepresentation(**QUICK)
    method.fit(train, validation, task, Context())
    return method.encode(table_of(train)).array


def test_validation_labels_only_decide_when_to_stop_and_training_labels_matter() -> None:
    train, validation = labelled(300, 0), labelled(100, 1)
    before = encode_with(train, validation)
    assert np.array_equal(before, encode_with(train, Labelled(validation.features, validation.y[::-1].copy())))
    assert not np.allclose(before, encode_with(Labelled(train.features, train.y[::-1].copy()), validation))


def test_same_seed_gives_the_same_vectors_and_the_global_generator_is_untouched() -> None:
    train, validation = labelled(200, 0), labelled(60, 1)
    state = torch.get_rng_state()
    assert np.array_equal(encode_with(train, validation), encode_with(train, validation))
    assert torch.equal(torch.get_rng_state(), state)


def test_representation_is_stored_and_loaded(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(120, 3))
    values[::5, 1] = np.nan
    table = to_table(values, rng.integers(0, 5, size=(120, 2)))
    part = Labelled(table, rng.integers(0, 3, 120))
    method = PTaRLRepresentation(**QUICK)
    method.fit(part, part, THREE_CLASSES, Context())
    method.save(tmp_path)
    again = PTaRLRepresentation.load(tmp_path)
    array = method.encode(table).array
    assert array.dtype == np.float32
    assert np.isfinite(array).all()
    assert np.array_equal(again.encode(table).array, array)
    assert np.allclose(method.encode(table.take(slice(0, 1))).array, array[:1], atol=1e-5)


@pytest.mark.parametrize("method", [PTaRL, PTaRLRepresentation])
def test_both_variants_say_that_they_use_labels(method: type[JointMethod]) -> None:
    assert method.uses_labels


@pytest.mark.parametrize("head_input", ["pspace", "hidden"])
@pytest.mark.parametrize(
    ("task", "shape"), [(Task("binary", 2), (50, 2)), (THREE_CLASSES, (50, 3)), (Task("regression"), (50,))]
)
def test_native_variant_trains_the_backbone_of_the_model(task: Task, shape: tuple[int, ...], head_input: str) -> None:
    train, validation = labelled(129, 0), labelled(50, 1)  # a last batch of one row, which BatchNorm cannot train on
    if task.kind == "binary":
        train, validation = (Labelled(part.features, part.y // 2) for part in (train, validation))
    if task.is_regression:
        train, validation = (Labelled(part.features, part.y.astype(np.float32)) for part in (train, validation))
    method = PTaRL(epochs=2, batch_size=64, head_input=head_input, projector_width=16)
    method.fit(train, validation, task, Context(), TinyModel())
    predictions = method.predict(validation.features)
    assert predictions.shape == shape
    if not task.is_regression:
        assert np.allclose(predictions.sum(axis=1), 1, atol=1e-5)
    assert method.diagnostics["head_input"] == head_input


def test_native_variant_learns() -> None:
    method = PTaRL(epochs=10, patience=None, lr=5e-3, batch_size=128, projector_width=64)
    method.fit(labelled(1500, 0), labelled(300, 1), THREE_CLASSES, Context(), TinyModel())
    test = labelled(500, 2)
    accuracy = (method.predict(test.features).argmax(axis=1) == test.y).mean()
    assert accuracy > 0.65


def test_equal_error_rates_are_told_apart_by_the_loss() -> None:
    # Coordinates start almost equal: for some epochs predictions are constant, and early stopping must wait.
    reported: list[float] = []
    context = Context(on_report=lambda step, total, metrics: reported.append(metrics["validation_loss"]))
    PTaRL(epochs=6, projector_width=16).fit(labelled(256, 0), labelled(32, 1), THREE_CLASSES, context, TinyModel())
    error_rates = [round(value * 32) / 32 for value in reported]
    beyond = [value - rate for value, rate in zip(reported, error_rates, strict=True)]
    assert all(0 < value < 1e-4 for value in beyond)
    assert len(set(error_rates)) < len(set(reported)) == 12


@pytest.mark.parametrize(("n_rows", "expected"), [(40, 32), (4096, 64), (20_000, 128)])
def test_small_tables_have_small_batches(monkeypatch: pytest.MonkeyPatch, n_rows: int, expected: int) -> None:
    sizes: set[int] = set()

    def noted(*arguments: Any, batch_size: int, **options: Any) -> dict[str, Any]:
        sizes.add(batch_size)
        return {"epochs": 1}

    monkeypatch.setattr("tabbench_ptarl.method.train_pretext", noted)
    PTaRLRepresentation(**QUICK, head_input="hidden").fit(
        labelled(n_rows, 0), labelled(50, 1), THREE_CLASSES, Context()
    )
    assert sizes == {expected}


def test_stages_start_from_different_weights_and_predictions_need_no_backbone_twice() -> None:
    made: list[dict[str, torch.Tensor]] = []

    class Watched(TinyModel):
        def make_backbone(self, example: Features, context: Context) -> Backbone:
            backbone = super().make_backbone(example, context)
            made.append({name: tensor.clone() for name, tensor in backbone.state_dict().items()})
            return backbone

    method = PTaRL(epochs=1)
    method.fit(labelled(100, 0), labelled(50, 1), THREE_CLASSES, Context(), Watched())
    assert len(made) == 2
    assert not torch.equal(made[0]["layers.0.weight"], made[1]["layers.0.weight"])


def test_native_variant_refuses_to_work_without_a_backbone() -> None:
    class Tree(DownstreamModel):
        def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None: ...

        def predict(self, features: Features) -> NDArray[np.float32]:
            return np.zeros(0, dtype=np.float32)

    part = labelled(50, 0)
    with pytest.raises(PluginError, match="needs one"):
        PTaRL().fit(part, part, THREE_CLASSES, Context())
    with pytest.raises(PluginError, match="no backbone"):
        PTaRL().fit(part, part, THREE_CLASSES, Context(), Tree())


def test_second_stage_starts_again_if_all_rows_collapse_onto_one_prototype() -> None:
    train, validation = labelled(300, 0), labelled(50, 1)
    method = PTaRLRepresentation(**{**QUICK, "epochs": 12}, lr=3e-2, w_proj=100.0, w_div=0.0, restarts=2)
    method.fit(train, validation, THREE_CLASSES, Context())
    assert method.diagnostics["collapsed"]
    assert check_training(method.diagnostics) == ["collapsed embedding"]
    assert method.diagnostics["restarts"] == 2
    method = PTaRLRepresentation(**{**QUICK, "epochs": 12}, lr=1e-2, restarts=2)
    method.fit(train, validation, THREE_CLASSES, Context())
    assert not method.diagnostics["collapsed"]
    assert check_training(method.diagnostics) == []
    assert method.diagnostics["restarts"] == 0


def test_one_epoch_is_a_smoke_run() -> None:
    method = PTaRLRepresentation(**{**QUICK, "epochs": 1})
    method.fit(labelled(100, 0), labelled(50, 1), THREE_CLASSES, Context())
    assert "smoke run of one epoch" in check_training(method.diagnostics)


Spoil = Callable[[PrototypeNetwork, dict[str, Any]], None]


def all_at_one_point(network: PrototypeNetwork, diagnostics: dict[str, Any]) -> None:
    for parameter in network.space.coordinates.parameters():
        parameter.data.zero_()


def collapsed_in_the_last_epoch(network: PrototypeNetwork, diagnostics: dict[str, Any]) -> None:
    diagnostics["coordinate_distance"] = [0.0]


@pytest.mark.parametrize(("spoil", "collapsed"), [(all_at_one_point, True), (collapsed_in_the_last_epoch, False)])
def test_collapse_is_judged_on_the_weights_that_are_kept(
    monkeypatch: pytest.MonkeyPatch, spoil: Spoil, collapsed: bool
) -> None:
    def spoilt(network: nn.Module, *arguments: Any, **options: Any) -> dict[str, Any]:
        diagnostics = train_pretext(network, *arguments, **options)
        if isinstance(network, PrototypeNetwork):
            spoil(network, diagnostics)
        return diagnostics

    monkeypatch.setattr("tabbench_ptarl.method.train_pretext", spoilt)
    method = PTaRLRepresentation(**{**QUICK, "epochs": 12}, lr=1e-2, restarts=0, export="r")
    method.fit(labelled(300, 0), labelled(50, 1), THREE_CLASSES, Context())
    assert method.diagnostics["collapsed"] == collapsed
    assert (method.diagnostics["stage2"]["kept_coordinate_distance"] == 0) == collapsed
    coordinates = torch.from_numpy(method.encode(table_of(labelled(300, 0))).array)
    assert method.diagnostics["stage2"]["kept_coordinate_distance"] == pytest.approx(
        torch.cdist(coordinates, coordinates, p=1).mean().item(), abs=1e-5
    )


def test_prototypes_come_from_training_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    clustered: list[torch.Tensor] = []

    def noted(hidden: torch.Tensor, n_clusters: int, context: Context) -> torch.Tensor:
        clustered.append(hidden)
        return cluster_centres(hidden, n_clusters, context)

    monkeypatch.setattr("tabbench_ptarl.method.cluster_centres", noted)
    train = labelled(120, 0)
    for seed in (1, 2):  # other validation rows
        PTaRLRepresentation(**QUICK).fit(train, labelled(50, seed), THREE_CLASSES, Context())
        PTaRL(epochs=2, patience=None).fit(train, labelled(50, seed), THREE_CLASSES, Context(), TinyModel())
    assert [len(hidden) for hidden in clustered] == [120] * 4
    assert torch.equal(clustered[0], clustered[2])
    assert torch.equal(clustered[1], clustered[3])


@pytest.mark.parametrize("released", [True, False])
def test_released_losses_reach_the_second_stage(monkeypatch: pytest.MonkeyPatch, released: bool) -> None:
    asked: dict[str, set[bool]] = {}

    def watch(term: Callable[..., torch.Tensor]) -> None:
        def noted(*arguments: torch.Tensor, released: bool = False) -> torch.Tensor:
            asked.setdefault(term.__name__, set()).add(released)
            return term(*arguments, released=released)

        monkeypatch.setattr(f"tabbench_ptarl.method.{term.__name__}", noted)

    watch(projection_loss)
    watch(orthogonality_loss)
    method = PTaRLRepresentation(**QUICK, released_losses=released)
    method.fit(labelled(100, 0), labelled(50, 1), THREE_CLASSES, Context())
    assert asked == {"projection_loss": {released}, "orthogonality_loss": {released}}


def test_progress_covers_both_stages() -> None:
    steps = []
    context = Context(on_report=lambda step, total, metrics: steps.append((step, total)))
    PTaRLRepresentation(**QUICK).fit(labelled(100, 0), labelled(50, 1), THREE_CLASSES, context)
    assert steps == [(step, 6) for step in range(1, 7)]


def test_rows_are_shuffled_between_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []
    original = torch.Tensor.__getitem__

    method = PTaRLRepresentation(**{**QUICK, "epochs": 2}, batch_size=64)
    matrix_of = type(method).make_inputs

    class Watched:
        """Rows of the matrix, with a note of their order."""

        def __init__(self, matrix: torch.Tensor) -> None:
            self.matrix = matrix

        def __len__(self) -> int:
            return len(self.matrix)

        def __getitem__(self, rows: torch.Tensor) -> torch.Tensor:
            seen.append(rows.tolist())
            return original(self.matrix, rows)

    def watched(self: PTaRLRepresentation) -> Any:
        inputs = matrix_of(self)
        matrix = inputs.matrix
        monkeypatch.setattr(inputs, "matrix", lambda *arguments: Watched(matrix(*arguments)))
        return inputs

    monkeypatch.setattr(PTaRLRepresentation, "make_inputs", watched)
    method.fit(labelled(40, 0), labelled(10, 1), THREE_CLASSES, Context())
    epochs = [rows for rows in seen if len(rows) == 40 and rows != list(range(40))]
    assert len(epochs) == 4
    assert epochs[0] != epochs[1]


def test_presets_are_valid_for_both_variants_and_say_their_source() -> None:
    for cls in (PTaRL, PTaRLRepresentation):
        presets = cls.Config.presets()
        assert {"quick", "standard", "paper", "released"} <= set(presets)
        for name, preset in presets.items():
            settings = preset_settings(preset)
            assert preset["source"], name
            cls.Config.resolve(settings, name)
