"""The example of a third party's plugin, as its users would meet it (tox env ``scarf`` does so with wheels)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from harness import INLINE, tabbench_process, written_records
from packages import install
from test_architecture import imports

PROJECT = Path(__file__).parent.parent / "examples" / "tabbench-scarf"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return install(PROJECT, tmp_path_factory.mktemp("scarf") / "site")


def test_it_is_found_beside_the_built_in_methods(environment: dict[str, str]) -> None:
    listed = json.loads(tabbench_process("list", "ssl", "--json", env=environment).stdout)
    found = {entry["name"]: entry["distribution"] for entry in listed}
    assert found["scarf"] == "tabbench-scarf"
    assert found["tjepa"] == "tabbench-ssl"


def test_it_passes_its_own_tests_and_the_kit(environment: dict[str, str]) -> None:
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-c", str(PROJECT / "pyproject.toml"), str(PROJECT / "tests")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stdout


def test_it_runs_beside_a_built_in_method(environment: dict[str, str], tmp_path: Path) -> None:
    small = ["--set", "scarf.epochs=2", "--set", "tjepa.exp_epochs=2", "--set", "mlp.max_epochs=2"]
    where = ("--data", "wine", "--offline", *INLINE, "--results", tmp_path / "results")
    done = tabbench_process("run", "--ssl", "scarf,tjepa", "--model", "mlp", *where, *small, env=environment)
    assert done.returncode == 0, done.stderr
    records = {record["ssl"]: record for record in written_records(tmp_path / "results")}
    assert set(records) == {"none", "scarf", "tjepa"}
    assert records["scarf"]["status"] == "ok"
    assert records["scarf"]["plugins"]["ssl"]["distribution"] == "tabbench-scarf"
    assert records["scarf"]["diagnostics"]["ssl"]["changed_entries"] > 0.3


def test_it_uses_only_what_is_public() -> None:
    for file in (PROJECT / "tabbench_scarf").glob("*.py"):
        for module in imports(file):
            ours = module.startswith("tabbench") and not module.startswith("tabbench_scarf")
            assert not ours or module in ("tabbench", "tabbench.nn"), f"{file.name} imports {module}"
