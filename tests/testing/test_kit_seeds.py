"""The kit tells a model without randomness from one that only says so."""

import pytest
from testing.broken_models import Ridge

from tabbench import Context, Plugin
from tabbench.registry import Entry
from tabbench.testing.protocols import check_seeds_make_no_difference
from tabbench.testing.subject import CheckFailed, CheckSkipped, Subject


class Still(Ridge):
    """The ridge regression of these tests without its grain of noise."""

    def noise(self, context: Context) -> float:
        return 0.0


def subject_of(model: type, *, seeded: bool) -> Subject:
    entry = Entry("model", Plugin("ridge", "somewhere:Ridge", seeded=seeded), "tabbench-ridge", "1.0")
    return Subject("model", lambda: model, "ridge", entry=entry)


def test_a_model_without_randomness_passes() -> None:
    check_seeds_make_no_difference(subject_of(Still, seeded=False))


def test_a_model_that_only_says_so_fails() -> None:
    with pytest.raises(CheckFailed, match="predictions differ with the seed"):
        check_seeds_make_no_difference(subject_of(Ridge, seeded=False))


def test_a_model_with_seeds_is_not_asked() -> None:
    with pytest.raises(CheckSkipped, match="seeded=False"):
        check_seeds_make_no_difference(subject_of(Ridge, seeded=True))
