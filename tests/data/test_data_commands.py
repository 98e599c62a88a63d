"""``tabbench data``, as typed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.datasets import load_wine
from typer.testing import CliRunner, Result

from tabbench import DataError, UsageError
from tabbench.cli.data import app
from tabbench.data.cache import cache_dir, find_cached


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABBENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "wines.csv"
    wine = load_wine(as_frame=True)
    frame = wine.data[["alcohol", "hue"]].round(2)
    frame.assign(cellar=["north", "south"] * 89, grape=wine.target, number=range(178)).to_csv(path, index=False)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_fetch_fills_the_cache_and_says_with_what() -> None:
    result = run("fetch", "wine,DIABETES")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "name        rows    numeric    categorical  task        source",
        "wine         178         13              0  3 classes   scikit-learn, load_wine",
        "diabetes     442          9              1  regression  scikit-learn, load_diabetes",
    ]
    assert result.stderr.count("loading") == 2
    again = run("fetch", "wine", "--json")
    assert again.stderr == ""
    assert [each["name"] for each in json.loads(again.stdout)] == ["wine"]
    assert run("fetch", "wine", "--force").stderr.count("loading") == 1


def test_fetch_of_several_goes_on_after_a_failure() -> None:
    result = run("fetch", "wine", "adult", "--offline")
    assert result.exit_code == 3
    assert "wine" in result.stdout
    assert "tabbench: adult is not cached, and --offline forbids downloads." in result.stderr
    assert isinstance(run("fetch", "adult", "--offline").exception, DataError)
    assert isinstance(run("fetch", "adlut").exception, UsageError)


def test_import_stores_a_file_under_a_name(csv: Path) -> None:
    result = run("import", "wines", csv, "--target", "grape", "--categorical", "cellar")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "name      rows    numeric    categorical  task       source",
        "wines      178          2              1  3 classes  file wines.csv",
        "note: classification, because the target 'grape' has 3 distinct whole numbers in 178 rows",
        "note: dropped 'number': row numbers",
    ]
    assert find_cached("wines") is not None
    as_number = run("import", "wines", csv, "--target", "grape", "--task", "regression", "--json")
    assert json.loads(as_number.stdout)["task"] == "regression"
    assert "Unknown task 'regresion'. Did you mean: regression?" in str(
        run("import", "wines", csv, "--target", "grape", "--task", "regresion").exception
    )


def test_show_says_how_a_file_is_understood_and_leaves_the_cache_alone(csv: Path) -> None:
    result = run("show", f"{csv}:grape")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "wines.csv:grape: 178 rows, 2 numeric and 1 categorical features, classification of 'grape' (file wines.csv)",
        "column    kind           missing    distinct  values",
        "alcohol   numeric              0         126  11.03 .. 14.83, mean 13.0006",
        "hue       numeric              0          77  0.48 .. 1.71, mean 0.957472",
        "cellar    categorical          0           2  north 50.0%, south 50.0%",
        "grape     target               0           3  1 39.9%, 0 33.1%, 2 27.0%",
        "note: classification, because the target 'grape' has 3 distinct whole numbers in 178 rows",
        "note: dropped 'number': row numbers",
    ]
    assert not cache_dir().exists()


def test_show_knows_names_and_many_columns() -> None:
    result = run("show", "digits")
    assert "1797 rows" in result.stdout.replace(",", "")
    assert "15 more features not shown; --json lists all" in result.stdout
    columns = json.loads(run("show", "digits", "--json").stdout)["columns"]
    assert len(columns) == 65
    assert columns[-1] == {
        "name": "target",
        "kind": "target",
        "missing": 0,
        "distinct": 10,
        "values": "3 10.2%, 1 10.1%, 5 10.1%, 4 10.1%, ...",
    }
    shown = run("show", "adult")
    assert shown.stderr == ""
    absent = shown.exception
    assert isinstance(absent, DataError)
    assert str(absent) == ("adult is not cached, and show does not download: run `tabbench data fetch adult`"), (
        "--offline was not given"
    )
    assert "pick one: breast_cancer, diabetes" in str(run("show", "demo").exception)
    assert "are for files" in str(run("show", "wine", "--categorical", "hue").exception)


def test_list_and_verify_tell_what_is_there_and_whether_it_is_whole() -> None:
    run("fetch", "wine", "diabetes")
    listed = run("list")
    assert f"cache: {cache_dir()}" in listed.stdout
    assert "not in the cache: adult, aloi, breast_cancer" in listed.stdout
    assert [each["name"] for each in json.loads(run("list", "--json").stdout)] == ["diabetes", "wine"]
    assert run("verify").stdout.splitlines() == ["diabetes: ok", "wine: ok"]
    wine = find_cached("wine")
    assert wine is not None
    (cache_dir() / wine.path).write_bytes(b"")
    damaged = run("verify", "wine", "--json")
    assert damaged.exit_code == 1
    assert json.loads(damaged.stdout)[0]["ok"] is False
    assert run("verify", "diabetes").exit_code == 0
    assert "run `tabbench data fetch digits`" in str(run("verify", "digits").exception)


def test_show_cuts_what_is_long_and_tells_terms_and_source(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    long = "a very long answer to a question that nobody asked"
    path.write_text("x,said,y\n" + f"1,{long},p\n2,no,q\n3,{long},q\n4,no,p\n" * 5)
    lines = run("show", f"{path}:y").stdout.splitlines()
    assert "said      categorical          0           2  a very long answer to... 50.0%, no 50.0%" in lines
    digits = run("show", "digits").stdout.splitlines()
    assert digits[-3:] == [
        "licence: CC BY 4.0",
        "citation: E. Alpaydin and C. Kaynak (1998). Optical Recognition of Handwritten Digits. UCI Machine Learning "
        "Repository",
        "homepage: https://doi.org/10.24432/C50P49",
    ]


def test_remove_takes_a_table_out_of_the_cache(csv: Path) -> None:
    run("fetch", "wine", "diabetes")
    run("import", "wines", csv, "--target", "grape")
    would = run("remove", "wine", "--dry-run")
    assert would.stdout == "would remove wine (0.0 MB)\n"
    assert run("remove", "WINE", "wines").stdout == "removed wine (0.0 MB)\nremoved wines (0.0 MB)\n"
    assert [each["name"] for each in json.loads(run("list", "--json").stdout)] == ["diabetes"]
    assert sorted(path.name for path in (cache_dir() / "data").iterdir()) == ["diabetes"]
    wrong = run("remove", "diabets").exception
    assert isinstance(wrong, UsageError)
    assert str(wrong) == "Unknown cached dataset 'diabets'. Did you mean: diabetes? Available: diabetes."


def test_the_module_imports_nothing_heavy() -> None:
    heavy = ("numpy", "pandas", "pyarrow", "sklearn", "torch", "openml", "pydantic")
    script = f"import sys, tabbench.cli.data; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
