"""A history in which every kind of fact, operation and cause occurs, recorded by the real service.

``tell`` carries it out on a service with a SQLite journal; ``write.py`` keeps what it leaves on disk.
"""

import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from msgspec.structs import asdict, replace

from forewarn.config import toml
from forewarn.core.commands import (
    ApplyDeclaration,
    Approve,
    Command,
    CreateToken,
    ImpactResult,
    Postponement,
    RecordDelivered,
    RecordObservation,
    RecordTest,
    RemoveSubscription,
    ReportImpact,
    ReportPowerSwitch,
    RevokeToken,
    SetSubscription,
)
from forewarn.core.facts import Announced, RecordedRequest, StartedAtOnce
from forewarn.core.model import (
    NODE,
    Caller,
    CallerKind,
    EventStatus,
    EventType,
    Observation,
    ObservationKind,
    Role,
    Subscription,
    SubscriptionKind,
    Token,
)
from forewarn.fleetfile.diff import CurrentFleet, diff_fleet
from forewarn.fleetfile.parser import parse_fleet
from forewarn.simulator.words import Labels
from tests.core.sentences import Reader
from tests.harness import ApiHarness, ApiResponse

FLEET = """
host = [{name="h1"}, {name="h2"}, {name="h3"}, {name="h4"}, {name="h5"}, {name="h6"}, {name="h7"}, {name="spare"}]

[[group]]
name = "web"
kind = "availability-set"
postpone_limit = "PT1H"

[[group]]
name = "db"
kind = "availability-set"
approval = "all"

[[group]]
name = "queue"
kind = "cloud-service"
approval = "quorum"
quorum = 2
quiet_hours = ["Mon-Fri 08:00-18:00 Europe/Berlin", "22:00-06:00"]

[[group]]
name = "pool"
kind = "scale-set"
terminate_notice = "PT5M"
eviction = "delete"

[[group]]
name = "batch"
kind = "scale-set"

[[group]]
name = "auto"
kind = "availability-set"
approve_user_reboot = true
approve_user_redeploy = true
approve_all_down = false
restart_after_crash = false

[[vm]]
name = "web-0"
group = "web"
host = "h1"
zone = "1"
address = "10.0.0.10"
tap = "tap-web-0"
mark = 7
mac_address = "52:54:00:00:00:10"
subnet = "10.0.0.0/24"
public_ip_address = "203.0.113.10"
ipv6_address = "2001:db8::10"
vm_id = "6f1c2e5a-0000-4000-8000-000000000010"
vm_size = "Standard_D2s_v5"
os_type = "Windows"
location = "westeurope"
resource_group_name = "production"
subscription_id = "00000000-0000-4000-8000-000000000001"
tags = { tier = "front", "größe" = "klein" }

[[vm]]
name = "web-1"
group = "web"
host = "h2"
update_domain = 1
fault_domain = 1
address = "10.0.0.11"

[[vm]]
name = "db-0"
group = "db"
host = "h1"
address = "10.0.0.20"

[[vm]]
name = "db-1"
group = "db"
host = "h1"
fault_domain = 1
address = "10.0.0.21"

[[vm]]
name = "db-2"
group = "db"
host = "h2"
update_domain = 1
address = "10.0.0.22"

[[vm]]
name = "queue-0"
group = "queue"
host = "h3"

[[vm]]
name = "queue-1"
group = "queue"
host = "h3"
update_domain = 1

[[vm]]
name = "queue-2"
group = "queue"
host = "h4"
update_domain = 2

[[vm]]
name = "pool_0"
group = "pool"
host = "h3"
zone = "1"
spot = true

[[vm]]
name = "pool_1"
group = "pool"
host = "h4"
zone = "2"

[[vm]]
name = "pool_2"
group = "pool"
host = "h4"
zone = "2"

[[vm]]
name = "pool_3"
group = "pool"
host = "h5"
spot = true

[[vm]]
name = "batch_0"
group = "batch"
host = "h5"
spot = true

[[vm]]
name = "batch_1"
group = "batch"
host = "h5"
spot = true

[[vm]]
name = "batch_2"
group = "batch"
host = "h4"

[[vm]]
name = "batch_3"
group = "batch"
host = "h3"

[[vm]]
name = "auto-0"
group = "auto"
host = "h5"

[[vm]]
name = "auto-1"
group = "auto"
host = "h6"
update_domain = 1

[[vm]]
name = "lone"
host = "h6"
"""

