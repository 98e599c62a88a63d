"""The loop of every pretraining. What it does for each built-in method is in ``tests/plugins/test_resume.py``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import Stopping
from torch import Tensor, nn

from tabbench import Context, DeadlineReached, Pruned, Representation, TabbenchError
from tabbench.errors import TabbenchWarning
from tabbench.nn import Hooks, Pretext, Terms, backward_in_parts, train_pretext


class Point(nn.Module):
    """One number that training moves; it notes in which mode it was read."""

    def __init__(self, place: float = 0.0) -> None:
        super().__init__()
        self.place = nn.Parameter(torch.tensor([place]))
        self.modes: list[bool] = []

    def loss(self, rows: Tensor, target: float = 3.0) -> Terms:
        self.modes.append(self.training)
        distance = ((self.place - target) ** 2).sum()
        return {"loss": distance, "rows": torch.tensor(float(len(rows)))}

    def encode(self, table: Any) -> Representation:
        return Representation(self.place.detach().numpy().copy()[:, None])


def walk(
    point: Point, context: Context | None = None, *, n_rows: int = 4, lr: float = 0.1, **options: Any
) -> dict[str, Any]:
    """Train ``point`` towards 3."""
    optimiser = torch.optim.SGD(point.parameters(), lr=lr)
    train = options.pop("train", Pretext(n_rows, point.loss))
    settings = {"epochs": 5, "batch_size": 4, "identity": (), **options}
    return train_pretext(point, optimiser, train, context or Context(), **settings)


def near(point: Point, target: float) -> Pretext:
    return Pretext(4, lambda rows: point.loss(rows, target))


def test_training_minimises_the_loss_and_says_what_it_did() -> None:
    point = Point()
    diagnostics = walk(point, n_rows=10, epochs=20, drop_last=True)
    assert point.place.item() == pytest.approx(3.0, abs=1e-2)
    assert diagnostics["epochs"] == diagnostics["best_epoch"] == 20
    assert diagnostics["selected_by"] == "last"
    assert diagnostics["loss"][0] > diagnostics["loss"][-1]
    assert diagnostics["rows"] == [4.0] * 20  # the incomplete third batch was left out
    assert not point.training


def test_each_epoch_is_reported_with_every_term() -> None:
    point = Point()
    reports = []
    context = Context(on_report=lambda step, total, metrics: reports.append((step, total, sorted(metrics))))
    walk(point, context, epochs=2, validation=near(point, 3.0))
    assert reports == [(1, 2, ["loss", "rows", "validation_loss"]), (2, 2, ["loss", "rows", "validation_loss"])]


def test_a_score_of_validation_rows_is_what_a_tuner_reads() -> None:
    point = Point()
    reports: list[dict[str, float]] = []
    context = Context(on_report=lambda step, total, metrics: reports.append(metrics))
    validation = Pretext(4, lambda rows: {**point.loss(rows), "score": point.place.detach()[0] * 10})
    walk(point, context, epochs=1, validation=validation)
    assert reports[0]["validation"] == pytest.approx(10 * 0.6)


def test_early_stopping_restores_the_best_weights() -> None:
    # Training walks to 3, validation wants 1: the best epoch is on the way.
    point = Point()
    diagnostics = walk(point, lr=0.05, epochs=100, validation=near(point, 1.0), patience=3)
    assert diagnostics["epochs"] == diagnostics["best_epoch"] + 3 < 100
    assert point.place.item() == pytest.approx(1.0, abs=0.2)


def test_without_patience_all_epochs_are_run_and_the_best_weights_are_kept() -> None:
    point = Point()
    diagnostics = walk(point, lr=0.05, epochs=30, validation=near(point, 1.0))
    assert diagnostics["epochs"] == 30
    assert diagnostics["selected_by"] == "validation_loss"
    assert point.place.item() == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("by", ["validation_loss", "probe"])
def test_a_training_that_only_hurts_is_not_kept(by: str) -> None:
    point = Point()
    probe = None if by == "validation_loss" else lambda encode: -float(encode(None).array[0, 0])
    context = Context(probe=probe)
    diagnostics = walk(point, context, validation=near(point, -1.0), encode=point.encode)
    assert diagnostics["selected_by"] == by
    assert diagnostics["best_epoch"] == 0
    assert point.place.item() == 0.0
    assert diagnostics["epochs"] == 5


def probe_of(scores: list[float]) -> Callable[[Any], float]:
    told = iter(scores)
    return lambda encode: next(told)


@pytest.mark.parametrize(
    "scores, best",
    [([0.5, 0.3, 0.9, 0.1], 4), ([0.5, 0.5, 0.5, 0.5], 2), ([0.5, 0.2, 0.9, 0.9], 4), ([0.9, 0.1, 0.2, 0.3], 0)],
    ids=["the best", "training beats an equal start", "of equal ones the first", "the start"],
)
def test_the_best_weights_by_probe_are_kept(scores: list[float], best: int) -> None:
    point = Point()
    places: list[float] = []
    context = Context(probe=probe_of(scores), on_report=lambda step, total, metrics: places.append(point.place.item()))
    diagnostics = walk(point, context, encode=point.encode, probe_every=2)
    assert diagnostics["probe"] == [[epoch, score] for epoch, score in zip([0, 2, 4, 5], scores, strict=True)]
    assert diagnostics["best_epoch"] == best
    assert point.place.item() == [0.0, *places][best]


@pytest.mark.parametrize("epochs, probed", [(5, [0, 1, 2, 3, 4, 5]), (100, [*range(0, 101, 10)])])
def test_probes_are_about_ten(epochs: int, probed: list[int]) -> None:
    point = Point()
    diagnostics = walk(point, Context(probe=lambda encode: 0.0), encode=point.encode, epochs=epochs)
    assert [epoch for epoch, _ in diagnostics["probe"]] == probed


def test_a_training_that_stops_early_is_probed_at_its_end() -> None:
    point = Point()
    context = Context(probe=lambda encode: 0.0)
    diagnostics = walk(
        point, context, encode=point.encode, epochs=100, validation=near(point, -1.0), patience=3, probe_every=50
    )
    assert diagnostics["epochs"] == 4
    assert diagnostics["probe"] == [[0, 0.0], [4, 0.0]]


def test_validation_is_measured_in_evaluation_mode() -> None:
    point = Point()
    walk(point, epochs=2, validation=near(point, 3.0))
    assert point.modes == [False, True, False, True, False]


def test_schedule_gives_each_step_its_rate() -> None:
    point = Point()
    optimiser = torch.optim.SGD(point.parameters(), lr=2.0)
    seen: list[float] = []

    def loss(rows: Tensor) -> Terms:
        seen.append(optimiser.param_groups[0]["lr"])
        return {"loss": (point.place * 0).sum()}

    options: dict[str, Any] = {"epochs": 2, "batch_size": 2, "identity": ()}
    train_pretext(
        point, optimiser, Pretext(4, loss), Context(), schedule=lambda step, total: 1 - step / total, **options
    )
    assert seen == [2.0, 1.5, 1.0, 0.5]


def test_hooks_are_called_in_their_order() -> None:
    point = Point()
    calls: list[Any] = []

    def after_epoch(done: int, total: int) -> dict[str, float]:
        calls.append(("after epoch", done, total))
        return {"place": point.place.item()}

    hooks = Hooks(
        before_epoch=lambda: calls.append("before epoch"),
        after_step=lambda step, total: calls.append(("after step", step, total, point.place.item())),
        after_epoch=after_epoch,
    )
    diagnostics = walk(point, n_rows=8, epochs=2, hooks=hooks)
    places = [3 - 3 * 0.8 ** (step + 1) for step in range(4)]  # each step goes a fifth of the way to 3
    steps = [("after step", step, 4, pytest.approx(places[step])) for step in range(4)]
    first, second = ["before epoch", *steps[:2], ("after epoch", 2, 4)], ["before epoch", *steps[2:]]
    assert calls == [("after epoch", 0, 4), *first, *second, ("after epoch", 4, 4)]
    assert diagnostics["start"] == {"place": 0.0}
    assert len(diagnostics["place"]) == 2


def test_a_loss_can_compute_its_gradients_in_parts() -> None:
    whole, parted = Point(), Point()

    def loss(rows: Tensor) -> Terms:
        weights = 1 + rows.float()

        def of_part(part: slice) -> Tensor:
            return (weights[part] * (parted.place - 3) ** 2).mean()

        return {"loss": backward_in_parts(of_part, len(rows), 3)}

    walk(parted, n_rows=8, batch_size=8, lr=0.01, train=Pretext(8, loss, in_parts=True))
    walk(
        whole,
        n_rows=8,
        batch_size=8,
        lr=0.01,
        train=Pretext(8, lambda rows: {"loss": ((1 + rows.float()) * (whole.place - 3) ** 2).mean()}),
    )
    assert parted.place.item() == pytest.approx(whole.place.item(), rel=1e-5)


def test_dropout_follows_the_context_and_the_global_generator_is_untouched() -> None:
    dropout = nn.Dropout(0.5)
    network = nn.Sequential(nn.Linear(8, 1), dropout)
    inputs = torch.ones(6, 8)
    seen: list[Tensor] = []

    def loss(rows: Tensor) -> Terms:
        kept = dropout(inputs[rows])
        seen.append(kept)
        return {"loss": network[0](kept).mean()}

    before = torch.get_rng_state()
    for seed in (0, 0, 1):
        optimiser = torch.optim.SGD(network.parameters(), lr=0.0)
        context = Context(root_seed=seed)
        train_pretext(network, optimiser, Pretext(6, loss), context, epochs=1, batch_size=6, identity=())
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_deadline_ends_the_training_within_an_epoch() -> None:
    point = Point()
    with pytest.raises(DeadlineReached, match="in epoch 1 of 5"):
        walk(point, Context(deadline=0.0), n_rows=40)
    assert len(point.modes) == 1


def test_a_training_that_diverges_says_so_at_once() -> None:
    point = Point()
    with pytest.raises(TabbenchError, match="diverged: its loss is (inf|nan) in epoch 1; try a lower lr"):
        walk(point, n_rows=40, lr=1e30)


@pytest.mark.parametrize(("patience", "n_epochs"), [(None, 5), (2, 2)])
def test_validation_rows_without_a_finite_loss_are_an_error(patience: int | None, n_epochs: int) -> None:
    point = Point()
    validation = Pretext(4, lambda rows: {"loss": torch.tensor(float("nan"))})
    with pytest.raises(TabbenchError, match=f"no finite validation loss in {n_epochs} epochs"):
        walk(point, validation=validation, patience=patience)


def test_a_loss_that_was_finite_once_is_the_best() -> None:
    point = Point()
    losses = iter([9.0, 2.0, float("nan"), -float("inf"), 3.0])
    validation = Pretext(4, lambda rows: {"loss": torch.tensor(next(losses))})
    assert walk(point, epochs=4, validation=validation, patience=9)["best_epoch"] == 1


# Checkpoints.


class Wanderer(Point):
    """Its loss draws from a generator that is its own, from dropout, and from what an epoch draws."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bank", torch.zeros(1))
        self.bank: Tensor
        self.generator = torch.Generator().manual_seed(7)
        self.of_epoch = torch.zeros(12)

    def draw(self) -> None:
        self.of_epoch = torch.randn(12, generator=self.generator)

    def store(self, step: int, total: int) -> None:
        self.bank += self.place.detach()

    def wander(self, rows: Tensor) -> Terms:
        noise = torch.randn(len(rows), generator=self.generator) + torch.randn(len(rows)) + self.of_epoch[rows]
        return {"loss": ((self.place - noise - 0.01 * self.bank) ** 2).mean()}

    def run(self, context: Context, **options: Any) -> dict[str, Any]:
        optimiser = torch.optim.AdamW(self.parameters(), lr=0.1)
        hooks = Hooks(before_epoch=self.draw, after_step=self.store)
        settings = {"epochs": 3, "batch_size": 4, "identity": ("wanderer",), "hooks": hooks, **options}
        return train_pretext(
            self, optimiser, Pretext(12, self.wander), context, generators=(self.generator,), **settings
        )


