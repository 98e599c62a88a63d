"""``tabbench embed``: representations of one's own file."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from harness import TOYS, tabbench
from tabbench_vime.method import VIME

from tabbench import Representation, Table
from tabbench.frames import to_table
from tabbench.running import embedding


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


def test_new_rows_are_read_as_the_file_that_the_encoder_was_trained_on(tmp_path: Path) -> None:
    """A comma, a point and a date mean the same in rows that do not tell on their own."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "rent": [f"{value / 1000:.3f}" for value in rng.integers(1000, 9999, 60)],
        "size": [f"{value},{value % 9 + 1}" for value in rng.integers(10, 90, 60)],
        "pay": [f"{value:,}" for value in rng.integers(1_000_000, 9_999_999, 60)],
        "day": pd.date_range("2020-01-01", periods=60).strftime("%m/%d/%Y"),
    })  # fmt: skip
    frame.loc[:2, "size"], frame.loc[:2, "pay"] = "1,500", "1,234"
    frame.to_csv(tmp_path / "mine.csv", index=False, sep=";")
    common = ("--ssl", "projection", "--plugin", TOYS)
    first = tabbench("embed", tmp_path / "mine.csv", *common, "--out", tmp_path / "one.npy", "--save", tmp_path / "enc")
    assert first.returncode == 0, first.stderr
    assert "note: 'size' read with decimal commas\n" in first.stderr
    assert "note: 'pay' read with thousands separators\n" in first.stderr
    for separator in (";", ","):
        frame.iloc[:3].to_csv(tmp_path / "few.csv", index=False, sep=separator)
        few = tabbench(
            "embed", tmp_path / "few.csv", *common, "--encoder", tmp_path / "enc", "--out", tmp_path / "two.npy"
        )
        assert few.returncode == 0, few.stderr
        np.testing.assert_allclose(np.load(tmp_path / "two.npy"), np.load(tmp_path / "one.npy")[:3], rtol=1e-5)
    frame.iloc[:3].assign(size=["1,5", "unknown", "2"]).to_csv(tmp_path / "few.csv", index=False)
    told = tabbench(
        "embed", tmp_path / "few.csv", *common, "--encoder", tmp_path / "enc", "--out", tmp_path / "two.npy"
    )
    (point, rent) = (frame["rent"][0], frame["rent"][0].replace(".", ""))
    assert told.stderr.splitlines() == [
        f"note: 'rent': {point} is read as {rent}, as in the fitted table",
        "note: 1 value(s) 'unknown' of 'size' are treated as missing",
    ]
    (tmp_path / "enc" / "reading.json").write_text("[]")
    damaged = tabbench(
        "embed", tmp_path / "few.csv", *common, "--encoder", tmp_path / "enc", "--out", tmp_path / "two.npy"
    )
    assert damaged.stderr == f"tabbench: --encoder {tmp_path / 'enc'}: its reading.json is damaged\n"


