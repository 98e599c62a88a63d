"""The report: one page, self-contained, with everything that a reader needs to judge the table."""

import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
from harness import Bench, tabbench

from tabbench.page import chart

VOID = {"meta", "br"}


class Balance(HTMLParser):
    """Finds tags that are not closed in the order in which they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.sources += [value or "" for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        pass


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    bench = Bench(folder / "results")
    bench.run(seeds=2, set={"nearest": {"behave": {"1": "fail"}}})
    bench.store.save_experiment({"preset": "quick"})
    done = tabbench("report", "--results", folder / "results", "--out", folder / "page.html")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in folder.iterdir() if path.suffix == ".html"] == ["page.html"], "no draft is left"
    return (folder / "page.html").read_text(encoding="utf-8")


def test_the_page_is_whole_and_loads_nothing(page: str) -> None:
    balance = Balance()
    balance.feed(page)
    assert balance.open == []
    assert balance.sources == []
    assert "http" not in page
    assert "<script" not in page


def test_the_page_has_the_table_its_evidence_and_what_was_left_out(page: str) -> None:
    assert "projection" in page
    assert "wine (accuracy, higher is better)" in page
    assert "the toy was told to fail" in page, "a failure is named"
    assert "142" in page, "rows that the models were trained on"
    assert "&quot;preset&quot;: &quot;quick&quot;" in page, "the experiment as it was resolved"


def test_names_from_outside_are_escaped(tmp_path: Path) -> None:
    table = tmp_path / "<b>.csv"
    table.write_text("x,y\n" + "\n".join(f"{i % 7},{'ab'[i % 2]}" for i in range(60)))
    results = tmp_path / "results"
    run = ("run", "--ssl", "none", "--model", "linear", "--data", f"{table}:y", "--preset", "quick", "--offline")
    assert tabbench(*run, "--results", results, "-q").returncode == 0
    out = tmp_path / "page.html"
    assert tabbench("report", "--results", results, "--out", out).returncode == 0
    text = out.read_text(encoding="utf-8")
    assert "&lt;b&gt;.csv" in text
    assert "<b>" not in text


def test_a_curve_begins_on_the_left_and_a_higher_value_is_higher_up() -> None:
    svg = ET.fromstring(chart("loss", [3.0, 1.0, 2.0]))
    line = svg.find(".//polyline")
    assert line is not None
    points = [tuple(float(part) for part in pair.split(",")) for pair in line.attrib["points"].split()]
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    heights = [y for _, y in points]
    assert heights[0] < heights[2] < heights[1], "SVG counts from the top"


def test_nothing_to_report_is_said_in_one_line(tmp_path: Path) -> None:
    done = tabbench("report", "--results", tmp_path / "none")
    assert done.returncode == 2
    assert "There are no results in" in done.stderr
    (tmp_path / "results" / "records").mkdir(parents=True)
    elsewhere = tabbench("report", "--results", tmp_path / "results", "--out", tmp_path / "no" / "page.html")
    assert elsewhere.returncode == 2
    assert "there is no folder" in elsewhere.stderr
    folder = tabbench("report", "--results", tmp_path / "results", "--out", tmp_path)
    assert folder.returncode == 2
    assert "this is a folder; a file is needed" in folder.stderr
