"""The leaderboard: a static site from result folders."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from harness import tabbench
from made_records import write_records

from tabbench.errors import UsageError
from tabbench.registry import make_registry
from tabbench.results.site import make_site, slug, write_site

EVIL = "</script><img src=x onerror=alert(1)>../../x"


def submission(folder: Path, **scores: float) -> Path:
    """A results folder with three splits of each method on two tables, and hashes that tell them apart."""
    records: list[dict[str, Any]] = [
        {"ssl": name, "data": data, "split": split, "score": score + split / 100, "key": f"{name}-{data}-{split}",
         "plugins": {"ssl": {"distribution": "tabbench-ssl", "version": "1.0", "revision": 3}}, "environment": {},
         "hashes": {"data": "d" * 64, "split": "s", "predictions": f"{score}{split}"}, "config": {}, "diagnostics": {}}
        for name, score in scores.items() for data in ("wine", "digits") for split in range(3)
    ]  # fmt: skip
    write_records(folder, records)
    return folder


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attributes if name in ("href", "src")]


def test_the_site_has_an_index_and_a_page_per_dataset_and_method(tmp_path: Path) -> None:
    ours, theirs = submission(tmp_path / "ours", none=0.6, tjepa=0.7), submission(tmp_path / "theirs", vime=0.8)
    out = tmp_path / "site"
    done = tabbench("leaderboard", ours, theirs, "--out", out)
    assert (done.returncode, done.stdout) == (0, f"{out}: 5 pages, 3 rows, 2 dataset(s)\n"), done.stderr
    pages = {str(path.relative_to(out)) for path in out.rglob("*.html")}
    assert pages == {"index.html", "data/wine.html", "data/digits.html", "methods/tjepa.html", "methods/vime.html"}
    index = (out / "index.html").read_text(encoding="utf-8")
    ranking = index[index.index('id="ranking"') : index.index('id="table"')]
    assert re.findall(r"(?:vime|tjepa|none) \+ mlp", ranking) == ["vime + mlp", "tjepa + mlp", "none + mlp"], (
        "best first"
    )
    assert "ours: 12 records" in index
    card = (out / "methods" / "tjepa.html").read_text(encoding="utf-8")
    assert "tabbench-ssl 1.0 (revision 3)" in card
    assert "tjepa improves mlp on both tables; in the median comparison, the error is 25.6 % lower" in card


def test_every_link_leads_to_a_page_of_the_site_or_to_the_web_of_a_card(tmp_path: Path) -> None:
    site = make_site([submission(tmp_path / "a", none=0.5, vime=0.6)], make_registry())
    for path, text in site.pages.items():
        links = Links()
        links.feed(text)
        for link in links.found:
            target = (Path("/") / Path(path).parent / link.partition("#")[0]).resolve().relative_to("/")
            in_site = link.startswith("#") or str(target) in site.pages
            assert in_site or (path.startswith("methods/") and link.startswith("https://")), (path, link)


def test_names_in_the_ranking_leave_room_for_its_numbers(tmp_path: Path) -> None:
    long = "tjepa.exp_epochs=40 tjepa.preset=small"
    records = [
        {"ssl": ssl, "variant": f"{long} tjepa.n_reg={n}" if ssl == "tjepa" else "", "score": 0.5 + n / 100 + d / 50,
         "model": f"m{n}", "data": f"d{d}", "metric": "rmse", "task": "regression",
         "counts": {"train": 1000, "validation": 100, "test": 100, "features": 4, "classes": 0}}
        for ssl in ("none", "tjepa") for n in range(10) for d in range(2)
    ]  # fmt: skip
    write_records(tmp_path / "a", records)
    site = make_site([tmp_path / "a"], make_registry())
    assert site.refused == [], "numbers as targets have no classes"
    index = site.pages["index.html"]
    ranking = index[index.index('id="ranking"') : index.index('id="table"')]
    assert "tjepa + m0 [n_reg=0]" in ranking
    assert "exp_epochs" not in ranking, "what all rows of a method share is not in their names"
    assert ranking.count("<tr>") == 1 + 15
    assert "5 more rows: see the table below." in ranking


def test_pages_below_the_index_skip_the_statistics_they_do_not_show(tmp_path: Path) -> None:
    site = make_site([submission(tmp_path / "a", none=0.5, vime=0.6)], make_registry())
    ratings = {path: '"elo":' in text for path, text in site.pages.items()}
    assert [path for path, has in ratings.items() if has] == ["index.html"], "ratings take the longest"


def test_contradicting_submissions_are_refused_by_name(tmp_path: Path) -> None:
    ours = submission(tmp_path / "ours", none=0.5)
    forged = submission(tmp_path / "forged", none=0.9)
    done = tabbench("leaderboard", ours, forged, "--out", tmp_path / "site")
    assert done.returncode == 1
    assert done.stderr.count("refused:") == 6
    assert "Refused:" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")


def test_hostile_names_stay_text_and_within_the_site(tmp_path: Path) -> None:
    write_records(tmp_path / "a", [{"ssl": EVIL, "data": EVIL, "config": {}, "plugins": {}, "environment": {}}])
    site = make_site([tmp_path / "a"], make_registry())
    write_site(site, tmp_path / "site")
    assert all("<img" not in text for text in site.pages.values())
    assert not (tmp_path / "x").exists()
    assert slug("a/b") != slug("a_b")
    assert slug("..").startswith("-")


def test_an_older_site_is_replaced_and_anything_else_is_not(tmp_path: Path) -> None:
    out = tmp_path / "site"
    registry = make_registry()
    write_site(make_site([submission(tmp_path / "a", none=0.5, vime=0.6)], registry), out)
    write_site(make_site([submission(tmp_path / "b", none=0.5)], registry), out)
    assert not (out / "methods" / "vime.html").exists(), "pages of methods that are gone are gone"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="holds something else"):
        write_site(make_site([tmp_path / "b"], registry), tmp_path / "mine")
