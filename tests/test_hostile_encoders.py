"""``embed --encoder`` on folders that anybody may have made: a sentence each, exit code 2, and no file."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file
from tabbench_vime.method import VIME
from typer.testing import CliRunner

from tabbench.cli.app import app
from tabbench.errors import TabbenchError
from tabbench.results.artefacts import DIGESTS

Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table and an encoder."""
    folder = tmp_path_factory.mktemp("sound")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40), "c": rng.choice(["x", "y"], 40)})
    frame.to_csv(folder / "mine.csv", index=False)
    VIME(width=4, depth=1, epochs=1).fit(frame).save(folder / "encoder")
    return folder


def embed(folder: Path) -> tuple[int, str]:
    out = folder / "out.npy"
    command = [
        "embed",
        str(folder / "mine.csv"),
        "--ssl",
        "vime",
        "--encoder",
        str(folder / "encoder"),
        "--out",
        str(out),
    ]
    done = CliRunner().invoke(app, command)
    if isinstance(done.exception, TabbenchError):
        return done.exception.exit_code, str(done.exception)
    assert done.exception is None, done.exception
    return done.exit_code, done.output


def about(**changes: Any) -> Change:
    def change(folder: Path) -> None:
        file = folder / "method.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))

    return change


def settings(**changes: Any) -> Change:
    def change(folder: Path) -> None:
        config = json.loads((folder / "method.json").read_text())["config"]
        about(config={**config, **changes})(folder)

    return change


def schema(**changes: Any) -> Change:
    def change(folder: Path) -> None:
        known = json.loads((folder / "method.json").read_text())["schema"]
        about(schema={**known, **changes})(folder)

    return change


def weights(make: Callable[[np.ndarray], np.ndarray]) -> Change:
    def change(folder: Path) -> None:
        state = load_file(folder / "state.safetensors")
        save_file({name: make(array) for name, array in state.items()}, folder / "state.safetensors")

    return change


def instead(name: str, make: Change) -> Change:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return change


def text(name: str, content: str) -> Change:
    return lambda folder: (folder / name).write_text(content)


def cut(name: str, size: int) -> Change:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


METHOD, STATE = "method.json", "state.safetensors"
HOSTILE: dict[str, tuple[Change, str]] = {
    "no folder": (shutil.rmtree, "there is no stored encoder in this folder (method.json: No such file"),
    "no method": (lambda folder: (folder / METHOD).unlink(), "there is no stored encoder"),
    "no state": (lambda folder: (folder / STATE).unlink(), "there is no stored encoder"),
    "empty method": (text(METHOD, ""), "its method.json is damaged"),
    "a list": (text(METHOD, "[1, 2]"), "its method.json is damaged"),
    "deep JSON": (text(METHOD, "[" * 200_000), "its method.json is damaged"),
    "class is a number": (about(**{"class": 7}), "its method.json is damaged"),
    "another method": (about(**{"class": "tabbench_subtab.method:SubTab"}), "holds a subtab encoder, not one of vime"),
    "a stranger": (about(**{"class": "os:system"}), "holds an encoder of os:system, not one of vime"),
    "config is a list": (about(config=[1]), "it does not hold an encoder that can be loaded"),
    "no schema": (about(schema=None), "it does not hold an encoder that can be loaded"),
    "unknown setting": (settings(evil=1), "evil"),
    "wrong type": (settings(width="wide"), "width"),
    "huge width": (settings(width=10**13), "it does not hold an encoder that can be loaded"),
    "width that would fit": (settings(width=10**9), "it does not hold an encoder that can be loaded"),
    "another width": (settings(width=8), "it does not hold an encoder that can be loaded"),
    "no columns": (schema(numeric=[], categorical=[], levels=[]), "it does not hold an encoder that can be loaded"),
    "other columns": (schema(numeric=["a", "z"]), "the table has no column 'z'"),
    "names are numbers": (schema(numeric=[1, 2]), "the table has no column 1, 2"),
    "no levels": (schema(levels=[]), ""),
    "truncated state": (cut(STATE, 200), "it does not hold an encoder that can be loaded (SafetensorError"),
    "text as state": (text(STATE, "hello"), "it does not hold an encoder that can be loaded (SafetensorError"),
    "a header of exabytes": (
        lambda folder: (folder / STATE).write_bytes(b"\xff" * 7 + b"\x0f{}"),
        "it does not hold an encoder that can be loaded (SafetensorError",
    ),
    "NaN weights": (weights(lambda array: array * np.nan if array.dtype.kind == "f" else array), "not finite"),
    "infinite weights": (weights(lambda array: array + np.inf if array.dtype.kind == "f" else array), "the encoder in"),
    "wrong shapes": (weights(lambda array: array[:1]), "it does not hold an encoder that can be loaded"),
    "nothing in it": (lambda folder: save_file({}, folder / STATE), "it does not hold an encoder that can be loaded"),
    "method is a pipe": (instead(METHOD, os.mkfifo), "method.json is not a regular file"),
    "state is a pipe": (instead(STATE, os.mkfifo), "state.safetensors is not a regular file"),
    "state is a device": (instead(STATE, lambda path: path.symlink_to("/dev/zero")), "is not a regular file"),
    "state is a folder": (instead(STATE, lambda path: path.mkdir()), "is not a regular file"),
    "a link to itself": (instead(METHOD, lambda path: path.symlink_to(path)), "there is no stored encoder"),
    "digests that do not fit": (
        text(DIGESTS, json.dumps({METHOD: "0", STATE: "0"})),
        "it is damaged (method.json, sta",
    ),
}


def test_a_sound_folder_is_embedded(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
    assert embed(tmp_path) == (0, f"{tmp_path / 'out.npy'}: 40 x 4\n")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_folder_is_refused_in_a_sentence(sound: Path, tmp_path: Path, name: str) -> None:
    change, sentence = HOSTILE[name]
    shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
    change(tmp_path / "encoder")
    code, said = embed(tmp_path)
    assert code == 2, said
    assert sentence in said
    assert "\n" not in said.strip()
    assert len(said) < 600
    assert not (tmp_path / "out.npy").exists()
