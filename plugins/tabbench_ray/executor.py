"""Workers as Ray actors, one per slot. Ray chooses the node; retries, limits and results are ours."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import socket
import tempfile
import time
from typing import Any

import ray

from tabbench import Config as AnyConfig
from tabbench import Outcome, PoolWorker, Site, UsageError, WorkerPool
from tabbench_ray.actor import Message, Slot
from tabbench_ray.config import RayConfig, Resources

LISTEN = 5.0
"""Seconds that a node waits for messages before it answers that there are none."""
COUNT_EVERY = 10.0
"""Seconds between counts of the cluster's slots."""
CONNECT_SECONDS = 10.0
OBJECT_STORE = 80 * 2**20
"""Bytes of the object store when we start Ray. No data goes through it."""


class RayWorker(PoolWorker):
    """An actor, as the driver sees it."""

    def __init__(self, number: int, flavour: str, pool: RayExecutor) -> None:
        super().__init__(number, flavour)
        self.log = pool.site.logs / f"ray-{os.getpid()}-{number}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        options = pool.options(flavour)
        threads = pool.site.limits.threads
        self.actor: Any = pool.remote_slot.options(**options).remote(threads, str(self.log))
        self.place = {"scheduler_job": ray.get_runtime_context().get_job_id()}
        self.ended = False
        self.pending: Any = self.actor.listen.remote(LISTEN)

    def send(self, message: Message) -> None:
        self.actor.send.remote(message)

    def kill(self) -> None:
        with contextlib.suppress(Exception):  # it is dead already, or Ray is
            ray.kill(self.actor, no_restart=True)


