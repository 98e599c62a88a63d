"""What every built-in method with an encoder network promises, whatever its pretext task."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tabbench_binrecon.method import BinRecon
from tabbench_ptarl.method import PTaRLRepresentation
from tabbench_subtab.method import SubTab
from tabbench_switchtab.method import SwitchTab, SwitchTabSupervised
from tabbench_vime.method import VIME

from tabbench import Context, JointMethod, Labelled, Representation, Schema, SSLMethod, Table, Task
from tabbench.frames import fit_schema, to_table

CASES: dict[str, tuple[type[SSLMethod], dict[str, Any]]] = {
    "vime": (VIME, {"epochs": 2}),
    "vime-official": (VIME, {"epochs": 2, "static_corruption": True, "corrupt_level": "encoded"}),
    "subtab": (SubTab, {"epochs": 2, "width": 32, "latent": 16, "batch_size": 64}),
    "subtab-six": (
        SubTab,
        {"epochs": 2, "n_subsets": 6, "overlap": 0.1, "noise": "gaussian", "dropout": 0.1, "width": 32, "latent": 16},
    ),
    "vime-quantile": (VIME, {"epochs": 2, "scaling": "quantile"}),
    "binrecon": (BinRecon, {"epochs": 2, "corruption": "shuffle"}),
    "binxent": (BinRecon, {"epochs": 2, "loss": "xent", "corruption": "mask", "batch_size": 32}),
    "switchtab-tokens": (SwitchTab, {"epochs": 2, "width": 16, "layers": 2}),
    "switchtab-mlp": (SwitchTab, {"epochs": 2, "encoder": "mlp", "width": 32, "export": "sz", "decoder_depth": 2}),
    "switchtab-mean": (SwitchTab, {"epochs": 2, "width": 8, "layers": 1, "pooling": "mean", "export": "xs"}),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    """A method with settings, by name."""
    name: str = request.param
    return name


def make(case: str) -> SSLMethod:
    method, settings = CASES[case]
    return method(**settings)


def mixed_frame(n_rows: int = 150, seed: int = 0) -> pd.DataFrame:
    """Numbers on different scales, a constant, categories; missing values in both kinds."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n_rows)
    frame = pd.DataFrame(
        {
            "size": size,
            "price": 1000 * np.exp(size + 0.1 * rng.normal(size=n_rows)),
            "constant": 1.0,
            "noise": rng.uniform(size=n_rows),
            "colour": np.where(size > 0, "red", rng.choice(["blue", "green"], n_rows)),
            "kind": rng.choice(["a", "b"], n_rows),
        }
    )
    frame.loc[::7, "noise"] = np.nan
    frame.loc[::9, "kind"] = None
    return frame


def mixed_table(n_rows: int = 150, seed: int = 0) -> Table:
    schema = fit_schema(mixed_frame())
    return to_table(mixed_frame(n_rows, seed), schema)


def numeric_table(n_rows: int, n_columns: int) -> Table:
    values = np.random.default_rng(1).normal(size=(n_rows, n_columns)).astype(np.float32)
    return Table(values, np.empty((n_rows, 0), dtype=np.int64), Schema(tuple(f"x{j}" for j in range(n_columns))))


def test_same_seed_gives_the_same_embedding_and_another_seed_another(case: str) -> None:
    arrays = []
    for seed in (0, 0, 1):
        method = make(case)
        method.pretrain(mixed_table(), Context(root_seed=seed))
        arrays.append(method.encode(mixed_table()).array)
    assert np.array_equal(arrays[0], arrays[1])
    assert not np.allclose(arrays[0], arrays[2])


def test_training_changes_the_untrained_encoder(case: str) -> None:
    untrained, trained = make(case), make(case)
    untrained.initialise(mixed_table(), Context())
    trained.pretrain(mixed_table(), Context())
    before, after = untrained.encode(mixed_table()).array, trained.encode(mixed_table()).array
    assert before.shape == after.shape
    assert not np.allclose(before, after)


