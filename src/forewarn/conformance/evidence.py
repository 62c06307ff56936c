"""Collects the evidence for the checks: documents of an event from announcement to end, and responses to approvals.

All requests are sent once, in an order from the harmless ones to those that start the event; the checks only read it.
"""

import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

import msgspec

from forewarn import child_process
from forewarn.conformance.server import EVENTS, METADATA, Server, ServerReply, with_version
from forewarn.core.errors import BadInput
from forewarn.core.model import EventSource, EventStatus
from forewarn.wire.azure_names import SOURCES, STATUSES
from forewarn.wire.versions import API_VERSIONS, NEWEST

SCHEDULED, STARTED = STATUSES[EventStatus.SCHEDULED], STATUSES[EventStatus.STARTED]
OLDER = API_VERSIONS[-2].name
"""The api-version of an approval that differs from that of the document."""
_FORM = "application/x-www-form-urlencoded"
_USER = SOURCES[EventSource.USER]
_PERIOD = 0.3
_TRIGGER_TIMEOUT = 60.0
_GRACE = 1.0
"""Seconds that a trigger has to end by itself after its time."""

WireEvent = dict[str, Any]


class ShownDocument(msgspec.Struct, frozen=True):
    """A document as received."""

    reply: ServerReply

    @property
    def incarnation(self) -> object:
        document = self.reply.json
        return document.get("DocumentIncarnation") if isinstance(document, dict) else None

    @property
    def events(self) -> list[WireEvent]:
        document = self.reply.json
        events = document.get("Events") if isinstance(document, dict) else None
        return [each for each in events if isinstance(each, dict)] if isinstance(events, list) else []

    @property
    def scheduled(self) -> list[WireEvent]:
        return [each for each in self.events if each.get("EventStatus") == SCHEDULED]

    def event(self, id: object) -> WireEvent | None:
        return next((each for each in self.events if each.get("EventId") == id), None)


class InspectionPlan(msgspec.Struct, frozen=True):
    """How events are triggered, and whether they may be approved."""

    triggers: Sequence[str] = ()
    """Commands that create events."""
    wait: float = 0.0
    """Seconds to wait for an event to appear, and to be gone."""
    approves: bool = False
    """Whether Scheduled events may be approved."""
    patience: float = 10.0
    """Seconds to wait for approved events to start."""


class Evidence(msgspec.Struct):
    """The collected documents and responses."""

    documents: list[ShownDocument] = []
    """All documents of the newest api-version, in order."""
    views: dict[str, ShownDocument] = {}
    """The document by api-version, all at about the same time."""
    answers: dict[str, ServerReply] = {}
    """Responses to approvals, by kind of approval; empty if none was sent."""
    approved: list[WireEvent] = []
    """The approved events, as shown before."""
    after_partial: ShownDocument | None = None
    """The document after an approval with a valid and an invalid part."""
    after_approval: ShownDocument | None = None
    is_other_case_ignored: bool = False
    """An approval with the ids in another case was answered 200, and only the one with ids as shown had an effect."""
    approved_at: int = 0
    """Number of documents before the approval."""
    waited: ServerReply | None = None
    """Response to the long poll for the change after the approval."""

    @property
    def waiting(self) -> list[WireEvent]:
        """The approved events that have not started."""
        shown = self.after_approval
        return [each for each in self.approved if shown and shown.event(each.get("EventId")) in shown.scheduled]

    def may_still_wait(self, event: WireEvent) -> bool:
        """Return whether an event may have been approved and yet be waiting for another to end.

        Maintenance waits for that of other domains, and what a user asked for only for its own VM. Neither waits once
        it is the only event there is.
        """
        own = set(event.get("Resources") or ())
        others = [each for each in self.approved if each not in self.waiting]
        has_to = event.get("EventSource") != _USER or any(own & set(each.get("Resources") or ()) for each in others)
        return has_to and not any(
            len(shown.events) == 1 and shown.event(event.get("EventId")) in shown.scheduled
            for shown in self.documents[self.approved_at :]
        )

    @property
    def events(self) -> Iterator[WireEvent]:
        """Every event of every document; one that is shown ten times is there ten times."""
        return (event for shown in self.documents for event in shown.events)


