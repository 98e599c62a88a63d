from dataclasses import replace

import torch

from tabbench.nn import FeatureTokenizer, TokenRows, sincos_positions
from tabbench.values import FIRST_LEVEL, MISSING, UNKNOWN


def some_rows(n: int = 5) -> TokenRows:
    generator = torch.Generator().manual_seed(0)
    return TokenRows(
        torch.randn(n, 2, generator=generator),
        torch.zeros(n, 2),
        torch.stack([torch.randint(3, (n,), generator=generator), torch.randint(4, (n,), generator=generator)], 1),
    )


def some_tokenizer() -> FeatureTokenizer:
    torch.manual_seed(0)
    return FeatureTokenizer(2, (3, 4), dim=6, missing=True)


def test_a_number_is_scaled_and_shifted_by_its_own_vectors() -> None:
    tokenizer, rows = some_tokenizer(), some_rows()
    tokens = tokenizer(rows)
    assert tokens.shape == (4, 5, 6)
    for j in range(2):
        expected = rows.numeric[:, j, None] * tokenizer.weight[j] + tokenizer.bias[j]
        torch.testing.assert_close(tokens[j], expected)


def test_a_category_is_a_linear_map_of_its_one_hot_code() -> None:
    tokenizer, rows = some_tokenizer(), some_rows()
    tokens = tokenizer(rows)
    for j, (size, table) in enumerate(zip((3, 4), torch.split(tokenizer.categories, [3, 4]), strict=True)):
        one_hot = torch.nn.functional.one_hot(rows.categorical[:, j], size).float()
        torch.testing.assert_close(tokens[2 + j], one_hot @ table + tokenizer.bias[2 + j])


def test_a_missing_number_adds_the_vector_of_its_column_and_no_other() -> None:
    tokenizer, rows = some_tokenizer(), some_rows()
    before = tokenizer(rows)
    rows.missing[2, 1] = 1
    change = tokenizer(rows) - before
    torch.testing.assert_close(change[1, 2], tokenizer.missing[1])
    change[1, 2] = 0
    assert not change.any()


def test_unknown_category_adds_nothing_but_the_column_bias() -> None:
    tokenizer, rows = some_tokenizer(), some_rows()
    for code in (MISSING, UNKNOWN):
        rows.categorical[:] = code
        tokens = tokenizer(rows)
        for j in (2, 3):
            torch.testing.assert_close(tokens[j], tokenizer.bias[j].expand(5, -1))
    rows.categorical[:] = FIRST_LEVEL
    assert (tokenizer(rows)[2:] != tokenizer.bias[2:, None]).all()


def test_other_parameters_do_not_depend_on_what_starts_at_zero() -> None:
    tokenizer = some_tokenizer()
    torch.manual_seed(0)
    for name, parameter in tokenizer.named_parameters():
        drawn = torch.empty_like(parameter).uniform_(-(6**-0.5), 6**-0.5)
        kept = slice(None) if name != "categories" else [2, 5, 6]
        torch.testing.assert_close(parameter.detach()[kept], drawn[kept])


def test_what_is_added_reaches_every_row() -> None:
    tokenizer, rows = some_tokenizer(), some_rows()
    added = torch.randn(4, 6)
    torch.testing.assert_close(tokenizer(rows, added), tokenizer(rows) + added[:, None])


def test_every_parameter_learns() -> None:
    tokenizer, rows = some_tokenizer(), some_rows()
    rows.missing[0] = 1
    tokenizer(rows).square().sum().backward()
    for name, parameter in tokenizer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


def test_tables_of_one_kind_of_column_work() -> None:
    rows, nothing = some_rows(), torch.zeros(5, 0)
    numeric_only = FeatureTokenizer(2, (), 6)(replace(rows, missing=nothing))
    categorical_only = FeatureTokenizer(0, (3, 4), 6)(replace(rows, numeric=nothing, missing=nothing))
    assert numeric_only.shape == categorical_only.shape == (2, 5, 6)


def test_fixed_positions_are_sines_and_cosines() -> None:
    positions = sincos_positions(4, 3, base=100.0)
    assert positions.shape == (4, 3)
    torch.testing.assert_close(positions[:, 0], torch.arange(4.0).sin())
    torch.testing.assert_close(positions[:, 1], torch.arange(4.0).cos())
    torch.testing.assert_close(positions[:, 2], (torch.arange(4.0) * 100 ** (-2 / 3)).sin())
