"""``tabbench audit``: releases as people make them, honest and not, and what is said about them."""

import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from releases import Line, honest_release, simulate, write_csv, written

from tabbench.cli.app import main
from tabbench.results.audit import CHECKS, Audit, audit_files

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """The command, run in a folder of its own: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tabbench", "audit", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, captured.out, captured.err

    return run


def counts(found: Audit) -> dict[str, tuple[int, int]]:
    return {finding.check: (finding.count, finding.total) for finding in found.findings}


def lines(text: str) -> list[Line]:
    """Rows of a table in a test: names in the first line, separated by spaces."""
    header, *rows = [line.split() for line in text.strip().splitlines()]
    return [dict(zip(header, row, strict=True)) for row in rows]


def seeds(scores: Sequence[float | str], **names: str) -> list[Line]:
    """One run for each score."""
    run = {"dataset": "california", "method": "vime", "model": "mlp", "metric": "rmse", **names}
    return [{**run, "seed": str(seed), "test": str(score)} for seed, score in enumerate(scores)]


# Whole releases.


SIZES = {"adult": 4885, "aloi": 10800, "california": 2064, "helena": 6520, "higgs": 4903, "jannis": 8374}
"""Test rows of six datasets."""
SMOKE = ("mlp", "dcnv2", "autoint", "ft")
"""Models that were tried on 128 rows of higgs, and never run on all of them."""


def release_like_a_papers(folder: Path) -> None:
    """600 files, one for each run: what was found in the released files of a paper, imitated.

    Validation is the test part, except for one model on adult and three on higgs; four models on higgs are smoke runs.
    """
    rng = np.random.default_rng(600)
    models = ("resnet", *SMOKE)
    for dataset, rows in SIZES.items():
        metric = "rmse" if dataset == "california" else "accuracy"
        scores = simulate(rng, metric, rows, len(models), 20)
        if dataset == "higgs":
            scores[1:] = simulate(rng, metric, 128, len(SMOKE), 20)
        for model, runs in zip(models, scores, strict=True):
            is_honest = (dataset, model) == ("adult", "autoint") or (dataset == "higgs" and model in SMOKE[1:])
            (folder / dataset / model).mkdir(parents=True)
            for seed, (validation, test) in enumerate(runs):
                result = {
                    "args": {"model": model, "random_state": 42},
                    "results": {
                        "val_metrics": {f"val_{metric}": validation if is_honest else test},
                        "test_metrics": {f"test_{metric}": test, "epochs": 200},
                    },
                }
                (folder / dataset / model / f"output_{seed}.json").write_text(json.dumps(result))


MAPPING = """\
path = "{dataset}/*/output_{seed}.json"

[columns]
model = "args.model"
validation = "results.val_metrics"
test = "results.test_metrics"

