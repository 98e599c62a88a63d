"""The report: one page, self-contained, with everything that a reader needs to judge the table."""

import html
import json
import re
import shlex
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from harness import Bench, InProcess, tabbench
from made_records import scores, write_records

from tabbench.experiment.spec import parse_setting
from tabbench.results.gains import gains_of
from tabbench.results.page import make_page
from tabbench.results.page.document import embedded
from tabbench.results.page.history import learning_curves, tuning_history
from tabbench.results.page.verdict import Conclusion, make_verdict
from tabbench.results.selection import select_records
from tabbench.results.store import Store
from tabbench.results.tabulate import tabulate, tabulate_records

VOID = {"meta", "br"}


class Balance(HTMLParser):
    """Finds tags that are not closed in the order in which they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.scripts += tag == "script"
        self.sources += [value or "" for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def data_of(page: str) -> dict[str, Any]:
    """What the page's script draws."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    value: dict[str, Any] = json.loads(found[1])
    return value


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    bench = Bench(folder / "results", inline=True)
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
    assert all(source.startswith("#") for source in balance.sources), "links lead within the page"
    assert balance.scripts == 2, "the data, and our script"
    assert "default-src 'none'" in page
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)


def test_the_page_has_the_table_its_evidence_and_what_was_left_out(page: str) -> None:
    assert "projection" in page
    assert "the toy was told to fail" in page, "a failure is named"
    assert "Traceback (most recent call last)" in page, "with its traceback"
    assert "142" in page, "rows that the models were trained on"
    assert "&quot;preset&quot;: &quot;quick&quot;" in page, "the experiment as it was resolved"
    assert "tabbench run --ssl projection --model nearest --data wine" in page, "how to repeat a row"
    assert "tabbench replay " in page


