"""A campaign of signals against runs: nothing may be lost, doubled or changed.

    python benchmarks/faults.py --folder DIR [--signals 1000] [--seed 1] [--minutes 30]

An episode is a results folder with one to four drivers at work on the same experiment. Signals hit drivers, their
groups and their workers at random moments, and at named ones: when a record is appended (also torn in the middle), an
artefact or a checkpoint is renamed into place, the parquet copy or a study's journal is written. Then the experiment
is run to its end and compared with an undisturbed run. Episodes are written to DIR/episodes.jsonl: the same command
goes on where it was stopped. The seed decides what is done; when a process is hit depends on the machine.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parent.parent
TOYS = ROOT / "tests" / "toys" / "toy_plugin.py"
VOLATILE = ("time", "seconds", "environment", "digest")
SCENARIOS = {
    "tuning": [
        "--plugin", str(TOYS), "--ssl", "projection", "--model", "nearest", "--data", "wine,diabetes",
        "--trials", "6", "--ssl-trials", "5", "--seeds", "2",
        "--set", "nearest.sleep=0.1", "--set", "projection.sleep=0.2",
    ],
    "training": [
        "--ssl", "tjepa", "--model", "mlp", "--data", "wine", "--preset", "quick", "--seeds", "2",
        "--set", "tjepa.exp_epochs=600", "--set", "tjepa.exp_batch_size=32", "--set", "mlp.max_epochs=20",
        "--set", "tjepa.checkpoint_seconds=0.1",
    ],
    "workers": [
        "--plugin", str(TOYS), "--ssl", "projection", "--model", "nearest", "--data", "wine", "--seeds", "6",
        "--set", "nearest.sleep=0.5", "--set", "projection.sleep=0.5",
    ],
}  # fmt: skip
"""Experiments. ``workers`` uses the local executor as it is; the others fork their workers, which is cheaper."""
QUOTA = {"tuning": 50, "training": 30, "workers": 12}
"""Signals of an episode, at most."""
IN_TRAINING = 0.8
"""Share of the signals of ``training`` that wait until an encoder is being trained; the others hit any moment."""
MOMENTS = ("record append", "torn record", "artefact rename", "checkpoint", "compaction", "journal")
ACTIONS = {
    "driver KILL": 24, "driver TERM": 8, "driver INT": 8, "driver STOP/CONT": 12, "group KILL": 10,
    "worker KILL": 14, "worker STOP/CONT": 8, **dict.fromkeys(MOMENTS, 4),
}  # fmt: skip
"""What can happen, with its weight."""


# Named moments: a file says which one is wanted; the first process that comes there takes it away and kills itself.


def install_moments(token: Path) -> None:
    write, replace, rename = os.write, os.replace, os.rename

    def is_due(*names: str) -> bool:
        try:
            wanted = token.read_text() in names
            if wanted:
                token.unlink()
            return wanted
        except OSError:
            return False

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def write_or_die(descriptor: int, data: Any) -> int:
        if token.exists() and os.readlink(f"/proc/self/fd/{descriptor}").endswith(".jsonl"):
            if is_due("torn record"):
                write(descriptor, bytes(data)[: len(data) // 2])
                die()
            if is_due("record append"):
                write(descriptor, data)
                die()
        return write(descriptor, data)

    def moved(operation: Callable[..., None]) -> Callable[..., None]:
        def move(source: Any, target: Any, **options: Any) -> None:
            if token.exists():
                name = moment_of(str(target))
                if name is not None and is_due(name):
                    if random.random() < 0.5:
                        operation(source, target, **options)
                    die()
            operation(source, target, **options)

        return move

    os.write, os.replace, os.rename = write_or_die, moved(replace), moved(rename)


def moment_of(target: str) -> str | None:
    """Which moment it is when something gets this name."""
    if target.endswith("records.parquet"):
        return "compaction"
    if target.endswith(".journal"):
        return "journal"
    if "/artefacts/" in target:
        return "artefact rename"
    return "checkpoint" if "/scratch/" in target else None


# Drivers.


def start_driver(scenario: str, results: Path, log: Path, plugin: Path) -> int:
    """A driver in a process group of its own, forked from this process: everything is imported already."""
    executor = "local" if scenario == "workers" else "forked"
    arguments = ["run", *SCENARIOS[scenario], "--results", str(results), "--offline", "-q", "--jobs", "2"]
    arguments += ["--plugin", str(plugin), "--executor", executor]
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.setsid()
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for standard in (1, 2):
            os.dup2(descriptor, standard)
        from tabbench.cli.app import main as tabbench

        sys.argv = ["tabbench", *arguments]
        tabbench()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(code)


def is_alive(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    return False


def below(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []


def finish(pid: int, seconds: float) -> int | None:
    """The exit code of a driver that is left alone; None if it takes too long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    return None


