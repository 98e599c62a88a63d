"""Bayesian tuning: deterministic, resumable, and blind to the test part."""

import math
import shutil
from pathlib import Path
from typing import Annotated, Any

import pydantic
import pytest
from harness import Bench, InProcess, written_records

from tabbench.config import Choice, Config, Float, Int
from tabbench.errors import TabbenchError
from tabbench.running.steps import Reports
from tabbench.running.tuning import BATCH, Study, Trial


class Bowl(Config):
    """A function of two numbers with its highest point at x = 0.3, y = 7."""

    x: Annotated[float, Float(0.0, 1.0)] = 0.9
    """A number."""
    y: Annotated[int, Int(0, 20)] = 1
    """A whole number."""
    kind: Annotated[str, Choice("good", "bad")] = "bad"
    """A choice."""
    fixed: int = 3
    """Not searched."""

    @pydantic.model_validator(mode="after")
    def _no_middle(self) -> "Bowl":
        if 0.45 < self.x < 0.55:
            raise ValueError("x must not be near one half")
        return self

    def value(self) -> float:
        return 1 - (self.x - 0.3) ** 2 - ((self.y - 7) / 20) ** 2 - (self.kind == "bad")


def finish(study: Study, trial: Trial) -> None:
    trial.value = Bowl(**trial.config).value()
    trial.status = "ok"


def everything(config: type[Config]) -> frozenset[str]:
    return frozenset(config.search_space())


def run_study(key: str = "k", n: int = 24, sampler: Any = "tpe", tuned: frozenset[str] | None = None) -> Study:
    study = Study(key, Bowl, Bowl().to_json(), everything(Bowl) if tuned is None else tuned, n, sampler)
    while not study.finished:
        finish(study, study.propose())
    return study


class Penalties(Config):
    """Settings that may be left out altogether."""

    decay: Annotated[float, Float(1e-6, 1e-2, log=True, zero=True)] = 0.0
    """Best at 0."""
    dropout: Annotated[float, Float(0.0, 0.5, zero=True)] = 0.3
    """Best at 0."""


def test_half_of_the_proposals_of_a_range_with_zero_are_zero() -> None:
    study = Study("k", Penalties, Penalties().to_json(), everything(Penalties), 201, "random")
    while not study.finished:
        trial = study.propose()
        trial.value, trial.status = 0.0, "ok"
    for name, low, high in (("decay", 1e-6, 1e-2), ("dropout", 0.0, 0.5)):
        values = [trial.config[name] for trial in study.trials[1:]]
        others = [value for value in values if value != 0]
        assert 75 < len(others) < 125
        assert all(low <= value <= high for value in others)
    assert str(Penalties.search_space()["decay"]) == "0 or 1e-06 .. 0.01 (log)"


def test_a_sampler_learns_that_zero_is_best() -> None:
    study = Study("k", Penalties, Penalties().to_json(), everything(Penalties), 41, "tpe")
    while not study.finished:
        trial = study.propose()
        trial.value, trial.status = float(sum(value == 0 for value in trial.config.values())), "ok"
    late = [trial.config for trial in study.trials[-16:]]
    assert sum(config["decay"] == config["dropout"] == 0 for config in late) >= 10


def test_a_sampler_learns_that_zero_is_worst() -> None:
    def zeros(key: str) -> int:
        study = Study(key, Penalties, Penalties().to_json(), everything(Penalties), 41, "tpe")
        while not study.finished:
            trial = study.propose()
            decay = trial.config["decay"]
            trial.value, trial.status = math.log10(decay) if decay else -8.0, "ok"
        return sum(trial.config["decay"] == 0 for trial in study.trials[-16:])

    assert sum(zeros(key) for key in "abcd") < 0.35 * 4 * 16  # half of them would be no learning at all


class Unset(Config):
    """A setting whose default is none of the values that are searched."""

    x: Annotated[float | None, Float(0.0, 1.0)] = None
    """A number, or what a library thinks best."""
    y: Annotated[float, Float(0.0, 1.0)] = 0.5
    """A number."""


