"""What a plugin gives that cannot be right is named as such, before it becomes a number in a table."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tabbench import PluginError, Representation, Table, Task
from tabbench.data.prepare import open_split
from tabbench.data.sources import resolve_data
from tabbench.experiment.payloads import Address
from tabbench.registry import make_registry
from tabbench.running import features, steps
from tabbench.running.features import as_table, encode_to_file, make_probe
from tabbench.testing import make_table

DOUBLE: Any = np.zeros((1, 2))


class Split:
    task = Task("binary", 2)


class Predicts:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def predict(self, features: Any) -> Any:
        return self.answer


@pytest.mark.parametrize(
    "answer, sentence",
    [
        (np.zeros((4, 3)), r"Predicts.predict gave shape \(4, 3\), expected \(4, 2\)"),
        (np.full((4, 2), 1.5), r"Predicts.predict gave probabilities between 1.5 and 1.5, not in 0..1"),
        (np.array([[-0.2, 1.2]] * 4), r"probabilities between -0.2 and 1.2, not in 0..1"),
    ],
)
def test_predictions_that_cannot_be_are_named(answer: NDArray[Any], sentence: str) -> None:
    with pytest.raises(PluginError, match=sentence):
        steps._predict(Predicts(answer), make_table(4), Split())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "encoded, sentence",
    [
        (Representation(np.zeros((3, 2), dtype=np.float32)), "encode gave 3 rows for 1"),
        (Representation(DOUBLE), "encode gave float64, expected float32"),
        (np.zeros((1, 2), dtype=np.float32), "encode gave a ndarray, not a Representation"),
    ],
)
def test_a_representation_that_cannot_be_is_named(encoded: Any, sentence: str, tmp_path: Any) -> None:
    with pytest.raises(PluginError, match=sentence):
        encode_to_file(lambda table: encoded, make_table(5), tmp_path / "rows.npy")


def test_a_wrong_number_of_rows_is_named_by_the_probe_of_a_pretraining_too() -> None:
    (manifest,) = resolve_data("wine", make_registry(), offline=True)
    split = open_split(manifest, 0)
    with pytest.raises(PluginError, match="encode gave 3 rows for 142"):
        make_probe(split)(lambda table: Representation(np.zeros((3, 2), dtype=np.float32)))


def test_the_probe_of_a_large_table_has_each_row_with_its_own_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "PROBED_ROWS", 60)
    (manifest,) = resolve_data("wine", make_registry(), offline=True)
    split = open_split(manifest, 0)
    labels = {
        row.tobytes(): label
        for part in (split.train, split.validation)
        for row, label in zip(as_table(part.features).numeric, part.y, strict=True)
    }
    asked: list[int] = []

    def encode(table: Table) -> Representation:
        asked.append(len(table))
        return Representation(np.eye(3, dtype=np.float32)[[labels[row.tobytes()] for row in table.numeric]])

    assert make_probe(split)(encode) == 1.0
    assert asked == [60, len(split.validation.y)]


def test_a_class_that_is_not_a_plugin_is_named() -> None:
    address = Address(name="mine", target="pathlib:Path", distribution="mine", version="1", revision=1, config={})
    with pytest.raises(PluginError, match="pathlib:Path is not a subclass of SSLMethod, JointMethod or Downstream"):
        steps.make(address)
