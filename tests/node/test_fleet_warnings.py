"""The warning about quiet hours that cannot be read here."""

from msgspec.structs import replace

from forewarn.core.commands import SetGroup
from forewarn.core.facts import Entry, FleetChanged
from forewarn.core.model import GroupKind, GroupTerms, Policy, Vm
from forewarn.journal.memory import MemoryJournal
from forewarn.node.fleet_warnings import QUIET_TOPIC, QuietWarnings
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
