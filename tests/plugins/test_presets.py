"""Presets of the built-in methods and models: they can be tuned, and hold what was published."""

from typing import Any

import pytest

from tabbench.registry import make_registry
from tabbench.tuning import Study

REGISTRY = make_registry()
BUILT_IN = [
    entry
    for kind in ("ssl", "model")
    for entry in REGISTRY.entries(kind)
    if entry.distribution == "tabbench-ssl" and entry.plugin.config  # controls have no settings
]
PRESETS = [(entry.kind, entry.name, preset) for entry in BUILT_IN for preset in REGISTRY.load_config(entry).presets()]


def settings_of(kind: str, name: str, preset: str) -> dict[str, Any]:
    """The settings of a run with a preset; one of a dataset comes on top of its family."""
    presets = REGISTRY.load_config(REGISTRY.find(kind, name)).presets()
    settings = {**presets.get(preset.rpartition("-")[0], {}), **presets[preset]}
    settings.pop("source")
    return settings


@pytest.mark.parametrize(("kind", "name", "preset"), PRESETS)
def test_every_preset_can_be_tuned(kind: str, name: str, preset: str) -> None:
    config = REGISTRY.load_config(REGISTRY.find(kind, name))
    base = config.resolve(settings_of(kind, name, preset), name).to_json()
    study = Study("key", config, base, frozenset(), n_trials=2)
    assert study.propose().config == base
    if study.space:
        assert study.propose().config.keys() == base.keys()
