"""A real Pacemaker and corosync cluster of two nodes, n1 and n2, each in namespaces of its own.

    n1: eth0 10.77.0.1 ──veth── n2: br0 10.77.0.2

Every node has its own network, host name, processes, /run and /dev/shm. Needs root, and nothing of the machine is
touched. A node can be stopped as by a power cut, and started again with its disk.
"""

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from forewarn.agent.handlers.pacemaker_tools import ClusterResource, read_resources

TOOLS = ("crm_attribute", "crm_mon", "crm_node")

# corosync wants a new line after each brace.
COROSYNC = """\
totem {
    version: 2
    cluster_name: trial
    transport: knet
    crypto_cipher: none
    crypto_hash: none
}
nodelist {
    node {
        name: n1
        nodeid: 1
        ring0_addr: 10.77.0.1
    }
    node {
        name: n2
        nodeid: 2
        ring0_addr: 10.77.0.2
    }
}
quorum {
    provider: corosync_votequorum
    two_node: 1
    wait_for_all: 0
}
logging {
    to_stderr: yes
    to_syslog: no
}
"""

# Everything prefers n1; the database takes a second to stop and another to start.
CONFIGURATION = """\
<cib validate-with="pacemaker-3.0" admin_epoch="1" epoch="0" num_updates="0">
  <configuration>
    <crm_config>
      <cluster_property_set id="options">
        <nvpair id="deadtime" name="dc-deadtime" value="2s"/>
        <nvpair id="stonith" name="stonith-enabled" value="false"/>
        <nvpair id="quorum" name="no-quorum-policy" value="ignore"/>
      </cluster_property_set>
    </crm_config>
    <nodes/>
    <resources>
      <primitive id="web" class="ocf" provider="pacemaker" type="Dummy"/>
      <primitive id="database" class="ocf" provider="pacemaker" type="Dummy">
        <instance_attributes id="database-attributes">
          <nvpair id="database-slow" name="op_sleep" value="1"/>
        </instance_attributes>
      </primitive>
      <clone id="everywhere">
        <primitive id="watcher" class="ocf" provider="pacemaker" type="Dummy"/>
      </clone>
    </resources>
    <constraints>
      <rsc_location id="web-prefers" rsc="web" node="n1" score="50"/>
      <rsc_location id="database-prefers" rsc="database" node="n1" score="50"/>
    </constraints>
  </configuration>
  <status/>
</cib>
"""

# Called in new namespaces as: NAME DISK
NODE = """\
set -eu
hostname "$1"
for directory in /dev/shm /run /var/log /var/lib/corosync; do mount -t tmpfs tmpfs "$directory"; done
mount --bind "$2/corosync" /etc/corosync
mount --bind "$2/pacemaker" /var/lib/pacemaker
mkdir -p /run/lock
install -d -o hacluster -g haclient /var/log/pacemaker
ip link set lo up
until ip -4 address show | grep -q 10.77; do sleep 0.05; done
corosync -f >"$2/corosync.log" 2>&1 &
until corosync-cmapctl -g runtime.votequorum.this_node_id >/dev/null 2>&1; do sleep 0.1; done
exec pacemakerd >"$2/pacemaker.log" 2>&1
"""


