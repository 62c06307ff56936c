"""Rows of ``docs/reference/azure.md``: who sees what, and the life of events."""

from datetime import timedelta

import pytest

from tests.conformance.cloud import NOON, Cloud


def statuses(cloud: Cloud, vm: str = "web-0") -> dict[str, str]:
    """Return the statuses of the events that a VM sees, by id."""
    return {event["EventId"]: event["EventStatus"] for event in cloud.events(vm)}


def test_scope_of_a_group(cloud: Cloud) -> None:
    """Each VM of a group sees what is coming to any of them."""
    event = cloud.operate("restart", "web-0")

    assert [list(statuses(cloud, vm)) for vm in ("web-0", "web-1", "web-2")] == [[event]] * 3


def test_scope_of_one(cloud: Cloud) -> None:
    """A VM that stands alone sees its own events, and nobody else does."""
    event = cloud.operate("restart", "solo")

    assert list(statuses(cloud, "solo")) == [event]
    assert statuses(cloud, "web-0") == statuses(cloud, "workers_0") == {}


def test_no_sight_of_others(cloud: Cloud) -> None:
    """A host's maintenance shows each group its own part, and lets it approve nothing else."""
    events = cloud.operate_host("reboot", "h2")
    seen = {vm: list(statuses(cloud, vm)) for vm in ("web-0", "pair-0", "workers_0")}

    assert sorted(event for group in seen.values() for event in group) == sorted(events)
    assert cloud.approve(*seen["pair-0"], vm="web-0").status == 400


def test_first_get_enrols(fresh_cloud: Cloud) -> None:
    """After the first question, a restart is announced."""
    fresh_cloud.document("web-1")
    event = fresh_cloud.operate("restart", "web-0")

    assert statuses(fresh_cloud) == {event: "Scheduled"}


def test_off_means_at_once(fresh_cloud: Cloud) -> None:
    """Where nobody asks, nobody is waited for."""
    event = fresh_cloud.operate("restart", "web-0")

    assert statuses(fresh_cloud) == {event: "Started"}


def test_off_is_announced_all_the_same(fresh_cloud: Cloud) -> None:
    """Maintenance waits its notice even where nobody asked yet."""
    event = fresh_cloud.operate("freeze", "web-0")

    assert statuses(fresh_cloud) == {event: "Scheduled"}


def test_idle_groups_go_off(cloud: Cloud) -> None:
    """A day without a question, and user operations run at once again."""
    cloud.pass_time(until="switched-off", hours=24, minutes=2)
    event = cloud.operate("restart", "web-0")

    assert statuses(cloud) == {event: "Started"}


def test_deallocated_may_not_ask(cloud: Cloud) -> None:
    """A machine that is not there has no address."""
    cloud.deallocate("web-0")
    assert cloud.get(vm="web-0").status == 403
    cloud.start("web-0")
    assert cloud.get(vm="web-0").status == 200


def test_never_early(cloud: Cloud) -> None:
    """A second before its time it has not started."""
    event = cloud.operate("restart", "web-0")
    cloud.pass_time(minutes=14, seconds=59)

    assert statuses(cloud) == {event: "Scheduled"}


def test_starts_when_due(cloud: Cloud) -> None:
    """At its time it starts, approved or not."""
    event = cloud.operate("restart", "web-0")
    cloud.pass_time(until="started", minutes=15)

    assert statuses(cloud) == {event: "Started"}


def test_gone_when_done(cloud: Cloud) -> None:
    """When the VM is back, there is nothing to see."""
    cloud.approve(cloud.operate("restart", "web-0"))
    cloud.let_it_end()

    assert statuses(cloud) == {}


def test_gone_when_canceled(cloud: Cloud) -> None:
    """What has not started can be taken back; what has, cannot."""
    started = cloud.operate("restart", "web-0")
    cloud.approve(started)
    canceled = cloud.operate("restart", "web-1")

    assert cloud.cancel(canceled) == ""
    assert "can no longer be canceled" in cloud.cancel(started)
    assert statuses(cloud) == {started: "Started"}


def test_one_update_domain(cloud: Cloud) -> None:
    """Two VMs of one group on one host, in two update domains, have an event each."""
    cloud.operate_host("reboot", "h1")

    assert [event["Resources"] for event in cloud.events("web-0")] == [["web-0"], ["web-2"]]


def test_turns(cloud: Cloud) -> None:
    """The second update domain waits for the first, approved or due, and then starts by itself."""
    cloud.operate_host("reboot", "h1")
    first, second = statuses(cloud)

    assert [cloud.approve(first).status, cloud.approve(second).status] == [200, 200]
    assert statuses(cloud) == {first: "Started", second: "Scheduled"}
    cloud.let_it_end()
    assert statuses(cloud) == {second: "Started"}


def test_preempt_leaves_it_deallocated(cloud: Cloud) -> None:
    """An evicted VM may not ask; where the policy is delete, it is no longer there at all."""
    for vm in ("workers_1", "brief_0"):
        cloud.approve(cloud.operate("evict", vm), vm=vm)
    cloud.let_it_end("vm-removed")
    cloud.wait_for("vm-deallocated")

    assert [cloud.get(vm=vm).status for vm in ("workers_1", "brief_0")] == [403, 403]
    cloud.start("workers_1")
    assert cloud.get(vm="workers_1").status == 200
    assert "brief_0" not in cloud.assembly.node.fleet.vms


def test_terminate_removes_it(cloud: Cloud) -> None:
    """A deleted VM is gone, with five minutes of notice where its scale set says so."""
    event = cloud.operate("delete", "workers_0")
    assert statuses(cloud, "workers_1") == {event: "Scheduled"}
    assert cloud.assembly.node.fleet.events[event.lower()].not_before == NOON + timedelta(minutes=5)
    cloud.approve(event, vm="workers_1")
    cloud.let_it_end("vm-removed")

    assert cloud.get(vm="workers_0").status == 403
    assert "workers_0" not in cloud.assembly.node.fleet.vms


@pytest.mark.parametrize("vm", ["web-0", "solo"])
def test_deallocation_clears(cloud: Cloud, vm: str) -> None:
    """What was coming to it alone is off, and nothing is announced."""
    cloud.operate("restart", vm)
    cloud.deallocate(vm)
    cloud.start(vm)

    assert statuses(cloud, vm) == {}
