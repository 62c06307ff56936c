"""What the cache holds: committed things only, rendered when asked for, kept until the next change."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from forewarn.core.draft import DraftFleet
from forewarn.core.facts import (
    Announced,
    AnyFact,
    Canceled,
    Enrolled,
    Entry,
    Fetch,
    Fetched,
    FleetChanged,
    GroupSet,
    Started,
    SwitchedOff,
    VmDeallocated,
    VmMoved,
    VmRemoved,
    VmStarted,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, Group, GroupKind, GroupTerms, Interface, Vm
from forewarn.metadata.document_cache import DocumentCache, GroupDocuments
from forewarn.node.feed import Commit
from tests.metadata.harness import NOW, WEB, event

LONE = FleetChanged(groups=(GroupTerms("db", GroupKind.STANDALONE),), vms=(Vm("db", "db", address="10.0.0.9"),))


class DocumentCacheHarness:
    """A document cache and the fleet it follows."""

    def __init__(self, *facts: AnyFact) -> None:
        self.fleet = Fleet()
        self.document_cache = DocumentCache(lambda: 0.0)
        self.changed: list[str] = []
        self.document_cache.changed = self.changed.append
        self.document_cache.load(self.fleet)
        self.commit(*facts)

    def commit(self, *facts: AnyFact) -> None:
        for fact in facts:
            self.fleet.evolve(fact)
        self.document_cache.publish(Commit((Entry(1, NOW, "c", NODE, facts),), self.fleet))

    def show(self, group: str, version: int = 6) -> bytes:
        documents = self.document_cache.groups[group]
        rendered = documents.rendered or self.document_cache.prepare(documents)
        return rendered[version] or self.document_cache.render(documents, version)


def test_nothing_is_shown_before_it_is_committed() -> None:
    """A fleet that runs ahead of its commits changes nothing in the cache."""
    harness = DocumentCacheHarness(WEB)
    before = harness.show("web")
    harness.fleet.evolve(Announced(event("e1")))
    harness.fleet.evolve(VmDeallocated("web-0", "evicted"))
    assert harness.show("web") == before
    assert "127.0.0.1" in harness.document_cache.vm_entries


def test_a_document_is_rendered_once_for_each_version() -> None:
    """What was rendered is handed out again, the same object, until something changes."""
    harness = DocumentCacheHarness(WEB, Announced(event("e1")))
    old, new = harness.show("web", 0), harness.show("web", 6)
    assert old != new
    assert harness.show("web", 0) is old
    assert harness.show("web", 6) is new
    harness.commit(Started("e1", NOW, "due", group="web"))
    assert b'"Started"' in harness.show("web", 6)


def test_nothing_is_rendered_before_somebody_asks() -> None:
    """A change renders nothing by itself."""
    harness = DocumentCacheHarness(WEB, Announced(event("e1")))
    documents = harness.document_cache.groups["web"]
    assert [documents.rendered] == [None]
    harness.show("web", 3)
    rendered = harness.document_cache.groups["web"].rendered or []
    assert [tail is not None for tail in rendered] == [False] * 3 + [True] + [False] * 3


def test_empty_documents_are_one_object() -> None:
    """All groups without events share what follows the tag, in every api-version."""
    harness = DocumentCacheHarness(WEB, LONE)
    shown = {id(harness.show(group, version)) for group in ("web", "db") for version in range(7)}
    assert len(shown) == 1


def test_only_groups_that_a_commit_touches_change() -> None:
    """An event of one group leaves the other's rendered document as it is."""
    harness = DocumentCacheHarness(WEB, LONE)
    harness.show("db")
    before = harness.document_cache.groups["db"].rendered
    harness.changed.clear()
    harness.commit(Announced(event("e1")))
    assert harness.document_cache.groups["db"].rendered is before
    assert harness.changed == ["web"]


def test_what_shows_nothing_new_renders_nothing_anew() -> None:
    """Facts that leave the incarnation alone keep the rendered document and wake nobody."""
    harness = DocumentCacheHarness(WEB, Announced(event("e1")))
    shown = harness.show("web")
    harness.changed.clear()
    harness.commit(Fetched((Fetch("e1", "web-0", NOW),)), Enrolled("web", NOW, "web-0"), SwitchedOff("web", NOW))
    assert harness.show("web") is shown
    assert harness.changed == []
    assert harness.document_cache.groups["web"].events[0].fetched_by == ("web-0",)


def test_an_event_that_ends_leaves_the_document() -> None:
    """The event is no longer in the fleet; the fact that ended it names the group whose document changes."""
    harness = DocumentCacheHarness(WEB, Announced(event("e1")))
    harness.show("web")
    harness.commit(Canceled("e1", NOW, "taken back", group="web"))
    assert b'"Events":[]' in harness.show("web")


