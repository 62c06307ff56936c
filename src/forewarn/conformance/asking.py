"""Checks of asking again: tags, and waiting for a change."""

import time
from collections.abc import Iterator

from forewarn.conformance.looks import Look, NotSeen, When
from forewarn.conformance.server import EVENTS, METADATA, Reply, with_version
from forewarn.conformance.visit import CHECKS, Visit
from forewarn.wire.versions import NEWEST

_WAIT = 1
_TARGET = with_version(EVENTS, NEWEST.name)


def _tag(visit: Visit) -> str:
    tag = visit.server.get().header("ETag")
    if not tag:
        raise NotSeen("its documents have no ETag")
    return tag


def _ask_again(visit: Visit, spelling: str) -> Reply:
    """Ask with the present tag in this spelling; once more if the document changed just then."""
    for _ in range(2):
        tag = _tag(visit)
        reply = visit.server.get(If_None_Match=spelling.format(tag, bare=tag.removeprefix("W/").strip('"')))
        if reply.status == 304 or reply.header("ETag") == tag:
            break
    return reply


def _is_applied(reply: Reply) -> Look:
    applied = reply.header("Preference-Applied")
    return Look("Preference-Applied: wait", applied or "none", applied.startswith("wait"))


@CHECKS.add()
def etag(visit: Visit) -> Iterator[Look]:
    tag = visit.server.get().header("ETag")
    yield Look("an ETag", tag or "none", bool(tag))


@CHECKS.add()
def not_modified(visit: Visit) -> Iterator[Look]:
    reply = _ask_again(visit, "{}")
    yield reply.has_status(304, "If-None-Match")
    yield Look("304 without a body", f"304 and {len(reply.body)} bytes", not reply.body)


@CHECKS.add()
def tags_in_any_spelling(visit: Visit) -> Iterator[Look]:
    for spelling in ("{bare}", 'W/"{bare}"', '"other", {}', "*"):
        yield _ask_again(visit, spelling).has_status(304, f"If-None-Match: {spelling.format('TAG', bare='tag')}")


@CHECKS.add()
def tag_of_another_group(visit: Visit) -> Iterator[Look]:
    _tag(visit)
    document = visit.server.get().json
    incarnation = document.get("DocumentIncarnation") if isinstance(document, dict) else None
    for tag in (str(incarnation), f'"another-group-{incarnation}"'):
        yield visit.server.get(If_None_Match=tag).has_status(200, f"If-None-Match: {tag}")


@CHECKS.add(When.ON_AN_EVENT)
def wait_for_a_change(visit: Visit) -> Iterator[Look]:
    visit.require_approval()
    reply = visit.evidence.waited
    if reply is None:
        raise NotSeen("its documents have no ETag")
    yield reply.has_status(200, "Prefer: wait, once the document changed")
    yield _is_applied(reply)


@CHECKS.add()
def wait_in_vain(visit: Visit) -> Iterator[Look]:
    headers = METADATA | {"If-None-Match": _tag(visit), "Prefer": f"wait={_WAIT}"}
    began = time.monotonic()
    reply = visit.server.ask("GET", _TARGET, headers, wait=_WAIT)
    passed = time.monotonic() - began
    yield reply.has_status(304, f"Prefer: wait={_WAIT}")
    # A clock that is read in whole ticks may be a little early.
    yield Look(f"an answer after {_WAIT} s", f"after {passed:.1f} s", passed >= _WAIT * 0.9)
    yield _is_applied(reply)


@CHECKS.add()
def wait_without_tag(visit: Visit) -> Iterator[Look]:
    began = time.monotonic()
    reply = visit.server.ask("GET", _TARGET, METADATA | {"Prefer": "wait=5"})
    passed = time.monotonic() - began
    yield reply.has_status(200, "Prefer without If-None-Match")
    yield Look("an answer at once", f"after {passed:.1f} s", passed < 4)
