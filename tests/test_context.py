"""What a training is given: stages, reports, and interruptions that nobody swallows."""

import time
from pathlib import Path

import pytest
import torch

from tabbench import Context, DeadlineReached, Interruption, PluginError
from tabbench.errors import plugin_line

Seen = list[tuple[int, int, dict[str, float]]]


def test_stages_share_the_progress_of_the_whole() -> None:
    seen: Seen = []
    context = Context(on_report=lambda *news: seen.append(news))
    first, second = context.child("vectors", 0.75), context.child("prototypes", 0.25)
    first.report(1, 3, loss=2.0)
    first.report(3, 3)
    second.report(1, 2)
    second.report(2, 2, probe=0.5)
    assert seen == [(250, 1000, {"loss": 2.0}), (750, 1000, {}), (875, 1000, {}), (1000, 1000, {"probe": 0.5})]


def test_stages_have_stages() -> None:
    seen: Seen = []
    inner = Context(on_report=lambda *news: seen.append(news)).child("first", 0.5).child("warm up", 0.5)
    inner.report(1, 1)
    assert seen == [(250, 1000, {})]


def test_stages_have_seeds_and_folders_of_their_own(tmp_path: Path) -> None:
    context = Context(root_seed=3, scratch=tmp_path)
    one, two = context.child("one", 0.5), context.child("two", 0.5)
    assert len({context.seed("init"), one.seed("init"), two.seed("init")}) == 3
    assert one.seed("init") == Context(root_seed=3).child("one", 0.1).seed("init")
    assert (one.scratch, Context().child("one", 1.0).scratch) == (tmp_path / "one", None)


def test_a_stage_keeps_the_deadline_and_says_how_far_it_was() -> None:
    stage = Context(deadline=time.monotonic() - 1).child("one", 0.5)
    with pytest.raises(DeadlineReached, match="after 2 of 7 epochs"):
        stage.report(2, 7)


@pytest.mark.parametrize("shares", [(0.5, 0.6), (0.0,), (1.1,), (-0.5,)])
def test_shares_that_make_no_whole_are_refused(shares: tuple[float, ...]) -> None:
    context = Context()
    with pytest.raises(ValueError, match="shares must be above 0 and add up to at most 1"):
        _ = [context.child(str(number), share) for number, share in enumerate(shares)]


def test_a_metric_that_is_not_a_number_is_named() -> None:
    with pytest.raises(PluginError, match=r"report was given loss='low', which is not a number"):
        Context().report(1, 2, loss="low")  # type: ignore[arg-type]
    with pytest.raises(PluginError, match=r"report was given loss=tensor"):
        Context().report(1, 2, loss=torch.zeros(2))  # type: ignore[arg-type]
    seen: Seen = []
    Context(on_report=lambda *news: seen.append(news)).report(1, 2, loss=torch.tensor(0.5))  # type: ignore[arg-type]
    assert seen == [(1, 2, {"loss": 0.5})]


def test_except_exception_does_not_swallow_an_interruption() -> None:
    assert not issubclass(Interruption, Exception)

    def train() -> None:
        try:
            Context(deadline=time.monotonic() - 1).report(1, 2)
        except Exception:  # what a careless plugin writes
            return

    with pytest.raises(DeadlineReached):
        train()


def test_the_line_of_a_plugin_is_the_deepest_of_its_own() -> None:
    from tabbench_vime.method import VIME

    with pytest.raises(AttributeError) as caught:
        VIME().encode(None)  # type: ignore[arg-type]
    assert plugin_line(caught.value) == "", "a base class of the host, and no plugin"
    with pytest.raises(AttributeError) as caught:
        VIME().embed(torch.zeros(1, 1))
    assert plugin_line(caught.value).startswith(" (tabbench_vime/method.py:")