@pytest.mark.parametrize("ending", [".npy", ".parquet", ".csv"])
def test_rows_are_written_in_parts_that_memory_bounds(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As what the method gives for all rows at once; no part is larger than the bound."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["a", "b", "c"])
    method = VIME(width=4, depth=1, epochs=1).fit(frame)
    whole, encode = method.encode(to_table(frame, method.schema)).array, VIME.encode
    lengths: list[int] = []

    def noted(self: VIME, table: Table) -> Representation:
        lengths.append(len(table))
        return encode(self, table)

    monkeypatch.setattr(VIME, "encode", noted)
    monkeypatch.setattr(embedding, "FIRST_ROWS", 2)
    monkeypatch.setattr(embedding, "PART_BYTES", whole[:25].nbytes)
    out = tmp_path / f"out{ending}"
    assert embedding.write_representation(method, frame, out) == whole.shape
    assert lengths == [2, 25, 25, 10]
    if ending == ".npy":
        written = np.load(out)
    else:
        frame = pd.read_parquet(out) if ending == ".parquet" else pd.read_csv(out)
        assert list(frame.columns) == [f"z{number}" for number in range(whole.shape[1])]
        written = frame.to_numpy()
    np.testing.assert_allclose(written, whole, rtol=1e-5, atol=1e-6)


def test_columns_that_a_benchmark_would_drop_are_not_encoded(file: Path) -> None:
    frame = pd.read_csv(file)
    frame.insert(0, "id", range(60))
    frame["same"] = 1
    frame.to_csv(file, index=False)
    made = tabbench(
        "embed", f"{file}:label", "--ssl", "tjepa", "--set", "tjepa.preset=tiny", "--set", "tjepa.exp_epochs=2",
        "--out", file.parent / "one.npy",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert np.load(file.parent / "one.npy").shape[:2] == (60, 4)
    assert "note: dropped 'id': row numbers" in made.stderr
    assert "note: dropped 'same': the same value in every row" in made.stderr


def test_a_file_without_features_is_refused(file: Path) -> None:
    pd.read_csv(file)[["label"]].to_csv(file, index=False)
    made = tabbench("embed", f"{file}:label", "--ssl", "vime", "--out", file.parent / "one.npy")
    assert made.returncode == 2
    assert "no feature column is left" in made.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--ssl", "projection", "--out", "x.xls"], ".parquet, .csv, .npy"),
        (["--ssl", "projektion", "--out", "x.csv"], "Did you mean: projection?"),
        (["--ssl", "projection", "--out", "x.csv", "--encoder", "nowhere"], "no stored encoder"),
        (["--ssl", "ptarl", "--out", "x.csv"], "learns from labels"),
        (["--ssl", "projection", "--out", "x.csv", "--device", "cuda"], "this machine has"),
        (["--ssl", "none", "--out", "x.csv"], "--ssl none: a control has no encoder to train"),
        (["--ssl", "untrained", "--out", "x.csv"], "--ssl untrained: a control has no encoder to train"),
        (
            ["--ssl", "projection", "--set", "projection.behave=fail", "--out", "nodir/x.csv"],
            "--out: there is no folder nodir",
        ),
        (
            ["--ssl", "projection", "--set", "projection.behave=fail", "--out", "mine.csv/x.csv"],
            "--out: there is no folder mine.csv",
        ),
        (
            ["--ssl", "projection", "--set", "projection.behave=fail", "--out", "x.csv", "--save", "mine.csv"],
            "mine.csv is a file, not a folder",
        ),
        (
            ["--ssl", "projection", "--set", "projection.behave=fail", "--out", "x.csv", "--save", "mine.csv/e"],
            "mine.csv is a file, not a folder",
        ),
        (["--ssl", "projection", "--out", "x.csv", "--set", "mlp.lr=3"], "'mlp' is not part"),
        (["--ssl", "projection", "--out", "x.csv", "--encoder", "e", "--set", "projection.width=3"], "--set is for"),
        (["--ssl", "projection", "--out", "x.csv", "--encoder", "e", "--categorical", "a"], "--categorical is for"),
        (["--ssl", "projection", "--out", "x.csv", "--encoder", "e", "--seed", "1"], "--seed is for pretraining"),
        (["--ssl", "subtab", "--out", "x.csv", "--set", "subtab.preset=fork"], "no preset 'fork' for mine.csv"),
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


def test_a_target_that_is_not_there_is_named_with_the_columns_that_are(file: Path) -> None:
    done = tabbench("embed", f"{file}:labl", "--ssl", "vime", "--out", "x.csv", cwd=file.parent)
    assert done.returncode == 2
    assert "there is no column 'labl'. Did you mean: label? Available: " in done.stderr


def test_a_file_without_rows_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "header.csv").write_text("a,b\n")
    done = tabbench("embed", "header.csv", "--ssl", "projection", "--plugin", TOYS, "--out", "x.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "tabbench: header.csv: the table has columns, but no rows\n"


def test_the_encoder_of_another_method_is_named(file: Path) -> None:
    first = tabbench(
        "embed", file, "--ssl", "projection", "--plugin", TOYS, "--out", "x.csv", "--save", "enc", cwd=file.parent
    )
    assert first.returncode == 0, first.stderr
    other: list[str | Path] = ["embed", file, "--ssl", "tjepa", "--encoder", "enc", "--out", "y.csv"]
    known = tabbench(*other, "--plugin", TOYS, cwd=file.parent)
    assert known.returncode == 2
    assert known.stderr == "tabbench: enc holds a projection encoder, not one of tjepa: give --ssl projection\n"
    unknown = tabbench(*other, cwd=file.parent)
    assert unknown.returncode == 2
    assert "enc holds an encoder of " in unknown.stderr
    (file.parent / "enc" / "method.json").write_text("{")
    assert "its method.json is damaged" in tabbench(*other, cwd=file.parent).stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full")
def test_a_full_disk_is_one_line_that_promises_what_is_there(file: Path) -> None:
    (file.parent / "x.csv").symlink_to("/dev/full")
    arguments: list[str | Path] = ["embed", file, "--ssl", "projection", "--plugin", TOYS, "--out", "x.csv"]
    done = tabbench(*arguments, cwd=file.parent)
    assert done.returncode == 2
    assert done.stderr.endswith("tabbench: cannot write x.csv (No space left on device)\n")
    saved = tabbench(*arguments, "--save", "enc", cwd=file.parent)
    assert saved.stderr.endswith("tabbench: cannot write x.csv (No space left on device); the encoder is in enc\n")
    assert (file.parent / "enc" / "method.json").is_file()
