"""The shell completes names of methods, models, data and metrics."""

import pytest
from typer.testing import CliRunner

from tabbench.cli.app import app
from tabbench.cli.completion import complete


def offered(*words: str) -> list[str]:
    """What bash is offered for the last word."""
    line = {"COMP_WORDS": " ".join(["tabbench", *words]), "COMP_CWORD": str(len(words))}
    shell = {"_TABBENCH_COMPLETE": "complete_bash", **line}
    return CliRunner().invoke(app, prog_name="tabbench", env=shell).stdout.split()


def test_names_of_plugins() -> None:
    assert offered("run", "--ssl", "tj") == ["tjepa"]
    assert {"mlp", "xgboost"} <= set(offered("run", "--model", ""))
    assert offered("inspect", "--ssl", "sub") == ["subtab"]
    assert offered("show", "catb") == ["catboost"]


def test_the_last_of_several_names_is_completed_once() -> None:
    assert offered("run", "--model", "mlp,resn") == ["mlp,resnet"]
    assert offered("table", "--model", "mlp,ml") == []


def test_datasets_groups_and_suites() -> None:
    assert offered("run", "--data", "cali") == ["california"]
    assert offered("run", "--data", "cc") == ["cc18"]
    assert "demo" in offered("data", "fetch", "de")
    assert offered("run", "--data", "my_file.cs") == [], "the shell goes on with files"


def test_a_run_and_a_table_have_other_metrics() -> None:
    assert offered("run", "--metric", "") == [
        name
        for name in offered("table", "--metric", "")
        if "_" in name or name in ("accuracy", "auroc", "rmse", "mae", "r2")
    ]
    assert {"rank", "time", "gain", "ece"} <= set(offered("table", "--metric", ""))
    assert "ece" not in offered("run", "--metric", "")


@pytest.mark.parametrize("parameter", ["rows", "results", "nothing"])
def test_other_options_are_left_to_the_shell(parameter: str) -> None:
    assert complete("run", parameter, "") == []