CAUSES = {
    "started": (
        r"approved by \S+",
        r"approved by \S+(?:, \S+)+",
        r"all VMs of the group are down",
        r"NotBefore has passed",
        r"the group is off: none of its VMs asks",
        r"deleted without terminate notice",
        r"approved automatically by the group's policy",
    ),
    "started-at-once": (
        r"the group is off: none of its VMs asks",
        r"deleted without terminate notice",
        r"approved automatically by the group's policy",
        r"hardware failure",
    ),
    "canceled": (
        r"canceled by ada \(control\.sock\)",
        r"vm evict batch_0",
        r"vm delete batch_\d",
        r"(?:db-2|web-1) was deallocated",
        r"pool_2 was deleted",
        r"batch_1 was evicted",
        r"none of its VMs stands on h2 any more",
        r"h2 was repaired",
        r"h1 was uncordoned",
        r"host failed",
        r"host h6 failed, to which it was to move its VMs",
        r"the VM's place in the fleet was changed",
        r"the fleet file changed the VM's place",
    ),
    "failed": (
        r"host failed",
        r"(?:auto-1|lone) crashed",
        r"the driver gave no reason",
        r"no such machine; moved to mars, which the fleet does not know",
        r"moved to h6, which has failed meanwhile",
        r"unknown outcome, not repeated: the host does not answer",
    ),
    "completed": (r"", r"it runs again", r"moved to mars, which the fleet does not know"),
    "vm-removed": (r"deleted", r"evicted"),
    "vm-deallocated": (r"evicted", r"deallocated by ada \(control\.sock\)"),
    "announced": (
        r"",
        r"stands on h5",
        r"group (?:batch|pool) lost \d in 24 hours, no other fewer",
        r"newest of the \d VMs in zone 2, fault domain 0",
        r"newest of the \d VMs in fault domain 0",
    ),
}
"""What facts say of why they happened, as patterns: every sentence of this version, and no other."""

OPERATIONS = frozenset(
    {
        *("vm restart", "vm redeploy", "vm freeze", "vm evict", "vm delete", "vm move", "vm fail"),
        *("host freeze", "host reboot", "host redeploy", "host degrade", "host fail", "host drain"),
    }
)
"""What announces events in this version."""

SECRET = "c" * 43
"""The secret of every token here."""
OLGA = "00000000000000aa"
VERA = "00000000000000bb"
KEY = "restart-once"
RESTARTED = "web-1"
"""The VM that is to be restarted, asked for over the API, under an Idempotency-Key."""


def token_of(id: str) -> str:
    """Return what the bearer of a token shows."""
    return f"fw_{id}_{SECRET}"


def restart(harness: ApiHarness) -> ApiResponse:
    """Ask for the restart of a VM, always under the same key."""
    return harness.ask(
        "POST",
        f"/v1/vms/{RESTARTED}/operations",
        {"operation": "restart"},
        token=token_of(OLGA),
        headers={"Idempotency-Key": KEY},
    )