def test_a_default_outside_its_range_costs_the_model_of_gp_no_parameter() -> None:
    import optuna

    study = Study("k", Unset, Unset().to_json(), everything(Unset), 13, "gp")
    while not study.finished:
        trial = study.propose()
        trial.value, trial.status = -abs((trial.config["x"] or 0.5) - 0.8), "ok"
    known = study._in_memory(12).get_trials()
    assert set(optuna.search_space.intersection_search_space(known)) == {"x", "y"}


def study_of_boosters(lengths: int) -> Study:
    """Twelve trainings, all ahead of what comes, each with a report at every tenth of its length."""
    study = Study("k", Bowl, Bowl().to_json(), everything(Bowl), 24)
    while len(study.trials) < 12:
        trial = study.propose()
        trial.reports = dict.fromkeys(range(lengths // 10, lengths + 1, lengths // 10), 0.9)
        finish(study, trial)
    return study


@pytest.mark.parametrize("lengths, early, late", [(1000, (10, 100, 240), 250), (10, (1, 2, 3), 4)])
def test_a_trial_behind_the_median_is_given_up_after_a_quarter_of_the_usual_training(
    lengths: int, early: tuple[int, ...], late: int
) -> None:
    """And, of short trainings, not before the fourth epoch."""
    study = study_of_boosters(lengths)
    trial = study.propose()
    assert not any(study.report(trial, step, 0.1) for step in early)
    assert study.report(trial, late, 0.1)


def test_a_trial_ahead_of_the_median_goes_on() -> None:
    study = study_of_boosters(lengths=1000)
    assert not study.report(study.propose(), 500, 0.95)


def test_trial_0_is_the_defaults_and_tuning_beats_them() -> None:
    study = run_study(n=40)
    assert study.trials[0].config == Bowl().to_json()
    assert study.best is not None
    assert study.best.value is not None
    assert study.best.value > 0.97 > Bowl().value()


def test_tpe_beats_random_search_on_average() -> None:
    def mean_best(sampler: str) -> float:
        found = [run_study(f"k{number}", 30, sampler).best for number in range(6)]
        return sum(trial.value or 0.0 for trial in found if trial) / 6

    assert mean_best("tpe") > mean_best("random")


@pytest.mark.parametrize("sampler", ["tpe", "gp", "random"])
def test_every_sampler_is_deterministic(sampler: str) -> None:
    one, other = run_study("k", 9, sampler), run_study("k", 9, sampler)
    assert [trial.config for trial in one.trials] == [trial.config for trial in other.trials]
    assert [trial.config for trial in run_study("j", 4, sampler).trials] != [trial.config for trial in one.trials[:4]]


def test_the_order_in_which_trials_of_a_batch_end_does_not_matter() -> None:
    study = Study("k", Bowl, Bowl().to_json(), everything(Bowl), 24)
    while not study.finished:
        batch = []
        while study.may_propose():
            batch.append(study.propose())
        assert len(batch) == BATCH
        for trial in reversed(batch):
            finish(study, trial)
    assert [trial.config for trial in study.trials] == [trial.config for trial in run_study().trials]


def test_a_study_restored_in_the_middle_proposes_what_it_would_have() -> None:
    whole = run_study()
    for cut in (1, 4, 10, 17):
        study = Study("k", Bowl, Bowl().to_json(), everything(Bowl), 24)
        for trial in whole.trials[:cut]:
            study.restore(Trial(trial.number, trial.config, trial.value, trial.status))
        while not study.finished:
            finish(study, study.propose())
        assert [trial.config for trial in study.trials] == [trial.config for trial in whole.trials]


def test_invalid_settings_are_never_proposed_and_pinned_ones_stay() -> None:
    study = run_study(tuned=everything(Bowl) - {"y"})
    assert all(not 0.45 < trial.config["x"] < 0.55 for trial in study.trials)
    assert {trial.config["y"] for trial in study.trials} == {1}
    assert {trial.config["fixed"] for trial in study.trials} == {3}


def test_a_space_without_valid_settings_is_refused() -> None:
    class Never(Config):
        x: Annotated[float, Float(0.0, 1.0)] = 2.0
        """A number."""

        @pydantic.model_validator(mode="after")
        def _never(self) -> "Never":
            if self.x <= 1:
                raise ValueError("never")
            return self

    study = Study("k", Never, Never().to_json(), everything(Never), 2)
    study.propose().status = "ok"
    with pytest.raises(TabbenchError, match="in a row are invalid"):
        study.propose()


def test_a_hopeless_trial_is_given_up_and_the_best_never() -> None:
    study = Study("k", Bowl, Bowl().to_json(), everything(Bowl), 24)
    for number in range(8):
        trial = study.propose()
        for epoch in range(1, 11):
            assert not study.report(trial, epoch, number / 8), "the first trials run to their end"
        finish(study, trial)
    hopeless, hopeful = study.propose(), study.propose()
    assert not study.report(hopeless, 1, -1.0), "nobody is given up at once"
    assert study.report(hopeless, 5, -1.0)
    assert not study.report(hopeful, 5, 2.0)


def test_finished_trials_can_be_opened_with_optuna(tmp_path: Path) -> None:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    study = run_study(n=8)
    study.write_journal(tmp_path / "study.journal")
    loaded = optuna.load_study(
        study_name="k", storage=JournalStorage(JournalFileBackend(str(tmp_path / "study.journal")))
    )
    assert study.best is not None
    assert loaded.best_value == study.best.value
    assert len(loaded.trials) == 8


TUNED: dict[str, Any] = {"trials": 6, "ssl_trials": 5, "controls": ["none", "untrained"]}


def test_tuning_in_the_harness(bench: Bench) -> None:
    summary = bench.run(executor=InProcess, **TUNED)
    assert (summary.done, summary.failures) == (3, [])
    records = bench.records()
    results = [record for record in records if record["kind"] == "result"]
    trials = [record for record in records if record["kind"] == "trial"]
    assert len(trials) == 3 * 6 + 2 * 5, "controls are tuned with the same number of trials"
    assert all("test" not in record and "score" not in record for record in trials)
    for record in results:
        assert (record["trials"], record["ssl_trials"]) == (6, 5)
        study = [t for t in trials if t["study"] == record["tuning"]["model"]["study"]]
        best = max((t for t in study if t["status"] == "ok"), key=lambda t: (t["value"], -t["number"]))
        assert record["config"]["model"] == best["config"]
        assert record["tuning"]["model"]["best_value"] == best["value"] >= record["tuning"]["model"]["default_value"]
    trained = next(record for record in results if record["ssl"] == "projection")
    pretrained = [t for t in trials if t["ssl"] == "projection" and not t["model"]]
    best = max(pretrained, key=lambda t: (t["value"], -t["number"]))
    assert trained["config"]["ssl"] == best["config"]
    assert sum("encode projection" in label for label in bench.watcher.begun) == 1
    assert len(list((bench.store.root / "artefacts" / "pretrain").iterdir())) <= 10


def test_tuning_does_not_depend_on_the_number_of_jobs_and_is_not_repeated(bench: Bench, tmp_path: Path) -> None:
    bench.run(executor=InProcess, **TUNED)
    together = Bench(tmp_path / "together", slots=2)
    together.run(**TUNED)
    assert together.stable_records() == bench.stable_records()
    before = len(written_records(bench.store.root))
    bench.run(executor=InProcess, **TUNED, seeds=2)
    assert len(written_records(bench.store.root)) == before + 3, "a new seed needs no new trial"


def test_failing_trials_do_not_sink_a_study(bench: Bench) -> None:
    # The defaults, trial 0, are above; most of the range is not.
    summary = bench.run(executor=InProcess, ssl=["none"], trials=8, set={"nearest": {"bad_above": 0.3}})
    assert summary.failures == []
    trials = [record for record in bench.records() if record["kind"] == "trial"]
    assert {record["status"] for record in trials} == {"ok", "failed"}
    assert any("RuntimeError: shrink is too large" in record.get("error", "") for record in trials)


def test_a_study_of_which_every_trial_fails_fails_in_words(bench: Bench) -> None:
    summary = bench.run(executor=InProcess, ssl=["none"], trials=2, set={"nearest": {"bad_above": 0.0}})
    ((_, outcome),) = summary.failures
    assert "tune none + nearest: RuntimeError: shrink is too large" in outcome.error


def test_a_budget_ends_a_run_that_goes_on_later(bench: Bench, tmp_path: Path) -> None:
    bench.executor = InProcess
    settings = {"nearest": {"sleep": 0.2}}
    summary = bench.run(ssl=["none"], trials=6, set=settings, budget=0.5)
    assert (summary.done, len(summary.left_out)) == (0, 1)
    again = bench.run(ssl=["none"], trials=6, set=settings)
    assert (again.done, again.left_out) == (1, [])
    undisturbed = Bench(tmp_path / "undisturbed", inline=True)
    undisturbed.run(ssl=["none"], trials=6, set=settings)
    assert undisturbed.stable_records() == bench.stable_records()


@pytest.mark.parametrize("records_left", [0, 9, -1])
def test_records_that_a_kill_prevented_come_out_the_same(bench: Bench, records_left: int) -> None:
    """Artefacts are written by jobs, records by the driver: a kill can leave the one without the other."""
    tuned: dict[str, Any] = {"trials": 2, "ssl_trials": 16}
    bench.run(executor=InProcess, **tuned)
    before = bench.stable_records()
    assert any(record["status"] == "pruned" for record in before.values()), "pruning must play a part here"
    (file,) = (bench.store.root / "records").glob("*.jsonl")
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:records_left]))
    (bench.store.root / "records.parquet").unlink()
    if records_left >= 0:  # nothing is encoded before every trial has its record
        shutil.rmtree(bench.store.root / "artefacts" / "encode")
    again = Bench(bench.store.root, inline=True)
    again.run(**tuned)
    assert again.stable_records() == before


