"""Experiments as they are written: what is accepted, and how a mistake is told."""

from pathlib import Path
from typing import Any

import pytest
from harness import tabbench

from tabbench.errors import UsageError
from tabbench.experiment.settings import choose, choose_all, describe_overrides
from tabbench.experiment.spec import make_spec, merge_entries, read_experiment
from tabbench.hookspecs import Plugin
from tabbench.registry import Entry, Registry, make_registry
from tabbench.running.executors import take_settings

GOOD = {"ssl": ["vime"], "model": ["mlp"]}


def write(folder: Path, text: str) -> Path:
    path = folder / "experiment.toml"
    path.write_text(text)
    return path


def test_a_lone_name_is_a_list_of_one(tmp_path: Path) -> None:
    given = read_experiment(write(tmp_path, 'ssl = "vime"\nmodel = ["mlp"]\ndata = "wine"\nseeds = 2\n'))
    assert given == {"ssl": ["vime"], "model": ["mlp"], "data": ["wine"], "seeds": 2}
    assert make_spec(given).data == ("wine",)


@pytest.mark.parametrize(
    "ssl, model, kept",
    [
        (["TJEPA"], ["MLP"], {"tjepa", "mlp"}),
        (["untrained:tjepa"], ["ft-transformer"], {"tjepa", "FT_Transformer"}),
        (["Untrained:TJEPA", "none"], ["mlp"], {"tjepa", "mlp"}),
        (["vime"], ["mlp", "FT-Transformer"], {"mlp", "FT_Transformer"}),
        (["none"], ["resnet"], set()),
    ],
)
def test_settings_of_a_file_go_with_their_plugin_however_it_is_written(
    ssl: list[str], model: list[str], kept: set[str]
) -> None:
    """They were dropped where the user wrote a name in capitals, by an alias or a control: another result, unseen."""
    settings = {"tjepa": {"preset": "small"}, "mlp": {"lr": 0.1}, "FT_Transformer": {"lr": 0.2}}
    file = {"ssl": ["tjepa"], "model": ["mlp", "ft_transformer"], "set": settings}
    merged = merge_entries(file, {"ssl": ssl, "model": model}, make_registry())
    assert merged["set"] == {name: settings[name] for name in kept}


def test_what_the_user_says_overrides_a_file_however_the_name_is_written(tmp_path: Path) -> None:
    file = {"ssl": ["tjepa"], "model": ["mlp"], "set": {"mlp": {"lr": 0.1, "width": 64}}}
    merged = merge_entries(file, {"set": {"MLP": {"lr": 0.2}}}, make_registry())
    (model,), _ = choose_all(make_spec(merged), make_registry())
    assert (model.config["lr"], model.config["width"]) == (0.2, 64)


def test_settings_of_a_model_stay_when_a_method_of_that_name_is_left_out() -> None:
    plugin = Plugin("both", "package.module:Class")
    registry = Registry({(kind, "both"): Entry(kind, plugin, "mine", "1") for kind in ("ssl", "model")})
    file = {"ssl": ["both"], "model": ["both"], "set": {"both": {"lr": 0.1}}}
    assert merge_entries(file, {"ssl": ["none"]}, registry)["set"] == {"both": {"lr": 0.1}}
    assert merge_entries(file, {"ssl": ["none"], "model": ["mlp"]}, registry)["set"] == {}


