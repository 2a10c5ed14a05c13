"""A Slurm cluster with two nodes on this machine, with its own configuration, keys and ports.

Each node is a slurmd with its own host name, in its own namespace. It claims two GPUs that do not exist, so that jobs
can request them; PyTorch then finds none, and trains on the CPU.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol", "sinfo", "squeue", "unshare")
HOST = socket.gethostname()
NODES = (HOST, f"{HOST}-second")  # other processes find the first one of a job under the name of the first node
SECONDS_TO_START = 60

CONFIGURATION = """
ClusterName=test
SlurmctldHost={nodes[0]}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={nodes[0]} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4 Gres=gpu:2
NodeName={nodes[1]} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4 Gres=gpu:2
PartitionName=debug Nodes=ALL Default=YES
"""


def missing() -> str | None:
    """Why there can be no cluster on this machine, if so."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not found; on Debian: apt-get install slurm-wlm munge"
    if os.geteuid():
        return "only root can give the nodes their host names"
    return None


class Cluster:
    """A context in which the commands of Slurm use this cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Jobs find `ctcdro` on their path, as in an activated environment.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": path}
        self._daemons = ExitStack()

    def __enter__(self) -> Cluster:
        self._configure()
        try:
            munge = [f"--{name}={self.folder}/munge.{name[:3]}" for name in ("key-file", "log-file", "pid-file")]
            munge += [f"--socket={self.folder}/munge.socket", f"--seed-file={self.folder}/munge.seed"]
            self._start("munged", "--foreground", "--force", *munge)
            self._wait_until((self.folder / "munge.socket").exists)
            self._start("slurmctld", "-D")
            for node in NODES:
                self._start("unshare", "--uts", "sh", "-c", f"hostname {node} && exec slurmd -D", log=f"slurmd-{node}")
            self._wait_until(lambda: self.states("sinfo", "%n %T") == dict.fromkeys(NODES, "idle"))
        except BaseException:
            self._daemons.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for job in self.states("squeue", "%A %T"):
            self.run("scancel", job)
        self._daemons.close()

    def _configure(self) -> None:
        with ExitStack() as stack:
            free = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
            ports = [one.getsockname()[1] for one in free]
        text = CONFIGURATION.format(folder=self.folder, ports=ports, nodes=NODES)
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "gres.conf").write_text(f"Name=gpu File={self.folder}/gpu[0-1]\n")
        for number in range(2):
            (self.folder / f"gpu{number}").touch()
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(1024))

    def _start(self, *command: str, log: str | None = None) -> None:
        with open(self.folder / f"{log or command[0]}.log", "w", encoding="utf-8") as file:
            daemon = subprocess.Popen(command, env=self.environment, stdout=file, stderr=subprocess.STDOUT)
        self._daemons.callback(daemon.wait)
        self._daemons.callback(daemon.terminate)

    def _wait_until(self, condition) -> None:
        deadline = time.monotonic() + SECONDS_TO_START
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError("\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.log")))
            time.sleep(0.2)

    def run(self, *command: str) -> str:
        """The output of a command of Slurm."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def states(self, command: str, format: str) -> dict[str, str]:
        """What `squeue` or `sinfo` shows: a mapping from the first field to the second."""
        done = subprocess.run(
            [command, "--noheader", f"--format={format}"], env=self.environment, capture_output=True, text=True
        )
        return dict(line.split() for line in done.stdout.splitlines())
