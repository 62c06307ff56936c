"""The whole way with a real guest: what befalls it is recorded, and one that died is brought back."""

import asyncio
from collections.abc import Callable

import pytest

from forewarn.clocks import SystemClock
from forewarn.config.settings import Settings
from forewarn.config.values import ListenAddress
from forewarn.core.facts import Completed, ObservationRecorded
from forewarn.core.model import Caller, CallerKind, GroupKind, GroupTerms, Host, ObservationKind
from forewarn.fleetfile.parser import DesiredFleet
from forewarn.journal.memory import MemoryJournal
from forewarn.node.feed import Commit
from forewarn.wiring import Assembly
from tests.drivers.libvirt.hypervisor import Hypervisor

pytestmark = pytest.mark.end_to_end


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(90):
        while not is_so():  # noqa: ASYNC110 - a guest tells nobody
            await asyncio.sleep(0.05)


def test_a_guest_that_died_is_started_anew(hypervisor: Hypervisor) -> None:
    """Its crash is a fact, its failure an event of its own, and when that is over it has booted again."""
    guest = hypervisor.guest()
    boots = guest.boots
    facts: list[object] = []

    def publish(commit: Commit) -> None:
        facts.extend(fact for entry in commit.entries for fact in entry.facts)

    async def play() -> None:
        settings = Settings(metadata=ListenAddress("127.0.0.1", 0))
        driver = hypervisor.driver()
        assembly = Assembly(settings, SystemClock(), MemoryJournal(), driver)
        assembly.node.replica.subscribe(Listener(publish))
        await assembly.start()
        try:
            terms = GroupTerms(guest.name, GroupKind.STANDALONE)
            desired = DesiredFleet({"h1": Host("h1")}, {guest.name: terms}, {guest.name: guest.vm})
            await assembly.declare(desired, Caller(CallerKind.OPERATOR, "root"))
            await until(lambda: bool(driver._hosts._open))
            hypervisor.kill(guest)
            await until(lambda: any(isinstance(fact, Completed) for fact in facts))
        finally:
            await assembly.stop()

    asyncio.run(play())
    (seen,) = (fact.observation for fact in facts if isinstance(fact, ObservationRecorded))

    assert (seen.vm, seen.what) == (guest.name, ObservationKind.CRASHED)
    guest.wait_for_another_boot(boots)


class Listener:
    """Hears what is committed."""

    def __init__(self, publish: Callable[[Commit], None]) -> None:
        self.publish = publish

    def load(self, fleet: object) -> None:
        pass
