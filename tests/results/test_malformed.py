"""Records that anybody can write: malformed ones are skipped and named, and never break a table or a report."""

import copy
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from made_records import made_record, scores, write_records

from tabbench.results.agreement import read_record
from tabbench.results.formats import format_table
from tabbench.results.gains import tabulate_gains
from tabbench.results.lines import read_line, to_line
from tabbench.results.page import write_report
from tabbench.results.record import BadRecordError, check_fields
from tabbench.results.store import Store
from tabbench.results.tabulate import tabulate

WHOLE: dict[str, Any] = made_record(
    900, ssl="vime", split=0, notes=["a note"], protocol="frozen", labels="100%", split_rule="random",
    plugins={"ssl": {"distribution": "d", "version": "1", "revision": 1}},
    environment={"python": "3", "threads": 1, "versions": {"torch": "2"}, "place": {}},
    encoder_scores={"uniformity": -1.0, "rows": 10}, config={"ssl": {"lr": 0.1}, "model": {}},
    diagnostics={"ssl": {"loss": [1.0, 0.5], "best_epoch": 1}}, error="", reports={"1": 0.5},
    tuning={"model": {"study": "s", "trials": 2, "pruned": 0, "failed": 0, "best_trial": 0, "best_value": 0.5,
                      "default_value": 0.5}},
)  # fmt: skip
HOSTILE: list[Any] = [
    None,
    True,
    -1,
    2**64,
    1e308,
    "",
    "x",
    "\x1b[2J",
    [],
    [1],
    ["x"],
    {},
    {"x": 1},
    {"x": "y"},
    {"x": [1]},
    [[]],
]
SOUND = [*scores("none", [0.5, 0.6]), *scores("vime", [0.7, 0.8]), *scores("untrained:vime", [0.6, 0.7])]


def mutants() -> list[dict[str, Any]]:
    """The whole record with each field, and each entry of its objects, replaced by each hostile value, or left out."""
    found = []
    places: list[tuple[str, ...]] = [(name,) for name in WHOLE]
    places += [(name, inner) for name, value in WHOLE.items() if isinstance(value, dict) for inner in value]
    for place in places:
        for hostile in [*HOSTILE, "left out"]:
            value = copy.deepcopy(WHOLE)
            parent = value if len(place) == 1 else value[place[0]]
            if hostile == "left out":
                del parent[place[-1]]
            else:
                parent[place[-1]] = hostile
            found.append(value)
    return found


def accepted(value: dict[str, Any]) -> bool:
    try:
        check_fields(read_line(json.dumps(value).encode()))
    except BadRecordError:
        return False
    return True


@contextmanager
def listening() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield said


def use_all(store: Store, out: Path) -> None:
    """Everything that reads records."""
    json.loads(format_table(tabulate(store, ci=True), "json", None), parse_constant=pytest.fail)
    json.loads(format_table(tabulate_gains(store), "json", None), parse_constant=pytest.fail)
    for metric in ("time", "score"):
        for layout in ("terminal", "latex", "csv", "markdown", "html"):
            format_table(tabulate(store, metric, common="none", any_budget=True), layout, None)
    write_report(store, out)
    store.records()


def test_what_is_accepted_can_be_used(tmp_path: Path) -> None:
    """Each mutant is refused, or is a record that every reader can live with; a few hundred stand in one folder."""
    taken = [value for value in mutants() if accepted(value)]
    assert 100 < len(taken) < len(mutants()) / 2
    for number, value in enumerate(taken):  # each in a place of its own, so that none hides another
        value["key"] = f"{number:024x}" if value["key"] == WHOLE["key"] else value["key"]
        value["split"] = 10 + number if value.get("split") == WHOLE["split"] else value.get("split")
    choosing = ("fidelity", "trials", "ssl_trials")  # these decide which table a record belongs to
    here = [value for value in taken if all(value.get(name) == WHOLE[name] for name in choosing)]
    write_records(tmp_path / "here", [*SOUND, *here])
    use_all(Store(tmp_path / "here"), tmp_path / "report.html")
    write_records(tmp_path / "elsewhere", [*SOUND, *(value for value in taken if value not in here)])
    use_all(Store(tmp_path / "elsewhere"), tmp_path / "report.html")


def test_what_is_refused_is_named_and_changes_nothing(tmp_path: Path) -> None:
    refused = [value for value in mutants() if not accepted(value)]
    plain = write_records(tmp_path / "plain", SOUND)
    store = write_records(tmp_path / "hostile", SOUND)
    lines = [json.dumps(value) for value in refused]
    lines += ["", "[]", "null", "[" * 2000, '{"a":' * 600 + "1" + "}" * 600, "\x00", '{"key": "k", "status": "ok"']
    lines += [json.dumps({**WHOLE, "score": value, "test": {"accuracy": value}}) for value in (float("nan"), 1e999)]
    (store.root / "records" / "other.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with listening() as said:
        made = tabulate(Store(store.root)).to_json()
    assert made == tabulate(plain).to_json()
    assert len(said) == len(lines)
    assert "other.jsonl: skipped a line that is not a record: " in str(said[0].message)
    with listening():
        use_all(Store(store.root), tmp_path / "report.html")


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"score": 0.9}, "its score is not the accuracy of its test part"),
        ({"hashes": {"predictions": ""}}, "it has no evidence"),
        ({"key": "../../etc/passwd"}, "its key is '../../etc/passwd'"),
        ({"schema": 99}, "it was written by a newer tabbench"),
        ({"test": None}, "it is a result without 'test'"),
        ({"diagnostics": {"a": json.loads("[" * 60 + "]" * 60)}}, "its field 'diagnostics' holds"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(change: dict[str, Any], reason: str) -> None:
    assert read_record(json.dumps(WHOLE).encode())["key"] == WHOLE["key"]
    with pytest.raises(BadRecordError, match=reason):
        read_record(to_line({**WHOLE, **change}).rstrip())


def test_pipes_and_devices_in_a_folder_hang_nothing(tmp_path: Path) -> None:
    store = write_records(tmp_path / "results", SOUND)
    before = tabulate(store).to_json()
    for folder in ("records", "experiments", "drivers", "inspections"):
        (store.root / folder).mkdir(exist_ok=True)
        for suffix in ("json", "jsonl"):
            os.mkfifo(store.root / folder / f"pipe.{suffix}")
            (store.root / folder / f"zero.{suffix}").symlink_to("/dev/zero")
    os.mkfifo(store.root / "records.parquet")
    os.mkfifo(store.root / "records.parquet.json")
    with listening() as said:
        assert tabulate(Store(store.root)).to_json() == before
        use_all(Store(store.root), tmp_path / "report.html")
    assert {str(warning.message) for warning in said} == {
        f"{name}.jsonl cannot be read and was skipped: {name}.jsonl is not a regular file" for name in ("pipe", "zero")
    }
