"""A real Slurm cluster of one node, ``vm0``: its controller and its daemon, on free ports of the loopback."""

import getpass
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from tests.cleaning import closed_on_failure
from tests.ports import free_port

CONFIGURATION = """\
ClusterName=trial
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/controller.pid
SlurmdPidFile={place}/daemon.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
MpiDefault=none
ReturnToService=1
SlurmdParameters=config_overrides
NodeName=vm0 NodeAddr=127.0.0.1 NodeHostname=localhost CPUs=2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """The cluster; its tools find it by ``SLURM_CONF``."""

    def __init__(self, place: Path) -> None:
        for name in ("state", "spool"):
            (place / name).mkdir()
        self.configuration = place / "slurm.conf"
        self._over = place / "over"
        ports = {"controller": free_port(), "daemon": free_port()}
        self.configuration.write_text(CONFIGURATION.format(place=place, user=getpass.getuser(), **ports))
        self._log = (place / "log").open("wb")
        self._processes = [self._start("slurmctld", "-D", "-i")]
        with closed_on_failure(self._end):
            # A daemon that finds no controller waits for minutes before it asks again.
            wait_until(lambda: "is UP" in self.run("scontrol", "ping"), "the controller answers")
            self._processes.append(self._start("slurmd", "-D", "-N", "vm0"))
            self.wait_for_state("idle")

    def _start(self, *argv: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(argv, env=self.environment, stdout=self._log, stderr=self._log)

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"SLURM_CONF": str(self.configuration)}

    def run(self, *argv: str) -> str:
        ended = subprocess.run(argv, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        return ended.stdout.strip()

    def state(self) -> str:
        """Return the node's state without the star of one that has not answered yet."""
        return self.run("sinfo", "--noheader", "--Node", "--nodes=vm0", "--format=%T").rstrip("*")

    def wait_for_state(self, *states: str) -> None:
        wait_until(lambda: self.state() in states, f"the node is {' or '.join(states)}")

    def begin_job(self) -> str:
        """Begin a job that runs until the cluster is closed; return its id."""
        work = f"--wrap=until [ -e {self._over} ]; do sleep 0.1; done"
        job = self.run("sbatch", "--parsable", "--chdir=/", "--output=/dev/null", work)
        self.wait_for_state("mixed", "allocated")
        return job

    def close(self) -> None:
        self._over.touch()
        try:
            # A job that cannot say that it ended stays behind.
            wait_until(lambda: not self.run("squeue", "--noheader", "--states=RUNNING"), "all jobs have ended")
        finally:
            self._end()

    def _end(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait(60)
        self._log.close()


def wait_until(holds: Callable[[], bool], what: str) -> None:
    for _ in range(1200):
        if holds():
            return
        threading.Event().wait(0.1)
    raise AssertionError(f"it never became so that {what}")
