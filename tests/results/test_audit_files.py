"""What ``tabbench audit`` reads: files of every kind, mappings, results folders, and what is not fit to be read."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from harness import add

from tabbench import UsageError
from tabbench.cli.app import main
from tabbench.results.audit import audit_files, reading
from tabbench.results.audit.collecting import Collection
from tabbench.results.audit.mapping import ColumnMap, read_mapping
from tabbench.results.audit.rows import parse_number
from tabbench.results.audit.runs import Number, Run, canonical
from tabbench.results.store import Store

PUBLISHED = Path(__file__).parents[2] / "results" / "published"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(path: str, content: object) -> Path:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


def read(*paths: str, mapping: str | None = None) -> tuple[Run, ...]:
    collection = Collection(read_mapping(write("map.toml", mapping)) if mapping is not None else ColumnMap())
    for path in paths:
        collection.add(Path(path))
    return collection.finish()


def refusal(*paths: str, mapping: str | None = None) -> str:
    with pytest.raises(UsageError) as error:
        read(*paths, mapping=mapping)
    return str(error.value)


# Numbers and names.


@pytest.mark.parametrize(
    "text, value, decimals",
    [
        ("0.830", 0.83, 3),
        (".83", 0.83, 2),
        ("83", 83.0, 0),
        ("8.3e-1", 0.83, 2),
        ("1.5E3", 1500.0, -2),
        (" 83.1 % ", 83.1, 1),
        ("-0.25", -0.25, 2),
    ],
)
def test_numbers_keep_the_digits_that_were_written(text: str, value: float, decimals: int) -> None:
    assert parse_number(text) == Number(value, decimals)


@pytest.mark.parametrize("text", ["", "nan", "inf", "-", "n/a", "1e999", "0x1", "1_000", "1,5", None, True, [], {}])
def test_what_is_not_a_finite_number_is_missing(text: Any) -> None:
    assert parse_number(text) is None


@pytest.mark.parametrize(
    "written, name",
    [("AUC", "auroc"), ("test_ROC-AUC", "auroc"), ("Log Loss", "log_loss"), ("val/acc", "accuracy"), ("WAPE", "wape")],
)
def test_a_metric_has_one_name(written: str, name: str) -> None:
    assert canonical(written) == name


# Files.


def test_columns_with_the_usual_names_need_no_mapping() -> None:
    write("runs.csv", "Dataset,Method,Model,Seed,Metric,Validation,Test\nadult,vime,mlp,3,acc,0.86,0.850\n")
    (run,) = read("runs.csv")
    assert (run.dataset, run.method, run.model, run.seed) == ("adult", "vime", "mlp", "3")
    assert run.scores["accuracy"].validation == Number(0.86, 2)
    assert run.scores["accuracy"].test == Number(0.85, 3)
    assert (run.where, run.name) == ("runs.csv:2", "adult, vime + mlp, seed 3")


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_any_usual_separator_will_do(separator: str) -> None:
    write("runs.csv", separator.join(["dataset", "test"]) + "\r\n" + separator.join(["adult", "0.9"]) + "\r\n")
    (run,) = read("runs.csv")
    assert (run.dataset, run.scores[""].test) == ("adult", Number(0.9, 1))


def test_a_mean_may_bring_its_standard_deviation() -> None:
    write("table.csv", "dataset,ssl,mean\nadult,vime,0.866 ± 0.002\nadult,none,0.861+-0.004\n")
    first, second = read("table.csv")
    assert (first.scores[""].test, first.scores[""].std) == (Number(0.866, 3), Number(0.002, 3))
    assert second.scores[""].std == Number(0.004, 3)


def test_the_csv_of_a_tabbench_table_can_be_audited() -> None:
    names = "ssl,model,variant,uses_labels,dataset,metric,mean,std,n,rank,average_rank"
    write("table.csv", f"{names}\nvime,mlp,,False,wine,accuracy,0.94,0.02,3,1,1.0\n")
    (run,) = read("table.csv")
    assert (run.method, run.averaged, run.setting, str(run.rank)) == ("vime", 3, "False", "1")


def test_rows_with_several_metrics_of_a_run_are_one_run() -> None:
    write("runs.csv", "dataset,method,seed,metric,test\nadult,a,0,auc,0.9\nadult,a,0,acc,0.8\nadult,a,1,auc,0.7\n")
    runs = read("runs.csv")
    assert [sorted(run.scores) for run in runs] == [["accuracy", "auroc"], ["auroc"]]


def test_a_row_that_is_there_twice_counts_once_and_is_told() -> None:
    write("a.csv", "dataset,method,seed,test\nadult,a,0,0.9\nadult,a,1,0.8\n")
    write("b.csv", "dataset,method,seed,test\nadult,a,0,0.9\n")
    collection = Collection(ColumnMap())
    for name in ("a.csv", "b.csv"):
        collection.add(Path(name))
    assert len(collection.finish()) == 2
    assert collection.left_out == ("1 row(s) that are duplicates",)


def test_json_may_be_a_list_an_object_or_lines() -> None:
    row = {"dataset": "adult", "method": "a", "seed": 0, "test": 0.871}
    write("list.json", [row, {**row, "seed": 1}])
    write("one.json", {**row, "seed": 2})
    write("lines.jsonl", "\n".join(json.dumps({**row, "seed": seed}) for seed in (3, 4)))
    runs = read("list.json", "one.json", "lines.jsonl")
    assert [run.seed for run in runs] == ["0", "1", "2", "3", "4"]
    assert [run.where for run in runs] == ["list.json[0]", "list.json[1]", "one.json", "lines.jsonl:1", "lines.jsonl:2"]
    assert all(run.scores[""].test == Number(0.871, 3) for run in runs)


def test_validation_and_test_may_be_objects_with_a_score_for_each_metric() -> None:
    scores = {"test_acc": 0.9, "test_auc": 0.95, "seconds": 12.0}
    write("run.json", {"dataset": "adult", "validation": {"val_acc": 0.91, "val_auc": 0.94}, "test": scores})
    (run,) = read("run.json")
    assert {name: (str(score.validation), str(score.test)) for name, score in run.scores.items()} == {
        "accuracy": ("0.91", "0.9"),
        "auroc": ("0.94", "0.95"),
    }


# Mappings.


def test_a_mapping_leads_to_json_paths_constants_and_parts_of_file_names() -> None:
    for seed in (7, 8):
        result = {"runs": [{"cfg": {"net": {"name": "mlp"}}, "out": [{"auc": 0.9 + seed / 100}, 1], "size": 200}]}
        write(f"release/adult/run-{seed}.json", result)
    first, second = read(
        "release",
        mapping="""
            rows = "runs"
            path = "{dataset}/run-{seed}.json"
            [columns]
            model = "cfg.net.name"
            test = "out[0].auc"
            n_test = "size"
            [constants]
            method = "scarf"
            metric = "auroc"
        """,
    )
    assert first.name == "adult, scarf + mlp, seed 7"
    assert (second.seed, second.n_test, second.scores["auroc"].test.value) == ("8", 200, 0.98)
    assert first.where == "adult/run-7.json[0]"


def test_an_object_of_runs_by_name_is_read_as_a_list() -> None:
    write("all.json", {"first": {"dataset": "a", "test": 0.5}, "second": {"dataset": "b", "test": 0.6}})
    runs = read("all.json", mapping='rows = "."')
    assert [(run.dataset, run.where) for run in runs] == [("a", "all.json[first]"), ("b", "all.json[second]")]


def test_several_columns_can_make_a_setting() -> None:
    write("runs.csv", "dataset,kind,stage,auc\nadult,ft,late,0.9\n")
    (run,) = read("runs.csv", mapping='[columns]\ntest = "auc"\nsetting = ["kind", "stage"]')
    assert run.setting == "ft late"


@pytest.mark.parametrize(
    "mapping, message",
    [
        ("[columns]\ntset = 'a'", "map.toml: Unknown entry of [columns] 'tset'. Did you mean: test?"),
        ("[column]\ntest = 'a'", "map.toml: Unknown entry 'column'. Did you mean: columns?"),
        ("columns = 3", "map.toml: columns = 3: write [columns] and below it ENTRY = VALUE"),
        ("[columns]\ntest = 3", "map.toml: columns.test = 3: write the name of a column, such as test = \"name\""),
        ("[constants]\nmetric = []", "map.toml: constants.metric = []: write a name or a number"),
        ("path = 3", "map.toml: path = 3: write it as text"),
        ("path = '{dataset}/{dataset}'", "map.toml: path = '{dataset}/{dataset}': an entry appears twice"),
        ("path = '{data}.csv'", "map.toml: Unknown entry of path 'data'. Did you mean: dataset?"),
        ("test = ", "map.toml is not a TOML file: "),
        ("[columns]\nmethod = 'objektive'", "method = 'objektive' in the mapping: no row has it. Did you mean: "
                                            "objective?"),
        ("path = '{dataset}.json'", "path in the mapping: it matches no file, not even runs.csv"),
    ],
)  # fmt: skip
def test_a_wrong_mapping_is_refused_in_one_line(mapping: str, message: str) -> None:
    write("runs.csv", "dataset,objective,test\nadult,a,0.9\n")
    told = refusal("runs.csv", mapping=mapping)
    assert told.startswith(message)
    assert "\n" not in told


# Folders.


def test_a_folder_is_searched_and_what_has_no_score_is_told() -> None:
    write("release/a/run.json", {"dataset": "adult", "test": 0.9})
    write("release/config.json", {"lr": 0.1})
    write("release/broken.json", "{")
    write("release/.hidden/run.json", {"dataset": "adult", "test": 0.8})
    write("release/README.md", "results")
    found = audit_files([Path("release")])
    assert (found.files, found.runs) == (1, 1)
    assert found.left_out == (
        "1 row(s) without a numeric score",
        "1 file(s) without a run, such as config.json",
        "1 file(s) that cannot be read, such as broken.json: not JSON (Expecting property name enclosed in double "
        "quotes: line 1 column 2 (char 1))",
    )


def test_compressed_results_are_named_as_left_out() -> None:
    write("release/run.json", {"dataset": "adult", "test": 0.9})
    write("release/more.csv.gz", "\x1f")
    told = "more.csv.gz: a .gz file cannot be read; unpack it, or write it as CSV or JSON"
    assert audit_files([Path("release")]).left_out == (f"1 file(s) that cannot be read, such as {told}",)
    assert refusal("release/more.csv.gz") == f"release/{told}"


def test_a_pipe_in_a_folder_does_not_block() -> None:
    write("release/run.json", {"dataset": "adult", "test": 0.9})
    os.mkfifo("release/pipe.json")
    found = audit_files([Path("release")])
    assert found.runs == 1
    assert found.left_out == (
        "1 file(s) that cannot be read, such as pipe.json: not a regular file; give a CSV or JSON file, or a folder "
        "of them",
    )


def record(seed: int, **changed: Any) -> dict[str, Any]:
    return {
        "kind": "result", "status": "ok", "flags": [], "data": "wine", "ssl": "vime", "model": "mlp", "split": 0,
        "seed": seed, "fidelity": "quick", "counts": {"test": 18},
        "test": {"accuracy": 0.9, "log_loss": 0.3 + seed / 977}, "validation": {"accuracy": 0.9, "log_loss": 0.31},
        "hashes": {"predictions": f"{seed:064}"}, **changed,
    }  # fmt: skip


def test_own_results_are_audited_as_the_store_writes_them() -> None:
    store = Store(Path("results"))
    for seed in range(3):
        add(store, {**record(seed), "key": f"{seed:024}", "metric": "accuracy", "score": 0.9})
    found = audit_files([store.root])
    assert (found.files, found.runs, found.datasets, found.findings, found.left_out) == (1, 3, 1, (), ())


def test_of_own_results_failures_flags_and_seeds_that_change_nothing_are_left_out() -> None:
    same = {"hashes": {"predictions": "f" * 64}, "test": {"accuracy": 0.8, "log_loss": 0.25}, "model": "linear"}
    rows = [record(0), record(1), record(0, status="timeout"), record(2, flags=["constant prediction"])]
    rows += [record(seed, **same) for seed in range(4)] + [record(3, kind="trial")]
    write("results/records/one.jsonl", "".join(json.dumps(row) + "\n" for row in rows) + '{"torn')
    write("results/artefacts/other.json", {"dataset": "x", "test": 0.1})
    found = audit_files([Path("results")])
    assert (found.runs, found.findings) == (3, ())
    assert found.left_out == (
        "2 row(s) that failed or are flagged; tables leave them out too",
        "3 row(s) with the same predictions as another seed",
    )


def test_of_own_results_an_untrained_encoder_that_a_method_kept_is_no_filled_cell() -> None:
    rows = []
    for split in range(3):
        for ssl in ("scarf", "untrained:scarf", "vime", "untrained:vime"):
            encoder = f"{split}{'vime' if ssl == 'vime' else 'scarf':e>63}"  # untrained:vime has started from the same
            same = {"encoder": encoder, "predictions": f"{encoder[1:]}{split}"}
            score = 0.7 + split / 97 + (ssl == "vime") / 31
            rows.append(record(0, ssl=ssl, split=split, hashes=same, test={"rmse": score}, validation={}))
    write("results/records/one.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    found = audit_files([Path("results")])
    assert (found.runs, found.findings) == (6, ())
    assert found.left_out == ("6 row(s) of an untrained encoder that another method kept unchanged",)


def test_of_own_results_copies_under_the_name_of_another_method_look_filled() -> None:
    hashes = [{"encoder": f"{split:064}", "predictions": f"{split + 9:064}"} for split in range(3)]
    rows = [
        record(0, ssl=ssl, split=split, hashes=hashes[split], test={"rmse": 0.7 + split / 97}, validation={})
        for split in range(3)
        for ssl in ("vime", "scarf")
    ]
    write("results/records/one.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert [finding.check for finding in audit_files([Path("results")]).findings] == ["filled-cells"]


@pytest.mark.parametrize("folder", sorted(PUBLISHED.glob("*/records")), ids=lambda folder: folder.parent.name)
def test_the_published_records_pass(folder: Path) -> None:
    assert audit_files([folder.parent]).findings == ()


# What is not fit to be read.


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("runs.csv", "", "runs.csv: no rows have a score"),
        ("runs.csv", "dataset,method,test\n", "runs.csv: no rows have a score"),
        ("runs.csv", "a,b\n1,2\n", "runs.csv: nothing is named 'test'. Available: a, b. Map it in a mapping "
                                   "file (--mapping FILE)"),
        ("runs.csv", "method,test\na,0.9\n", "runs.csv: nothing is named 'dataset'. Available: method, test. Map it "
                                             "in a mapping file (--mapping FILE)"),
        ("runs.csv", "dataset,test\nadult,high\n", "runs.csv: no test score is a finite number, for example 'high'; "
                                                   "write it as 0.85 or 85%"),
        ("runs.csv", "dataset;TEST\nadult;0,85\n", "runs.csv: no test score is a finite number, for example '0,85'"),
        ("runs.csv", "dataset,test\na,nan\nb,1e999\n", "runs.csv: no test score is a finite number, for example 'nan'"),
        ("runs.csv", f"dataset,test\na,{'x' * 900}\n", "runs.csv: no test score is a finite number, for example "
                                                       f"'{'x' * 40}...';"),
        ("runs.csv", "dataset,test\na,b,0.9\n", "runs.csv: line 2 has 3 fields, the header 2"),
        ("runs.csv", "test,test\n1,2\n", "runs.csv: several columns are named 'test'"),
        ("runs.csv", 'dataset,test\n"a,0.9\n', "runs.csv: not a CSV file (unexpected end of data)"),
        ("runs.csv", "dataset,test\n" + "a" * 200_000, "runs.csv: not a CSV file (field larger than field limit"),
        ("runs.json", "{", "runs.json: not JSON (Expecting property name"),
        ("runs.json", "3", "runs.json: neither an object nor a list"),
        ("runs.json", "[1, null, []]", "runs.json: no rows have a score"),
        ("runs.json", "[" * 100_000, "runs.json: nested too deeply to be read"),
        ("runs.json", '{"test": {"a": {"b": 1}}, "dataset": []}', "runs.json: the test score is an object without a "
                                                                  "metric that has a known name; write one number"),
        ("runs.json", '[{"dataset": "adult", "test": [0.8, 0.9]}]', "runs.json: the test score is a list; write one "
                      "number for each run, or map a path to it in a mapping file (--mapping FILE)"),
        ("runs.jsonl", '{"test": 1}\n[]\n', "runs.jsonl:2: not a JSON object"),
        ("runs.jsonl", '{"test": 1}\n{"te', "runs.jsonl:2: not JSON (Unterminated string"),
    ],
)  # fmt: skip
def test_a_broken_file_is_refused_in_one_line(name: str, content: str, message: str) -> None:
    write(name, content)
    told = refusal(name)
    assert told.startswith(message)
    assert "\n" not in told


def test_what_is_no_text_is_refused() -> None:
    Path("runs.csv").write_bytes(b"dataset,test\n\xff\xfe,1\n")
    assert refusal("runs.csv") == "runs.csv: not UTF-8 text (byte 13)"


def test_a_file_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGEST", 2**20)
    with open("runs.csv", "wb") as file:
        file.truncate(2**20 + 1)
    assert refusal("runs.csv") == "runs.csv: larger than 1 MB; split it, or keep only the scores"


def test_pipes_devices_and_missing_files_are_refused() -> None:
    os.mkfifo("pipe.csv")
    kind = "not a regular file; give a CSV or JSON file, or a folder of them"
    assert refusal("pipe.csv") == f"pipe.csv: {kind}"
    assert refusal("/dev/zero") == f"/dev/zero: {kind}"
    assert refusal("none.csv") == "none.csv: there is no such file or folder"
    assert refusal("pipe.csv", mapping="rows = 3") == "map.toml: rows = 3: write it as text"
    Path("folder").mkdir()
    with pytest.raises(UsageError, match=r"^folder is a folder; the mapping is a TOML file$"):
        read_mapping(Path("folder"))


def test_an_empty_folder_is_refused() -> None:
    Path("empty").mkdir()
    assert refusal("empty") == "empty: there is no CSV or JSON file in this folder"


def test_errors_escape_what_a_file_brings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write("runs.csv", "\x1b[31mred,b\n1,2\n")
    monkeypatch.setattr(sys, "argv", ["tabbench", "audit", "runs.csv"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "tabbench: runs.csv: nothing is named 'test'. Available: \\x1b[31mred, b. Map it in a mapping file "
        "(--mapping FILE)\n"
    )


def test_hostile_values_of_every_type_do_not_break_an_audit() -> None:
    odd: list[Any] = [None, True, [], {}, "", "x", -1, 10**400, 1e-320, {"a": {"b": []}}, "9" * 5000, "\ud800"]
    names = ("dataset", "method", "seed", "split", "validation", "test", "std", "n", "n_test", "n_rows", "rank",
             "average_rank", "test_share", "metric")  # fmt: skip
    good = {"dataset": "a", "method": "m", "test": 0.5, "validation": 0.5, "rank": 1, "n_test": 10, "std": 0.1}
    rows = [{**good, "seed": f"{name}{place}", name: value} for name in names for place, value in enumerate(odd)]
    write("odd.json", json.dumps(rows))
    found = audit_files([Path("odd.json")])
    assert found.runs > 100
    assert json.dumps(found.to_json())