class Story:
    """Carries out sentences and commands, seven seconds between two of them."""

    def __init__(self, harness: ApiHarness) -> None:
        self._harness = harness
        self._labels = Labels()
        self._reader = Reader(harness.node.replica.fleet, self._labels)
        self._reader._count = harness.node.replica.revision  # ids of commands are used once
        self._count = 0

    @property
    def revision(self) -> int:
        return self._harness.node.replica.revision

    def now(self) -> datetime:
        return self._harness.clock.now()

    def say(self, sentence: str) -> str:
        """Carry out a sentence; return the label of the event that it announces first, if it announces any."""
        self.wait(timedelta(seconds=7))
        command = self._reader.read(sentence, self.now())
        return self.do(replace(command, by=self._caller(command.by)), sentence)

    def do(self, command: Command, sentence: str = "") -> str:
        if command.by == NODE:
            command = replace(command, id=UUID(command.id).hex)  # as the service writes its own
        elif command.by.kind is not CallerKind.VM:
            named = tuple(each for each in (getattr(command, "event", ""),) if each)
            fingerprint = hashlib.blake2b(sentence.encode(), digest_size=16).hexdigest()
            events = command.events if isinstance(command, Approve) else named
            command = replace(command, request=RecordedRequest(fingerprint, events))
        facts = self._harness.do(command)
        born = []
        for fact in facts:
            self._labels.give(fact)
            if isinstance(fact, Announced | StartedAtOnce):
                born.append(self._labels.of(fact.event.id))
        return born[0] if born else ""

    def id(self) -> str:
        """Draw the id of a command that no sentence gives."""
        self._count += 1
        return str(UUID(int=(1 << 64) + self._count))

    def event(self, label: str) -> str:
        return self._labels.id_of(label)

    def wait(self, time: timedelta) -> None:
        self._harness.clock.advance(time)

    def wait_until_due(self) -> None:
        """Let the notice of everything that is announced pass."""
        self.wait(timedelta(minutes=20))
        self.say("the time comes")

    def step_clock(self, by: timedelta) -> None:
        self._harness.clock.step(by)

    def apply(self, text: str, *, is_start: bool = False, cancel_events: bool = False) -> None:
        """Apply a fleet file: by an operator, or at a start of the service."""
        self.wait(timedelta(seconds=7))
        fleet = self._harness.node.replica.fleet
        command = ApplyDeclaration(
            id=self.id(),
            by=NODE if is_start else _operator(),
            seen=fleet.last_applied.revision,
            digest=hashlib.sha256(text.encode()).hexdigest(),
            source="/etc/forewarn/fleet.toml",
            is_start=is_start,
            cancel_events=cancel_events,
            **asdict(diff_fleet(parse_fleet(toml.parse(text, "fleet.toml")), CurrentFleet.last_applied(fleet))),
        )
        self.do(command, text)

    def report_switch(self, vm: str, result: ImpactResult, detail: str) -> None:
        """Let the driver tell whether it started or stopped a VM."""
        asked = self._harness.node.replica.fleet.power_requests[vm].id
        self.do(ReportPowerSwitch(id=self.id(), by=NODE, vm=vm, asked=asked, result=result, detail=detail))

    def unfinished(self, operation: str, vm: str = "") -> list[str]:
        """Return the labels of the unfinished events of an operation."""
        events = self._harness.node.replica.fleet.events.values()
        return [self._labels.of(e.id) for e in events if e.operation == operation and vm in (*e.vms, "")]

    def finish_all(self) -> None:
        """Let the time of every event come, and the driver carry out all of them."""
        while events := self._harness.node.replica.fleet.events:
            self.wait_until_due()
            for event in [event.id for event in events.values() if event.status is EventStatus.STARTED]:
                self.finish(self._labels.of(event))

    def finish(self, label: str, *moves: str) -> None:
        """Let the driver carry out an event."""
        self.say(f"the driver begins {label}")
        self.say(", ".join((f"the driver is done with {label}", *moves)))

    def _caller(self, by: Caller) -> Caller:
        if by.kind is CallerKind.VM:
            vm = self._harness.node.replica.fleet.vms[by.name]
            return replace(by, origin=vm.address or f"10.9.0.{len(by.name)}")
        return by if by == NODE else replace(by, origin="control.sock")


def tell(harness: ApiHarness, take_snapshot: Callable[[], object]) -> None:
    """Tell the whole story; the snapshot is taken where a fleet has something of everything."""
    harness.declare(FLEET)
    story = Story(harness)
    _tell_access(story)
    _tell_enrolment(story)
    _tell_approvals(story)
    _tell_user_operations(story)
    _tell_hosts(story)
    _tell_spot(story)
    _tell_scale_sets(story)
    _tell_machines(story)
    _tell_drains(story)
    _tell_power(story)
    _tell_clock(story)
    _tell_declarations(story, take_snapshot)
    _tell_requests(harness, story)


