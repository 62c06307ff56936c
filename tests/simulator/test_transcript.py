"""A transcript tells what happened, in order, in the words of the scenarios, and nothing that is not new."""

from datetime import timedelta

import msgspec

from forewarn.core.facts import (
    Announced,
    AnyFact,
    Approved,
    Asked,
    Delivered,
    Entry,
    Mark,
    Started,
    SubscriptionRemoved,
    SubscriptionSet,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import (
    NODE,
    Caller,
    CallerKind,
    Event,
    EventSource,
    EventStatus,
    EventType,
    Operation,
    Subscription,
    SubscriptionKind,
)
from forewarn.simulator.environment.clock import EPOCH
from forewarn.simulator.exchanges import (
    AgentStep,
    ClockChange,
    ControlExchange,
    MachineOperation,
    ProcessState,
    VmExchange,
)
from forewarn.simulator.transcript import Transcript

ID = "0a1b2c3d-0000-4000-8000-000000000001"
OTHER = "0a1b2c3d-0000-4000-8000-000000000002"
ANN = Caller(CallerKind.OPERATOR, "ann")
DOCUMENT = "/metadata/scheduledevents"


def event(id_: str = ID) -> Event:
    return Event(
        id_,
        EventType.REBOOT,
        EventSource.USER,
        "web",
        ("web-0",),
        EventStatus.SCHEDULED,
        EPOCH + timedelta(minutes=15),
        EPOCH,
        Operation.VM_RESTART,
    )


def entry(*facts: AnyFact, by: Caller = ANN) -> Entry:
    return Entry(1, EPOCH, "c", by, facts)


def answer(who: str, at: float, status: int, response: bytes = b"", method: str = "POST") -> ControlExchange:
    return ControlExchange(who, method, "/v1/vms/web-0/operations", b"", "k1", at, at, status, response)


def read(at: float, response: bytes, status: int = 200) -> VmExchange:
    return VmExchange("web-0", "GET", f"{DOCUMENT}?api-version=2020-07-01", b"", at, at, status, response, {})


def document(incarnation: int, *statuses: str) -> bytes:
    events = [
        {"EventId": ID.upper(), "EventType": "Reboot", "EventStatus": status, "Resources": ["web-0"], "NotBefore": ""}
        for status in statuses
    ]
    return msgspec.json.encode({"DocumentIncarnation": incarnation, "Events": events})


def test_an_action_stands_above_what_came_of_it() -> None:
    """Time of day and sentence; a line; facts and response."""
    transcript = Transcript()
    transcript.action(12.5, "ann asks for restart of web-0 with key k1")
    transcript.facts(12.51, entry(Announced(event())), Fleet())
    transcript.control(answer("ann", 12.52, 202))

    assert transcript.lines == [
        "08:00:12.5 ann asks for restart of web-0 with key k1",
        "----",
        "E1 is announced: Reboot of web-0 (user), not before 08:15:00",
        "POST /v1/vms/web-0/operations: 202",
    ]


def test_what_another_did_stands_below_its_own_heading() -> None:
    """What the service does by itself is not told as if an operator had caused it."""
    transcript = Transcript()
    transcript.action(12.5, "ann reads everything")
    transcript.facts(12.51, entry(Announced(event()), by=NODE), Fleet())
    transcript.control(answer("ann", 12.52, 0))

    assert [line for line in transcript.lines if line[:3] == "08:"] == [
        "08:00:12.5 ann reads everything",
        "08:00:12.51 the service acts",
        "08:00:12.52 ann is answered",
    ]
    assert transcript.lines[-2:] == ["----", "POST /v1/vms/web-0/operations: no response"]


def test_what_comes_late_has_its_own_time() -> None:
    """A response that comes seconds later does not seem to come at once."""
    transcript = Transcript()
    transcript.action(1.0, "ann reads everything")
    transcript.control(answer("ann", 9.0, 503, b""))

    assert transcript.lines[2:] == [
        "08:00:09 ann is answered",
        "----",
        "POST /v1/vms/web-0/operations: 503",
    ]


def test_an_owner_is_known_by_the_name_of_the_token() -> None:
    """The facts bear the token's name, which begins with the owner's."""
    transcript = Transcript()
    transcript.action(1.0, "bob asks for restart of web-0 with key k1")
    transcript.facts(1.1, entry(Announced(event()), by=Caller(CallerKind.OWNER, "bob-k0")), Fleet())

    assert len([line for line in transcript.lines if line[:3] == "08:"]) == 1


def test_a_refusal_is_told_with_its_title() -> None:
    """Status, title and reason, with labels in place of ids."""
    transcript = Transcript()
    transcript.facts(0.0, entry(Announced(event())), Fleet())
    problem = {"title": "The rules do not allow this", "detail": f"event {ID.upper()} is not over"}
    transcript.control(answer("ann", 0.5, 409, msgspec.json.encode(problem)))

    assert transcript.lines[-1].endswith(": 409 The rules do not allow this: event E1 is not over")


def test_events_are_labelled_in_the_order_of_their_announcement() -> None:
    """Also those whose announcement nobody reported, because of a crash: they are in the fleet."""
    fleet = Fleet()
    fleet.events[ID] = event()
    transcript = Transcript()
    transcript.facts(0.0, entry(Announced(event(OTHER))), fleet)
    transcript.facts(0.0, entry(Started(ID, EPOCH, "due", group="web")), fleet)

    assert [line[:2] for line in transcript.lines if line[:1] == "E"] == ["E2", "E1"]


def test_a_vm_that_is_shown_nothing_new_is_left_out() -> None:
    """Each change of the document is told once, and so is each change from success to failure."""
    transcript = Transcript()
    transcript.facts(0.0, entry(Announced(event())), Fleet())
    for at, response in enumerate((document(1), document(1), document(2, "Scheduled"), document(2, "Scheduled"))):
        transcript.vm(read(at, response))
    transcript.vm(read(4.0, b"", 304))
    transcript.vm(read(5.0, b"", 0))
    transcript.vm(read(6.0, b"", 0))

    assert [line for line in transcript.lines if line.startswith(("incarnation", "no response"))] == [
        "incarnation 1: no events",
        "incarnation 2: E1 Reboot of web-0 Scheduled",
        "no response",
    ]
    assert f"08:00:00 web-0 reads {DOCUMENT}" in transcript.lines


def test_an_approval_is_told_with_its_facts() -> None:
    """The facts that a VM causes, its approval, and the response stand together."""
    vm = Caller(CallerKind.VM, "web-0")
    transcript = Transcript()
    transcript.facts(0.0, entry(Announced(event())), Fleet())
    transcript.facts(30.0, entry(Approved(ID, EPOCH, vm, counts=True, group="web"), by=vm), Fleet())
    body = msgspec.json.encode({"StartRequests": [{"EventId": ID.upper()}]})
    transcript.vm(VmExchange("web-0", "POST", DOCUMENT, body, 29.9, 30.1, 200, b"", {}))

    assert transcript.lines[-4:] == [
        "08:00:30 web-0 sends a request",
        "----",
        "E1 is approved by web-0",
        "web-0 approves E1: 200",
    ]


def test_what_a_vm_sends_that_is_no_approval_is_told() -> None:
    """Guests that try what is not allowed are seen to."""
    transcript = Transcript()
    transcript.vm(VmExchange("web-0", "POST", DOCUMENT, b"nonsense", 1.0, 1.0, 400, b"", {}))

    assert transcript.lines[-1] == "web-0 sends 'nonsense': 400"


def test_notes_of_polling_and_successful_reads_are_left_out() -> None:
    """They tell that somebody asked, not that something happened."""
    transcript = Transcript()
    transcript.facts(0.0, entry(Asked((Mark("web", EPOCH, "web-0"),))), Fleet())
    transcript.control(answer("ann", 1.0, 200, method="GET"))

    assert transcript.lines == []
    assert transcript.count == 2


def test_every_other_exchange_is_one_line() -> None:
    """Machines, the service, its clock and agents."""
    transcript = Transcript()
    transcript.see(MachineOperation("web-0", "reboot", ID, 1.0))
    transcript.see(MachineOperation("web-0", "start", "", 2.0))
    transcript.see(ProcessState("failed to start", 3.0, "the disk is full"))
    transcript.see(ClockChange(4.0, 60.0, 0.01))
    transcript.see(AgentStep("web-0", "prepared", ID, 5.0))
    transcript.see(AgentStep("web-0", "undone", ID, 6.0))

    assert [line for line in transcript.lines if line] == [
        f"08:00:01 machine web-0: reboot for {ID}",
        "08:00:02 machine web-0: start",
        "08:00:03 the service: failed to start: the disk is full",
        "08:00:04 the clock of the service is 60 s ahead and drifts by 0.01",
        f"08:00:05 the agent in web-0 prepared {ID}",
        f"08:00:06 the agent in web-0 undid {ID}",
    ]


def test_reads_with_the_same_response_are_one_line() -> None:
    """A token that is refused is refused everywhere."""
    transcript = Transcript()
    transcript.action(1.0, "bob reads everything")
    for path in ("/v1/vms", "/v1/groups", "/v1/hosts"):
        transcript.control(ControlExchange("bob", "GET", path, b"", "", 1.0, 1.1, 401, b""))
    transcript.control(ControlExchange("bob", "GET", "/v1/fleet", b"", "", 1.0, 1.2, 403, b""))

    assert transcript.lines[2:] == ["GET /v1/vms, /v1/groups, /v1/hosts: 401", "GET /v1/fleet: 403"]


def test_a_missing_response_is_told_with_its_cause() -> None:
    """As far as it is known: of several nodes, it is not known which one was asked."""
    causes = []
    for states in ((), ((0.5, "serving"),), ((0.5, "ended"),), ((0.5, "ended"), (1.1, "serving"))):
        transcript = Transcript()
        for at, state in states:
            transcript.see(ProcessState(state, at))
        transcript.control(ControlExchange("ann", "POST", "/v1/hosts", b"", "k", 1.0, 2.0, 0, b""))
        causes.append(transcript.lines[-1].removeprefix("POST /v1/hosts: no response"))

    assert causes == ["", ": it was lost", ": the service does not serve", ": the service was started again"]


def test_a_clock_is_ahead_behind_or_right() -> None:
    """That it is right is told only after it was wrong."""
    transcript = Transcript()
    for at, error in enumerate((0.0, -5.0, -5.0, 0.0)):
        transcript.see(ClockChange(float(at), error, 0.0))

    assert [line for line in transcript.lines if line] == [
        "08:00:01 the clock of the service is 5 s behind",
        "08:00:03 the clock of the service is right",
    ]


def test_a_subscription_is_told_by_its_name() -> None:
    """Its id says nothing to a reader."""
    subscription = Subscription(OTHER, "audit", SubscriptionKind.WEBHOOK, "https://receiver.example/")
    transcript = Transcript()
    transcript.facts(0.0, entry(SubscriptionSet(subscription)), Fleet())
    transcript.facts(0.1, entry(Delivered({OTHER: 28})), Fleet())
    transcript.facts(0.2, entry(SubscriptionRemoved(OTHER)), Fleet())

    assert transcript.lines[2:] == [
        "subscription audit: https://receiver.example/ is told (webhook)",
        "subscription audit was told up to 28",
        "subscription audit is removed",
    ]


def test_a_problem_is_told_in_the_words_of_the_transcript() -> None:
    """A reader finds its time and its event above."""
    transcript = Transcript()
    transcript.facts(0.0, entry(Announced(event())), Fleet())

    assert transcript.tell_problem(f"61.5 s: {ID.upper()} never ends") == "08:01:01.5 E1 never ends"
    transcript.problem(62.0, f"61.5 s: {ID} never ends")
    assert transcript.lines[-1] == "08:01:02 PROBLEM: E1 never ends"
    assert transcript.tell_problem("a machine started twice") == "a machine started twice"


def test_a_transcript_that_is_not_wanted_only_counts() -> None:
    """Thousands of runs pay nothing for it."""
    transcript = Transcript(is_wanted=False)
    transcript.action(1.0, "ann reads everything")
    transcript.note(1.0, "all faults stop")
    transcript.facts(1.0, entry(Announced(event())), Fleet())
    transcript.see(read(1.0, document(1)))
    transcript.see(answer("ann", 1.0, 409))

    assert (transcript.lines, transcript.count) == ([], 5)
