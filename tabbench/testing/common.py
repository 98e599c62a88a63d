"""Promises of every plugin: light hooks, and settings that the tuner and a results folder can rely on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabbench.config import Choice, Float, Int, Range, Settings, preset_settings
from tabbench.errors import TabbenchError, UsageError
from tabbench.testing.subject import CheckFailed, CheckSkipped, Subject

HEAVY = ("torch", "tensorflow", "jax", "scipy", "sklearn", "pandas")
"""Libraries that take long to import; those of boosted trees import some of them."""
N_SAMPLES = 200
MIN_VALID_SHARE = 0.25
"""A tuner that discards more of its proposals hardly searches."""
CANARY = 727_272_727
MIN_WORDS = 4
"""A refusal in fewer words does not help a user."""


def require(condition: bool | np.bool_, message: str) -> None:
    """Raise ``CheckFailed`` unless ``condition`` holds; unlike ``assert``, it also works under ``python -O``."""
    if not condition:
        raise CheckFailed(message)


def works_or_refuses(subject: Subject, attempt: Callable[[], None]) -> None:
    """Whatever goes wrong in ``attempt`` must be a ``TabbenchError`` with a sentence."""
    subject.make()  # refusing the settings is not refusing the table
    try:
        attempt()
    except TabbenchError as refusal:
        require(len(str(refusal).split()) >= MIN_WORDS, f"it refuses without saying why: {refusal!r}")
        subject.note = f"refused: {refusal}"


def same(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Equal to the last bit."""
    return first.shape == second.shape and bool(np.array_equal(first, second, equal_nan=True))