@pytest.mark.parametrize(
    "file, said, kind, name, found",
    [
        ({"mlp": {"lr": 0.1}, "MLP": {"width": 64}}, {"mlp": {"lr": 0.2}}, "model", "mlp", {"lr": 0.2, "width": 64}),
        ({"MLP": {"lr": 0.1}}, {"mlp": {"lr": 0.2}}, "model", "mlp", {"lr": 0.2}),
        ({"tjepa": {"dim_hidden": 32}}, {"TJEPA": {"model_dim_hidden": 64}}, "ssl", "tjepa", {"model_dim_hidden": 64}),
        ({"tjepa": {"model_dim_hidden": 32}}, {"tjepa": {"dim_hidden": 64}}, "ssl", "tjepa", {"model_dim_hidden": 64}),
    ],
)
def test_what_the_user_says_overrides_a_file_in_any_spelling(
    file: dict[str, Any], said: dict[str, Any], kind: str, name: str, found: dict[str, Any]
) -> None:
    registry = make_registry()
    merged = merge_entries({"ssl": ["tjepa"], "model": ["mlp"], "set": file}, {"set": said}, registry)
    assert choose(make_spec(merged), registry, kind, name).overrides == found


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"tjepa": {"dim_hidden": 32, "model_dim_hidden": 64}}, "'tjepa.dim_hidden' and 'tjepa.model_dim_hidden'"),
        ({"tjepa": {"dim_hidden": 32}, "TJEPA": {"dim_hidden": 64}}, "'tjepa.dim_hidden' and 'TJEPA.dim_hidden'"),
        ({"tjepa": {"preset": "small"}, "Tjepa": {"preset": "mid"}}, "'tjepa.preset' and 'Tjepa.preset'"),
    ],
)
def test_a_setting_that_is_given_twice_is_refused(settings: dict[str, Any], message: str) -> None:
    """The last one won, without a word."""
    spec = make_spec({"ssl": ["tjepa"], "model": ["mlp"], "set": settings})
    with pytest.raises(UsageError) as caught:
        choose_all(spec, make_registry())
    assert str(caught.value) == f"{message} are the same setting: give one of them"


def test_a_setting_of_an_executor_that_is_given_twice_is_refused() -> None:
    registry = make_registry()
    settings = {"slurm": {"time": "1h"}, "SLURM": {"time": "2h"}}
    with pytest.raises(UsageError, match="'time' of the executor 'slurm' is given twice: give it once"):
        take_settings(settings, registry.find("executor", "slurm"), registry)


@pytest.mark.parametrize("one, other", [(1, 1.0), (1, "1"), ("1e-3", 0.001)])
def test_settings_that_mean_the_same_are_one_row_of_a_table(one: object, other: object) -> None:
    """A key is of what the plugin understood; a row's name was of what the user had typed."""
    registry = make_registry()
    specs = [make_spec({"ssl": ["none"], "model": ["mlp"], "set": {"mlp": {"lr": lr}}}) for lr in (one, other)]
    first, second = (choose(spec, registry, "model", "mlp") for spec in specs)
    assert first.config == second.config
    assert describe_overrides(first) == describe_overrides(second)


@pytest.mark.parametrize(
    "text, message",
    [
        ("data = 5", "data = 5: expected a list of names"),
        ('data = [["wine"]]', "data = [['wine']]: expected a list of names"),
        ("ssl = 5", "ssl = 5: expected a list of names"),
        ("controls = [1]", "controls = [1]: expected a list of names"),
        ("set = 3", "set = 3: write [set.NAME] and below it KEY = VALUE"),
        ("set = []", "set = []: write [set.NAME]"),
        ("set.linear = 3", "set.linear = 3: write [set.NAME]"),
        ('preset = ["quick"]', "preset = ['quick']: expected one name"),
        ("sampler = 1", "sampler = 1: expected one name"),
        ('seeds = "3"', "seeds = '3': expected a whole number"),
        ("trials = true", "trials = True: expected a whole number"),
        ("rows = 2.5", "rows = 2.5: expected a whole number"),
        ('SSL = ["vime"]', "Unknown entry 'SSL' in the experiment. Did you mean: ssl?"),
    ],
)
def test_an_entry_of_the_wrong_type_is_told_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_experiment(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_a_folder_is_no_experiment(tmp_path: Path) -> None:
    done = tabbench("run", tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"tabbench: {tmp_path} is a folder; give an experiment file (TOML)\n"


@pytest.mark.parametrize(
    "entries, message",
    [
        ({"controls": ["nonne"]}, "Unknown control 'nonne'. Did you mean: none? Available: none, untrained."),
        ({"sampler": "tpee"}, "Unknown sampler 'tpee'. Did you mean: tpe?"),
        ({"preset": ["quick"]}, "Unknown preset \"['quick']\". Did you mean: quick?"),
        ({"seeds": 10**9}, "Bad entry 'seeds' in the experiment: give at most 10000"),
        ({"data": []}, "The list 'data' of the experiment is empty: give at least one name"),
    ],
)
def test_a_wrong_value_is_told_in_plain_words(entries: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_spec({**GOOD, **entries})
    assert str(caught.value).startswith(message)
