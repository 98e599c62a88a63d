"""From what users type to cached tables."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from sklearn.datasets import load_iris
from tabbench_demo.datasets import DemoDataset

from tabbench import DataError, UsageError
from tabbench.data.cache import cache_dir, list_cached, read_frame
from tabbench.data.reading import Reading
from tabbench.data.sources import FileReference, import_file, parse_file_reference, peek_data, resolve_data
from tabbench.registry import Registry, make_registry

PLUGIN = """
import pandas as pd
from tabbench import Dataset, LoadedData, Plugin, hookimpl

class Counting(Dataset):
    calls = 0

    def load(self, cache, offline):
        Counting.calls += 1
        frame = pd.DataFrame({"x": [float(i * i % 7) for i in range(40)], "y": ["a", "b"] * 20})
        return LoadedData(frame, "y", "classification", source=f"call {Counting.calls}")

@hookimpl
def tabbench_datasets():
    return [Plugin("counting", f"{__name__}:Counting", aliases=("CT",), groups=("few",))]
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABBENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def registry() -> Registry:
    return make_registry()


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "iris:new.csv"
    iris = load_iris(as_frame=True)
    iris.data.assign(species=iris.target.map(dict(enumerate(iris.target_names)))).to_csv(path, index=False)
    return path


def test_names_in_any_case_and_groups_are_resolved(registry: Registry) -> None:
    lines: list[str] = []
    [wine] = resolve_data("WINE", registry, progress=lines.append)
    assert wine.name == "wine"
    assert lines == ["loading wine: chemical analysis of wines from three cultivars"]
    manifests = resolve_data("Demo", registry, offline=True, progress=lines.append)
    assert [manifest.name for manifest in manifests] == ["breast_cancer", "diabetes", "digits", "wine"]
    assert len(lines) == 4


def test_peeking_loads_nothing(registry: Registry, csv: Path) -> None:
    assert peek_data("wine", registry) == [("wine", None)]
    assert peek_data(f"{csv}:species", registry) == [("iris:new.csv:species", None)]
    assert not cache_dir().exists()
    [wine] = resolve_data("wine", registry)
    [iris] = resolve_data(f"{csv}:species", registry)
    assert peek_data("wine", registry) == [("wine", wine)]
    assert peek_data(f"{csv}:species", registry) == [("iris:new.csv:species", iris)]


def test_a_file_is_read_again_only_if_it_or_the_reading_changes(registry: Registry, csv: Path) -> None:
    reference = f"{csv}:species"
    [first] = resolve_data(reference, registry)
    assert (first.name, first.rows, first.n_numeric, first.task) == ("iris:new.csv:species", 150, 4, "multiclass")
    assert resolve_data(reference, registry) == [first]
    [other] = resolve_data(reference, registry, reading=Reading(categorical=("petal width (cm)",)))
    assert (other.n_numeric, other.n_categorical) == (3, 1)
    csv.write_text(csv.read_text() + "1,1,1,1,setosa\n")
    [longer] = resolve_data(reference, registry)
    assert longer.rows == 151
    assert len({first.key, other.key, longer.key}) == 3
    assert len(list_cached()) == 3


def test_a_damaged_table_is_loaded_again(registry: Registry) -> None:
    [wine] = resolve_data("wine", registry)
    (cache_dir() / wine.path).write_bytes(b"no parquet")
    lines: list[str] = []
    assert resolve_data("wine", registry, progress=lines.append) == [wine]
    assert "damaged" in lines[0]
    assert len(read_frame(wine)) == 178


def test_a_new_revision_of_a_plugin_is_loaded_again(tmp_path: Path) -> None:
    file = tmp_path / "counting.py"
    file.write_text(PLUGIN)
    registry = make_registry([file], points=[])
    [first] = resolve_data("CT", registry)
    assert resolve_data("few", registry) == [first]
    file.write_text(PLUGIN.replace("i * i % 7", "i * i % 11"))
    [second] = resolve_data("counting", make_registry([file], points=[]))
    assert second.key != first.key


