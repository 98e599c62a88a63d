import pytest
import torch
from torch import nn

from tabbench import Context, DeadlineReached, TabbenchError
from tabbench.nn import Pretext, Terms, train_pretext

TARGET = torch.tensor([3.0])


class Point(nn.Module):
    """One number that training moves; it notes in which mode it was read."""

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Parameter(torch.zeros(1))
        self.modes: list[bool] = []

    def loss(self, rows: torch.Tensor, target: float = 3.0) -> Terms:
        self.modes.append(self.training)
        distance = ((self.place - target) ** 2).sum()
        return {"loss": distance, "rows": torch.tensor(float(len(rows)))}


def sgd(point: Point, lr: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.SGD(point.parameters(), lr=lr)


def test_training_minimises_the_loss_and_says_what_it_did() -> None:
    point = Point()
    diagnostics = train_pretext(
        point, sgd(point), Pretext(10, point.loss), Context(), epochs=20, batch_size=4, drop_last=True
    )
    assert point.place.item() == pytest.approx(3.0, abs=1e-2)
    assert diagnostics["epochs"] == diagnostics["best_epoch"] == 20
    assert diagnostics["first"]["loss"] > diagnostics["last"]["loss"]
    assert diagnostics["last"]["rows"] == 4  # the incomplete third batch was left out
    assert not point.training


def test_each_epoch_is_reported_with_every_term() -> None:
    point = Point()
    reports = []
    context = Context(on_report=lambda step, total, metrics: reports.append((step, total, sorted(metrics))))
    train_pretext(
        point,
        sgd(point),
        Pretext(8, point.loss),
        context,
        epochs=2,
        batch_size=4,
        validation=Pretext(4, point.loss),
    )
    assert reports == [(1, 2, ["loss", "rows", "validation_loss"]), (2, 2, ["loss", "rows", "validation_loss"])]


def test_early_stopping_restores_the_best_weights() -> None:
    # Training walks to 3, validation wants 1: the best epoch is on the way.
    point = Point()
    diagnostics = train_pretext(
        point,
        sgd(point, 0.05),
        Pretext(4, point.loss),
        Context(),
        epochs=100,
        batch_size=4,
        validation=Pretext(4, lambda rows: point.loss(rows, target=1.0)),
        patience=3,
    )
    assert diagnostics["epochs"] == diagnostics["best_epoch"] + 3 < 100
    assert point.place.item() == pytest.approx(1.0, abs=0.2)


def test_validation_is_measured_in_evaluation_mode() -> None:
    point = Point()
    modes: list[bool] = []

    def validation(rows: torch.Tensor) -> Terms:
        modes.append(point.training)
        return point.loss(rows)

    train_pretext(
        point, sgd(point), Pretext(4, point.loss), Context(), epochs=2, batch_size=4, validation=Pretext(3, validation)
    )
    assert modes == [False, False]
    assert point.modes == [True, False, True, False]


def test_schedule_gives_each_step_its_rate() -> None:
    point = Point()
    optimiser = sgd(point, lr=2.0)
    seen: list[float] = []

    def loss(rows: torch.Tensor) -> Terms:
        seen.append(optimiser.param_groups[0]["lr"])
        return {"loss": (point.place * 0).sum()}

    train_pretext(
        point,
        optimiser,
        Pretext(4, loss),
        Context(),
        epochs=2,
        batch_size=2,
        schedule=lambda step, total: 1 - step / total,
    )
    assert seen == [2.0, 1.5, 1.0, 0.5]


def test_dropout_follows_the_context_and_the_global_generator_is_untouched() -> None:
    dropout = nn.Dropout(0.5)
    network = nn.Sequential(nn.Linear(8, 1), dropout)
    inputs = torch.ones(6, 8)
    seen: list[torch.Tensor] = []

    def loss(rows: torch.Tensor) -> Terms:
        kept = dropout(inputs[rows])
        seen.append(kept)
        return {"loss": network[0](kept).mean()}

    before = torch.get_rng_state()
    for seed in (0, 0, 1):
        optimiser = torch.optim.SGD(network.parameters(), lr=0.0)
        train_pretext(network, optimiser, Pretext(6, loss), Context(root_seed=seed), epochs=1, batch_size=6)
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_deadline_ends_the_training_within_an_epoch() -> None:
    point = Point()
    with pytest.raises(DeadlineReached, match="in epoch 1 of 5"):
        train_pretext(point, sgd(point), Pretext(40, point.loss), Context(deadline=0.0), epochs=5, batch_size=4)
    assert len(point.modes) == 1


@pytest.mark.parametrize(("patience", "n_epochs"), [(None, 5), (2, 2)])
def test_a_training_that_diverges_says_so(patience: int | None, n_epochs: int) -> None:
    point = Point()
    epochs: list[int] = []
    context = Context(on_report=lambda step, total, metrics: epochs.append(step))
    with pytest.raises(TabbenchError, match=f"diverged: no finite validation loss in {n_epochs} epochs"):
        train_pretext(
            point,
            sgd(point, lr=1e30),
            Pretext(40, point.loss),
            context,
            epochs=5,
            batch_size=4,
            validation=Pretext(4, point.loss),
            patience=patience,
        )
    assert len(epochs) == n_epochs


def test_a_loss_that_was_finite_once_is_the_best() -> None:
    point = Point()
    losses = iter([2.0, float("nan"), -float("inf"), 3.0])
    diagnostics = train_pretext(
        point,
        sgd(point),
        Pretext(4, point.loss),
        Context(),
        epochs=4,
        batch_size=4,
        validation=Pretext(4, lambda rows: {"loss": torch.tensor(next(losses))}),
        patience=9,
    )
    assert diagnostics["best_epoch"] == 1
