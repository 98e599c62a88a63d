"""Run a stored record again: its command, and the new result."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from tabbench.config import PluginSettings
from tabbench.contracts.split_rule import make_rule
from tabbench.contracts.weighting import Weighting
from tabbench.data.gather import find_data
from tabbench.data.sources import Progress, find_dataset, resolve_data
from tabbench.errors import TabbenchError, UsageError
from tabbench.experiment.controls import NONE, method_of
from tabbench.experiment.graph import Plan, Step
from tabbench.experiment.plan import make_plan
from tabbench.experiment.settings import choose
from tabbench.experiment.spec import (
    READING_ENTRIES,
    SPLIT_ENTRIES,
    WEIGHT_ENTRIES,
    Entries,
    Protocol,
    Spec,
    make_spec,
)
from tabbench.registry import Registry, file_revision, make_registry
from tabbench.results.files import read_experiments
from tabbench.results.record import Environment, Record

if TYPE_CHECKING:
    from tabbench.data.cache import Manifest

UNPUBLISHED = "unpublished"


@dataclass(frozen=True)
class Replay:
    """Everything needed to run one record again."""

    record: Record
    spec: Spec
    registry: Registry
    files: tuple[Path, ...]

    @property
    def command(self) -> str:
        """The command line that makes this record, together with those of lower splits and seeds.

        Settings found by tuning are given explicitly: the search itself is not run again.
        """
        spec = self.spec
        words = ["tabbench", "run", "--ssl", *spec.ssl, "--model", *spec.model, "--data", *escaped(spec.data)]
        words += ["--preset", spec.preset, "--splits", str(spec.splits), "--seeds", str(spec.seeds)]
        words += ["--trials", "0", "--ssl-trials", "0", "--controls", ""]
        words += ["--protocol", *spec.protocol] if spec.protocol != ("frozen",) else []
        if not spec.budgets[0].is_all or spec.probe == "never":
            words += ["--labels", *spec.labels, "--probe", spec.probe, "--validation-labels", spec.validation_labels]
        words += ["--rows", str(spec.rows)] if spec.rows is not None else []
        words += ["--threads", str(spec.threads)] if spec.threads != 1 else []
        for name in ("metric", *READING_ENTRIES, *SPLIT_ENTRIES, *WEIGHT_ENTRIES):
            words += option_words(name, getattr(spec, name))
        for name, settings in spec.settings.items():
            for key, value in settings.items():
                words += ["--set", f"{name}.{key}={json.dumps(value)}"]
        for file in self.files:
            words += ["--plugin", str(file)]
        return shlex.join(words)

    def find_data(self, offline: bool, say: Progress) -> list[Manifest]:
        """The tables, read as for the record."""
        spec = self.spec
        how: dict[str, Any] = {"reading": spec.reading, "rule": spec.rule, "weighting": spec.weighting}
        return find_data(spec.data, self.registry, offline=offline, say=say, **how)

    def plan(self, manifest: Manifest) -> tuple[Plan, Step]:
        """The steps of this record alone, and the last of them.

        Raises:
            UsageError: the data or code differ from the record's.
        """
        self._check_data(manifest)
        whole = make_plan(self.spec, self.registry, [manifest])
        ends = {(end.planned.split, end.planned.seed): end for end in whole.records if end.planned is not None}
        split, seed = self.record.split, self.record.seed
        # A model may have seeds in one version and none in another.
        last = next(ends[split, each] for each in (seed, None, 0) if (split, each) in ends)
        self._check_code(last)
        needed = {last.key}
        for key, step in reversed(whole.steps.items()):
            if key in needed:
                needed.update(step.needs)
        return Plan({key: step for key, step in whole.steps.items() if key in needed}), last

    def _check_data(self, manifest: Manifest) -> None:
        stored = self.record.hashes.data if self.record.hashes else None
        if stored != manifest.key:
            raise UsageError(
                f"the data differ from the record's: {manifest.name} has the content {manifest.key[:12]}, "
                f"the record was made with {str(stored)[:12]}; give the record's own table ({self.record.data})"
            )

    def _check_code(self, last: Step) -> None:
        """Refuse plugins that have changed since; results of another revision cannot be compared."""
        assert last.planned is not None
        planned = last.planned.plugins or {}
        for role, stored in (self.record.plugins or {}).items():
            now = planned[role]
            if now.revision != stored.revision:
                other = stored.version != now.version
                remedy = f"; install {stored.distribution} {stored.version} to replay it" if other else ""
                raise UsageError(
                    f"the {role} plugin of {now.distribution} is at revision {now.revision}, but the record was made "
                    f"with revision {stored.revision}: results are expected to differ{remedy}"
                )


def prepare_replay(record: Record, results: Path, files: Iterable[Path] = (), data: str | None = None) -> Replay:
    """Find out how a record was made.

    Args:
        record: of a finished job.
        results: the folder it comes from; its experiments say where data files were.
        files: the unpublished plugins of the record. The paths in a record are ignored: otherwise whoever wrote it
            could have any file imported.
        data: FILE:TARGET of the record's data, if the file is elsewhere now.
    """
    if record.kind == "trial":
        raise UsageError("this is a tuning trial: replay the result instead")
    if record.status != "ok" or record.hashes is None:
        raise UsageError(f"this job ended with {record.status!r}, so there is nothing to compare: {record.error}")
    chosen = tuple(files)
    _check_files(record, chosen)
    registry = make_registry(chosen)
    found, about_data = _find_data(record, results, registry)
    given: Entries = {
        "ssl": [record.ssl],
        "model": [record.model],
        "data": [data or found],
        "preset": record.preset,
        "splits": record.split + 1,
        "seeds": (record.seed or 0) + 1,
        "trials": 0,
        "ssl_trials": 0,
        "controls": [],
        **about_data,
    }
    given |= {"rows": record.rows_limit} if record.rows_limit else {}
    given |= {"metric": record.main_metric} if record.main_metric else {}
    given |= {"threads": record.environment.threads} if record.environment and record.environment.threads else {}
    given |= {"protocol": [record.protocol]} if record.protocol in get_args(Protocol) else {}
    given |= {"labels": [record.labels], "probe": record.probe or "kept"} if record.labels else {}
    given |= {"validation_labels": record.validation_labels} if record.validation_labels else {}
    settings = _settings(record, make_spec(given), registry, data)
    return Replay(record, make_spec({**given, "set": settings}), registry, chosen)


def option_words(name: str, value: object) -> list[str]:
    """An entry of an experiment as words of a command line; empty if it is the default."""
    value = tuple(value) if isinstance(value, list) else value
    if value == Spec.model_fields[name].default:
        return []
    option = f"--{name.replace('_', '-')}"
    if value is True:
        return [option]
    return [option, ",".join(escaped(value)) if isinstance(value, tuple) else str(value)]


def escaped(names: Iterable[str]) -> list[str]:
    """Names as a list on the command line has them: a comma separates names, so one within a name is marked."""
    return [name.replace(",", "\\,") for name in names]


def _check_files(record: Record, files: tuple[Path, ...]) -> None:
    """Refuse to import anything unless ``files`` has the content of each unpublished plugin of the record."""
    given = {file_revision(path): path for path in files}
    for role, origin in (record.plugins or {}).items():
        if origin.version != UNPUBLISHED or origin.revision in given:
            continue
        made = f"the {role} plugin of the record was the file {origin.distribution} at revision {origin.revision}"
        if not given:
            raise UsageError(f"{made}: a record never decides which code runs, so give the file with --plugin FILE")
        others = ", ".join(f"{path} is at {revision}" for revision, path in given.items())
        raise UsageError(f"{made}, and {others}: give the file as it was then")


def _find_data(record: Record, results: Path, registry: Registry) -> tuple[str, Entries]:
    """What to write after --data, and how tables were read and split: as in the experiment of the record.

    If several experiments had files of the same name, the one with the record's content counts, and among those the one
    with its notes: they tell what became of rows without a target, which are no part of the content.
    """
    rules: list[Entries] = []
    files: list[tuple[str, Entries]] = []
    for experiment in read_experiments(results):
        split = {name: experiment[name] for name in SPLIT_ENTRIES if name in experiment}
        weights = {name: experiment[name] for name in WEIGHT_ENTRIES if experiment.get(name)}
        try:
            rule = make_rule(**split)
            weighting = Weighting(weights.get("weights", ""), "class_weights" in weights).on(record.task or "")
        except (TabbenchError, TypeError, ValueError, AttributeError):  # not ours
            continue
        same_rule = (None if rule.is_default else rule.name) == record.split_rule
        if same_rule and (weighting.name or None) == record.weights:
            split |= weights
            rules.append(split)
            read = {name: experiment[name] for name in READING_ENTRIES if name in experiment}
            named = [reference for reference in _texts(experiment.get("data")) if goes_by(reference, record.data)]
            files += [(reference, {**read, **split}) for reference in named]
    same_content = []
    for reference, about in files:
        with contextlib.suppress(TabbenchError):  # a file that is gone, or has changed
            reading = make_spec({"ssl": [NONE], "model": [record.model], **about}).reading
            for manifest in resolve_data(reference, registry, offline=True, reading=reading):
                if record.hashes is not None and record.hashes.data == manifest.key:
                    if set(manifest.notes) <= set(record.notes or ()):
                        return reference, about
                    same_content.append((reference, about))
    if files:
        return [*same_content, *files][0]
    return record.data, rules[0] if rules else {}


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def goes_by(reference: str, name: str) -> bool:
    """Whether records call FILE:TARGET ``name``: the file's name, with folders if several files share it."""
    return reference == name or reference.endswith(f"/{name}") or Path(reference).name == name


