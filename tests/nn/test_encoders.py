import numpy as np
import pytest
import torch
from torch import nn

from tabbench import Schema, Table
from tabbench.nn import MLP, Dropout, FeatureEncoder, glorot_, output_activation, seeded
from tabbench.nn.encoders import encode_in_batches

MISSING, UNKNOWN = 0, 1
SCHEMA = Schema(numeric=("a", "b"), categorical=("c", "d"), levels=(("x", "y", "z"), ("no", "yes")))


def table(numeric: list[list[float]], categorical: list[list[int]]) -> Table:
    return Table(np.array(numeric, dtype=np.float32), np.array(categorical, dtype=np.int64), SCHEMA)


TRAIN = table([[0, 5], [2, np.nan], [4, 7]], [[2, 2], [3, 3], [4, MISSING]])


def test_matrix_holds_scaled_numbers_then_missing_indicators_then_codes() -> None:
    matrix = FeatureEncoder(SCHEMA, "minmax").fit(TRAIN).matrix(TRAIN)
    expected = [[0, 0, 0, 2, 2], [0.5, 0.5, 1, 3, 3], [1, 1, 0, 4, MISSING]]
    assert matrix.numpy() == pytest.approx(np.array(expected, dtype=np.float32))


def test_an_indicator_belongs_to_its_number() -> None:
    inputs = FeatureEncoder(SCHEMA).fit(TRAIN)
    assert inputs.originals.owner.tolist() == [0, 1, 1, 2, 3]  # a, b, b is missing, c, d
    assert inputs.originals.count == 4
    again = FeatureEncoder(SCHEMA).set_state(inputs.get_state())
    assert torch.equal(again.originals.owner, inputs.originals.owner)


@pytest.mark.parametrize(
    ("scaling", "activation"), [("minmax", nn.Sigmoid), ("standard", nn.Identity), ("quantile", nn.Identity)]
)
def test_rebuilt_inputs_have_the_range_of_their_scale(scaling: str, activation: type) -> None:
    assert isinstance(output_activation(scaling), activation)


def test_one_hot_has_a_column_for_missing_only_where_training_rows_miss() -> None:
    inputs = FeatureEncoder(SCHEMA).fit(TRAIN)
    assert inputs.width == 3 + 3 + 2 + 1
    blocks = inputs.encode(inputs.matrix(TRAIN))[:, 3:]
    assert blocks.tolist() == [[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1]]


def test_unknown_levels_and_unexpected_missing_ones_become_zeros() -> None:
    inputs = FeatureEncoder(SCHEMA).fit(TRAIN)
    blocks = inputs.encode(inputs.matrix(table([[1, 1]], [[UNKNOWN, UNKNOWN]])))[:, 3:]
    assert blocks.sum() == 0
    blocks = inputs.encode(inputs.matrix(table([[np.nan, 1]], [[MISSING, 2]])))[:, 3:]
    assert blocks.tolist() == [[0, 0, 0, 1, 0, 0]]


def test_columns_of_the_input_have_names() -> None:
    inputs = FeatureEncoder(SCHEMA).fit(TRAIN)
    names = ["a", "b", "b is missing", "c=x", "c=y", "c=z", "d=no", "d=yes", "d is missing"]
    assert inputs.column_names() == names
    assert len(names) == inputs.width
    assert FeatureEncoder(SCHEMA, categories="ordinal").fit(TRAIN).column_names() == [*names[:3], "c", "d"]


def test_ordinal_input_is_the_matrix_itself() -> None:
    inputs = FeatureEncoder(SCHEMA, categories="ordinal").fit(TRAIN)
    matrix = inputs.matrix(TRAIN)
    assert inputs.encode(matrix) is matrix
    assert inputs.width == inputs.n_features == 5


def test_state_round_trip_gives_the_same_input() -> None:
    fitted = FeatureEncoder(SCHEMA, "standard").fit(TRAIN)
    again = FeatureEncoder(SCHEMA, "standard").set_state(fitted.get_state())
    assert torch.equal(again.encode(again.matrix(TRAIN)), fitted.encode(fitted.matrix(TRAIN)))


def test_matrix_reads_read_only_arrays_and_leaves_them_alone() -> None:
    numeric = TRAIN.numeric.copy()
    numeric.setflags(write=False)
    FeatureEncoder(SCHEMA).fit(TRAIN).matrix(Table(numeric, TRAIN.categorical, SCHEMA))
    assert np.isnan(numeric[1, 1])


def test_mlp_ends_with_a_linear_layer_only_if_asked() -> None:
    assert isinstance(MLP(4, [8, 8], 3)[-1], nn.Linear)
    assert isinstance(MLP(4, [8, 8])[-1], nn.ReLU)
    assert MLP(4, [8, 6]).out_features == 6
    assert isinstance(MLP(4, [8], dropout=0.1)[-1], Dropout)


def test_glorot_sets_biases_to_zero_and_bounds_weights() -> None:
    layer = glorot_(nn.Linear(30, 20))
    assert layer.bias.abs().max() == 0
    assert 0.9 * (6 / 50) ** 0.5 < layer.weight.abs().max().item() <= (6 / 50) ** 0.5


def test_seeded_repeats_and_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    with seeded(3):
        first = torch.rand(4)
    with seeded(3):
        second = torch.rand(4)
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)


def test_seeded_seeds_and_restores_the_generator_of_apples_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: "before")
    monkeypatch.setattr(torch.mps, "manual_seed", told.append)
    monkeypatch.setattr(torch.mps, "set_rng_state", told.append)
    with seeded(3, "mps"):
        assert told == [3]
    assert told == [3, "before"]


@pytest.mark.parametrize("n_rows", [0, 1, 4, 9])
def test_encode_in_batches_keeps_the_order_of_rows(n_rows: int) -> None:
    schema = Schema(numeric=("a",))
    rows = Table(np.arange(n_rows, dtype=np.float32)[:, None], np.empty((n_rows, 0), dtype=np.int64), schema)
    sizes = []

    def embed(part: Table) -> torch.Tensor:
        sizes.append(len(part))
        return torch.from_numpy(part.numeric * 2)

    representation = encode_in_batches(rows, embed, batch_size=4)
    assert representation.array[:, 0].tolist() == [2.0 * i for i in range(n_rows)]
    assert max(sizes) <= 4
