"""Which rows have a label: nested, stratified, at least two of them."""

from itertools import pairwise

import numpy as np
import pytest

from tabbench.data.labels import LabelBudget, choose_labelled, label_order
from tabbench.errors import UsageError

Y = np.repeat([0, 1, 2], [600, 300, 100])


def kept(text: str, seed: int = 3, y: np.ndarray = Y, is_regression: bool = False) -> np.ndarray:
    return choose_labelled(y, y[::10], is_regression, LabelBudget.parse(text), seed).train


@pytest.mark.parametrize(
    "given, text, of_1000", [("10%", "10%", 100), (" 0.5 %", "0.5%", 5), ("100.0%", "100%", 1000), ("50", "50", 50)]
)
def test_a_budget_is_a_share_or_a_number(given: str, text: str, of_1000: int) -> None:
    budget = LabelBudget.parse(given)
    assert (budget.text, budget.count(1000)) == (text, of_1000)


@pytest.mark.parametrize("is_regression", [False, True])
def test_fewer_labels_are_among_more_labels(is_regression: bool) -> None:
    subsets = [set(kept(text, is_regression=is_regression)) for text in ("5", "1%", "5%", "200", "50%", "100%")]
    assert [len(subset) for subset in subsets] == [5, 10, 50, 200, 500, 1000]
    assert all(small < large for small, large in pairwise(subsets))


def test_classes_are_kept_in_proportion() -> None:
    assert np.bincount(Y[kept("10%")]).tolist() == [60, 30, 10]
    assert np.bincount(Y[kept("10")]).tolist() == [6, 3, 1]
    assert set(Y[kept("2")]) == {0, 1}, "two classes at least, or nothing can be learned"


def test_a_class_may_be_missing_from_few_labels() -> None:
    many = np.arange(500) % 100
    assert len(set(many[kept("50", y=many)])) == 50


def test_another_split_keeps_other_labels_and_the_same_split_the_same() -> None:
    assert kept("10%", seed=1).tolist() == kept("10%", seed=1).tolist() != kept("10%", seed=2).tolist()


def test_of_numbers_rows_are_drawn_without_regard_to_them() -> None:
    numbers = np.arange(1000.0)
    assert kept("10%", y=numbers, is_regression=True).tolist() == kept("10%", y=-numbers, is_regression=True).tolist()


@pytest.mark.parametrize("text, rows", [("1%", 32), ("50%", 50), ("500", 50), ("100%", 100)])
def test_validation_keeps_the_same_share_but_at_least_32(text: str, rows: int) -> None:
    assert len(choose_labelled(Y, Y[::10], False, LabelBudget.parse(text), 0).validation) == rows
    assert len(choose_labelled(Y, Y[::10], False, LabelBudget.parse(text), 0, all_validation=True).validation) == 100
    assert len(choose_labelled(Y, Y[::50], False, LabelBudget.parse(text), 0).validation) == 20


def test_budgets_that_the_rows_cannot_have_are_refused() -> None:
    with pytest.raises(UsageError, match="0.1% of 1000 training rows is fewer than 2 labels"):
        kept("0.1%")
    with pytest.raises(UsageError, match="there are only 1000 training rows for 2000 labels"):
        kept("2000")


def test_the_order_has_every_row_once() -> None:
    order = label_order(Y, False, np.random.default_rng(0))
    assert sorted(order) == list(range(1000))