class Cluster:
    """Two nodes; the tools of ``tools`` speak to n1 from outside."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.tools = place / "tools"
        self._environment = dict(os.environ)
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._make_tools()
        self._start_node("n2")
        self._link("n2", "add", "br0", "type", "bridge")
        self._give_address("n2", "br0", "10.77.0.2/24")
        self.start()

    def start(self) -> None:
        """Start n1, and plug it in; return before its cluster is up."""
        self._start_node("n1")
        self._link("n1", "add", "eth0", "type", "veth", "peer", "name", "n1", "netns", str(self._pid("n2")))
        self._link("n2", "set", "n1", "master", "br0", "up")
        self._give_address("n1", "eth0", "10.77.0.1/24")

    def cut_power(self, node: str = "n1") -> None:
        process = self._nodes.pop(node)
        process.kill()
        process.wait()

    def close(self) -> None:
        for node in list(self._nodes):
            self.cut_power(node)

    def run(self, *argv: str, node: str = "n1") -> str:
        """Run a tool on a node; return what it printed."""
        return subprocess.run(
            ["nsenter", "-t", str(self._pid(node)), "-m", "-n", "-u", "-i", "-p", *argv],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
            env=self._environment,
        ).stdout.strip()

    def settle(self) -> None:
        """Have everything as at the beginning, and wait for it."""
        wait_until(self._both_online, "both nodes are online")
        for node in ("n1", "n2"):
            self.run("crm_attribute", "--node", node, "--name", "standby", "--delete")
        self.manage("web", is_managed=True)
        wait_until(
            lambda: self.where() == {"web": ["n1"], "database": ["n1"], "watcher": ["n1", "n2"]}, "all at home"
        )

    def manage(self, resource: str, *, is_managed: bool) -> None:
        value = str(is_managed).lower()
        self.run("crm_resource", "-r", resource, "--meta", "-p", "is-managed", "-v", value)

    def is_standby(self) -> bool:
        asked = ("crm_attribute", "--node", "n1", "--name", "standby", "--query", "--quiet", "--default", "off")
        return self.run(*asked) == "on"

    def where(self) -> dict[str, list[str]]:
        """Return on which nodes each resource is started; what moves is nowhere."""
        found: dict[str, list[str]] = {}
        for each in self.resources():
            found.setdefault(each.id, []).extend(each.nodes if each.role == "Started" else ())
        return {name: sorted(nodes) for name, nodes in found.items()}

    def resources(self) -> list[ClusterResource]:
        return read_resources(self.run("crm_mon", "--one-shot", "--output-as=xml", node="n2"))

    def _both_online(self) -> bool:
        try:
            return self.run("crm_mon", "--one-shot", "--output-as=xml").count(' online="true"') == 2
        except subprocess.CalledProcessError:
            return False

    def _start_node(self, name: str) -> None:
        disk = self.place / name
        if not disk.exists():
            _make_disk(disk)
        self._nodes[name] = subprocess.Popen(
            [
                *("unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"),
                *("sh", "-c", NODE, "node", name, str(disk)),
            ]
        )
        wait_until(lambda: bool(self._children(name)), f"{name} has begun")
        (self.place / f"{name}.pid").write_text(str(self._pid(name)))
        wait_until(lambda: self._has_own_network(name), f"{name} has its network")

    def _children(self, name: str) -> list[str]:
        pid = self._nodes[name].pid
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()

    def _pid(self, name: str) -> int:
        return int(self._children(name)[0])

    def _has_own_network(self, name: str) -> bool:
        return Path(f"/proc/{self._pid(name)}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()

    def _link(self, node: str, *argv: str) -> None:
        subprocess.run(["nsenter", "-t", str(self._pid(node)), "-n", "ip", "link", *argv], check=True)

    def _give_address(self, node: str, device: str, address: str) -> None:
        self._link(node, "set", device, "up")
        subprocess.run(
            ["nsenter", "-t", str(self._pid(node)), "-n", "ip", "address", "add", address, "dev", device],
            check=True,
        )

    def _make_tools(self) -> None:
        self.tools.mkdir()
        for tool in TOOLS:
            path = self.tools / tool
            path.write_text(
                f'#!/bin/sh\nexec nsenter -t "$(cat {self.place}/n1.pid)" -m -n -u -i -p /usr/sbin/{tool} "$@"\n'
            )
            path.chmod(0o755)


def _make_disk(disk: Path) -> None:
    (disk / "corosync").mkdir(parents=True)
    (disk / "corosync" / "corosync.conf").write_text(COROSYNC)
    for name in ("", "cib", "pengine", "blackbox", "cores"):
        (disk / "pacemaker" / name).mkdir()
        shutil.chown(disk / "pacemaker" / name, "hacluster", "haclient")
    configuration = disk / "pacemaker" / "cib" / "cib.xml"
    configuration.write_text(CONFIGURATION)
    configuration.chmod(0o600)
    shutil.chown(configuration, "hacluster", "haclient")


def wait_until(holds: Callable[[], bool], what: str) -> None:
    for _ in range(300):
        if holds():
            return
        threading.Event().wait(0.2)
    raise AssertionError(f"a minute has passed, and it is not so that {what}")
