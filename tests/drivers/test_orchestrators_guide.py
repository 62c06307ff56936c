"""The programs for Proxmox, OpenStack and Incus make the calls that stand in them, to stand-ins for the clients."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from forewarn.clocks import ManualClock
from forewarn.core.model import EventType
from forewarn.drivers.command import CommandDriver
from forewarn.node.driver import ImpactDone, ImpactFailed, ImpactOutcome
from tests.drivers.impacts import NOW, carried_out, impact

pytestmark = pytest.mark.end_to_end

GUIDE = (Path(__file__).parents[2] / "docs/how-to/proxmox-openstack-incus.md").read_text()
PROGRAMS = dict(re.findall(r"<!-- file: (\S+) -->\n\n```sh\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL))

# Each stands where the real client would, notes down how it was called, and answers what is needed.
CLIENTS = {
    "pvesh": """
case "$*" in
*/cluster/resources*) echo '[{"type": "qemu", "name": "a", "node": "pve1", "vmid": 100}]' ;;
*/tasks/*) echo "{\\"status\\": \\"stopped\\", \\"exitstatus\\": \\"${ENDED:-OK}\\"}" ;;
*) echo '"UPID:pve1:0001:0002:0003:task:100:root@pam:"' ;;
esac
""",
    "openstack": """
case "$*" in
"server show"*) if grep -q migrate "$0.called"; then echo h9; else echo h1; fi ;;
*"${BROKEN:-nothing}"*) echo "no valid host" >&2; exit 1 ;;
esac
""",
    "incus": """
case "$*" in
list*) echo h9 ;;
*"${BROKEN:-nothing}"*) echo "Error: not found" >&2; exit 1 ;;
esac
""",
}
PROXMOX, OPENSTACK, INCUS = "forewarn-proxmox", "forewarn-openstack", "forewarn-incus"
CLIENT_OF = {PROXMOX: "pvesh", OPENSTACK: "openstack", INCUS: "incus"}
_LOOKS = ("get /cluster/resources", "get /nodes/", "server show", "list ")


def perform(place: Path, program: str, type: EventType, **environment: str) -> tuple[ImpactOutcome, list[str]]:
    """Have a program do an impact on a VM; return the outcome and the calls that change something."""
    client = place / CLIENT_OF[program]
    client.write_text(f'#!/bin/sh\necho "$*" >> "$0.called"\n{CLIENTS[client.name]}')
    (place / program).write_text(PROGRAMS[program])
    for file in (client, place / program):
        file.chmod(0o755)
    driver = CommandDriver.from_settings(
        {
            "program": str(place / program),
            "environment": {"SPARE_HOST": "h9", "PATH": f"{place}:{os.environ['PATH']}", **environment},
        },
        ManualClock(NOW),
        1.0,
        place / "records",
    )
    outcome = carried_out(driver, impact(type, vms=("a",), duration=0))
    called = (place / f"{client.name}.called").read_text().splitlines()
    return outcome, [
        re.sub(r" --output-format json| --wait", "", call) for call in called if not call.startswith(_LOOKS)
    ]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_is_valid_shell(program: str) -> None:
    """A shell that runs nothing finds no mistake in it."""
    subprocess.run(["sh", "-n"], input=PROGRAMS[program], text=True, check=True)


@pytest.mark.parametrize(
    ("program", "type", "calls"),
    [
        (
            PROXMOX,
            EventType.FREEZE,
            ["create /nodes/pve1/qemu/100/status/suspend", "create /nodes/pve1/qemu/100/status/resume"],
        ),
        (PROXMOX, EventType.REBOOT, ["create /nodes/pve1/qemu/100/status/reboot --timeout 60"]),
        (
            PROXMOX,
            EventType.REDEPLOY,
            ["create /nodes/pve1/qemu/100/migrate --target h9 --online 1 --with-local-disks 1"],
        ),
        (PROXMOX, EventType.PREEMPT, ["create /nodes/pve1/qemu/100/status/stop"]),
        (
            PROXMOX,
            EventType.TERMINATE,
            ["create /nodes/pve1/qemu/100/status/stop", "delete /nodes/pve1/qemu/100 --purge 1"],
        ),
        (OPENSTACK, EventType.FREEZE, ["server pause a", "server unpause a"]),
        (OPENSTACK, EventType.REBOOT, ["server reboot --soft a"]),
        (OPENSTACK, EventType.REDEPLOY, ["server migrate --live-migration a"]),
        (OPENSTACK, EventType.PREEMPT, ["server shelve a"]),
        (OPENSTACK, EventType.TERMINATE, ["server delete a"]),
        (INCUS, EventType.FREEZE, ["pause a", "resume a"]),
        (INCUS, EventType.REBOOT, ["restart a --timeout 60"]),
        (INCUS, EventType.REDEPLOY, ["move a --target h9"]),
        (INCUS, EventType.PREEMPT, ["stop a --force"]),
        (INCUS, EventType.TERMINATE, ["delete a --force"]),
    ],
)
def test_each_event_becomes_the_right_calls(tmp_path: Path, program: str, type: EventType, calls: list[str]) -> None:
    """And a redeploy tells the new host."""
    outcome, called = perform(tmp_path, program, type)

    assert outcome == ImpactDone({"a": "h9"} if type is EventType.REDEPLOY else {})
    assert called == calls


@pytest.mark.parametrize(
    ("program", "environment", "reason"),
    [
        (
            PROXMOX,
            {"ENDED": "no quorum"},
            "exit code 1: create /nodes/pve1/qemu/100/migrate: no quorum",
        ),
        (OPENSTACK, {"BROKEN": "migrate"}, "exit code 1: no valid host"),
        (INCUS, {"BROKEN": "move"}, "exit code 1: Error: not found"),
    ],
)
def test_what_the_platform_complains_of_is_the_reason(
    tmp_path: Path, program: str, environment: dict[str, str], reason: str
) -> None:
    """A move that fails ends the event with the platform's words."""
    outcome, _ = perform(tmp_path, program, EventType.REDEPLOY, **environment)

    assert outcome == ImpactFailed(reason)


@pytest.mark.parametrize(
    ("program", "environment", "second"),
    [
        (OPENSTACK, {"BROKEN": "--soft"}, "server reboot --hard a"),
        (INCUS, {"BROKEN": "--timeout"}, "restart a --force"),
    ],
)
def test_a_machine_that_does_not_listen_is_forced(
    tmp_path: Path, program: str, environment: dict[str, str], second: str
) -> None:
    """Asked first, then made to."""
    outcome, called = perform(tmp_path, program, EventType.REBOOT, **environment)

    assert isinstance(outcome, ImpactDone)
    assert called[-1] == second


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ('echo \'{"hosts": {"a": "h9"}}\'', {"outcome": "done", "hosts": {"a": "h9"}}),
        ('[ "$FOREWARN_EVENT_TYPE $FOREWARN_VMS $1" = "reboot a perform" ]', {"outcome": "done"}),
        ("echo 'no quorum' >&2; exit 1", {"outcome": "failed", "detail": "no quorum"}),
    ],
)
def test_a_receiver_runs_the_same_programs(tmp_path: Path, script: str, outcome: dict[str, object]) -> None:
    """What stands in place of the receiver's ``do`` tells what the program says."""
    (found,) = re.findall(r"<!-- file: do.py -->\n\n```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    names: dict[str, Any] = {"json": json, "outcomes": {}}
    exec(found, names)  # noqa: S102 our own page
    names["PROGRAM"] = str(program)
    asked = impact(vms=("a",))
    names["do"]({"event": asked.event.id, "impact": msgspec.to_builtins(asked)})

    assert names["outcomes"] == {asked.event.id: outcome}
