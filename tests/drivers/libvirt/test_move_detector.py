"""The fleet follows guests that somebody moves, also while nobody listened; with two daemons and a real service."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from forewarn.clocks import SystemClock
from forewarn.config.settings import Settings
from forewarn.config.values import ListenAddress
from forewarn.core.facts import AnyFact, ObservationRecorded, VmMoved
from forewarn.core.model import Caller, CallerKind, GroupKind, GroupTerms, Host, ObservationKind
from forewarn.fleetfile.parser import DesiredFleet
from forewarn.journal.memory import MemoryJournal
from forewarn.node.feed import Commit
from forewarn.wiring import Assembly
from tests.drivers.libvirt.daemons import Daemons
from tests.drivers.libvirt.hypervisor import Guest
from tests.drivers.libvirt.test_service import Listener, until

pytestmark = pytest.mark.end_to_end

ANN = Caller(CallerKind.OPERATOR, "ann")


@asynccontextmanager
async def service(daemons: Daemons, guest: Guest, facts: list[AnyFact]) -> AsyncIterator[Assembly]:
    """A service that knows both hosts and has the guest on h1."""

    def publish(commit: Commit) -> None:
        facts.extend(fact for entry in commit.entries for fact in entry.facts)

    assembly = Assembly(
        Settings(metadata=ListenAddress("127.0.0.1", 0)), SystemClock(), MemoryJournal(), daemons.driver()
    )
    assembly.node.replica.subscribe(Listener(publish))
    await assembly.start()
    try:
        terms = GroupTerms(guest.name, GroupKind.STANDALONE)
        hosts = {name: Host(name) for name in ("h1", "h2")}
        await assembly.declare(DesiredFleet(hosts, {guest.name: terms}, {guest.name: guest.vm}), ANN)
        yield assembly
    finally:
        await assembly.stop()


def place(assembly: Assembly, guest: Guest) -> Callable[[], str]:
    return lambda: assembly.node.replica.fleet.vms[guest.name].standing_on


def test_the_fleet_follows_there_and_back(daemons: Daemons) -> None:
    """Each move is recorded as seen; that the old host forgets the guest is no removal."""
    guest, facts = daemons.boot(), list[AnyFact]()

    async def play() -> None:
        async with service(daemons, guest, facts) as assembly:
            where = place(assembly, guest)
            await asyncio.to_thread(daemons.migrate, guest, "h2")
            await until(lambda: where() == "h2")
            await asyncio.to_thread(daemons.migrate, guest, "h1")
            await until(lambda: where() == "h1")

    asyncio.run(play())
    seen = [fact.observation.what for fact in facts if isinstance(fact, ObservationRecorded)]

    assert [fact.host for fact in facts if isinstance(fact, VmMoved)] == ["h2", "h1"]
    assert seen == [ObservationKind.MOVED, ObservationKind.MOVED]
    assert daemons.running(guest) == ["h1"]


def test_a_move_that_nobody_saw_is_found(daemons: Daemons) -> None:
    """The guest was moved before the service began, h1 still defines it, and both daemons die meanwhile."""
    guest, facts = daemons.boot(), list[AnyFact]()
    daemons.migrate(guest, "h2", undefine=False)

    async def play() -> None:
        async with service(daemons, guest, facts) as assembly:
            daemons.kill("h1")
            daemons.start("h1")
            daemons.kill("h2")
            daemons.start("h2")
            await until(lambda: place(assembly, guest)() == "h2")

    asyncio.run(play())

    assert {fact.observation.what for fact in facts if isinstance(fact, ObservationRecorded)} == {
        ObservationKind.MOVED
    }
    assert daemons.running(guest) == ["h2"]
