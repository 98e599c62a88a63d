import pytest
import torch

from tabbench import UsageError
from tabbench.config import PROJECTIONS, ProjectionName
from tabbench.nn import Batch, FlatColumns, InputShape, TokenColumns
from tabbench.nn.columns import CategoryEmbedding, OneHot
from tabbench.nn.projections import LinearPerFeature, make_projection


@pytest.mark.parametrize("name", [*PROJECTIONS, "auto"])
@pytest.mark.parametrize("d, h", [(1, 1), (9, 16), (15, 16), (128, 64)])
def test_every_projection_gives_one_number_per_token(name: ProjectionName, d: int, h: int) -> None:
    projection = make_projection(name, d, h)
    assert projection(torch.randn(4, d, h)).shape == (4, d)
    projection.eval()
    assert projection(torch.randn(1, d, h)).shape == (1, d)


@pytest.mark.parametrize("name", ["max_pool", "mean_pool"])
def test_pooling_ones_gives_ones_without_parameters(name: ProjectionName) -> None:
    projection = make_projection(name, 3, 5)
    assert torch.equal(projection(torch.ones(2, 3, 5)), torch.ones(2, 3))
    assert not list(projection.parameters())


def test_linear_per_feature_gives_each_token_its_own_weights() -> None:
    projection = LinearPerFeature(2, 3)
    with torch.no_grad():
        projection.weight.copy_(torch.tensor([[1.0, 0, 0], [0, 2.0, 0]]))
        projection.bias.copy_(torch.tensor([10.0, 20.0]))
    tokens = torch.tensor([[[1.0, 2, 3], [4, 5, 6]]])
    assert projection(tokens).tolist() == [[11.0, 30.0]]


@pytest.mark.parametrize("d, h, inputs", [(15, 16, 4), (28, 16, 10), (129, 16, 60), (12, 10, 1)])
def test_conv_ends_in_a_linear_layer_of_the_published_size(d: int, h: int, inputs: int) -> None:
    last = list(make_projection("conv", d, h).modules())[-1]
    assert isinstance(last, torch.nn.Linear)
    assert (last.in_features, last.out_features) == (inputs, d)


@pytest.mark.parametrize("d, h", [(9, 64), (64, 9)])
def test_conv_is_linear_flatten_where_the_plane_is_too_small(d: int, h: int) -> None:
    projection = make_projection("conv", d, h)
    assert [type(module).__name__ for module in projection.children()] == ["Flatten", "Linear"]


def test_auto_flattens_unless_the_weights_would_outgrow_the_model() -> None:
    assert isinstance(make_projection("auto", 784, 64), LinearPerFeature)
    assert not isinstance(make_projection("auto", 128, 64), LinearPerFeature)


def test_one_hot_counts_codes_column_by_column_and_an_unknown_category_is_all_zeros() -> None:
    columns = OneHot((4, 3))(torch.tensor([[3, 0], [1, 2]]))
    assert columns.tolist() == [[0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0, 1]]


def test_categories_of_different_columns_do_not_share_vectors_and_unknown_is_zero() -> None:
    embedding = CategoryEmbedding((4, 3), 5)
    embedded = embedding(torch.tensor([[2, 2], [1, 1], [0, 0]]))
    assert embedded.shape == (3, 2, 5)
    assert not torch.equal(embedded[0, 0], embedded[0, 1])
    assert not embedded[1:].any()
    assert embedded[0].abs().max() <= 5**-0.5


def test_flat_columns_puts_numbers_before_categories() -> None:
    columns = FlatColumns(InputShape(n_numeric=2, cardinalities=(3,)))
    assert columns.out_features == 5
    assert columns(Batch(torch.tensor([[7.0, 8.0]]), torch.tensor([[2]]))).tolist() == [[7, 8, 0, 0, 1]]


@pytest.mark.parametrize(
    "shape, n_tokens",
    [
        (InputShape(n_numeric=3), 3),
        (InputShape(cardinalities=(3, 4)), 2),
        (InputShape(n_numeric=3, cardinalities=(3, 4)), 5),
        (InputShape(n_numeric=500, cardinalities=(3,)), 17),
        (InputShape(tokens=(5, 4)), 5),
        (InputShape(tokens=(40, 4)), 16),
    ],
)
def test_token_columns_gives_one_token_per_column_up_to_the_limit(shape: InputShape, n_tokens: int) -> None:
    columns = TokenColumns(shape, 8, bias=True, max_numbers=16)
    assert columns.n_tokens == n_tokens
    assert columns(random_batch(shape)).shape == (4, n_tokens, 8)


def test_tokens_direct_skips_the_detour_over_numbers() -> None:
    shape = InputShape(tokens=(5, 4))
    columns = TokenColumns(shape, 8, bias=False, projection="tokens_direct")
    assert columns(random_batch(shape)).shape == (4, 5, 8)
    flat = FlatColumns(shape, projection="tokens_direct")
    assert flat(random_batch(shape)).shape == (4, flat.out_features) == (4, 20)


def test_attention_over_two_thousand_categorical_columns_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="2000 columns are too many for attention"):
        TokenColumns(InputShape(cardinalities=(3,) * 2000), 8, bias=True)


def random_batch(shape: InputShape) -> Batch:
    numeric = torch.randn(4, shape.n_numeric) if shape.n_numeric else None
    categorical = torch.ones(4, len(shape.cardinalities), dtype=torch.int64) if shape.cardinalities else None
    return Batch(numeric, categorical, torch.randn(4, *shape.tokens) if shape.tokens else None)


@pytest.mark.parametrize(
    "tokens, width",
    [((8, 64), 512), ((54, 64), 3456), ((64, 64), 4096), ((128, 64), 512), ((130, 64), 504), ((784, 64), 784)],
    ids=str,
)
def test_networks_that_read_one_vector_get_tokens_side_by_side_if_these_are_not_too_many(
    tokens: tuple[int, int], width: int
) -> None:
    columns = FlatColumns(InputShape(tokens=tokens))
    given = torch.randn(3, *tokens)
    found = columns(Batch(tokens=given))
    assert found.shape == (3, width)
    assert columns.out_features == width
    if width == tokens[0] * tokens[1]:
        assert torch.equal(found, given.flatten(1))
