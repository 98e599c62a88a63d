"""The Python face does what the command line does."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from harness import TOYS, Bench, tabbench

import tabbench as tb
from tabbench import TabbenchError, UsageError
from tabbench.results.face import Results

INLINE: dict[str, Any] = {"plugins": [TOYS], "executor": "inline"}
"""No worker has to start."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("api") / "results"
    return tb.run(ssl="projection", model=["nearest"], data="wine", results=folder, seeds=2, progress=False, **INLINE)


def test_a_run_returns_its_records_as_a_frame(results: Results) -> None:
    frame = results.records()
    assert sorted(frame["ssl"]) == ["none", "none", "projection", "projection"]
    assert frame["score"].between(0, 1).all()
    assert results.failures == []


def test_a_run_gives_the_same_keys_as_the_command(results: Results, tmp_path: Path) -> None:
    command = ("run", "--ssl", "projection", "--model", "nearest", "--data", "wine", "--seeds", "2", "-q")
    inline = ("--plugin", TOYS, "--executor", "inline")
    assert tabbench(*command, *inline, "--results", tmp_path / "results").returncode == 0
    other = tb.results(tmp_path / "results").records()
    mine = results.records()
    assert set(other["key"]) == set(mine["key"])
    assert other.set_index("key")["score"].to_dict() == mine.set_index("key")["score"].to_dict()


def test_a_second_run_is_about_its_own_records(results: Results) -> None:
    folder = results.store.root
    again = tb.run("none", "nearest", "wine", results=folder, seeds=1, progress=False, **INLINE)
    assert len(again.records()) == 1
    assert len(tb.results(folder).records()) == 4


def test_the_table_has_a_face_for_notebooks_and_papers(results: Results) -> None:
    table = results.table(metric="score")
    assert list(table.to_frame()["ssl"]) == ["none", "projection"]
    assert "<table" in table._repr_html_()
    assert "toprule" in table.to_latex()
    assert "wine" in str(table)


def test_a_report_is_one_page_about_the_run(results: Results, tmp_path: Path) -> None:
    assert "<b>4</b> results" in results.report(str(tmp_path / "page.html")).read_text()
    again = tb.run("none", "nearest", "wine", results=results.store.root, progress=False, **INLINE)
    page = again.report(tmp_path / "less.html").read_text()
    assert "<b>1</b> result<" in page, "what another run stored in the same folder is left out"


