"""The tutorial notebook runs from the first cell to the last, in a real kernel, and shows its progress there."""

import json
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "docs" / "tutorial.ipynb"


@pytest.mark.slow
def test_the_tutorial_notebook_ends_with_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    kernels = tmp_path / "kernels" / "python3"
    kernels.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernels / "kernel.json").write_text(json.dumps({"argv": command, "display_name": "here", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    book = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    (progress,) = [each for each in cells[1].outputs if each.output_type == "display_data"]
    assert progress.data["text/plain"].endswith("9 record(s) made")
    assert '<progress value="21" max="21"' in progress.data["text/html"]
    assert "<table" in cells[2].outputs[0].data["text/html"]
    assert "raw features" in cells[4].outputs[0].text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kernels", "results"]


def test_the_notebook_is_stored_without_outputs() -> None:
    book = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert cells
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells)
