"""What operators are told, and what their commands make happen."""

from datetime import timedelta, timezone
from pathlib import Path
from uuid import uuid4

import pytest

from forewarn.control import messages
from forewarn.control.client import OPERATOR, Client, new_id
from forewarn.control.difference import Difference
from forewarn.control.story import Story
from forewarn.control.views import EventView, GroupDetail, GroupView, HostView, VmDetail, VmView
from forewarn.core.commands import (
    Approve,
    CancelEvent,
    ChangeFleet,
    DeallocateVm,
    HostOperation,
    OperateHost,
    OperateVm,
    SetGroup,
    StartVm,
    VmOperation,
)
from forewarn.core.errors import BadInput, ForewarnError, LimitReached, Refused, Unknown
from forewarn.core.model import ApprovalRule, GroupKind, GroupTerms, Vm
from tests.office import Office, opened


def operate(client: Client, operation: VmOperation, vm: str) -> EventView:
    told = client.submit(OperateVm(id=new_id(), by=OPERATOR, operation=operation, vm=vm))
    return told.announcements[0].event


def test_all_vms_are_told(client: Client) -> None:
    """In the order in which they were declared, each with its place."""
    vms = list(client.stream(messages.Vms(), VmView))

    assert [vm.name for vm in vms] == ["web-0", "web-1", "pool_0", "db"]
    assert (vms[1].group, vms[1].host, vms[1].update_domain, vms[1].address) == ("web", "h2", 1, "10.0.0.2")


def test_hosts_and_groups_are_told(office: Office, client: Client) -> None:
    """With how many VMs they hold, and who asked last."""
    office.enrol("web", "web-1")

    hosts = list(client.stream(messages.Hosts(), HostView))
    groups = {group.name: group for group in client.stream(messages.Groups(), GroupView)}

    assert [(host.name, host.vms) for host in hosts] == [("h1", 2), ("h2", 2)]
    assert groups["web"].enrolled
    assert groups["web"].asked_by == "web-1"
    assert (groups["pool"].enrolled, groups["pool"].terminate_notice, groups["pool"].vms) == (False, "PT5M", 1)


def test_an_operation_is_told_in_azures_words(office: Office, client: Client) -> None:
    """Upper-case id, whole seconds, and who asked last."""
    office.enrol("web", "web-1")

    told = client.submit(OperateVm(id=new_id(), by=OPERATOR, operation=VmOperation.RESTART, vm="web-0"))

    (announcement,) = told.announcements
    event = announcement.event
    assert (event.type, event.status, event.resources) == ("Reboot", "Scheduled", ("web-0",))
    assert event.id == event.id.upper()
    assert event.not_before == office.clock.now() + timedelta(minutes=15)
    assert announcement.asked_by == "web-1"


def test_an_event_without_notice_has_no_not_before(client: Client) -> None:
    """It has started; there is nothing to wait for."""
    event = operate(client, VmOperation.RESTART, "web-0")

    assert (event.status, event.not_before) == ("Started", None)


@pytest.mark.parametrize(("moves_live", "type_"), [(True, "Freeze"), (False, "Redeploy")])
def test_whether_guests_move_live_is_the_drivers_word(tmp_path: Path, moves_live: object, type_: str) -> None:
    """An operator's claim about it counts for nothing."""
    with opened(tmp_path, moves_live=bool(moves_live)) as office, Client(office.directory) as client:
        command = OperateHost(
            id=new_id(), by=OPERATOR, operation=HostOperation.REDEPLOY, host="h1", live=not moves_live
        )
        told = client.submit(command)

    assert {announcement.event.type for announcement in told.announcements} == {type_}


def test_an_id_may_be_shortened_in_any_case(office: Office, client: Client) -> None:
    """Also that of a finished event, and in a command."""
    office.enrol("web", "web-0")
    event = operate(client, VmOperation.RESTART, "web-0")

    approved = client.submit(Approve(id=new_id(), by=OPERATOR, events=(event.id[:8].lower(),)))
    office.finish(event.id.lower())

    assert approved.announcements[0].event.status == "Started"
    assert client.ask(messages.OneEvent(event.id[:6]), Story).status == "Completed"


@pytest.mark.parametrize(
    ("id_", "error", "said"),
    [
        ("0000", Unknown, "no event begins with '0000'"),
        ("00000000-0000-0000-0000-000000000000", Unknown, "there is no event"),
        ("xyz", BadInput, "'xyz' is no event id; give the id, or its first four or more characters"),
        ("last", Unknown, "there has been no event yet"),
    ],
)
def test_an_id_that_is_nobodys_is_said_so(client: Client, id_: str, error: type[ForewarnError], said: str) -> None:
    """With what to do instead."""
    with pytest.raises(error, match=said):
        client.ask(messages.OneEvent(id_), Story)


def test_a_shortened_id_that_could_be_two_is_refused(client: Client, office: Office) -> None:
    """Nothing is guessed when something may be approved by it."""
    office.enrol("web", "web-0")
    events: dict[str, str] = {}
    for number in range(600):
        command = OperateVm(id=f"{number:032x}", by=OPERATOR, operation=VmOperation.FREEZE, vm="web-0")
        event = client.submit(command).announcements[0].event
        if other := events.setdefault(event.id[:4], event.id) != event.id:
            break
    assert other

    with pytest.raises(BadInput, match="could be 2 events"):
        client.submit(CancelEvent(id=new_id(), by=OPERATOR, event=event.id[:4]))


