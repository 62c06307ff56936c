"""The emulator on an event loop: what settled means."""

import asyncio
from datetime import timedelta

import pytest

from forewarn.core.errors import Unavailable
from forewarn.core.facts import VmSwitched
from forewarn.emulator.emulation import Emulation
from forewarn.emulator.setup import EmulationSetup, fleet_of
from forewarn.emulator.verbs import Verb


def test_nothing_is_settled_before_what_was_begun_is_done() -> None:
    """Be it a step of a scenario or a note that has to be recorded."""
    done: list[str] = []

    async def work() -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        done.append("work")

    async def play() -> None:
        emulation = Emulation(EmulationSetup(fleet=fleet_of(["web-0"])), virtual_time=True)
        await emulation.start()
        emulation.spawn(work(), "work")
        await emulation.settled()
        assert done == ["work"]
        await emulation.stop()

    asyncio.run(play())


def test_what_never_ends_is_named_when_patience_is_over() -> None:
    """In real time, though the emulator's own stands still."""

    async def play() -> None:
        emulation = Emulation(EmulationSetup(fleet=fleet_of(["web-0"])), virtual_time=True, patience=0.05)
        await emulation.start()
        may_end = asyncio.Event()

        async def work() -> None:
            await may_end.wait()

        emulation.spawn(work(), "a step of a scenario")
        with pytest.raises(Unavailable, match=r"still busy after 0\.05 s of real time: a step of a scenario"):
            await emulation.settled()
        may_end.set()
        await emulation.settled()
        await emulation.stop()

    asyncio.run(play())


def test_what_is_spawned_and_fails_is_told_to_whoever_waits() -> None:
    """It is a fault of the emulator, and nobody else would hear of it."""

    async def fail() -> None:
        raise ZeroDivisionError

    async def play() -> None:
        emulation = Emulation(EmulationSetup(fleet=fleet_of(["web-0"])), virtual_time=True)
        await emulation.start()
        emulation.spawn(fail(), "fail")
        with pytest.raises(ZeroDivisionError):
            await emulation.settled()
        await emulation.stop()

    asyncio.run(play())


def test_a_vm_can_ask_past_its_door() -> None:
    """It counts as having asked and is shown what there is, but nothing was sent."""

    async def play() -> None:
        emulation = Emulation(EmulationSetup(fleet=fleet_of(["web-0"])), virtual_time=True)
        await emulation.start()
        (life,) = await emulation.do(Verb.REBOOT, vm="web-0")
        await emulation.advance(timedelta(minutes=1))
        await emulation.ask("web-0")
        await emulation.advance(timedelta(seconds=2))
        assert list(life.fetched) == ["web-0"]
        assert not emulation.requests.sent
        await emulation.stop()

    asyncio.run(play())


def test_a_vm_is_stopped_and_started_through_the_driver() -> None:
    """As by the service's commands: the driver's word is recorded, and nothing is settled before."""

    async def play() -> list[bool]:
        emulation = Emulation(EmulationSetup(fleet=fleet_of(["web-0"])), virtual_time=True)
        await emulation.start()
        for verb in (Verb.DEALLOCATE, Verb.START):
            await emulation.do(verb, vm="web-0")
            await emulation.settled()
        facts = [fact for entry in await emulation.node.replica.history("vm:web-0") for fact in entry.facts]
        await emulation.stop()
        return [fact.on for fact in facts if isinstance(fact, VmSwitched)]

    assert asyncio.run(play()) == [False, True]