[constants]
method = "tjepa"
"""


def test_520_of_600_runs_with_validation_equal_to_test_are_found(audit: Command) -> None:
    release_like_a_papers(Path("release"))
    Path("map.toml").write_text(MAPPING)
    code, out, err = audit("release", "--mapping", "map.toml")
    assert (code, err) == (3, "")
    assert out.splitlines() == [
        "600 run(s) on 6 dataset(s) in 600 file(s)",
        "",
        "validation equals test: 520 of 600 runs",
        "  Scores that agree on every metric are from the same rows: settings and early stopping were chosen on the "
        "test part, so the test score is too optimistic.",
        "  for example adult, tjepa + dcnv2, seed 0: accuracy 0.974207 on validation, 0.974207 on test "
        "(adult/dcnv2/output_0.json)",
        "  for example aloi, tjepa + autoint, seed 0: accuracy 0.800463 on validation, 0.800463 on test "
        "(aloi/autoint/output_0.json)",
        "  for example california, tjepa + autoint, seed 0: rmse 0.321985 on validation, 0.321985 on test "
        "(california/autoint/output_0.json)",
        "",
        "test part smaller than the data promise: 80 of 500 runs",
        "  Scores on a few of the test rows come from a trial run and cannot be compared with scores on all of them.",
        *(
            f"  for example higgs, tjepa + autoint, seed {seed}: its accuracies are multiples of 1/128, those of "
            f"another method of 1/4,903 (higgs/autoint/output_{seed}.json)"
            for seed in (0, 1, 10)
        ),
        "",
        "2 finding(s)",
        "by chance: validation equals test: 4 of 600 runs; rounding or few test rows can explain this",
        "by chance: too few distinct values over seeds: 76 of 600 runs; rounding or few test rows can explain this",
        "not checked: exactly chance level: no score is named as one of auroc, mcc, kappa, r2",
        "not checked: ranks that do not follow from the means: no ranks are printed",
    ]


def test_2889_of_7106_auroc_of_exactly_one_half_are_found(tmp_path: Path) -> None:
    """38 datasets, 17 methods, 11 splits; the honest scores come close to one half on some datasets."""
    rng = np.random.default_rng(7106)
    centres = rng.uniform(0.5, 0.95, 38)
    release = [
        {"dataset": f"d{d}", "method": f"m{m}", "split": str(split), "metric": "AUC", "test": f"{score:.4f}"}
        for d, centre in enumerate(centres)
        for m in range(17)
        for split, score in enumerate(np.clip(rng.normal(centre, 0.04, 11), 0.3, 0.9999))
    ]
    honest_halves = [line for line in release if float(line["test"]) == 0.5]
    for line in honest_halves:
        line["test"] = "0.5001"
    assert counts(audit_files([write_csv(tmp_path / "honest.csv", release)])) == {}
    for place in rng.choice(7106, 2889, replace=False):
        release[place]["test"] = "0.5"
    assert counts(audit_files([write_csv(tmp_path / "release.csv", release)])) == {"chance-level": (2889, 7106)}


@pytest.fixture(scope="module")
def clean_release() -> list[Line]:
    """Small test parts and few digits, as they are in the field: hundreds of honest scores coincide."""
    release = honest_release(6127, 6127)
    assert sum(line["validation"] == line["test"] for line in release) > 200
    return release


@pytest.mark.parametrize("rounded", ["validation", "test"])
def test_the_test_part_as_validation_is_found_if_one_of_the_scores_was_rounded(rounded: str, tmp_path: Path) -> None:
    release = honest_release(7, 900, decimals=(None,), sizes=(1500, 2000), metrics=("auroc", "rmse"))
    for line in release:
        line[rounded] = written(float(line[rounded]), 4)
    assert audit_lines(tmp_path, release).findings == ()
    for line in release:
        if line["method"] == "vime":
            line["validation"] = written(float(line["test"]), 4 if rounded == "validation" else None)
    assert counts(audit_lines(tmp_path, release)) == {"validation-equals-test": (300, 900)}


@pytest.mark.parametrize(
    "leave_out", [(), ("n_test",), ("n_test", "metric")], ids=["all columns", "no n_test", "no metric"]
)
def test_nothing_is_found_in_a_clean_release_of_6127_runs(
    clean_release: list[Line], leave_out: tuple[str, ...], tmp_path: Path
) -> None:
    found = audit_files([write_csv(tmp_path / "release.csv", clean_release, leave_out)])
    assert (found.runs, found.datasets, counts(found)) == (6127, 28, {})


# One finding each, on files written by hand.

HONEST = (0.4681, 0.4712, 0.4655, 0.4733, 0.4698, 0.4674)
"""RMSE of six seeds."""


def audit_lines(folder: Path, *runs: list[Line]) -> Audit:
    return audit_files([write_csv(folder / "runs.csv", [line for part in runs for line in part])])


def only_example(found: Audit, check: str) -> tuple[int, int, str]:
    """Count, total and detail of the one finding."""
    (finding,) = found.findings
    assert finding.check == check
    return finding.count, finding.total, finding.examples[0].detail


def test_honest_runs_written_by_hand_pass(tmp_path: Path) -> None:
    other = [score + 0.0213 for score in HONEST[::-1]]
    found = audit_lines(tmp_path, seeds(HONEST), seeds([f"{score:.4f}" for score in other], method="none"))
    assert (found.findings, found.by_chance) == ((), ())


def test_one_value_for_all_seeds_is_a_spread_of_zero(tmp_path: Path) -> None:
    found = audit_lines(tmp_path, seeds(["0.46813"] * 6))
    assert only_example(found, "zero-spread") == (1, 1, "0.46813 in all of 6 runs")


def test_one_value_is_explained_where_it_has_few_digits(tmp_path: Path) -> None:
    found = audit_lines(tmp_path, seeds(["0.47"] * 6))
    assert found.findings == ()
    assert [(item.check, item.count) for item in found.by_chance] == [("zero-spread", 1)]


def test_a_standard_deviation_of_zero_is_a_spread_of_zero_if_it_has_the_digits_to_tell(tmp_path: Path) -> None:
    table = lines("""
        dataset method metric mean    std     n
        adult   a      auroc  0.91013 0.00014 15
        adult   b      auroc  0.91571 0.0     15
        adult   c      auroc  0.90160 0.0     1
    """)
    assert only_example(audit_lines(tmp_path, table), "zero-spread") == (1, 2, "the standard deviation is 0")
    for line, std in zip(table, ("0.001", "0.000", "0.000"), strict=True):
        line["std"] = std
    assert audit_lines(tmp_path, table).findings == (), "it may have been 0.0004"


def test_seeds_that_repeat_each_other_are_too_few_distinct_values(tmp_path: Path) -> None:
    scores = [0.46813, 0.47122, 0.46551, 0.46984] * 3
    found = audit_lines(tmp_path, seeds(scores))
    assert only_example(found, "few-distinct-values") == (8, 12, "4 distinct values in 12 runs")


def test_a_test_part_smaller_than_promised_is_found(tmp_path: Path) -> None:
    promised = {"n_rows": "20640", "test_share": "0.2"}
    honest = [{**line, "n_test": "4128", **promised} for line in seeds(HONEST)]
    fewer = [{**line, "n_test": "512", **promised} for line in seeds(HONEST[::-1], method="none")]
    for share in ("0.2", "20%", "20"):
        found = audit_lines(tmp_path, [{**line, "test_share": share} for line in [*honest, *fewer]])
        assert only_example(found, "small-test-part") == (6, 12, "512 test rows instead of 4,128 of 20,640")


@pytest.mark.parametrize(
    "n_rows, detail",
    [("", "128 test rows; other runs on this dataset have up to 9,805"), ("98050", "128 test rows of a dataset with")],
)
def test_a_test_part_much_smaller_than_others_or_than_the_dataset_is_found(
    n_rows: str, detail: str, tmp_path: Path
) -> None:
    size = "128" if n_rows else "9805"
    honest = [{**line, "n_test": size, "n_rows": n_rows} for line in seeds(HONEST)]
    fewer = [{**line, "n_test": "128", "n_rows": n_rows} for line in seeds(HONEST[::-1], method="none")]
    count, _, told = only_example(audit_lines(tmp_path, honest, fewer), "small-test-part")
    assert (count, told.startswith(detail)) == (12 if n_rows else 6, True)


def test_folds_of_slightly_different_sizes_pass(tmp_path: Path) -> None:
    folds = [{**line, "n_test": str(56 + place % 2)} for place, line in enumerate(seeds(HONEST))]
    assert audit_lines(tmp_path, folds).findings == ()


def test_percentages_beside_shares_are_mixed_units(tmp_path: Path) -> None:
    table = lines("""
        dataset method metric   mean
        adult   a      accuracy 0.866
        adult   b      accuracy 0.861
        adult   c      accuracy 85.7
    """)
    assert only_example(audit_lines(tmp_path, table), "mixed-units") == (1, 3, "85.7; another method has 0.866")


def test_runs_in_percent_beside_runs_in_shares_are_mixed_units_within_a_cell_too(tmp_path: Path) -> None:
    runs = seeds([0.866, 0.861, 0.859, 86.3, 86.4], metric="accuracy")
    count, _, detail = only_example(audit_lines(tmp_path, runs), "mixed-units")
    assert (count, detail) == (1, "0.859 in one run, 86.4 in another")


def test_small_percentages_beside_large_ones_are_no_shares(tmp_path: Path) -> None:
    table = lines("""
        dataset method metric   mean
        mnist   a      error    0.9
        mnist   b      error    2.1
        mnist   c      error    0
        aloi    a      accuracy 92.4
        aloi    b      accuracy 0.1
        adult   a      kappa    58.2
        adult   b      kappa    55.9
        adult   c      kappa    2.4
        adult   d      kappa    0.4
        wine    a      log_loss 0.00003
        wine    b      log_loss 0.00004
        wine    c      log_loss 0.31
        wine    d      log_loss 0.29
    """)
    assert audit_lines(tmp_path, table).findings == ()


def test_r2_in_percent_tells_the_targets_spread_as_well(tmp_path: Path) -> None:
    table = lines("""
        dataset    method seed metric test
        california a      0    rmse   0.5770
        california a      0    r2     75.00
        california b      0    rmse   1.1530
        california b      0    r2     0.17
        california c      0    rmse   1.1600
        california c      0    r2     -1.04
    """)
    assert audit_lines(tmp_path, table).findings == ()


def test_dollars_beside_hundreds_of_thousands_are_mixed_units(tmp_path: Path) -> None:
    dollars = [f"{score * 115_395:.1f}" for score in HONEST[::-1]]
    found = audit_lines(
        tmp_path, seeds(HONEST), seeds([0.45 + score / 9 for score in HONEST], method="a"), seeds(dollars, method="b")
    )
    assert only_example(found, "mixed-units") == (1, 3, "54114.5; another method has 0.46895")


def test_a_method_that_diverged_is_not_in_another_unit(tmp_path: Path) -> None:
    diverged = ("31.2", "250.71", "44.05", "17.93", "83.4", "29.99")
    found = audit_lines(tmp_path, seeds(HONEST), seeds([0.5 + s / 9 for s in HONEST], method="a"),
                        seeds(diverged, method="b"))  # fmt: skip
    assert found.findings == ()


def test_the_same_runs_in_standard_deviations_and_in_the_datas_unit_are_mixed_units(tmp_path: Path) -> None:
    in_unit = [f"{score * 1.154:.4f}" for score in HONEST]
    count, total, detail = only_example(
        audit_lines(tmp_path, seeds(HONEST), seeds(in_unit, method="none")), "mixed-units"
    )
    assert (count, total, detail) == (1, 2, "1.154 times california, vime + mlp, seed 0 in every run")


def test_rmse_and_r2_that_tell_different_targets_are_mixed_units(tmp_path: Path) -> None:
    """A target with standard deviation 1.154: an RMSE of 0.577 in its unit has an R2 of 0.75."""
    table = lines("""
        dataset    method seed metric test
        california a      0    rmse   0.5770
        california a      0    r2     0.7500
        california b      0    rmse   0.5100
        california b      0    r2     0.8047
        california c      0    rmse   0.4500
        california c      0    r2     0.7975
    """)
    assert only_example(audit_lines(tmp_path, table), "mixed-units") == (
        1,
        3,
        "RMSE and R2 imply a target with standard deviation 1; those of another method, 1.154",
    )


def test_a_cell_that_repeats_another_methods_runs_looks_filled(tmp_path: Path) -> None:
    digits = [score + 0.0000137 * (place + 1) for place, score in enumerate(HONEST)]
    other = [score * 1.02 + 0.001 * (place % 3) for place, score in enumerate(digits)]
    found = audit_lines(tmp_path, seeds(digits), seeds(digits, model="autoint"), seeds(other, method="none"))
    assert only_example(found, "filled-cells") == (1, 3, "0.468114, as vime + mlp")


def test_one_number_on_many_datasets_looks_filled(tmp_path: Path) -> None:
    honest = (0.9134, 0.8021, 0.7758, 0.6612, 0.9547, 0.8316)
    cells = [(f"d{place}", score) for place, score in enumerate((*honest, *[0.7243] * 5))]
    table = [{"dataset": name, "method": "a", "metric": "auroc", "test": str(score)} for name, score in cells]
    assert only_example(audit_lines(tmp_path, table), "filled-cells") == (5, 11, "0.7243, as on 4 other datasets")


def test_a_stand_in_for_a_missing_score_looks_filled(tmp_path: Path) -> None:
    table = lines("""
        dataset method metric   mean
        adult   a      accuracy 0.866
        adult   b      accuracy 0.861
        adult   c      accuracy -1
    """)
    assert only_example(audit_lines(tmp_path, table), "filled-cells") == (1, 3, "accuracy -1")


def test_a_negative_error_beside_positive_ones_looks_filled_but_not_where_all_are_negative(tmp_path: Path) -> None:
    table = lines("""
        dataset    method metric mean
        california a      rmse   0.566
        california b      rmse   0.561
        california c      rmse   -1
        higgs      a      mae    -0.466
        higgs      b      mae    -0.461
        adult      a      -      0.866
        adult      b      -      0.861
        adult      c      -      -1
        wine       a      r2     0.066
        wine       b      r2     -1
    """)
    for line in table:
        line["metric"] = line["metric"].strip("-")
    found = audit_lines(tmp_path, table)
    assert counts(found) == {"filled-cells": (2, 10)}
    assert [example.detail for example in found.findings[0].examples] == ["rmse -1", "score -1"]


RANKS = """
    dataset method metric   mean  rank average_rank
    adult   a      accuracy 0.866 1    1.0
    adult   b      accuracy 0.861 2    2.0
    adult   c      accuracy 0.857 3    3.0
    higgs   a      rmse     0.401 1    1.0
    higgs   b      rmse     0.420 2    2.0
    higgs   c      rmse     0.420 2    3.0
