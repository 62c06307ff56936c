"""Conformance checks of conditional requests: ETags and long polls."""

import time
from collections.abc import Iterator

from forewarn.conformance.checks import CheckResult, CheckTiming, NotObserved
from forewarn.conformance.inspection_context import CHECKS, Inspection
from forewarn.conformance.server import EVENTS, METADATA, ServerReply, with_version
from forewarn.wire.versions import NEWEST

_WAIT = 1
_TARGET = with_version(EVENTS, NEWEST.name)


def _tag(inspection: Inspection) -> str:
    tag = inspection.server.get().header("ETag")
    if not tag:
        raise NotObserved("its documents have no ETag")
    return tag


def _ask_again(inspection: Inspection, spelling: str) -> ServerReply:
    """Send a conditional request with the present ETag in this spelling; repeat it if the document has changed."""
    for _ in range(2):
        tag = _tag(inspection)
        reply = inspection.server.get(If_None_Match=spelling.format(tag, bare=tag.removeprefix("W/").strip('"')))
        if reply.status == 304 or reply.header("ETag") == tag:
            break
    return reply


def _is_applied(reply: ServerReply) -> CheckResult:
    applied = reply.header("Preference-Applied")
    return CheckResult("Preference-Applied: wait", applied or "none", applied.startswith("wait"))


@CHECKS.add()
def etag(inspection: Inspection) -> Iterator[CheckResult]:
    tag = inspection.server.get().header("ETag")
    yield CheckResult("an ETag", tag or "none", bool(tag))


@CHECKS.add()
def not_modified(inspection: Inspection) -> Iterator[CheckResult]:
    reply = _ask_again(inspection, "{}")
    yield reply.has_status(304, "If-None-Match")
    yield CheckResult("304 without a body", f"304 and {len(reply.body)} bytes", not reply.body)


@CHECKS.add()
def tags_in_any_spelling(inspection: Inspection) -> Iterator[CheckResult]:
    for spelling in ("{bare}", 'W/"{bare}"', '"other", {}', "*"):
        yield _ask_again(inspection, spelling).has_status(304, f"If-None-Match: {spelling.format('TAG', bare='tag')}")


@CHECKS.add()
def tag_of_another_group(inspection: Inspection) -> Iterator[CheckResult]:
    _tag(inspection)
    document = inspection.server.get().json
    incarnation = document.get("DocumentIncarnation") if isinstance(document, dict) else None
    for tag in (str(incarnation), f'"another-group-{incarnation}"'):
        yield inspection.server.get(If_None_Match=tag).has_status(200, f"If-None-Match: {tag}")


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def wait_for_a_change(inspection: Inspection) -> Iterator[CheckResult]:
    inspection.require_approval()
    reply = inspection.evidence.waited
    if reply is None:
        raise NotObserved("its documents have no ETag")
    yield reply.has_status(200, "Prefer: wait, once the document changed")
    yield _is_applied(reply)


@CHECKS.add()
def wait_in_vain(inspection: Inspection) -> Iterator[CheckResult]:
    headers = METADATA | {"If-None-Match": _tag(inspection), "Prefer": f"wait={_WAIT}"}
    began = time.monotonic()
    reply = inspection.server.ask("GET", _TARGET, headers, wait=_WAIT)
    passed = time.monotonic() - began
    yield reply.has_status(304, f"Prefer: wait={_WAIT}")
    # Allow for the resolution of clocks.
    yield CheckResult(f"an answer after {_WAIT} s", f"after {passed:.1f} s", passed >= _WAIT * 0.9)
    yield _is_applied(reply)


@CHECKS.add()
def wait_without_tag(inspection: Inspection) -> Iterator[CheckResult]:
    began = time.monotonic()
    reply = inspection.server.ask("GET", _TARGET, METADATA | {"Prefer": "wait=5"})
    passed = time.monotonic() - began
    yield reply.has_status(200, "Prefer without If-None-Match")
    yield CheckResult("an answer at once", f"after {passed:.1f} s", passed < 4)