def _operator(name: str = "ada") -> Caller:
    return Caller(CallerKind.OPERATOR, name, "control.sock")


def _owner() -> Caller:
    return Caller(CallerKind.OWNER, "olga", "192.0.2.7")


def _tell_access(story: Story) -> None:
    """Tokens and subscriptions of every kind; some are replaced or removed."""
    hashed = hashlib.sha256(SECRET.encode()).hexdigest()
    at = story.now()
    tokens = (
        Token("00000000000000cc", "ci", Role.OPERATOR, hashed, at, at + timedelta(days=30)),
        Token(OLGA, "olga", Role.OWNER, hashed, at, groups=("web", "auto")),
        Token(VERA, "vera", Role.VIEWER, hashed, at),
    )
    for token in tokens:
        story.do(CreateToken(id=story.id(), by=_operator(), token=token), token.name)
    renewed = replace(tokens[0], hash=hashlib.sha256(b"another").hexdigest(), created_at=at + timedelta(hours=1))
    story.do(CreateToken(id=story.id(), by=_operator(), token=renewed, replaces=renewed.id), "renew")
    other = Token("00000000000000dd", "other", Role.OPERATOR, hashed, at)
    story.do(CreateToken(id=story.id(), by=_operator(), token=other), "other")
    story.do(RevokeToken(id=story.id(), by=_operator(), token=other.id), "revoke")
    subscriptions = (
        Subscription("s-hook", "hook", SubscriptionKind.WEBHOOK, "https://example.org/hook?key=1", "whsec_MfKQ9r8G"),
        Subscription("s-slack", "slack", SubscriptionKind.SLACK, "https://hooks.example.org/T0/B0", groups=("web",)),
        Subscription("s-teams", "teams", SubscriptionKind.TEAMS, "https://teams.example.org/x", types=(*EventType,)),
        Subscription("s-mail", "mail", SubscriptionKind.MAIL, "ops@example.org"),
    )
    for subscription in subscriptions:
        story.do(SetSubscription(id=story.id(), by=_operator(), subscription=subscription), subscription.name)
    story.do(RemoveSubscription(id=story.id(), by=_operator(), subscription="s-mail"), "remove")
    story.do(RecordTest(id=story.id(), by=_operator(), subscription="s-hook"), "test")
    story.do(RecordDelivered(id=story.id(), by=NODE, revisions={"s-hook": 4, "s-slack": 3}))
    changed = replace(subscriptions[0], groups=("web", "db"), told=4)
    story.do(SetSubscription(id=story.id(), by=_operator(), subscription=changed), "change")


def _tell_enrolment(story: Story) -> None:
    for vm in ("web-0", "db-0", "queue-0", "pool_0", "auto-0"):
        story.say(f"{vm} asks")
    story.wait(timedelta(hours=7))
    story.say("the record is kept that web-1 asked")


