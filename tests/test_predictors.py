"""Which label-free score predicts downstream performance: hand-worked orders, scipy, and the shuffled null."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import tabbench
from scipy.stats import kendalltau

from tabbench.results.predictors import predict_quality
from tabbench.results.record import EncoderScores, Hashes, Record
from tabbench.results.statistics.predictors import Judged, hold_out, kendall_taus, rate_predictors

PUBLISHED = Path(__file__).parent.parent / "results" / "published"


def judged(
    dataset: str, values: Sequence[float], quality: Sequence[float], *, split: int = 0, reader: str = "mlp"
) -> list[Judged]:
    return [
        Judged(dataset, split, reader, number, "toy", {"spread": value}, score)
        for number, (value, score) in enumerate(zip(values, quality, strict=True))
    ]


def test_tau_is_that_of_scipy_also_with_ties() -> None:
    generator = np.random.default_rng(0)
    candidates, quality = generator.integers(0, 4, (30, 9)).astype(float), generator.integers(0, 5, 9).astype(float)
    expected = [kendalltau(row, quality).statistic for row in candidates]
    np.testing.assert_allclose(kendall_taus(candidates, quality), expected)
    assert kendall_taus(np.ones((1, 3)), np.arange(3.0)) == [0.0]


def test_tables_weigh_the_same_however_many_splits_they_have() -> None:
    """By hand: table a agrees (tau 1) on three splits, table b disagrees in one pair of three (tau 1/3) on one."""
    places = [place for split in range(3) for place in judged("a", [1, 2, 3], [0.1, 0.2, 0.3], split=split)]
    (found,) = rate_predictors([*places, *judged("b", [1, 2, 3], [0.1, 0.3, 0.2])])
    assert found.by_dataset == pytest.approx({"a": 1.0, "b": 1 / 3})
    assert found.tau == pytest.approx(2 / 3)
    assert found.encoders == 12
    assert found.without("a") == pytest.approx(1 / 3)


def test_two_encoders_have_no_order_to_speak_of() -> None:
    assert rate_predictors(judged("a", [1, 2], [0.1, 0.2])) == []


def test_a_score_of_noise_stays_within_the_shuffled_range_and_a_real_one_does_not() -> None:
    generator = np.random.default_rng(3)
    inside = 0
    for _ in range(100):
        places = []
        for split in range(4):
            noise = list(generator.normal(size=8))
            for reader in ("mlp", "linear", "knn"):  # readers agree with each other, as they do in life
                quality = [value + 0.1 * generator.normal() for value in np.arange(8)]
                places += judged("a", noise, quality, split=split, reader=reader)
        (found,) = rate_predictors(places, shuffles=200)
        inside += found.low <= found.tau <= found.high
    assert 88 <= inside <= 100  # 95 on average; a null that shuffles each reader apart gives about 70
    (real,) = rate_predictors(judged("a", list(range(8)), [float(value) for value in range(8)]))
    assert real.tau == 1
    assert real.p_value < 0.01


def test_the_predictor_of_a_table_is_chosen_on_the_other_tables() -> None:
    """Spread is right on a and b and wrong on c; size is its opposite on every table."""

    def on(dataset: str, sign: int) -> list[Judged]:
        return [
            Judged(dataset, 0, "mlp", n, "toy", {"spread": float(n), "size": -2.0 * n}, float(sign * n))
            for n in range(4)
        ]

    held = {each.dataset: each for each in hold_out(rate_predictors([*on("a", 1), *on("b", 1), *on("c", -1)]))}
    assert held["c"].elsewhere == pytest.approx(1)
    assert held["c"].here == pytest.approx(-1)
    assert held["a"].elsewhere == pytest.approx(0)


def record(number: int, ssl: str, score: float, loss: float, **known: object) -> Record:
    fields: dict[str, Any] = {
        "key": f"{number:024x}", "status": "ok", "ssl": ssl, "model": "mlp", "data": "toy", "metric": "rmse",
        "score": score, "hashes": Hashes(encoder=str(number)),
        "encoder_scores": EncoderScores(rank_me=float(number), pretext_loss=loss, rows=9),
    }  # fmt: skip
    return Record(**{**fields, **known})


@pytest.mark.parametrize(
    "first, second",
    [
        ({"variant": "mlp.lr=1"}, {"variant": "a.p=1 mlp.lr=2"}),
        ({"metric": "rmse"}, {"metric": "mae"}),
        ({"fidelity": "quick"}, {"fidelity": "quick, all validation labels"}),
        ({"trials": 0}, {"trials": 5}),
        ({"weights": None}, {"weights": "balanced classes"}),
        ({"seed": 0}, {"seed": 1}),
    ],
)
def test_results_of_different_readers_are_not_put_in_one_order(
    first: dict[str, object], second: dict[str, object]
) -> None:
    """Within each of the two, a higher rank goes with a higher error. The second has lower errors throughout: in one
    order, 9 of 15 pairs would say the opposite."""
    records = [record(n, "a", 0.1 * n, 1.0, **first) for n in (1, 2, 3)]
    records += [record(n, "a", 0.01 * n, 1.0, **second) for n in (4, 5, 6)]
    (found,) = (each for each in predict_quality(records).predictors if each.score == "rank_me")
    assert found.tau == pytest.approx(-1)


def test_settings_of_a_method_make_another_encoder_and_not_another_reader() -> None:
    records = [record(n, "a", 0.1 * n, 1.0, variant=f"a.p={n} mlp.lr=1") for n in (1, 2, 3)]
    assert {each.score for each in predict_quality(records).predictors} == {"rank_me"}


def test_what_two_folders_share_counts_once() -> None:
    records = [record(n, "a", 0.1 * n, loss=0.01 * n**2 % 7) for n in range(1, 6)]
    assert predict_quality([*records, *records[:2]]) == predict_quality(records)


def test_several_results_on_one_encoder_are_one_point() -> None:
    """By hand: qualities 1, (4 + 0) / 2 = 2 and 3 are in the order of the scores. As four points they would not be."""
    places = judged("a", [1, 2, 3], [1, 4, 3])
    (found,) = rate_predictors([*places, replace(places[1], quality=0.0)])
    assert found.tau == pytest.approx(1)
    assert found.encoders == 3
    assert rate_predictors([*judged("a", [1, 2], [1, 2]), *judged("a", [1, 2], [3, 4])]) == [], "two encoders"


def test_a_score_that_is_not_finite_takes_no_part() -> None:
    (found,) = rate_predictors(judged("a", [1, 2, 3, math.nan, math.inf], [0.1, 0.2, 0.3, 9.0, -9.0]))
    assert found.tau == pytest.approx(1)
    assert found.encoders == 3


def test_pretext_losses_are_compared_within_one_method_and_errors_count_as_errors() -> None:
    """Losses of method b are a hundred times those of a: across methods the order would be b's scale, not quality."""
    records = [record(n, "a", score=0.1 * n, loss=0.01 * n) for n in range(1, 5)]
    records += [record(10 + n, "b", score=0.1 * n - 0.05, loss=1.0 * n) for n in range(1, 5)]
    found = {each.score: each for each in predict_quality(records).predictors}
    assert found["pretext_loss"].tau == pytest.approx(-1)  # a higher loss goes with a higher error: worse
    assert abs(found["rank_me"].tau) < 1


