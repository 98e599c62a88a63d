"""A shared file system shows what another machine has written only after a while."""

import shutil
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest
from harness import Bench

from tabbench import Event, Executor, Job, Limits, run_job
from tabbench.data.cache import CACHE_VARIABLE, cache_dir
from tabbench.errors import Evicted
from tabbench.results.lag import appears
from tabbench.results.store import Store


class Lagging(Executor):
    """Runs jobs in this process. What they make is invisible for ``lag`` seconds."""

    patience = 5.0
    lag: ClassVar[float] = 0.6
    ran: ClassVar[list[str]] = []

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.queue: list[Job] = []

    @property
    def slots(self) -> int:
        return 1

    def submit(self, job: Job) -> None:
        self.queue.append(job)

    def wait(self, seconds: float) -> list[Event]:
        if not self.queue:
            time.sleep(0.05)
            return []
        job = self.queue.pop()
        self.ran.append(job.kind)
        outcome = run_job(job, self.site.limits)
        made = self.site.results / "artefacts" / job.kind / job.key
        if made.exists():
            hidden = made.with_name(f".{job.key}-{len(self.ran)}")
            made.rename(hidden)
            threading.Timer(self.lag, hidden.rename, [made]).start()
        return [Event(job.key, outcome=outcome), Event(job.key, outcome=outcome)]

    def close(self) -> None:
        pass


class Blind(Lagging):
    """What its jobs make never comes."""

    patience = 0.2
    lag = 3600.0

    def wait(self, seconds: float) -> list[Event]:
        events = super().wait(seconds)
        for timer in threading.enumerate():
            if isinstance(timer, threading.Timer):
                timer.cancel()
        return events


def test_a_run_waits_for_what_its_nodes_have_made(bench: Bench) -> None:
    Lagging.ran.clear()
    summary = bench.run(executor=Lagging, controls=[])
    assert summary.failures == []
    assert Lagging.ran == ["pretrain", "encode", "fit"], "nothing is done twice"


def test_what_never_appears_is_said_in_a_sentence(bench: Bench) -> None:
    summary = bench.run(executor=Blind, controls=[])
    ((_, outcome),) = summary.failures
    assert outcome.status == "lost"
    assert "did not appear within 0.2 s: the file system lags, or is not shared" in outcome.error


def test_a_job_waits_for_what_another_node_has_made(tmp_path: Path) -> None:
    store = Store(tmp_path, patience=5.0)
    folder = store.artefact("encode", "k")
    with store.write_artefact("encode", "k") as draft:
        (draft / "train.npy").write_text("rows")
    (folder / "train.npy").rename(folder / ".late")
    threading.Timer(0.3, (folder / ".late").rename, [folder / "train.npy"]).start()
    assert store.open_artefact("encode", "k") == folder
    assert (folder / "train.npy").read_text() == "rows"


def test_a_job_that_waits_in_vain_is_tried_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(Evicted, match=r"encode/k is not visible from .* after 0.1 s"):
        Store(tmp_path, patience=0.1).open_artefact("encode", "k")


def test_a_job_waits_for_the_table_that_the_driver_has_fetched(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    (step,) = bench.plan(ssl=["none"]).records
    cache, empty = cache_dir(), bench.store.root / "cache"
    table = empty / step.payload.manifest.path
    table.parent.mkdir(parents=True)
    monkeypatch.setenv(CACHE_VARIABLE, str(cache))  # run_job sets it; put it back
    places = {"store": str(bench.store.root), "cache": str(empty)}
    lost = run_job(step.to_job(**places, patience=0.1), Limits())
    assert lost.status == "lost"
    assert lost.error.endswith(" after 0.1 s: its file system lags, or is not shared")
    late = Path(shutil.copy(cache / step.payload.manifest.path, empty / "late"))
    threading.Timer(0.3, late.rename, [table]).start()
    assert run_job(step.to_job(**places, patience=20.0), Limits()).status == "ok"


def test_a_file_is_looked_for_by_listing_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of a network file system believes its cache until the folder is listed."""
    listed: list[Path] = []
    real = Path.exists

    def cached(path: Path) -> bool:
        return listed.count(path.parent) > 1 and real(path)

    monkeypatch.setattr("os.listdir", lambda folder: listed.append(Path(folder)) or [])  # type: ignore[func-returns-value]
    monkeypatch.setattr(Path, "exists", cached)
    (tmp_path / "file").touch()
    path = tmp_path / "file"
    assert appears(path.exists, path, 5.0)
    assert listed.count(tmp_path) == 2
