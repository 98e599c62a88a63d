"""What ``plugins check --known`` makes of the results on tables whose answer is known."""

from pathlib import Path

import pytest
from harness import TOYS
from made_records import scores, write_records

from tabbench import UsageError
from tabbench.cli.plugins import check
from tabbench.data.gather import find_data
from tabbench.experiment.controls import NONE, UNTRAINED
from tabbench.experiment.plan import make_plan
from tabbench.experiment.spec import make_spec
from tabbench.registry import make_registry
from tabbench.results.selection import select_records
from tabbench.testing.known import PROBE, SPLITS, Answer, check_known, experiment, judge, known_tables

GOOD, BAD, CHANCE = [0.90, 0.91, 0.92], [0.80, 0.82, 0.81], [0.52, 0.49, 0.50]


def judged(folder: Path, answer: Answer, **by_row: list[float]) -> tuple[bool, str]:
    """The judgement on a method ``mine``, given the scores of each row by split."""
    rows = {ssl.replace("untrained", "untrained:mine"): values for ssl, values in by_row.items()}
    store = write_records(folder, [record for ssl, values in rows.items() for record in scores(ssl, values)])
    return judge("mine", answer, select_records(store))


def test_each_table_says_its_answer() -> None:
    found = known_tables(make_registry())
    assert found == {"known-factors": "gain", "known-independent": "no gain", "known-noise": "chance"}


def test_a_gain_where_none_can_be_is_a_fault(tmp_path: Path) -> None:
    passed, note = judged(tmp_path / "a", "no gain", mine=GOOD, none=BAD)
    assert (passed, note[-5:]) == (False, "helps")
    assert judged(tmp_path / "b", "no gain", mine=BAD, none=GOOD)[0], "an encoder may lose something"


def test_training_must_help_where_there_is_something_to_find(tmp_path: Path) -> None:
    assert judged(tmp_path / "a", "gain", mine=GOOD, untrained=BAD, none=GOOD)[0]
    passed, note = judged(tmp_path / "b", "gain", mine=BAD, untrained=GOOD, none=BAD)
    assert not passed
    assert note.startswith("gain over its untrained encoder -0.1")


def test_nothing_is_better_than_a_coin_on_coin_tosses(tmp_path: Path) -> None:
    assert judged(tmp_path / "a", "chance", mine=CHANCE)[0]
    passed, note = judged(tmp_path / "b", "chance", mine=BAD)
    assert (passed, note[:14]) == (False, "accuracy 0.810")


def test_what_is_not_a_method_or_a_model_is_refused() -> None:
    with pytest.raises(UsageError, match="--known is for SSL methods and models, not for --kind data"):
        check_known("wine", kind="data")
    with pytest.raises(UsageError, match="--expect and --time-limit are for the other checks"):
        check("linear", known=True, expect=["check_it_trains=why"], plugin=[TOYS])


def test_a_method_that_trains_a_backbone_needs_a_network() -> None:
    with pytest.raises(
        UsageError, match="reconstruct trains a network's own backbone, and linear has none: add --model"
    ):
        check_known("reconstruct")
    with pytest.raises(UsageError, match="--model goes with --known"):
        check("reconstruct", model="mlp")


def test_every_built_in_method_can_be_tried() -> None:
    """The plan has all of it and skips nothing, for methods with an encoder and for those that train a network."""
    registry = make_registry()
    data = find_data(["known-factors"], registry)
    for entry in registry.entries("ssl"):
        if entry.name in (NONE, UNTRAINED):
            continue
        model = PROBE if entry.plugin.gives == "representation" else "mlp"
        spec = make_spec(experiment(entry, model, "known-factors", "gain", {}))
        plan = make_plan(spec, registry, data)
        assert not plan.skipped, entry.name
        assert len(plan.records) == SPLITS * (3 if entry.plugin.untrained else 2), entry.name
