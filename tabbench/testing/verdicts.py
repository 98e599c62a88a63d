"""From checks to verdicts, for the command line and for pytest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tabbench.errors import Interruption, UsageError, plugin_line, unknown
from tabbench.running.surroundings import Surroundings
from tabbench.testing.common import CONFIG_CHECKS, HOOK_CHECKS, check_it_trains
from tabbench.testing.encoding import JOINT_CHECKS, LABEL_FREE_CHECKS
from tabbench.testing.executing import EXECUTOR_CHECKS
from tabbench.testing.limits import OutOfTime, time_limit
from tabbench.testing.listing import REFERENCE_CHECKS, SCHEME_CHECKS
from tabbench.testing.loading import DATASET_CHECKS
from tabbench.testing.predicting import MODEL_CHECKS
from tabbench.testing.protocols import FINETUNED_CHECKS, HIDDEN_LABEL_CHECKS, TRAINABLE_CHECKS
from tabbench.testing.subject import CheckFailed, CheckSkipped, Subject, find_subject

if TYPE_CHECKING:
    import pytest

Status = Literal["passed", "failed", "expected", "unexpected", "skipped"]
UNTRAINED_CHECKS = HOOK_CHECKS + CONFIG_CHECKS + (check_it_trains,)
CHECKS: Mapping[str, tuple[Callable[[Subject], None], ...]] = {
    "ssl": UNTRAINED_CHECKS + JOINT_CHECKS + LABEL_FREE_CHECKS + TRAINABLE_CHECKS + HIDDEN_LABEL_CHECKS,
    "joint_representation": UNTRAINED_CHECKS + JOINT_CHECKS + TRAINABLE_CHECKS + HIDDEN_LABEL_CHECKS,
    "joint_predictions": UNTRAINED_CHECKS + MODEL_CHECKS + HIDDEN_LABEL_CHECKS,
    "model": UNTRAINED_CHECKS + MODEL_CHECKS + FINETUNED_CHECKS + HIDDEN_LABEL_CHECKS,
    "data": HOOK_CHECKS + DATASET_CHECKS,
    "executor": HOOK_CHECKS + CONFIG_CHECKS[:2] + EXECUTOR_CHECKS,
    "reference": HOOK_CHECKS + REFERENCE_CHECKS,
    "scheme": HOOK_CHECKS + SCHEME_CHECKS,
}


@dataclass(frozen=True)
class Check:
    """One promise, and the function that tries to break it."""

    function: Callable[[Subject], None]

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def promise(self) -> str:
        """The docstring of the function, for people."""
        return " ".join((self.function.__doc__ or "").replace("``", "").split())

    def __str__(self) -> str:
        return self.name

    def __call__(self, plugin: type | str | Subject) -> None:
        """Try it on a plugin.

        Raises:
            CheckFailed: the promise is broken; whatever a plugin raises becomes one.
            CheckSkipped: it does not apply, or cannot be judged.
        """
        subject = find_subject(plugin)
        subject.note = ""
        self._require_trained(subject)
        before = Surroundings()
        try:
            with time_limit(subject.time_limit):
                self.function(subject)
            if self.function is check_it_trains:
                subject.cannot_train = False
        except (CheckFailed, CheckSkipped):
            raise
        except OutOfTime:
            raise CheckFailed(
                f"it took longer than {subject.time_limit:g} s: make it faster with settings, or allow more time"
            ) from None
        except (Exception, Interruption) as error:
            line = f"{type(error).__name__}: {' '.join(str(error).split())}{plugin_line(error)}"
            raise CheckFailed(line) from error
        finally:
            before.put_right()  # one check must not affect the next

    def _require_trained(self, subject: Subject) -> None:
        """Skip checks that a plugin which cannot train would fail anyway, all with the same message."""
        if self.function is check_it_trains:
            subject.cannot_train = True  # until it has
        elif subject.cannot_train and self.function not in UNTRAINED_CHECKS:
            raise CheckSkipped(f"it cannot train: see {check_it_trains.__name__}")


@dataclass(frozen=True)
class CheckResult:
    """How one check ended."""

    check: str
    promise: str
    status: Status
    note: str = ""
    """Why it failed or was skipped, why a failure was expected, or what the check adds."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether all is well: an expected failure is fine, an unexpected pass is not."""
        return self.status in ("passed", "expected", "skipped")


