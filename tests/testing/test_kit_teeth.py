"""The kit's teeth: a sound method, model and dataset pass everything; each broken one fails exactly its check."""

import pytest
from testing.broken_methods import Good
from testing.broken_models import GoodDataset, GoodJoint, GoodJointPredictor, Ridge
from testing.broken_plugins import BROKEN

from tabbench.testing import check_plugin, checks_for


@pytest.mark.parametrize("plugin", [Good, GoodJoint, GoodJointPredictor, Ridge, GoodDataset])
def test_a_sound_plugin_passes_every_check(plugin: type) -> None:
    verdicts = check_plugin(plugin)
    assert [(verdict.check, verdict.note) for verdict in verdicts if not verdict.ok] == []
    skipped = {verdict.check for verdict in verdicts if verdict.status == "skipped"}
    hooks = {"check_hook_module_is_light", "check_config_module_is_light"}
    finetuning = {"check_trainable_encoder", "check_model_trains_an_encoder"}
    said = {"check_weights_count", "check_seeds_make_no_difference"}
    assert skipped <= hooks | finetuning | said, "a class is not a registered plugin, and these cannot be fine-tuned"


@pytest.mark.parametrize("plugin, check", BROKEN.items(), ids=lambda value: getattr(value, "__name__", value))
def test_a_broken_plugin_fails_exactly_its_check(plugin: type, check: str) -> None:
    failures = {verdict.check: verdict.note for verdict in check_plugin(plugin) if not verdict.ok}
    assert list(failures) == [check], failures
    assert failures[check], "a failure says what is wrong"


def test_every_check_but_those_of_hooks_has_a_broken_plugin() -> None:
    broken = set(BROKEN.values())
    for kind in ("ssl", "model", "data", "reference"):
        names = {check.name for check in checks_for(kind)}
        # Tables that a model refuses are tried by the same few lines as those of methods. What a plugin says of weights
        # and seeds is for plugins.
        twins = {
            "check_mixed_table",
            "check_weights_count",
            "check_seeds_make_no_difference",
            "check_hook_module_is_light",
            "check_config_module_is_light",
        }
        assert names - broken - twins == set(), kind
