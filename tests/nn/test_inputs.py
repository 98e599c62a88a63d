from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tabbench import Features, Representation, Schema, TabbenchError, Table, UsageError
from tabbench.nn import Batch, Inputs, InputShape, flat_columns

SCHEMA = Schema(("a", "b"), ("c",), (("x", "y"),))


def table(numeric: object, codes: object) -> Table:
    return Table(np.array(numeric, dtype=np.float32), np.array(codes, dtype=np.int64).reshape(-1, 1), SCHEMA)


def tokens(rows: int, d: int = 3, h: int = 4) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(5.0, 2.0, (rows, d, h)).astype(np.float32)


def values(tensor: torch.Tensor | None) -> NDArray[np.float32]:
    assert tensor is not None
    return tensor.numpy()


def test_numeric_columns_with_missing_values_get_an_indicator() -> None:
    train = table([[1.0, 0.0], [3.0, np.nan], [5.0, 4.0]], [2, 3, 2])
    inputs = Inputs("standard").fit(train)
    batch = inputs.transform(train)
    assert inputs.shape == InputShape(n_numeric=3, cardinalities=(4,))
    np.testing.assert_allclose(values(batch.numeric)[:, 2], [0, 1, 0])
    np.testing.assert_allclose(values(batch.numeric)[:, 0], [-1.2247, 0, 1.2247], atol=1e-4)
    np.testing.assert_array_equal(values(batch.categorical)[:, 0], [2, 3, 2])
    assert batch.tokens is None


def test_missing_values_of_columns_that_were_complete_in_training_take_the_centre() -> None:
    inputs = Inputs("standard").fit(table([[1.0, 0.0], [3.0, 1.0]], [2, 3]))
    batch = inputs.transform(table([[np.nan, 1.0]], [1]))
    np.testing.assert_allclose(values(batch.numeric), [[0.0, 1.0]])


@pytest.mark.parametrize("kind", ["flat", "tokens"])
def test_representations_are_standardised_with_training_statistics(kind: str) -> None:
    array = tokens(500) if kind == "tokens" else tokens(500).reshape(500, -1)
    inputs = Inputs().fit(Representation(array))
    batch = inputs.transform(Representation(array))
    standardised = values(batch.tokens if kind == "tokens" else batch.numeric)
    assert standardised.shape == array.shape
    np.testing.assert_allclose(standardised.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(standardised.std(axis=0), 1, atol=1e-4)
    shifted = inputs.transform(Representation(array + 2 * array.std(axis=0)))
    np.testing.assert_allclose(
        values(shifted.tokens if kind == "tokens" else shifted.numeric).mean(axis=0), 2, atol=1e-4
    )


def test_standardisation_is_exact_far_from_zero_and_leaves_constants_at_zero() -> None:
    array = np.random.default_rng(0).normal(1000.0, 0.1, (1000, 2)).astype(np.float32)
    array[:, 1] = 7.0 * (1 + 1e-7 * (np.arange(1000) % 2))  # float noise around a constant
    standardised = values(Inputs().fit(Representation(array)).transform(Representation(array)).numeric)
    assert standardised[:, 0].std() == pytest.approx(1, abs=1e-3)
    assert not standardised[:, 1].any()


@pytest.mark.parametrize(
    "features",
    [
        table(np.random.default_rng(0).normal(size=(50, 2)), np.arange(50) % 4),
        Representation(tokens(50)),
        Representation(tokens(50).reshape(50, 12)),
    ],
    ids=["table", "tokens", "flat"],
)
def test_streamed_and_resident_rows_give_the_same_batches(features: Features) -> None:
    inputs = Inputs().fit(features)
    resident = inputs.load(features)
    streamed = inputs.load(features, memory=0)
    assert resident.resident is not None
    assert streamed.resident is None
    index = torch.tensor([7, 3, 3, 49])

    def assert_equal(one: Batch, other: Batch) -> None:
        for left, right in zip(one, other, strict=True):
            assert (left is None) == (right is None)
            if left is not None and right is not None:
                assert torch.equal(left, right)

    assert_equal(resident.batch(index), streamed.batch(index))
    for one, other in zip(resident.in_order(16), streamed.in_order(16), strict=True):
        assert_equal(one, other)


def test_a_memory_mapped_representation_is_read_by_batch_and_not_changed(tmp_path: Path) -> None:
    np.save(tmp_path / "tokens.npy", tokens(100))
    features = Representation(np.load(tmp_path / "tokens.npy", mmap_mode="r"))
    inputs = Inputs().fit(features)
    batch = inputs.load(features, memory=1000).batch(torch.tensor([5, 90]))
    expected = values(inputs.transform(features).tokens)[[5, 90]]
    np.testing.assert_array_equal(values(batch.tokens), expected)
    np.testing.assert_array_equal(features.array, tokens(100))


def test_a_token_representation_of_three_and_a_half_gigabytes_is_not_loaded() -> None:
    array = np.broadcast_to(tokens(1, 128, 64), (108_000, 128, 64))
    inputs = Inputs().fit(Representation(array[:10]))
    rows = inputs.load(Representation(array))
    assert rows.resident is None
    assert values(rows.batch(torch.arange(512)).tokens).shape == (512, 128, 64)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("read", [lambda array: Inputs().fit(Representation(array)), flat_columns])
def test_a_representation_that_is_not_finite_is_refused_in_words(
    read: Callable[[NDArray[np.float32]], object], bad: float
) -> None:
    array = tokens(20)
    array[7, 0, 0] = bad
    with pytest.raises(TabbenchError, match="not finite"), np.errstate(invalid="ignore"):
        read(array)


def test_features_of_another_shape_are_refused() -> None:
    inputs = Inputs().fit(Representation(tokens(10)))
    with pytest.raises(ValueError, match=r"\(rows, 3, 4\), but these are .* \(rows, 12\)"):
        inputs.transform(Representation(tokens(10).reshape(10, 12)))


def test_a_table_without_columns_is_refused_in_words() -> None:
    empty = Table(np.empty((5, 0), np.float32), np.empty((5, 0), np.int64), Schema(()))
    with pytest.raises(UsageError, match="no feature"):
        Inputs().fit(empty)


def test_flat_columns_lays_tokens_side_by_side() -> None:
    array = tokens(6)
    np.testing.assert_array_equal(flat_columns(array), array.reshape(6, 12))
    assert flat_columns(array.reshape(6, 12)).shape == (6, 12)


def test_flat_columns_averages_neighbouring_channels_where_there_are_too_many() -> None:
    array = tokens(6)
    expected = array.reshape(6, 3, 2, 2).mean(axis=3).reshape(6, 6)
    np.testing.assert_allclose(flat_columns(array, max_columns=8), expected, rtol=1e-6)
    np.testing.assert_allclose(flat_columns(array, max_columns=2), array.mean(axis=2), rtol=1e-6)