def test_a_vm_that_comes_and_goes_takes_its_seat_along() -> None:
    """A deallocated or removed VM has no seat; a started one has it again."""
    harness = DocumentCacheHarness(WEB)
    harness.commit(VmDeallocated("web-0", "evicted"))
    assert "127.0.0.1" not in harness.document_cache.vm_entries
    assert harness.document_cache.entry_of_vm("web-0") is None
    harness.commit(VmStarted("web-0"))
    assert harness.document_cache.vm_entries["127.0.0.1"] is harness.document_cache.entry_of_vm("web-0")
    harness.commit(VmRemoved("web-0", "deleted"))
    assert "127.0.0.1" not in harness.document_cache.vm_entries
    assert harness.document_cache.entry_of_vm("web-0") is None


def test_vms_may_change_places() -> None:
    """Addresses that are exchanged in one commit lead to the right VMs."""
    harness = DocumentCacheHarness(WEB)
    harness.commit(
        FleetChanged(vms=(Vm("web-0", "web", address="127.0.0.2"), Vm("web-1", "web", address="127.0.0.1")))
    )
    assert [harness.document_cache.vm_entries[address].vm.name for address in ("127.0.0.1", "127.0.0.2")] == [
        "web-1",
        "web-0",
    ]


def test_an_address_that_was_given_up_leads_nowhere() -> None:
    """A VM with a new address is not found under its old one."""
    harness = DocumentCacheHarness(WEB)
    harness.commit(FleetChanged(vms=(Vm("web-0", "web", address="10.1.1.1"),)))
    assert sorted(harness.document_cache.vm_entries) == ["10.1.1.1", "127.0.0.2"]


def test_a_vm_that_joins_another_group_reads_its_document() -> None:
    """The seat follows the VM into its new group."""
    harness = DocumentCacheHarness(WEB, LONE)
    harness.commit(
        FleetChanged(
            vms=(Vm("web-1", "web2", address="127.0.0.2"),), groups=(GroupTerms("web2", GroupKind.SCALE_SET),)
        )
    )
    assert harness.document_cache.vm_entries["127.0.0.2"].documents is harness.document_cache.groups["web2"]


@pytest.mark.parametrize("is_deallocated", [False, True])
def test_a_standalone_group_leaves_with_its_vm(is_deallocated: bool) -> None:  # noqa: FBT001
    """Nothing stays in the cache of a VM that was alone in its group."""
    harness = DocumentCacheHarness(WEB, LONE)
    if is_deallocated:
        harness.commit(VmDeallocated("db", "operator"))
    harness.commit(VmRemoved("db", "deleted"))
    assert sorted(harness.document_cache.groups) == ["web"]
    assert "db" in harness.changed


def test_a_seat_keeps_what_it_spent() -> None:
    """A change of the VM's record does not give its rate back."""
    harness = DocumentCacheHarness(WEB)
    harness.document_cache.vm_entries["127.0.0.1"].spent_until = 7.0
    harness.commit(VmMoved("web-0", "h2"), GroupSet(GroupTerms("web", GroupKind.AVAILABILITY_SET)))
    assert harness.document_cache.vm_entries["127.0.0.1"].spent_until == 7.0


def test_loading_again_equals_following() -> None:
    """A cache that is loaded anew from the fleet shows what one that followed every commit shows."""
    harness = DocumentCacheHarness(
        WEB, LONE, Announced(event("e1")), Enrolled("web", NOW, "web-0"), VmRemoved("db", "deleted")
    )
    fresh = DocumentCache(lambda: 0.0)
    fresh.load(harness.fleet)
    stale = DocumentCacheHarness(LONE)
    stale.document_cache.load(harness.fleet)
    for document_cache in (fresh, stale.document_cache):
        assert document_cache.vm_entries.keys() == harness.document_cache.vm_entries.keys()
        assert {name: _summary(documents) for name, documents in document_cache.groups.items()} == {
            name: _summary(documents) for name, documents in harness.document_cache.groups.items()
        }


def test_who_asked_before_a_start_is_not_known() -> None:
    """That a VM asked is recorded rarely; another one may have asked since."""
    harness = DocumentCacheHarness(WEB, Enrolled("web", NOW, "web-0"))
    assert harness.document_cache.groups["web"].asked_by == "web-0"

    fresh = DocumentCache(lambda: 0.0)
    fresh.load(harness.fleet)
    assert fresh.groups["web"].asked_by == ""


def _summary(documents: GroupDocuments) -> tuple[object, ...]:
    return documents.terms, documents.incarnation, documents.events, documents.is_enrolled


def test_a_tag_is_safe_whatever_the_group_is_called() -> None:
    """Quotes, commas, blanks and letters beyond ASCII in a group's name are encoded in its tag."""
    document_cache = DocumentCache(lambda: 0.0)
    fleet = Fleet()
    fleet.groups['a "b", ü'] = Group(GroupTerms('a "b", ü', GroupKind.SCALE_SET))
    document_cache.load(fleet)
    documents = document_cache.groups['a "b", ü']
    document_cache.prepare(documents)
    assert documents.tag == b"a%20%22b%22%2C%20%C3%BC-1"


