"""Checks of how a request may be spelled, and of how an answer looks."""

from collections.abc import Iterator

from forewarn.conformance.looks import Check, Look, NotSeen, When
from forewarn.conformance.server import EVENTS, INSTANCE, VERSIONS, with_version
from forewarn.conformance.visit import CHECKS, Visit
from forewarn.wire import versions
from forewarn.wire.document import shown_fields
from forewarn.wire.versions import API_VERSIONS, BY_NAME, NEWEST
from forewarn.wire.words import TYPES

_HEADERS = ("content-type", "server", "date", "content-length")
_JSON = "application/json; charset=utf-8"


@CHECKS.add()
def path_any_case(visit: Visit) -> Iterator[Look]:
    for path in ("/METADATA/scheduledEvents", f"{EVENTS}/"):
        yield visit.server.get(path).has_status(200, path)


@CHECKS.add()
def header_any_case(visit: Visit) -> Iterator[Look]:
    target = with_version(EVENTS, NEWEST.name)
    for name, value in (("metadata", "true"), ("METADATA", "True")):
        yield visit.server.ask("GET", target, {name: value}).has_status(200, f"{name}: {value}")


@CHECKS.add()
def parameter_any_case(visit: Visit) -> Iterator[Look]:
    target = f"{EVENTS}?API-Version={NEWEST.name}&other=1"
    yield visit.server.ask("GET", target, {"Metadata": "true"}).has_status(200, target)


@CHECKS.add()
def preview_path_is_gone(visit: Visit) -> Iterator[Look]:
    yield visit.server.get("/metadata/latest/scheduledevents").has_status(404)


@CHECKS.add()
def latest_is_no_version(visit: Visit) -> Iterator[Look]:
    yield visit.server.get(version="latest").has_status(400)


@CHECKS.add()
def head_is_get_without_body(visit: Visit) -> Iterator[Look]:
    target = with_version(EVENTS, NEWEST.name)
    head = f"HEAD {target} HTTP/1.1\r\nHost: {visit.server.host}\r\nMetadata: true\r\nConnection: close\r\n\r\n"
    reply = visit.server.send(head.encode())
    yield reply.has_status(200, "HEAD")
    yield Look("no body", f"{len(reply.body)} bytes", not reply.body)
    yield Look("a Content-Length", reply.header("Content-Length") or "none", bool(reply.header("Content-Length")))


@CHECKS.add()
def old_http_is_answered(visit: Visit) -> Iterator[Look]:
    request = f"GET {with_version(EVENTS, NEWEST.name)} HTTP/1.0\r\nMetadata: true\r\n\r\n"
    yield visit.server.send(request.encode()).has_status(200, "HTTP/1.0")


@CHECKS.add()
def answer_headers(visit: Visit) -> Iterator[Look]:
    reply = visit.server.get()
    names = [name.lower() for name, _ in reply.headers if name.lower() in _HEADERS]
    kind = reply.header("Content-Type")
    yield Look(f"Content-Type: {_JSON}", kind or "none", kind.lower() == _JSON)
    # Azure: its front end names itself otherwise, so only the order is looked at.
    yield Look(", ".join(_HEADERS), ", ".join(names), tuple(names) == _HEADERS)


@CHECKS.add()
def versions_apart(visit: Visit) -> Iterator[Look]:
    foreign = max(versions.INSTANCE.known - versions.SCHEDULED_EVENTS.known)
    yield visit.server.get(version=foreign).has_status(400, f"api-version={foreign}")
    reply = visit.server.get(INSTANCE, NEWEST.name)
    if reply.status != 404:
        yield reply.has_status(400, f"api-version={NEWEST.name} of {INSTANCE}")


@CHECKS.add()
def versions_listed(visit: Visit) -> Iterator[Look]:
    reply = visit.server.ask("GET", VERSIONS, {"Metadata": "true"})
    yield reply.has_status(200)
    listed = reply.json.get("apiVersions") if isinstance(reply.json, dict) else None
    known = listed if isinstance(listed, list) else []
    missing = [name for name in versions.SCHEDULED_EVENTS.names if name not in known]
    yield Look(
        "every api-version of the document", f"without {', '.join(missing)}" if missing else "all", not missing
    )
    yield Look("oldest first", ", ".join(map(str, known[:3])), known == sorted(known, key=str))


def _view(version: str) -> None:
    """Add the check of one api-version: it answers, and shows the fields and types that are its own."""
    expected = shown_fields(BY_NAME[version])
    words = {TYPES[each] for each in BY_NAME[version].types}

    def look(visit: Visit) -> Iterator[Look]:
        shown = visit.evidence.views[version]
        yield shown.reply.has_status(200, f"api-version={version}")
        newest = visit.evidence.views[NEWEST.name].events
        for event in shown.events:
            yield Look(f"fields {', '.join(expected)}", ", ".join(event), set(event) == set(expected))
            kind = str(event.get("EventType"))
            yield Look(f"types {', '.join(sorted(words))}", kind, kind in words)
            names = [str(name) for name in event.get("Resources") or ()]
            bare = {str(name) for each in newest for name in each.get("Resources") or ()}
            if BY_NAME[version].underscore_names:
                # Azure: the names of a cloud service's instances are as they are.
                spelled = {f"_{name}" for name in bare} | {name for name in bare if "_IN_" in name}
                yield Look("names that begin with _", ", ".join(names), set(names) <= spelled)
            else:
                yield Look(f"names of {', '.join(sorted(bare))}", ", ".join(names), set(names) <= bare)
        if not shown.events:
            raise NotSeen("there was no event that this version shows; make one with --trigger")

    CHECKS[f"version-{version}"] = Check(When.ON_AN_EVENT, look)


for _version in BY_NAME:
    _view(_version)


@CHECKS.add(When.ON_AN_EVENT)
def hidden_events_count(visit: Visit) -> Iterator[Look]:
    oldest, newest = visit.evidence.views[API_VERSIONS[0].name], visit.evidence.views[NEWEST.name]
    if len(oldest.events) == len(newest.events):
        raise NotSeen("there was no event that an older version hides, such as Preempt")
    yield Look(f"incarnation {newest.incarnation}", str(oldest.incarnation), oldest.incarnation == newest.incarnation)