def test_embedding_is_finite_float32_without_dependence_on_neighbours(case: str) -> None:
    method = make(case)
    method.pretrain(mixed_table(), Context())
    rows = mixed_table(40, seed=3)
    array = method.encode(rows).array
    assert array.dtype == np.float32
    assert np.isfinite(array).all()
    assert np.array_equal(array, method.encode(rows).array)
    alone = np.concatenate([method.encode(rows.take(slice(i, i + 1))).array for i in range(5)])
    assert np.allclose(alone, array[:5], atol=1e-5)
    order = np.arange(40)[::-1].copy()
    assert np.allclose(method.encode(rows.take(order)).array, array[order], atol=1e-5)


def test_no_rows_give_an_empty_embedding(case: str) -> None:
    method = make(case)
    method.initialise(mixed_table(), Context())
    wanted = method.encode(mixed_table()).array.shape[1:]
    assert method.encode(mixed_table().take(slice(0, 0))).array.shape == (0, *wanted)


def test_saved_method_encodes_as_before(case: str, tmp_path: Path) -> None:
    method = make(case)
    method.pretrain(mixed_table(), Context())
    method.save(tmp_path)
    again = type(method).load(tmp_path)
    assert again.config == method.config
    assert np.array_equal(again.encode(mixed_table(seed=2)).array, method.encode(mixed_table(seed=2)).array)


def test_method_is_a_transformer_of_data_frames(case: str) -> None:
    frame = mixed_frame()
    method = make(case)
    embedding = method.fit_transform(frame, y=np.full(len(frame), np.nan))
    assert embedding.shape[0] == len(frame)
    assert np.array_equal(embedding, method.transform(frame))
    unseen = frame.head(3).assign(colour="ultraviolet", price=np.nan)
    assert np.isfinite(method.transform(unseen)).all()


@pytest.mark.parametrize("n_columns", [1, 2, 5, 8, 27, 784])
def test_every_column_influences_the_embedding(case: str, n_columns: int) -> None:
    table = numeric_table(60, n_columns)
    method = make(case)
    method.initialise(table, Context())
    assert every_column_matters(method.encode, table)


@pytest.mark.parametrize("n_columns", [8, 27, 784])
def test_wide_and_narrow_tables_are_trained_on(case: str, n_columns: int) -> None:
    cls, settings = CASES[case]
    if n_columns > 100 and settings.get("encoder", "tokens") == "tokens" and cls is SwitchTab:
        settings = {**settings, "width": 2, "heads": 1, "layers": 1}  # attention over 784 tokens
    table = numeric_table(64, n_columns)
    method = cls(**{**settings, "epochs": 1})
    method.pretrain(table, Context())
    assert method.diagnostics["epochs"] == 1
    assert every_column_matters(method.encode, table)


JOINT: list[tuple[type[JointMethod], dict[str, Any]]] = [
    (PTaRLRepresentation, {"width": 32, "projector_width": 16}),
    (SwitchTabSupervised, {"encoder": "mlp", "width": 32}),
]


@pytest.mark.parametrize("n_columns", [8, 27, 784])
@pytest.mark.parametrize(("cls", "settings"), JOINT)
def test_methods_with_labels_are_trained_on_wide_and_narrow_tables(
    cls: type[JointMethod], settings: dict[str, Any], n_columns: int
) -> None:
    table = numeric_table(64, n_columns)
    part = Labelled(table, np.arange(64) % 3)
    method = cls(**settings, epochs=1)
    method.fit(part, part, Task("multiclass", 3), Context())
    assert every_column_matters(method.encode, table)


def every_column_matters(encode: Callable[[Table], Representation], table: Table) -> bool:
    """Whether the embedding of a row changes with any of its numbers: the first and the last 16 columns."""
    n_columns = table.numeric.shape[1]
    low, high, middle = table.numeric.min(axis=0), table.numeric.max(axis=0), np.median(table.numeric, axis=0)
    row = table.numeric[0]
    columns = np.unique([*range(min(n_columns, 16)), *range(max(n_columns - 16, 0), n_columns)])  # head and tail
    changed = np.repeat(row[None], len(columns) + 1, axis=0)  # the last row stays as it is
    changed[np.arange(len(columns)), columns] = np.where(row > middle, low, high)[columns]
    batch = Table(changed, np.empty((len(changed), 0), dtype=np.int64), table.schema)
    array = encode(batch).array.reshape(len(changed), -1)
    return bool((np.abs(array[:-1] - array[-1]).max(axis=1) > 0).all())