def test_flagged_and_failed_records_take_no_part() -> None:
    bad = [record(n, "a", 0.1, 0.1, flags=["collapsed"]) for n in range(5)]
    assert predict_quality(bad).results == 0


def test_trials_of_a_study_are_encoders_too() -> None:
    trials = [
        Record(
            key=f"{n:024x}", kind="trial", status="ok", ssl="vime", data="toy", study="s", number=n, value=-0.1 * n,
            encoder_scores=EncoderScores(pretext_loss=float(n), rows=9),
        )
        for n in range(6)
    ]  # fmt: skip
    (found,) = predict_quality(trials).predictors
    assert (found.score, found.encoders) == ("pretext_loss", 6)
    assert found.tau == pytest.approx(-1)


def test_the_command_prints_a_table_or_json() -> None:
    done = tabbench("results", "predictors", PUBLISHED / "protocols")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].split() == ["score", "tau", "shuffled", "p", "encoders", "california"]
    assert "One table only: no table can be held out." in done.stdout
    found = json.loads(tabbench("results", "predictors", PUBLISHED / "protocols", "--json").stdout)
    assert {"tau", "low", "high", "p_value", "by_dataset"} <= found["predictors"][0].keys()


def test_a_folder_without_an_answer_says_what_it_takes(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    assert "No answer yet: it takes three encoders on one split" in tabbench("results", "predictors", tmp_path).stdout
    wrong = tabbench("results", "predictors", tmp_path / "none")
    assert (wrong.returncode, "no results in" in wrong.stderr) == (2, True)
