"""Tripwires for anyone's released results: read the files, look for the impossible, report what was found.

    files -> rows -> runs -> checks -> findings

The checks are pure: they see runs, not files. Anything that rounding or small test parts can explain is not a finding;
see ``chance``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tabbench.results.audit.cells import filled_cells
from tabbench.results.audit.collecting import Collection
from tabbench.results.audit.findings import Finding, Tripwire, make_finding
from tabbench.results.audit.levels import chance_level
from tabbench.results.audit.mapping import ColumnMap, read_mapping
from tabbench.results.audit.parts import validation_equals_test
from tabbench.results.audit.ranks import ranks_do_not_follow
from tabbench.results.audit.release import Release
from tabbench.results.audit.seeds import few_distinct_values, zero_spread
from tabbench.results.audit.sizes import small_test_parts
from tabbench.results.audit.units import mixed_units

CHECKS = (
    Tripwire(
        "validation-equals-test",
        "validation equals test",
        "runs",
        "Scores that agree on every metric are from the same rows: settings and early stopping were chosen on the test "
        "part, so the test score is too optimistic.",
        validation_equals_test,
    ),
    Tripwire(
        "chance-level",
        "exactly chance level",
        "scores",
        "Such a score comes from a model with the same answer for every row: its training failed, and a table that "
        "ranks it ranks a failure.",
        chance_level,
    ),
    Tripwire(
        "few-distinct-values",
        "too few distinct values over seeds",
        "runs",
        "Runs repeat the scores of other seeds more often than rounding explains: runs were copied or seeds used "
        "twice. So there are fewer runs than it seems, and their spread is not that of independent runs.",
        few_distinct_values,
    ),
    Tripwire(
        "zero-spread",
        "spread of zero",
        "cells",
        "Runs that all give the same number are one run: the seed did not reach the training, or one result was "
        "copied. The spread of such a cell was not measured.",
        zero_spread,
    ),
    Tripwire(
        "small-test-part",
        "test part smaller than the data promise",
        "runs",
        "Scores on a few of the test rows come from a trial run and cannot be compared with scores on all of them.",
        small_test_parts,
    ),
    Tripwire(
        "mixed-units",
        "mixed units",
        "cells",
        "Errors in the data's unit and errors in standard deviations, or shares and percentages, cannot be "
        "compared or ranked.",
        mixed_units,
    ),
    Tripwire(
        "filled-cells",
        "cells that look filled in",
        "cells",
        "Different methods or datasets do not give the same numbers this often, and no model scores below 0: missing "
        "cells were filled in, or results copied under another name.",
        filled_cells,
    ),
    Tripwire(
        "ranks-do-not-follow",
        "ranks that do not follow from the means",
        "ranks",
        "No rule for ties or missing cells gives these ranks from the means, rounded or not: they were computed from "
        "numbers other than those shown.",
        ranks_do_not_follow,
    ),
)


@dataclass(frozen=True)
class ByChance:
    """What looks like a finding but can happen by chance."""

    check: str
    what: str
    count: int
    total: int
    unit: str


@dataclass(frozen=True)
class NotChecked:
    """A check that had nothing to check."""

    check: str
    what: str
    reason: str


@dataclass(frozen=True)
class Audit:
    """What was checked and what was found."""

    files: int
    runs: int
    datasets: int
    findings: tuple[Finding, ...]
    by_chance: tuple[ByChance, ...]
    """What looks like a finding but is not one."""
    not_checked: tuple[NotChecked, ...]
    """Checks that had nothing to check."""
    left_out: tuple[str, ...]
    """What was not checked, as lines of text."""

    def to_json(self) -> Mapping[str, object]:
        return {
            "files": self.files,
            "runs": self.runs,
            "datasets": self.datasets,
            "findings": [asdict(finding) for finding in self.findings],
            "by_chance": [asdict(each) for each in self.by_chance],
            "not_checked": [asdict(each) for each in self.not_checked],
            "left_out": list(self.left_out),
        }


def audit_files(paths: Sequence[Path], mapping: Path | None = None) -> Audit:
    """Check the results in files and folders.

    Args:
        paths: CSV, JSON or JSON Lines files, folders of such files, or results folders of tabbench.
        mapping: a TOML file that maps columns or JSON paths to fields.

    Raises:
        UsageError: a file cannot be read, or nothing in it is a score.
    """
    collection = Collection(read_mapping(mapping) if mapping is not None else ColumnMap())
    for path in dict.fromkeys(paths):
        collection.add(path)
    release = Release(collection.finish())
    scored = [run for run in release.runs if run.scores]
    looks = [(check, check.look(release)) for check in CHECKS]
    seen = [(check, look) for check, look in looks if not isinstance(look, str)]
    return Audit(
        collection.files,
        len(scored),
        len({run.dataset for run in scored}),
        tuple(make_finding(check, look) for check, look in seen if look.found),
        tuple(
            ByChance(check.name, check.what, look.by_chance, look.total, check.unit)
            for check, look in seen
            if look.by_chance
        ),
        tuple(NotChecked(check.name, check.what, look) for check, look in looks if isinstance(look, str)),
        collection.left_out,
    )
