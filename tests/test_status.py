"""``tabbench status`` shows what drivers do, while they do it."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from harness import TOYS, tabbench


def status(results: Path) -> dict[str, Any]:
    done = tabbench("status", "--results", results, "--json")
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_a_run_is_seen_at_work_killed_and_done(tmp_path: Path) -> None:
    results = tmp_path / "results"
    command = [sys.executable, "-P", "-m", "tabbench", "run", "--plugin", str(TOYS), "--ssl", "none",
               "--model", "nearest", "--data", "wine", "--seeds", "2", "--jobs", "1", "--set", "nearest.sleep=30",
               "--offline", "-q", "--results", str(results)]  # fmt: skip
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(60):
            told: dict[str, Any] = status(results) if (results / "drivers").is_dir() else {"running": 0}
            if told["running"] and told["drivers"][0]["jobs"][0]["total"]:
                break
            time.sleep(0.5)
        (one,) = told["drivers"]
        assert (told["running"], told["ready"], one["alive"], one["executor"]) == (1, 1, True, "local")
        (job,) = one["jobs"]
        assert (job["label"], job["kind"], job["total"]) == ("wine/0 none + nearest seed 0", "fit", 10)
        shown = tabbench("status", "--results", results).stdout
        assert f"{one['host']} {driver.pid}, --executor local: at work for" in shown
        assert "1 running, 0 queued, 1 ready, 0 waiting for other steps; 1 at a time" in shown
        assert f"    {one['host']}: wine/0 none + nearest seed 0 " in shown
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    (one,) = status(results)["drivers"]
    assert (one["alive"], one["ended"]) == (False, "")
    shown = tabbench("status", "--results", results).stdout
    assert "dead; last heard of" in shown
    assert "run the same command to resume" in shown


def test_a_finished_run_says_how_it_ended_and_the_last_error(tmp_path: Path) -> None:
    done = tabbench("run", "--plugin", TOYS, "--ssl", "none", "--model", "nearest", "--data", "wine", "--offline",
                    "--seeds", "2", "--set", 'nearest.behave={"1": "fail"}', "--results", tmp_path)  # fmt: skip
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
    assert done.stderr.startswith("tabbench: No results in")
