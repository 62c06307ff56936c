"""The network stays in step with the fleet and its devices, and is changed by one command at a time."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.network.namespaces import PATIENCE, SERVICE, Hypervisor, hypervisor
from tests.network.test_link_local import FLEET, TENANTS

pytestmark = pytest.mark.end_to_end

THIRD = ("vm", "add", "third", "--address", "10.0.0.3", "--tap", "tap3", "--mark", "19")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Hypervisor]:
    with hypervisor(tmp_path) as machine:
        yield machine


def rules(machine: Hypervisor) -> str:
    return machine.run("nft", "list", "ruleset")


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@contextmanager
def following(machine: Hypervisor) -> Iterator[None]:
    words = machine.inside(sys.executable, "-m", "forewarn", "network", "setup", "--follow")
    with (machine.directory / "follow.log").open("w") as log:
        follower = subprocess.Popen(words, cwd=machine.directory, stdout=log, stderr=log)
    try:
        yield
        assert follower.poll() is None, (machine.directory / "follow.log").read_text()
    finally:
        follower.terminate()
        follower.wait()


def test_a_vm_that_is_added_at_run_time_gets_its_guards(machine: Hypervisor) -> None:
    """It is answered by its mark soon after, as is one whose mark changes; when it is removed, its mark is gone."""
    machine.settings(FLEET, 'identity = "mark"\n')
    with following(machine):
        wait_for(lambda: SERVICE in machine.run("ip", "address"))
        guest = machine.guest(3)
        machine.serve()
        assert guest.ask() in ("", "403")
        machine.forewarn(*THIRD)
        wait_for(lambda: guest.ask() == "third")
        (machine.directory / "fleet.toml").write_text(FLEET.replace("mark = 17", "mark = 27"))
        machine.forewarn("fleet", "apply", "fleet.toml")
        wait_for(lambda: '"tap1" : 0x0000001b' in rules(machine))
        assert guest.ask() == "third"

        machine.forewarn("vm", "remove", "third", "--yes")
        wait_for(lambda: '"tap3" : ' not in rules(machine))


def test_a_tap_and_a_bridge_that_come_back_are_set_up_again(machine: Hypervisor) -> None:
    """Also where no hook tells of them."""
    machine.settings(TENANTS, 'identity = "tap"\n')
    with following(machine):
        wait_for(lambda: "chain input" in rules(machine))
        machine.serve()
        blue = machine.guest(1, "10.0.0.1", bridge="")
        wait_for(lambda: blue.ask() == "blue")


def test_without_a_service_vms_on_record_are_guarded(machine: Hypervisor) -> None:
    """At boot the network comes before the service, and the fleet file does not know what was added at run time."""
    machine.settings(FLEET, 'identity = "mark"\n')
    machine.forewarn("network", "setup")
    with machine.serving():
        machine.forewarn(*THIRD)
    machine.forewarn("network", "setup")

    assert '"tap3" : 0x00000013' in rules(machine)
    assert '"tap1" : 0x00000011' in rules(machine)


def test_two_setups_at_once_are_one_after_the_other(machine: Hypervisor) -> None:
    """All of them succeed, however many hooks run together."""
    machine.settings(FLEET, 'identity = "mark"\n')
    words = machine.inside(sys.executable, "-m", "forewarn", "network", "setup")
    running = [
        subprocess.Popen(words, cwd=machine.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(4)
    ]
    said = [each.communicate(timeout=PATIENCE)[0] for each in running]

    assert [each.returncode for each in running] == [0] * 4, said
    assert sum("nothing is missing" in each for each in said) == 3


def test_a_setup_that_waits_says_for_whom(machine: Hypervisor) -> None:
    """The other one is named by its process."""
    machine.settings(FLEET, "")
    holding = """
from forewarn.network import system
with system.locked(print):
    print("mine", flush=True)
    input()
"""
    with subprocess.Popen(
        machine.inside(sys.executable, "-c", holding), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "mine\n"
        with subprocess.Popen(
            machine.inside(sys.executable, "-m", "forewarn", "network", "setup"),
            cwd=machine.directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as second:
            assert second.stderr is not None
            result = f"'forewarn network' in process {holder.pid} is changing the network; waiting for it\n"
            assert second.stderr.readline() == result
            holder.stdin.write("\n")
            holder.stdin.flush()
            assert second.wait(PATIENCE) == 0
    assert SERVICE in machine.run("ip", "address")