def _tell_approvals(story: Story) -> None:
    """Every rule of approval, postponements, quiet hours, and events that wait for others."""
    freeze = story.say("ada freezes web-0 for 9 s saying Replace a fan.")
    story.say(f"web-1 is shown {freeze}")
    story.say(f"web-0 postpones {freeze} by 120 s saying A backup runs.")
    late = Postponement(story.event(freeze), 60)
    story.do(Approve(id=story.id(), by=_owner(), postponements=(late,)), "postpone")
    story.say(f"web-1 approves {freeze}")
    story.finish(freeze)

    story.say("ada reboots host h1")
    db, web = story.unfinished("host reboot")  # db-0 and db-1 share an event
    story.say(f"ada cancels {story.say('ada restarts db-2')}")
    story.say(f"db-2 approves {db}")  # does not count
    story.say(f"db-0 approves {db}")
    story.say(f"db-1 approves {db}")
    later = story.say("ada freezes db-2")
    story.say(f"db-2 approves {later}")  # waits for its turn
    story.say("ada deallocates db-2")
    story.say(f"the driver begins {db}")
    story.say(f"the driver fails {db}: ")
    story.say("ada starts db-2")
    story.do(Approve(id=story.id(), by=_owner(), events=(story.event(web),)), "approve")
    story.say(f"the driver begins {web}")
    story.say(f"the driver begins {web}")  # after a restart of the service
    unknown = "unknown outcome, not repeated: the host does not answer"
    story.say(f"the driver fails {web}: {unknown}")

    quiet = story.say("ada freezes queue-0")
    story.say(f"queue-1 approves {quiet}")
    story.say("ada sets queue approval=quorum quorum=1")
    story.say("ada sets queue approval=quorum quorum=3")  # no longer enough
    story.say(f"queue-2 approves {quiet}")
    story.say(f"queue-0 approves {quiet}")  # quiet hours
    story.say("ada sets queue quiet_hours=")
    due = story.say("ada freezes queue-2 saying ")
    story.wait_until_due()
    story.finish(quiet)
    story.say(f"ada approves {due}")
    story.finish(due)
    operator = story.say("ada redeploys web-1")
    story.say(f"ada approves {operator}")
    story.say(f"the driver begins {operator}")
    story.say(f"the driver fails {operator}, web-1 on mars: no such machine")
    plain = story.say("ada freezes web-1")
    story.wait_until_due()
    story.finish(plain)


def _tell_user_operations(story: Story) -> None:
    """Operations without notice: begun at once, and after the event that is in their way."""
    busy = story.say("ada freezes batch_2")
    story.say(f"ada approves {busy}")
    story.say("ada restarts batch_2")
    deleted = story.say("ada deletes batch_2")
    story.finish(busy)
    story.finish(deleted)
    at_once = story.say("ada redeploys batch_1")
    story.say(f"the driver begins {at_once}")
    story.say(f"the driver is done with {at_once}, batch_1 on mars")
    frozen = story.say("ada freezes auto-0")
    story.say(f"auto-0 approves {frozen}")
    automatic = story.say("ada restarts auto-0")
    story.finish(frozen)
    story.finish(automatic)
    automatic = story.say("ada redeploys auto-0")
    story.finish(automatic, "auto-0 on h4")
    story.say("ada restarts lone")
    story.say("the driver sees lone crashed")  # takes the restart along
    again = story.say("ada restarts lone")
    story.finish(*story.unfinished("vm fail"))
    story.finish(again)


def _tell_hosts(story: Story) -> None:
    """Maintenance of hosts; hosts that are expected to fail, fail and are repaired."""
    story.say("ada freezes host h2")
    moved = story.say("ada redeploys web-1")
    story.say(f"web-1 approves {moved}")
    story.finish(moved, "web-1 on spare")  # the freeze of its old host is canceled
    soon = f"{story.now() + timedelta(hours=1):%Y-%m-%d %H:%M:%S}"
    story.say(f"ada degrades host h2 not before {soon}")
    story.say("ada degrades host h2")  # comes earlier now
    story.say("ada repairs host h2")
    live = story.say("ada redeploys host h3 live")
    story.say(f"ada approves {live}")
    story.finish(live, "batch_3 on h4")
    cold = story.say("ada redeploys host h5")
    story.say(f"ada cancels {cold}")

    story.say("ada moves web-0 to h6 by driver")
    arriving = story.say("ada redeploys web-1")
    story.say(f"web-1 approves {arriving}")
    story.say("ada freezes auto-1")
    story.say("ada restarts lone")
    first = story.say("ada fails host h6")
    story.say(f"the driver begins {arriving}")
    story.say(f"the driver is done with {arriving}, web-1 on h6")
    story.finish(first, "auto-1 on h5")
    story.finish(*story.unfinished("host fail"), "lone on h5")
    move = story.say("ada moves lone to h4 live for 3 s")
    story.wait_until_due()
    story.finish(move, "lone on h4")
    story.finish_all()
    story.say("ada records web-1 on h4")