class RayExecutor(WorkerPool):
    """As many actors as there is work for, up to ``--jobs`` or the number of CPUs in the cluster."""

    Config = RayConfig
    remote = True
    patience = 30.0
    failed_starts = 3

    def __init__(self, site: Site, config: AnyConfig | None = None, **settings: Any) -> None:
        super().__init__(site, config, **settings)
        self.idle_seconds = self.config.idle
        self.folder = ""
        self._connect()
        # Ray must neither restart an actor nor repeat a call: the driver decides what is tried again.
        self.remote_slot: Any = ray.remote(max_restarts=0, max_task_retries=0, max_concurrency=4)(Slot)
        self._counted, self._slots = 0.0, 0
        self._check_resources()

    @property
    def slots(self) -> int:
        """The number the user asked for, or else as many as the cluster has room for right now."""
        if self.site.slots:
            return self.site.slots
        if time.monotonic() - self._counted > COUNT_EVERY:
            self._counted = time.monotonic()
            self._slots = self._count_slots()
        return self._slots

    def flavour(self, kind: str) -> str:
        """Kinds of jobs with their own resources have their own workers."""
        special = getattr(self.config, kind, None)
        return kind if isinstance(special, Resources) and special != Resources() else ""

    def options(self, flavour: str) -> dict[str, Any]:
        """What an actor requests from Ray."""
        config: RayConfig = self.config.for_kind(flavour) if flavour else self.config
        on_gpu = self.site.limits.device.startswith("cuda")
        gpus = config.gpus or (1 if on_gpu else 0)
        options: dict[str, Any] = {"num_cpus": config.cpus or self.site.limits.threads, "num_gpus": gpus}
        if config.memory is not None:
            options["memory"] = int(config.memory * 2**30)
        return {**options, "resources": dict(config.resources)}

    def start_worker(self, number: int, flavour: str) -> PoolWorker:
        return RayWorker(number, flavour, self)

    def poll(self) -> None:
        """Collect messages from the nodes. Each node has one open request, which it answers when it has messages."""
        requests = {worker.pending: worker for worker in self.workers if isinstance(worker, RayWorker)}
        if not requests:
            return
        answered, _ = ray.wait(list(requests), num_returns=len(requests), timeout=0)
        for request in answered:
            worker = requests[request]
            try:
                for message in ray.get(request):
                    self.hear(worker, message)
                worker.pending = worker.actor.listen.remote(LISTEN)
            except ray.exceptions.RayError as error:
                if not worker.ended:
                    worker.ended = True
                    self.hear(worker, {"gone": _why(error), "failed": not _is_node_death(error)})

    def ending(self, worker: PoolWorker, outcome: Outcome) -> Outcome:
        """Report the job as lost if the actor is gone, not just its process: that is never the job's fault."""
        assert isinstance(worker, RayWorker)
        return Outcome("lost", error=outcome.error) if worker.ended else outcome

    def why_waiting(self) -> str:
        waiting = sum(not worker.about for worker in self.workers)
        if not waiting:
            return ""
        free = ", ".join(f"{name} {value:g}" for name, value in self._resources(ray.available_resources()).items())
        return f"{waiting} actor(s) waiting for resources; free in the cluster: {free or 'nothing'}"

    def close(self) -> None:
        super().close()
        with contextlib.suppress(Exception):
            ray.shutdown()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _connect(self) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
        address = self.config.address
        if address:
            _check_address(address)
            try:
                ray.init(address=address, **quiet)
            except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
                raise UsageError(f"--set ray.address={address}: {' '.join(str(error).split())[:200]}") from None
            return
        # On this machine only, and not in /tmp/ray, which may belong to another user.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        self.folder = folder = tempfile.mkdtemp(prefix="tabbench-ray-")
        ray.init(
            num_cpus=self.site.slots and self.site.slots * self.site.limits.threads, include_dashboard=False,
            object_store_memory=OBJECT_STORE, _temp_dir=folder, **quiet,
        )  # fmt: skip

    def _check_resources(self) -> None:
        """Refuse resources that no node has: an actor would wait for them forever."""
        if self.config.autoscaling:
            return
        flavours = {self.flavour(kind) for kind in ("pretrain", "encode", "trial", "fit")}
        nodes = [self._resources(node["Resources"]) for node in ray.nodes() if node["Alive"]]
        names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
        for flavour in flavours:
            options = self.options(flavour)
            wanted = {names[key]: value for key, value in options.items() if key in names} | options["resources"]
            for name, value in wanted.items():
                if value and not any(node.get(name, 0) >= value for node in nodes):
                    setting = "gpus" if name == "GPU" else "cpus" if name == "CPU" else name
                    raise UsageError(
                        f"--set ray.{flavour + '.' if flavour else ''}{setting}={value:g}: no node of the Ray cluster "
                        "has that; if the cluster starts nodes on demand, add --set ray.autoscaling=true"
                    )

    def _count_slots(self) -> int:
        """How many workers fit on all nodes together."""
        options = self.options("")
        slots = 0
        for node in ray.nodes():
            if node["Alive"]:
                offers = node["Resources"]
                by_cpu = int(offers.get("CPU", 0) // options["num_cpus"])
                gpus = options["num_gpus"]
                slots += min(by_cpu, int(offers.get("GPU", 0) // gpus)) if gpus else by_cpu
        return max(1, slots)

    def _resources(self, offered: dict[str, float]) -> dict[str, float]:
        """Without the entries that Ray adds for its own use."""
        return {name: value for name, value in offered.items() if ":" not in name and name != "object_store_memory"}


def _check_address(address: str) -> None:
    """Refuse an address where nothing listens: Ray would keep trying for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        return  # auto, or something that Ray understands
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise UsageError(
            f"--set ray.address={address}: no answer ({error.strerror or error}); "
            "'ray start --head' prints the address; auto finds a Ray on this machine"
        ) from None


def _is_node_death(error: BaseException) -> bool:
    return "node" in str(error).lower() and "died" in str(error).lower()


def _why(error: BaseException) -> str:
    """Ray's reason in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = next((line for line in lines if "because" in line or "cause" in line.lower()), lines[0] if lines else "")
    return f"its Ray actor died: {cause[:300]}"
