"""Plans of rollouts, made from the committed fleet, and from what was recorded of earlier events."""

import asyncio
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from forewarn.control.server.rollout_planner import RolloutPlanner, experience_from
from forewarn.core.facts import Announced, AnyFact, Approved, Attempted, Completed, Entry, RolloutHostChanged, Started
from forewarn.core.model import NODE, Caller, CallerKind, Operation
from forewarn.core.rollouts.model import HostStep, RolloutOperation, RolloutTerms
from forewarn.core.rollouts.prediction import HOST_COMMAND, Spread
from forewarn.journal.memory import MemoryJournal
from forewarn.node.driver import ImpactDone, ImpactUnderway
from forewarn.node.leader import Leader
from forewarn.node.rollout_checks import RolloutChecker
from tests.core.harness import NOON
from tests.node.harness import NodeHarness, run
from tests.node.test_performer import ScriptedDriver
from tests.wire.samples import event

REBOOT = event(id="e", operation=Operation.HOST_REBOOT, announced_at=NOON, not_before=NOON)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def entries_of(*facts: AnyFact) -> list[Entry]:
    return [Entry(number, NOON, "c", NODE, (fact,)) for number, fact in enumerate(facts, 1)]


def life_of(*drivers: str) -> list[Entry]:
    """Return the entries of a reboot that was approved after 40 s, and took 30 s; each driver made an attempt."""
    return entries_of(
        Announced(REBOOT),
        Approved("e", after(40), Caller(CallerKind.VM, "web-0")),
        Started("e", after(60), "approved"),
        *(Attempted("e", after(60), driver=driver) for driver in drivers),
        Completed("e", after(90)),
    )


def test_a_plan_finds_that_hosts_of_one_wave_have_nowhere_to_move_their_vms() -> None:
    """They cannot take each other's."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        planner = RolloutPlanner(harness.node, journal, RolloutChecker(), None, runs_commands=True, moves_live=False)
        terms = RolloutTerms(operation=RolloutOperation.COMMAND, all_hosts=True, command="update")
        assert (await planner.plan("k", terms)).problems == ()
        together = await planner.plan("k", replace(terms, parallel=2))
        assert "cannot leave h1: no other host is up" in together.problems[0]

    run(story, journal)


@pytest.mark.parametrize(
    ("drivers", "counts"),
    [
        (("libvirt",), True),
        (("libvirt", "libvirt"), True),
        (("qemu",), False),
        (("qemu", "libvirt"), False),
        (("",), False),
    ],
    ids=["the driver", "the driver again", "another", "both", "not recorded"],
)
def test_durations_count_for_the_driver_that_made_them(drivers: tuple[str, ...], *, counts: bool) -> None:
    """Another driver takes its own time; how long groups take to approve does not depend on it."""
    known = experience_from([life_of(*drivers)], driver="libvirt")
    assert known.impacts == ({"host reboot": Spread(30, 30, 30)} if counts else {})
    assert known.approvals == {"web": Spread(40, 40, 40)}


@pytest.mark.parametrize(("driver", "counts"), [("libvirt", True), ("command", False), ("", False)])
def test_commands_on_hosts_count_for_the_driver_that_ran_them(driver: str, *, counts: bool) -> None:
    """As events do."""
    steps = entries_of(
        RolloutHostChanged("k", "h1", after(0), HostStep.COMMAND, driver=driver),
        RolloutHostChanged("k", "h1", after(20), HostStep.DONE, exit_status=0),
    )
    known = experience_from([], [steps], "libvirt")
    assert known.impacts == ({HOST_COMMAND: Spread(20, 20, 20)} if counts else {})


@pytest.mark.parametrize("is_immediate", [False, True])
def test_a_changed_driver_has_no_experience(*, is_immediate: bool) -> None:
    """What the journal tells of an operation is recorded with the driver that the settings name."""
    journal = MemoryJournal()
    terms = RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True)

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        harness.node.driver_name = "libvirt"
        driver = ScriptedDriver(ImpactUnderway(harness.clock.now() + timedelta(seconds=30)), ImpactDone())
        driver.is_immediate = is_immediate
        leader = Leader(harness.node, driver)
        await leader.lead()
        done = harness.next(Completed)
        await harness.approve(*(await harness.operate_host("reboot", "h2")))
        while not driver.asked or leader.busy:
            await asyncio.to_thread(bool)
        harness.clock.advance(timedelta(seconds=30))
        await done
        await leader.resign()
        for name, recorded in (("libvirt", 30.0), ("qemu", 0.0)):
            harness.node.driver_name = name
            planner = RolloutPlanner(
                harness.node, journal, RolloutChecker(), None, runs_commands=True, moves_live=False
            )
            assert (await planner.plan("k", terms)).recorded.host == recorded

    run(story, journal)