def test_last_is_the_event_announced_last(office: Office, client: Client) -> None:
    """Finished or not."""
    office.enrol("web", "web-0")
    first = operate(client, VmOperation.RESTART, "web-0")
    office.clock.advance(timedelta(minutes=1))
    second = operate(client, VmOperation.DELETE, "db")

    assert client.ask(messages.OneEvent("last"), Story).id == second.id
    office.finish(second.id.lower())
    assert client.ask(messages.OneEvent("last"), Story).id == second.id
    client.submit(CancelEvent(id=new_id(), by=OPERATOR, event=first.id))
    assert client.ask(messages.OneEvent("last"), Story).id == first.id


def test_finished_events_are_listed_when_asked_for(office: Office, client: Client) -> None:
    """The newest so many of them, before those that are still to come."""
    office.enrol("web", "web-0")
    done = operate(client, VmOperation.DELETE, "db")
    office.finish(done.id.lower())
    canceled = operate(client, VmOperation.RESTART, "web-0")
    client.submit(CancelEvent(id=new_id(), by=OPERATOR, event=canceled.id))
    coming = operate(client, VmOperation.RESTART, "web-1")

    def listed(finished: int) -> list[tuple[str, str]]:
        return [(event.id, event.status) for event in client.stream(messages.Events(finished), EventView)]

    assert listed(0) == [(coming.id, "Scheduled")]
    assert listed(1) == [(canceled.id, "Canceled"), (coming.id, "Scheduled")]
    assert listed(9) == [(done.id, "Completed"), (canceled.id, "Canceled"), (coming.id, "Scheduled")]


def test_a_deallocated_vm_is_told_so_with_what_was_canceled(office: Office, client: Client) -> None:
    """And runs again once it is started."""
    office.enrol("web", "web-0")
    event = operate(client, VmOperation.RESTART, "web-0")

    told = client.submit(DeallocateVm(id=new_id(), by=OPERATOR, vm="web-0"))

    assert told.canceled == (event.id,)
    assert client.ask(messages.OneVm("web-0"), VmDetail).deallocated
    client.submit(StartVm(id=new_id(), by=OPERATOR, vm="web-0"))
    assert not client.ask(messages.OneVm("web-0"), VmDetail).deallocated


def test_a_groups_terms_are_set(client: Client) -> None:
    """What is left out stays."""
    client.submit(SetGroup(id=new_id(), by=OPERATOR, group="pool", approval=ApprovalRule.ALL))

    detail = client.ask(messages.OneGroup("pool"), GroupDetail)
    assert (detail.approval, detail.terminate_notice, detail.members) == (ApprovalRule.ALL, "PT5M", ("pool_0",))


@pytest.mark.parametrize("call", [messages.OneVm("web-9"), messages.OneGroup("wep")])
def test_an_unknown_name_is_answered_with_the_nearest(client: Client, call: messages.Call) -> None:
    """As typing errors go."""
    with pytest.raises(Unknown, match="did you mean 'web"):
        client.ask(call, object)


def test_a_limit_is_told_apart_from_other_refusals(tmp_path: Path) -> None:
    """The command line has an exit code of its own for it."""
    with opened(tmp_path, limit=1) as office, Client(office.directory) as client:
        office.enrol("web", "web-0")
        operate(client, VmOperation.RESTART, "web-0")

        with pytest.raises(LimitReached, match="the limit is 1"):
            operate(client, VmOperation.RESTART, "web-1")


def test_a_change_of_any_size_goes_through_in_slices(client: Client, office: Office) -> None:
    """And back out again, without being one line at either end."""
    count = 3_500
    vms = tuple(Vm(f"many-{number}", "many") for number in range(count))
    change = Difference(groups=(GroupTerms("many", GroupKind.SCALE_SET),), vms=vms)

    told = client.submit(ChangeFleet(id=new_id(), by=OPERATOR), change)

    assert told.changed["vms"] == count
    assert len(list(client.stream(messages.Vms(), VmView))) == count + 4
    slices, changes = client.declared()
    assert changes == office.node.fleet.changes
    assert sum(len(part.vms) for part in slices) == count + 4
    assert max(len(part.vms) for part in slices) == messages.SLICE


def test_slices_do_not_outlive_the_command_they_belong_to(client: Client, office: Office) -> None:
    """A refused change leaves nothing behind for the next one."""
    bad = Difference(vms=(Vm("new", "absent"),))
    with pytest.raises(Refused, match="there is no group 'absent'"):
        client.submit(ChangeFleet(id=new_id(), by=OPERATOR), bad)

    client.submit(ChangeFleet(id=new_id(), by=OPERATOR), Difference(vms=(Vm("web-2", "web"),)))

    assert "web-2" in office.node.fleet.vms


def test_slices_belong_to_a_change_only(client: Client) -> None:
    """They mean nothing to any other command."""
    with pytest.raises(BadInput, match="changes no fleet"):
        client.submit(StartVm(id=str(uuid4()), by=OPERATOR, vm="web-0"), Difference(removed_vms=("web-0",)))


def test_what_is_declared_of_one_vm_can_be_asked_for(client: Client) -> None:
    """Its record and its group's terms, without the rest of the fleet."""
    slices, _ = client.declared("db")

    assert [vm.name for part in slices for vm in part.vms] == ["db"]
    assert [terms.name for part in slices for terms in part.groups] == ["db"]


def test_a_time_in_another_zone_is_the_same_time(client: Client, office: Office) -> None:
    """Everything is kept in UTC."""
    when = (office.clock.now() + timedelta(hours=5)).astimezone(timezone(timedelta(hours=-3)))
    operation = OperateVm(id=new_id(), by=OPERATOR, operation=VmOperation.FREEZE, vm="web-0", not_before=when)

    client.submit(operation)

    (event,) = office.node.fleet.events.values()
    assert event.not_before == when
    assert event.not_before.utcoffset() == timedelta(0)
