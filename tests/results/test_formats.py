"""Tables in six formats: whole texts, and hostile names in each of them."""

import csv
import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from harness import tabbench
from made_records import scores, write_records

from tabbench.results.escaping import (
    escape_csv,
    escape_html,
    escape_latex,
    escape_markdown,
    escape_terminal,
    json_values,
)
from tabbench.results.face import TableView
from tabbench.results.formats import FORMATS, format_table
from tabbench.results.gains import tabulate_gains
from tabbench.results.score_table import ScoreTable
from tabbench.results.tabulate import tabulate

HOSTILE = '\x1b[2J<img src=x onerror=alert(1)>|`a`\n\\input{/etc/passwd}%$&#_^~{"x"}[y](javascript:z)\u202e'
NOTES = (
    "fidelity quick; not tuned; 2 records per cell, mean ± standard deviation over splits and seeds.",
    "Ranks in parentheses: per dataset on means, ties get the min rank, missing cells are ranked last.",
)


@pytest.fixture
def table(tmp_path: Path) -> ScoreTable:
    store = write_records(
        tmp_path, [*scores("tjepa", [0.8, 0.9]), *scores("none", [0.7, 0.8]), *scores("x_y", [0.6, 0.7])]
    )
    return tabulate(store)


@pytest.fixture
def hostile(tmp_path: Path) -> ScoreTable:
    failed = {"ssl": HOSTILE, "split": 1, "status": "failed", "error": f"=cmd|'/C calc'!A0 {HOSTILE}", "score": None}
    rows: list[dict[str, Any]] = [
        {"ssl": "=1+1", "model": HOSTILE, "data": HOSTILE, "data_key": "h", "variant": HOSTILE}
    ]
    return tabulate(write_records(tmp_path, [*rows, {**failed, "test": None}]))


@pytest.mark.parametrize("by", [None, "model", "ssl", "labels", "protocol"])
def test_methods_that_use_labels_are_marked_in_every_arrangement(tmp_path: Path, by: Any) -> None:
    made = tabulate(write_records(tmp_path, [{"ssl": "a"}, {"ssl": "p", "uses_labels": True}]))
    lines = format_table(made, "terminal", by=by).splitlines()
    assert any("p *" in line for line in lines[:-1])
    assert not any("a *" in line or "none *" in line for line in lines)
    assert sum(line.startswith("* uses labels") for line in lines) == 1


def test_a_table_on_a_terminal(table: ScoreTable) -> None:
    assert format_table(table, "terminal").splitlines() == [
        "                           wine",
        "SSL    model         (accuracy)  average rank",
        "tjepa  mlp    0.850 ± 0.071 (1)          1.00",
        "none   mlp    0.750 ± 0.071 (2)          2.00",
        "x_y    mlp    0.650 ± 0.071 (3)          3.00",
        *NOTES,
    ]


def test_a_table_in_markdown(table: ScoreTable) -> None:
    assert format_table(table, "markdown").splitlines() == [
        "| SSL   | model |       wine (accuracy) | average rank |",
        "|:------|:------|----------------------:|-------------:|",
        "| tjepa | mlp   | **0.850 ± 0.071 (1)** |         1.00 |",
        "| none  | mlp   |     0.750 ± 0.071 (2) |         2.00 |",
        "| x_y   | mlp   |     0.650 ± 0.071 (3) |         3.00 |",
        "",
        *(f"{note}  " for note in NOTES),
    ]


def test_a_table_in_latex_has_the_best_in_bold_and_the_second_underlined(table: ScoreTable) -> None:
    assert TableView(table).to_latex().splitlines() == [
        r"% \usepackage{booktabs}",
        r"\begin{tabular}{llrr}",
        r"\toprule",
        r"{}SSL & model & wine (accuracy) & average rank \\",
        r"\midrule",
        r"{}tjepa & mlp & \textbf{0.850 $\pm$ 0.071 (1)} & 1.00 \\",
        r"{}none & mlp & \underline{0.750 $\pm$ 0.071 (2)} & 2.00 \\",
        r"{}x\_y & mlp & 0.650 $\pm$ 0.071 (3) & 3.00 \\",
        r"\bottomrule",
        r"\end{tabular}",
        *(f"% {note}" for note in NOTES),
    ]


def test_a_table_in_html_and_in_a_notebook(table: ScoreTable) -> None:
    text = format_table(table, "html")
    assert text == TableView(table)._repr_html_()
    assert text.startswith('<table class="tabbench"><thead><tr><th scope="col" style="text-align: left">SSL</th>')
    assert "<td><b>0.850 ± 0.071 (1)</b></td><td>1.00</td></tr>" in text


def test_numbers_for_programs_are_whole(table: ScoreTable) -> None:
    (first, *_) = list(csv.DictReader(io.StringIO(format_table(table, "csv"))))
    assert (first["ssl"], float(first["mean"]), first["n"], first["rank"]) == ("tjepa", 0.8500000000000001, "2", "1.0")
    frame = TableView(table).to_frame()
    assert frame.loc[frame["ssl"] == "none", "mean"].item() == 0.75


@pytest.mark.parametrize("by", ["ssl", "model", "labels", "protocol"])
@pytest.mark.parametrize("layout", FORMATS)
def test_every_format_can_set_every_axis_side_by_side(table: ScoreTable, layout: str, by: Any) -> None:
    assert "0.85" in format_table(table, layout, by)


