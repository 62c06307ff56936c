"""The whole way, with real guests: they read of an event at 169.254.169.254, approve it or not, and it happens."""

import json
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from demo.guest import Guest
from demo.service import Service, ended, wait_for
from forewarn.control.bodies import HostOperationBody, MoveBody, VmOperationBody
from forewarn.control.client import Client
from forewarn.control.story import Story
from tests.guests.conftest import Park

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


class Cloud:
    """A service and two guests that ask it."""

    def __init__(self, park: Park, *, hurry: float = 60, **driver: object) -> None:
        self.park = park
        fleet = FLEET.format(*park.addresses.values())
        drivers = {"qemu": park.settings(**driver)}
        self.service = Service(park.site, park.directory, fleet, driver="qemu", hurry=hurry, drivers=drivers)
        self.client: Client = self.service.begin()

    def open(self) -> None:
        """Restore the guests, and wait until they are answered."""
        self.web_0, self.web_1 = (self.park.restored(name) for name in ("web-0", "web-1"))
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
        told = self.client.operate_vm(vm, VmOperationBody(operation=operation, duration=duration))  # type: ignore[arg-type]
        return told.announcements[0].event.id

    def is_shown(self, guest: Guest, event: str) -> bool:
        """Tell whether the guest has been shown an event."""
        shown = (json.loads(said) for said in guest.said("events") if said.startswith("{"))
        return any(each["EventId"] == event for document in shown for each in document["Events"])

    def facts(self, vm: str) -> list[str]:
        return [line.fact for line in self.client.history(vm=vm)]


@pytest.fixture
def cloud(park: Park, request: pytest.FixtureRequest) -> Iterator[Cloud]:
    cloud = Cloud(park, **getattr(request, "param", {}))
    try:
        cloud.open()
        yield cloud
    finally:
        cloud.close()


def test_a_guest_approves_its_restart_and_is_rebooted(cloud: Cloud) -> None:
    """It reads of the event, approves it, and boots anew; whoever is not meant is left alone."""
    boots = cloud.web_0.boot_id(), cloud.web_1.boot_id()
    cloud.web_0.approve("self")

    event = cloud.operate("restart")

    assert ended(cloud.client, event).startswith("Completed")
    cloud.web_0.wait_for_boot(boots[0])
    assert cloud.is_shown(cloud.web_0, event)
    assert event in cloud.web_0.said("approved")
    assert cloud.web_1.boot_id() == boots[1]
    assert "observed" not in cloud.facts("web-0")


def test_a_neighbour_approves_a_freeze_and_the_clock_shows_the_gap(cloud: Cloud) -> None:
    """Any guest of the group may approve; the frozen one's clock falls behind by what was announced."""
    cloud.web_1.approve("any")
    uptime, began = cloud.web_0.uptime(), time.monotonic()

    event = cloud.operate("freeze", duration=6)

    assert ended(cloud.client, event) == "Completed: "
    passed = cloud.web_0.uptime() - uptime
    behind = time.monotonic() - began - passed
    assert 4 < behind < 30  # what a guest says of its clock may come late, before and after
    assert event in cloud.web_1.said("approved")
    assert not cloud.web_0.said("approved")


@pytest.mark.parametrize("cloud", [{"hurry": 300}], indirect=True)
def test_what_nobody_approves_happens_when_its_time_has_come(cloud: Cloud) -> None:
    """NotBefore passes, and the guest is rebooted all the same; not before."""
    boot = cloud.web_0.boot_id()

    event = cloud.operate("restart")

    assert ended(cloud.client, event).startswith("Completed")
    (started,) = (step for step in cloud.client.story(event).steps if step.what == "Started")
    assert started.detail == "NotBefore has passed"
    cloud.web_0.wait_for_boot(boot)


def test_a_guest_is_moved_live_and_keeps_its_boot(cloud: Cloud) -> None:
    """A redeploy is felt as nothing but a pause; the service knows where the guest stands now."""
    boot = cloud.web_0.boot_id()
    cloud.web_0.approve("self")

    event = cloud.operate("redeploy")

    assert ended(cloud.client, event) == "Completed: moved while it ran"
    moved = cloud.park.guest("web-0", "h2")
    assert moved.boot_id() == boot
    assert (cloud.web_0.status(), cloud.client.vm("web-0").host) == ("gone", "h2")
    assert "observed" not in cloud.facts("web-0")


def test_a_host_is_emptied_one_update_domain_at_a_time(cloud: Cloud) -> None:
    """A host's redeploy moves its guests live, announced as a freeze, and never both at once."""
    boots = [guest.boot_id() for guest in (cloud.web_0, cloud.web_1)]
    cloud.web_1.approve("any")

    told = cloud.client.operate_host("h1", HostOperationBody(operation="redeploy"))
    events = [each.event for each in told.announcements]

    assert [event.type for event in events] == ["Freeze", "Freeze"]
    assert [ended(cloud.client, event.id) for event in events] == ["Completed: moved while it ran"] * 2
    stories = [cloud.client.story(event.id) for event in events]
    spans = sorted((_at(story, "Started"), _at(story, "Completed")) for story in stories)
    assert spans[0][1] <= spans[1][0]
    assert [cloud.park.guest(name, "h2").boot_id() for name in ("web-0", "web-1")] == boots


