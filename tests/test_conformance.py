"""Every built-in plugin keeps what tabbench promises in its name. Sized to be fast: promises do not depend on size."""

import pytest
from small_settings import SETTINGS

from tabbench.experiment.controls import NONE, UNTRAINED
from tabbench.registry import make_registry
from tabbench.testing import Check, CheckSkipped, Subject, checks_for
from tabbench.testing.subject import find_subject

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
    with pytest.raises(CheckSkipped, match="not available without the network"):
        checks_for("data")[1](subject)
