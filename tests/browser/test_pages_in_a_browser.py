"""The pages in a real browser: what they do, that they ask for nothing, and that everybody can use them.

Run by ``tox run -e browser``. Needs Chromium (Debian: ``apt-get install chromium``) and the ``browser`` group of
pyproject.toml; without either, the tests are skipped in words.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_records import scores, write_records

from tabbench.registry import make_registry
from tabbench.results.formats.scores import score_grid
from tabbench.results.json_shapes import InspectionShape
from tabbench.results.page import make_page
from tabbench.results.page.inspection import make_inspection_page
from tabbench.results.site import make_site, write_site
from tabbench.results.store import Store
from tabbench.results.tabulate import tabulate

playwright = pytest.importorskip("playwright.sync_api", reason="the browser group of pyproject.toml is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")]

EVIL = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>"
PATIENCE = 120_000
"""Milliseconds that a step may take: a busy machine must not fail a test."""
WIDE, PHONE = {"width": 1400, "height": 900}, {"width": 390, "height": 844}


def results(folder: Path) -> Store:
    """Twelve tables, two methods of which one is hostile, two protocols, two numbers of labels, a failure."""
    draw = random.Random(0)
    records: list[dict[str, Any]] = []
    for number in range(12):
        for ssl, gain in (("none", 0.0), ("tjepa", 0.03), ("untrained:tjepa", 0.015), (EVIL, -0.02)):
            for protocol in ("raw",) if ssl == "none" else ("frozen", "finetune"):
                for labels, less in (("100%", 0.0), ("10%", 0.1)):
                    for model in ("mlp", "linear"):
                        records += [
                            {"ssl": ssl, "model": model, "protocol": protocol, "labels": labels, "split": split,
                             "data": f"table_{number}", "score": (score := 0.8 + gain - less + draw.gauss(0, 0.005)),
                             "test": {"accuracy": score, "auroc": score + 0.05}, "seconds": {"fit": draw.uniform(1, 9)},
                             "counts": {"train": 1000 if labels == "100%" else 100, "test": 200, "features": 7},
                             "notes": [f"read as numbers (--categorical {','.join(f'pixel{n}' for n in range(20))})"],
                             "diagnostics": {"ssl": {"loss": [3.0, 2.0, 1.0]}, "model": {"train_loss": [2.0, 1.0]}}}
                            for split in range(2)
                        ]  # fmt: skip
    failed = {"ssl": "vime", "data": "table_0", "status": "failed", "error": EVIL, "traceback": EVIL, "score": None}
    return write_records(folder, [*records, {**failed, "test": None}])


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    store = results(folder / "results")
    (folder / "report.html").write_text(make_page(store)[0], encoding="utf-8")
    write_site(make_site([folder / "results"], make_registry()), folder / "site")
    one_table = [
        *scores("none", [0.6, 0.61, 0.62]),
        *scores("tjepa", [0.7, 0.71, 0.72]),
        *scores("vime", [0.5, 0.6, 0.8]),
    ]
    (folder / "single.html").write_text(make_page(write_records(folder / "single", one_table))[0], encoding="utf-8")
    lost = [{"ssl": "vime", "status": "failed", "error": EVIL, "traceback": EVIL, "score": None, "test": None}]
    (folder / "failed.html").write_text(make_page(write_records(folder / "failed", lost))[0], encoding="utf-8")
    epochs = [0, 1, 2]
    one: InspectionShape = {
        "ssl": EVIL, "data": "wine", "source": "",
        "target": {"kind": "class", "name": "y", "values": [0, 1, 1], "names": ["a", EVIL]},
        "metrics": {name: [0.0, 1.0, 2.0] for name in ("epoch", "kl", "distance", "uniformity", "probe")},
        "training": {"loss": [2.0, 1.0]},
        "ablation": {"n_reg=0": {"epoch": epochs, "kl": [1.0, 0.5, 0.1], "training": {}}},
        "maps": [{"epoch": epoch, "points": [[0, epoch], [1, 1], [2, 0]]} for epoch in epochs],
        "tokens": {"names": ["x", "y"], "frames": [[[0.0, epoch], [1.0, 2.0]] for epoch in epochs]},
        "kendall": {"names": ["a", "b"], "values": [[1.0, 0.2], [0.2, 1.0]]},
        "features": {"names": ["x", "y"], "scores": {"a": [1.0, 2.0], "b": [2.0, 1.0]}},
    }  # fmt: skip
    (folder / "inspect.html").write_text(make_inspection_page(one), encoding="utf-8")
    return {
        "results": folder / "results", "report": folder / "report.html", "index": folder / "site" / "index.html",
        "method": folder / "site" / "methods" / "tjepa.html", "data": folder / "site" / "data" / "table_0.html",
        "inspect": folder / "inspect.html", "single": folder / "single.html", "failed": folder / "failed.html",
    }  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        try:  # a container has no sandbox, and little shared memory
            options = ["--no-sandbox", "--disable-dev-shm-usage"]
            chromium = started.chromium.launch(executable_path=CHROMIUM, args=options, timeout=PATIENCE)
        except playwright.Error as error:
            pytest.skip(f"{CHROMIUM} does not start here: {str(error).splitlines()[0]}")
        yield chromium
        chromium.close()


class Opened:
    """A page, and all that it complained about or asked for."""

    def __init__(self, browser: Any, path: Path, viewport: dict[str, int] = WIDE, **options: Any) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        context = browser.new_context(viewport=viewport, **options)
        context.set_default_timeout(PATIENCE)
        self.page = context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append("a dialog"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def names(self) -> list[str]:
        return [text.strip() for text in self.page.locator("#board tbody tr:not(.group) th").all_inner_texts()]

    def column(self, name: str) -> list[float]:
        """The figures of a dataset, of the first group."""
        names = [text.split()[0] for text in self.page.locator("#board thead th").all_inner_texts()]
        place = names.index(name)
        cells = self.page.locator(f"#board tbody:first-of-type tr:not(.group) td:nth-of-type({place}) .value")
        return [float(text.split()[0]) for text in cells.all_inner_texts()]


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("name", ["report", "index", "method", "data", "inspect", "single", "failed"])
def test_a_page_is_quiet_asks_for_nothing_and_never_scrolls_sideways(
    name: str, viewport: dict[str, int], browser: Any, places: dict[str, Path]
) -> None:
    opened = Opened(browser, places[name], viewport)
    opened.page.wait_for_timeout(200)
    assert opened.complaints == []
    assert opened.requests == [places[name].as_uri()]
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.page.evaluate("window.pwned") is None, "a name is text"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["report", "index", "method", "data", "inspect", "single", "failed"])
def test_there_is_no_serious_finding_of_accessibility(
    name: str, scheme: str, browser: Any, places: dict[str, Path]
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    opened = Opened(browser, places[name], color_scheme=scheme)
    found = axe.Axe().run(opened.page).response["violations"]
    serious = [
        (each["id"], each["nodes"][0]["html"][:200]) for each in found if each["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_the_ranks_of_the_script_are_those_of_the_table(browser: Any, places: dict[str, Path]) -> None:
    opened = Opened(browser, places["report"])
    table = tabulate(Store(places["results"]), ci=True)
    shown = [text.split()[0] for text in opened.page.locator("#board td.rank").all_inner_texts()]
    assert shown == [f"{row.average_rank:.2f}" for row in table.rows]
    assert len(score_grid(table).lines) == len(shown)


def test_a_header_sorts_and_sorts_back(browser: Any, places: dict[str, Path]) -> None:
    opened = Opened(browser, places["report"])
    button = opened.page.get_by_role("button", name="table_3", exact=True)
    button.click()
    assert (best := opened.column("table_3")) == sorted(best, reverse=True), "higher is better, so the highest is first"
    header = opened.page.locator("#board thead th").filter(has_text="table_3")
    assert header.get_attribute("aria-sort") == "ascending"
    button = opened.page.get_by_role("button", name="table_3", exact=True)
    button.press("Enter")
    assert (worst := opened.column("table_3")) == sorted(worst), "by keyboard too"
    assert header.get_attribute("aria-sort") == "descending"
    opened.page.get_by_role("button", name="Method + model").click()
    names = opened.names()[:8]
    assert names == sorted(names)


def test_filters_choose_rows_and_datasets_and_ranks_follow(browser: Any, places: dict[str, Path]) -> None:
    opened = Opened(browser, places["report"])
    whole = len(opened.names())
    opened.page.locator("[data-axis=model] summary").click()
    opened.page.locator("[data-axis=model]").get_by_label("mlp").uncheck()
    assert len(opened.names()) == whole // 2
    assert all(name.endswith("linear") for name in opened.names())
    first = [
        float(text.split()[0]) for text in opened.page.locator("#board tbody:first-of-type td.rank").all_inner_texts()
    ]
    assert first[0] < 1.6, "ranks are among what is shown"
    assert max(first) <= 4
    assert "ranks are among what is shown" in opened.page.locator("#status").inner_text()
    opened.page.keyboard.press("Escape")
    opened.page.locator("[data-axis=data] summary").click()
    opened.page.locator("[data-axis=data]").get_by_role("button", name="none").click()
    opened.page.locator("[data-axis=data]").get_by_label("table_2").check()
    assert opened.page.locator("#board thead th").count() == 3
    for axis, label in (("protocol", "finetune"), ("labels", "10%"), ("ssl", "untrained:tjepa")):
        before = len(opened.names())
        opened.page.keyboard.press("Escape")
        opened.page.locator(f"[data-axis={axis}] summary").click()
        opened.page.locator(f"[data-axis={axis}]").get_by_label(label, exact=True).uncheck()
        assert len(opened.names()) < before
    opened.page.get_by_role("button", name="Reset").click()
    assert len(opened.names()) == whole
    assert opened.complaints == []


def test_the_metric_can_be_switched(browser: Any, places: dict[str, Path]) -> None:
    opened = Opened(browser, places["report"])
    accuracy = opened.column("table_1")
    opened.page.get_by_label("Metric").select_option("auroc")
    assert opened.column("table_1") == pytest.approx([value + 0.05 for value in accuracy], abs=0.002)
    opened.page.get_by_label("Metric").select_option("seconds")
    assert "seconds ↓" in opened.page.locator("#board thead").inner_text()


def test_the_theme_can_be_switched(browser: Any, places: dict[str, Path]) -> None:
    opened = Opened(browser, places["report"], color_scheme="light")
    colour = "getComputedStyle(document.body).backgroundColor"
    assert opened.page.evaluate(colour) == "rgb(255, 255, 255)"
    opened.page.locator("#theme").click()
    assert opened.page.evaluate(colour) == "rgb(18, 23, 29)"
    assert Opened(browser, places["report"], color_scheme="dark").page.evaluate(colour) == "rgb(18, 23, 29)"


def test_names_and_ranks_stay_in_sight_while_the_table_scrolls(browser: Any, places: dict[str, Path]) -> None:
    for viewport in (WIDE, PHONE):
        opened = Opened(browser, places["report"], viewport)
        opened.page.locator("#board").evaluate("board => { board.scrollLeft = 600; }")
        board = opened.page.locator("#board").bounding_box()
        for selector in ("#board tbody tr:nth-child(2) th", "#board tbody tr:nth-child(2) td.rank"):
            box = opened.page.locator(selector).first.bounding_box()
            assert board["x"] - 1 <= box["x"] < board["x"] + board["width"]
        cells = opened.page.locator("#board tbody:first-of-type tr:nth-child(2) td .value").all()
        boxes = [cell.bounding_box() for cell in cells]
        free = [each for each in boxes if box["x"] + box["width"] <= each["x"] + each["width"] <= viewport["width"]]
        assert free, "a figure can be seen beside them"


def test_all_charts_are_drawn(browser: Any, places: dict[str, Path]) -> None:
    opened = Opened(browser, places["report"])
    for name in ("scores", "gains", "labels", "difference", "time", "curves"):
        assert opened.page.locator(f"#{name} svg[role=img]").count() > 0, name
        label = opened.page.locator(f"#{name} svg[role=img]").first.get_attribute("aria-label")
        assert label, "a chart is told in words too"
    assert opened.page.locator("#difference figcaption").inner_text().startswith("Friedman p =")
    assert opened.page.locator("#wins td").count() > 50
    assert opened.page.locator("#tuning").is_hidden(), "nothing was tuned"


def test_one_dataset_is_told_by_scores_and_winners_instead_of_ranks(browser: Any, places: dict[str, Path]) -> None:
    opened = Opened(browser, places["single"])
    assert "Highest accuracy: tjepa + mlp, 0.710 among 3 rows" in opened.page.locator(".verdict").inner_text()
    ranks = [text.split() for text in opened.page.locator("#board td.rank").all_inner_texts()]
    assert ranks[0] == ["1.00", "[1.0,", "2.0]"], "three splits make no letters"
    assert "No rank groups: a row has 3 results" in opened.page.locator("#notes").inner_text()
    assert opened.page.locator("#difference svg").count() == 0
    assert "There is one dataset." in opened.page.locator("#difference").inner_text()
    cells = opened.page.locator("#wins tbody td").all_inner_texts()
    assert sorted(cells) == sorted(["·"] * 3 + ["won", "lost"] + ["tied"] * 4)
    whisker = opened.page.locator("#board tbody .mini").first.bounding_box()
    assert whisker["width"] > 400, "one dataset has the room of many"


def test_what_is_not_on_a_page_is_not_in_its_bar(browser: Any, places: dict[str, Path]) -> None:
    opened = Opened(browser, places["failed"])
    shown = [link.inner_text() for link in opened.page.locator("nav a").all() if link.is_visible()]
    assert shown == ["Left out", "Evidence"]
    assert opened.page.locator("h1").inner_text() == "No result can be shown: the one record was left out."


def test_a_row_leads_to_its_command_and_evidence(browser: Any, places: dict[str, Path]) -> None:
    opened = Opened(browser, places["report"])
    opened.page.locator("#board tbody a").filter(has_text="tjepa + mlp").first.click()
    entry = opened.page.locator("details.row[open]")
    assert "tabbench run --ssl tjepa --model mlp" in entry.inner_text()


def test_without_script_the_verdict_and_the_table_are_there(browser: Any, places: dict[str, Path]) -> None:
    opened = Opened(browser, places["report"], java_script_enabled=False)
    assert "Self-supervision" in opened.page.locator("h1").inner_text()
    assert opened.page.locator("#board tbody tr").count() == 4 * 8
    assert opened.page.get_by_text("Sorting, filters and charts need JavaScript.").is_visible()
    assert opened.page.locator("#gains").is_hidden()


def test_the_page_can_be_printed(browser: Any, places: dict[str, Path]) -> None:
    opened = Opened(browser, places["report"])
    opened.page.emulate_media(media="print")
    assert opened.page.locator("#controls").is_hidden()
    assert opened.page.locator("#board").evaluate("board => getComputedStyle(board).overflowX") == "visible"
    dark = Opened(browser, places["report"], color_scheme="dark")
    dark.page.locator("#theme").click()
    dark.page.locator("#theme").click()  # dark by choice, too
    dark.page.emulate_media(media="print", color_scheme="dark")
    ink = "getComputedStyle(document.documentElement).getPropertyValue('--ink')"
    assert dark.page.evaluate(ink) == "#18212c", "paper is white"


def test_the_slider_of_an_inspection_moves_the_map(browser: Any, places: dict[str, Path]) -> None:
    opened = Opened(browser, places["inspect"])
    slider = opened.page.get_by_label("Epoch of the map and of the tokens")
    assert slider.get_attribute("aria-valuetext") == "epoch 2"
    slider.press("Home")
    assert slider.get_attribute("aria-valuetext") == "untrained"
    label = opened.page.locator(".pair svg").first.get_attribute("aria-label")
    assert "untrained" in label
