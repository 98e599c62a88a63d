"""What a table of OpenML must contain, and how its files are read."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from openml_server import ImportAsToy
from tabbench_openml import tabbench_datasets
from tabbench_openml.datasets import OpenMLDataset
from tabbench_openml.download import Download, DownloadFault, Feature
from tabbench_openml.tables import attribute_names, read_table

from tabbench import DataError, LoadedData
from tabbench.registry import make_registry


def test_names_in_an_arff_header_may_be_quoted_and_escaped() -> None:
    header = (
        "@RELATION x\n@ATTRIBUTE plain REAL\n @attribute 'it\\'s' {a,b}\n@attribute \"a b\" real\n@ATTRIBUTE c{d} x\n"
    )
    assert attribute_names(header) == ["plain", "it's", "a b", "c"]


def toy(**expected: Any) -> OpenMLDataset:
    return OpenMLDataset("toy", 61, "class", **expected)


@pytest.mark.parametrize(
    "expected, message",
    [
        ({"rows": 61}, "60 rows instead of 61"),
        ({"numeric": 3}, "2 numeric columns instead of 3"),
        ({"categorical": 0}, "2 categorical columns instead of 0"),
        ({"classes": 2}, "3 classes instead of 2"),
        ({"missing": 0}, "2 missing values instead of 0"),
        ({"shares": (0.1, 0.2, 0.7)}, "the class shares differ"),
    ],
)
def test_other_counts_than_expected_are_an_error(frame: pd.DataFrame, expected: dict[str, Any], message: str) -> None:
    loaded = LoadedData(frame, "class", "classification", ("colour", "open"))
    with pytest.raises(DataError, match=rf"this is not toy \(OpenML 61\): .*{message}"):
        toy(**expected).accept(loaded)


def test_an_import_under_a_known_name_is_checked(frame: pd.DataFrame, import_as_toy: ImportAsToy) -> None:
    assert import_as_toy(frame).name == "toy"
    with pytest.raises(DataError, match=r"mine.parquet: this is not toy .*: 50 rows instead of 60"):
        import_as_toy(frame.head(50))


def test_a_file_with_fewer_rows_than_announced_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "dataset.arff"
    file.write_text("@relation x\n@attribute a real\n@data\n1\n2\n")
    found = Download(file, "x", 1, "a", (Feature("a", True, ()),), frozenset(), rows=3)
    with pytest.raises(DownloadFault, match="the file has 2 rows, but the server says 3"):
        read_table(found)
    assert read_table(replace(found, rows=2))["a"].tolist() == [1, 2]


def test_arff_files_with_escapes_comments_and_sparse_rows_are_read(tmp_path: Path) -> None:
    features = (Feature("a", True, ()), Feature("b", False, ("it's", "x y")))
    header = "@relation x\n@attribute a real\n@attribute b {'it\\'s','x y'}\n@data\n"
    bodies = {
        "escaped": "1,'it\\'s'\n?,'x y'\n",
        "commented": "% first\n1,\"it's\"\n?,'x y'\n",
        "double": '1,"it\'s"\n?,"x y"\n',
    }
    for name, body in bodies.items():
        file = tmp_path / f"{name}.arff"
        file.write_text(header + body)
        table = read_table(Download(file, "x", 1, "b", features, frozenset(), rows=2))
        assert table["b"].tolist() == ["it's", "x y"], name
        assert table["a"].isna().tolist() == [False, True], name


def test_the_paper_has_seven_datasets_with_their_abbreviations() -> None:
    plugins = tabbench_datasets()
    assert {plugin.aliases[0]: plugin.arguments["id"] for plugin in plugins} == {
        "AD": 1590,
        "HE": 41169,
        "JA": 41168,
        "AL": 42396,
        "CA": 44977,
        "HI": 23512,
        "MNIST": 554,
    }
    assert all(plugin.groups == ("paper",) for plugin in plugins)
    registry = make_registry()
    for plugin in plugins:
        entry = registry.find("data", plugin.name)
        registry.load(entry)(**entry.plugin.arguments)


def test_levels_that_differ_by_case_stay_apart(tmp_path: Path) -> None:
    file = tmp_path / "dataset.arff"
    file.write_text("@relation x\n@attribute a {b,B,True}\n@data\nb\nB\ntrue\n")
    found = Download(file, "x", 1, "a", (Feature("a", False, ("b", "B", "True")),), frozenset(), rows=3)
    assert read_table(found)["a"].tolist() == ["b", "B", "True"]
