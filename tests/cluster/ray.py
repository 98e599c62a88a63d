"""A real Ray cluster of several nodes on this machine, each node a raylet of its own with one CPU.

It listens on 127.0.0.1 alone, has its own folder and its own token, and is gone when the context ends.

    with RayCluster(folder, nodes=2) as cluster:
        subprocess.run([..., "--set", f"ray.address={cluster.address}"], env={**os.environ, **cluster.variables})
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import psutil
from cluster.daemons import Daemons, free_ports

ON_LOOPBACK = """
from ray._private import services
services.get_node_ip_address = lambda address=None: "127.0.0.1"
from ray.scripts.scripts import main
main()
"""
"""The program ``ray``, but "this machine" is always 127.0.0.1: Ray itself would take the address of a network card."""
HIDE = 'mount -t tmpfs none "$0" && exec "$@"'
COUNT_NODES = """
import json, ray
ray.init(address="{address}", log_to_driver=False, logging_level="ERROR")
print(json.dumps(sum(node["Alive"] for node in ray.nodes())))
"""


def missing() -> list[str]:
    """Packages that a cluster would need and that are not there."""
    return [] if importlib.util.find_spec("ray") else ["ray"]


class RayCluster:
    """A head and any number of further nodes; ``add_node`` and ``kill_node`` work at any time."""

    def __init__(self, folder: Path, nodes: int = 2, hide: Path | None = None) -> None:
        """Prepare; the nodes do not see what is in ``hide``."""
        self.folder, self.nodes, self.hide = folder, nodes, hide
        self.daemons = Daemons(folder, str(folder))
        (self.port,) = free_ports(1)
        self.address = f"127.0.0.1:{self.port}"
        self._own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token"), "RAY_TMPDIR": str(folder)}
        self._count = 0

    @property
    def variables(self) -> dict[str, str]:
        """What a process needs in its environment to use this cluster: on Windows, Ray stays on the loopback."""
        return {**self._own, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}

    def __enter__(self) -> RayCluster:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "token").write_text(secrets.token_hex(32))
        try:
            self.daemons.start("head", *self._ray_start("--head", f"--port={self.port}", "--include-dashboard=false",
                                                        f"--temp-dir={self.folder}"), **self._own)  # fmt: skip
            self.daemons.wait_until(self._head_listens, "the head does not listen", 60)
            for _ in range(self.nodes - 1):
                self.add_node()
            self.wait_for_nodes(self.nodes)
        except BaseException:
            self.daemons.stop_all()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for name in self.daemons.running:  # they would wait for each other
            with contextlib.suppress(psutil.Error):
                for child in psutil.Process(self.daemons.running[name].pid).children(recursive=True):
                    child.kill()
        self.daemons.stop_all()

    def add_node(self, *options: str) -> str:
        """Start another node; its name."""
        self._count += 1
        name = f"node{self._count}"
        self.daemons.start(name, *self._ray_start(f"--address={self.address}", *options), **self._own)
        return name

    def kill_node(self, name: str) -> None:
        """End a node as a power cut would: its raylet and every worker on it, at once."""
        process = self.daemons.running.pop(name)
        family = psutil.Process(process.pid).children(recursive=True)
        for member in [psutil.Process(process.pid), *family]:
            with contextlib.suppress(psutil.Error):
                member.kill()
        process.wait(10)

    def raylet(self, name: str) -> psutil.Process:
        """The process that is a node, as far as Ray is concerned."""
        family = psutil.Process(self.daemons.running[name].pid).children(recursive=True)
        return next(process for process in family if process.name() == "raylet")

    def wait_for_nodes(self, count: int, seconds: float = 60) -> None:
        self.daemons.wait_until(lambda: self.count_nodes() == count, f"there are not {count} nodes", seconds)

    def count_nodes(self) -> int:
        done = subprocess.run(
            [sys.executable, "-P", "-c", COUNT_NODES.format(address=self.address)],
            env={**os.environ, **self.variables}, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return int(json.loads(done.stdout)) if done.returncode == 0 else 0

    def _head_listens(self) -> bool:
        log = self.folder / "head.out"
        return log.exists() and "--block" in log.read_text()

    def _ray_start(self, *options: str) -> list[str]:
        blind = [] if self.hide is None else ["unshare", "--mount", "sh", "-c", HIDE, str(self.hide)]
        return [
            *blind, sys.executable, "-P", "-c", ON_LOOPBACK, "start", "--num-cpus=1", "--node-ip-address=127.0.0.1",
            "--object-store-memory=100000000", "--disable-usage-stats", "--block", *options,
        ]  # fmt: skip