def test_a_guest_is_moved_live_to_the_host_that_is_named(cloud: Cloud) -> None:
    """Announced as a freeze, it approves, and goes on running there; with --record nothing is done to it."""
    boot = cloud.web_0.boot_id()
    cloud.web_0.approve("self")

    told = cloud.client.move_vm("web-0", MoveBody(host="h2"))

    (event,) = [each.event for each in told.announcements]
    assert (event.type, event.resources) == ("Freeze", ("web-0",))
    assert ended(cloud.client, event.id) == "Completed: moved while it ran"
    assert cloud.park.guest("web-0", "h2").boot_id() == boot
    assert (cloud.web_0.status(), cloud.client.vm("web-0").host) == ("gone", "h2")
    assert cloud.client.story(event.id).target == "h2"
    recorded = cloud.client.move_vm("web-0", MoveBody(host="h1", record=True))
    assert (recorded.announcements, cloud.client.vm("web-0").host) == ((), "h1")
    assert cloud.park.guest("web-0", "h2").boot_id() == boot


def test_a_move_that_fails_leaves_the_guest_where_it_runs(cloud: Cloud) -> None:
    """The event ends Failed with the reason; the guest is where and what it was."""
    boot = cloud.web_0.boot_id()
    cloud.park.site.describe("web-0", 0, memory=64)
    cloud.web_0.approve("self")

    event = cloud.operate("redeploy")

    assert ended(cloud.client, event) == (
        "Failed: web-0 could not be moved to h2: the machine there has 64 MiB of memory, and the guest needs 96 MiB; "
        "it is running on h1"
    )
    assert cloud.web_0.uptime() > 0
    assert cloud.web_0.boot_id() == boot
    assert cloud.client.vm("web-0").host == "h1"


def test_an_evicted_guest_is_warned_and_ends(cloud: Cloud) -> None:
    """It reads of its eviction; then its machine is gone, and its VM is deallocated."""
    event = cloud.operate("evict", "web-1")

    assert ended(cloud.client, event) == "Completed: "
    assert cloud.web_1.status() == "gone"
    assert "vm-deallocated" in cloud.facts("web-1")
    assert "observed" not in cloud.facts("web-1")


def test_a_deleted_guest_approves_its_end(cloud: Cloud) -> None:
    """With terminate notice it may say that it is ready; then machine and VM are gone."""
    cloud.web_0.approve("self")

    event = cloud.operate("delete")

    assert ended(cloud.client, event) == "Completed: "
    approved = [step.by for step in cloud.client.story(event).steps if step.what == "approved"]
    assert approved == [f"web-0 ({cloud.park.addresses['web-0']})"]
    assert cloud.web_0.status() == "gone"
    assert [vm.name for vm in cloud.client.vms()] == ["web-1"]


@pytest.mark.parametrize("cloud", [{"grace": 3}], indirect=True)
def test_a_service_killed_half_way_reboots_the_guest_once(cloud: Cloud) -> None:
    """Killed between approval and reboot, the service finds out what was done, and does the rest."""
    boot = cloud.web_0.boot_id()
    cloud.web_0.order("killall dd")  # nobody heeds the power button, so that there is a half-way
    cloud.web_0.approve("self")
    event = cloud.operate("restart")
    page = cloud.park.directory / "data" / "driver" / event.lower()
    wait_for("the driver to begin", lambda: page.exists() and b"powering-down" in page.read_bytes())

    cloud.begin_again()

    assert ended(cloud.client, event).startswith("Completed")
    cloud.web_0.wait_for_boot(boot)
    assert cloud.web_0.resets == 1


def test_a_killed_machine_is_a_hardware_failure_and_comes_back(cloud: Cloud) -> None:
    """Its crash is a fact; an event without notice tells of the failure, and the guest boots anew."""
    boot = cloud.web_0.boot_id()
    wait_for("the service to listen", lambda: cloud.web_0.execute("query-chardev") and _is_heard(cloud.web_0))

    cloud.web_0.kill()

    wait_for("the failure to be seen", lambda: "observed" in cloud.facts("web-0"))
    wait_for("the event", lambda: "completed" in [line.fact for line in cloud.client.history(group="web")])
    (born,) = (line for line in cloud.client.history(vm="web-0") if line.fact == "started-at-once")
    assert (born.type, born.vms) == ("Redeploy", ("web-0",))
    assert born.detail["description"] == "Virtual machine has encountered a failure."
    cloud.web_0.wait_for_boot(boot)


def test_a_machine_that_died_while_no_service_ran_comes_back(cloud: Cloud) -> None:
    """The service finds that its process is gone when it starts: once, and the guest boots anew."""
    boot = cloud.web_0.boot_id()
    cloud.client.close()
    cloud.service.kill()

    cloud.web_0.kill()
    cloud.client = cloud.service.begin()

    cloud.web_0.wait_for_boot(boot)
    wait_for("the event", lambda: "completed" in [line.fact for line in cloud.client.history(group="web")])
    seen = [str(line.detail) for line in cloud.client.history(vm="web-0") if line.fact == "observed"]
    assert len(seen) == 1, seen
    assert "had died before anybody listened" in seen[0]
    assert "observed" not in cloud.facts("web-1")


def _at(story: Story, what: str) -> datetime:
    return next(step.at for step in story.steps if step.what == what)


def _is_heard(guest: Guest) -> bool:
    """Tell whether somebody is connected to the service's monitor of a machine."""
    monitors = {each["label"]: each["filename"] for each in guest.execute("query-chardev")}
    return any("qmp" in filename and "disconnected" not in filename for filename in monitors.values())