def test_a_pretraining_that_goes_on_tells_its_scores_again(tmp_path: Path) -> None:
    told: list[int] = []
    first = Reports(tmp_path / "reports.json", None)
    for epoch in (1, 2, 3):
        first.add(epoch, 10, {"loss": 1.0, "probe": epoch / 10})
    second = Reports(tmp_path / "reports.json", lambda step, total, metrics: told.append(step))
    for epoch in (3, 4):  # from a checkpoint of epoch 2
        second.add(epoch, 10, {"probe": epoch / 10})
    assert told == [1, 2, 3, 3, 4]
    assert second.scores == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]


def test_optuna_says_nothing_of_its_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Not even where a finished study is only written down again, and no trial is asked for."""
    import optuna

    study = run_study(n=3)
    optuna.logging.set_verbosity(optuna.logging.INFO)
    study.write_journal(tmp_path / "study.journal")
    optuna.logging.set_verbosity(optuna.logging.INFO)
    run_study(n=3, sampler="gp")
    assert capfd.readouterr().err == ""


def test_trials_stay_within_the_ranges_that_a_preset_brings() -> None:
    narrow = {"search": {"x": {"low": 0.25, "high": 0.5}}}
    study = Study("k", Bowl, Bowl().to_json(), frozenset({"x"}), 24, "random", Bowl.preset_space(narrow))
    while len(study.trials) < 24:
        trial = study.propose()
        trial.status, trial.value = "ok", 0.0
    assert all(0.25 <= trial.config["x"] <= 0.5 for trial in study.trials[1:])
