"""A fitted pipeline is what it was when it comes back from disk, and refuses rows that it cannot understand."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from harness import TOYS, Bench, InProcess, tabbench
from tabbench_linear.model import Linear

import tabbench as tb
from tabbench import Context, Labelled, Representation, Task, UsageError
from tabbench.data.files import read_rows
from tabbench.data.gather import find_data, store_frames
from tabbench.data.reading import Reading
from tabbench.errors import DataError
from tabbench.experiment.payloads import FitPayload
from tabbench.experiment.settings import choose
from tabbench.experiment.spec import make_spec
from tabbench.frames import fit_schema, to_table
from tabbench.registry import make_registry
from tabbench.results.replay import prepare_replay
from tabbench.running.features import open_job_split
from tabbench.running.finalise import fit_as_recorded, fit_pipeline
from tabbench.running.pipeline import Pipeline, load

FAST: dict[str, dict[str, Any]] = {
    "linear": {},
    "mlp": {"max_epochs": 2, "width": 8},
    "resnet": {"max_epochs": 2},
    "dcnv2": {"max_epochs": 2},
    "autoint": {"max_epochs": 2},
    "ft_transformer": {"max_epochs": 2},
    "xgboost": {"n_rounds": 5},
    "catboost": {"n_rounds": 5},
}


def rows(n: int = 80, seed: int = 0) -> pd.DataFrame:
    """Numbers with gaps, and categories."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.exponential(size=n), "c": rng.choice(["x", "y", "z"], n)})
    frame.loc[::7, "a"] = np.nan
    return frame


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("name", FAST)
def test_a_saved_model_predicts_the_same(name: str, kind: Any, tmp_path: Path) -> None:
    task = Task(kind, {"binary": 2, "multiclass": 3, "regression": 0}[kind])
    rng = np.random.default_rng(1)
    frame = rows()
    table = to_table(frame, fit_schema(frame))
    y = rng.normal(size=80).astype(np.float32) if task.is_regression else np.arange(80) % task.n_classes
    registry = make_registry()
    entry = registry.find("model", name)
    model = registry.load(entry)(**FAST[name])
    labelled = Labelled(table, y)
    model.fit(labelled, labelled, task, Context())
    names = tuple(f"class {k}" for k in range(task.n_classes))
    made = Pipeline(table.schema, task, "y", names, 2.0, 3.0, entry.name, model)
    made.save(tmp_path / "p")
    again = load(tmp_path / "p")
    new = rows(40, seed=2)
    pd.testing.assert_frame_equal(again.predict(new), made.predict(new))


@pytest.mark.parametrize("name", FAST)
def test_a_saved_model_of_tokens_predicts_the_same(name: str) -> None:
    rng = np.random.default_rng(0)
    tokens = Representation(rng.normal(size=(60, 3, 4)).astype(np.float32))
    registry = make_registry()
    model_class = registry.load(registry.find("model", name))
    model = model_class(**FAST[name])
    labelled = Labelled(tokens, np.arange(60) % 2)
    task = Task("binary", 2)
    model.fit(labelled, labelled, task, Context())
    again = model_class(model.config)
    again.set_state(model.get_state(), task)
    np.testing.assert_array_equal(again.predict(tokens), model.predict(tokens))