def test_names_from_outside_are_escaped(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    records = [{"ssl": evil, "model": evil, "data": evil, "variant": evil}]
    failed = {"ssl": "b", "status": "failed", "error": evil, "traceback": evil, "score": None, "test": None}
    page, _ = make_page(write_records(tmp_path, [*records, failed]))
    balance = Balance()
    balance.feed(page)
    assert balance.open == []
    assert balance.scripts == 2
    assert "<img" not in page
    assert data_of(page)["views"][0]["rows"][0]["ssl"] == evil, "the script gets it as text"
    assert embedded("</script><!--&") == '"\\u003c/script\\u003e\\u003c!--\\u0026"'


def test_the_script_gets_the_numbers_of_the_table(tmp_path: Path) -> None:
    records = [*scores("a", [0.8, 0.9, 0.7]), *scores("none", [0.5, 0.6, 0.4]), *scores("a", [0.3], labels="10%")]
    store = write_records(tmp_path, records)
    (view,) = data_of(make_page(store)[0])["views"]
    table = tabulate(store, ci=True)
    main = view["metrics"][0]
    for number, row in enumerate(table.rows):
        cell, shown = row.cells["wine"], main["cells"][number][0]
        ends = [cell.interval.low, cell.interval.high]
        assert shown[0] == pytest.approx(cell.mean, rel=1e-4)
        assert shown[1:3] == [None if end is None else pytest.approx(end, rel=1e-4) for end in ends]
        assert shown[4:7] == [cell.n, len(cell.found), cell.expected]
        assert view["rows"][number]["rank"][0] == row.average_rank
    (gain,) = view["gains"]
    assert gain["none"][0][0] == pytest.approx(0.3)
    assert [metric["name"] for metric in view["metrics"]] == ["score", "time"]


def verdict(tmp_path: Path, records: list[dict[str, Any]]) -> Conclusion:
    selection = select_records(write_records(tmp_path, records))
    return make_verdict(tabulate_records(selection, ci=True), gains_of(selection))


def test_the_verdict_says_what_helped_and_how_much_of_it_is_training(tmp_path: Path) -> None:
    found = verdict(tmp_path, [
        *scores("a", [0.80, 0.82, 0.84]), *scores("none", [0.60, 0.62, 0.64]),
        *scores("untrained:a", [0.70, 0.72, 0.74]),
    ])  # fmt: skip
    headline = "Self-supervision helps here: the one comparison with raw features shows a gain."
    assert found.headline == headline
    # The error falls from 0.38 to 0.18: 52.6 %; the untrained encoder has half of that.
    assert found.sentences[1] == (
        "a improves mlp on wine, by 0.2 in accuracy (52.6 % less error); its untrained encoder explains 50 % of the "
        "gain."
    )


def test_the_verdict_does_not_speak_of_what_it_cannot_know(tmp_path: Path) -> None:
    one_split = verdict(tmp_path / "a", [*scores("a", [0.8]), *scores("none", [0.6])])
    assert one_split.headline == (
        "No verdict yet: with one split there is no interval. Self-supervision scored better than raw features in the "
        "one comparison."
    )
    assert any(text.startswith("Untrained encoders were not run") for text in one_split.limits)
    alone = verdict(tmp_path / "b", scores("a", [0.8]))
    assert alone.headline.startswith("Nothing here was compared with raw features")
    assert verdict(tmp_path / "c", []).headline == "No results to show yet."
    unclear = verdict(tmp_path / "d", [*scores("a", [0.8, 0.6, 0.7]), *scores("none", [0.7, 0.7, 0.7])])
    assert unclear.headline == (
        "Self-supervision is not shown to help here: the one comparison with raw features shows no clear difference."
    )
    assert unclear.sentences[1] == "a is not shown to improve mlp on wine."


def test_the_verdict_speaks_of_a_method_over_all_its_models_and_tables(tmp_path: Path) -> None:
    found = verdict(tmp_path, [
        *[each for model in ("mlp", "linear") for data in ("d1", "d2") for each in (
            *scores("a", [0.80, 0.82, 0.84], model=model, data=data, variant="a.dim=8"),
            *scores("untrained:a", [0.81, 0.83, 0.85], model=model, data=data, variant="a.dim=8"),
            *scores("b", [0.50, 0.52, 0.54], model=model, data=data),
            *scores("none", [0.60, 0.62, 0.64], model=model, data=data))],
        *scores("b", [0.7, 0.6, 0.5], labels="10%"), *scores("none", [0.5, 0.6, 0.7], labels="10%"),
    ])  # fmt: skip
    assert found.headline == (
        "Self-supervision helps in some places and hurts in others: of 9 comparisons with raw features, 4 show a gain, "
        "4 a loss and 1 no clear difference."
    )
    assert found.sentences == [
        "Best average rank (frozen): 1.00, shared by 2 of 8 rows, including untrained:a + linear; no other row "
        "comes close to them. Best without self-supervision: none + linear, 5.00.",
        "a helps in all 4 comparisons (2 models, 2 tables); in the median comparison, the error is 52.6 % lower; "
        "at the median, its untrained encoder does at least as well.",
        "b helps in none of 4 comparisons (2 models, 2 tables) and hurts in 4; in the median comparison, the "
        "error is 26.3 % higher.",
    ], "the setting that all rows of a share is not part of their name"
    assert found.more == ["b (10% labels) is not shown to improve mlp on wine."]


def test_a_table_with_few_errors_does_not_decide_what_the_untrained_encoder_explains(tmp_path: Path) -> None:
    """The errors fall by 20 %, by 10 % without training; on d3, without training, they become nine times as many."""
    found = verdict(tmp_path, [
        *[each for data, start in (("d1", 0.55), ("d2", 0.55), ("d3", -3.5)) for each in (
            *scores("a", [0.60, 0.61, 0.60], data=data), *scores("none", [0.50, 0.51, 0.50], data=data),
            *scores("untrained:a", [start, start, start], data=data))],
    ])  # fmt: skip
    assert found.sentences[1].startswith("a improves mlp on all 3 tables; in the median comparison")
    assert found.sentences[1].endswith("; its untrained encoder explains 47 % of the gain.")


def test_a_table_with_few_errors_does_not_decide_what_is_said_of_all(tmp_path: Path) -> None:
    """On d3 the error doubles and doubles again, from 1 to 4 %; the mean over tables would be 80 % more error."""
    found = verdict(tmp_path, [
        *scores("a", [0.6], data="d1"), *scores("none", [0.5], data="d1"),
        *scores("a", [0.7], data="d2"), *scores("none", [0.5], data="d2"),
        *scores("a", [0.96], data="d3"), *scores("none", [0.99], data="d3"),
    ])  # fmt: skip
    assert found.sentences[1] == (
        "a scores better than raw features with mlp on 2 of 3 tables; in the median comparison, the error is 20.0 % "
        "lower."
    )


def test_a_median_of_nothing_is_no_difference(tmp_path: Path) -> None:
    found = verdict(tmp_path, [
        *scores("a", [0.5, 0.5], data="d1"), *scores("none", [0.5, 0.5], data="d1"),
        *scores("a", [0.7, 0.7], data="d2"), *scores("none", [0.7, 0.7], data="d2"),
    ])  # fmt: skip
    assert found.sentences[1] == (
        "a is not shown to improve mlp on any of 2 tables; in the median comparison, the error is the same."
    )


def test_a_tie_without_any_error_counts_in_the_median(tmp_path: Path) -> None:
    found = verdict(tmp_path, [
        *scores("a", [0.6], data="d1"), *scores("none", [0.5], data="d1"),
        *scores("a", [1.0], data="d2"), *scores("none", [1.0], data="d2"),
        *scores("a", [1.0], data="d3"), *scores("none", [1.0], data="d3"),
    ])  # fmt: skip
    assert found.sentences[1].endswith("on 1 of 3 tables; in the median comparison, the error is the same.")


def test_an_error_where_raw_features_make_none_counts_as_the_worst_in_the_median(tmp_path: Path) -> None:
    found = verdict(tmp_path, [
        *scores("a", [0.6], data="d1"), *scores("none", [0.5], data="d1"),
        *scores("a", [0.9], data="d2"), *scores("none", [1.0], data="d2"),
        *scores("a", [0.8], data="d3"), *scores("none", [1.0], data="d3"),
    ])  # fmt: skip
    assert found.sentences[1].endswith("on 1 of 3 tables; in the median comparison, the error is higher.")


def test_an_error_that_raw_features_do_not_make_has_no_percentage(tmp_path: Path) -> None:
    """The MLP has no error to reduce; that the linear model makes none of its own any more says nothing of both."""
    found = verdict(tmp_path, [
        *scores("a", [0.9, 0.9], model="mlp"), *scores("none", [1.0, 1.0], model="mlp"),
        *scores("a", [1.0, 1.0], model="linear"), *scores("none", [0.9, 0.9], model="linear"),
    ])  # fmt: skip
    assert found.sentences[1].endswith("; no difference on average.")
    assert "%" not in found.sentences[1]


def test_settings_that_all_rows_share_are_told_once(tmp_path: Path) -> None:
    store = write_records(tmp_path, [
        {"ssl": "a", "variant": "a.dim=8 a.n_reg=0"}, {"ssl": "a", "variant": "a.dim=8 a.n_reg=1"},
        {"ssl": "untrained:a", "variant": "a.dim=8 a.n_reg=1"}, {"ssl": "b", "variant": "mlp.lr=1"}, {"ssl": "none"},
    ])  # fmt: skip
    page, _ = make_page(store)
    tags = {(row["ssl"], row["variant"]): row["tag"] for row in data_of(page)["views"][0]["rows"]}
    assert tags == {
        ("a", "a.dim=8 a.n_reg=0"): "a.n_reg=0", ("a", "a.dim=8 a.n_reg=1"): "a.n_reg=1",
        ("untrained:a", "a.dim=8 a.n_reg=1"): "a.n_reg=1", ("b", "mlp.lr=1"): "mlp.lr=1", ("none", ""): "",
    }  # fmt: skip
    assert "All rows of a: dim=8." in page


def test_every_note_on_a_table_is_on_the_page_once(tmp_path: Path) -> None:
    page, _ = make_page(write_records(tmp_path, [{"ssl": "a", "notes": [f"note {number}." for number in range(7)]}]))
    assert [page.count(f"note {number}.") for number in range(7)] == [1] * 7
    assert "more note" not in page


def test_curves_of_every_training_are_kept_and_thinned() -> None:
    told = {"ssl": {"loss": [float(i) for i in range(200)], "epochs": 200}, "model": {"train_loss": [2.0, 1.0]}}
    record = {"data": "d", "ssl": "a", "model": "m", "protocol": "frozen", "labels": "100%", "variant": "", "seed": 0}
    records = [{**record, "split": split, "diagnostics": json.dumps(told)} for split in (1, 0)]
    (pretraining, model) = learning_curves(records)["sets"]
    epochs, values = pretraining["curves"]["loss"]
    assert len(epochs) <= 61
    assert (epochs[0], epochs[-1], values[-1]) == (1, 200, 199.0), "the last epoch is kept"
    assert (pretraining["split"], model["what"]) == (0, "model")
    shared = [*records, {**records[0], "protocol": "finetune"}, {**records[1], "protocol": "finetune"}]
    kinds = [(each["what"], each["protocol"]) for each in learning_curves(shared)["sets"]]
    assert kinds == [("pretraining", "frozen"), ("model", "frozen"), ("model", "finetune")], (
        "one pretraining serves both"
    )


def test_the_history_of_a_search_begins_with_the_defaults() -> None:
    record = {"data": "d", "ssl": "a", "model": "m", "split": 0, "protocol": "frozen", "labels": "100%",
              "metric": "accuracy"}  # fmt: skip
    results = [{**record, "tuning": json.dumps({"model": {"study": "s"}})}]
    trials = [{"study": "s", "number": n, "value": v, "status": "ok"} for n, v in ((1, 0.7), (0, 0.5))]
    (study,) = tuning_history([*trials, {**trials[0], "study": "other"}], results)["studies"]
    assert (study["role"], study["trials"]) == ("model", [[0, 0.5, "ok"], [1, 0.7, "ok"]])
    lower = [{**each, "value": -each["value"]} for each in trials if isinstance(each["value"], float)]
    (study,) = tuning_history(lower, [{**results[0], "metric": "rmse"}])["studies"]
    shown = (study["unit"], study["lower"], study["trials"])
    assert shown == ("rmse", True, [[0, 0.5, "ok"], [1, 0.7, "ok"]]), "an error is shown as an error"


def test_the_command_of_a_row_names_all_that_it_takes(tmp_path: Path) -> None:
    store = write_records(tmp_path, scores(
        "untrained:a", [0.5, 0.6], data="x.csv:y", labels="10%", protocol="finetune", validation_labels="same",
        probe="never", split_rule="by time day", variant="a.probe=never a.dim=8 mlp.lr=0.1",
    ))  # fmt: skip
    store.save_experiment({"data": ["/old/x.csv:y"], "time": "month"})
    store.save_experiment({"data": ["/data/x.csv:y"], "time": "day", "drop": ["id", "key"], "sampler": "gp"})
    page, _ = make_page(store)
    assert (
        "tabbench run --ssl a --model mlp --data /data/x.csv:y --preset quick --splits 2 --seeds 1 --trials 0 "
        "--ssl-trials 0 --controls untrained --protocol finetune --labels 10% --probe never --validation-labels same "
        "--time day --drop id,key --set a.dim=8 --set mlp.lr=0.1<"
    ) in page


def planned_keys(bench: Bench, command: str) -> set[str]:
    """The records that a command would make."""
    words = shlex.split(command)[2:]
    given: dict[str, Any] = {"set": {}}
    for option, value in zip(words[::2], words[1::2], strict=True):
        name = option.removeprefix("--").replace("-", "_")
        if name == "set":
            owner, key, setting = parse_setting(value)
            given["set"].setdefault(owner, {})[key] = setting
        else:
            lists = name in ("ssl", "model", "data", "labels", "protocol", "controls")
            given[name] = (
                value.split(",") if lists and value else [] if lists else int(value) if value.isdigit() else value
            )
    return {step.key for step in bench.plan(**given).records}


def test_the_commands_of_all_rows_plan_the_records_that_are_there(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "results")
    settings = {"nearest": {"shrink": 2.0}}
    bench.run(executor=InProcess, labels=["50%", "100%"], splits=2, controls=["none", "untrained"], set=settings)
    page, table = make_page(bench.store)
    commands = [html.unescape(text) for text in re.findall(r"<code>(tabbench run .*?)</code>", page)]
    assert len(commands) == len(table.rows)
    planned = set().union(*(planned_keys(bench, command) for command in commands))
    assert planned == {record.key for record in bench.store.records() if record.kind == "result"}


def test_a_stored_inspection_is_on_the_page(tmp_path: Path) -> None:
    store = write_records(tmp_path, [{"ssl": "a"}])
    folder = tmp_path / "inspections"
    folder.mkdir()
    (folder / "a.json").write_text('{"ssl": "a", "data": "wine", "metrics": {"epoch": [0]}}')
    (folder / "b.json").write_text("not JSON")
    assert [one["ssl"] for one in data_of(make_page(store)[0])["inspections"]] == ["a"]


def test_published_figures_stand_beside_ours_with_their_caveats(tmp_path: Path) -> None:
    from tabbench.registry import make_registry

    fields = {"data": "california", "metric": "rmse", "test": {"rmse": 0.55, "rmse_std": 0.48}}
    records: list[dict[str, Any]] = [
        {"ssl": "tjepa", "score": 0.55, "protocol": protocol, **fields} for protocol in ("frozen", "finetune")
    ]
    few = {"ssl": "tjepa", "score": 0.7, "labels": "10%", **fields, "test": {"rmse": 0.7, "rmse_std": 0.61}}
    page, _ = make_page(write_records(tmp_path, [*records, few]), registry=make_registry())
    (compared,) = re.findall(r"<h3>tjepa-paper</h3>.*?</table>", page)
    assert "0.480 / 0.468 (+0.012)" in page
    assert "standard deviations" in page
    assert compared.count("<tr>") == 3, "published figures are of all labels: few stand beside none of them"
    assert ">frozen</th>" in compared, "rows of two protocols are told apart"
    assert '<a href="#published">Published</a>' in page


def test_ten_thousand_records_take_less_than_ten_seconds_and_five_megabytes(tmp_path: Path) -> None:
    told = {"ssl": {"loss": [1 / (1 + i) for i in range(100)]}, "model": {"train_loss": [1.0] * 40}}
    records = [
        {"ssl": f"s{s}" if s else "none", "model": f"m{m}", "data": f"d{d}", "split": k, "diagnostics": told,
         "score": ((s * 7 + m * 3 + d + k) % 97) / 97, "config": {"ssl": {f"p{i}": i for i in range(20)}}}
        for s in range(10) for m in range(4) for d in range(50) for k in range(5)
    ]  # fmt: skip
    store = write_records(tmp_path, records)
    store.compact()
    started = time.process_time()
    page, table = make_page(store)
    assert time.process_time() - started < 10
    assert len(page.encode()) < 5e6
    assert len(table.rows) == 40


def test_failures_of_one_cause_are_told_together(tmp_path: Path) -> None:
    killed = "timeout of 2 s: it was killed"
    errors = [killed, killed, *(f"not run: x.csv:y/{n} pretrain untrained:vime: {killed}" for n in range(3))]
    records = [
        {"split": n, "status": "timeout", "error": error, "score": None, "test": None} for n, error in enumerate(errors)
    ]
    page, table = make_page(write_records(tmp_path, records))
    assert "No result can be shown: all 5 records were left out." in page
    reasons = re.findall(r"<summary><b>(.*?)</b> \((.*?)\)</summary>", page)
    assert reasons == [(killed, "2 records"), (f"{killed} (in an earlier step)", "3 records")]
    assert not table.rows
    assert 'id="rows"' not in page, "no empty part"


def test_nothing_to_report_is_said_in_one_line(tmp_path: Path) -> None:
    done = tabbench("report", "--results", tmp_path / "none")
    assert done.returncode == 2
    assert "no results in" in done.stderr
    (tmp_path / "results" / "records").mkdir(parents=True)
    elsewhere = tabbench("report", "--results", tmp_path / "results", "--out", tmp_path / "no" / "page.html")
    assert elsewhere.returncode == 2
    assert elsewhere.stderr.count("there is no folder") == 1
    folder = tabbench("report", "--results", tmp_path / "results", "--out", tmp_path)
    assert folder.returncode == 2
    assert "is a folder; give a file" in folder.stderr
    page, _ = make_page(Store(tmp_path / "results"))
    assert "No results to show yet." in page
