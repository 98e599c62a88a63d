"""The command that makes the records of a row again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabbench.contracts.split_rule import make_rule
from tabbench.contracts.weighting import Weighting
from tabbench.errors import TabbenchError
from tabbench.experiment.controls import NONE, UNTRAINED, is_untrained, method_of
from tabbench.experiment.spec import READING_ENTRIES, SPLIT_ENTRIES, WEIGHT_ENTRIES
from tabbench.results.files import read_experiments
from tabbench.results.record_lines import ALL_LABELS, RAW
from tabbench.results.replay import goes_by, option_words
from tabbench.results.row_settings import setting_words
from tabbench.results.score_table import Row


@dataclass(frozen=True)
class Experiment:
    """What a record does not say about its run: how tables were named, read and split, and how it was tuned."""

    data: tuple[str, ...]
    split_rule: str
    weights: frozenset[str]
    """How training rows were weighted, by kind of task: regression has no class weights."""
    options: tuple[str, ...]
    sampler: tuple[str, ...]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Experiment | None:
        """Make it from the entries of an experiment; None if they cannot be understood."""
        try:
            rule = make_rule(**{name: told[name] for name in SPLIT_ENTRIES if name in told})
            weighting = Weighting(told.get("weights") or "", told.get("class_weights") == "balanced")
            weights = frozenset(weighting.on(task).name for task in ("binary", "regression"))
            entries = (*SPLIT_ENTRIES, *WEIGHT_ENTRIES, *READING_ENTRIES)
            options = [word for name in entries if name in told for word in option_words(name, told[name])]
            sampler = option_words("sampler", told["sampler"]) if "sampler" in told else []
            return cls(tuple(map(str, told.get("data", ()))), rule.name, weights, tuple(options), tuple(sampler))
        except (TypeError, ValueError, TabbenchError):
            return None

    def name(self, data: str) -> str | None:
        """How a dataset was named on the command line, if it was in this experiment."""
        return next((each for each in self.data if goes_by(each, data)), None)


def experiments_of(root: Path) -> list[Experiment]:
    """All experiments of a results folder."""
    return [made for told in read_experiments(root) if (made := Experiment.of(told)) is not None]


def repeat_command(row: Row, records: Sequence[Mapping[str, Any]], experiments: Sequence[Experiment] = ()) -> str:
    """The command that makes the records of a row, as far as they and the folder's experiments show it."""
    names = list(dict.fromkeys(str(record["data"]) for record in records))
    group = row.group
    fitting = [each for each in experiments if each.split_rule == group.split_rule and group.weights in each.weights]
    run = next((each for each in fitting if any(each.name(name) for name in names)), None)
    named = [next((word for each in fitting if (word := each.name(name))), name) for name in names]
    words = ["tabbench", "run", "--ssl", method_of(row.ssl), "--model", row.model]
    words += ["--data", ",".join(word.replace(",", "\\,") for word in named)]
    if records:
        first = records[0]
        words += ["--preset", str(first["preset"] or str(first["fidelity"]).partition(",")[0])]
        words += ["--splits", str(1 + max(int(record["split"]) for record in records))]
        words += ["--seeds", str(1 + max(int(record["seed"] or 0) for record in records))]
        words += ["--rows", str(first["rows_limit"])] if first["rows_limit"] else []
        words += ["--threads", str(first["threads"])] if first["threads"] else []
    words += ["--trials", str(row.budget[1]), "--ssl-trials", str(row.budget[0])]
    words += run.sampler if run is not None and any(row.budget) else ()
    words += ["--controls", UNTRAINED if is_untrained(row.ssl) else NONE if row.ssl == NONE else ""]
    words += ["--protocol", row.protocol] if row.protocol not in (RAW, "frozen") else []
    words += _labels(row, records)
    words += ["--metric", group.main_metric] if group.main_metric else []
    words += run.options if run is not None else ()
    for setting in setting_words(row.variant):
        if setting != f"{method_of(row.ssl)}.probe=never":  # given by --probe
            words += ["--set", setting]
    return shlex.join(words)


def _labels(row: Row, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Options for the number of labels, and for which labels choose weights: defaults depend on the rest of the run."""
    probe = records[0]["probe"] if records else None
    if row.labels == ALL_LABELS:
        return ["--probe", probe] if probe else []
    kept = records[0]["validation_labels"] if records else None
    told = [] if row.ssl == NONE else ["--probe", probe or "kept"]
    return ["--labels", row.labels, *told, *(["--validation-labels", kept] if kept else [])]