@pytest.fixture(scope="module")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("churn")
    frame = rows(200)
    frame["left"] = np.where(frame["b"] > frame["b"].median(), "yes", "no")
    frame.to_csv(folder / "churn.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def fitted(churn: Path) -> Path:
    out = churn / "pipeline"
    done = tabbench(
        "fit", "--ssl", "projection", "--model", "linear", "--data", f"{churn / 'churn.csv'}:left", "--out", out,
        "--plugin", TOYS, "--offline",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{out}: projection + linear, predicts 'left' from 3 columns\n"
    return out


def test_new_rows_get_a_class_and_its_probabilities(churn: Path, fitted: Path) -> None:
    rows(30, seed=5)[["c", "b", "a"]].assign(more=1).to_csv(churn / "new.csv", index=False)
    done = tabbench("predict", fitted, churn / "new.csv", "--out", churn / "out.csv", "--plugin", TOYS)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{churn / 'out.csv'}: 30 rows\n"
    assert done.stderr == "note: not used: more\n"
    out = pd.read_csv(churn / "out.csv")
    assert list(out.columns) == ["left", "probability_no", "probability_yes"]
    assert set(out["left"]) <= {"yes", "no"}
    np.testing.assert_allclose(out[["probability_no", "probability_yes"]].sum(axis=1), 1.0, rtol=1e-5)


def test_a_missing_column_is_told_with_the_file(churn: Path, fitted: Path) -> None:
    rows(5).drop(columns="b").to_csv(churn / "lacks.csv", index=False)
    done = tabbench("predict", fitted, churn / "lacks.csv", "--out", churn / "none.csv", "--plugin", TOYS)
    assert done.returncode == 2
    assert done.stderr == f"tabbench: {churn / 'lacks.csv'}: there is no column 'b'. Available: a, c.\n"


def test_new_rows_are_not_overwritten(churn: Path, fitted: Path) -> None:
    rows(5).to_csv(churn / "both.csv", index=False)
    done = tabbench("predict", fitted, churn / "both.csv", "--out", churn / "both.csv", "--plugin", TOYS)
    assert done.returncode == 2
    assert done.stderr == f"tabbench: --out {churn / 'both.csv'} is the file with the new rows; give another\n"


def test_other_files_in_its_folder_are_not_part_of_a_pipeline(churn: Path, fitted: Path, tmp_path: Path) -> None:
    pipeline = tb.load(fitted, plugins=(TOYS,))
    (tmp_path / "notes.txt").write_text("mine")
    pipeline.save(tmp_path)
    (tmp_path / "notes.txt").write_text("changed")
    pd.testing.assert_frame_equal(tb.load(tmp_path, plugins=(TOYS,)).predict(rows(5)), pipeline.predict(rows(5)))


def test_a_loaded_pipeline_predicts_a_frame(fitted: Path) -> None:
    pipeline = tb.load(fitted, plugins=(TOYS,))
    out = pipeline.predict(rows(10, seed=7).set_index(pd.Index(range(100, 110))))
    assert list(out.index) == list(range(100, 110))
    assert pipeline.surprises(rows(10).assign(c="new")) == ["c: 10 rows have a value not seen in training"]
    assert list(pipeline.predict(rows(10)[:0]).columns) == list(out.columns)
    with pytest.raises(DataError, match=r"there is no column 'b'. Did you mean: B\? Available: B, a, c."):
        pipeline.predict(rows(10).rename(columns={"b": "B"}))
    with pytest.raises(DataError, match="columns are missing: 'a', 'b'$"):
        pipeline.predict(rows(10)[["c"]])
    half = rows(10).astype({"a": object})
    half.loc[:4, "a"] = "odd"
    assert pipeline.surprises(half) == ["5 value(s) 'odd' of 'a' are treated as missing"]
    for ask in (pipeline.predict, pipeline.surprises):
        with pytest.raises(DataError, match="new rows must be a DataFrame, not list$"):
            ask([[1, 2, 3]])  # type: ignore[arg-type]
        with pytest.raises(DataError, match="several columns have the same name: 'a'$"):
            ask(pd.concat([rows(10), rows(10)[["a"]]], axis=1))
        with pytest.raises(DataError, match="column 'b' holds values of type list: only numbers"):
            ask(rows(10).assign(b=pd.Series([[1, 2]] * 10)))


def test_a_pipeline_of_a_record_predicts_what_the_record_did(churn: Path) -> None:
    results = churn / "results"
    found = tb.run(
        "projection", "linear", f"{churn / 'churn.csv'}:left", preset="quick", controls=[], results=results,
        plugins=[TOYS], executor="inline", progress=False, offline=True,
    )  # fmt: skip
    (key,) = found.records()["key"]
    common = ("--results", results, "--plugin", TOYS, "--offline")
    done = tabbench("fit", key[:8], "--as-recorded", "--out", churn / "same", *common)
    assert done.returncode == 0, done.stderr
    assert tabbench("fit", key[:8], "--out", churn / "final", *common).returncode == 0
    assert tb.load(churn / "final", plugins=(TOYS,)).about["rows"] == 200


def test_a_pipeline_of_a_record_watches_the_metric_of_the_record(churn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stopped on accuracy, whatever the record had been trained for."""
    watched: list[str] = []
    learn = Linear.fit

    def fit(self: Linear, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        watched.append(task.metric)
        learn(self, train, validation, task, context)

    monkeypatch.setattr(Linear, "fit", fit)
    results = churn / "watching"
    found = tb.run(
        "none", "linear", f"{churn / 'churn.csv'}:left", preset="quick", metric="auroc", results=results,
        plugins=[TOYS], executor="inline", progress=False, offline=True,
    )  # fmt: skip
    (key,) = found.records()["key"]
    done = tabbench("fit", key[:8], "--out", churn / "watched", "--results", results, "--offline")
    assert done.returncode == 0, done.stderr
    assert watched == ["auroc", "auroc"]


def test_rows_without_a_target_are_pretrained_on(tmp_path: Path) -> None:
    """As the note on them says, and as for the record; they were left out."""
    registry = make_registry([TOYS])
    answers: list[Any] = [*["yes", "no"] * 60, *[None] * 80]
    frame = rows(200).assign(left=answers)
    spec = make_spec({"ssl": ["projection"], "model": ["linear"]})
    method, model = (choose(spec, registry, kind, name) for kind, name in (("ssl", "projection"), ("model", "linear")))
    seen: dict[str, object] = {}
    for unlabelled in ("keep", "drop"):
        (manifest,) = store_frames({"churn": (frame, "left")}, Reading(unlabelled=unlabelled))
        made = fit_pipeline(method, model, manifest, registry, Context())
        assert made.method is not None
        seen[unlabelled] = made.method.diagnostics["rows"]
        assert made.about["rows"] == 120
    assert seen == {"keep": 188, "drop": 108}


def test_class_weights_of_a_number_are_refused(tmp_path: Path) -> None:
    """As in a run; they were left out without a word."""
    pair = ("--ssl", "none", "--model", "linear", "--data", "diabetes")
    done = tabbench("fit", *pair, "--class-weights", "balanced", "--out", tmp_path / "pipeline")
    assert done.returncode == 2
    assert done.stderr.endswith("--class-weights needs a target with classes, but 'target' is a number\n")


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """Numbers as people write them; 13 of January and later say that the month comes first."""
    folder = tmp_path_factory.mktemp("sales")
    rng = np.random.default_rng(0)
    days = pd.date_range("2020-01-01", periods=120)
    income = rng.integers(1000, 99_999, 120)
    frame = pd.DataFrame({
        "income": [f"{value:,}" for value in income],
        "day": days.strftime("%m/%d/%Y"),
        "age": [*rng.integers(18, 90, 119).astype(str), "unknown"],
        "zip": rng.choice(["01234", "10001", "00501"], 120),
        "price": income + 100.0 * np.arange(120),
    })  # fmt: skip
    frame.to_csv(folder / "sales.csv", index=False)
    return folder / "sales.csv", frame


def fit_file(path: Path, target: str, model: str) -> Pipeline:
    registry = make_registry()
    spec = make_spec({"ssl": ["none"], "model": [model], "data": [f"{path}:{target}"], "preset": "quick"})
    (manifest,) = find_data(spec.data, registry, offline=True, reading=spec.reading)
    return fit_pipeline(None, choose(spec, registry, "model", model), manifest, registry, Context())


def test_few_new_rows_mean_what_they_meant_in_training(sales: tuple[Path, pd.DataFrame], tmp_path: Path) -> None:
    path, frame = sales
    fit_file(path, "price", "linear").save(tmp_path / "p")
    pipeline = load(tmp_path / "p")
    every = pipeline.predict(frame)
    pd.testing.assert_frame_equal(pipeline.predict(frame.iloc[:3]), every.iloc[:3])  # 01/02/2020 could be February
    frame.iloc[[119]].to_csv(tmp_path / "one.csv", index=False)
    rows, notes = read_rows(tmp_path / "one.csv", pipeline.reading)
    assert notes == ["1 value(s) 'unknown' of 'age' are treated as missing"]
    np.testing.assert_allclose(pipeline.predict(rows)["price"], every["price"].iloc[[119]])
    typed = frame.assign(day=pd.to_datetime(frame["day"], format="%m/%d/%Y"))
    pd.testing.assert_frame_equal(pipeline.predict(typed), every)
    assert pipeline.surprises(typed) == ["1 value(s) 'unknown' of 'age' are treated as missing"]


def test_new_rows_in_another_notation_are_told(sales: tuple[Path, pd.DataFrame], tmp_path: Path) -> None:
    path, frame = sales
    pipeline = fit_file(path, "price", "linear")
    frame.assign(day=pd.to_datetime(frame["day"]).dt.strftime("%d/%m/%Y")).to_csv(tmp_path / "new.csv", index=False)
    rows, notes = read_rows(tmp_path / "new.csv", pipeline.reading)
    assert "'day' is read as day/month/year in these rows" in notes
    np.testing.assert_allclose(pipeline.predict(rows)["price"], pipeline.predict(frame)["price"])
    frame.assign(age="41,5").to_csv(tmp_path / "new.csv", index=False, sep=";")
    rows, notes = read_rows(tmp_path / "new.csv", pipeline.reading)
    assert notes == ["'age' read with decimal commas in these rows"]
    assert rows["age"].tolist() == [41.5] * 120


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_comma_in_new_rows_means_what_it_meant_in_training(separator: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(1_000, 9_999, size=(2, 80))
    frame = pd.DataFrame({
        "weight": [f"{value / 1000:.3f}".replace(".", ",") for value in numbers[0]],
        "income": [f"{value:,}" for value in numbers[1]],
        "price": numbers[0] / 1000 + numbers[1],
    })  # fmt: skip
    frame.loc[0, ["weight", "income"]] = "1,5", "1,234,567"  # only this row tells what a comma means
    frame.to_csv(tmp_path / "t.csv", index=False, sep=separator)
    fit_file(tmp_path / "t.csv", "price", "linear").save(tmp_path / "p")
    pipeline = load(tmp_path / "p")
    every = pipeline.predict(frame)
    pd.testing.assert_frame_equal(pipeline.predict(frame.iloc[1:]), every.iloc[1:])
    for other in (",", ";"):
        frame.iloc[1:].to_csv(tmp_path / "new.csv", index=False, sep=other)
        rows, _ = read_rows(tmp_path / "new.csv", pipeline.reading)
        np.testing.assert_allclose(pipeline.predict(rows)["price"], every["price"].iloc[1:])


def test_points_in_new_rows_mean_what_they_meant_in_training(tmp_path: Path) -> None:
    """Whether or not the new file has a comma that tells."""
    rng = np.random.default_rng(0)
    rent, size = rng.integers(1000, 9999, 80), rng.integers(10, 90, 80)
    frame = pd.DataFrame({"rent": rent, "size": size, "price": rent * 2.5 + 3.25 * size})
    text = frame.assign(
        rent=[f"{value / 1000:.3f}" for value in rent],
        size=[f"{value},50" for value in size],
        price=[f"{value:.2f}".replace(".", ",") for value in frame["price"]],
    )
    text.to_csv(tmp_path / "t.csv", index=False, sep=";")
    pipeline = fit_file(tmp_path / "t.csv", "price", "linear")
    pipeline.save(tmp_path / "p")
    pipeline = load(tmp_path / "p")
    whole, halves = text.assign(size="40"), text.assign(size="40,00")
    for name, new in (("whole", whole), ("halves", halves), ("few", halves.assign(size=["40,0", *["40"] * 79]))):
        new.to_csv(tmp_path / f"{name}.csv", index=False, sep=";")
    found = {name: pipeline.predict(read_rows(tmp_path / f"{name}.csv", pipeline.reading)[0]) for name in
             ("whole", "halves", "few")}  # fmt: skip
    pd.testing.assert_frame_equal(found["whole"], found["halves"])
    pd.testing.assert_frame_equal(found["few"], found["halves"])
    rows, _ = read_rows(tmp_path / "whole.csv", pipeline.reading)
    assert rows["rent"].tolist() == rent.tolist()


def test_a_column_without_a_number_is_refused(sales: tuple[Path, pd.DataFrame], tmp_path: Path) -> None:
    path, frame = sales
    pipeline = fit_file(path, "price", "linear")
    with pytest.raises(DataError, match="column 'income' must hold numbers, but has 'much'"):
        pipeline.predict(frame.assign(income="much"))
    frame.assign(income="much").to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(DataError, match="new.csv: column 'income' must hold numbers"):
        read_rows(tmp_path / "new.csv", pipeline.reading)


def test_pipelines_of_records_predict_what_the_records_did(churn: Path, bench: Bench) -> None:
    """Frozen encoders and raw features, gaps, categories; the file's columns in another order, one more, in chunks."""
    data = f"{churn / 'churn.csv'}:left"
    settings = {name: FAST[name] for name in ("mlp", "xgboost", "catboost")} | {"vime": {"epochs": 2}}
    models = [*settings, "linear", "knn"]
    models.remove("vime")
    bench.run(executor=InProcess, ssl=["vime"], model=models, data=[data], set=settings)
    records = bench.store.records()
    assert len(records) == 2 * len(models)
    frame = pd.read_csv(churn / "churn.csv")
    for record in records:
        again = prepare_replay(record, bench.store.root, data=data)
        (manifest,) = find_data(again.spec.data, again.registry, offline=True)
        plan, last = again.plan(manifest)
        made = fit_as_recorded(record, plan, last, bench.store, Context())  # compares the hash of the predictions
        made.save(churn / record.key)
        loaded = load(churn / record.key)
        assert isinstance(last.payload, FitPayload)
        test = open_job_split(last.payload).rows.test
        mixed = frame.iloc[test][list(frame.columns[::-1])].assign(more=1)
        found = loaded.predict(mixed)
        pd.testing.assert_frame_equal(found, made.predict(mixed))
        hits = (found["left"] == frame["left"].iloc[test]).mean()
        assert record.test is not None
        assert hits == pytest.approx(record.test["accuracy"])
        whole, start = loaded.predict(frame.assign(c=["new", *frame["c"][1:]])), loaded.predict(frame[1:4])
        np.testing.assert_allclose(whole.iloc[1:4]["probability_yes"], start["probability_yes"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "pipeline.json").unlink(), "is not a pipeline"),
        (lambda folder: (folder / "pipeline.json").write_text("{"), "is damaged: fit the pipeline again"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x" * 100), "is missing or damaged"),
        (lambda folder: (folder / "encoder" / "state.safetensors").unlink(), "is missing or damaged"),
    ],
)
def test_a_damaged_pipeline_is_refused_in_words(fitted: Path, tmp_path: Path, damage: Any, message: str) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(fitted, copy)
    damage(copy)
    with pytest.raises(UsageError, match=message):
        load(copy, plugins=(TOYS,))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("fit", "--ssl", "none", "--model", "linear"),
            "--data is missing: give either a RECORD or --ssl, --model and --data",
        ),
        (("fit", "abcdef", "--out", "/dev/null"), "--out /dev/null is not a folder: give another"),
        (("fit", "abcdef", "--ssl", "none"), "give either a RECORD or --ssl, --model and --data"),
        (
            ("fit", "abcdef", "--set", "linear.scaling=minmax"),
            "--set goes with --ssl, --model and --data: with a RECORD, its own settings are used",
        ),
        (("fit", "--as-recorded"), "--as-recorded needs a RECORD"),
        (("fit", "abcdef"), "no results in results: start with 'tabbench run', or give a folder with --results"),
        (("predict", "nowhere", "x.csv", "--out", "o.txt"), "--out o.txt: its name must end in .csv or .parquet"),
        (
            ("predict", "nowhere", "x.csv", "--out", "o.csv"),
            "nowhere is not a pipeline: it has no file pipeline.json; make one with 'tabbench fit'",
        ),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = tabbench(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"tabbench: {message}\n")


@pytest.mark.parametrize(
    ("ssl", "model", "settings"),
    [
        ("tjepa", "mlp", {"tjepa": {"preset": "tiny", "epochs": 1}}),
        ("vime", "linear_head", {"vime": {"epochs": 1, "width": 8}}),
        ("predict_mask", "mlp", {"predict_mask": {"epochs": 1}}),
    ],
)
def test_a_fine_tuned_pair_is_saved_with_its_encoder(
    ssl: str, model: str, settings: dict[str, Any], churn: Path, tmp_path: Path
) -> None:
    """The record's own model, by its predictions' hash; then from disk, on new rows; then on all rows."""
    name, results = f"{churn / 'churn.csv'}:left", tmp_path / "results"
    brief = {model: {"max_epochs": 2}}
    found = tb.run(
        ssl, model, name, preset="quick", protocol="finetune", controls=[], results=results, progress=False,
        offline=True, settings={**settings, **brief}, plugins=[TOYS], executor="inline",
    )  # fmt: skip
    (key,) = found.records()["key"]
    prepared = prepare_replay(found.store.find(key)[0], results, [TOYS], name)
    (manifest,) = find_data(prepared.spec.data, prepared.registry, offline=True)
    made = fit_as_recorded(found.store.find(key)[0], *prepared.plan(manifest), found.store, Context())
    assert made.finetuned
    made.save(tmp_path / "p")
    new = rows(30, seed=8)
    again = load(tmp_path / "p")
    pd.testing.assert_frame_equal(again.predict(new), made.predict(new))
    frozen = Pipeline(**{**vars(made), "finetuned": False})
    with pytest.raises((AssertionError, AttributeError, RuntimeError, TypeError)):
        frozen.predict(new)  # the model takes rows, not what the encoder makes of them
    done = tabbench("fit", key[:8], "--results", results, "--out", tmp_path / "final", "--offline")
    assert done.returncode == 0, done.stderr
    assert load(tmp_path / "final").finetuned


def test_a_pair_that_cannot_be_fine_tuned_is_refused(churn: Path, tmp_path: Path) -> None:
    common = ("--data", f"{churn / 'churn.csv'}:left", "--out", tmp_path / "p", "--offline")
    tree = tabbench("fit", "--ssl", "vime", "--model", "xgboost", "--protocol", "finetune", *common)
    assert (tree.returncode, tree.stderr) == (
        2,
        "tabbench: Nothing to run: xgboost cannot train together with an encoder\n",
    )
    frozen = tabbench("fit", "--ssl", "reconstruct", "--model", "mlp", *common)
    assert frozen.returncode == 2
    assert "is then fine-tuned: add --protocol finetune" in frozen.stderr