STEPS_AND_REPORTS = 3 * 4
"""Each of three epochs looks at the time after each of three steps, and in its report."""


@pytest.mark.parametrize("looks", range(1, STEPS_AND_REPORTS))
def test_a_training_interrupted_anywhere_goes_on_to_the_same_bytes(tmp_path: Path, looks: int) -> None:
    def probe(encode: Any) -> float:
        return -abs(float(encode(None).array[0, 0]))

    undisturbed, first, second = Wanderer(), Wanderer(), Wanderer()
    expected = undisturbed.run(Context(probe=probe), encode=undisturbed.encode)
    with pytest.raises(DeadlineReached):
        first.run(Stopping(scratch=tmp_path, probe=probe, looks=looks), encode=first.encode)
    told: list[int] = []
    context = Context(scratch=tmp_path, probe=probe, on_report=lambda step, total, metrics: told.append(step))
    assert second.run(context, encode=second.encode) == expected
    assert told == list(range(looks // 4 + 1, 4))
    assert torch.equal(second.place, undisturbed.place)
    assert torch.equal(second.bank, undisturbed.bank)


class KilledError(Exception):
    """Stands for a kill: nothing is written on the way out."""


def test_a_killed_training_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    undisturbed, first, second = Wanderer(), Wanderer(), Wanderer()
    undisturbed.run(Context())
    steps: list[int] = []

    def kill(step: int, total: int) -> None:
        first.store(step, total)
        if step == 4:
            raise KilledError

    hooks = Hooks(before_epoch=first.draw, after_step=kill)
    with pytest.raises(KilledError):
        first.run(Context(scratch=tmp_path), checkpoint_seconds=0.0, hooks=hooks)

    def note(step: int, total: int) -> None:
        second.store(step, total)
        steps.append(step)

    second.run(Context(scratch=tmp_path), hooks=Hooks(before_epoch=second.draw, after_step=note))
    assert steps == [4, 5, 6, 7, 8]
    assert torch.equal(second.place, undisturbed.place)


def test_checkpoints_are_not_written_more_often_than_wanted(tmp_path: Path) -> None:
    Wanderer().run(Context(scratch=tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_pruned_trial_leaves_a_checkpoint_behind(tmp_path: Path) -> None:
    def give_up(step: int, total: int, metrics: dict[str, float]) -> None:
        raise Pruned

    with pytest.raises(Pruned):
        Wanderer().run(Context(scratch=tmp_path, on_report=give_up))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]


def interrupted(folder: Path, looks: int = 5) -> Path:
    with pytest.raises(DeadlineReached):
        Wanderer().run(Stopping(scratch=folder, looks=looks))
    return folder / "checkpoint.safetensors"


@pytest.mark.parametrize("place", [3, 40, -3], ids=["length", "header", "weights"])
def test_a_damaged_checkpoint_is_set_aside_and_the_training_starts_again(tmp_path: Path, place: int) -> None:
    undisturbed, resumed = Wanderer(), Wanderer()
    undisturbed.run(Context())
    path = interrupted(tmp_path)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    epochs: list[int] = []
    with pytest.warns(TabbenchWarning, match="is damaged .* training starts over"):
        resumed.run(Context(scratch=tmp_path, on_report=lambda step, total, metrics: epochs.append(step)))
    assert epochs == [1, 2, 3]
    assert torch.equal(resumed.place, undisturbed.place)
    assert (tmp_path / "checkpoint.safetensors.damaged").read_bytes() == content
    assert not path.exists()


@pytest.mark.parametrize(
    "context, options",
    [
        ({"root_seed": 1}, {}),
        ({}, {"identity": ("another",)}),
        ({}, {"epochs": 4}),
        ({}, {"batch_size": 6}),
        ({}, {"stage": "2"}),
        ({"probe": lambda encode: 0.0}, {}),
    ],
    ids=["seed", "identity", "epochs", "batch size", "stage", "probe"],
)
def test_a_checkpoint_of_another_training_is_not_resumed(
    tmp_path: Path, context: dict[str, Any], options: dict[str, Any]
) -> None:
    interrupted(tmp_path)
    fresh, other = Wanderer(), Wanderer()
    fresh.run(Context(**context), **options)
    other.run(Context(scratch=tmp_path, **context), **options)
    assert torch.equal(fresh.place, other.place)


def test_the_end_of_a_stage_is_kept_for_the_stages_after_it(tmp_path: Path) -> None:
    first, again = Wanderer(), Wanderer()
    expected = first.run(Context(scratch=tmp_path), stage="1")
    calls: list[int] = []
    hooks = Hooks(after_step=lambda step, total: calls.append(step))
    assert again.run(Context(scratch=tmp_path), stage="1", hooks=hooks) == expected
    assert calls == []
    assert torch.equal(again.place, first.place)
