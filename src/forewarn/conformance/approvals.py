"""Checks of approvals."""

from collections.abc import Iterator
from uuid import uuid4

from forewarn.conformance.looks import Look, NotSeen, When
from forewarn.conformance.server import EVENTS, with_version
from forewarn.conformance.visit import CHECKS, Visit
from forewarn.wire import approval
from forewarn.wire.versions import API_VERSIONS

_NONE = approval.encode([])


@CHECKS.add(When.ON_AN_EVENT)
def approval_answers_200(visit: Visit) -> Iterator[Look]:
    reply = visit.require_approval()
    yield reply.has_status(200, "an approval")
    yield Look("200 with an empty body", f"200 with {len(reply.body)} bytes", not reply.body)


@CHECKS.add(When.ON_AN_EVENT)
def approval_starts_the_event(visit: Visit) -> Iterator[Look]:
    visit.require_approval()
    waiting = visit.evidence.waiting
    if waiting and len(waiting) < len(visit.evidence.approved):
        raise NotSeen("one event started; another may have to wait for its turn")
    yield Look("Started, or gone", "still Scheduled" if waiting else "Started, or gone", not waiting)


@CHECKS.add(When.ON_AN_EVENT)
def approval_again(visit: Visit) -> Iterator[Look]:
    yield visit.answer("again").has_status(200, "the same approval again")


@CHECKS.add(When.ON_AN_EVENT)
def approval_of_several(visit: Visit) -> Iterator[Look]:
    visit.require_approval()
    if len(visit.evidence.approved) < 2:
        raise NotSeen("there were no two events to approve at once; make them with --trigger twice")
    for number, event in enumerate(visit.evidence.approved, start=1):
        waits = event in visit.evidence.waiting
        if waits and visit.evidence.may_still_wait(event):
            raise NotSeen("one event started; another may have to wait for its turn")
        seen = f"request {number} of {len(visit.evidence.approved)} {'did not' if waits else 'did'}"
        yield Look("every one of the StartRequests starts its event", seen, not waits)


@CHECKS.add()
def approval_of_none(visit: Visit) -> Iterator[Look]:
    yield visit.server.post(_NONE).has_status(200, "an empty list")


@CHECKS.add(When.ON_AN_EVENT)
def approval_whole_or_not(visit: Visit) -> Iterator[Look]:
    yield visit.answer("with an unknown id").is_refusal(400, "a known and an unknown id")
    yield _nothing_started(visit)


@CHECKS.add(When.ON_AN_EVENT)
def approval_id_in_any_case(visit: Visit) -> Iterator[Look]:
    yield visit.answer("in another case").has_status(200, "an id in another case than it is shown in")
    ignored = visit.evidence.is_other_case_ignored
    yield Look(
        "an id in another case starts its event", "answered 200, and ignored" if ignored else "it did", not ignored
    )


@CHECKS.add(When.ON_AN_EVENT)
def approval_in_any_version(visit: Visit) -> Iterator[Look]:
    yield visit.answer("in another version").has_status(200, "an approval in another version")


@CHECKS.add(When.ON_AN_EVENT)
def approval_content_type(visit: Visit) -> Iterator[Look]:
    for special in ("as a form", "as text"):
        yield visit.answer(special).has_status(200, f"an approval sent {special}")


@CHECKS.add(When.ON_AN_EVENT)
def approval_old_keys(visit: Visit) -> Iterator[Look]:
    for special in ("with a number", "with a text"):
        yield visit.answer(special).has_status(200, f"a DocumentIncarnation {special.removeprefix('with ')}")


@CHECKS.add()
def approval_without_header(visit: Visit) -> Iterator[Look]:
    oldest = API_VERSIONS[0].name
    for version, status in ((oldest, 200), *((each.name, 400) for each in API_VERSIONS[1:])):
        reply = visit.server.ask("POST", with_version(EVENTS, version), {}, _NONE)
        yield reply.has_status(status, f"POST without the header, api-version={version}")


@CHECKS.add(When.ON_AN_EVENT)
def approval_unreadable(visit: Visit) -> Iterator[Look]:
    for body in (b"{", b"{}", b'{"StartRequests":[{}]}', b'{"StartRequests":"x"}'):
        yield visit.server.post(body).is_refusal(400, body.decode())
    # Whoever reads only the first request does not notice what is wrong with the second.
    yield visit.answer("with no id").is_refusal(400, "a good request and one without an id")
    yield _nothing_started(visit)


@CHECKS.add()
def refused_body(visit: Visit) -> Iterator[Look]:
    yield visit.server.post(b"no JSON").is_refusal(400, "a body that is no JSON")
    yield visit.server.post(approval.encode([str(uuid4())])).is_refusal(400, "the id of no event")


def _nothing_started(visit: Visit) -> Look:
    shown = visit.evidence.after_partial
    event = shown.event(visit.evidence.approved[0].get("EventId")) if shown else None
    status = str(event.get("EventStatus")) if event else "gone"
    return Look("the event stays Scheduled", f"it is {status}", status == "Scheduled")
