"""A host is drained between two real libvirt daemons: running guests move live, one that is off stays off."""

import asyncio
from collections.abc import Callable
from uuid import uuid4

import libvirt
import pytest
from msgspec.structs import replace

from forewarn.clocks import SystemClock
from forewarn.config.settings import Settings
from forewarn.config.values import ListenAddress
from forewarn.control.server.drain_planner import DrainPlanner
from forewarn.core.commands import Approve, DeallocateVm, DrainHost, MoveVm, StartVm
from forewarn.core.errors import Refused
from forewarn.core.model import Caller, CallerKind, EventType, GroupKind, GroupTerms, Host
from forewarn.drivers.libvirt.driver import LibvirtDriver
from forewarn.fleetfile.parser import DesiredFleet
from forewarn.journal.memory import MemoryJournal
from forewarn.node.driver import CandidateHost, ImpactDone
from forewarn.wiring import Assembly
from tests.drivers.impacts import carried_out
from tests.drivers.libvirt.daemons import Daemons
from tests.drivers.libvirt.hypervisor import Guest

pytestmark = pytest.mark.end_to_end
ROOT = Caller(CallerKind.OPERATOR, "root")


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not is_so():  # noqa: ASYNC110 - a guest tells nobody
            await asyncio.sleep(0.05)


async def service(driver: LibvirtDriver, *guests: Guest) -> Assembly:
    assembly = Assembly(Settings(metadata=ListenAddress("127.0.0.1", 0)), SystemClock(), MemoryJournal(), driver)
    await assembly.start()
    terms = {guest.name: GroupTerms(guest.name, GroupKind.STANDALONE) for guest in guests}
    vms = {guest.name: replace(guest.vm, host="h1") for guest in guests}
    await assembly.declare(DesiredFleet({"h1": Host("h1"), "h2": Host("h2")}, terms, vms), ROOT)
    return assembly


def test_a_host_is_drained_and_what_is_off_stays_off(daemons: Daemons) -> None:
    """All is planned by what libvirt tells, each guest goes to its host live, and then starts and stops there."""
    running, off, idle = daemons.boot(), daemons.boot(), daemons.boot()
    off.domain.destroy()
    boots = running.boots

    async def play() -> None:
        driver = daemons.driver(grace="1s", migrations=1, bandwidth=200)
        assembly = await service(driver, running, off, idle)
        node = assembly.node
        try:
            await node.submit(DeallocateVm(id=uuid4().hex, by=ROOT, vm=idle.name, can_switch=True))
            await until(lambda: not node.replica.fleet.power_requests)
            assert idle.state == libvirt.VIR_DOMAIN_SHUTOFF

            plan = await DrainPlanner(node.replica, driver).plan("h1", leave_stuck=False)
            assert plan.placements == {running.name: "h2", off.name: "h2"}
            assert plan.deallocated == (idle.name,)
            command = DrainHost(id=str(uuid4()), by=ROOT, host="h1", placements=plan.placements, live=True)
            await node.submit(command)
            await node.submit(Approve(id=uuid4().hex, by=ROOT, events=tuple(node.replica.fleet.events)))
            await until(lambda: not node.replica.fleet.events)
            assert {node.replica.fleet.vms[name].standing_on for name in plan.placements} == {"h2"}

            await node.submit(MoveVm(id=uuid4().hex, by=ROOT, vm=idle.name, host="h2", can_move=True))
            await node.submit(StartVm(id=uuid4().hex, by=ROOT, vm=idle.name, can_switch=True))
            await until(lambda: not node.replica.fleet.power_requests)
        finally:
            await assembly.stop()

    asyncio.run(play())
    assert daemons.where(running) == daemons.where(off) == daemons.where(idle) == ["h2"]
    assert running.still_runs
    assert running.boots == boots
    assert daemons.running(off) == []
    assert daemons.running(idle) == ["h2"]


def test_who_finds_no_room_is_named_before_anything_moves(daemons: Daemons) -> None:
    """Nothing is cordoned, announced or moved."""
    guest = daemons.boot()

    async def play() -> None:
        driver = daemons.driver(spare_memory=1 << 30)
        assembly = await service(driver, guest)
        try:
            with pytest.raises(Refused) as refused:
                await DrainPlanner(assembly.node.replica, driver).plan("h1", leave_stuck=False)
            assert f"these VMs cannot leave h1: {guest.name} (h2 has 0 MiB left, and it needs 96 MiB)" in str(
                refused.value
            )
            assert not assembly.node.replica.fleet.cordoned
        finally:
            await assembly.stop()

    asyncio.run(play())
    assert daemons.where(guest) == ["h1"]


def test_a_migration_that_lasts_is_switched_to_post_copy(daemons: Daemons) -> None:
    """At one MiB per second the guest's memory would take minutes; it runs on the other host long before."""
    guest = daemons.boot()
    driver = daemons.driver(bandwidth=1, post_copy="2s")

    moved = carried_out(driver, guest.impact(EventType.REDEPLOY, candidates=(CandidateHost(Host("h2")),)))
    assert moved == ImpactDone({guest.name: "h2"})
    assert guest.still_runs
