"""VIME's second stage."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tabbench_mlp.model import MLPModel
from tabbench_vime.semi import VIMESemi, consistency_loss

from tabbench import Context, Labelled, Schema, Table, Task


def test_consistency_is_the_variance_over_copies_averaged_over_rows_and_outputs() -> None:
    answers = torch.tensor([[[1.0, 0.0], [2.0, 5.0]], [[3.0, 0.0], [2.0, 5.0]], [[5.0, 3.0], [2.0, 5.0]]])
    first = np.var([1.0, 3.0, 5.0]) + np.var([0.0, 0.0, 3.0])
    assert float(consistency_loss(answers)) == pytest.approx(first / 4), "two rows, two outputs"
    assert float(consistency_loss(answers[:1].expand(3, -1, -1))) == 0.0


def rows(n: int, seed: int) -> Table:
    """Four noisy copies of one hidden number."""
    generator = np.random.default_rng(seed)
    hidden = generator.normal(size=(n, 1))
    numeric = (hidden + 0.5 * generator.normal(size=(n, 4))).astype(np.float32)
    return Table(numeric, np.zeros((n, 0), dtype=np.int64), Schema(("a", "b", "c", "d")))


def labelled(table: Table) -> Labelled:
    return Labelled(table, (table.numeric.mean(axis=1) > 0).astype(np.int64))


def fitted(beta: float, unlabelled: Table | None = None) -> VIMESemi:
    method = VIMESemi(epochs=5, width=16, beta=beta, semi_epochs=15)
    context = replace(Context(root_seed=1), unlabelled=unlabelled)
    model = MLPModel(n_layers=1, width=16, lr=3e-3, batch_size=32)
    method.fit(labelled(rows(30, 0)), labelled(rows(60, 1)), Task("binary", 2), context, model)
    return method


def test_rows_without_a_label_take_part() -> None:
    many = rows(600, 2)
    method = fitted(1.0, many)
    assert method.diagnostics["unlabelled"] == 600
    test = labelled(rows(500, 3))
    assert (method.predict(test.features).argmax(axis=1) == test.y).mean() > 0.85


def test_a_larger_weight_makes_answers_more_consistent() -> None:
    many, held_out = rows(600, 2), rows(200, 4)
    swapped = Table(held_out.numeric.copy(), held_out.categorical, held_out.schema)
    swapped.numeric[:, 0] = np.roll(swapped.numeric[:, 0], 1)

    def change(beta: float) -> float:
        method = fitted(beta, many)
        return float(np.abs(method.predict(held_out) - method.predict(swapped)).mean())

    assert change(10.0) < 0.8 * change(0.0)


def test_without_weight_the_unlabelled_rows_only_shape_the_encoder() -> None:
    curves = fitted(0.0).diagnostics
    assert curves["loss"] == pytest.approx(curves["supervised"])