def checks_for(kind: str) -> list[Check]:
    """The checks of a kind of plugin: ssl, joint_representation, joint_predictions, model, data, scheme, executor or
    reference."""
    if kind not in CHECKS:
        raise unknown("kind of plugin", kind, CHECKS)
    return [Check(function) for function in CHECKS[kind]]


def check_plugin(
    plugin: type | str | Subject,
    *,
    kind: str | None = None,
    settings: Mapping[str, Any] | None = None,
    expected_failures: Mapping[str, str] | None = None,
    files: Iterable[Path | str] = (),
    time_limit: float | None = None,
    on_verdict: Callable[[CheckResult], None] = lambda verdict: None,
) -> list[CheckResult]:
    """Run all checks of a plugin; if it cannot train, only those that need no training.

    Args:
        plugin: a class, or the name of a registered plugin.
        kind: such as ssl or model, where a name is registered as more than one.
        settings: settings that make the checks fast, on top of the preset ``check`` or ``quick``.
        expected_failures: names of checks that fail, each with its reason.
        files: unpublished plugins to register (``--plugin FILE``).
        time_limit: time limit per check in seconds; by default two minutes, for executors five.
        on_verdict: receives each verdict as soon as it is known.
    """
    subject = find_subject(plugin, kind=kind, settings=settings, files=files)
    if time_limit is not None:
        subject.time_limit = time_limit
    if subject.settings and subject.kind != "executor":
        subject.make()  # a wrong setting is told once, not by every check
    checks = checks_for(subject.kind)
    reasons = _check_reasons(checks, expected_failures)
    verdicts = []
    for check in checks:
        verdict = _judge(check, subject, reasons.get(check.name))
        on_verdict(verdict)
        verdicts.append(verdict)
        if subject.cannot_train:
            break
    return verdicts


def parametrize_with_checks(
    plugin: type | str,
    *,
    settings: Mapping[str, Any] | None = None,
    expected_failures: Mapping[str, str] | None = None,
) -> pytest.MarkDecorator:
    """A pytest decorator that runs a test ``(plugin, check)`` for each check of a plugin.

    The test's body is ``check(plugin)``. An expected failure is a strict xfail: when the check passes, the test fails.
    """
    import pytest

    subject = find_subject(plugin, settings=settings)
    checks = checks_for(subject.kind)
    reasons = _check_reasons(checks, expected_failures)
    cases = []
    for check in checks:
        reason = reasons.get(check.name)
        marks = [pytest.mark.xfail(reason=reason, strict=True, raises=CheckFailed)] if reason else []
        cases.append(pytest.param(subject, check, id=f"{subject}-{check}", marks=marks))
    return pytest.mark.parametrize("plugin, check", cases)


def _check_reasons(checks: list[Check], expected: Mapping[str, str] | None) -> Mapping[str, str]:
    names = [check.name for check in checks]
    for name, reason in (expected or {}).items():
        if name not in names:
            raise unknown("check", name, names)
        if not reason.strip():
            raise UsageError(f"the expected failure of {name} needs a reason")
    return expected or {}


def _judge(check: Check, subject: Subject, reason: str | None) -> CheckResult:
    started = time.perf_counter()
    status: Status = "passed"
    try:
        check(subject)
        note = subject.note
        if reason is not None:
            status, note = "unexpected", f"it passes, but was expected to fail: {reason}"
    except CheckSkipped as skip:
        status, note = "skipped", str(skip)
    except CheckFailed as failure:
        status, note = ("failed", str(failure)) if reason is None else ("expected", f"{reason} ({failure})")
    return CheckResult(check.name, check.promise, status, note, time.perf_counter() - started)
