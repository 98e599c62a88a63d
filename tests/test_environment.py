"""The versions in a record: of the libraries of the plugins that took part, whoever wrote them."""

from pathlib import Path

import pytest
from harness import Bench, InProcess

from tabbench.running.environment import versions_of

METADATA = """Metadata-Version: 2.1
Name: tabbench-forest
Version: 1.0
Requires-Dist: lightlib[fast]>=2 ; python_version >= "3.8"
Requires-Dist: xgboost (>=2)
Requires-Dist: notinstalled ; sys_platform == "win32"
Requires-Dist: ray>=2 ; extra == "cluster"
"""


def test_versions_of_what_a_plugins_package_requires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "tabbench_forest-1.0": METADATA,
        "lightlib-2.5": "Metadata-Version: 2.1\nName: lightlib\nVersion: 2.5\n",
        "ray-9.9": "Metadata-Version: 2.1\nName: ray\nVersion: 9.9\n",
    }.items():
        folder = tmp_path / f"{name}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = versions_of(["tabbench-forest", "./my_plugin.py", ""])
    assert found["lightlib"] == "2.5"
    assert found["xgboost"]
    assert found["torch"]
    assert not found.keys() & {"notinstalled", "ray"}, "another platform's, and an extra's"


def test_a_record_has_the_versions_of_both_boosters_libraries(bench: Bench) -> None:
    bench.run(executor=InProcess, ssl=["none"], model=["linear"])
    (record,) = bench.store.records()
    assert record.environment is not None
    assert {"xgboost", "catboost", "torch", "tabbench-ssl"} <= record.environment.versions.keys()
