"""Looking at a training: it shows what happens, and changes nothing."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from harness import INLINE, TOYS, tabbench

from tabbench.cli.inspect import stored_encoder
from tabbench.config import preset_settings
from tabbench.context import Context
from tabbench.data.gather import store_frames
from tabbench.data.prepare import SplitData, open_split
from tabbench.data.sources import resolve_data
from tabbench.experiment.settings import choose
from tabbench.experiment.spec import make_spec
from tabbench.registry import make_registry
from tabbench.running.encoder_scores import score_encoder
from tabbench.running.inspection import Snapshot, inspect_stored, inspect_training, take_snapshot, turned
from tabbench.running.rankings import fit_trees, kendall, rank_features, sensitivity, shuffled
from tabbench.running.stored_encoder import load_encoder
from tabbench.values import Representation, Schema, Table


@pytest.fixture(scope="module")
def split() -> SplitData:
    (manifest,) = resolve_data("breast_cancer", make_registry(), offline=True)
    return open_split(manifest, 0)


@pytest.mark.parametrize("name", ["tjepa", "vime", "subtab"])
def test_a_watched_training_ends_as_an_unwatched_one(name: str, split: SplitData) -> None:
    registry = make_registry()
    entry = registry.find("ssl", name)
    cls = registry.load(entry)
    quick = preset_settings(cls.Config.presets()["quick"])
    quick[cls.Config.full_name("epochs")] = 3
    told: list[Snapshot] = []
    watched, alone = cls(**quick), cls(**quick)
    found, curves = inspect_training(watched, split, Context(), 3, told.append)
    assert isinstance(split.train.features, Table)
    assert isinstance(split.validation.features, Table)
    alone.pretrain(split.train.features, Context(validation=split.validation.features))
    np.testing.assert_array_equal(watched.encode(split.test).array, alone.encode(split.test).array)
    assert [snapshot.epoch for snapshot in found] == [0, 1, 2, 3]
    assert found == told
    assert all(snapshot.map.shape == (455, 2) for snapshot in found)
    assert 0.3 < found[-1].probe <= 1
    assert all(len(values) == 3 for values in curves.values()), "one value per epoch"
    assert "loss" in curves


def test_a_watched_training_has_the_rows_without_a_target_too() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=90), "b": rng.normal(size=90), "y": ["u", "v"] * 30 + [None] * 30})
    (manifest,) = store_frames({"t": (frame, "y")})
    registry = make_registry([TOYS])
    method = registry.load(registry.find("ssl", "projection"))()
    inspect_training(method, open_split(manifest, 0), Context(), 1, lambda snapshot: None)
    assert method.diagnostics["rows"] == 48 + 30


def test_an_inspection_has_the_scores_that_a_record_has(split: SplitData) -> None:
    registry = make_registry()
    method = registry.load(registry.find("ssl", "tjepa"))()
    assert isinstance(split.train.features, Table)
    rows = split.train.features.take(np.arange(200))
    method.initialise(rows, Context())
    seen, scores = take_snapshot(method, rows, split, 0), score_encoder(method.encode, rows, {})
    assert scores is not None
    assert (seen.rank_me, seen.uniformity, seen.kl) == (scores.rank_me, scores.uniformity, scores.mean_kl)
    assert seen.distance == scores.mean_distance


def three_columns() -> Table:
    random = np.random.default_rng(0)
    numeric = random.normal(size=(300, 2)).astype(np.float32)
    codes = random.integers(2, 5, size=(300, 1))
    return Table(numeric, codes, Schema(("a", "b"), ("c",), (("x", "y", "z"),)))


def test_trees_find_the_feature_that_decides() -> None:
    table = three_columns()
    model = fit_trees(table, (table.numeric[:, 1] > 0).astype(np.int64), is_regression=False, threads=1)
    assert model.feature_importances_.argmax() == 1


def test_shuffling_a_feature_touches_no_other() -> None:
    table = three_columns()
    for feature in range(3):
        other = shuffled(table, feature, np.random.default_rng(1))
        changed = [(other.numeric != table.numeric)[:, j].any() for j in range(2)]
        assert [*changed, (other.categorical != table.categorical).any()] == [j == feature for j in range(3)]
        assert sorted(other.numeric[:, 0]) == sorted(table.numeric[:, 0])


def test_embeddings_are_insensitive_to_a_feature_that_is_not_used() -> None:
    class Second:
        """Encodes the second column and nothing else."""

        def encode(self, table: Table) -> Representation:
            return Representation(table.numeric[:, 1:2])

    found = sensitivity(Second(), three_columns(), np.random.default_rng(0))  # type: ignore[arg-type]
    assert found[0] == found[2] == 0
    assert found[1] > 0.5


def test_kendall_by_hand() -> None:
    scores = [np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]), np.array([5.0, 5.0, 5.0])]
    tau, p_values = kendall(scores)
    assert tau[0, 1] == pytest.approx(1 / 3), "two pairs agree, one does not"
    assert (tau[0, 2], p_values[0, 2]) == (0, 1), "a measure that ranks nothing agrees with nothing"


def test_maps_are_turned_to_lie_as_the_one_before() -> None:
    points = torch.from_numpy(np.random.default_rng(0).normal(size=(50, 2)))
    before = Snapshot(0, 0, 0, 0, 0, 0, points.float().numpy(), None)
    mirrored = points @ torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    np.testing.assert_allclose(turned(mirrored, before).numpy(), points.numpy(), atol=1e-5)


@pytest.mark.parametrize("name, tokens", [("tjepa", True), ("vime", False)])
def test_features_are_ranked_for_every_method_and_without_training(name: str, tokens: bool, split: SplitData) -> None:
    registry = make_registry()
    cls = registry.load(registry.find("ssl", name))
    method = cls(**preset_settings(cls.Config.presets()["quick"]))
    assert isinstance(split.train.features, Table)
    method.initialise(split.train.features, Context())
    found = rank_features(method, split, threads=1)
    assert found is not None
    assert ("variance of tokens" in found.scores) == tokens
    assert all(len(scores) == 30 for scores in found.scores.values())
    seen, _ = inspect_stored(method, split, Context(), lambda snapshot: None)
    assert [snapshot.epoch for snapshot in seen] == [0, 1]
    assert (seen[0].tokens is not None) == tokens


LABEL_FREE = [
    entry.name
    for entry in make_registry().entries("ssl")
    if entry.plugin.untrained and not entry.plugin.uses_labels and entry.distribution == "tabbench-ssl"
]


@pytest.mark.parametrize("name", LABEL_FREE)
def test_a_stored_encoder_of_every_built_in_method_is_inspected(name: str, split: SplitData, tmp_path: Path) -> None:
    registry = make_registry()
    entry = registry.find("ssl", name)
    cls = registry.load(entry)
    quick = {key: value for key, value in cls.Config.presets()["quick"].items() if key != "source"}
    method = cls(**{**quick, cls.Config.full_name("epochs"): 2})
    assert isinstance(split.train.features, Table)
    method.pretrain(split.train.features, Context())
    method.save(tmp_path / "encoder")
    stored = load_encoder(tmp_path / "encoder", entry, registry, "cpu")
    seen, curves = inspect_stored(stored, split, Context(), lambda snapshot: None)
    assert [snapshot.epoch for snapshot in seen] == [0, 2]
    assert seen[0].distance != seen[1].distance, "untrained, and trained"
    assert len(curves["loss"]) == 2
    stored.diagnostics["best_epoch"] = 0
    assert len(inspect_stored(stored, split, Context(), lambda snapshot: None)[0]) == 1, "the untrained one was kept"


def test_the_command_prints_a_line_for_each_look_and_writes_a_page(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    options = ("--set", "tjepa.epochs=4", "--snapshots", "2", "--out", out)
    done = tabbench("inspect", "--ssl", "tjepa", "--data", "wine", *options)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[2:5]] == ["0", "1", "4"]
    assert "Kendall's tau" in done.stdout
    page = out.read_text(encoding="utf-8")
    assert page.count('{"epoch":') == 1 + 3, "the metrics, and a map for each look"
    assert "alcohol" in page


def test_settings_are_compared_and_a_stored_encoder_is_not_trained_again(tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "page.html"
    run = ("--ssl", "vime", "--model", "linear", "--data", "wine", "--set", "vime.epochs=2", "--results", results)
    assert tabbench("run", *run, "-q", *INLINE).returncode == 0
    done = tabbench("inspect", "--ssl", "vime", "--data", "wine", "--results", results, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "stored in" in done.stdout
    assert done.stdout.splitlines()[2].split()[0] == "0"
    assert done.stdout.splitlines()[4] == "", "two looks: untrained, and as stored"
    assert "not trained again" in out.read_text(encoding="utf-8")
    (kept,) = (results / "inspections").iterdir()
    assert json.loads(kept.read_text())["ssl"] == "vime"
    several = tabbench("inspect", "--ssl", "vime", "--data", "wine", "--ablate", "epochs=1,2", "--out", out)
    assert several.returncode == 0, several.stderr
    assert "vime, epochs=2 on wine" in several.stdout
    assert '"vime, epochs=2":{"epoch":[0,1,2]' in out.read_text(encoding="utf-8")


def test_only_an_encoder_of_the_same_rows_and_preset_is_taken_from_the_results(tmp_path: Path) -> None:
    """An encoder of another split rule had seen the rows that validate here; one of another preset is not asked for."""
    results = tmp_path / "results"
    run = ("--ssl", "vime", "--model", "linear", "--data", "wine", "--controls", "", "--results", results, "-q")
    registry = make_registry()
    (manifest,) = resolve_data("wine", registry, offline=True)

    def found(*, exact: bool = False, **entries: Any) -> bool:
        spec = make_spec({"ssl": ["vime"], "model": ["linear"], "preset": "quick", **entries})
        return stored_encoder(results, choose(spec, registry, "ssl", "vime"), manifest, 0, exact=exact) is not None

    for other in (("--folds", "5"), ("--rows", "100")):
        assert tabbench("run", *run, *other, "--set", "vime.epochs=2", *INLINE).returncode == 0
    assert not found()
    assert tabbench("run", *run, "--set", "vime.epochs=2", *INLINE).returncode == 0
    assert found()
    assert found(exact=True, set={"vime": {"epochs": 2}})
    assert not found(exact=True)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--ssl", "ptarl", "--data", "wine"), "'ptarl' cannot be inspected"),
        (("--ssl", "none", "--data", "wine"), "'none' cannot be inspected"),
        (("--ssl", "tjepa", "--data", "demo"), "--data demo is a group; pick one:"),
        (("--ssl", "tjepa", "--data", "wine", "--set", "vime.lr=1"), "is not part of this run"),
        (("--ssl", "tjepa", "--data", "wine", "--out", "no/such/page.html"), "there is no folder"),
        (("--ssl", "tjepa", "--data", "wine", "--ablate", "n_reg"), "--ablate 'n_reg': write KEY=VALUE,VALUE"),
        (("--ssl", "tjepa", "--data", "wine", "--encoder", "nowhere"), "no stored encoder in this folder"),
        (("--ssl", "tjepa", "--data", "wine", "--encoder", "x", "--preset", "paper"), "leave out --ablate, --set and"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments: tuple[str, ...], message: str) -> None:
    done = tabbench("inspect", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
