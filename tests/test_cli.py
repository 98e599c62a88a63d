"""The command line as a user meets it."""

import errno
import io
import json
import re
import resource
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from harness import INLINE, TOYS, tabbench, tabbench_process

from tabbench.__main__ import main as run_command
from tabbench.cli import listing
from tabbench.cli.app import main
from tabbench.registry import make_registry

PAIR = ("--ssl", "none", "--model", "linear")
RUN = ("run", *INLINE, "--ssl", "projection", "--model", "nearest", "--data", "wine", "--offline")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "results"
    done = tabbench(*RUN, "--results", folder, "--seeds", "2")
    assert done.returncode == 0, done.stderr
    assert "average rank" in done.stdout
    assert "4 record(s) made" in done.stderr
    assert "left" in done.stderr, "plain progress tells the time left"
    return folder


def test_the_table_after_a_run_is_the_table_of_the_table_command(results: Path) -> None:
    again = tabbench(*RUN, "--results", results, "--seeds", "2")
    assert again.returncode == 0
    assert "4 already stored" in again.stderr
    shown = tabbench("table", "--results", results)
    assert shown.stdout == again.stdout
    assert "ties get the min rank, missing cells are ranked last" in shown.stdout


@pytest.mark.parametrize("layout", ["markdown", "latex", "csv", "json", "terminal"])
@pytest.mark.parametrize("metric", ["rank", "score", "time", "accuracy"])
def test_every_format_shows_every_row(results: Path, layout: str, metric: str) -> None:
    shown = tabbench("table", "--results", results, "--format", layout, "--metric", metric)
    assert shown.returncode == 0, shown.stderr
    for word in ("projection", "none", "nearest", "wine"):
        assert word in shown.stdout


def test_json_table_has_the_promised_shape(results: Path) -> None:
    value = json.loads(tabbench("table", "--results", results, "--format", "json").stdout)
    assert value["datasets"] == ["wine"]
    assert {row["ssl"] for row in value["rows"]} == {"none", "projection"}
    assert all(row["cells"]["wine"]["n"] == 2 for row in value["rows"])


def test_list_json_has_the_promised_shape() -> None:
    value = json.loads(tabbench("list", "--json").stdout)
    assert all({"kind", "name", "summary", "distribution", "version"} <= set(entry) for entry in value)
    names = {(entry["kind"], entry["name"]) for entry in value}
    for ssl in ("none", "untrained", "tjepa", "vime", "subtab", "binrecon", "switchtab", "ptarl"):
        assert ("ssl", ssl) in names
    for model in ("linear", "mlp", "dcnv2", "resnet", "autoint", "ft_transformer", "xgboost", "catboost"):
        assert ("model", model) in names
    for data in ("adult", "helena", "jannis", "aloi", "california", "higgs", "mnist", "wine", "digits"):
        assert ("data", data) in names
    only = json.loads(tabbench("list", "models", "--json").stdout)
    assert {entry["kind"] for entry in only} == {"model"}


def test_show_tells_settings_with_ranges_and_records_with_evidence(results: Path) -> None:
    shown = tabbench("show", "mlp")
    assert shown.returncode == 0, shown.stderr
    assert "tuned in" in shown.stdout
    key = json.loads(next((results / "records").glob("*.jsonl")).read_text().splitlines()[0])["key"]
    record = json.loads(tabbench("show", key[:10], "--results", results).stdout)
    assert record["key"] == key
    assert record["hashes"]["predictions"]


def test_a_dry_run_counts_steps_and_writes_nothing(tmp_path: Path, results: Path) -> None:
    fresh = tabbench(*RUN, "--results", tmp_path / "new", "--dry-run")
    assert fresh.returncode == 0, fresh.stderr
    assert [
        line.split()[:4] for line in fresh.stdout.splitlines() if line.startswith(("pretrain", "encode", "fit"))
    ] == [
        ["pretrain", "1", "0", "1"],
        ["encode", "1", "0", "1"],
        ["fit", "2", "0", "2"],
    ]
    assert not (tmp_path / "new").exists()
    known = tabbench(*RUN, "--results", results, "--dry-run")
    assert "fit               2        2        0" in known.stdout


