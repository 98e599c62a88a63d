"""A stored record, run again: its command, and what came out this time."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabbench.controls import NONE, UNTRAINED
from tabbench.data.references import resolve_data
from tabbench.errors import TabbenchError, UsageError
from tabbench.plan import Plan, Step, choose, make_plan
from tabbench.registry import Registry, make_registry
from tabbench.spec import Spec, make_spec

if TYPE_CHECKING:
    from tabbench.data.cache import Manifest

UNPUBLISHED = "unpublished"


@dataclass(frozen=True)
class Replay:
    """What it takes to run one record again."""

    record: Mapping[str, Any]
    spec: Spec
    registry: Registry
    files: tuple[Path, ...]

    @property
    def command(self) -> str:
        """The command line that makes this record, among those of lower splits and seeds.

        Settings that tuning found are given as they are: the search itself is not run again.
        """
        spec = self.spec
        words = ["tabbench", "run", "--ssl", *spec.ssl, "--model", *spec.model, "--data", *spec.data]
        words += ["--preset", spec.preset, "--splits", str(spec.splits), "--seeds", str(spec.seeds)]
        words += ["--trials", "0", "--ssl-trials", "0", "--controls", ""]
        words += ["--rows", str(spec.rows)] if spec.rows is not None else []
        words += ["--categorical", ",".join(spec.categorical)] if spec.categorical else []
        for name, settings in spec.settings.items():
            for key, value in settings.items():
                words += ["--set", f"{name}.{key}={json.dumps(value)}"]
        for file in self.files:
            words += ["--plugin", str(file)]
        return shlex.join(words)

    def plan(self, manifest: Manifest) -> tuple[Plan, Step]:
        """The steps of this record alone, and the last of them.

        Raises:
            UsageError: data or code are not those of the record.
        """
        self._check_data(manifest)
        whole = make_plan(self.spec, self.registry, [manifest])
        wanted = (self.record["split"], self.record["seed"])
        last = next(step for step in whole.records if (step.record["split"], step.record["seed"]) == wanted)  # type: ignore[index]
        self._check_code(last)
        needed = {last.key}
        for key, step in reversed(whole.steps.items()):
            if key in needed:
                needed.update(step.needs)
        return Plan({key: step for key, step in whole.steps.items() if key in needed}), last

    def _check_data(self, manifest: Manifest) -> None:
        stored = self.record["hashes"].get("data")
        if stored != manifest.key:
            raise UsageError(
                f"the data are not those of the record: {manifest.name} has the content {manifest.key[:12]}, "
                f"the record was made with {str(stored)[:12]}"
            )

    def _check_code(self, last: Step) -> None:
        """Name the plugin that has changed since; results of another revision cannot be compared."""
        assert last.record is not None
        for role, stored in self.record["plugins"].items():
            now = last.record["plugins"][role]
            if now["revision"] != stored["revision"]:
                raise UsageError(
                    f"the {role} plugin of {now['distribution']} is at revision {now['revision']}, "
                    f"the record was made with {stored['revision']}: results may differ on purpose"
                )


def prepare_replay(
    record: Mapping[str, Any], results: Path, files: Iterable[Path] = (), data: str | None = None
) -> Replay:
    """Find out how a record was made.

    Args:
        record: of a finished job.
        results: the folder it is from; its experiments tell where files of data were.
        files: unpublished plugins; by default where they were when the record was made.
        data: FILE:TARGET of the record's data, if the file is elsewhere now.
    """
    if record.get("kind") == "trial":
        raise UsageError("this is a trial of tuning: replay the result that came of it")
    if record["status"] != "ok":
        raise UsageError(f"this job ended with {record['status']!r}, so there is nothing to compare: {record['error']}")
    chosen = tuple(files) or tuple(_files_of(record))
    registry = make_registry(chosen)
    found, categorical = _find_data(record, results, registry)
    given: dict[str, Any] = {
        "ssl": [record["ssl"]],
        "model": [record["model"]],
        "data": [data or found],
        "preset": record["preset"],
        "splits": record["split"] + 1,
        "seeds": record["seed"] + 1,
        "trials": 0,
        "ssl_trials": 0,
        "controls": [],
        "categorical": categorical,
    }
    given |= {"rows": record["rows_limit"]} if record.get("rows_limit") else {}
    settings = _settings(record, make_spec(given), registry)
    return Replay(record, make_spec({**given, "set": settings}), registry, chosen)


def _files_of(record: Mapping[str, Any]) -> list[Path]:
    paths = {Path(each["distribution"]) for each in record["plugins"].values() if each["version"] == UNPUBLISHED}
    for path in paths:
        if not path.is_file():
            raise UsageError(f"the record was made with --plugin {path}, which is not there: say --plugin FILE")
    return sorted(paths)


def _find_data(record: Mapping[str, Any], results: Path, registry: Registry) -> tuple[str, list[str]]:
    """What to write after --data, and which columns were named as categories: as in the experiment of the record.

    Several experiments may have had files of the same name: the one with the record's content is meant.
    """
    name = record["data"]
    candidates = []
    for path in sorted((results / "experiments").glob("*.json")):
        experiment = json.loads(path.read_text(encoding="utf-8"))
        named = [reference for reference in experiment["data"] if Path(reference).name == name]
        candidates += [(reference, experiment["categorical"]) for reference in named]
    for reference, categorical in candidates:
        with contextlib.suppress(TabbenchError):  # a file that is gone, or has changed
            manifests = resolve_data(reference, registry, offline=True, categorical=categorical)
            if record["hashes"].get("data") in [manifest.key for manifest in manifests]:
                return reference, categorical
    return candidates[0] if candidates else (name, [])


def _settings(record: Mapping[str, Any], spec: Spec, registry: Registry) -> dict[str, dict[str, Any]]:
    """What was not as the preset says, for each plugin of the record."""
    config = record["config"]
    parts = [("model", record["model"], config["model"])]
    if record["ssl"] != NONE:
        name = record["ssl"].removeprefix(f"{UNTRAINED}:")
        parts.insert(0, ("ssl", name, config.get("joint") or config["ssl"]))
    settings = {}
    for kind, name, values in parts:
        usual = choose(spec, registry, kind, name, record["data"]).config
        changed = {key: value for key, value in values.items() if key not in usual or usual[key] != value}
        if changed:
            settings[name] = changed
    return settings


@dataclass(frozen=True)
class Comparison:
    """One line of what is compared."""

    what: str
    stored: Any
    again: Any

    @property
    def same(self) -> bool:
        return bool(self.stored == self.again)


def compare(stored: Mapping[str, Any], again: Mapping[str, Any]) -> list[Comparison]:
    """The score to the last digit, and the hash of the predictions."""
    return [
        Comparison(stored["metric"], stored["score"], again["score"]),
        Comparison("predictions", stored["hashes"]["predictions"], again["hashes"]["predictions"]),
    ]


def differences(stored: Mapping[str, Any], again: Mapping[str, Any]) -> list[str]:
    """What is not the same about the machines, which may explain other results."""
    before, now = stored["environment"], again["environment"]
    pairs = {name: (before.get(name), now.get(name)) for name in ("python", "machine", "device", "threads")}
    pairs |= {name: (before["versions"].get(name), version) for name, version in now["versions"].items()}
    return [f"{name} was {old}, is {new}" for name, (old, new) in pairs.items() if old != new]
