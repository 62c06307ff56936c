"""Entries that another process appended, made ready for a replica: beside the event loop where they are many."""

from collections.abc import Sequence
from contextlib import nullcontext

import msgspec

from forewarn.core.draft import DraftFleet
from forewarn.core.facts import Entry, FleetChanged, FleetDeclared
from forewarn.node.large_change import LargeChangeSizes, collection_paused, dissolve, free
from forewarn.node.replica import Replica


class FollowedEntries(msgspec.Struct):
    """Durable entries, and what they make of the fleet."""

    entries: Sequence[Entry]
    draft: DraftFleet
    prepared: dict[int, object] = {}

    @property
    def revision(self) -> int:
        return self.entries[-1].revision

    def apply(self, replica: Replica) -> None:
        """Hand them to the replica that they were prepared for."""
        replica.apply(self.entries, self.draft, self.prepared)

    def discard(self) -> None:
        """Free what is not needed after a large change is applied. Called in a thread, as the last thing."""
        records = [fact for entry in self.entries for fact in entry.facts]
        parts = dissolve(records, self.prepared, self.draft)
        self.entries = ()
        records.clear()
        free(parts)


def changed_records(entries: Sequence[Entry]) -> int:
    """Return how many records of the fleet the entries change: many take long to take in."""
    changed = 0
    for entry in entries:
        for fact in entry.facts:
            if isinstance(fact, FleetChanged | FleetDeclared):
                changed += len(fact.vms) + len(fact.removed_vms) + len(fact.groups) + len(fact.removed_groups)
                changed += len(fact.hosts) + len(fact.removed_hosts)
    return changed


def prepare(replica: Replica, entries: Sequence[Entry], sizes: LargeChangeSizes) -> FollowedEntries:
    """Evolve a draft and prepare its commit. Called in a thread; meanwhile the replica takes nothing else in."""
    is_prepared = changed_records(entries) >= sizes.prepared_aside
    followed = FollowedEntries(entries, DraftFleet(replica.fleet))
    with collection_paused() if is_prepared else nullcontext():
        for entry in entries:
            followed.draft.enter(entry)
        if is_prepared:
            followed.draft.prepare(sizes.prepared_aside)
            facts = tuple(fact for entry in entries for fact in entry.facts)
            followed.prepared = replica.feed.prepare_commit(facts, followed.draft)
    return followed