def test_a_dry_run_counts_the_splits_that_there_are(tmp_path: Path) -> None:
    folds = tabbench(*RUN, "--results", tmp_path, "--dry-run", "--folds", "3", "--splits", "2")
    assert "preset quick, 3 split(s), 1 seed(s)" in folds.stdout, folds.stderr
    assert "pretrain          3        0        3" in folds.stdout


def test_a_dry_run_estimates_the_time(tmp_path: Path, results: Path) -> None:
    stored = tabbench(*RUN, "--results", results, "--dry-run", "--seeds", "9")
    assert "time: about" in stored.stdout
    what = ("--ssl", "none", "--model", "nearest,mlp", "--preset", "paper", "--data", "paper")
    paper = ("run", "--plugin", TOYS, *what)
    unknown = tabbench(*paper, "--dry-run", "--results", tmp_path)
    assert "980 job(s) to run, 280 record(s) in the end" in unknown.stdout
    assert "time: unknown" in unknown.stdout
    assert "to be fetched first: adult, aloi, california, helena, higgs, jannis, mnist" in unknown.stdout
    measured = tabbench(*RUN, "--results", tmp_path / "new", "--dry-run", "--calibrate")
    assert "time: about" in measured.stdout, measured.stderr
    assert "from a few epochs of each training" in measured.stdout


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["run", "--model", "mlp"], "--ssl is missing. Available: "),
        (["run", "--ssl", "none"], "--model is missing. Available: "),
        (["run", "--ssl", "tjpea", "--model", "mlp"], "Unknown SSL method 'tjpea'. Did you mean: tjepa?"),
        (["run", "--ssl", "none", "--model", "mpl"], "Unknown model 'mpl'. Did you mean: mlp?"),
        (["run", "--ssl", "none", "--model", "mlp", "--data", "adlut", "--offline"], "Did you mean: adult?"),
        (["run", "--ssl", "none", "--model", "mlp", "--data", "no/such.csv:y"], "no/such.csv"),
        (["run", "--ssl", "none", "--model", "mlp", "--preset", "fast"], "Unknown preset 'fast'"),
        (["run", "--ssl", "none", "--model", "mlp", "--device", "tpu"], "Unknown device 'tpu'"),
        (["run", "--ssl", "none", "--model", "mlp", "--executor", "lokal"], "Did you mean: local?"),
        (["run", "--ssl", "none", "--model", "mlp", "--set", "mlp.lr"], "NAME.SETTING=VALUE"),
        (
            ["run", "--ssl", "none", "--model", "mlp", "--controls", "nome"],
            "Unknown control 'nome'. Did you mean: none?",
        ),
        (["run", "nothing.toml"], "Experiment file nothing.toml does not exist."),
        (["run", "tjepa"], "Experiment file tjepa does not exist. Name methods with --ssl and models with --model."),
        (["run", *PAIR, "--metric", "acc"], "Unknown metric 'acc'. Did you mean: accuracy?"),
        (["run", "--plugin", "nothing.py", "--ssl", "none", "--model", "mlp"], "there is no such file"),
        (["run", *PAIR, "--calibrate"], "--calibrate times trainings for the estimate of --dry-run: add --dry-run"),
        (["run", *PAIR, "--data", "wine", "--drop", "hue", "--dry-run"], "are for files: give --data FILE:TARGET"),
        (["table", "--results", "nowhere"], "start with 'tabbench run'"),
        (["table", "--format", "xml"], "--format 'xml' is unknown"),
        (["list", "modles"], "Did you mean: models?"),
        (["show", "tjpea"], "Did you mean: tjepa?"),
        (["show", "57a"], "no plugin is called '57a'; for a record, give at least 4 characters of its key"),
    ],
)
def test_mistakes_end_with_code_2_and_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = tabbench(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["rnu"], "Unknown command 'rnu'. Did you mean: run? See: tabbench --help"),
        (["data", "fech"], "Unknown command 'fech'. Did you mean: fetch? See: tabbench data --help"),
        (["run", "--modle", "mlp"], "Unknown option '--modle'. Did you mean: --model? See: tabbench run --help"),
        (["-x"], "Unknown option '-x'. See: tabbench --help"),
        (["run", "--seeds", "many"], "--seeds many: give a whole number"),
        (["run", "--seeds=0"], "--seeds 0: give at least 1"),
        (
            ["run", *PAIR, "--labels", "0%"],
            "--labels '0%': give a share of the training rows, such as 10%, or at least 2 rows, such as 200",
        ),
        (
            ["fit", *PAIR, "--ssl", "untrained:vime", "--data", "wine"],
            "--ssl untrained:vime is a control: choose a method",
        ),
        (
            ["fit", *PAIR, "--data", "wine", "--protocol", "finetune"],
            "--protocol finetune: --ssl none has no encoder to fine-tune",
        ),
        (["fit", "0123", "--preset", "standard"], "--preset goes with --ssl, --model and --data: with a RECORD"),
        (["fit", "0123", "--protocol", "frozen"], "--protocol goes with --ssl, --model and --data: with a RECORD"),
        (
            ["fit", *PAIR, "--data", "demo"],
            "--data demo is a group; pick one: breast_cancer, diabetes, digits, wine",
        ),
        (["run", *PAIR, "--ssl", "vime"], "--ssl is given twice: write --ssl A,B"),
        (["run", *PAIR, "--set", "linear.C=1", "--set", "linear.C=2"], "--set linear.C is given twice: give it once"),
        (["run", "--data=wine", "--data=digits"], "--data is given twice: write --data A,B"),
        (["run", "--offline=yes"], "--offline=yes: "),
        (["run", "--ssl"], "Option '--ssl' requires an argument."),
        (["embed"], "Missing argument "),
        (["list", "ssl", "models"], "Unexpected argument: models. See: tabbench list --help"),
    ],
)
def test_what_the_parser_refuses_is_one_line_too(arguments: list[str], message: str) -> None:
    done = tabbench(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"tabbench: {message}")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    "arguments, code, shown",
    [(["--version"], 0, "tabbench "), (["run", "--help"], 0, "--ssl"), (["data"], 2, "fetch"), ([], 2, "plugins")],
)
def test_help_and_version_are_no_mistakes(arguments: list[str], code: int, shown: str) -> None:
    done = tabbench(*arguments)
    assert done.returncode == code
    assert shown in done.stdout + done.stderr
    assert "tabbench: " not in done.stderr


