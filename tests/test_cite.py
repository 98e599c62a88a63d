"""Papers, code and BibTeX of everything that takes part."""

import re
from importlib import resources
from pathlib import Path

import pytest
from made_records import write_records
from typer.testing import CliRunner

from tabbench.cli.app import app
from tabbench.experiment.controls import NONE, UNTRAINED
from tabbench.registry import Entry, make_registry
from tabbench.results.citations import ENTRY, LIBRARIES, read_bibtex

ENTRIES = [entry for entry in make_registry().entries() if entry.plugin.paper]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.kind}-{entry.name}")
def test_what_has_a_paper_has_its_link_and_its_bibtex(entry: Entry) -> None:
    assert entry.plugin.url.startswith("https://")
    text = read_bibtex(entry)
    assert entry.plugin.url in text
    year = re.findall(r"\d{4}", entry.plugin.paper)[0]
    author = re.split(r"[ ,]", entry.plugin.paper)[0]
    assert f"{{{year}}}" in text
    assert f"author    = {{{author}," in text, f"{author} comes first"


def test_every_method_has_a_paper() -> None:
    for entry in make_registry().entries("ssl"):
        assert entry.plugin.paper or entry.name in (NONE, UNTRAINED), entry.name


def test_bibtex_files_have_balanced_braces_and_keys_of_their_own() -> None:
    texts = [read_bibtex(entry) for entry in make_registry().entries()]
    texts.append(resources.files("tabbench.results").joinpath("libraries.bib").read_text())
    entries: dict[str, str] = {}
    for text in texts:
        assert text.count("{") == text.count("}")
        found = {match[1]: match[0] for match in ENTRY.finditer(text)}
        assert len(found) == text.count("\n@") + text.startswith("@")
        for key, entry in found.items():
            assert entries.setdefault(key, entry) == entry, f"two entries are called {key}"
    assert set(LIBRARIES.values()) <= set(entries)


def keys(output: str) -> list[str]:
    return [match[1] for match in ENTRY.finditer(output)]


def test_names_are_cited_with_tabbench_and_the_libraries() -> None:
    done = CliRunner().invoke(app, ["cite", "VIME", "mlp", "resnet"])
    assert keys(done.output) == ["tabbench", "yoon2020vime", "gorishniy2021revisiting", *LIBRARIES.values()]


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    done = CliRunner().invoke(app, ["cite", "vmie"])
    assert str(done.exception).startswith("Unknown plugin 'vmie'. Did you mean: vime?")


def test_a_results_folder_cites_what_took_part(tmp_path: Path) -> None:
    made = [
        {"ssl": "tjepa", "model": "xgboost", "data": "california"},
        {"ssl": "untrained:vime", "model": "gone", "data": "own.csv"},
    ]
    write_records(tmp_path, made)
    done = CliRunner().invoke(app, ["cite", "--results", str(tmp_path)])
    found = keys(done.stdout)
    assert set(found[:5]) == {
        "tabbench", "thimonier2025tjepa", "chen2016xgboost", "vanschoren2014openml", "yoon2020vime",
    }  # fmt: skip
    assert "akiba2019optuna" not in found, "nothing was tuned"
    assert done.stderr == "tabbench: gone is not installed here, so it is not cited\n"


def test_a_folder_without_records_is_told(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["cite", "--results", str(tmp_path)])
    assert str(done.exception).endswith(": give --results DIR or plugin names")


def test_show_has_links_short_names_and_no_backticks() -> None:
    text = CliRunner().invoke(app, ["show", "tjepa"]).output
    assert "  url: https://arxiv.org/abs/2410.05016\n" in text
    assert "  code: https://github.com/jose-melo/t-jepa/tree/" in text
    assert "    exp_epochs, epochs: int = " in text
    for entry in make_registry().entries():
        assert "``" not in CliRunner().invoke(app, ["show", entry.name]).output, entry.name


def test_the_citation_file_is_sound() -> None:
    text = (Path(__file__).parent.parent / "CITATION.cff").read_text()
    for field in ("cff-version: 1.2.0", "title:", "authors:", "license: MIT", "type: software"):
        assert field in text


@pytest.mark.parametrize("command", [["run"], ["data", "list"], ["plugins", "check"], []])
def test_help_shows_flags_without_a_type(command: list[str]) -> None:
    assert "<bool>" not in CliRunner().invoke(app, [*command, "--help"]).output


@pytest.mark.parametrize("page", ["plugins/README.md", "docs/methods.md"])
def test_pages_link_to_every_paper_and_to_the_authors_code(page: str) -> None:
    text = (Path(__file__).parent.parent / page).read_text()
    for entry in ENTRIES:
        if f"`{entry.name}`" not in text:
            continue
        if entry.kind == "ssl" and entry.distribution == "tabbench-ssl":
            assert entry.plugin.url in text, entry.name
            assert entry.plugin.code in text, entry.name
        elif entry.kind == "model":
            assert entry.plugin.url in text, entry.name
