"""Every method that is interrupted in the middle of its training goes on to the bytes of an undisturbed one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from harness import Stopping
from small_settings import TINY_TJEPA
from tabbench_binrecon.method import BinRecon
from tabbench_mlp.model import MLPModel
from tabbench_ptarl.method import PTaRL, PTaRLRepresentation
from tabbench_subtab.method import SubTab
from tabbench_switchtab.method import SwitchTab, SwitchTabSupervised
from tabbench_tjepa.method import TJEPA
from tabbench_vime.method import VIME

from tabbench import Context, DeadlineReached, JointMethod, Labelled, SSLMethod, Table, Task
from tabbench.frames import fit_schema, to_table

TJEPA_SETTINGS: dict[str, Any] = {
    **TINY_TJEPA,
    "exp_epochs": 3,
    "exp_batch_size": 32,
    "model_dropout_prob": 0.1,
    "pred_p_dropout": 0.1,
    "probe_every": 1,
}
SMALL: dict[str, Any] = {"epochs": 3, "batch_size": 32}
CASES: dict[str, Callable[[], SSLMethod | JointMethod]] = {
    "tjepa": lambda: TJEPA(**TJEPA_SETTINGS),
    "tjepa-zero": lambda: TJEPA(**TJEPA_SETTINGS, masking="zero", predictor="mlp"),
    "vime": lambda: VIME(**SMALL),
    "vime-static": lambda: VIME(**SMALL, static_corruption=True, corrupt_level="encoded"),
    "subtab": lambda: SubTab(**SMALL, width=16, latent=8, dropout=0.1),
    "subtab-gaussian": lambda: SubTab(**SMALL, width=16, latent=8, noise="gaussian"),
    "binrecon": lambda: BinRecon(**SMALL, width=16, corruption="shuffle"),
    "binxent": lambda: BinRecon(**SMALL, width=16, loss="xent", corruption="mask"),
    "switchtab": lambda: SwitchTab(**SMALL, width=8, layers=1),
    "switchtab_sup": lambda: SwitchTabSupervised(**SMALL, width=8, layers=1),
    "ptarl_repr": lambda: PTaRLRepresentation(**SMALL, width=16, layers=1, projector_width=16),
    "ptarl": lambda: PTaRL(**SMALL, projector_width=16),
}
TASK = Task("multiclass", 3)


def labelled(n: int, seed: int) -> Labelled:
    random = np.random.default_rng(seed)
    size = random.normal(size=n)
    frame = pd.DataFrame(
        {
            "size": size,
            "weight": size + random.normal(size=n),
            "age": np.where(random.random(n) < 0.2, np.nan, random.random(n)),
            "colour": random.choice(["red", "green"], n),
            "kind": np.where(size > 0, "a", "b"),
        }
    )
    return Labelled(to_table(frame, fit_schema(frame)), np.digitize(size, [-0.5, 0.5]))


TRAIN, VALIDATION = labelled(100, 0), labelled(40, 1)
assert isinstance(VALIDATION.features, Table)
VALIDATION_ROWS = VALIDATION.features


def train(method: SSLMethod | JointMethod, context: Context) -> None:
    assert isinstance(TRAIN.features, Table)
    if isinstance(method, PTaRL):
        method.fit(TRAIN, VALIDATION, TASK, context, MLPModel(width=16, n_layers=1))
    elif isinstance(method, JointMethod):
        method.fit(TRAIN, VALIDATION, TASK, context)
    else:
        method.pretrain(TRAIN.features, context)


def weights(method: SSLMethod | JointMethod) -> dict[str, Any]:
    if isinstance(method, PTaRL):
        return {name: tensor.numpy() for name, tensor in method.network.state_dict().items()}
    return method.get_state()


MOMENTS = {"first epoch": 2, "between epochs": 4, "second epoch": 7}
LATER = {"second stage": 15}
"""Of methods with two stages."""


@pytest.mark.parametrize(
    "case, looks",
    [
        pytest.param(case, looks, id=f"{case}-{moment}")
        for case in CASES
        for moment, looks in {**MOMENTS, **(LATER if case.startswith("ptarl") else {})}.items()
    ],
)
def test_an_interrupted_training_ends_with_the_bytes_of_an_undisturbed_one(
    case: str, looks: int, tmp_path: Path
) -> None:
    context = Context(root_seed=3, validation=VALIDATION_ROWS, probe=probe)
    undisturbed, first, resumed = (CASES[case]() for _ in range(3))
    train(undisturbed, context)
    with pytest.raises(DeadlineReached):
        train(first, Stopping(**{**vars(context), "scratch": tmp_path, "looks": looks}))
    del first
    before = torch.get_rng_state()
    train(resumed, replace(context, scratch=tmp_path))
    assert torch.equal(torch.get_rng_state(), before)
    expected, found = weights(undisturbed), weights(resumed)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    assert resumed.diagnostics == undisturbed.diagnostics


def probe(encode: Any) -> float:
    """Something that depends on every weight of an encoder."""
    return float(np.asarray(encode(VALIDATION_ROWS).array, dtype=np.float64).std())


@pytest.mark.parametrize("case", CASES)
def test_every_method_tells_the_tuner_a_score_that_it_knows(case: str) -> None:
    from tabbench.contracts.job import Event

    scores: list[float | None] = []
    context = Context(
        validation=VALIDATION_ROWS,
        probe=probe,
        on_report=lambda step, total, metrics: scores.append(Event("", step, total, metrics).score),
    )
    train(CASES[case](), context)
    assert len(scores) == (6 if case.startswith("ptarl") else 3)
    assert all(score is not None for score in scores)
