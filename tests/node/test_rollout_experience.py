"""What the journal tells of approvals and durations."""

from datetime import datetime, timedelta

import pytest

from forewarn.core.facts import Announced, AnyFact, Approved, Attempted, Completed, Entry, Started
from forewarn.core.model import NODE, Caller, CallerKind, Operation
from forewarn.core.rollouts.facts import RolloutHostChanged
from forewarn.core.rollouts.model import HostStep
from forewarn.core.rollouts.prediction import HOST_COMMAND, Spread
from forewarn.node.rollout_experience import experience_from
from tests.core.harness import NOON
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
