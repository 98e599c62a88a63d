"""Promises about fine-tuning and hidden labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabbench.context import Context
from tabbench.contracts import JointMethod, TrainableEncoder
from tabbench.testing.common import require
from tabbench.testing.subject import CheckSkipped, JointLearner, Subject, make_like
from tabbench.testing.tables import make_labels
from tabbench.values import Labelled, Representation, Table, Task

KEPT = 24
"""Labelled rows; the labels of the other rows must stay hidden."""


def check_trainable_encoder(subject: Subject) -> None:
    """The trainable encoder starts equal to the one that encodes, and gradients reach its weights."""
    import torch

    if not _says_finetune(subject, "trainable_encoder"):
        raise CheckSkipped("the plugin says that its encoder cannot be fine-tuned (finetune=False)")
    table = subject.table()
    method = subject.train(table)
    wanted = subject.embed(table, method)
    module, prepare, _ = method.trainable_encoder()
    batch = prepare(table)
    require(all(tensor.device.type == "cpu" for tensor in batch), "prepare gave tensors that are not on the CPU")
    require(all(len(tensor) == len(table) for tensor in batch), f"prepare gave {[tuple(t.shape) for t in batch]}")
    module.eval()
    outputs = module(*batch)
    require(tuple(outputs.shape) == wanted.shape, f"the module gives {tuple(outputs.shape)}, encode {wanted.shape}")
    apart = float(np.abs(outputs.detach().cpu().numpy() - wanted).max())
    require(apart <= 1e-4 * max(float(np.abs(wanted).max()), 1.0), f"the module differs from encode by {apart:.2g}")
    module.requires_grad_(True)
    with torch.enable_grad():
        module(*batch).square().sum().backward()
    moved = any(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in module.parameters())
    require(moved, "no parameter of the module has a gradient")


def check_model_trains_an_encoder(subject: Subject) -> None:
    """A model that says so trains an encoder together with itself, and then predicts from raw rows."""
    if not _says_finetune(subject, "finetune"):
        raise CheckSkipped("the plugin says that it cannot train an encoder (finetune=False)")
    table, held_out = subject.table(64), subject.table(32, seed=99)
    y, task = make_labels(table, "multiclass")
    encoder, layer = _make_encoder(table)
    before = layer.weight.detach().clone()
    model = subject.make()
    held_out_y = make_labels(held_out, "multiclass")[0]
    model.finetune(encoder, Labelled(table, y), Labelled(held_out, held_out_y), task, Context())
    require(bool((layer.weight != before).any()), "fine-tuning did not change the encoder's weights")
    predictions = model.predict(held_out)
    require(predictions.shape == (32, task.n_classes), f"predictions of 32 rows have shape {predictions.shape}")
    require(np.isfinite(predictions).all(), "predictions are not finite")


def check_weights_count(subject: Subject) -> None:
    """A model that says so heeds the weights of rows: labels of weight 0 teach it nothing."""
    if subject.plugin is None or not subject.plugin.weights:
        raise CheckSkipped("no plugin says that it takes weights (weights=True)")
    table, held_out = subject.table(128), subject.table(32, seed=99)
    y, task = make_labels(table, "multiclass")
    validation = Labelled(held_out, make_labels(held_out, "multiclass")[0])
    both = Labelled(table.join(table), np.concatenate([y, (y + 1) % task.n_classes]))
    right = []
    for of_true, of_false in ((2.0, 0.0), (0.0, 2.0)):
        model = subject.make()
        weights = np.repeat([of_true, of_false], len(y)).astype(np.float32)
        model.fit(both, validation, task, Context(weights=weights))
        right.append(float((model.predict(table).argmax(axis=1) == y).mean()))
    require(
        right[0] > right[1],
        f"{right[0]:.0%} of the rows are predicted right if wrong labels weigh nothing, "
        f"{right[1]:.0%} if right labels do",
    )


def check_seeds_make_no_difference(subject: Subject) -> None:
    """A model that says so predicts the same with every seed."""
    if subject.plugin is None or subject.plugin.seeded:
        raise CheckSkipped("no plugin says that seeds make no difference (seeded=False)")
    table, held_out = subject.table(128), subject.table(32, seed=99)
    y, task = make_labels(table, "multiclass")
    validation = Labelled(held_out, make_labels(held_out, "multiclass")[0])
    predictions = []
    for seed in range(2):
        model = subject.make()
        model.fit(Labelled(table, y), validation, task, Context(root_seed=seed))
        predictions.append(model.predict(held_out))
    require(np.array_equal(*predictions), "predictions differ with the seed, but the plugin says seeded=False")


def _says_finetune(subject: Subject, method: str) -> bool:
    """What the plugin says; of a class that no plugin offers, whether it has the method."""
    if subject.plugin is not None:
        return subject.plugin.finetune
    found = getattr(subject.load(), method, None)
    return found is not None and not found.__module__.startswith("tabbench.contracts.")


def _make_encoder(table: Table) -> tuple[TrainableEncoder, Any]:
    """A linear layer with a ReLU on all columns as numbers, and the layer itself."""
    import torch

    def prepare(rows: Table) -> tuple[Any, ...]:
        numbers = np.concatenate([np.nan_to_num(rows.numeric), rows.categorical], axis=1)
        return (torch.from_numpy(numbers.astype(np.float32)),)

    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = torch.nn.Linear(table.n_features, 8)
    return TrainableEncoder(torch.nn.Sequential(layer, torch.nn.ReLU()), prepare), layer


def check_hidden_labels_make_no_difference(subject: Subject) -> None:
    """With few labels, the labels of the other rows are out of reach: exchanging them changes no bit."""
    table = subject.table(64)
    y, task = make_labels(table, "multiclass")
    swapped = y.copy()
    swapped[KEPT:] = np.roll(y[KEPT:], 7)
    learn = _encodings if subject.kind in ("ssl", "joint_representation") else _predictions
    first, again, second = (learn(subject, table, labels, task) for labels in (y, y.copy(), swapped))
    if not np.array_equal(first, again):
        raise CheckSkipped("cannot be judged: training twice with the same seed differs")
    require(np.array_equal(first, second), "labels that are hidden changed what was learned")


def _encodings(subject: Subject, table: Table, y: NDArray[Any], task: Task) -> NDArray[np.float32]:
    """What an encoder gives that was pretrained on all rows, and probed by the labels that are kept."""
    held_out = make_like(table, rows=24, seed=99)
    held_out_y = make_labels(held_out, "multiclass")[0]
    kept = np.arange(KEPT)
    method = subject.make()
    method.device = "cpu"
    if isinstance(method, JointMethod):
        method.fit(Labelled(table.take(kept), y[kept]), Labelled(held_out, held_out_y), task, Context())
    else:
        context = replace(Context(), validation=held_out, probe=_make_probe(table, y, kept))
        method.pretrain(table, context)
    return subject.embed(table, method)


def _make_probe(table: Table, y: NDArray[Any], kept: NDArray[Any]) -> Callable[[Callable[[Table], Any]], float]:
    def probe(encode: Callable[[Table], Representation]) -> float:
        rows = encode(table.take(kept)).array.reshape(len(kept), -1)
        return float(np.abs(np.corrcoef(rows.mean(axis=1) + 1e-9 * np.arange(len(kept)), y[kept])[0, 1]))

    return probe


def _predictions(subject: Subject, table: Table, y: NDArray[Any], task: Task) -> NDArray[np.float32]:
    held_out = make_like(table, rows=32, seed=99)
    learner = subject.make()
    learner = JointLearner(learner) if isinstance(learner, JointMethod) else learner
    # Slices, so that the hidden labels stand behind the kept ones in the same memory.
    train = Labelled(table.take(slice(0, KEPT)), y[:KEPT])
    learner.fit(train, Labelled(held_out, make_labels(held_out, "multiclass")[0]), task, Context())
    predictions: NDArray[np.float32] = learner.predict(table)
    return predictions


TRAINABLE_CHECKS = (check_trainable_encoder,)
FINETUNED_CHECKS = (check_model_trains_an_encoder, check_weights_count, check_seeds_make_no_difference)
HIDDEN_LABEL_CHECKS = (check_hidden_labels_make_no_difference,)
