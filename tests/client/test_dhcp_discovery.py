"""A service that only DHCP knows of is found: a real dnsmasq, a real service, a VM without the usual address."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.network.namespaces import Namespace

pytestmark = pytest.mark.end_to_end

SERVICE, VM = "10.99.7.1", "10.99.7.20"
LOOK = "from forewarn.client.dhcp_discovery import offered_endpoints; print(offered_endpoints())"
FLEET = f"""
[[vm]]
name = "edge-0"
address = "{VM}"
"""


class DhcpHarness:
    """A VM on one wire with a host that runs dnsmasq."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.host, self.vm = Namespace(), Namespace()
        stack.callback(self.host.close)
        stack.callback(self.vm.close)
        self._stack = stack
        self._folder = folder
        self.host.run("ip", "link", "add", "fw0", "type", "veth", "peer", "name", "eth0", "netns", str(self.vm.pid))
        self.host.run("ip", "address", "add", f"{SERVICE}/24", "dev", "fw0")
        self.host.run("ip", "link", "set", "fw0", "up")
        self.vm.run("ip", "link", "set", "eth0", "up")

    def start_dnsmasq(self, *options: str) -> None:
        """Hand out addresses, and with them what the options say."""
        words = ("dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0", "--interface=fw0", "--no-ping")
        lease_file = f"--dhcp-leasefile={self._folder / 'leases'}"
        self._stack.enter_context(
            self.host.running(*words, "--dhcp-range=10.99.7.20,10.99.7.30", lease_file, *options)
        )
        self._wait("udp", ":67")

    def start_service(self) -> None:
        (self._folder / "fleet.toml").write_text(FLEET)
        self._stack.enter_context(
            self.host.running(
                *(sys.executable, "-m", "forewarn", "serve", "--data", str(self._folder / "data")),
                *(
                    "--fleet",
                    str(self._folder / "fleet.toml"),
                    "--metadata",
                    f"{SERVICE}:80",
                    "--control",
                    "127.0.0.1:0",
                ),
            )
        )
        self._wait("tcp", ":80")

    def forewarn(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in the VM, as its root."""
        return subprocess.run(
            self.vm.inside(sys.executable, "-m", "forewarn", *words),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        )

    def _wait(self, protocol: str, port: str) -> None:
        deadline = time.monotonic() + 30
        while port not in self.host.run("ss", "-lnH", f"--{protocol}"):
            assert time.monotonic() < deadline, f"nothing listens on {protocol} {port}"
            time.sleep(0.05)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[DhcpHarness]:
    with ExitStack() as stack:
        yield DhcpHarness(stack, tmp_path)


def test_a_real_dhcp_server_names_the_service(harness: DhcpHarness) -> None:
    """To an interface that has no address yet, and leases nothing."""
    harness.start_dnsmasq(f"--dhcp-option=245,{SERVICE}")

    assert harness.vm.run(sys.executable, "-c", LOOK) == f"('{SERVICE}',)\n"
    assert harness.vm.run("ip", "-4", "address", "show", "eth0") == ""


def test_a_dhcp_server_that_knows_of_no_service_names_none(harness: DhcpHarness) -> None:
    """After some seconds it is given up."""
    harness.start_dnsmasq()

    assert harness.vm.run(sys.executable, "-c", LOOK) == "()\n"


def test_the_commands_find_a_service_that_only_dhcp_knows_of(harness: DhcpHarness) -> None:
    """While 169.254.169.254 cannot be reached."""
    harness.start_dnsmasq(f"--dhcp-option=245,{SERVICE}")
    harness.start_service()
    harness.vm.run("ip", "address", "add", f"{VM}/24", "dev", "eth0")

    result = harness.forewarn("whoami", "--json")
    assert result.stderr == ""
    assert {key: json.loads(result.stdout)[key] for key in ("name", "url", "found_by", "long_poll")} == {
        "name": "edge-0",
        "url": f"http://{SERVICE}/metadata/scheduledevents",
        "found_by": "asking by DHCP (option 245)",
        "long_poll": True,
    }
    assert harness.forewarn("events").stdout == "no events are coming to edge-0 or its neighbours\n"


def test_where_nothing_is_found_the_command_says_what_it_tried(harness: DhcpHarness) -> None:
    """And how to go on, with the exit code of a service that is not reachable."""
    ended = harness.forewarn("events")

    assert ended.returncode == 3
    assert ended.stderr.startswith(
        "forewarn: no Scheduled Events service was found: http://169.254.169.254 cannot be"
    )
    assert "; no DHCP lease names one; " in ended.stderr
    assert "--url on the command line" in ended.stderr
