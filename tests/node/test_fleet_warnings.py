"""Warnings about changes that are held, and about quiet hours that cannot be read here."""

from msgspec.structs import replace

from forewarn.core.commands import SetGroup
from forewarn.core.declared_keys import HeldChange, HoldReason, RecordKind
from forewarn.core.facts import Entry, FleetChanged
from forewarn.core.fleet import Fleet
from forewarn.core.model import GroupKind, GroupTerms, Policy, Vm
from forewarn.journal.memory import MemoryJournal
from forewarn.node.fleet_warnings import HELD_TOPIC, QUIET_TOPIC, HeldChangeWarnings, QuietWarnings
from tests.node.harness import OPERATOR, NodeHarness, run


def test_quiet_hours_that_the_machine_cannot_read_are_warned_of_until_they_are_set_anew() -> None:
    """They were recorded on a machine that knew the time zone."""
    terms = GroupTerms("web", GroupKind.SCALE_SET, policy=Policy(quiet_hours=("08:00-09:00 Europe/Atlantis",)))
    readable = replace(terms, name="db", policy=Policy(quiet_hours=("08:00-09:00",)))

    async def story(harness: NodeHarness) -> None:
        recorded = FleetChanged(groups=(terms, readable), vms=(Vm("web-0", "web"),))
        harness.node.replica.subscribe(QuietWarnings(harness.node.warnings))
        journal.append(0, [Entry(1, harness.clock.now(), "1", OPERATOR, (recorded,))])
        await harness.node.start()
        assert "group web: quiet hours '08:00-09:00 Europe/Atlantis'" in harness.node.warnings[QUIET_TOPIC]
        assert "db" not in harness.node.warnings[QUIET_TOPIC]

        await harness.node.submit(SetGroup(id="2", by=OPERATOR, group="web", quiet_hours=()))
        assert QUIET_TOPIC not in harness.node.warnings

    journal = MemoryJournal()
    run(story, journal)


def test_changes_that_are_held_are_counted_and_some_are_named() -> None:
    """A wrong file may hold the removal of every VM."""
    fleet, warnings = Fleet(), dict[str, str]()
    for number in range(100):
        held = HeldChange(RecordKind.VM, f"web-{number}", HoldReason.EVENT, because="e1", is_removal=True)
        fleet.last_applied.waiting[held.key] = held
    HeldChangeWarnings(warnings).load(fleet)

    assert warnings[HELD_TOPIC].startswith(
        "100 changes of the fleet file are held: VM web-0: removal waits until event E1 ends, VM web-1: "
    )
    named = warnings[HELD_TOPIC].count("VM web-")
    assert warnings[HELD_TOPIC].endswith(f" and {100 - named} more")