def test_an_imported_name_can_be_used_like_any_other(registry: Registry, csv: Path) -> None:
    manifest = import_file("My_Iris", csv, "species", registry)
    assert manifest.name == "my_iris"
    assert resolve_data("my_iris", registry, offline=True) == [manifest]
    with pytest.raises(UsageError, match="Did you mean: my_iris?"):
        resolve_data("my_irsi", registry)
    with pytest.raises(UsageError, match="'demo' is a group of datasets"):
        import_file("demo", csv, "species", registry)


def test_an_imported_table_that_is_gone_or_damaged_is_to_be_imported_again(registry: Registry, csv: Path) -> None:
    manifest = import_file("mine", csv, "species", registry)
    remedy = "import it again: `tabbench data import mine FILE --target species`"
    (cache_dir() / manifest.path).write_bytes(b"no parquet")
    with pytest.raises(DataError, match=f"the cached table of mine is damaged .*: {remedy}"):
        read_frame(manifest)
    (cache_dir() / manifest.path).unlink()
    with pytest.raises(DataError, match=f"mine is not cached .*: {remedy}"):
        resolve_data("Mine", registry)
    assert import_file("mine", csv, "species", registry) == resolve_data("mine", registry)[0]


def test_an_edited_manifest_is_noticed_before_anything_runs(registry: Registry, csv: Path) -> None:
    manifest = import_file("mine", csv, "species", registry)
    file = cache_dir() / "data" / "mine" / "manifest.json"
    names = json.dumps(list(manifest.class_names), indent=2)
    assert file.write_text(file.read_text().replace('"setosa",\n  "versicolor"', '"versicolor",\n  "setosa"')), names
    with pytest.raises(DataError, match="the manifest of mine does not match the cached table"):
        resolve_data("mine", registry)
    [wine] = resolve_data("wine", registry)
    file = cache_dir() / "data" / "wine" / "manifest.json"
    file.write_text(file.read_text().replace('"rows": 178', '"rows": 177'))
    lines: list[str] = []
    assert resolve_data("wine", registry, progress=lines.append) == [wine], "what can be loaded again is loaded again"
    assert "does not match the cached table (rows 177 instead of 178)" in lines[0]


def test_an_import_under_a_known_name_must_be_that_dataset(registry: Registry, csv: Path) -> None:
    with pytest.raises(DataError, match=r"this is not adult \(OpenML 1590\): 150 rows instead of 48,842"):
        import_file("AD", csv, "species", registry)
    assert list_cached() == []


def write_wine(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> Path:
    loaded = DemoDataset("wine").load(path, offline=True)
    change(loaded.frame).to_csv(path, index=False)
    return path


def test_a_demo_table_can_be_imported_from_a_copy_of_it(registry: Registry, tmp_path: Path) -> None:
    [loaded] = resolve_data("wine", registry)
    path = write_wine(tmp_path / "w.csv", lambda frame: frame.rename(columns={"target": "y"}))
    imported = import_file("wine", path, "y", registry)
    assert (imported.key, imported.target, imported.source) == (loaded.key, "target", "file w.csv")
    loaded = resolve_data("diabetes", registry)[0]
    read_frame(loaded).to_csv(path, index=False)
    assert import_file("diabetes", path, "target", registry).key == loaded.key, "whatever type a file gives a category"


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda frame: frame.drop(columns="hue"), "there is no column 'hue'"),
        (lambda frame: frame.assign(more=1), "extra column: 'more'"),
        (lambda frame: frame.head(100), "100 rows instead of 178"),
        (lambda frame: frame.assign(hue=frame["hue"] + 0.01), "row 1 has 1.05 in 'hue' instead of 1.04"),
        (lambda frame: frame.assign(hue="red"), "row 1 has red in 'hue' instead of 1.04"),
        (lambda frame: frame.assign(target="a"), "row 1 has a in 'target' instead of class_0"),
    ],
)
def test_another_table_is_refused_under_the_name_of_a_demo_table(
    registry: Registry, tmp_path: Path, change: Callable[[pd.DataFrame], pd.DataFrame], message: str
) -> None:
    path = write_wine(tmp_path / "w.csv", change)
    with pytest.raises(DataError) as caught:
        import_file("wine", path, "target", registry)
    assert str(caught.value) == f"{path}: this is not the dataset of that name: {message}; import it under another name"
    assert list_cached() == []


