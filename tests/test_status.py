"""``tabbench status`` shows what drivers do, while they do it."""

import json
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from harness import TOYS, tabbench


def status(results: Path) -> dict[str, Any]:
    done = tabbench("status", "--results", results, "--json")
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.slow
def test_a_run_is_seen_at_work_killed_and_done(tmp_path: Path) -> None:
    results = tmp_path / "results"
    command = [sys.executable, "-P", "-m", "tabbench", "run", "--plugin", str(TOYS), "--ssl", "none",
               "--model", "nearest", "--data", "wine", "--seeds", "2", "--jobs", "1", "--set", "nearest.sleep=10",
               "--offline", "-q", "--results", str(results)]  # fmt: skip
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            told: dict[str, Any] = status(results) if (results / "drivers").is_dir() else {"running": 0}
            if told["running"] and told["drivers"][0]["jobs"][0]["total"]:
                break
            time.sleep(0.5)
        (one,) = told["drivers"]
        assert (told["running"], told["ready"], one["alive"], one["executor"]) == (1, 1, True, "local")
        (job,) = one["jobs"]
        assert (job["label"], job["kind"], job["total"]) == ("wine/0 none + nearest seed 0", "fit", 10)
        shown = tabbench("status", "--results", results).stdout
        assert f"{one['host']} {driver.pid}, --executor local: running for" in shown
        assert "1 running, 0 queued, 1 ready, 0 waiting for other steps; 1 at a time" in shown
        assert f"    {one['host']}: wine/0 none + nearest seed 0 " in shown
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    (one,) = status(results)["drivers"]
    assert (one["alive"], one["ended"]) == (False, "")
    shown = tabbench("status", "--results", results).stdout
    assert "dead; last heard from" in shown
    assert f"  resume with: {shlex.join(['tabbench', *command[4:]])}\n" in shown


def test_a_finished_run_says_how_it_ended_and_the_last_error(tmp_path: Path) -> None:
    done = tabbench("run", "--plugin", TOYS, "--ssl", "none", "--model", "nearest", "--data", "wine", "--offline",
                    "--executor", "inline", "--seeds", "2",
                    "--set", 'nearest.behave={"1": "fail"}', "--results", tmp_path)  # fmt: skip
    assert done.returncode == 3, done.stderr
    told = status(tmp_path)
    assert told["records"] == {"failed": 1, "ok": 1}
    (one,) = told["drivers"]
    assert (one["ended"], one["done"], one["failed"], one["jobs"]) == ("failed", 1, 1, [])
    error = "wine/0 none + nearest seed 1: RuntimeError: the toy was told to fail (toy_plugin.py:"
    assert one["last_error"].startswith(error)
    shown = tabbench("status", "--results", tmp_path).stdout.splitlines()
    assert shown[0] == f"{tmp_path}: records: 1 failed, 1 ok"
    assert shown[-1].startswith(f"  last error: {error}")


def test_a_folder_without_results_is_one_line(tmp_path: Path) -> None:
    done = tabbench("status", "--results", tmp_path / "nowhere")
    assert done.returncode == 2
    assert done.stderr.startswith("tabbench: no results in")


def write(results: Path, **said: Any) -> None:
    """What a driver left behind."""
    (results / "drivers").mkdir(exist_ok=True)
    now = time.time()
    driver = {"id": "d", "host": socket.gethostname(), "pid": 2**22 + 1, "executor": "slurm", "started": now - 100,
              "command": "tabbench run --ssl vime", "time": now, "total": 9, "done": 4, **said}  # fmt: skip
    (results / "drivers" / f"{driver['id']}.json").write_text(json.dumps(driver))


def lines_about(results: Path) -> list[str]:
    """The text without its first two lines."""
    return tabbench("status", "--results", results).stdout.splitlines()[2:]


def test_a_driver_on_another_machine_is_judged_by_its_signs_of_life(tmp_path: Path) -> None:
    now = time.time()
    write(tmp_path, host="n7", time=now - 20, slots=2, ready=3, waiting_for="no node is free (Resources)",
          jobs=[{"label": "wine/0 pretrain vime", "kind": "pretrain", "node": "n8", "since": now + 5, "step": 3,
                 "total": 10}])  # fmt: skip
    lines = lines_about(tmp_path)
    assert lines[0].startswith(f"n7 {2**22 + 1}, --executor slurm: running for 1 min 4")
    assert lines[1:] == [
        "  4 of 9 steps done, 0 failed",
        "  1 running, 0 queued, 3 ready, 0 waiting for other steps; 2 at a time",
        "    n8: wine/0 pretrain vime 3/10 (0.0 s)",
        "  waiting: no node is free (Resources)",
    ]
    write(tmp_path, host="n7", time=now - 200, waiting_for="no node is free (Resources)")
    lines = lines_about(tmp_path)
    assert lines[0].startswith(f"n7 {2**22 + 1}, --executor slurm: probably dead; no sign of life for 3 min 2")
    assert lines[1:] == ["  4 of 9 steps done, 0 failed", "  resume with: tabbench run --ssl vime"]


def test_a_dead_driver_says_how_to_resume_unless_that_was_done(tmp_path: Path) -> None:
    now = time.time()
    write(tmp_path, time=now - 7200)
    assert lines_about(tmp_path) == [
        f"{socket.gethostname()} {2**22 + 1}, --executor slurm: dead; last heard from 2 h 0 min ago",
        "  4 of 9 steps done, 0 failed",
        "  resume with: tabbench run --ssl vime",
    ]
    write(tmp_path, id="e", started=now - 60, time=now - 3600, ended="done", done=9)
    assert lines_about(tmp_path) == [
        f"{socket.gethostname()} {2**22 + 1}, --executor slurm: done 1 h 0 min ago",
        "  9 of 9 steps done, 0 failed",
        "",
        f"{socket.gethostname()} {2**22 + 1}, --executor slurm: dead; last heard from 2 h 0 min ago; resumed later",
        "  4 of 9 steps done, 0 failed",
    ]


def test_of_many_drivers_that_have_ended_the_latest_are_shown(tmp_path: Path) -> None:
    for number in range(8):
        write(tmp_path, id=f"d{number}", pid=number, ended="done", started=1000.0 + number)
    lines = lines_about(tmp_path)
    assert [line.split()[1] for line in lines if "--executor" in line] == ["7,", "6,", "5,", "4,", "3,"]
    assert lines[-1] == "and 3 more that ran earlier (all of them with --json)"
    assert len(status(tmp_path)["drivers"]) == 8


def test_records_from_elsewhere_have_no_driver(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    assert tabbench("status", "--results", tmp_path).stdout == (
        f"{tmp_path}: records: none\nno driver is running here, and none has run here lately\n"
    )


def test_a_driver_that_has_just_begun_is_starting(tmp_path: Path) -> None:
    write(tmp_path, host="n7", executor="", total=0, done=0, started=time.time() + 60)
    assert lines_about(tmp_path) == [f"n7 {2**22 + 1}, --executor ?: running for 0.0 s", "  starting"]
