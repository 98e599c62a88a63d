"""The tutorial for plugin authors is run as it stands: files are written, commands run, shown output compared."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from harness import INLINE, tabbench
from packages import install

from tabbench.config import preset_settings

PAGE = Path(__file__).parent.parent / "docs" / "plugins.md"
BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)


class Reader:
    """Somebody who does what the page says, in an empty folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.output = ""

    def python(self, text: str) -> None:
        """Write the file that the first line names; run what is no file."""
        name = re.match(r"# (\S+\.py)\n", text)
        if name is None:
            exec(compile(text, PAGE.name, "exec"), {"__name__": "page"})
            return
        path = self.folder / name[1]
        assert path.parent.is_dir(), f"{path.parent} should be there by now"
        path.write_text(text)
        compile(text, name[1], "exec")

    def bash(self, text: str) -> None:
        for line in text.splitlines():
            program, *words = shlex.split(line)
            if program == "pip":
                site = self.folder / "site"
                install(self.folder / words[-1].partition("[")[0], site)
                self.monkeypatch.syspath_prepend(site)  # for commands, which run here
                self.monkeypatch.setenv("PYTHONPATH", str(site))  # for workers and pytest
                continue
            if program == "tabbench":
                here = ("--offline", *INLINE) if words[0] == "run" else ()
                done = tabbench(*words, *here, cwd=self.folder)
            else:
                command = [sys.executable, "-P", "-m", program, "-q", *words]
                done = subprocess.run(
                    command, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False
                )
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
            self.output = done.stdout

    def text(self, text: str) -> None:
        """Lines of the last command's output, in this order or another."""
        for line in text.splitlines():
            assert line in [shown.strip() for shown in self.output.splitlines()], line


def test_every_block_of_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(tmp_path, monkeypatch)
    blocks = list(BLOCK.finditer(PAGE.read_text()))
    assert len(blocks) > 12
    for block in blocks:
        {"python": reader.python, "bash": reader.bash, "text": reader.text}[block["language"]](block["text"])
    assert "pca" in reader.output, "the last table has what was merged"


def test_settings_of_the_page_are_sound(tmp_path: Path) -> None:
    (block,) = [each["text"] for each in BLOCK.finditer(PAGE.read_text()) if "class SwapConfig" in each["text"]]
    namespace: dict[str, object] = {}
    exec(compile(block, "settings.py", "exec"), namespace)
    config: type = namespace["SwapConfig"]  # type: ignore[assignment]
    assert set(config.search_space()) == {"rate", "width", "heads"}  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="is not a multiple of heads"):
        config(width=130, heads=4)
    for preset in config.presets().values():  # type: ignore[attr-defined]
        config(**preset_settings(preset))
