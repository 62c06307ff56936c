"""The files for systemd, libvirt and dnsmasq: accepted by those they are for, and doing what they say."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from forewarn.cli.root import cli
from forewarn.config.settings import SYSTEM_FILE
from tests.network.namespaces import SERVICE, Hypervisor, hypervisor
from tests.network.test_link_local import FLEET

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = [DEPLOY / "systemd" / f"forewarn{name}.service" for name in ("", "-network", "-network-follow")]
RELOADED = DEPLOY / "systemd" / "nftables.conf"
HOOK = DEPLOY / "libvirt" / "forewarn"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Hypervisor]:
    with hypervisor(tmp_path) as machine:
        yield machine


def commands() -> Iterator[list[str]]:
    """Yield the words of every command of ours in these files."""
    for unit in (*UNITS, RELOADED, HOOK):
        for line in re.findall(r"(?m)\bforewarn ((?:network|serve) [^:]*?)(?: 2>.*|')?$", unit.read_text("utf-8")):
            yield shlex.split(line)


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_every_command_is_one_that_there_is(words: list[str]) -> None:
    """With the options that it takes."""
    context = click.Context(cli, obj=None, **cli.context_settings)
    command: click.Command = cli
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None
        command = found

    assert command.make_context("forewarn", words, context, resilient_parsing=True).command is command


def test_one_file_says_where_things_are() -> None:
    """Every command of the units and of the hook reads it, and none names another data directory."""
    assert "config=${FOREWARN_CONFIG:-/etc/forewarn/forewarn.toml}" in HOOK.read_text("utf-8")
    result = [words for words in commands() if words[:2] != ["network", "teardown"]]
    assert len(result) == 7
    for words in result:
        assert words[words.index("--config") + 1] in (str(SYSTEM_FILE), "$config")
        assert "--data" not in words


def test_the_network_comes_after_libvirt() -> None:
    """With one daemon for all, or one for networks."""
    unit = UNITS[1].read_text("utf-8")

    assert {"libvirtd.service", "virtnetworkd.service"} <= set(re.findall(r"(?m)^After=(.*)$", unit)[0].split())


@pytest.mark.end_to_end
def test_systemd_accepts_the_units() -> None:
    """Without a word about any of them."""
    done = subprocess.run(["systemd-analyze", "verify", *UNITS], capture_output=True, text=True, check=True)

    assert done.stderr == ""


@pytest.mark.end_to_end
def test_systemd_has_our_rules_put_back_when_others_are_loaded(tmp_path: Path) -> None:
    """With the unit of the package that loads them."""
    unit = tmp_path / "nftables.service"
    unit.write_bytes(Path("/lib/systemd/system/nftables.service").read_bytes())
    (tmp_path / "nftables.service.d").mkdir()
    (tmp_path / "nftables.service.d" / "forewarn.conf").write_bytes(RELOADED.read_bytes())
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=True
    )

    assert done.stderr == ""


def hook(machine: Hypervisor, *words: str, cwd: Path | None = None) -> str:
    """Call the hook as libvirt does, with a description to read; return whether the service's address is there."""
    path = f"PATH={Path(sys.executable).parent}:{os.environ['PATH']}"
    config = f"FOREWARN_CONFIG={machine.directory / 'forewarn.toml'}"
    program = f"echo '<hookData/>' | {HOOK} {shlex.join(words)}"
    machine.run("env", path, config, "sh", "-e", "-c", program, cwd=cwd or machine.directory)
    return "present" if SERVICE in machine.run("ip", "address", "show") else ""


@pytest.mark.end_to_end
def test_the_hook_sets_the_network_up_when_something_starts(machine: Hypervisor) -> None:
    """And does nothing when something stops."""
    machine.settings(FLEET, "")

    assert hook(machine, "default", "stopped", "end", "-") == ""
    assert hook(machine, "default", "started", "begin", "-") == "present"


@pytest.mark.end_to_end
def test_the_hook_never_keeps_a_guest_from_starting(machine: Hypervisor) -> None:
    """Not even when the settings are wrong."""
    machine.settings(FLEET, "no setting\n")

    assert hook(machine, "web-0", "started", "begin", "-") == ""


@pytest.mark.end_to_end
def test_the_hook_asks_the_service_wherever_it_runs(machine: Hypervisor) -> None:
    """It finds the data directory of the settings from any directory, and a VM that was added at run time there."""
    machine.settings(FLEET, 'identity = "mark"\n')
    machine.forewarn("network", "setup")
    machine.serve()
    machine.forewarn("vm", "add", "third", "--tap", "tap3", "--mark", "19")
    hook(machine, "third", "started", "begin", "-", cwd=Path("/"))

    assert '"tap3" : 0x00000013' in machine.run("nft", "list", "table", "bridge", "forewarn")


@pytest.mark.end_to_end
def test_dnsmasq_tells_guests_where_the_service_is(machine: Hypervisor) -> None:
    """In option 245 of its offer, past the rules that guard their addresses."""
    machine.settings(FLEET, "")
    machine.forewarn("network", "setup")
    machine.run("ip", "address", "add", "10.0.0.254/24", "dev", "forewarn0")
    guest = machine.guest(1)
    with machine.running(
        *("dnsmasq", "--no-daemon", "--port=0", f"--conf-file={DEPLOY / 'dnsmasq' / 'forewarn.conf'}"),
        *("--interface=forewarn0", "--dhcp-range=10.0.0.1,10.0.0.9", f"--dhcp-leasefile={machine.directory}/leases"),
    ):
        asking = "from forewarn.client.dhcp_discovery import offered_endpoints; print(offered_endpoints())"
        heard = (guest.run(sys.executable, "-c", asking) for _ in range(10))  # dnsmasq may not be up at first
        assert any("192.0.2.10" in each for each in heard)