def test_failures_are_lines_not_exceptions(tmp_path: Path) -> None:
    failing = {"nearest": {"behave": {"0": "fail"}}}
    found = tb.run("none", "nearest", "wine", results=tmp_path / "r", settings=failing, progress=False, **INLINE)
    (failure,) = found.failures
    assert failure.startswith("wine/0 none + nearest seed 0: RuntimeError: the toy was told to fail (toy_plugin.py:")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ssl": "tjpea"}, r"Unknown SSL method 'tjpea'\. Did you mean: tjepa\?"),
        ({"seeds": 0}, "Bad entry 'seeds'"),
        ({"executor": "lokal"}, r"Unknown executor 'lokal'\. Did you mean: local\?"),
        ({"jobs": -1}, "jobs=-1: give at least 1, or leave it out for one job per core"),
        ({"ssl": None}, "ssl=None: give a name, or a list of names"),
        ({"model": ["mlp", 3]}, "model=.'mlp', 3.: give a name, or a list of names"),
        ({"ssl": {"tjepa": {"epochs": 3}}}, "ssl={'tjepa': {'epochs': 3}}: give a name, or a list of names"),
        ({"settings": {"linear": 3}}, "settings={'linear': 3}: write"),
        ({"labels": 1}, "--labels '1': give"),
        ({"set": {"linear": {"l2": 1}}}, "set=...: in Python it is called settings"),
    ],
)
def test_mistakes_are_the_errors_of_the_command_line(
    arguments: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(TabbenchError, match=message):
        tb.run(**{"ssl": "none", "model": "linear", "results": tmp_path, "progress": False, **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        {"mlp": {"width": np.int64(8), "max_epochs": 1}},
        {"MLP": {"width": np.float32(8), "max_epochs": np.arange(2)[1]}},
    ],
)
def test_settings_may_be_numbers_of_numpy(settings: dict[str, Any], tmp_path: Path) -> None:
    """They ended in a traceback."""
    how: dict[str, Any] = {"preset": "quick", "progress": False, "results": tmp_path, **INLINE}
    found = tb.run("none", "mlp", "wine", settings=settings, **how)
    (record,) = found.store.records()
    assert record.variant == "mlp.max_epochs=1 mlp.width=8"
    assert record.config is not None
    assert (record.config["model"]["width"], record.config["model"]["max_epochs"]) == (8, 1)


def test_names_may_be_numbers_of_labels_paths_or_nothing(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.arange(60.0) % 7, "y": ["no", "yes"] * 30})
    frame.to_csv(tmp_path / "t.csv", index=False)
    how: dict[str, Any] = {"preset": "quick", "results": tmp_path / "r", "progress": False, "controls": "", **INLINE}
    found = tb.run("none", "nearest", tmp_path / "t.csv:y", labels=[20, "50%"], **how)
    assert sorted(str(record.labels) for record in found.store.records()) == ["20", "50%"]


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no results in .*: it has no folder 'records'"):
        tb.results(tmp_path)
    for name in ("second", "first"):
        (tmp_path / name / "records").mkdir(parents=True)
    with pytest.raises(UsageError, match="give one of the folders in it: first, second$"):
        tb.results(tmp_path)


def test_importing_tabbench_is_light() -> None:
    heavy = "{'numpy', 'pandas', 'pydantic', 'torch', 'sklearn', 'rich'}"
    code = f"import sys, tabbench; tabbench.results; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_frame_in_memory_is_data(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=120), "b": rng.normal(size=120)})
    frame["left"] = np.where(frame["a"] + rng.normal(0, 0.1, 120) > 0, "yes", "no")
    found = tb.run(
        "none", "nearest", {"churn": (frame, "left")}, preset="quick", results=tmp_path, progress=False, **INLINE
    )
    (record,) = found.records().to_dict("records")
    assert (record["data"], record["counts.test"]) == ("churn", 12)
    assert record["test.accuracy"] == record["score"]
    assert record["seconds.fit"] > 0
    assert record["score"] > 0.5
    with pytest.raises(
        UsageError, match="'churn' was a DataFrame in Python: save it as a file, and give that as FILE:TARGET"
    ):
        tb.run("none", "nearest", "churn", preset="quick", results=tmp_path, progress=False, **INLINE)


FRAME = pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]})


@pytest.mark.parametrize(
    "data, message",
    [
        (
            {"churn": FRAME},
            r"data\['churn'\] is not a DataFrame with the name of its target: write {\"churn\": \(frame, ",
        ),
        ({"churn": (FRAME.to_numpy(), "y")}, r"data\['churn'\] is not a DataFrame with the name of its target"),
        ({"": (FRAME, "y")}, r"data has a table with the name ''"),
        (FRAME, r"data is neither names nor named tables: for a DataFrame, write {\"churn\": \(frame, \"Exited\"\)}"),
        ((FRAME, "y"), "data is neither names nor named tables"),
        ({"wine": (FRAME, "y")}, "'wine' is a dataset that tabbench knows: give your DataFrame another name"),
    ],
)
def test_tables_in_memory_come_with_a_name_and_a_target(data: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        tb.run("none", "nearest", data, preset="quick", results=tmp_path, progress=False, **INLINE)
    assert "\n" not in str(caught.value)


def test_baselines_come_before_pretrainings(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "results", inline=True)
    bench.run(seeds=2)
    assert [label.split()[1] for label in bench.watcher.begun][:2] == ["none", "none"]
