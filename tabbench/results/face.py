"""Results for notebooks and scripts: records as a DataFrame, tables, a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabbench.results.files import check_results
from tabbench.results.json_shapes import LeftOut
from tabbench.results.store import Store
from tabbench.values import JsonObject

if TYPE_CHECKING:
    import pandas as pd

    from tabbench.results.formats import By, Tabular

NUMBERS = ("test", "validation", "counts", "seconds", "encoder_scores")
"""Fields that hold several numbers."""


@dataclass(frozen=True)
class Results:
    """A results folder, or the part of it that belongs to one run."""

    store: Store
    only: Sequence[str] | None = None
    """Keys of the records of a run; None for the whole folder."""
    names: Mapping[str, str] | None = None
    """The run's names for its datasets, by the start of their keys."""
    failures: Sequence[str] = ()
    """What failed in this run, one line each."""
    left_out: Sequence[LeftOut] = ()
    """Records that did not fit into the budget of this run: where they belong, and the reason."""

    def records(self, trials: bool = False) -> pd.DataFrame:
        """One row per record, one column per field of ``Record``; with ``trials``, tuning trials too.

        Fields with several numbers have a column for each: ``test.accuracy``, ``seconds.fit``, ``counts.train``.
        """
        import pandas as pd

        wanted = None if self.only is None else set(self.only)
        found = [
            _flat(record.to_json())
            for record in self.store.records()
            if (trials or record.kind == "result") and (wanted is None or record.key in wanted)
        ]
        return pd.DataFrame(found)

    def table(self, metric: str = "rank", *, by: By | None = None, **options: Any) -> TableView:
        """The table of ``tabbench table``; ``metric="gain"`` gives paired differences to the controls.

        Args:
            metric: as for the command.
            by: an axis to show as columns: ssl, model, labels or protocol.
            **options: those of ``tabbench.results.tabulate.tabulate``.
        """
        from tabbench.results.gains import tabulate_gains
        from tabbench.results.tabulate import tabulate

        chosen = {"only": self.only, "names": self.names, **options}
        if metric == "gain":
            return TableView(tabulate_gains(self.store, **chosen), by)
        made = tabulate(self.store, metric, **chosen)
        made.left_out.extend(self.left_out)
        return TableView(made, by)

    def verdict(self) -> str:
        """Say in sentences whether self-supervision helped here, and what limits that conclusion."""
        from tabbench.results.gains import gains_of
        from tabbench.results.page.verdict import make_verdict
        from tabbench.results.selection import select_records
        from tabbench.results.tabulate import tabulate_records

        selection = select_records(self.store, only=self.only, names=self.names)
        found = make_verdict(tabulate_records(selection, "rank", ci=True), gains_of(selection))
        return "\n".join([found.headline, *found.sentences, *found.more, *found.limits])

    def report(self, path: str | Path) -> Path:
        """Write the page of ``tabbench report`` about these results; returns its path."""
        from tabbench.results.page import write_report

        write_report(self.store, Path(path), only=None if self.only is None else set(self.only))
        return Path(path)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


@dataclass(frozen=True)
class TableView:
    """A printable table: text in a terminal, HTML in a notebook, LaTeX in a paper."""

    values: Tabular
    by: By | None = None

    def to_frame(self) -> pd.DataFrame:
        """One line per cell, with full precision."""
        import pandas as pd

        from tabbench.results.formats import table_lines

        names, *lines = table_lines(self.values)
        return pd.DataFrame(lines, columns=names)

    def to_latex(self) -> str:
        """For a paper, with booktabs."""
        return self.to_text("latex")

    def to_markdown(self) -> str:
        return self.to_text("markdown")

    def to_text(self, layout: str) -> str:
        """In any format of ``tabbench table --format``."""
        from tabbench.results.formats import format_table

        return format_table(self.values, layout, self.by)

    def __str__(self) -> str:
        return self.to_text("terminal")

    def _repr_html_(self) -> str:
        return self.to_text("html")


def open_results(folder: Path) -> Results:
    """The results in a folder.

    Raises:
        UsageError: there are none.
    """
    check_results(folder)
    return Results(Store(folder))


def _flat(record: JsonObject) -> JsonObject:
    """A record with a column for each of its numbers."""
    flat: JsonObject = {}
    for name, value in record.items():
        several = name in NUMBERS and isinstance(value, dict)
        flat |= {f"{name}.{key}": number for key, number in value.items()} if several else {name: value}
    return flat