def _settings(record: Record, spec: Spec, registry: Registry, data: str | None = None) -> PluginSettings:
    """The settings that differ from the preset, for each plugin of the record.

    A preset may have settings for a table by its name, and ``data`` may call it otherwise.
    """
    named = find_dataset(data, registry) if data is not None else None
    names = [str(record.data)] if data is None else [str(record.data), named.name if named else ""]
    config = record.config or {}
    parts = [("model", record.model, config["model"])]
    if record.ssl != NONE:
        name = method_of(record.ssl)
        parts.insert(0, ("ssl", name, config.get("joint") or config["ssl"]))
    settings = {}
    for kind, name, values in parts:
        usual = [choose(spec, registry, kind, name, each).config for each in names]
        changed = {key: value for key, value in values.items() if any(key not in u or u[key] != value for u in usual)}
        if changed:
            settings[name] = changed
    return settings


@dataclass(frozen=True)
class Agreement:
    """One line of the comparison."""

    what: str
    stored: Any
    again: Any

    @property
    def same(self) -> bool:
        return bool(self.stored == self.again)


def check_again(stored: Record, again: Record) -> list[Agreement]:
    """Compare the score, to the last digit, and the hash of the predictions."""
    return [
        Agreement(str(stored.metric), stored.score, again.score),
        Agreement("predictions", *(each.hashes.predictions if each.hashes else None for each in (stored, again))),
    ]


def differences(stored: Record, again: Record) -> list[str]:
    """How the machines differ, which may explain different results."""
    before, now = stored.environment or Environment(), again.environment or Environment()
    pairs = {name: (getattr(before, name), getattr(now, name)) for name in ("python", "machine", "device", "threads")}
    if not before.may_round_as(now):
        pairs["processor"] = before.processor, now.processor
    elif not before.processor:
        pairs["processor"] = "not recorded", now.processor
    both = before.versions.keys() & now.versions.keys()
    pairs |= {name: (before.versions[name], now.versions[name]) for name in sorted(both)}
    return [f"{name} was {old}, is {new}" for name, (old, new) in pairs.items() if old != new]