def collect_evidence(server: Server, plan: InspectionPlan) -> Evidence:
    """Bring an event about, as far as the plan allows, and watch it to its end."""
    evidence = Evidence()

    def read_document() -> ShownDocument:
        shown = ShownDocument(server.get())
        evidence.documents.append(shown)
        return shown

    shown = read_document()
    for trigger in plan.triggers:
        _run(trigger)
    if not shown.events or plan.triggers:
        shown = _until(read_document, lambda shown: len(shown.scheduled) >= max(1, len(plan.triggers)), plan.wait)
    evidence.views = {each.name: ShownDocument(server.get(version=each.name)) for each in API_VERSIONS}
    if shown.scheduled and plan.approves:
        _approve(server, evidence, read_document, shown, plan.patience)
    if any(shown.events for shown in evidence.documents):
        _until(read_document, lambda shown: not shown.events, plan.wait)
    return evidence


def _approve(
    server: Server,
    evidence: Evidence,
    read_document: Callable[[], ShownDocument],
    shown: ShownDocument,
    patience: float,
) -> None:
    evidence.approved = shown.scheduled
    ids = [str(each.get("EventId")) for each in evidence.approved]
    answers = evidence.answers
    answers["with an unknown id"] = server.post(_body(ids[0], str(uuid4())))
    answers["with no id"] = server.post(b'{"StartRequests":[{"EventId":"%b"},{}]}' % ids[0].encode())
    evidence.after_partial = read_document()
    waiter = threading.Thread(
        target=_wait_for_change, args=(server, evidence, evidence.after_partial.reply, patience)
    )
    waiter.start()
    evidence.approved_at = len(evidence.documents)
    others = [each.upper() if each.islower() else each.lower() for each in ids]
    if others != ids:
        answers["in another case"] = server.post(_body(*others))
    if others == ids or answers["in another case"].status != 200:
        answers["as shown"] = server.post(_body(*ids))

    def has_started(shown: ShownDocument) -> bool:
        return not any(shown.event(each) in shown.scheduled for each in ids)

    after = _until(read_document, has_started, patience)
    if "as shown" not in answers and all(after.event(each) in after.scheduled for each in ids):
        answers["as shown"] = server.post(_body(*ids))
        after = _until(read_document, has_started, patience)
        evidence.is_other_case_ignored = has_started(after)
    evidence.after_approval = after
    waiter.join()
    # What has started is approved again; one of several that waits must not be started by that.
    present = next(
        (each for each in ids if after.event(each) and (after.event(each) not in after.scheduled or not ids[1:])),
        None,
    )
    if present is None:
        return
    body = _body(present)
    again = {
        "again": server.post(body),
        "in another version": server.post(body, OLDER),
        "as a form": server.post(body, Content_Type=_FORM),
        "as text": server.post(body, Content_Type="text/plain"),
        "with a number": server.post(b'{"DocumentIncarnation":5,' + body.removeprefix(b"{")),
        "with a text": server.post(b'{"DocumentIncarnation":"5","Other":1,' + body.removeprefix(b"{")),
    }
    # Where it ended meanwhile, a refusal says nothing.
    is_over = read_document().event(present) is None
    answers |= {name: reply for name, reply in again.items() if not (is_over and reply.status == 400)}


def _wait_for_change(server: Server, evidence: Evidence, reply: ServerReply, patience: float) -> None:
    """Wait as the service's own clients can; a server that knows nothing of it answers at once."""
    if tag := reply.header("ETag"):
        headers = METADATA | {"If-None-Match": tag, "Prefer": f"wait={patience:.0f}"}
        evidence.waited = server.ask("GET", with_version(EVENTS, NEWEST.name), headers, wait=patience)


def _body(*ids: str) -> bytes:
    requests = ",".join(f'{{"EventId":{msgspec.json.encode(each).decode()}}}' for each in ids)
    return f'{{"StartRequests":[{requests}]}}'.encode()


def _until(
    read_document: Callable[[], ShownDocument], holds: Callable[[ShownDocument], bool], seconds: float
) -> ShownDocument:
    """Look until it holds, at most so long; return the last that was shown."""
    end = time.monotonic() + seconds
    while not holds(shown := read_document()) and time.monotonic() < end:
        time.sleep(_PERIOD)
    return shown


def _run(command: str) -> None:
    try:
        done = child_process.run(shlex.split(command), _TRIGGER_TIMEOUT, _GRACE, _GRACE)
    except (OSError, ValueError) as error:
        raise BadInput(f"the trigger {command!r} cannot be run: {error}") from None
    if done.cut_off:
        raise BadInput(f"the trigger {command!r} {done.problem}")
    if done.exit:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise BadInput(f"the trigger {command!r} ended with {done.exit}: {said[-1] if said else 'it said nothing'}")
