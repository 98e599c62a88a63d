"""What tests of OpenML share: a small table, a stand-in server, a client that asks it."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tabbench_openml.client
import tabbench_openml.download
from openml_server import ROWS, ImportAsToy, Serve, Served, World, serving

from tabbench.data.cache import Manifest
from tabbench.data.sources import import_file
from tabbench.registry import Registry, make_registry

PLUGIN = f"""
from tabbench import Plugin, hookimpl

@hookimpl
def tabbench_datasets():
    arguments = {{"name": "toy", "id": 61, "target_column": "class", "rows": {ROWS}, "numeric": 2, "categorical": 2,
                 "classes": 3, "missing": 2}}
    return [Plugin("toy", "tabbench_openml.datasets:OpenMLDataset", aliases=("TY",), arguments=arguments)]
"""


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "width": rng.normal(size=ROWS).round(4),
            "colour": rng.choice(["red", "dark blue", "a,b"], ROWS),
            "count": rng.integers(0, 50, ROWS),
            "open": rng.random(ROWS) > 0.5,
            "class": rng.choice(["p", "q", "r"], ROWS),
        }
    )
    frame.loc[3, "width"] = np.nan
    frame.loc[4, "colour"] = None
    return frame


@pytest.fixture(autouse=True)
def quiet_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TABBENCH_OPENML_TIMEOUT", "60")
    monkeypatch.setattr(tabbench_openml.download, "DELAYS", (0.05, 0.05))
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def plugin_file(tmp_path: Path) -> Path:
    path = tmp_path / "toy_plugin.py"
    path.write_text(PLUGIN)
    return path


@pytest.fixture
def registry(plugin_file: Path) -> Registry:
    return make_registry([plugin_file], points=[])


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    @contextmanager
    def run(served: Served | World) -> Iterator[None]:
        with serving(served) as server:
            monkeypatch.setenv("TABBENCH_OPENML_SERVER", server.url)
            yield

    return run


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client runs in this process: what it asks and what we make of it is the same, without seconds of imports."""

    start = subprocess.run

    def run(command: list[str], env: dict[str, str] | None = None, **options: Any) -> Any:
        if env is None or "OPENML_SKIP_PARQUET" not in env:  # not the client
            return start(command, env=env, **options)
        monkeypatch.setenv("OPENML_SKIP_PARQUET", env["OPENML_SKIP_PARQUET"])
        tabbench_openml.client.answer(json.loads(command[-1]))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)


@pytest.fixture
def whole() -> Registry:
    return make_registry()


@pytest.fixture
def import_as_toy(registry: Registry, tmp_path: Path) -> ImportAsToy:
    """The table as a user's own file, where the target has another name."""

    def run(frame: pd.DataFrame) -> Manifest:
        file = tmp_path / "mine.parquet"
        text = frame["open"].map({True: "true", False: "false"})
        frame.assign(open=text).rename(columns={"class": "label"}).to_parquet(file)
        return import_file("TY", file, "label", registry)

    return run
