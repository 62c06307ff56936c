"""What lies on the desk: committed things only, rendered when asked for, kept until the next change."""

from datetime import timedelta

import pytest

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
from forewarn.core.model import NODE, Group, GroupKind, GroupTerms, Vm
from forewarn.metadata.desk import Board, Desk
from forewarn.node.feed import Commit
from tests.metadata.site import NOW, WEB, event

LONE = FleetChanged(groups=(GroupTerms("db", GroupKind.STANDALONE),), vms=(Vm("db", "db", address="10.0.0.9"),))


class Rig:
    """A desk and the fleet it follows."""

    def __init__(self, *facts: AnyFact) -> None:
        self.fleet = Fleet()
        self.desk = Desk(lambda: 0.0)
        self.changed: list[str] = []
        self.desk.changed = self.changed.append
        self.desk.load(self.fleet)
        self.commit(*facts)

    def commit(self, *facts: AnyFact) -> None:
        for fact in facts:
            self.fleet.evolve(fact)
        self.desk.publish(Commit((Entry(1, NOW, "c", NODE, facts),), self.fleet))

    def show(self, group: str, version: int = 6) -> bytes:
        board = self.desk.boards[group]
        tails = board.tails or self.desk.prepare(board)
        return tails[version] or self.desk.render(board, version)


def test_nothing_is_shown_before_it_is_committed() -> None:
    """A fleet that runs ahead of its commits changes nothing on the desk."""
    rig = Rig(WEB)
    before = rig.show("web")
    rig.fleet.evolve(Announced(event("e1")))
    rig.fleet.evolve(VmDeallocated("web-0", "evicted"))
    assert rig.show("web") == before
    assert "127.0.0.1" in rig.desk.seats


def test_a_document_is_rendered_once_for_each_version() -> None:
    """What was rendered is handed out again, the same object, until something changes."""
    rig = Rig(WEB, Announced(event("e1")))
    old, new = rig.show("web", 0), rig.show("web", 6)
    assert old != new
    assert rig.show("web", 0) is old
    assert rig.show("web", 6) is new
    rig.commit(Started("e1", NOW, "due"))
    assert b'"Started"' in rig.show("web", 6)


def test_nothing_is_rendered_before_somebody_asks() -> None:
    """A change renders nothing by itself."""
    rig = Rig(WEB, Announced(event("e1")))
    board = rig.desk.boards["web"]
    assert [board.tails] == [None]
    rig.show("web", 3)
    tails = rig.desk.boards["web"].tails or []
    assert [tail is not None for tail in tails] == [False] * 3 + [True] + [False] * 3


def test_empty_documents_are_one_object() -> None:
    """All groups without events share what follows the tag, in every api-version."""
    rig = Rig(WEB, LONE)
    shown = {id(rig.show(group, version)) for group in ("web", "db") for version in range(7)}
    assert len(shown) == 1


def test_only_groups_that_a_commit_touches_change() -> None:
    """An event of one group leaves the other's rendered document as it is."""
    rig = Rig(WEB, LONE)
    rig.show("db")
    before = rig.desk.boards["db"].tails
    rig.changed.clear()
    rig.commit(Announced(event("e1")))
    assert rig.desk.boards["db"].tails is before
    assert rig.changed == ["web"]


def test_what_shows_nothing_new_renders_nothing_anew() -> None:
    """Facts that leave the incarnation alone keep the rendered document and wake nobody."""
    rig = Rig(WEB, Announced(event("e1")))
    shown = rig.show("web")
    rig.changed.clear()
    rig.commit(Fetched((Fetch("e1", "web-0", NOW),)), Enrolled("web", NOW, "web-0"), SwitchedOff("web", NOW))
    assert rig.show("web") is shown
    assert rig.changed == []
    assert rig.desk.boards["web"].events[0].fetched_by == ("web-0",)


def test_an_event_that_ends_leaves_the_document() -> None:
    """The fact that ends an event names the event alone, and still its group's document changes."""
    rig = Rig(WEB, Announced(event("e1")))
    rig.show("web")
    rig.commit(Canceled("e1", NOW, "taken back"))
    assert b'"Events":[]' in rig.show("web")


