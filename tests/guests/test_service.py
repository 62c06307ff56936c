"""The whole way, with real guests: they read of an event at 169.254.169.254, approve it or not, and it happens."""

import json
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from demo.guest import Guest
from demo.service import Service, ended, wait_for
from forewarn.audit.timeline import Timeline
from forewarn.control.bodies import HostOperationBody, MoveBody, VmOperationBody
from forewarn.control.client import ControlClient
from tests.guests.conftest import GuestHarness

pytestmark = pytest.mark.end_to_end

FLEET = """
[[host]]
name = "h1"
[[host]]
name = "h2"
[[group]]
name = "web"
kind = "scale-set"
terminate_notice = "PT5M"
[[vm]]
name = "web-0"
group = "web"
host = "h1"
address = "{}"
[[vm]]
name = "web-1"
group = "web"
host = "h1"
update_domain = 1
fault_domain = 1
spot = true
address = "{}"
"""


class GuestServiceHarness:
    """A service and two guests that ask it."""

    def __init__(self, guest_harness: GuestHarness, *, hurry: float = 60, **driver: object) -> None:
        self.guest_harness = guest_harness
        fleet = FLEET.format(*guest_harness.addresses.values())
        drivers = {"qemu": guest_harness.settings(**driver)}
        self.service = Service(
            guest_harness.site, guest_harness.directory, fleet, driver="qemu", hurry=hurry, drivers=drivers
        )
        self.client: ControlClient = self.service.begin()

    def open(self) -> None:
        """Restore the guests, and wait until they are answered."""
        self.web_0, self.web_1 = (self.guest_harness.restored(name) for name in ("web-0", "web-1"))
        for guest in (self.web_0, self.web_1):
            guest.wait_for("an answer", lambda guest=guest: any("{" in said for said in guest.said("events")))  # type: ignore[misc]

    def close(self) -> None:
        self.client.close()
        self.service.kill()

    def begin_again(self) -> None:
        self.client.close()
        self.service.kill()
        self.client = self.service.begin()

    def operate(self, operation: str, vm: str = "web-0", duration: int | None = None) -> str:
        """Announce an operation; return the event's id."""
        result = self.client.operate_vm(vm, VmOperationBody(operation=operation, duration=duration))
        return result.announcements[0].event.id

    def is_shown(self, guest: Guest, event: str) -> bool:
        """Return whether the guest has been shown an event."""
        shown = (json.loads(said) for said in guest.said("events") if said.startswith("{"))
        return any(each["EventId"] == event for document in shown for each in document["Events"])

    def facts(self, vm: str) -> list[str]:
        return [line.fact for line in self.client.history(vm=vm)]


@pytest.fixture
def harness(guest_harness: GuestHarness, request: pytest.FixtureRequest) -> Iterator[GuestServiceHarness]:
    harness = GuestServiceHarness(guest_harness, **getattr(request, "param", {}))
    try:
        harness.open()
        yield harness
    finally:
        harness.close()


def test_a_guest_approves_its_restart_and_is_rebooted(harness: GuestServiceHarness) -> None:
    """It reads of the event, approves it, and boots anew; whoever is not meant is left alone."""
    boots = harness.web_0.boot_id(), harness.web_1.boot_id()
    harness.web_0.approve("self")

    event = harness.operate("restart")

    assert ended(harness.client, event).startswith("Completed")
    harness.web_0.wait_for_boot(boots[0])
    assert harness.is_shown(harness.web_0, event)
    assert event in harness.web_0.said("approved")
    assert harness.web_1.boot_id() == boots[1]
    assert "observed" not in harness.facts("web-0")


def test_a_neighbour_approves_a_freeze_and_the_clock_shows_the_gap(harness: GuestServiceHarness) -> None:
    """Any guest of the group may approve; the frozen one's clock falls behind by what was announced."""
    harness.web_1.approve("any")
    uptime, began = harness.web_0.uptime(), time.monotonic()

    event = harness.operate("freeze", duration=6)

    assert ended(harness.client, event) == "Completed: "
    passed = harness.web_0.uptime() - uptime
    behind = time.monotonic() - began - passed
    assert 4 < behind < 30  # what a guest says of its clock may come late, before and after
    assert event in harness.web_1.said("approved")
    assert not harness.web_0.said("approved")


