"""The parts of one service, joined: it can be asked whether it is idle, and is entered where it is told."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from forewarn.clocks import ManualClock
from forewarn.config.settings import Settings
from forewarn.config.values import ListenAddress
from forewarn.core.commands import OperateVm, VmOperation
from forewarn.core.errors import BadInput, Unavailable
from forewarn.core.model import Caller, CallerKind, GroupKind, GroupTerms, Host, Vm
from forewarn.core.rollouts.commands import StartRollout
from forewarn.core.rollouts.model import RolloutOperation, RolloutTerms
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleetfile.parser import DesiredFleet
from forewarn.journal.memory import MemoryJournal
from forewarn.metadata.service import MetadataService
from forewarn.wiring import Assembly, MetadataServer

OPERATOR = Caller(CallerKind.OPERATOR, "root")
FLEET = DesiredFleet(
    {}, {"web": GroupTerms("web", GroupKind.AVAILABILITY_SET)}, {"web-0": Vm("web-0", "web", address="127.0.0.1")}
)
SETTINGS = Settings(metadata=ListenAddress("127.0.0.1", 0))


class RecordingServer:
    """An entrance that only notes what is asked of it."""

    port = 4711

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def start(self) -> None:
        self.asked.append("start")

    async def stop(self) -> None:
        self.asked.append("stop")


def run(
    story: Callable[[Assembly, ManualClock], Awaitable[None]],
    server: Callable[[MetadataService], MetadataServer] | None = None,
) -> None:
    async def play() -> None:
        clock = ManualClock()
        driver = SimulatedDriver.from_settings({}, clock, 1.0)
        assembly = Assembly(SETTINGS, clock, MemoryJournal(), driver, server)
        async with asyncio.timeout(20):
            await assembly.start()
            try:
                await assembly.declare(FLEET, OPERATOR)
                await story(assembly, clock)
            finally:
                await assembly.stop()

    asyncio.run(play())


def restart() -> OperateVm:
    return OperateVm(id=uuid4().hex, by=OPERATOR, operation=VmOperation.RESTART, vm="web-0")


def test_a_settled_service_has_done_all_that_was_due() -> None:
    """An event that was born Started is under way, and over when its time has passed: nothing is waited for."""

    async def story(assembly: Assembly, clock: ManualClock) -> None:
        await assembly.node.submit(restart())
        await assembly.settled()
        (event,) = assembly.node.replica.fleet.events.values()
        assert event.attempts == 1
        clock.advance(timedelta(seconds=30))
        assert "performer" in assembly.leader.busy
        await assembly.settled()
        assert not assembly.node.replica.fleet.events

    run(story)


def test_changed_maintenance_windows_reach_running_rollouts_at_once() -> None:
    """Nothing else wakes them: the event is postponed to the next window."""

    async def story(assembly: Assembly, clock: ManualClock) -> None:
        vms = FLEET.vms | {"web-1": Vm("web-1", "web", host="h1")}
        await assembly.declare(DesiredFleet({"h1": Host("h1")}, FLEET.groups, vms), OPERATOR)
        terms = RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True)
        await assembly.node.submit(StartRollout(id=uuid4().hex, by=OPERATOR, name="k", terms=terms))
        fleet = assembly.node.replica.fleet
        while not fleet.events:  # noqa: ASYNC110 - there is nothing else to wait for
            await asyncio.sleep(0)
        await assembly.settled()
        (id_,) = fleet.events
        window = f"{clock.now() + timedelta(days=3):%a} 03:00-04:00"
        assembly.reconfigure(msgspec.structs.replace(SETTINGS, maintenance_windows=(window,)))
        while fleet.events[id_].not_before < clock.now() + timedelta(days=2):  # noqa: ASYNC110
            await asyncio.sleep(0)

    run(story)


def test_a_quiet_service_leaves_the_clock_alone() -> None:
    """With nothing under way it is woken once a minute, to see who has gone silent."""

    async def story(assembly: Assembly, clock: ManualClock) -> None:
        await assembly.settled()
        calls = 0
        end = clock.now() + timedelta(hours=1)
        while (due := clock.next_call()) and due <= end:
            clock.advance_to(due)
            await assembly.settled()
            calls += 1
        assert calls <= 62

    run(story)


def test_callers_arrive_where_the_service_is_told() -> None:
    """Any entrance will do; it is opened last and closed first."""
    hatch = RecordingServer()

    async def story(assembly: Assembly, _: ManualClock) -> None:
        assert assembly.port == 4711
        assert hatch.asked == ["start"]

    run(story, lambda _: hatch)
    assert hatch.asked == ["start", "stop"]


def test_sockets_of_others_are_opened_before_anything_is_answered_or_written(tmp_path: Path) -> None:
    """One that cannot be opened ends the start: no caller was answered, and the journal is empty."""
    (tmp_path / "fleet.toml").write_text('[[vm]]\nname = "web-0"\naddress = "127.0.0.1"\n', encoding="utf-8")
    hatch, journal, clock = RecordingServer(), MemoryJournal(), ManualClock()

    def open_sockets() -> None:
        raise Unavailable("another program listens there")

    async def play() -> None:
        settings = msgspec.structs.replace(SETTINGS, fleet=tmp_path / "fleet.toml")
        driver = SimulatedDriver.from_settings({}, clock, 1.0)
        assembly = Assembly(settings, clock, journal, driver, lambda _: hatch)
        with pytest.raises(Unavailable, match="another program listens there"):
            await assembly.start(open_sockets=open_sockets)
        assert assembly.node.replica.revision == 0

    asyncio.run(play())
    assert hatch.asked == ["stop"]


def test_a_start_is_not_refused_for_a_default_vm_that_was_deleted() -> None:
    """What is recorded never is a reason; only an empty journal makes it a mistake."""

    async def play() -> dict[str, str]:
        clock, journal = ManualClock(), MemoryJournal()
        settings = msgspec.structs.replace(SETTINGS, default_vm="web-0")

        def made(settings: Settings) -> Assembly:
            return Assembly(settings, clock, journal, SimulatedDriver.from_settings({}, clock, 1.0))

        with pytest.raises(BadInput, match="default_vm is 'web-0', but the fleet has no such VM"):
            await made(settings).start()
        made(settings).check_default_vm(is_start=False)  # a reload warns of it
        first = made(SETTINGS)
        await first.start()
        await first.declare(DesiredFleet({"h": Host("h")}), OPERATOR)
        await first.stop()
        second = made(settings)
        await second.start()
        await second.stop()
        return second.node.warnings

    assert "until it has" in asyncio.run(play())["default_vm"]
