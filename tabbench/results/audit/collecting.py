"""From files to runs: what is used, and what is left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tabbench.errors import UsageError, did_you_mean
from tabbench.experiment.controls import untrained
from tabbench.results.audit.mapping import RECORDS, ColumnMap, name_entries
from tabbench.results.audit.reading import Source, UnreadableError, find_files, look_up, read_release
from tabbench.results.audit.rows import find_test, make_run, name_nested_test
from tabbench.results.audit.runs import Run, group

Row = tuple[str, Mapping[str, Any]]
"""The place of a row, and its content."""
CONTROL = untrained("")
"""How the names of untrained encoders begin."""
NO_NUMBER = "without a numeric score"
NO_DATASET = "without a dataset name"
SHOWN_NAMES = 12
"""Columns that an error lists."""
SHOWN_TEXT = 40
"""Characters of a value that an error quotes."""


@dataclass
class Collection:
    """Runs of several files, and what was not used."""

    mapping: ColumnMap
    runs: list[Run] = field(default_factory=list)
    files: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """Rows that are not used, by reason."""
    unread: list[str] = field(default_factory=list)
    """Sentences about files of folders that cannot be read."""
    example: str = ""
    """The first file."""
    unused: list[str] = field(default_factory=list)
    """Files without a run."""
    no_number: str = ""
    """The first test score that is no number."""
    nested: str = ""
    """The first test score that is a list or an object without a known metric, in words."""
    names: dict[str, None] = field(default_factory=dict)
    """All columns, or keys of JSON objects, in order of appearance."""
    mapped: set[str] = field(default_factory=set)
    """Entries of the mapping file that some row or file has."""

    def add(self, path: Path) -> None:
        """Collect the runs of a file, or of all files below a folder."""
        sources, is_folder = find_files(path)
        if not sources:
            raise UsageError(f"{path}: there is no CSV or JSON file in this folder")
        self.example = self.example or sources[0].name
        for source in sources:
            try:
                rows = list(read_release(source, "" if source.is_record else self.mapping.rows))
            except UnreadableError as error:
                if not is_folder:
                    raise
                self.unread.append(str(error))
                continue
            found = self._take_records(rows) if source.is_record else self._take_rows(source, rows)
            self.runs += found
            self.files += bool(found)
            self.unused += [] if found else [source.name]

    def _take_rows(self, source: Source, rows: Sequence[Row]) -> list[Run]:
        named = name_entries(self.mapping, source.path)
        self.mapped |= {"path"} if named else set()
        found = []
        for where, row in rows:
            self.names.update(dict.fromkeys(map(str, row)))
            self.mapped |= {entry for entry in self.mapping.explicit if self.mapping.find(row, entry) is not None}
            run = make_run(where, row, self.mapping, named)
            if run is None:
                self.no_number = self.no_number or find_test(row, self.mapping)
                self.nested = self.nested or name_nested_test(row, self.mapping)
            if run is None or not (run.dataset or run.average_rank):
                self.dropped[NO_NUMBER if run is None else NO_DATASET] += 1
            else:
                found.append(run)
        return found

    def _take_records(self, rows: Sequence[Row]) -> list[Run]:
        """Records of tabbench: those that its tables show. The same predictions under several seeds are one run."""
        found: dict[Any, Run] = {}
        proofs: dict[Any, Any] = {}
        for where, row in rows:
            if row.get("kind") == "trial":
                continue
            if row.get("status") != "ok" or row.get("flags"):
                self.dropped["that failed or are flagged; tables leave them out too"] += 1
                continue
            run = make_run(where, row, RECORDS, {})
            if run is None:
                self.dropped[NO_NUMBER] += 1
                continue
            encoder, predictions = (look_up(row, f"hashes.{name}") for name in ("encoder", "predictions"))
            key = (run.cell, run.split, predictions if isinstance(predictions, str) else where)
            if found.setdefault(key, run) is not run:
                self.dropped["with the same predictions as another seed"] += 1
            elif isinstance(encoder, str) and isinstance(predictions, str):
                proofs[key] = (run.column, run.model, run.split, encoder, predictions)
        return self._without_equal_controls(found, proofs)

    def _without_equal_controls(self, found: Mapping[Any, Run], proofs: Mapping[Any, Any]) -> list[Run]:
        """Leave out untrained encoders that another method, or control, has too: the hashes say that it is the same.

        The untrained weights are kept if none that training gave was better on validation rows.
        """
        seen = {proofs.get(key) for key, run in found.items() if not run.method.startswith(CONTROL)}
        kept = []
        for key, run in found.items():
            proof = proofs.get(key)
            if run.method.startswith(CONTROL) and proof is not None and proof in seen:
                self.dropped["of an untrained encoder that another method kept unchanged"] += 1
            else:
                seen.add(proof)
                kept.append(run)
        return kept

    def finish(self) -> tuple[Run, ...]:
        """Return all runs: rows with several metrics of one run are joined, and duplicate rows are dropped.

        Raises:
            UsageError: there are none, or the mapping names something that no file has.
        """
        self._check_mapping()
        if not self.runs:
            raise UsageError(self._why_nothing())
        joined: list[Run] = []
        numbered = enumerate(self.runs)
        same = group(numbered, lambda item: (item[1].cell, item[1].split, item[1].seed or item[0]))
        for members in same.values():
            distinct = list({tuple(sorted(run.scores.items(), key=str)): run for _, run in members}.values())
            self.dropped["that are duplicates"] += len(members) - len(distinct)
            joined += _join(distinct)
        return tuple(joined)

    def _check_mapping(self) -> None:
        for entry in self.mapping.explicit:
            if entry not in self.mapped and self.names:
                place = self.mapping.columns[entry][0]
                raise UsageError(f"{entry} = {place!r} in the mapping: no row has it.{did_you_mean(place, self.names)}")
        if self.mapping.path is not None and "path" not in self.mapped:
            raise UsageError(f"path in the mapping: it matches no file, not even {self.example}")

    def _why_nothing(self) -> str:
        if self.unread:
            return f"no file can be read, for example {self.unread[0]}"
        if not self.names:
            return f"{self.example}: no rows have a score"
        if self.nested and not self.dropped[NO_DATASET]:
            return (
                f"{self.example}: the test score is {self.nested}; write one number for each run, or map a path to it "
                "in a mapping file (--mapping FILE)"
            )
        missing = "dataset" if self.dropped[NO_DATASET] else "test"
        if missing == "test" and self.no_number:
            shown = self.no_number if len(self.no_number) <= SHOWN_TEXT else f"{self.no_number[:SHOWN_TEXT]}..."
            return f"{self.example}: no test score is a finite number, for example {shown!r}; write it as 0.85 or 85%"
        names = ", ".join(list(self.names)[:SHOWN_NAMES]) + (", ..." if len(self.names) > SHOWN_NAMES else "")
        return (
            f"{self.example}: nothing is named {missing!r}. Available: {names}. "
            f"Map it in a mapping file (--mapping FILE)"
        )

    @property
    def left_out(self) -> tuple[str, ...]:
        """What was not used, as lines of text."""
        lines = [f"{count:,} row(s) {reason}" for reason, count in self.dropped.items() if count]
        for what, files in (("without a run", self.unused), ("that cannot be read", self.unread)):
            if files:
                lines.append(f"{len(files):,} file(s) {what}, such as {files[0]}")
        return tuple(lines)


def _join(runs: Sequence[Run]) -> Sequence[Run]:
    """Join the rows of one run, if each has different metrics."""
    scores = {metric: score for run in runs for metric, score in run.scores.items()}
    if len(runs) == 1 or len(scores) < sum(len(run.scores) for run in runs):
        return runs
    return [replace(runs[0], scores=scores)]