@pytest.mark.parametrize("harness", [{"hurry": 300}], indirect=True)
def test_what_nobody_approves_happens_when_its_time_has_come(harness: GuestServiceHarness) -> None:
    """NotBefore passes, and the guest is rebooted all the same; not before."""
    boot = harness.web_0.boot_id()

    event = harness.operate("restart")

    assert ended(harness.client, event).startswith("Completed")
    (started,) = (step for step in harness.client.timeline(event).steps if step.what == "Started")
    assert started.detail == "NotBefore has passed"
    harness.web_0.wait_for_boot(boot)


def test_a_guest_is_moved_live_and_keeps_its_boot(harness: GuestServiceHarness) -> None:
    """A redeploy is felt as nothing but a pause; the service knows where the guest stands now."""
    boot = harness.web_0.boot_id()
    harness.web_0.approve("self")

    event = harness.operate("redeploy")

    assert ended(harness.client, event) == "Completed: moved while it ran"
    moved = harness.guest_harness.guest("web-0", "h2")
    assert moved.boot_id() == boot
    assert (harness.web_0.status(), harness.client.vm("web-0").host) == ("gone", "h2")
    assert "observed" not in harness.facts("web-0")


def test_a_host_is_emptied_one_update_domain_at_a_time(harness: GuestServiceHarness) -> None:
    """A host's redeploy moves its guests live, announced as a freeze, and never both at once."""
    boots = [guest.boot_id() for guest in (harness.web_0, harness.web_1)]
    harness.web_1.approve("any")

    result = harness.client.operate_host("h1", HostOperationBody(operation="redeploy"))
    events = [each.event for each in result.announcements]

    assert [event.type for event in events] == ["Freeze", "Freeze"]
    assert [ended(harness.client, event.id) for event in events] == ["Completed: moved while it ran"] * 2
    stories = [harness.client.timeline(event.id) for event in events]
    spans = sorted((_at(story, "Started"), _at(story, "Completed")) for story in stories)
    assert spans[0][1] <= spans[1][0]
    assert [harness.guest_harness.guest(name, "h2").boot_id() for name in ("web-0", "web-1")] == boots


def test_a_guest_is_moved_live_to_the_host_that_is_named(harness: GuestServiceHarness) -> None:
    """Announced as a freeze, it approves, and goes on running there; with --record nothing is done to it."""
    boot = harness.web_0.boot_id()
    harness.web_0.approve("self")

    result = harness.client.move_vm("web-0", MoveBody(host="h2"))

    (event,) = [each.event for each in result.announcements]
    assert (event.type, event.resources) == ("Freeze", ("web-0",))
    assert ended(harness.client, event.id) == "Completed: moved while it ran"
    assert harness.guest_harness.guest("web-0", "h2").boot_id() == boot
    assert (harness.web_0.status(), harness.client.vm("web-0").host) == ("gone", "h2")
    assert harness.client.timeline(event.id).target == "h2"
    recorded = harness.client.move_vm("web-0", MoveBody(host="h1", record=True))
    assert (recorded.announcements, harness.client.vm("web-0").host) == ((), "h1")
    assert harness.guest_harness.guest("web-0", "h2").boot_id() == boot


def test_a_move_that_fails_leaves_the_guest_where_it_runs(harness: GuestServiceHarness) -> None:
    """The event ends Failed with the reason; the guest is where and what it was."""
    boot = harness.web_0.boot_id()
    harness.guest_harness.site.describe("web-0", 0, memory=64)
    harness.web_0.approve("self")

    event = harness.operate("redeploy")

    assert ended(harness.client, event) == (
        "Failed: web-0 could not be moved to h2: the machine there has 64 MiB of memory, and the guest needs 96 MiB; "
        "it is running on h1"
    )
    assert harness.web_0.uptime() > 0
    assert harness.web_0.boot_id() == boot
    assert harness.client.vm("web-0").host == "h1"


