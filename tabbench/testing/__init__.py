"""The conformance kit: the promises that a plugin must keep, as functions that anyone can run.

In a plugin's own tests::

    @parametrize_with_checks("noise", settings={"epochs": 2})
    def test_conforms(plugin: Subject, check: Check) -> None:
        check(plugin)

From the command line: ``tabbench plugins check noise``.
"""

from tabbench.testing.subject import CheckFailed, CheckSkipped, Subject
from tabbench.testing.tables import make_labels, make_table
from tabbench.testing.verdicts import Check, CheckResult, check_plugin, checks_for, parametrize_with_checks

__all__ = [
    "Check",
    "CheckFailed",
    "CheckResult",
    "CheckSkipped",
    "Subject",
    "check_plugin",
    "checks_for",
    "make_labels",
    "make_table",
    "parametrize_with_checks",
]
