"""Every built-in plugin keeps what tabbench promises in its name. Sized to be fast: promises do not depend on size."""

from typing import Any

import pytest

from tabbench.controls import NONE, UNTRAINED
from tabbench.registry import make_registry
from tabbench.testing import Check, Skipped, Subject, checks_for
from tabbench.testing.subject import find_subject

NETWORK = {"max_epochs": 6, "lr": 0.01, "batch_size": 32}
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("ssl", "tjepa"): {"exp_epochs": 2, "exp_batch_size": 32},
    ("ssl", "vime"): {"epochs": 2},
    ("ssl", "subtab"): {"epochs": 2, "width": 32, "latent": 16},
    ("ssl", "binrecon"): {"epochs": 2},
    ("ssl", "switchtab"): {"epochs": 2, "width": 16, "layers": 1},
    ("ssl", "switchtab_sup"): {"epochs": 2, "width": 16, "layers": 1},
    ("ssl", "ptarl"): {"epochs": 10, "batch_size": 32, "lr": 0.01},
    ("ssl", "ptarl_repr"): {"epochs": 2, "width": 32, "layers": 1},
    ("model", "linear"): {},
    ("model", "mlp"): {**NETWORK, "n_layers": 2, "width": 32, "d_embedding": 8},
    ("model", "resnet"): {**NETWORK},
    ("model", "dcnv2"): {**NETWORK},
    ("model", "autoint"): {**NETWORK},
    ("model", "ft_transformer"): {**NETWORK},
    ("model", "xgboost"): {"n_rounds": 20, "lr": 0.3},
    ("model", "catboost"): {"n_rounds": 20, "lr": 0.3},
}
SUBJECTS = [find_subject(name, kind=kind, settings=settings) for (kind, name), settings in SETTINGS.items()]
OFFLINE = [find_subject(entry.name, kind="data") for entry in make_registry().groups()["demo"]]


@pytest.mark.parametrize(
    "plugin, check",
    [
        pytest.param(subject, check, id=f"{subject}-{check}")
        for subject in [*SUBJECTS, *OFFLINE]
        for check in checks_for(subject.kind)
    ],
)
def test_built_in_plugin_keeps_its_promises(plugin: Subject, check: Check) -> None:
    check(plugin)


def test_no_built_in_method_or_model_is_left_out() -> None:
    entries = [entry for entry in make_registry().entries() if entry.distribution == "tabbench-ssl"]
    offered = {(entry.kind, entry.name) for entry in entries if entry.kind in ("ssl", "model")}
    assert offered - {("ssl", NONE), ("ssl", UNTRAINED)} == set(SETTINGS)


def test_datasets_that_need_the_network_are_skipped_and_say_so() -> None:
    subject = find_subject("adult", kind="data")
    with pytest.raises(Skipped, match="not to be had without the network"):
        checks_for("data")[1](subject)
