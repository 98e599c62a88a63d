"""Every built-in SSL method passes scikit-learn's own checks of a transformer."""

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks
from small_settings import SETTINGS

from tabbench.testing.subject import find_subject

SUBJECTS = [
    find_subject(name, kind=kind, settings=chosen) for (kind, name), chosen in SETTINGS.items() if kind == "ssl"
]
EXPECTED = {
    "check_dont_overwrite_parameters": "a plugin names what it learns as it likes; fit's own attributes end in _",
    # Whether these two fail depends on the processor: float32 sums are rounded by the place of a row in its batch.
    "check_methods_sample_order_invariance": "it allows 1e-7, which float32 does not keep; our own check allows 1e-4",
    "check_methods_subset_invariance": "it allows 1e-7, which float32 does not keep; our own check allows 1e-4",
}


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [subject.make() for subject in SUBJECTS if subject.kind == "ssl"], expected_failed_checks=lambda _: EXPECTED
)
def test_scikit_learn_agrees(estimator: Any, check: Any) -> None:
    check(estimator)