def test_tables_of_categories_only_and_of_one_row_work(case: str) -> None:
    schema = Schema((), ("c", "d"), (("x", "y"), ("u", "v", "w")))
    codes = np.random.default_rng(0).integers(2, 4, size=(50, 2))
    table = Table(np.empty((50, 0), dtype=np.float32), codes, schema)
    method = make(case)
    method.pretrain(table, Context())
    assert np.isfinite(method.encode(table).array).all()
    method.pretrain(mixed_table().take(slice(0, 1)), Context())
    assert np.isfinite(method.encode(mixed_table()).array).all()


def test_early_stopping_looks_at_validation_rows(case: str) -> None:
    cls, settings = CASES[case]
    reports: list[dict[str, float]] = []
    context = Context(
        validation=mixed_table(50, seed=5), on_report=lambda step, total, metrics: reports.append(metrics)
    )
    method = cls(**{**settings, "epochs": 40, "patience": 1})
    method.pretrain(mixed_table(), context)
    assert all(np.isfinite(report["validation_loss"]) for report in reports)
    losses = [report["validation_loss"] for report in reports]
    untrained = method.diagnostics["start"]["validation_loss"]
    assert method.diagnostics["best_epoch"] == int(np.argmin([untrained, *losses]))
    assert method.diagnostics["selected_by"] == "validation_loss"
    assert method.diagnostics["epochs"] == len(losses)


def test_the_corruption_of_validation_rows_is_drawn_once(case: str) -> None:
    """Else early stopping would compare noise: without learning, every epoch has the same loss."""
    cls, settings = CASES[case]
    losses: list[float] = []
    context = Context(
        validation=mixed_table(50, seed=5),
        on_report=lambda step, total, metrics: losses.append(metrics["validation_loss"]),
    )
    cls(**{**settings, "epochs": 3, "lr": 1e-12}).pretrain(mixed_table(), context)
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)


@pytest.mark.parametrize(
    ("case", "draw", "argument"),
    [
        ("vime", "tabbench_vime.method.draw_from_columns", 0),
        ("subtab", "tabbench_subtab.method.draw_from_columns", 0),
        ("binrecon", "tabbench_binrecon.method.draw_from_columns", 0),
        ("switchtab-mlp", "tabbench_switchtab.method.redraw", 1),
    ],
)
def test_validation_rows_are_corrupted_with_values_of_training_rows(
    monkeypatch: pytest.MonkeyPatch, case: str, draw: str, argument: int
) -> None:
    module, _, name = draw.rpartition(".")
    original = getattr(importlib.import_module(module), name)
    sizes: set[int] = set()

    def noted(*arguments: Any) -> torch.Tensor:
        sizes.add(len(arguments[argument]))
        drawn: torch.Tensor = original(*arguments)
        return drawn

    monkeypatch.setattr(draw, noted)
    make(case).pretrain(mixed_table(150), Context(validation=mixed_table(50, seed=5)))
    assert sizes == {150}


def test_inputs_and_the_global_generator_stay_as_they_were(case: str) -> None:
    table = mixed_table()
    numeric, categorical = table.numeric.copy(), table.categorical.copy()
    before = torch.get_rng_state()
    method = make(case)
    method.pretrain(table, Context())
    method.encode(table)
    assert np.array_equal(table.numeric, numeric, equal_nan=True)
    assert np.array_equal(table.categorical, categorical)
    assert torch.equal(torch.get_rng_state(), before)


def test_every_preset_is_valid_and_says_its_source(case: str) -> None:
    cls, _ = CASES[case]
    presets = cls.Config.presets()
    assert {"quick", "standard", "paper"} <= set(presets)
    for name, preset in presets.items():
        settings = dict(preset)
        assert settings.pop("source"), name
        cls.Config.resolve(settings, name)


def test_search_space_lies_within_what_a_user_may_set(case: str) -> None:
    cls, _ = CASES[case]
    space = cls.Config.search_space()
    assert len(space) >= 3
    for name, search in space.items():
        ends = search.values if hasattr(search, "values") else (search.low, search.high)
        for value in ends:
            cls.Config.resolve({name: value}, case)


def test_representation_is_flat_or_has_tokens(case: str) -> None:
    method = make(case)
    method.initialise(mixed_table(), Context())
    representation = method.encode(mixed_table())
    assert isinstance(representation, Representation)
    assert len(representation) == 150
