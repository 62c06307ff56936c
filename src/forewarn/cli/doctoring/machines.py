"""Checks the fleet, the service, the driver and the network of the machines."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from forewarn.cli.doctoring.finding import DoctorReport
from forewarn.cli.networking import recorded
from forewarn.config.settings import Settings
from forewarn.core.errors import BadInput, ForewarnError, Unavailable
from forewarn.core.model import Vm

if TYPE_CHECKING:
    from forewarn.control.bodies import ListenerView
    from forewarn.node.driver import DriverType

_NAMED = 5


class ServiceState(msgspec.Struct):
    """The state of the service and its VMs."""

    is_running: bool = False
    vms: tuple[Vm, ...] | None = None
    """The VMs of the service, else those in the journal and the fleet file; None if they cannot be read."""
    hosts: tuple[str, ...] = ()
    """The names of the fleet's hosts."""
    listeners: "tuple[ListenerView, ...] | None" = None
    """The service's listeners; None if no service answers, or an older one."""


def find_vms(settings: Settings, findings: DoctorReport) -> ServiceState:
    """Read the state from the service; if none answers, from journal and fleet file."""
    from forewarn.cli.doctoring.clock import examine_events
    from forewarn.control.client import ControlClient
    from forewarn.fleetfile.parser import read_fleet_file

    found = ServiceState()
    is_readable = False
    with findings.looking("fleet"):
        if settings.fleet:
            declared = tuple(read_fleet_file(settings.fleet).vms.values())
            findings.ok("fleet", f"{settings.fleet} declares {_counted(declared)}")
        is_readable = True
    with findings.looking("service"):
        try:
            with ControlClient.local(settings.data) as client:
                client.me()  # answered also while the journal cannot be read
                found.is_running = True
                health = client.health()
                found.listeners = health.listeners
                pages = list(client.declared())
                found.vms = tuple(vm for page in pages for vm in page.vms)
                found.hosts = tuple(host.name for page in pages for host in page.hosts)
                examine_events(client.events(), findings)
                left = client.differences()
            for worker in health.workers or ():
                say = findings.ok if worker.is_well else findings.unsure
                say("workers", worker.summary)
            for warning in health.warnings:
                findings.wrong("service", warning)
            findings.ok("service", f"it answers in {settings.data}, and knows {_counted(found.vms)}")
            if left.total:
                named = ", ".join(f"{each.kind} {each.name}" for each in left.differences[:_NAMED])
                more = f" and {left.total - _NAMED} more" if left.total > _NAMED else ""
                file = left.source or "FILE"
                findings.unsure("fleet", f"differs from {file}: {named}{more}; look at 'forewarn fleet diff {file}'")
        except Unavailable as error:
            if found.is_running:
                findings.wrong("service", f"it runs in {settings.data}, but cannot answer: {error}")
            else:
                findings.unsure("service", f"none answers in {settings.data}; start it with 'forewarn serve'")
                _examine_orphans(settings, findings)
    if is_readable and not found.is_running:
        # A journal that cannot be read is a finding already.
        found.vms, found.hosts = recorded(settings, lambda _: None)
    return found


def _examine_orphans(settings: Settings, findings: DoctorReport) -> None:
    """Say which workers still answer although their leader has ended."""
    if sys.platform != "linux":
        return
    from forewarn.workers.locks import holders

    for pid in holders(settings.journal_directory):
        findings.unsure(
            "workers",
            f"process {pid} answers VMs from what it knew when the leader ended, for leader_timeout at most; start"
            " the service again",
        )


def _counted(vms: Sequence[Vm]) -> str:
    return "1 VM" if len(vms) == 1 else f"{len(vms)} VMs"


def examine_driver(settings: Settings, found: ServiceState, findings: DoctorReport) -> None:
    from forewarn import plugin_loader
    from forewarn.node.driver import SupportsSettingsCheck
    from forewarn.node.driver_calls import describe_error

    with findings.looking("driver"):
        kind = cast("DriverType", plugin_loader.load("forewarn.drivers", settings.driver))
        try:
            if isinstance(kind, SupportsSettingsCheck):
                troubles = kind.check_settings(settings.driver_settings, is_running=found.is_running)
                proof = ", and what it calls is there"
            else:
                troubles, proof = _ask_driver(kind, settings, found)
            troubles = msgspec.convert(troubles, tuple[str, ...])
        except (ForewarnError, OSError):
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
            place = f"driver {settings.driver!r}"
            raise BadInput(f"{describe_error(place, kind, error)}; mend it, or name another") from None
        for trouble in troubles:
            findings.wrong("driver", trouble)
        if not troubles:
            findings.ok("driver", f"{settings.driver} can be used{proof}")


def _ask_driver(kind: "DriverType", settings: Settings, found: ServiceState) -> tuple[tuple[str, ...], str]:
    """Return the problems a driver reports, and what its check proves if there is none."""
    from forewarn.clocks import SystemClock
    from forewarn.node.driver import SupportsCheck, SupportsLocation
    from forewarn.node.driver_calls import check_driver

    made = kind.from_settings(settings.driver_settings, SystemClock(), settings.hurry)
    driver = check_driver(settings.driver, made)
    try:
        if isinstance(driver, SupportsCheck):
            vms = found.vms or ()
            if isinstance(driver, SupportsLocation):
                driver.know_hosts(found.hosts)  # a machine may be on a host where no VM of the fleet stands
            return driver.check(vms), f", and reaches the machines of {_counted(vms)}"
        return (), ""
    finally:
        driver.close()


def examine_network(settings: Settings, vms: Sequence[Vm] | None, findings: DoctorReport) -> None:
    """Check the packet filters and routes, if VMs use taps and the VMs are known."""
    if vms is None or settings.metadata.is_loopback or sys.platform != "linux":
        return
    if os.geteuid() != 0:
        findings.unsure("network", "only root may look at packet filters; look as root")
        return
    from forewarn.network import system
    from forewarn.network.checks import NetworkCheck

    with findings.looking("network"):
        system.require(root=True)
        survey = NetworkCheck(settings, vms)
        if absent := survey.missing_bridge():
            findings.wrong("network", absent)
        for step in survey.steps():
            findings.wrong("network", f"missing: {step.what}; run 'forewarn network setup'")
        for note in survey.notes():
            findings.unsure("network", note)
        findings.ok("network", "the address of the service, the routes to VMs and the rules are in place")
