"""Conformance checks of approvals (POST StartRequests)."""

from collections.abc import Iterator
from uuid import uuid4

from forewarn.conformance.checks import CheckResult, CheckTiming, NotObserved
from forewarn.conformance.inspection_context import CHECKS, Inspection
from forewarn.conformance.server import EVENTS, with_version
from forewarn.wire import approval
from forewarn.wire.versions import API_VERSIONS

_NONE = approval.encode([])


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def approval_answers_200(inspection: Inspection) -> Iterator[CheckResult]:
    reply = inspection.require_approval()
    yield reply.has_status(200, "an approval")
    yield CheckResult("200 with an empty body", f"200 with {len(reply.body)} bytes", not reply.body)


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def approval_starts_the_event(inspection: Inspection) -> Iterator[CheckResult]:
    inspection.require_approval()
    waiting = inspection.evidence.waiting
    if waiting and len(waiting) < len(inspection.evidence.approved):
        raise NotObserved("one event started; another may have to wait for its turn")
    yield CheckResult("Started, or gone", "still Scheduled" if waiting else "Started, or gone", not waiting)


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def approval_again(inspection: Inspection) -> Iterator[CheckResult]:
    yield inspection.answer("again").has_status(200, "the same approval again")


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def approval_of_several(inspection: Inspection) -> Iterator[CheckResult]:
    inspection.require_approval()
    if len(inspection.evidence.approved) < 2:
        raise NotObserved("there were no two events to approve at once; make them with --trigger twice")
    for number, event in enumerate(inspection.evidence.approved, start=1):
        waits = event in inspection.evidence.waiting
        if waits and inspection.evidence.may_still_wait(event):
            raise NotObserved("one event started; another may have to wait for its turn")
        seen = f"request {number} of {len(inspection.evidence.approved)} {'did not' if waits else 'did'}"
        yield CheckResult("every one of the StartRequests starts its event", seen, not waits)


@CHECKS.add()
def approval_of_none(inspection: Inspection) -> Iterator[CheckResult]:
    yield inspection.server.post(_NONE).has_status(200, "an empty list")


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def approval_whole_or_not(inspection: Inspection) -> Iterator[CheckResult]:
    yield inspection.answer("with an unknown id").is_refusal(400, "a known and an unknown id")
    yield _nothing_started(inspection)


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def approval_id_in_any_case(inspection: Inspection) -> Iterator[CheckResult]:
    yield inspection.answer("in another case").has_status(200, "an id in another case than it is shown in")
    ignored = inspection.evidence.is_other_case_ignored
    yield CheckResult(
        "an id in another case starts its event", "answered 200, and ignored" if ignored else "it did", not ignored
    )


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def approval_in_any_version(inspection: Inspection) -> Iterator[CheckResult]:
    yield inspection.answer("in another version").has_status(200, "an approval in another version")


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def approval_content_type(inspection: Inspection) -> Iterator[CheckResult]:
    for special in ("as a form", "as text"):
        yield inspection.answer(special).has_status(200, f"an approval sent {special}")


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def approval_old_keys(inspection: Inspection) -> Iterator[CheckResult]:
    for special in ("with a number", "with a text"):
        yield inspection.answer(special).has_status(200, f"a DocumentIncarnation {special.removeprefix('with ')}")


@CHECKS.add()
def approval_without_header(inspection: Inspection) -> Iterator[CheckResult]:
    oldest = API_VERSIONS[0].name
    for version, status in ((oldest, 200), *((each.name, 400) for each in API_VERSIONS[1:])):
        reply = inspection.server.ask("POST", with_version(EVENTS, version), {}, _NONE)
        yield reply.has_status(status, f"POST without the header, api-version={version}")


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def approval_unreadable(inspection: Inspection) -> Iterator[CheckResult]:
    for body in (b"{", b"{}", b'{"StartRequests":[{}]}', b'{"StartRequests":"x"}'):
        yield inspection.server.post(body).is_refusal(400, body.decode())
    # A server that reads only the first request does not notice the error in the second.
    yield inspection.answer("with no id").is_refusal(400, "a good request and one without an id")
    yield _nothing_started(inspection)


@CHECKS.add()
def refused_body(inspection: Inspection) -> Iterator[CheckResult]:
    yield inspection.server.post(b"no JSON").is_refusal(400, "a body that is no JSON")
    yield inspection.server.post(approval.encode([str(uuid4())])).is_refusal(400, "the id of no event")


def _nothing_started(inspection: Inspection) -> CheckResult:
    shown = inspection.evidence.after_partial
    event = shown.event(inspection.evidence.approved[0].get("EventId")) if shown else None
    status = str(event.get("EventStatus")) if event else "gone"
    return CheckResult("the event stays Scheduled", f"it is {status}", status == "Scheduled")
