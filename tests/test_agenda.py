"""Which step comes next."""

from test_clock import fit

from tabbench.experiment.graph import Step
from tabbench.running.agenda import Agenda


def anything(kind: str) -> bool:
    return True


def step(key: str, *needs: str) -> Step:
    made = fit(key, "mlp")
    return Step(key, made.kind, key, made.payload, needs)


def test_steps_come_in_their_order_and_after_what_they_need() -> None:
    agenda = Agenda([step("late", "early"), step("early"), step("free")])
    assert agenda.ready() == {"fit": 2}
    first, second = agenda.next(anything), agenda.next(anything)
    assert first is not None
    assert second is not None
    assert (first.key, second.key) == ("early", "free")
    assert agenda.next(anything) is None
    agenda.start("early")
    assert len(agenda) == 2
    (freed,) = agenda.settle("early")
    assert freed.key == "late"
    agenda.release(freed)
    assert agenda.next(anything) == freed


def test_a_step_waits_for_all_that_it_needs() -> None:
    agenda = Agenda([step("a"), step("b"), step("c", "a", "b", "stored long ago")])
    for key in ("a", "b"):
        agenda.next(anything)
        agenda.start(key)
    assert agenda.settle("b") == []
    assert [each.key for each in agenda.settle("a")] == ["c"]


def test_a_kind_without_room_does_not_hold_up_the_others() -> None:
    pretraining = fit("slow", "mlp")
    agenda = Agenda([Step("slow", "pretrain", "slow", pretraining.payload), step("quick")])
    found = agenda.next(lambda kind: kind == "fit")
    assert found is not None
    assert found.key == "quick"
    assert agenda.next(lambda kind: kind == "fit") is None
    assert agenda.ready() == {"pretrain": 1}


def test_what_another_driver_has_is_tried_again_later() -> None:
    agenda = Agenda([step("a")])
    taken = agenda.next(anything)
    assert taken is not None
    agenda.set_aside(taken)
    assert agenda.next(anything) is None
    assert agenda.ready() == {}
    agenda.bring_back()
    assert agenda.next(anything) == taken


def test_a_step_may_be_added_while_others_run() -> None:
    agenda = Agenda([step("a", "b"), step("b")])
    agenda.next(anything)
    agenda.start("b")
    agenda.add(step("c", "b"))
    assert [each.key for each in agenda.settle("b")] == ["a", "c"]


def test_what_is_left_is_told() -> None:
    agenda = Agenda([step("a", "b"), step("b")])
    assert [each.key for each in agenda.clear()] == ["a", "b"]
    assert not agenda
