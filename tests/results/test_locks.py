"""One driver at a time works on a key, with the system's locks and without."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import filelock
import pytest

from tabbench.errors import UsageError
from tabbench.results.drivers import DEAD_AFTER, Driver, Presence, read_drivers
from tabbench.results.locks import Flock, Lease, Pulses
from tabbench.results.store import Store


class Watch:
    """A clock that the test moves."""

    time = 1000.0

    def __call__(self) -> float:
        return self.time


def write_driver(root: Path, name: str, host: str, beat: int = 1, **changes: Any) -> None:
    """A driver that once gave a sign of life, on another machine."""
    (root / "drivers").mkdir(exist_ok=True)
    told = {"id": name, "host": host, "pid": 1, "executor": "local", "command": "", "started": 0.0, "time": 0.0}
    (root / "drivers" / f"{name}.json").write_text(json.dumps({**told, "beat": beat, **changes}))


@pytest.fixture
def presence(tmp_path: Path) -> Any:
    presence = Presence(tmp_path)
    yield presence
    presence.close("done")


def leases(root: Path, presence: Presence, now: Watch | None = None) -> Lease:
    folder = root / "leases"
    folder.mkdir(exist_ok=True)
    return Lease(folder, "key", presence, Pulses(root, now or Watch()))


def test_a_lease_is_for_one_at_a_time(tmp_path: Path, presence: Presence) -> None:
    first, second = leases(tmp_path, presence), leases(tmp_path, presence)
    assert first.take()
    assert not second.take()
    first.release()
    assert second.take()
    second.release()
    assert list((tmp_path / "leases").iterdir()) == []


def test_the_lease_of_a_driver_on_another_machine_ends_a_minute_after_its_last_sign(
    tmp_path: Path, presence: Presence
) -> None:
    watch = Watch()
    write_driver(tmp_path, "there", "elsewhere", beat=1)
    ours = leases(tmp_path, presence, watch)
    (tmp_path / "leases" / "key.1").write_text("there")
    assert not ours.take()
    watch.time += DEAD_AFTER - 1
    write_driver(tmp_path, "there", "elsewhere", beat=2)
    assert not ours.take()
    watch.time += DEAD_AFTER - 1
    assert not ours.take(), "its second sign is younger than a minute"
    watch.time += 2
    assert ours.take()


def test_of_two_that_find_a_holder_dead_one_gets_the_lease(tmp_path: Path, presence: Presence) -> None:
    write_driver(tmp_path, "there", "elsewhere", ended="interrupted")
    both = [leases(tmp_path, presence), leases(tmp_path, presence)]
    (tmp_path / "leases" / "key.1").write_text("there")
    assert [lease.take() for lease in both] == [True, False]
    both[0].release()
    assert both[1].take()


def test_the_lease_of_a_driver_that_was_killed_on_this_machine_is_free_at_once(
    tmp_path: Path, presence: Presence
) -> None:
    code = (
        "import os, sys; from pathlib import Path; from tabbench.results.store import Store; "
        "from tabbench.results.drivers import Presence; store = Store(Path(sys.argv[1]), locks='lease'); "
        "store.presence = Presence(store.root); assert store.lock('key').take(); os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, env=dict(os.environ))
    assert done.returncode == 9
    store = Store(tmp_path, locks="lease", presence=presence)
    assert store.lock("key").take()


def test_a_file_system_without_locks_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise NotImplementedError("FileSystem does not appear to support flock")

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    with pytest.raises(UsageError, match=r"the file system of .* has no locks \(flock\): use --lock lease"):
        Flock(tmp_path / "k.lock").take()


def test_a_driver_leaves_signs_of_life_and_last_words(tmp_path: Path) -> None:
    presence = Presence(tmp_path)
    presence.update(total=7, done=3)
    presence._write()
    (driver,) = read_drivers(tmp_path)
    assert (driver.total, driver.done, driver.beat, driver.ended) == (7, 3, 2, "")
    assert driver.is_alive()
    presence.close("interrupted")
    (driver,) = read_drivers(tmp_path)
    assert driver.ended == "interrupted"
    assert not driver.is_alive()


def test_a_driver_elsewhere_lives_as_long_as_it_gives_signs() -> None:
    driver = Driver("d", "elsewhere", 1, "local", "", started=0.0, time=1000.0)
    assert driver.is_alive(now=1000.0 + DEAD_AFTER - 1)
    assert not driver.is_alive(now=1000.0 + DEAD_AFTER + 1)


def test_a_sign_of_life_that_cannot_be_read_is_not_a_driver(tmp_path: Path) -> None:
    (tmp_path / "drivers").mkdir()
    (tmp_path / "drivers" / "torn.json").write_text('{"id": "to')
    assert read_drivers(tmp_path) == []
