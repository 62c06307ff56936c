"""Conformance checks of refused requests, and of the order of the refusals."""

import threading
from collections.abc import Callable, Iterator

from forewarn.conformance.checks import Check, CheckResult, CheckTiming, NotObserved
from forewarn.conformance.inspection_context import CHECKS, Inspection
from forewarn.conformance.server import EVENTS, INSTANCE, METADATA, Server, ServerReply, with_version
from forewarn.wire.versions import NEWEST, SCHEDULED_EVENTS

_TARGET = with_version(EVENTS, NEWEST.name)
_GET = f"GET {_TARGET} HTTP/1.1\r\nHost: server\r\nMetadata: true\r\n"
_POST = f"POST {_TARGET} HTTP/1.1\r\nHost: server\r\nMetadata: true\r\n"
_BURST = 60
_SLOW = 15.0

_AS_BYTES = {
    "refused-http": (400, "no Host", f"GET {_TARGET} HTTP/1.1\r\nMetadata: true\r\n\r\n"),
    "refused-large-body": (413, "100 KB", f"{_POST}Content-Length: 100000\r\n\r\n{'x' * 100_000}"),
    "refused-long-line": (414, "a long line", f"GET {EVENTS}?{'x' * 9_000} HTTP/1.1\r\nHost: server\r\n\r\n"),
    "refused-expectation": (417, "Expect: tea", f"{_POST}Expect: tea\r\nContent-Length: 2\r\n\r\n{{}}"),
    "refused-large-head": (
        431,
        "200 fields",
        f"{_GET}{''.join(f'X-{n}: y{chr(13)}{chr(10)}' for n in range(200))}\r\n",
    ),
    "refused-coding": (501, "Transfer-Encoding: gzip", f"{_POST}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "refused-http-version": (505, "HTTP/3.0", f"GET {_TARGET} HTTP/3.0\r\nHost: server\r\n\r\n"),
}
"""Malformed requests: expected status, description and bytes."""


def _sends(status: int, what: str, request: str) -> Callable[[Inspection], Iterator[CheckResult]]:
    def run(inspection: Inspection) -> Iterator[CheckResult]:
        yield inspection.server.send(request.encode()).has_status(status, what)

    return run


CHECKS.update({name: Check(CheckTiming.ALWAYS, _sends(*request)) for name, request in _AS_BYTES.items()})


@CHECKS.add(CheckTiming.ON_REQUEST)
def refused_slow(inspection: Inspection) -> Iterator[CheckResult]:
    yield inspection.server.send(_GET.encode(), _SLOW).has_status(408, "half a request")


@CHECKS.add(CheckTiming.ON_REQUEST)
def refused_rate(inspection: Inspection) -> Iterator[CheckResult]:
    replies: list[ServerReply] = []
    # A separate connection without rate limit and retries.
    hasty = Server(f"http://{inspection.server.host}:{inspection.server.port}")
    request = f"{_GET}Connection: close\r\n\r\n".encode()
    callers = [threading.Thread(target=lambda: replies.append(hasty.send(request))) for _ in range(_BURST)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    refused = [reply for reply in replies if reply.status == 429]
    yield CheckResult(f"429 to some of {_BURST} requests at once", f"429 to {len(refused)}", bool(refused))
    later = refused[0].header("Retry-After")
    yield CheckResult("Retry-After", later or "none", bool(later))


@CHECKS.add()
def refused_without_header(inspection: Inspection) -> Iterator[CheckResult]:
    yield inspection.server.ask("GET", _TARGET, {}).is_refusal(400, "no Metadata header")
    yield inspection.server.ask("GET", _TARGET, {"Metadata": "false"}).is_refusal(400, "Metadata: false")
    yield inspection.server.ask("POST", _TARGET, {}, b'{"StartRequests":[]}').is_refusal(400, "POST without it")


@CHECKS.add()
def refused_forwarded(inspection: Inspection) -> Iterator[CheckResult]:
    yield inspection.server.get(X_Forwarded_For="192.0.2.1").is_refusal(400, "X-Forwarded-For")


@CHECKS.add()
def refused_duplicate(inspection: Inspection) -> Iterator[CheckResult]:
    target = f"{_TARGET}&api-version={NEWEST.name}"
    yield inspection.server.ask("GET", target, METADATA).is_refusal(400, "two api-versions")


@CHECKS.add()
def refused_version(inspection: Inspection) -> Iterator[CheckResult]:
    for target in (EVENTS, with_version(EVENTS, "2016-01-01"), with_version(EVENTS, "")):
        reply = inspection.server.ask("GET", target, METADATA)
        yield reply.is_refusal(400, target)
    newest = reply.json.get("newest-versions")
    yield CheckResult(
        "three newest-versions, newest first",
        str(newest),
        isinstance(newest, list) and len(newest) == 3 and newest == sorted(newest, reverse=True),
    )
    # Azure: what it names there are the newest of all routes; ours are those of the route, which can be used.
    usable = set(newest) & SCHEDULED_EVENTS.known or {NEWEST.name}
    for version in sorted(usable):
        yield inspection.server.get(version=version).has_status(200, f"api-version={version}")


@CHECKS.add()
def refused_route(inspection: Inspection) -> Iterator[CheckResult]:
    yield inspection.server.get("/metadata/nothing").is_refusal(404, "/metadata/nothing")


@CHECKS.add()
def refused_method(inspection: Inspection) -> Iterator[CheckResult]:
    reply = inspection.server.ask("PUT", _TARGET, METADATA)
    yield reply.has_status(405, "PUT")
    allowed = reply.header("Allow")
    yield CheckResult(
        "Allow: GET, POST", allowed or "none", {"GET", "POST"} <= set(allowed.replace(" ", "").split(","))
    )


@CHECKS.add()
def refused_format(inspection: Inspection) -> Iterator[CheckResult]:
    yield _instance(inspection, "?format=xml").is_refusal(400, "format=xml")


@CHECKS.add()
def refused_leaf_as_json(inspection: Inspection) -> Iterator[CheckResult]:
    yield _instance(inspection, "/compute/name").is_refusal(400, "a single value without format=text")


def _instance(inspection: Inspection, part: str) -> ServerReply:
    if inspection.server.get(INSTANCE, "2021-02-01").status == 404:
        raise NotObserved(f"it has no {INSTANCE}")
    return inspection.server.get(f"{INSTANCE}{part}", "2021-02-01")


@CHECKS.add()
def check_order(inspection: Inspection) -> Iterator[CheckResult]:
    wrong = {"X-Forwarded-For": "192.0.2.1"}
    without_header = inspection.server.ask("GET", _TARGET, {})
    all_wrong = inspection.server.ask("PUT", f"{EVENTS}?api-version=0", wrong)
    yield all_wrong.is_refusal(400, "many mistakes")
    yield CheckResult(str(without_header), str(all_wrong), all_wrong.body == without_header.body)
    without_version = inspection.server.ask("GET", EVENTS, METADATA)
    method_too = inspection.server.ask("PUT", EVENTS, METADATA)
    yield CheckResult(str(without_version), str(method_too), method_too.body == without_version.body)


@CHECKS.add()
def root_without_version(inspection: Inspection) -> Iterator[CheckResult]:
    yield inspection.server.ask("GET", "/metadata", METADATA).is_refusal(400, "GET /metadata")