def _tell_spot(story: Story) -> None:
    """Evictions that deallocate and that delete, of VMs that are named, counted, or on one host."""
    story.say("ada freezes batch_0")
    evicted = story.say("ada evicts batch_0")
    story.wait_until_due()
    story.finish(evicted)
    evicted = story.say("ada evicts batch_1")
    story.say("ada freezes batch_1")
    story.wait_until_due()
    story.finish(evicted)
    story.say("ada starts batch_0")
    chosen = story.say("ada reclaims 1 spot VMs")
    story.wait_until_due()
    story.finish(chosen)
    story.say("ada reclaims the spot VMs of h5")
    story.wait_until_due()
    for event in story.unfinished("vm evict"):
        story.finish(event)


def _tell_scale_sets(story: Story) -> None:
    """Deletions that are announced, and some that are not."""
    deleted = story.say("ada scales pool in by 1")
    story.say("ada freezes pool_2")
    story.wait_until_due()
    story.finish(deleted)
    story.say("ada freezes batch_3")
    story.finish(story.say("ada scales batch in by 1"))
    story.say("ada declares: vm pool_8 in pool on h4; vm pool_9 in pool on h4")
    story.say("ada deallocates pool_8")
    last = story.say("ada deletes pool_8")
    for vm in ("pool_0", "pool_1", "pool_9"):
        story.say(f"ada deallocates {vm}")
    story.finish(last)
    story.say("ada starts pool_9")


def _tell_machines(story: Story) -> None:
    """What a driver sees happen to machines."""
    frozen = story.say("ada freezes auto-1")
    story.say(f"auto-1 approves {frozen}")
    story.say("the driver sees auto-1 crashed saying killed by signal 9")
    for vm, what in (("queue-0", "rebooted"), ("queue-0", "stopped"), ("queue-0", "started"), ("queue-2", "gone")):
        story.say(f"the driver sees {vm} {what} saying by virsh")
    story.say("the driver sees queue-1 moved to h4 saying runs there")
    story.wait(timedelta(minutes=1))
    sighting = Observation("web-0", ObservationKind.CRASHED, story.now(), "found dead", is_found=True)
    failure = story.do(RecordObservation(id=story.id(), by=NODE, observation=sighting))
    story.say(f"the driver begins {failure}")
    story.do(
        ReportImpact(
            id=story.id(), by=NODE, event=story.event(failure), result=ImpactResult.DONE, detail="it runs again"
        )
    )


def _tell_drains(story: Story) -> None:
    left = "h5 has 12 MiB left, and it needs 2048 MiB"
    story.say(f"ada drains host h1 to db-0 on h5, db-1 on spare leaving web-0 ({left})")
    story.say("ada uncordons host h1")
    drained = story.say("ada drains host h2 live")
    story.say(f"ada approves {drained}")
    story.finish(drained, "db-2 on spare")
    story.say("ada drains host h1 live to db-0 on h5, db-1 on spare, web-0 on spare")


def _tell_power(story: Story) -> None:
    """A driver that starts and stops VMs, and sometimes cannot."""
    story.say("ada freezes web-1")
    story.say("ada deallocates web-1 by driver")
    story.say("the driver stopped web-1, as asked")
    story.say("ada starts web-1 by driver")
    story.report_switch("web-1", ImpactResult.FAILED, "")
    story.say("ada starts web-1 by driver")
    story.report_switch("web-1", ImpactResult.DONE, "took 3 s")
    story.say("ada deallocates queue-2 by driver")
    story.say("the driver cannot stop queue-2: no such machine")
    story.say("ada starts batch_0 by driver")


def _tell_clock(story: Story) -> None:
    """The wall clock is set ahead and, too far, back; an event is Scheduled meanwhile."""
    story.say("ada freezes web-1 saying During a step of the clock.")
    story.step_clock(timedelta(hours=3))
    story.say("the record is kept that db-1 asked")
    story.step_clock(timedelta(hours=-2))
    story.say("ada freezes queue-0")
    story.step_clock(timedelta(hours=1))
    story.say("web-0 is shown " + story.unfinished("host drain", "web-0")[0])


