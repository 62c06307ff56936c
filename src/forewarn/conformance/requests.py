"""Conformance checks of the accepted forms of requests, and of response headers."""

from collections.abc import Iterator

from forewarn.conformance.checks import Check, CheckResult, CheckTiming, NotObserved
from forewarn.conformance.inspection_context import CHECKS, Inspection
from forewarn.conformance.server import EVENTS, INSTANCE, VERSIONS, with_version
from forewarn.wire import versions
from forewarn.wire.azure_names import TYPES
from forewarn.wire.document import shown_fields
from forewarn.wire.versions import API_VERSIONS, BY_NAME, NEWEST

_HEADERS = ("content-type", "server", "date", "content-length")
_JSON = "application/json; charset=utf-8"


@CHECKS.add()
def path_any_case(inspection: Inspection) -> Iterator[CheckResult]:
    for path in ("/METADATA/scheduledEvents", f"{EVENTS}/"):
        yield inspection.server.get(path).has_status(200, path)


@CHECKS.add()
def header_any_case(inspection: Inspection) -> Iterator[CheckResult]:
    target = with_version(EVENTS, NEWEST.name)
    for name, value in (("metadata", "true"), ("METADATA", "True")):
        yield inspection.server.ask("GET", target, {name: value}).has_status(200, f"{name}: {value}")


@CHECKS.add()
def parameter_any_case(inspection: Inspection) -> Iterator[CheckResult]:
    target = f"{EVENTS}?API-Version={NEWEST.name}&other=1"
    yield inspection.server.ask("GET", target, {"Metadata": "true"}).has_status(200, target)


@CHECKS.add()
def preview_path_is_gone(inspection: Inspection) -> Iterator[CheckResult]:
    yield inspection.server.get("/metadata/latest/scheduledevents").has_status(404)


@CHECKS.add()
def latest_is_no_version(inspection: Inspection) -> Iterator[CheckResult]:
    yield inspection.server.get(version="latest").has_status(400)


@CHECKS.add()
def head_is_get_without_body(inspection: Inspection) -> Iterator[CheckResult]:
    target = with_version(EVENTS, NEWEST.name)
    head = f"HEAD {target} HTTP/1.1\r\nHost: {inspection.server.host}\r\nMetadata: true\r\nConnection: close\r\n\r\n"
    reply = inspection.server.send(head.encode())
    yield reply.has_status(200, "HEAD")
    yield CheckResult("no body", f"{len(reply.body)} bytes", not reply.body)
    yield CheckResult(
        "a Content-Length", reply.header("Content-Length") or "none", bool(reply.header("Content-Length"))
    )


@CHECKS.add()
def old_http_is_answered(inspection: Inspection) -> Iterator[CheckResult]:
    request = f"GET {with_version(EVENTS, NEWEST.name)} HTTP/1.0\r\nMetadata: true\r\n\r\n"
    yield inspection.server.send(request.encode()).has_status(200, "HTTP/1.0")


@CHECKS.add()
def answer_headers(inspection: Inspection) -> Iterator[CheckResult]:
    reply = inspection.server.get()
    names = [name.lower() for name, _ in reply.headers if name.lower() in _HEADERS]
    kind = reply.header("Content-Type")
    yield CheckResult(f"Content-Type: {_JSON}", kind or "none", kind.lower() == _JSON)
    # Azure: its front end names itself otherwise, so only the order is looked at.
    yield CheckResult(", ".join(_HEADERS), ", ".join(names), tuple(names) == _HEADERS)


@CHECKS.add()
def versions_apart(inspection: Inspection) -> Iterator[CheckResult]:
    foreign = max(versions.INSTANCE.known - versions.SCHEDULED_EVENTS.known)
    yield inspection.server.get(version=foreign).has_status(400, f"api-version={foreign}")
    reply = inspection.server.get(INSTANCE, NEWEST.name)
    if reply.status != 404:
        yield reply.has_status(400, f"api-version={NEWEST.name} of {INSTANCE}")


@CHECKS.add()
def versions_listed(inspection: Inspection) -> Iterator[CheckResult]:
    reply = inspection.server.ask("GET", VERSIONS, {"Metadata": "true"})
    yield reply.has_status(200)
    listed = reply.json.get("apiVersions") if isinstance(reply.json, dict) else None
    known = listed if isinstance(listed, list) else []
    missing = [name for name in versions.SCHEDULED_EVENTS.names if name not in known]
    yield CheckResult(
        "every api-version of the document", f"without {', '.join(missing)}" if missing else "all", not missing
    )
    yield CheckResult("oldest first", ", ".join(map(str, known[:3])), known == sorted(known, key=str))


def _view(version: str) -> None:
    """Add the check of one api-version: it is accepted, and shows exactly its fields and types."""
    expected = shown_fields(BY_NAME[version])
    words = {TYPES[each] for each in BY_NAME[version].types}

    def run(inspection: Inspection) -> Iterator[CheckResult]:
        shown = inspection.evidence.views[version]
        yield shown.reply.has_status(200, f"api-version={version}")
        newest = inspection.evidence.views[NEWEST.name].events
        for event in shown.events:
            yield CheckResult(f"fields {', '.join(expected)}", ", ".join(event), set(event) == set(expected))
            kind = str(event.get("EventType"))
            yield CheckResult(f"types {', '.join(sorted(words))}", kind, kind in words)
            names = [str(name) for name in event.get("Resources") or ()]
            bare = {str(name) for each in newest for name in each.get("Resources") or ()}
            if BY_NAME[version].underscore_names:
                # Azure: the names of a cloud service's instances are as they are.
                spelled = {f"_{name}" for name in bare} | {name for name in bare if "_IN_" in name}
                yield CheckResult("names that begin with _", ", ".join(names), set(names) <= spelled)
            else:
                yield CheckResult(f"names of {', '.join(sorted(bare))}", ", ".join(names), set(names) <= bare)
        if not shown.events:
            raise NotObserved("there was no event that this version shows; make one with --trigger")

    CHECKS[f"version-{version}"] = Check(CheckTiming.ON_AN_EVENT, run)


for _version in BY_NAME:
    _view(_version)


@CHECKS.add(CheckTiming.ON_AN_EVENT)
def hidden_events_count(inspection: Inspection) -> Iterator[CheckResult]:
    oldest, newest = inspection.evidence.views[API_VERSIONS[0].name], inspection.evidence.views[NEWEST.name]
    if len(oldest.events) == len(newest.events):
        raise NotObserved("there was no event that an older version hides, such as Preempt")
    yield CheckResult(
        f"incarnation {newest.incarnation}", str(oldest.incarnation), oldest.incarnation == newest.incarnation
    )