def test_an_evicted_guest_is_warned_and_ends(harness: GuestServiceHarness) -> None:
    """It reads of its eviction; then its machine is gone, and its VM is deallocated."""
    event = harness.operate("evict", "web-1")

    assert ended(harness.client, event) == "Completed: "
    assert harness.web_1.status() == "gone"
    assert "vm-deallocated" in harness.facts("web-1")
    assert "observed" not in harness.facts("web-1")


def test_a_deleted_guest_approves_its_end(harness: GuestServiceHarness) -> None:
    """With terminate notice it may say that it is ready; then machine and VM are gone."""
    harness.web_0.approve("self")

    event = harness.operate("delete")

    assert ended(harness.client, event) == "Completed: "
    approved = [step.by for step in harness.client.timeline(event).steps if step.what == "approved"]
    assert approved == [f"web-0 ({harness.guest_harness.addresses['web-0']})"]
    assert harness.web_0.status() == "gone"
    assert [vm.name for vm in harness.client.vms()] == ["web-1"]


@pytest.mark.parametrize("harness", [{"grace": 3}], indirect=True)
def test_a_service_killed_half_way_reboots_the_guest_once(harness: GuestServiceHarness) -> None:
    """Killed between approval and reboot, the service finds out what was done, and does the rest."""
    boot = harness.web_0.boot_id()
    harness.web_0.order("killall dd")  # nobody heeds the power button, so that there is a half-way
    harness.web_0.approve("self")
    event = harness.operate("restart")
    page = harness.guest_harness.directory / "data" / "driver" / event.lower()
    wait_for("the driver to begin", lambda: page.exists() and b"powering-down" in page.read_bytes())

    harness.begin_again()

    assert ended(harness.client, event).startswith("Completed")
    harness.web_0.wait_for_boot(boot)
    assert harness.web_0.resets == 1


def test_a_killed_machine_is_a_hardware_failure_and_comes_back(harness: GuestServiceHarness) -> None:
    """Its crash is a fact; an event without notice tells of the failure, and the guest boots anew."""
    boot = harness.web_0.boot_id()
    wait_for("the service to listen", lambda: harness.web_0.execute("query-chardev") and _is_heard(harness.web_0))

    harness.web_0.kill()

    wait_for("the failure to be seen", lambda: "observed" in harness.facts("web-0"))
    wait_for("the event", lambda: "completed" in [line.fact for line in harness.client.history(group="web")])
    (born,) = (line for line in harness.client.history(vm="web-0") if line.fact == "started-at-once")
    assert (born.type, born.vms) == ("Redeploy", ("web-0",))
    assert born.detail["description"] == "Virtual machine has encountered a failure."
    harness.web_0.wait_for_boot(boot)


def test_a_machine_that_died_while_no_service_ran_comes_back(harness: GuestServiceHarness) -> None:
    """The service finds that its process is gone when it starts: once, and the guest boots anew."""
    boot = harness.web_0.boot_id()
    harness.client.close()
    harness.service.kill()

    harness.web_0.kill()
    harness.client = harness.service.begin()

    harness.web_0.wait_for_boot(boot)
    wait_for("the event", lambda: "completed" in [line.fact for line in harness.client.history(group="web")])
    seen = [str(line.detail) for line in harness.client.history(vm="web-0") if line.fact == "observed"]
    assert len(seen) == 1, seen
    assert "had died before observation began" in seen[0]
    assert "observed" not in harness.facts("web-1")


def _at(story: Timeline, what: str) -> datetime:
    return next(step.at for step in story.steps if step.what == what)


def _is_heard(guest: Guest) -> bool:
    """Return whether somebody is connected to the service's monitor of a machine."""
    monitors = {each["label"]: each["filename"] for each in guest.execute("query-chardev")}
    return any("qmp" in filename and "disconnected" not in filename for filename in monitors.values())