def test_an_interruption_ends_with_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(listing, "make_registry", interrupt)
    monkeypatch.setattr(sys, "argv", ["tabbench", "list"])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main sets its own
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130


@pytest.mark.parametrize("option", ["--results", "--plugin"])
def test_a_name_of_300_characters_is_refused_in_a_line(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "table" if option == "--results" else "list"
    monkeypatch.setattr(sys, "argv", ["tabbench", command, option, "n" * 300])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main sets its own
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "File name too long" in capsys.readouterr().err


def test_failures_end_with_code_3_and_the_table_still_prints(tmp_path: Path) -> None:
    done = tabbench(*RUN, "--results", tmp_path / "results", "--set", "projection.behave=fail")
    assert done.returncode == 3
    assert "none" in done.stdout
    reason = "failed: RuntimeError: the toy was told to fail (toy_plugin.py:"
    assert f"left out: 1 record of projection + nearest on wine: {reason}" in done.stdout
    assert "(in an earlier step)" in done.stdout
    assert "failed: wine/0 projection + nearest seed 0: not run" in done.stderr
    (key,) = re.findall(r"the traceback: tabbench show (\w+) --results", done.stderr)
    shown = tabbench("show", key, "--results", tmp_path / "results")
    assert json.loads(shown.stdout)["status"] == "failed"
    assert shown.stderr.endswith("RuntimeError: the toy was told to fail\n"), "line by line, for people"


def test_a_device_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    done = tabbench(*RUN, "--results", tmp_path / "results", "--executor", "local", "--jobs", "1", "--device", "mps")
    assert done.returncode == 2
    assert "--device mps: this machine has none" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_experiment_file_is_run_and_options_override_it(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(
        'ssl = ["projection"]\nmodel = ["nearest"]\ndata = ["wine"]\nseeds = 3\n[set.nearest]\nsleep = 0.01\n'
    )
    done = tabbench("run", file, "--plugin", TOYS, "--seeds", "1", "--dry-run", "--results", tmp_path / "results")
    assert done.returncode == 0, done.stderr
    assert "1 seed(s)" in done.stdout
    other = tabbench("run", file, "--plugin", TOYS, "--model", "linear", "--dry-run", "--results", tmp_path / "results")
    assert other.returncode == 0, "settings of a model that the command line leaves out go with it"
    file.write_text("seeds = [")
    broken = tabbench("run", file)
    assert broken.returncode == 2
    assert "is not a TOML file" in broken.stderr


def test_help_answers_at_once() -> None:
    """In CPU time, as test machines are busy; on an idle one it is the wall time."""
    seconds = []
    for arguments in (["--help"], ["list"]) * 3:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert tabbench_process(*arguments).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) < 0.6


def test_tables_that_could_be_confused_are_refused_and_notes_are_told(tmp_path: Path) -> None:
    for folder, shift in (("a", 0), ("b", 1)):
        (tmp_path / folder).mkdir()
        rows = "\n".join(f"{i},{(i + shift) % 5},{'ab'[i % 2]}" for i in range(60))
        (tmp_path / folder / "t.csv").write_text(f"id,x,y\n{rows}\n")
    (tmp_path / "copy.csv").write_text((tmp_path / "a" / "t.csv").read_text())
    toys = (*INLINE, "--results", tmp_path / "results")
    run = ("run", "--ssl", "none", "--model", "nearest", "--preset", "quick", *toys)
    a, b, copy = (f"{tmp_path}/{name}:y" for name in ("a/t.csv", "b/t.csv", "copy.csv"))
    for mode in ((), ("--dry-run",)):
        apart = tabbench(*run, "--data", f"{a},{b}", *mode)
        assert apart.returncode == 0, "files of one name in two folders are told apart"
        same = tabbench(*run, "--data", f"{a},{copy}", *mode)
        assert (same.returncode, "are the same table: give only one of them" in same.stderr) == (2, True)
        wrong = tabbench(*run, "--data", f"{a}x", *mode)
        assert (wrong.returncode, "yx" in wrong.stderr) == (2, True)
    told = tabbench(*run, "--data", a)
    assert told.returncode == 0
    assert "t.csv:y: " in told.stderr, "what became of the columns is said"


def test_ctrl_c_before_anything_has_begun_ends_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tabbench.cli.app.main", interrupt)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit) as ended:
        run_command()
    signal.signal(signal.SIGINT, before)
    assert (ended.value.code, capsys.readouterr().err) == (130, "tabbench: interrupted\n")


def test_ctrl_c_is_not_lost_in_a_callback_of_an_import() -> None:
    """Python only prints what such a callback raises: the command would go on."""
    script = """
import signal, weakref
from tabbench.__main__ import interrupt

class Lock: pass

signal.signal(signal.SIGINT, interrupt)
made = {"signal": signal}
exec(compile("def cb(_): signal.raise_signal(signal.SIGINT)", "<frozen importlib._bootstrap>", "exec"), made)
lock = Lock()
seen = weakref.ref(lock, made["cb"])
del lock
print("went on")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "tabbench: interrupted\n")


def test_ctrl_c_within_a_command_ends_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tabbench.registry.make_registry", interrupt)
    monkeypatch.setattr(sys, "argv", ["tabbench", "run", "--ssl", "none", "--model", "mlp"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "tabbench: interrupted\n")


def test_importing_tabbench_imports_nothing_else() -> None:
    """What takes long to import is what Ctrl-C would hit before anyone can deal with it."""
    code = "import sys; before = {*sys.modules}; import tabbench; print({*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{'tabbench'}"


def test_a_table_prints_in_any_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    """``LC_ALL=en_US.ISO-8859-15 tabbench table > file`` must not end in a traceback at the first dagger."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", printed)
    monkeypatch.setattr(sys, "argv", ["tabbench", "list"])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main sets its own
    monkeypatch.setattr(listing, "make_registry", lambda *_: print("0.5 ± 0.1 †") or make_registry())
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    printed.flush()
    assert printed.buffer.getvalue().startswith(b"0.5 \\xb1 0.1 \\u2020")


def test_a_full_disk_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tabbench.running.request.run_request", fill)
    monkeypatch.setattr(sys, "argv", ["tabbench", *RUN, "--results", str(tmp_path / "full")])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main sets its own
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    message = f"tabbench: cannot write {tmp_path / 'full'}: No space left on device. Finished records are kept.\n"
    assert capsys.readouterr().err.endswith(message)