def test_a_vm_that_comes_and_goes_takes_its_seat_along() -> None:
    """A deallocated or removed VM has no seat; a started one has it again."""
    rig = Rig(WEB)
    rig.commit(VmDeallocated("web-0", "evicted"))
    assert "127.0.0.1" not in rig.desk.seats
    assert rig.desk.seat_of_vm("web-0") is None
    rig.commit(VmStarted("web-0"))
    assert rig.desk.seats["127.0.0.1"] is rig.desk.seat_of_vm("web-0")
    rig.commit(VmRemoved("web-0", "deleted"))
    assert "127.0.0.1" not in rig.desk.seats
    assert rig.desk.seat_of_vm("web-0") is None


def test_vms_may_change_places() -> None:
    """Addresses that are exchanged in one commit lead to the right VMs."""
    rig = Rig(WEB)
    rig.commit(FleetChanged(vms=(Vm("web-0", "web", address="127.0.0.2"), Vm("web-1", "web", address="127.0.0.1"))))
    assert [rig.desk.seats[address].vm.name for address in ("127.0.0.1", "127.0.0.2")] == ["web-1", "web-0"]


def test_an_address_that_was_given_up_leads_nowhere() -> None:
    """A VM with a new address is not found under its old one."""
    rig = Rig(WEB)
    rig.commit(FleetChanged(vms=(Vm("web-0", "web", address="10.1.1.1"),)))
    assert sorted(rig.desk.seats) == ["10.1.1.1", "127.0.0.2"]


def test_a_vm_that_joins_another_group_reads_its_document() -> None:
    """The seat follows the VM into its new group."""
    rig = Rig(WEB, LONE)
    rig.commit(
        FleetChanged(
            vms=(Vm("web-1", "web2", address="127.0.0.2"),), groups=(GroupTerms("web2", GroupKind.SCALE_SET),)
        )
    )
    assert rig.desk.seats["127.0.0.2"].board is rig.desk.boards["web2"]


@pytest.mark.parametrize("is_deallocated", [False, True])
def test_a_standalone_group_leaves_with_its_vm(is_deallocated: bool) -> None:  # noqa: FBT001
    """Nothing stays on the desk of a VM that was alone in its group."""
    rig = Rig(WEB, LONE)
    if is_deallocated:
        rig.commit(VmDeallocated("db", "operator"))
    rig.commit(VmRemoved("db", "deleted"))
    assert sorted(rig.desk.boards) == ["web"]
    assert "db" in rig.changed


def test_a_seat_keeps_what_it_spent() -> None:
    """A change of the VM's record does not give its rate back."""
    rig = Rig(WEB)
    rig.desk.seats["127.0.0.1"].spent_until = 7.0
    rig.commit(VmMoved("web-0", "h2"), GroupSet(GroupTerms("web", GroupKind.AVAILABILITY_SET)))
    assert rig.desk.seats["127.0.0.1"].spent_until == 7.0


def test_loading_again_equals_following() -> None:
    """A desk that is loaded anew from the fleet shows what one that followed every commit shows."""
    rig = Rig(WEB, LONE, Announced(event("e1")), Enrolled("web", NOW, "web-0"), VmRemoved("db", "deleted"))
    fresh = Desk(lambda: 0.0)
    fresh.load(rig.fleet)
    stale = Rig(LONE)
    stale.desk.load(rig.fleet)
    for desk in (fresh, stale.desk):
        assert desk.seats.keys() == rig.desk.seats.keys()
        assert {name: _summary(board) for name, board in desk.boards.items()} == {
            name: _summary(board) for name, board in rig.desk.boards.items()
        }


def _summary(board: Board) -> tuple[object, ...]:
    return board.terms, board.incarnation, board.events, board.is_enrolled


def test_a_tag_is_safe_whatever_the_group_is_called() -> None:
    """Quotes, commas, blanks and letters beyond ASCII in a group's name are encoded in its tag."""
    desk = Desk(lambda: 0.0)
    fleet = Fleet()
    fleet.groups['a "b", ü'] = Group(GroupTerms('a "b", ü', GroupKind.SCALE_SET))
    desk.load(fleet)
    board = desk.boards['a "b", ü']
    desk.prepare(board)
    assert board.tag == b"a%20%22b%22%2C%20%C3%BC-1"


def test_events_stand_in_order_of_announcement() -> None:
    """A later event comes later, whatever its time."""
    rig = Rig(WEB, Announced(event("b")), Announced(event("a", not_before=NOW + timedelta(minutes=10))))
    shown = rig.show("web")
    assert shown.index(b'"B"') < shown.index(b'"A"')