def close(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Equal up to rounding, when sums are taken in a different order."""
    if first.shape != second.shape:
        return False
    scale = max(1.0, float(np.abs(second).max(initial=0.0)))
    return bool(np.allclose(first, second, rtol=1e-4, atol=1e-4 * scale))


@contextmanager
def unchanged_generators() -> Iterator[None]:
    """Code inside must not change the global generators of random, numpy and torch."""
    import torch

    saved = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        # A state that nothing else produces: seeding twice with the same seed must be noticed too.
        random.seed(CANARY)
        np.random.seed(CANARY)
        torch.default_generator.manual_seed(CANARY)
        before = _generator_states()
        yield
        after = _generator_states()
    finally:
        random.setstate(saved[0])
        np.random.set_state(saved[1])
        torch.set_rng_state(saved[2])
    changed = [name for name, state in before.items() if after[name] != state]
    require(
        not changed,
        f"the global generator of {' and '.join(changed)} was used or seeded; "
        "take randomness from context.seed and context.generator, and initialise within tabbench.nn.seeded",
    )


@contextmanager
def unchanged_process() -> Iterator[None]:
    """Code inside must not change the state that jobs share: threads, default dtype and the like."""
    from tabbench.running.surroundings import Surroundings

    before = Surroundings()
    try:
        yield
    finally:
        changes = before.put_right()
    require(not changes, f"it changed state that other jobs of its process share: {'; '.join(changes)}")


def _generator_states() -> dict[str, object]:
    import torch

    state: Mapping[str, Any] = np.random.get_state(legacy=False)
    numpy_state = (state["state"]["key"].tobytes(), state["state"]["pos"], state["has_gauss"])
    return {"random": random.getstate(), "numpy": numpy_state, "torch": torch.get_rng_state().numpy().tobytes()}


# Hooks.


def check_hook_module_is_light(subject: Subject) -> None:
    """Importing the module with the hooks imports neither torch nor another heavy library."""
    if subject.entry is None:
        raise CheckSkipped("no installed plugin offers this class")
    if subject.entry.file is not None:
        raise CheckSkipped("an unpublished file is one module: split it when it becomes a package")
    _require_light(subject.entry.module, "move the class to its own module")


def check_config_module_is_light(subject: Subject) -> None:
    """Importing the settings imports no heavy library, where the plugin names their module (``Plugin.config``)."""
    if subject.plugin is None or not subject.plugin.config:
        raise CheckSkipped("the plugin names no separate module for its settings")
    module, _, name = subject.plugin.config.partition(":")
    _require_light(module, "planning a run would wait for it")
    named = getattr(sys.modules.get(module) or __import__(module, fromlist=[name]), name)
    require(
        named is subject.config_class,
        f"{subject.plugin.config} is not the Config of {subject.load().__name__}: runs and plans would differ",
    )


def _require_light(module: str, consequence: str) -> None:
    code = f"import sys, importlib; importlib.import_module({module!r}); print(*({{*{HEAVY!r}}} & {{*sys.modules}}))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    require(done.returncode == 0, f"importing {module} alone fails: {done.stderr.strip().splitlines()[-1:]}")
    require(not done.stdout.strip(), f"importing {module} imports {done.stdout.strip()}; {consequence}")


# Settings.


def check_settings_are_described(subject: Subject) -> None:
    """Every setting has a description (a docstring below the field) for ``tabbench show``."""
    fields = subject.config_class.model_fields
    silent = [name for name, field in fields.items() if not (field.description or "").strip()]
    require(not silent, f"no description of {', '.join(silent)}")


def check_settings_survive_a_record(subject: Subject) -> None:
    """Settings written to a record as JSON and read back are equal to what they were."""
    config_class = subject.config_class
    for config in (config_class.resolve({}, subject.name), subject.make().config):
        again = config_class.resolve(config.to_json(), subject.name)
        require(again == config, f"{config!r} came back as {again!r}")


def check_presets_are_valid(subject: Subject) -> None:
    """Every preset consists of valid settings, and so do the ends of its own ranges."""
    for name, preset in subject.config_class.presets().items():
        settings = preset_settings(preset)
        try:
            subject.config_class.resolve(settings, subject.name)
        except UsageError as error:
            raise CheckFailed(f"preset {name}: {error}") from None
        ranges = subject.config_class.preset_space({"search": preset.get("search", {})})
        for field in preset.get("search", {}):
            require(field in subject.config_class.model_fields, f"preset {name}: search.{field} is not a setting")
            _require_sound(f"{name}: {field}", ranges[field])
            for end in _ends(ranges[field]):
                try:
                    subject.config_class.resolve({**settings, field: end}, subject.name)
                except UsageError as error:
                    raise CheckFailed(f"preset {name}: the tuner may try {field}={end}: {error}") from None


def check_search_ranges_are_sound(subject: Subject) -> None:
    """Every end of a search range, and every listed choice, is allowed with some values of the other settings."""
    space = subject.config_class.search_space()
    generator = random.Random(0)  # noqa: S311 - nothing secret
    for name, search in space.items():
        _require_sound(name, search)
        for value in _ends(search):
            fixed = {name: value}
            others = ({**draw_settings(space, generator), **fixed} for _ in range(N_SAMPLES))
            allowed = any(_is_allowed(subject, settings) for settings in (fixed, *others))
            require(allowed, f"{name}={value!r} is in the search range but is refused whatever the other settings are")


def _require_sound(name: str, search: Range) -> None:
    if isinstance(search, Choice):
        require(len(search.values) > 1, f"{name}: a choice needs at least two values, not {len(search.values)}")
        return
    require(search.low < search.high, f"{name}: {search.low} .. {search.high} is empty")
    require(not search.log or search.low > 0, f"{name}: a logarithmic range cannot begin at {search.low}")
    if isinstance(search, Int):
        fits = search.step > 0 and (search.high - search.low) % search.step == 0
        require(fits, f"{name}: steps of {search.step} do not lead from {search.low} to {search.high}")


def check_random_settings_are_valid(subject: Subject) -> None:
    """Settings drawn at random from the search space are valid, or at least a quarter of them are."""
    space = subject.config_class.search_space()
    if not space:
        raise CheckSkipped("there is nothing to tune")
    generator = random.Random(0)  # noqa: S311 - nothing secret
    drawn = [draw_settings(space, generator) for _ in range(N_SAMPLES)]
    share = sum(_is_allowed(subject, settings) for settings in drawn) / N_SAMPLES
    require(share >= MIN_VALID_SHARE, f"only {share:.0%} of {N_SAMPLES} random settings are valid")
    subject.note = f"{share:.0%} of {N_SAMPLES} are valid" if share < 1 else ""


def draw_settings(space: Mapping[str, Range], generator: random.Random) -> Settings:
    """One point of a search space, uniform in each range."""
    return {name: _draw(search, generator) for name, search in space.items()}


def _draw(search: Range, generator: random.Random) -> Any:
    if isinstance(search, Choice):
        return generator.choice(search.values)
    if isinstance(search, Int):
        return generator.randrange(search.low, search.high + 1, search.step)
    if search.log:
        return float(np.exp(generator.uniform(np.log(search.low), np.log(search.high))))
    return generator.uniform(search.low, search.high)


def _ends(search: Range) -> tuple[Any, ...]:
    if isinstance(search, Choice):
        return search.values
    return (search.low, search.high, *((0.0,) if isinstance(search, Float) and search.zero else ()))


def _is_allowed(subject: Subject, settings: Mapping[str, Any]) -> bool:
    """Whether validation accepts the settings; anything but a refusal passes through as the failure that it is."""
    try:
        subject.config_class.resolve(settings, subject.name)
    except UsageError:
        return False
    return True


# Training.


def check_it_trains(subject: Subject) -> None:
    """It trains on a small table, and its encoder (if any) encodes rows. Without this no other check says anything."""
    subject.trained()
    if subject.kind in ("ssl", "joint_representation"):
        subject.embed(subject.table(seed=1))


HOOK_CHECKS = (check_hook_module_is_light,)
CONFIG_CHECKS = (
    check_config_module_is_light,
    check_settings_are_described,
    check_settings_survive_a_record,
    check_presets_are_valid,
    check_search_ranges_are_sound,
    check_random_settings_are_valid,
)