def test_events_stand_in_order_of_announcement() -> None:
    """A later event comes later, whatever its time."""
    harness = DocumentCacheHarness(
        WEB, Announced(event("b")), Announced(event("a", not_before=NOW + timedelta(minutes=10)))
    )
    shown = harness.show("web")
    assert shown.index(b'"B"') < shown.index(b'"A"')


TAPS = {name: Interface(tap=f"tap-{name}") for name in ("a", "b", "c")}
LARGE_CHANGES = {
    "new": (LONE,),
    "removed": (FleetChanged(removed_vms=("web-0", "web-1"), before_vms=WEB.vms[:2]),),
    "exchanged": (
        FleetChanged(
            vms=(replace(WEB.vms[0], address=WEB.vms[1].address), replace(WEB.vms[1], address=WEB.vms[0].address)),
            before_vms=WEB.vms[:2],
        ),
    ),
    "moved": (FleetChanged(groups=LONE.groups, vms=(replace(WEB.vms[0], group="db"),), before_vms=WEB.vms[:1]),),
    "terms": (FleetChanged(groups=(replace(WEB.groups[0], kind=GroupKind.SCALE_SET),), before_groups=WEB.groups),),
    "shared": (
        FleetChanged(
            groups=(GroupTerms("tapped", GroupKind.AVAILABILITY_SET),),
            vms=tuple(Vm(name, "tapped", address="10.0.0.5", interface=tap) for name, tap in TAPS.items()),
        ),
    ),
}


def content_of(cache: DocumentCache) -> tuple[object, ...]:
    """Return all that callers can be shown, but for what was rendered."""
    entries = {key: (each.vm, each.documents.terms.name, each.spent_until) for key, each in cache.vm_entries.items()}
    groups = {
        name: (each.terms, each.incarnation, each.events, each.is_enrolled) for name, each in cache.groups.items()
    }
    keys = [vm.address for vm in WEB.vms] + ["10.0.0.9", "10.0.0.5"]
    return entries, groups, cache.deallocated, [key for key in keys if cache.is_shared(key)]


@pytest.mark.parametrize("facts", LARGE_CHANGES.values(), ids=LARGE_CHANGES.keys())
def test_what_was_prepared_is_what_a_commit_makes(facts: tuple[AnyFact, ...]) -> None:
    """Callers see nothing of it before; then the same, and what was noted of their requests meanwhile is kept."""
    before = (WEB, Enrolled("web", NOW, "web-0"), Announced(event("e1")), VmDeallocated("web-1", "evicted"))
    usual, large = DocumentCacheHarness(*before), DocumentCacheHarness(*before)
    draft = DraftFleet(large.fleet)
    for fact in facts:
        draft.evolve(fact)
    shown = content_of(large.document_cache)
    prepared = large.document_cache.prepare_commit(facts, draft)
    assert content_of(large.document_cache) == shown
    for harness in (usual, large):
        for entry in harness.document_cache.vm_entries.values():
            entry.spent_until = 7.0
        harness.changed.clear()

    usual.commit(*facts)
    draft.merge()
    commit = Commit((Entry(1, NOW, "c", NODE, facts),), large.fleet, {id(large.document_cache): prepared})
    large.document_cache.publish(commit)

    assert content_of(large.document_cache) == content_of(usual.document_cache)
    assert sorted(large.changed) == sorted(usual.changed)


def test_a_load_with_other_events_at_the_same_incarnation_is_shown() -> None:
    """A database that lost entries went on from an earlier state, and came to that number again."""
    harness = DocumentCacheHarness(WEB, Announced(event("e1")))
    before = harness.show("web")
    other = DocumentCacheHarness(WEB, Announced(event("e2")))
    incarnation = harness.fleet.groups["web"].incarnation
    assert incarnation == other.fleet.groups["web"].incarnation
    harness.changed.clear()
    harness.document_cache.load(other.fleet)

    assert harness.changed == ["web"]
    assert harness.show("web") == other.show("web") != before


def test_what_was_prepared_before_a_load_is_not_used() -> None:
    """The load may have shown another fleet; the commit is then taken in as usual."""
    harness = DocumentCacheHarness(WEB)
    draft = DraftFleet(harness.fleet)
    draft.evolve(LONE)
    prepared = harness.document_cache.prepare_commit((LONE,), draft)
    harness.commit(Announced(event("e1")))
    harness.document_cache.load(harness.fleet)
    draft.merge()

    commit = Commit((Entry(1, NOW, "c", NODE, (LONE,)),), harness.fleet, {id(harness.document_cache): prepared})
    harness.document_cache.publish(commit)

    assert harness.document_cache.vm_entries["10.0.0.9"].documents is harness.document_cache.groups["db"]
    assert harness.document_cache.groups["web"].events


def test_a_deallocated_vm_may_not_call_whatever_its_group_is_shown() -> None:
    """Events of its neighbours are none of its business."""
    harness = DocumentCacheHarness(WEB, Announced(event("e1", resources=("web-1",))))
    harness.commit(VmDeallocated("web-0", "evicted"))

    assert "127.0.0.1" not in harness.document_cache.vm_entries
    assert harness.document_cache.deallocated["127.0.0.1"] == "web-0"