def test_a_terminal_gets_no_escape_sequences(hostile: ScoreTable) -> None:
    text = format_table(hostile, "terminal")
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "\\x1b[2J" in text
    assert escape_terminal("a\nb\u202ec\ud800") == "a b\\u202ec\\ud800"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)


def test_html_has_only_our_own_tags(hostile: ScoreTable) -> None:
    tags = Tags()
    tags.feed(format_table(hostile, "html"))
    assert tags.found <= {"table", "thead", "tbody", "tr", "th", "td", "b", "u", "p", "br"}
    assert escape_html("<a href='x'>\x00") == "&lt;a href=&#x27;x&#x27;&gt;\\x00"


def test_markdown_has_no_tags_links_or_extra_cells(hostile: ScoreTable) -> None:
    lines = format_table(hostile, "markdown").splitlines()
    assert "<" not in "".join(lines)
    rows = [line for line in lines if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in rows}) == 1, "a bar in a name opens no cell"
    assert escape_markdown("ft_transformer _x_ [a](b)") == "ft_transformer \\_x\\_ \\[a\\](b)"


def test_a_spreadsheet_finds_no_formula(hostile: ScoreTable) -> None:
    for line in csv.reader(io.StringIO(format_table(hostile, "csv"))):
        for cell in line:
            assert not cell.startswith(("=", "@", "\t")), cell
    assert escape_csv("=cmd|x") == "'=cmd|x"
    assert escape_csv("-lr") == "'-lr"
    assert escape_csv(-0.5) == -0.5, "numbers stay numbers"


def test_json_is_json_whatever_the_numbers_are(hostile: ScoreTable) -> None:
    json.loads(format_table(hostile, "json"))
    assert json_values({"a": [float("nan"), float("inf"), 1.5]}) == {"a": [None, None, 1.5]}


def test_latex_finds_no_command(hostile: ScoreTable) -> None:
    text = format_table(hostile, "latex")
    for line in text.splitlines():
        assert "\\input" not in line.partition("%")[0].replace("\\%", "")
        assert line.startswith(
            ("%", "{}", "\\begin{tabular}", "\\end{tabular}", "\\toprule", "\\midrule", "\\bottomrule")
        )
    assert escape_latex("a_b\\input{x}^^M 中") == (
        r"a\_b\textbackslash{}input\{x\}\textasciicircum{}\textasciicircum{}M [U+4E2D]"
    )


def check_latex(text: str) -> None:
    """A small reader of LaTeX: groups are closed, every line has the same number of cells, commands are ours."""
    body = re.sub(r"(?m)(?<!\\)%.*$", "", text)
    bare = re.sub(r"\\[{}]", "", body)
    depth = 0
    for character in bare:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    columns = re.search(r"\\begin\{tabular\}\{(\w+)\}", body)
    assert columns is not None
    lines = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert {len(re.split(r"(?<!\\)&", line)) for line in lines} == {len(columns[1])}
    ours = "begin end toprule midrule bottomrule textbf underline pm approx leq dots dag"
    names = "textbackslash textasciicircum textasciitilde textless textgreater textbar textquotedbl textasciigrave"
    assert set(re.findall(r"\\([a-zA-Z]+)", bare)) <= {*ours.split(), *names.split()}
    assert len(re.findall(r"(?<!\\)\$", body)) % 2 == 0


@pytest.mark.parametrize("name", ["table", "hostile"])
def test_latex_compiles(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    text = format_table(request.getfixturevalue(name), "latex")
    check_latex(text)
    engine = shutil.which("pdflatex")
    if engine is None:  # the reader above has spoken
        return
    page = f"\\documentclass{{article}}\\usepackage[T1]{{fontenc}}\\usepackage{{booktabs}}\\begin{{document}}{text}\n"
    (tmp_path / "page.tex").write_text(page + "\\end{document}", encoding="utf-8")
    done = subprocess.run(
        [engine, "-halt-on-error", "page.tex"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]


def test_gains_in_every_format(tmp_path: Path) -> None:
    store = write_records(tmp_path, [*scores("a", [0.8, 0.9, 0.9]), *scores("none", [0.7, 0.8, 0.8])])
    made = tabulate_gains(store)
    assert format_table(made, "terminal").splitlines()[2].split() == (
        ["a", "mlp", "none", "+0.100", "[+0.100,", "+0.100]", "helps", "1", "/", "0", "/", "0", "+42.9"]
    )
    for layout in FORMATS:
        assert "helps" in format_table(made, layout)
    check_latex(format_table(made, "latex"))


def test_files_are_replaced_only_where_they_are_regular(tmp_path: Path) -> None:
    results = tmp_path / "results"
    write_records(results, [{"ssl": "a"}])
    (tmp_path / "target").write_text("keep me")
    link = tmp_path / "link.html"
    link.symlink_to(tmp_path / "target")
    long = "x" * 300
    for out, message in (
        ("/dev/null", "is not a regular file; give another"),
        (str(link), "is a link; give a file"),
        (str(tmp_path / long), "cannot be written: File name too long"),
    ):
        done = tabbench("report", "--results", results, "--out", out)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert message in done.stderr
    assert (tmp_path / "target").read_text() == "keep me"
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("n, last", [(5, "note on wine: e"), (6, "1 more note: see"), (7, "2 more notes: see")])
def test_of_many_notes_on_the_data_the_number_of_the_others_is_told(table: ScoreTable, n: int, last: str) -> None:
    table.data_notes = {"wine": list("abcdefg"[:n])}
    assert format_table(table, "terminal").splitlines()[-1].startswith(last)
