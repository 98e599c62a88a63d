"""The number of threads is part of what is run: the same command gives the same records, whatever the machine."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness import Bench, InProcess
from tabbench_tjepa.config import cpu_has_bf16

from tabbench import worker_environment
from tabbench.results.record import Record
from tabbench.running.launch import make_launcher
from tabbench.running.resources import available_cores


def test_threads_are_in_every_key_unless_there_is_one(bench: Bench) -> None:
    one, also_one = bench.plan(trials=2, ssl_trials=2), bench.plan(trials=2, ssl_trials=2, threads=1)
    two = bench.plan(trials=2, ssl_trials=2, threads=2)
    assert list(one.steps) == list(also_one.steps)
    assert set(one.steps).isdisjoint(two.steps)


def test_jobs_are_as_many_as_there_are_cores_for_their_threads(bench: Bench) -> None:
    for threads in (1, 2):
        executor = make_launcher(bench.registry, threads=threads)(bench.store)
        executor.close()
        assert executor.slots == max(1, available_cores() // threads)


def test_a_job_has_the_threads_of_its_plan_whatever_the_executor_says(bench: Bench) -> None:
    class Generous(InProcess):
        def submit(self, job: Any) -> None:
            self.site = replace(self.site, limits=replace(self.site.limits, threads=7))
            super().submit(job)

    bench.run(executor=Generous, threads=2, controls=[])
    (record,) = bench.store.records()
    assert (record.threads, record.environment and record.environment.threads) == (2, 2)
    (encoder,) = (bench.store.root / "artefacts" / "pretrain").glob("*/step.json")
    assert json.loads(encoder.read_text())["threads"] == 2


def old_folder(bench: Bench, threads: int, **entries: Any) -> None:
    """A folder as version 0.1.0 would have left it: threads are in the environment of results, and nowhere else."""
    bench.run(executor=InProcess, **entries)
    records = bench.store.records()
    for file in (bench.store.root / "records").glob("*.jsonl"):
        file.unlink()
    (bench.store.root / "records.parquet").unlink()
    bench.store = type(bench.store)(bench.store.root)
    for record in records:
        assert record.environment is not None
        used = 0 if record.kind == "trial" else threads
        bench.store.add(replace(record, environment=replace(record.environment, threads=used)))
    for about in (bench.store.root / "artefacts").glob("*/*/step.json"):
        value = json.loads(about.read_text())
        del value["threads"]
        about.write_text(json.dumps(value))


def test_records_of_one_thread_that_version_0_1_0_made_stay(bench: Bench) -> None:
    old_folder(bench, 1, ssl=["none"], trials=3)
    assert bench.run(executor=InProcess, ssl=["none"], trials=3).done == 0
    again = bench.run(executor=InProcess, ssl=["none"], trials=3, seeds=2)
    assert again.done == 1
    trials = [record for record in bench.store.records() if record.kind == "trial"]
    assert all(record.environment and not record.environment.threads for record in trials), "none was run again"


def test_records_of_other_threads_that_version_0_1_0_made_are_run_again(bench: Bench) -> None:
    old_folder(bench, 2, ssl=["none"], trials=3)
    assert bench.run(executor=InProcess, ssl=["none"], trials=3).done == 1
    assert all(record.environment and record.environment.threads == 1 for record in bench.store.records())
    assert bench.run(executor=InProcess, ssl=["none"], trials=3).done == 0


def test_an_encoder_of_unknown_threads_is_made_again(bench: Bench) -> None:
    old_folder(bench, 1, controls=[])
    bench.run(executor=InProcess, controls=[], seeds=2)
    assert [label.split()[1] for label in bench.watcher.begun] == ["pretrain", "encode", "projection"]


def test_the_parquet_copy_knows_the_threads_too(bench: Bench) -> None:
    old_folder(bench, 2, ssl=["none"])
    bench.store.compact()
    again = Bench(bench.store.root)
    assert again.run(executor=InProcess, ssl=["none"]).done == 1


REAL: dict[str, Any] = {
    "ssl": ["tjepa"], "model": ["mlp"], "data": ["digits"], "rows": 300, "seeds": 2,
    "set": {"tjepa": {"exp_epochs": 2, "exp_batch_size": 64}, "mlp": {"max_epochs": 4, "n_layers": 2, "width": 32}},
}  # fmt: skip


def predictions(records: list[Record]) -> dict[str, str]:
    return {record.key: record.hashes.predictions for record in records if record.hashes}


def test_the_same_command_gives_the_same_records_with_any_number_of_jobs_and_any_executor(tmp_path: Path) -> None:
    """Real T-JEPA and MLP, in this process and in two workers."""
    found = []
    for executor, slots in ((InProcess, 1), ("local", 2)):
        bench = Bench(tmp_path / f"{slots}-{executor}", slots=slots)
        bench.run(executor=executor, **REAL)
        found.append((bench.stable_records(), predictions(bench.store.records())))
    assert len(found[0][0]) == 4
    assert found[0] == found[1]


PRODUCTS_OF_MANY_SHAPES = """
import re, torch
from pathlib import Path

def own_memory():
    # Pages of libraries are left out: the system drops and loads them as it likes.
    return int(re.search(r"RssAnon:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 2**10

weight, rows = torch.ones(96, 32).bfloat16(), torch.ones(5000, 32).bfloat16()
torch.mm(weight, rows.t())
before = own_memory()
for n in range(4000, 5000):
    torch.mm(weight, rows[:n].t())
print(own_memory() - before)
"""


@pytest.mark.skipif(not cpu_has_bf16(), reason="needs a CPU that compiles such products: AVX-512 BF16 or AMX")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_worker_does_not_fill_its_memory_with_products_of_shapes_gone_by() -> None:
    def megabytes(environment: dict[str, str]) -> float:
        command = [sys.executable, "-c", PRODUCTS_OF_MANY_SHAPES]
        return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)

    ours = worker_environment(1)
    theirs = {**os.environ, **ours, "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "1024", "LRU_CACHE_CAPACITY": "1024"}
    assert megabytes({**os.environ, **ours}) < megabytes(theirs) * 2 / 3


def test_the_users_own_limit_of_compiled_products_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "7")
    assert worker_environment(1)["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "7"