def test_a_dataset_that_cannot_be_compared_is_not_replaced(csv: Path, tmp_path: Path) -> None:
    file = tmp_path / "far.py"
    file.write_text(
        PLUGIN.replace("Counting.calls += 1", "from tabbench import DataError; raise DataError('far away')")
    )
    with pytest.raises(DataError, match=r"of that name \(far away\): import it under another name"):
        import_file("counting", csv, "species", make_registry([file], points=[]))


@pytest.mark.parametrize(
    "reference, path, target",
    [
        ("churn.csv:Exited", "churn.csv", "Exited"),
        ("a:b/churn.csv.gz:Exited", "a:b/churn.csv.gz", "Exited"),
        (r"C:\data\churn.parquet:Exited", r"C:\data\churn.parquet", "Exited"),
        ("churn.csv:data.csv", "churn.csv", "data.csv"),
        ("data/churn.xlsx:Exited", "data/churn.xlsx", "Exited"),
    ],
)
def test_a_file_reference_is_divided_at_its_last_colon(reference: str, path: str, target: str) -> None:
    assert parse_file_reference(reference) == FileReference(Path(path), target)


def test_names_of_files_and_columns_may_hold_colons(tmp_path: Path, registry: Registry) -> None:
    file = tmp_path / "a:b.csv"
    file.write_text("x,t:u\n" + "1,p\n2,q\n" * 10)
    assert parse_file_reference(f"{file}:t:u") == FileReference(file, "t:u")
    [manifest] = resolve_data(f"{file}:t:u", registry)
    assert manifest.target == "t:u"
    with pytest.raises(UsageError, match="Which column of .*a:b.csv is the target"):
        parse_file_reference(str(file))
    assert parse_file_reference("gone.csv:t:u") == FileReference(Path("gone.csv"), "t:u")


@pytest.mark.parametrize("reference", ["churn.csv", "churn.csv:", r"C:\data\churn.csv"])
def test_a_file_without_a_target_is_asked_for_it(reference: str) -> None:
    with pytest.raises(UsageError, match="Which column of .*churn.csv is the target"):
        parse_file_reference(reference)


def test_wrong_references_are_refused_with_what_is_near(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Unknown dataset 'adlut'. Did you mean: adult?"):
        resolve_data("adlut", registry)
    for reference in (str(tmp_path), f"{tmp_path}:y"):
        with pytest.raises(DataError, match=f"{tmp_path} is a folder; give a file and its target, as FILE:TARGET"):
            resolve_data(reference, registry)
    with pytest.raises(DataError, match="nowhere.csv: there is no such file"):
        resolve_data(f"{tmp_path}/nowhere.csv:y", registry)
    (tmp_path / "one.csv").write_text("x,y\n" + "1,a\n2,a\n" * 10)
    with pytest.raises(DataError, match=r"one.csv: the target 'y' has only one class: a"):
        resolve_data(f"{tmp_path}/one.csv:y", registry)


def test_a_dataset_that_breaks_the_contract_is_named(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text(PLUGIN.replace('["a", "b"] * 20', '"a"'))
    with pytest.raises(DataError, match=r"dataset 'counting' of .*bad.py: the target 'y' has only one class: a"):
        resolve_data("counting", make_registry([file], points=[]))


def test_a_cached_dataset_is_used_from_a_folder_that_cannot_be_written(registry: Registry) -> None:
    [wine] = resolve_data("wine", registry)
    for path in (cache_dir() / "locks").iterdir():
        path.unlink()
    (cache_dir() / "locks").rmdir()
    assert resolve_data("wine", registry) == [wine]
    assert not (cache_dir() / "locks").exists()
    assert isinstance(read_frame(wine), pd.DataFrame)