def _tell_declarations(story: Story, take_snapshot: Callable[[], object]) -> None:
    """Fleet files against a fleet that was changed at run time: replaced, left out, held, and carried out later."""
    story.say("ada sets web postpone_limit=600")
    file = FLEET.replace('postpone_limit = "PT1H"', 'postpone_limit = "PT2H"')
    further = file.replace('{name="spare"}]', '{name="spare"}, {name="h8"}]')
    story.apply(further + '[[group]]\nname = "old"\nkind = "scale-set"\n')
    story.apply(file)
    story.say("ada declares: group brief availability-set; vm brief in brief on h3")
    story.say("ada declares: no vm brief; no group brief")
    file = file.replace('name = "web-1"', 'name = "web-1"\nzone = "2"').replace('= "h2"\nupdate_domain = 1', '= "h2"')
    story.apply(file, cancel_events=True)  # the freeze of web-1 is canceled
    story.say("ada declares: group extra availability-set; vm extra in extra on spare address=10.0.0.99")
    story.say("ada freezes extra")
    story.say("ada declares: vm extra in extra on spare ud=1 address=10.0.0.99; cancel events")
    story.say("ada declares: no host h7")
    story.say("ada sets db eviction=delete")

    started = story.say(
        "ada restarts queue-1 not before " + f"{story.now() + timedelta(minutes=16):%Y-%m-%d %H:%M:%S}"
    )
    story.say(f"ada approves {started}")
    story.say("ada restarts auto-0")  # begins at once
    file = file.replace(', {name="spare"}', "")
    file = file.replace('group = "queue"\nhost = "h3"\nupdate_domain = 1', 'group = "auto"\nhost = "h3"')
    file = file.replace('name = "web"\nkind = "availability-set"', 'name = "web"\nkind = "cloud-service"')
    stray = '[[vm]]\nname = "web-9"\ngroup = "web"\nhost = "h5"\naddress = "10.0.0.99"\n'
    story.apply(file + stray, is_start=True)
    file = file.replace('name = "auto-0"\ngroup = "auto"', 'name = "auto-0"\ngroup = "web"')
    file = file.replace('"cloud-service"\npostpone', '"availability-set"\npostpone')
    story.apply(file, cancel_events=True)
    few = file[: file.index('[[vm]]\nname = "pool_0"')] + file[file.index('[[vm]]\nname = "auto-0"') :]
    story.apply(few, is_start=True)
    _tell_unfinished(story)
    take_snapshot()
    story.finish(started)
    story.say("ada sets queue approval=quorum quorum=1")  # what was held is carried out
    story.finish(*story.unfinished("vm restart", "auto-0"))
    story.wait(timedelta(hours=25))
    story.say(f"the sweep finds queue last asked {story.now() - timedelta(hours=25):%Y-%m-%d %H:%M:%S}")


def _tell_unfinished(story: Story) -> None:
    """Events that stand in every way in which an unfinished one can stand."""
    (drain,) = story.unfinished("host drain", "db-0")
    story.say(f"db-2 approves {drain}")  # does not count
    story.say(f"db-0 approves {drain}")  # not enough
    story.say(f"db-1 is shown {drain}")
    story.say("ada approves " + story.unfinished("vm freeze", "queue-0")[0])
    waiting = story.say("ada restarts queue-0")
    story.say(f"ada approves {waiting}")  # waits for the freeze
    story.say("ada sets extra quiet_hours=00:00-23:00")
    quiet = story.say("ada freezes extra")
    story.say(f"ada approves {quiet}")
    story.say("the driver begins " + story.unfinished("vm restart", "auto-0")[0])
    story.say("ada scales pool in by 1")
    story.say("ada moves lone to h3 by driver")
    late = story.say("ada freezes web-1")
    story.say(f"web-1 postpones {late} by 60 s")
    story.say("ada declares: group pair scale-set; vm pair-0 in pair on h5; vm pair-1 in pair on h5")
    story.say("ada freezes host h5")
    story.say("ada declares: no vm pair-1; cancel events")  # the event stays for the other


def _tell_requests(harness: ApiHarness, story: Story) -> None:
    """A request to the API under an Idempotency-Key, by the owner of the VM."""
    story.wait(timedelta(seconds=7))
    assert restart(harness).status == 201
