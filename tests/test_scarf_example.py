"""The example of a third party's plugin; ``tox -e scarf`` runs its tests, the kit, and it beside T-JEPA, as wheels."""

import json
from pathlib import Path

import pytest
from harness import tabbench_process
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


def test_it_uses_only_what_is_public() -> None:
    for file in (PROJECT / "tabbench_scarf").glob("*.py"):
        for module in imports(file):
            ours = module.startswith("tabbench") and not module.startswith("tabbench_scarf")
            assert not ours or module in ("tabbench", "tabbench.nn"), f"{file.name} imports {module}"
