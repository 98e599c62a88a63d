"""``tabbench embed``: representations of one's own file."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from harness import TOYS, tabbench


@pytest.fixture
def file(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.normal(size=(60, 3)), columns=["a", "b", "c"])
    frame["colour"] = generator.choice(["red", "blue"], 60)
    frame["label"] = generator.integers(0, 2, 60)
    frame.to_csv(tmp_path / "mine.csv", index=False)
    return tmp_path / "mine.csv"


def test_a_file_is_embedded_and_the_encoder_can_be_used_again(file: Path) -> None:
    folder = file.parent
    first = tabbench(
        "embed", f"{file}:label", "--ssl", "tjepa", "--set", "tjepa.preset=tiny", "--set", "tjepa.exp_epochs=2",
        "--out", folder / "one.npy", "--save", folder / "encoder",
    )  # fmt: skip
    assert first.returncode == 0, first.stderr
    one = np.load(folder / "one.npy")
    assert one.shape[:2] == (60, 4), "a token for each feature, none for the label"
    again = tabbench("embed", file, "--ssl", "tjepa", "--encoder", folder / "encoder", "--out", folder / "two.parquet")
    assert again.returncode == 0, again.stderr
    two = pd.read_parquet(folder / "two.parquet")
    np.testing.assert_array_equal(two.to_numpy(), one.reshape(60, -1))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--ssl", "projection", "--out", "x.xls"], ".parquet, .csv, .npy"),
        (["--ssl", "projektion", "--out", "x.csv"], "Did you mean: projection?"),
        (["--ssl", "projection", "--out", "x.csv", "--encoder", "nowhere"], "there is no stored encoder"),
        (["--ssl", "ptarl", "--out", "x.csv"], "learns with labels"),
        (["--ssl", "projection", "--out", "x.csv", "--device", "cuda"], "this machine has"),
    ],
)
def test_mistakes_are_one_line(file: Path, arguments: list[str], message: str) -> None:
    if "cuda" in arguments:
        import torch

        if torch.cuda.is_available():
            pytest.skip("this machine has CUDA")
    done = tabbench("embed", file, "--plugin", TOYS, *arguments, cwd=file.parent)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
