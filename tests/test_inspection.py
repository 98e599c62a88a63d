"""Looking at a training: it shows what happens, and changes nothing."""

from pathlib import Path

import numpy as np
import pytest
from harness import tabbench

from tabbench.context import Context
from tabbench.data.prepare import SplitData, open_split
from tabbench.data.references import resolve_data
from tabbench.inspection import Snapshot, feature_importance, inspect_training, tree_importance
from tabbench.registry import make_registry
from tabbench.table import Schema, Table


@pytest.fixture(scope="module")
def split() -> SplitData:
    (manifest,) = resolve_data("breast_cancer", make_registry(), offline=True)
    return open_split(manifest, 0)


@pytest.mark.parametrize("name", ["tjepa", "vime", "subtab"])
def test_a_watched_training_ends_as_an_unwatched_one(name: str, split: SplitData) -> None:
    registry = make_registry()
    entry = registry.find("ssl", name)
    cls = registry.load(entry)
    quick = {key: value for key, value in cls.Config.presets()["quick"].items() if key != "source"}
    quick[cls.Config.full_name("epochs")] = 3
    told: list[Snapshot] = []
    watched, alone = cls(**quick), cls(**quick)
    found = inspect_training(watched, split, Context(), 3, told.append)
    assert isinstance(split.train.features, Table)
    assert isinstance(split.validation.features, Table)
    alone.pretrain(split.train.features, Context(validation=split.validation.features))
    np.testing.assert_array_equal(watched.encode(split.test).array, alone.encode(split.test).array)
    assert [snapshot.epoch for snapshot in found] == [0, 1, 2, 3]
    assert found == told
    assert all(snapshot.map.shape == (455, 2) for snapshot in found)
    assert 0.3 < found[-1].probe <= 1


def test_trees_find_the_feature_that_decides() -> None:
    random = np.random.default_rng(0)
    numeric = random.normal(size=(300, 3)).astype(np.float32)
    table = Table(numeric, np.empty((300, 0), np.int64), Schema(("a", "b", "c")))
    importance = tree_importance(table, (numeric[:, 1] > 0).astype(np.int64), is_regression=False, threads=1)
    assert importance.argmax() == 1


def test_flat_representations_have_no_importance_of_features(split: SplitData) -> None:
    registry = make_registry()
    cls = registry.load(registry.find("ssl", "vime"))
    method = cls(**{key: value for key, value in cls.Config.presets()["quick"].items() if key != "source"})
    assert isinstance(split.train.features, Table)
    method.initialise(split.train.features, Context())
    assert feature_importance(method, split, threads=1) is None


def test_the_command_prints_a_line_for_each_look_and_writes_a_page(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    options = ("--set", "tjepa.epochs=4", "--snapshots", "2", "--out", out)
    done = tabbench("inspect", "--ssl", "tjepa", "--data", "wine", *options)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[1:4]] == ["0", "1", "4"]
    assert "Kendall's tau" in done.stdout
    page = out.read_text(encoding="utf-8")
    assert page.count("<figure>") == 4 + 3
    assert "alcohol" in page
    assert "http" not in page


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--ssl", "ptarl", "--data", "wine"), "'ptarl' cannot be inspected"),
        (("--ssl", "none", "--data", "wine"), "'none' cannot be inspected"),
        (("--ssl", "tjepa", "--data", "demo"), "--data demo is a group: name one of"),
        (("--ssl", "tjepa", "--data", "wine", "--set", "vime.lr=1"), "takes no part"),
        (("--ssl", "tjepa", "--data", "wine", "--out", "no/such/page.html"), "there is no folder"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments: tuple[str, ...], message: str) -> None:
    done = tabbench("inspect", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
