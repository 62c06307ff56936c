"""The machines: the fleet, the driver that touches them, and the wires they hang on."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from forewarn.cli.doctoring.finding import Findings
from forewarn.config.settings import Settings
from forewarn.core.errors import Unavailable
from forewarn.core.model import Vm

if TYPE_CHECKING:
    from forewarn.node.driver import DriverType


def find_vms(settings: Settings, findings: Findings) -> tuple[bool, tuple[Vm, ...]]:
    """Return whether a service answers, and the VMs: the service's, else the fleet file's."""
    from forewarn.control.client import Client
    from forewarn.control.wish import read

    vms: tuple[Vm, ...] = ()
    is_running = False
    with findings.looking("fleet"):
        if settings.fleet:
            vms = tuple(read(settings.fleet).vms.values())
            findings.ok("fleet", f"{settings.fleet} declares {_counted(vms)}")
    with findings.looking("service"):
        try:
            with Client.local(settings.data) as client:
                vms = tuple(vm for page in client.declared() for vm in page.vms)
            is_running = True
            findings.ok("service", f"it answers in {settings.data}, and knows {_counted(vms)}")
        except Unavailable:
            findings.unsure("service", f"none answers in {settings.data}; start it with 'forewarn serve'")
    return is_running, vms


def _counted(vms: Sequence[Vm]) -> str:
    return "1 VM" if len(vms) == 1 else f"{len(vms)} VMs"


def examine_driver(settings: Settings, vms: Sequence[Vm], findings: Findings, *, is_running: bool) -> None:
    from forewarn import plugins
    from forewarn.node.driver import CheckingSettings

    with findings.looking("driver"):
        kind = cast("DriverType", plugins.load("forewarn.drivers", settings.driver))
        if isinstance(kind, CheckingSettings):
            troubles = kind.check_settings(settings.driver_settings, is_running=is_running)
            proof = ", and what it calls is there"
        else:
            troubles, proof = _ask_driver(kind, settings, vms)
        for trouble in troubles:
            findings.wrong("driver", trouble)
        if not troubles:
            findings.ok("driver", f"{settings.driver} can be used{proof}")


def _ask_driver(kind: "DriverType", settings: Settings, vms: Sequence[Vm]) -> tuple[tuple[str, ...], str]:
    """Return what a driver says of its machines, and what is proved if it says nothing."""
    from forewarn.clocks import SystemClock
    from forewarn.node.driver import Checking

    driver = kind.from_settings(settings.driver_settings, SystemClock(), settings.hurry)
    try:
        if isinstance(driver, Checking):
            return driver.check(tuple(vms)), f", and reaches the machines of {_counted(vms)}"
        return (), ""
    finally:
        driver.close()


def examine_network(settings: Settings, vms: Sequence[Vm], findings: Findings) -> None:
    """Look at the wires, where guests come by some."""
    if settings.metadata.is_loopback or sys.platform != "linux":
        return
    if os.geteuid() != 0:
        findings.unsure("network", "only root may look at packet filters; look as root")
        return
    from forewarn.network import checking, machine

    with findings.looking("network"):
        machine.require(root=True)
        steps = checking.missing(settings, vms)
        for step in steps:
            findings.wrong("network", f"missing: {step.what}; run 'forewarn network setup'")
        for note in checking.notes(settings, vms):
            findings.unsure("network", note)
        if not steps:
            findings.ok("network", "guests reach the service, and none can pretend to be another")