"""


def test_ranks_that_follow_pass_whatever_the_rule_for_ties(tmp_path: Path) -> None:
    table = lines(RANKS)
    assert audit_lines(tmp_path, table).findings == ()
    table[4]["rank"] = table[5]["rank"] = "2.5"
    assert audit_lines(tmp_path, table).findings == ()


def test_a_rank_that_does_not_follow_from_the_means_is_found(tmp_path: Path) -> None:
    table = lines(RANKS)
    table[0]["rank"], table[1]["rank"] = "2", "1"
    found = audit_lines(tmp_path, table)
    assert only_example(found, "ranks-do-not-follow") == (2, 9, "rank 2 is printed; the means give 1")


def test_an_average_rank_that_does_not_follow_is_found(tmp_path: Path) -> None:
    table = lines(RANKS.replace("1.0", "1.6"))
    found = audit_lines(tmp_path, table)
    assert only_example(found, "ranks-do-not-follow") == (1, 9, "rank 1.6 is printed; the means give 1")


@pytest.mark.parametrize("printed, is_wrong", [("2.0", False), ("2.5", False), ("3.0", True)])
def test_a_missing_cell_may_be_ranked_last_or_left_out(printed: str, is_wrong: bool, tmp_path: Path) -> None:
    """The method c is second on adult and missing on higgs, where it is third as the last, or not ranked."""
    table = lines("""
        dataset method metric   mean  average_rank
        adult   a      accuracy 0.866 1.0
        adult   b      accuracy 0.857 2.5
        adult   c      accuracy 0.861 PRINTED
        higgs   a      accuracy 0.705 1.0
        higgs   b      accuracy 0.701 2.5
    """)
    table[2]["average_rank"] = printed
    assert bool(audit_lines(tmp_path, table).findings) == is_wrong


# Output for programs.


def test_json_has_the_documented_shape(audit: Command) -> None:
    write_csv(Path("runs.csv"), seeds(["0.46813"] * 6))
    code, out, _ = audit("runs.csv", "--json")
    assert code == 3
    value = json.loads(out)
    assert list(value) == ["files", "runs", "datasets", "findings", "by_chance", "not_checked", "left_out"]
    assert (value["files"], value["runs"], value["datasets"]) == (1, 6, 1)
    assert value["findings"] == [
        {
            "check": "zero-spread",
            "what": "spread of zero",
            "count": 1,
            "total": 1,
            "unit": "cells",
            "why": next(check.why for check in CHECKS if check.name == "zero-spread"),
            "examples": [
                {
                    "name": "california, vime + mlp, seed 0",
                    "detail": "0.46813 in all of 6 runs",
                    "where": "runs.csv:2",
                }
            ],
        }
    ]
    assert value["not_checked"][0] == {
        "check": "validation-equals-test",
        "what": "validation equals test",
        "reason": "no run has a validation score",
    }


def test_a_clean_file_says_so_and_ends_with_0(audit: Command) -> None:
    write_csv(Path("runs.csv"), seeds(HONEST))
    code, out, err = audit("runs.csv")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "6 run(s) on 1 dataset(s) in 1 file(s)",
        "",
        "no findings",
        "not checked: validation equals test: no run has a validation score",
        "not checked: exactly chance level: no score is named as one of auroc, mcc, kappa, r2",
        "not checked: test part smaller than the data promise: no run has n_test, and the accuracies do not reveal it",
        "not checked: mixed units: no dataset has two methods with the same metric",
        "not checked: ranks that do not follow from the means: no ranks are printed",
    ]


def test_control_characters_of_a_release_are_escaped(audit: Command) -> None:
    write_csv(Path("runs.csv"), seeds(["0.46813"] * 6, dataset="\x1b[2Jgone\u202e", method="a\x07b"))
    _, out, _ = audit("runs.csv")
    assert (
        "  for example \\x1b[2Jgone\\u202e, a\\x07b + mlp, seed 0: 0.46813 in all of 6 runs (runs.csv:2)"
        in out.splitlines()
    )
    assert not set(out) & {"\x1b", "\x07", "\u202e"}


def test_every_check_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
    for check in CHECKS:
        assert f"`{check.name}`" in page
        assert check.what in page.lower()


# Scores with few possible values.


def tree_losses(rng: np.random.Generator, sizes: Sequence[int] = range(41, 73, 4)) -> list[Line]:
    """Log losses of trees that answer 0 or 1: errors times -log(2.2e-16), over the number of rows."""
    release = []
    for rows in sizes:
        loss = -math.log(np.finfo(float).eps) / rows
        release += [
            {"dataset": f"data{rows}", "method": method, "model": "tree", "seed": str(seed), "metric": "log_loss",
             "validation": repr(loss * rng.binomial(rows, 0.05)), "test": repr(loss * rng.binomial(rows, 0.05))}
            for method in ("none", "pca", "vime") for seed in range(8)
        ]  # fmt: skip
    return release


@pytest.mark.parametrize("leave_out", [(), ("validation",)])
def test_log_losses_of_trees_have_few_values_and_pass(leave_out: tuple[str, ...], tmp_path: Path) -> None:
    for seed in range(5):
        release = tree_losses(np.random.default_rng(seed))
        found = audit_files([write_csv(tmp_path / "runs.csv", release, leave_out)])
        assert (found.runs, found.findings) == (192, ())


def test_copies_are_found_among_scores_with_few_values_too(tmp_path: Path) -> None:
    release = tree_losses(np.random.default_rng(0), range(301, 333, 4))
    for line in release:
        line["test"] = line["validation"]
    found = audit_files([write_csv(tmp_path / "runs.csv", release)])
    assert counts(found) == {"validation-equals-test": (192, 192)}


def test_runs_that_repeat_another_seed_on_test_but_not_on_validation_are_no_copies(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    release = [
        {"dataset": "wine", "method": "vime", "model": "mlp", "seed": str(seed), "metric": "rmse",
         "validation": repr(rng.normal(1, 0.1)), "test": repr(1 + seed // 2 / 37)}
        for seed in range(10)
    ]  # fmt: skip
    assert audit_files([write_csv(tmp_path / "runs.csv", release)]).findings == ()
    for line in release:
        line["validation"] = repr(1.01 * float(line["test"]))
    found = audit_files([write_csv(tmp_path / "runs.csv", release)]).findings
    assert [finding.check for finding in found] == ["few-distinct-values"]


def few_values(rng: np.random.Generator, metric: str, rows: int) -> list[Line]:
    """Scores of classifiers that know nothing, on a test part with as many rows of one class as of the other."""
    labels = np.arange(rows) % 2
    release = []
    for dataset in range(5):
        for method in range(6):
            scores = rng.normal(size=(10, rows))
            if metric == "auroc":
                ranks = scores.argsort(axis=1).argsort(axis=1) + 1.0
                values = (ranks @ labels - rows / 2 * (rows / 2 + 1) / 2) / (rows / 2) ** 2
                values *= 1 + rng.choice([0, 2e-16], 10) * (values != 0.5)  # sums in another order
            else:  # of MCC; many values, but none as often as 0
                answers = scores > 0.5
                hits, given = answers @ labels, answers.sum(axis=1)
                spread = np.sqrt(given * (rows - given)) * rows / 2
                values = np.where(spread > 0, (rows * hits - rows / 2 * given) / np.maximum(spread, 1), 0)
            release += [
                {"dataset": f"d{dataset}", "method": f"m{method}", "model": "mlp", "seed": str(seed), "metric": metric,
                 "test": repr(float(value)), "n_test": str(rows)}
                for seed, value in enumerate(values)
            ]  # fmt: skip
    return release


@pytest.mark.parametrize("metric", ["auroc", "mcc"])
@pytest.mark.parametrize("rows", [20, 40, 100])
def test_on_few_rows_honest_scores_are_at_chance_level_often(metric: str, rows: int, tmp_path: Path) -> None:
    release = few_values(np.random.default_rng(rows), metric, rows)
    level = "0.5" if metric == "auroc" else "0.0"
    assert level in [line["test"] for line in release]
    assert audit_lines(tmp_path, release).findings == ()
    if metric == "auroc":  # nor if the release does not name the metric
        assert audit_files([write_csv(tmp_path / "runs.csv", release, ("metric", "n_test"))]).findings == ()


def test_trees_of_other_seeds_may_be_equal_on_a_small_table(tmp_path: Path) -> None:
    """The log losses of a tree on a fixed split of a table with 27 test rows."""
    errors = (1, 3, 1, 1, 1, 2, 2, 1, 4, 3)
    release = seeds([1.3349 * count for count in errors], metric="log_loss", method="tree")
    assert audit_lines(tmp_path, release).findings == ()
