"""A real SLURM of two nodes on this machine: munged, slurmctld, two slurmd, with accounting if asked for.

It needs the Debian packages slurm-wlm and munge (for accounting also slurmdbd and mariadb-server) and no systemd.
Everything stands in a scratch folder, listens on 127.0.0.1 and is gone when the context ends.

    with SlurmCluster(folder) as cluster:
        cluster.run("sbatch", "script.sh")
"""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType

from cluster.daemons import Daemons, free_ports

TOOLS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel")
ACCOUNTING_TOOLS = ("slurmdbd", "sacct", "sacctmgr", "mariadbd", "mariadb-install-db", "mariadb")
MEMORY = 4000
"""Megabytes of each node, as SLURM is told."""


def missing(accounting: bool = False) -> list[str]:
    """Programs that a cluster would need and that are not there."""
    wanted = TOOLS + (ACCOUNTING_TOOLS if accounting else ())
    return [name for name in wanted if _find(name) is None]


def _find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _path(name: str) -> str:
    found = _find(name)
    assert found is not None, f"{name} is not installed"
    return found


class SlurmCluster:
    """Nodes n1 and n2 with one CPU each in the partition main; the partition closed starts nothing."""

    def __init__(self, folder: Path, accounting: bool = False) -> None:
        # The socket's path may have 107 characters, and munged wants a place that others cannot change.
        self.folder = folder
        self.accounting = accounting
        self.config = folder / "slurm.conf"
        self.daemons = Daemons(folder, str(folder))
        self.ports = dict(zip(("controller", "n1", "n2", "accounting", "database"), free_ports(5), strict=True))

    @property
    def variables(self) -> dict[str, str]:
        """What a process needs in its environment to use this cluster."""
        return {"SLURM_CONF": str(self.config)}

    def run(self, *command: str, seconds: float = 30) -> str:
        """A SLURM command's output; an error if it fails."""
        done = subprocess.run(
            command, env={**os.environ, **self.variables}, capture_output=True, text=True, timeout=seconds, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    def queue(self) -> list[tuple[str, str, str]]:
        """(id, state, node) of each job that has not ended."""
        lines = self.run("squeue", "--noheader", "--array", "--format=%i %T %N").splitlines()
        return [(*parts, "")[:3] for parts in (tuple(line.split()) for line in lines)]  # type: ignore[misc]

    def resume(self) -> None:
        """Bring nodes back that were set down; those that are back by themselves cannot be brought back."""
        for node in ("n1", "n2"):
            with contextlib.suppress(AssertionError):
                self.run("scontrol", "update", f"nodename={node}", "state=resume")

    def __enter__(self) -> SlurmCluster:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def _start(self) -> None:
        for name in ("state", "spool.n1", "spool.n2"):
            (self.folder / name).mkdir()
        self._start_munge()
        self.config.write_text(self._slurm_conf())
        if self.accounting:
            self._start_accounting()
        self.daemons.start("slurmctld", _path("slurmctld"), "-D", "-f", str(self.config), **self.variables)
        for node in ("n1", "n2"):
            self.start_node(node)
        self.daemons.wait_until(self._is_up, "the nodes do not become idle", 60)

    def start_node(self, node: str) -> None:
        self.daemons.start(node, _path("slurmd"), "-D", "-N", node, "-f", str(self.config), **self.variables)

    def _is_up(self) -> bool:
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            return self.run("sinfo", "--noheader", "--partition=main", "--format=%t %D").split() == ["idle", "2"]
        return False

    def _stop(self) -> None:
        with contextlib.suppress(AssertionError, OSError, subprocess.TimeoutExpired):
            self.run("scancel", "--signal=KILL", "--full", f"--user={getpass.getuser()}", seconds=10)
            self.run("scancel", f"--user={getpass.getuser()}", seconds=10)
        self.daemons.stop_all()

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        self.daemons.start(
            "munged",
            _path("munged"),
            "--foreground",
            "--force",
            f"--key-file={key}",
            f"--socket={self.folder / 'munge.socket'}",
            f"--pid-file={self.folder / 'munge.pid'}",
            f"--log-file={self.folder / 'munge.log'}",
            f"--seed-file={self.folder / 'munge.seed'}",
        )
        self.daemons.wait_until((self.folder / "munge.socket").exists, "munged does not listen")

    def _slurm_conf(self) -> str:
        host, folder, user = socket.gethostname().partition(".")[0], self.folder, getpass.getuser()
        storage = "AccountingStorageType=accounting_storage/none"
        if self.accounting:
            storage = (
                "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=localhost\n"
                f"AccountingStoragePort={self.ports['accounting']}\nAccountingStoragePass={folder}/munge.socket"
            )
        return f"""\
ClusterName=tb
SlurmctldHost={host}(127.0.0.1)
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={self.ports["controller"]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=2
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=2000
ReturnToService=1
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,requeue_delay=1
MpiDefault=none
SwitchType=switch/none
KillWait=5
MinJobAge=300
OverTimeLimit=0
{storage}
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={self.ports["n1"]} CPUs=1 RealMemory={MEMORY} State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={self.ports["n2"]} CPUs=1 RealMemory={MEMORY} State=UNKNOWN
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
PartitionName=closed Nodes=n1,n2 MaxTime=INFINITE State=DOWN
"""

    def _start_accounting(self) -> None:
        database = self.folder / "database"
        database.mkdir()
        options = [f"--datadir={database}", f"--user={getpass.getuser()}", "--no-defaults"]
        subprocess.run(
            [_path("mariadb-install-db"), "--no-defaults", *options[:2], "--auth-root-authentication-method=normal"],
            check=True,
            capture_output=True,
            timeout=120,
        )
        server_socket = self.folder / "database.socket"
        self.daemons.start(
            "mariadbd", _path("mariadbd"), "--no-defaults", *options[:2], f"--port={self.ports['database']}",
            "--bind-address=127.0.0.1", f"--socket={server_socket}", f"--pid-file={self.folder / 'database.pid'}",
            "--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900", "--innodb-log-file-size=16M",
        )  # fmt: skip
        self.daemons.wait_until(server_socket.exists, "mariadbd does not listen")
        statements = (
            "CREATE DATABASE slurm_acct_db; CREATE USER slurm@'%' IDENTIFIED BY 'x'; "
            "CREATE USER slurm@localhost IDENTIFIED BY 'x'; "
            "GRANT ALL ON slurm_acct_db.* TO slurm@'%'; GRANT ALL ON slurm_acct_db.* TO slurm@localhost;"
        )
        subprocess.run(
            [_path("mariadb"), "--no-defaults", f"--socket={server_socket}", "--user=root", "--execute", statements],
            check=True,
            capture_output=True,
            timeout=30,
        )
        config = self.folder / "slurmdbd.conf"
        config.write_text(f"""\
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={self.ports["accounting"]}
SlurmUser={getpass.getuser()}
LogFile={self.folder}/slurmdbd.log
PidFile={self.folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={self.ports["database"]}
StorageUser=slurm
StoragePass=x
StorageLoc=slurm_acct_db
""")
        config.chmod(0o600)
        self.daemons.start("slurmdbd", _path("slurmdbd"), "-D", "-v", **self.variables)
        self.daemons.wait_until(self._accounting_answers, "slurmdbd does not answer", 60)

    def _accounting_answers(self) -> bool:
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            self.run("sacctmgr", "--noheader", "list", "cluster", seconds=5)
            return True
        return False