# Episodes.


@dataclass
class Episode:
    """What was done to one results folder, and what came out."""

    number: int
    scenario: str
    drivers: int
    signals: dict[str, int] = field(default_factory=dict)
    while_training: int = 0
    """Signals that came while an encoder was being trained."""
    problems: list[str] = field(default_factory=list)


class Campaign:
    """Episodes in a folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.token, self.log = folder / "moment", folder / "drivers.log"
        self.plugin = Path(__file__).with_name("faults_plugin.py")
        self.episodes: list[dict[str, Any]] = []
        if (folder / "episodes.jsonl").exists():
            self.episodes = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]

    @property
    def signals(self) -> int:
        return sum(sum(episode["signals"].values()) for episode in self.episodes)

    def expected(self, scenario: str) -> dict[str, Any]:
        """The records of an undisturbed run, made once."""
        file = self.folder / f"expected-{scenario}.json"
        if not file.exists():
            results = self.folder / f"undisturbed-{scenario}"
            code = finish(start_driver(scenario, results, self.log, self.plugin), 1800)
            if code != 0:
                sys.exit(f"the undisturbed run of {scenario} ended with {code}: see {self.log}")
            file.write_text(json.dumps(done_records(results)))
        found: dict[str, Any] = json.loads(file.read_text())
        return found

    def run_episode(self, scenario: str) -> Episode:
        number = len(self.episodes)
        choose = random.Random(f"{self.seed}/{number}")
        episode = Episode(number, scenario, choose.choice([1, 1, 2, 3, 4]) if scenario != "workers" else 1)
        results = self.folder / f"episode-{number}"
        shutil.rmtree(results, ignore_errors=True)
        expected = self.expected(scenario)
        drivers = [self.start(scenario, results) for _ in range(episode.drivers)]
        quota = QUOTA[scenario]
        while sum(episode.signals.values()) < quota and len(done_records(results)) < len(expected):
            acted = time.time()
            time.sleep(choose.uniform(0.02, 3.0 if scenario == "workers" else 0.7))
            drivers = self.revive(scenario, results, drivers)
            if scenario == "training" and choose.random() < IN_TRAINING:
                until = time.monotonic() + 30.0  # on a busy machine it takes seconds from a start to the first step
                while time.monotonic() < until and not is_training(results, acted):
                    time.sleep(0.05)
                    drivers = self.revive(scenario, results, drivers)
            self.act(choose, drivers, results, episode, acted)
        self.token.unlink(missing_ok=True)
        for pid in drivers:
            if is_alive(pid) and finish(pid, 600) is None:
                episode.problems.append("a driver that was left alone did not end")
                os.killpg(pid, signal.SIGKILL)
        code = finish(self.start(scenario, results), 600)
        if code != 0:
            episode.problems.append(f"the last run ended with {code}")
        episode.problems += compare(expected, results)
        self.episodes.append(json.loads(json.dumps(asdict(episode))))
        with (self.folder / "episodes.jsonl").open("a") as file:
            file.write(json.dumps(asdict(episode)) + "\n")
        if not episode.problems:
            shutil.rmtree(results, ignore_errors=True)
        return episode

    def start(self, scenario: str, results: Path) -> int:
        return start_driver(scenario, results, self.log, self.plugin)

    def revive(self, scenario: str, results: Path, drivers: list[int]) -> list[int]:
        """Start a driver for each that has died: a signal needs a moment to end its process."""
        return [pid if is_alive(pid) else self.start(scenario, results) for pid in drivers]

    def act(self, choose: random.Random, drivers: list[int], results: Path, episode: Episode, before: float) -> None:
        """Do one thing to one driver or what is below it; count it if something was hit."""
        action = choose.choices(list(ACTIONS), list(ACTIONS.values()))[0]
        target = choose.choice(drivers)
        training = is_training(results, before)
        pause = choose.uniform(0.05, 0.8)
        if not (self.wait_for(action) if action in MOMENTS else hit(action, target, choose, pause)):
            return
        episode.signals[action] = episode.signals.get(action, 0) + 1
        episode.while_training += training and episode.scenario == "training"

    def wait_for(self, moment: str) -> bool:
        """Whether a process came to a named moment, and died there."""
        self.token.write_text(moment)
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            if not self.token.exists():
                return True
            time.sleep(0.02)
        self.token.unlink(missing_ok=True)
        return False


def is_training(results: Path, since: float) -> bool:
    """Whether a checkpoint was written after this time: one that is older may be of a training that was killed."""
    with contextlib.suppress(OSError):  # a folder that is being read goes away when its training ends
        return any(path.stat().st_mtime > since for path in (results / "scratch").glob("*/checkpoint*"))
    return False


def hit(action: str, driver: int, choose: random.Random, pause: float) -> bool:
    """Send a signal; whether there was a process that it could hit."""
    kind, name = action.split()
    family = below(driver)
    if kind == "worker":
        targets = [choose.choice(family)] if family else []
    elif kind == "group":
        targets = [psutil.Process(driver), *family] if is_alive(driver) else []
    else:
        targets = [psutil.Process(driver)] if is_alive(driver) else []
    for target in targets:
        with contextlib.suppress(psutil.Error):
            if name == "STOP/CONT":
                target.suspend()
                time.sleep(pause)
                target.resume()
            else:
                target.send_signal(signal.Signals[f"SIG{name}"])
    return bool(targets)


# Comparison.


def lines_of(results: Path) -> list[dict[str, Any]]:
    """All records that any writer has completed; a torn line at the end of a file is not one."""
    found = []
    for path in sorted((results / "records").glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
    return found


def done_records(results: Path) -> dict[str, Any]:
    """Finished records by key, without what two equal runs may differ in."""
    from tabbench.results.record import Record

    done = [line for line in lines_of(results) if Record.from_json(line).is_done]
    return {
        line["key"]: {name: value for name, value in line.items() if name not in VOLATILE}
        for line in json.loads(json.dumps(done))
    }


def compare(expected: dict[str, Any], results: Path) -> list[str]:
    """What is lost, doubled or changed. Trials of a study that had to give up on one are no part of the comparison."""
    from tabbench.results.record import Record

    found = done_records(results)
    written = Counter(line["key"] for line in lines_of(results) if Record.from_json(line).is_done)
    problems = [f"lost: {key}" for key in expected.keys() - found.keys()]
    problems += [f"changed: {key}" for key in expected.keys() & found.keys() if expected[key] != found[key]]
    problems += [f"doubled: {key}" for key in expected if written[key] > 1]
    problems += [f"unknown result: {key}" for key in found.keys() - expected.keys() if found[key]["kind"] == "result"]
    return problems


def report(campaign: Campaign) -> str:
    """The campaign as a Markdown table."""
    total: Counter[str] = Counter()
    for episode in campaign.episodes:
        total += Counter(episode["signals"])
    training = sum(episode["while_training"] for episode in campaign.episodes)
    workers = sum(number for action, number in total.items() if action.startswith("worker"))
    several = sum(sum(each["signals"].values()) for each in campaign.episodes if each["drivers"] > 1)
    problems = [problem for episode in campaign.episodes for problem in episode["problems"]]
    rows = [f"| {action} | {total[action]} |" for action in ACTIONS]
    rows += [f"| all ({len(campaign.episodes)} episodes) | {sum(total.values())} |"]
    rows += [f"| while an encoder was trained | {training} |", f"| on workers | {workers} |"]
    rows += [f"| with two to four drivers | {several} |", f"| lost, doubled or changed | {len(problems)} |"]
    return "\n".join(["| signal | number |", "|---|---:|", *rows, *problems])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--signals", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no episode after this time")
    parser.add_argument("--scenarios", default="tuning,training,tuning,training,workers")
    asked = parser.parse_args()
    folder = asked.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("TABBENCH_CACHE", str(folder / "cache"))
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
    prepare(folder)
    campaign = Campaign(folder, asked.seed)
    until = time.monotonic() + 60 * asked.minutes
    scenarios = asked.scenarios.split(",")
    while campaign.signals < asked.signals and time.monotonic() < until:
        episode = campaign.run_episode(scenarios[len(campaign.episodes) % len(scenarios)])
        done = f"{campaign.signals} of {asked.signals}"
        said = "; ".join(episode.problems) or "as undisturbed"
        print(f"episode {episode.number} ({episode.scenario}): {sum(episode.signals.values())} signals, {said}; {done}")
        sys.stdout.flush()
    print(report(campaign))
    sys.exit(any(episode["problems"] for episode in campaign.episodes))


def prepare(folder: Path) -> None:
    """Import what drivers and workers need, once for all of them."""
    import optuna  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import sklearn.linear_model
    import sklearn.metrics  # noqa: F401
    import torch

    import tabbench.cli.run
    import tabbench.running.driver
    import tabbench.running.steps
    import tabbench.running.worker  # noqa: F401

    torch.set_num_threads(1)
    install_moments(folder / "moment")


if __name__ == "__main__":
    main()
