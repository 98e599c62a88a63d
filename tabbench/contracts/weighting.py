"""How much each training row counts: a value that spec, plan, jobs and records share."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Weighting:
    """Part of the key of a result; weighted results are never ranked with others. Scores are not weighted."""

    column: str = ""
    """The column that holds the weights of rows; it is not a feature."""
    balanced: bool = False
    """All classes have the same total weight."""

    def __bool__(self) -> bool:
        return self.balanced or bool(self.column)

    @property
    def name(self) -> str:
        """A label for tables and records."""
        parts = ["balanced classes"] if self.balanced else []
        return ", ".join([*parts, f"column {self.column}"] if self.column else parts)

    def on(self, task: str) -> Weighting:
        """The weighting for a table with this task: regression has no classes to balance."""
        return replace(self, balanced=self.balanced and task != "regression")
