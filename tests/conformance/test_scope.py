"""Rows of ``docs/reference/azure.md``: who sees what, and the life of events."""

from datetime import timedelta

import pytest

from tests.conformance.harness import NOON, ServiceHarness


def statuses(harness: ServiceHarness, vm: str = "web-0") -> dict[str, str]:
    """Return the statuses of the events that a VM sees, by id."""
    return {event["EventId"]: event["EventStatus"] for event in harness.events(vm)}


def test_scope_of_a_group(harness: ServiceHarness) -> None:
    """Each VM of a group sees what is coming to any of them."""
    event = harness.operate("restart", "web-0")

    assert [list(statuses(harness, vm)) for vm in ("web-0", "web-1", "web-2")] == [[event]] * 3


def test_scope_of_one(harness: ServiceHarness) -> None:
    """A VM that stands alone sees its own events, and nobody else does."""
    event = harness.operate("restart", "solo")

    assert list(statuses(harness, "solo")) == [event]
    assert statuses(harness, "web-0") == statuses(harness, "workers_0") == {}


def test_no_sight_of_others(harness: ServiceHarness) -> None:
    """A host's maintenance shows each group its own part, and lets it approve nothing else."""
    events = harness.operate_host("reboot", "h2")
    seen = {vm: list(statuses(harness, vm)) for vm in ("web-0", "pair-0", "workers_0")}

    assert sorted(event for group in seen.values() for event in group) == sorted(events)
    assert harness.approve(*seen["pair-0"], vm="web-0").status == 400


def test_first_get_enrols(fresh_harness: ServiceHarness) -> None:
    """After the first question, a restart is announced."""
    fresh_harness.document("web-1")
    event = fresh_harness.operate("restart", "web-0")

    assert statuses(fresh_harness) == {event: "Scheduled"}


def test_off_means_at_once(fresh_harness: ServiceHarness) -> None:
    """Where nobody asks, nobody is waited for."""
    event = fresh_harness.operate("restart", "web-0")

    assert statuses(fresh_harness) == {event: "Started"}


def test_off_is_announced_all_the_same(fresh_harness: ServiceHarness) -> None:
    """Maintenance waits its notice even where nobody asked yet."""
    event = fresh_harness.operate("freeze", "web-0")

    assert statuses(fresh_harness) == {event: "Scheduled"}


def test_idle_groups_go_off(harness: ServiceHarness) -> None:
    """A day without a question, and user operations run at once again."""
    harness.pass_time(until="switched-off", hours=24, minutes=2)
    event = harness.operate("restart", "web-0")

    assert statuses(harness) == {event: "Started"}


def test_deallocated_may_not_ask(harness: ServiceHarness) -> None:
    """A machine that is not there has no address."""
    harness.deallocate("web-0")
    assert harness.get(vm="web-0").status == 403
    harness.start("web-0")
    assert harness.get(vm="web-0").status == 200


def test_never_early(harness: ServiceHarness) -> None:
    """A second before its time it has not started."""
    event = harness.operate("restart", "web-0")
    harness.pass_time(minutes=14, seconds=59)

    assert statuses(harness) == {event: "Scheduled"}


def test_starts_when_due(harness: ServiceHarness) -> None:
    """At its time it starts, approved or not."""
    event = harness.operate("restart", "web-0")
    harness.pass_time(until="started", minutes=15)

    assert statuses(harness) == {event: "Started"}


def test_gone_when_done(harness: ServiceHarness) -> None:
    """When the VM is back, there is nothing to see."""
    harness.approve(harness.operate("restart", "web-0"))
    harness.let_it_end()

    assert statuses(harness) == {}


def test_gone_when_canceled(harness: ServiceHarness) -> None:
    """What has not started can be taken back; what has, cannot."""
    started = harness.operate("restart", "web-0")
    harness.approve(started)
    canceled = harness.operate("restart", "web-1")

    assert harness.cancel(canceled) == ""
    assert "can no longer be canceled" in harness.cancel(started)
    assert statuses(harness) == {started: "Started"}


def test_one_update_domain(harness: ServiceHarness) -> None:
    """Two VMs of one group on one host, in two update domains, have an event each."""
    harness.operate_host("reboot", "h1")

    assert [event["Resources"] for event in harness.events("web-0")] == [["web-0"], ["web-2"]]


def test_turns(harness: ServiceHarness) -> None:
    """The second update domain waits for the first, approved or due, and then starts by itself."""
    harness.operate_host("reboot", "h1")
    first, second = statuses(harness)

    assert [harness.approve(first).status, harness.approve(second).status] == [200, 200]
    assert statuses(harness) == {first: "Started", second: "Scheduled"}
    harness.let_it_end()
    assert statuses(harness) == {second: "Started"}


def test_preempt_leaves_it_deallocated(harness: ServiceHarness) -> None:
    """An evicted VM may not ask; where the policy is delete, it is no longer there at all."""
    for vm in ("workers_1", "brief_0"):
        harness.approve(harness.operate("evict", vm), vm=vm)
    harness.let_it_end("vm-removed")
    harness.wait_for("vm-deallocated")

    assert [harness.get(vm=vm).status for vm in ("workers_1", "brief_0")] == [403, 403]
    harness.start("workers_1")
    assert harness.get(vm="workers_1").status == 200
    assert "brief_0" not in harness.assembly.node.replica.fleet.vms


def test_terminate_removes_it(harness: ServiceHarness) -> None:
    """A deleted VM is gone, with five minutes of notice where its scale set says so."""
    event = harness.operate("delete", "workers_0")
    assert statuses(harness, "workers_1") == {event: "Scheduled"}
    assert harness.assembly.node.replica.fleet.events[event.lower()].not_before == NOON + timedelta(minutes=5)
    harness.approve(event, vm="workers_1")
    harness.let_it_end("vm-removed")

    assert harness.get(vm="workers_0").status == 403
    assert "workers_0" not in harness.assembly.node.replica.fleet.vms


@pytest.mark.parametrize("vm", ["web-0", "solo"])
def test_deallocation_clears(harness: ServiceHarness, vm: str) -> None:
    """What was coming to it alone is off, and nothing is announced."""
    harness.operate("restart", vm)
    harness.deallocate(vm)
    harness.start(vm)

    assert statuses(harness, vm) == {}
