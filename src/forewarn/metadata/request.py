"""Interpreted requests: everything that follows from a request's bytes alone, computed once and cached.

The caller and its rate are not in the bytes; everything else is. So an interpreted request can be cached and reused
for every caller that sends the same bytes (``RequestCache``).
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import unquote

import msgspec

from forewarn.metadata.http_grammar import NO_BODY, Refusal, RequestHead, read_head
from forewarn.wire import error_responses, versions
from forewarn.wire.error_responses import ErrorResponse
from forewarn.wire.versions import VersionSet

ANY = "*"
_PORT = re.compile(rb":[0-9]*\Z")
# As in URLs: a host that ends in a number is an IPv4 address, not a name.
_ADDRESS = re.compile(rb"\[.*\]|(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")


class AllowedHosts:
    """Allow addresses, names without a dot, and the given names; ``*`` allows every name.

    Protection against DNS rebinding: a web page in a guest's browser can point its own domain at the service's
    address and then read the responses. Such requests still carry that domain, which has a dot.
    """

    def __init__(self, names: Iterable[str] = (ANY,)) -> None:
        self._names = frozenset(_normalized(name.encode()) for name in names)
        self._allows_all = ANY.encode() in self._names
        self.allows = lru_cache(maxsize=1024)(self._allows)
        """Return whether a request may name this host, given as in ``Host``; empty if the request names none."""

    def _allows(self, host: bytes) -> bool:
        name = _normalized(_PORT.sub(b"", host))
        return (
            self._allows_all
            or (b"." not in name and b"%" not in name)
            or name in self._names
            or bool(_ADDRESS.fullmatch(name))
        )


def _normalized(name: bytes) -> bytes:
    return name.lower().removesuffix(b".")


LONGEST_WAIT = 300

_SEGMENT = rb"(?:[0-9A-Za-z\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})"
_TARGET = re.compile(
    rb"(?:(?i:http)://((?:\[[0-9A-Fa-f:.]++\]|[0-9A-Za-z\-._~%%!$&'()*+,;=]++)(?::[0-9]*+)?)(?=[/?]|\Z)|(?=/))"
    rb"((?:/%b*+)?)(?:\?((?:%b|\?)*+))?" % (_SEGMENT, _SEGMENT)
)
_TAG = re.compile(rb'(?:W/)?"([^"]*)"|(?:W/)?([^\s,"]+)')
_WAIT = re.compile(rb'(?i)(?:^|,)[ \t]*wait[ \t]*=[ \t]*"?([0-9]+)"?[ \t]*(?=[,;]|$)')


OPEN, CLOSE, KEEP_ALIVE = range(3)
"""Value of the ``Connection`` header in the response: none, ``close``, or ``keep-alive`` (for HTTP/1.0)."""


class MetadataRoute(msgspec.Struct, frozen=True, eq=False):
    """One resource of the metadata service."""

    path: str
    methods: tuple[bytes, ...]
    versions: VersionSet | None
    """The api-versions it accepts; None if it needs none."""
    has_parts: bool = False


EVENTS = MetadataRoute("/metadata/scheduledevents", (b"GET", b"HEAD", b"POST"), versions.SCHEDULED_EVENTS)
INSTANCE = MetadataRoute("/metadata/instance", (b"GET", b"HEAD"), versions.INSTANCE, has_parts=True)
VERSIONS = MetadataRoute("/metadata/versions", (b"GET", b"HEAD"), None)
UNKNOWN_ROUTE = MetadataRoute("", (), versions.ALL)
PREVIEW = MetadataRoute("/metadata/latest/scheduledevents", (), None)
"""Azure: the path of 2016, requested without an api-version; it was removed."""
_ROUTES = (EVENTS, INSTANCE, VERSIONS, PREVIEW)
_VERSION_INVALID = {
    route: error_responses.version_invalid(route.versions.newest)
    for route in (*_ROUTES, UNKNOWN_ROUTE)
    if route.versions
}


class RequestTarget(msgspec.Struct, frozen=True, gc=False):
    """The parsed target of a request."""

    route: MetadataRoute
    part: str = ""
    """The rest of the path after the route's own path."""
    api_version: str = ""
    format: str = "json"
    repeats_itself: bool = False
    """A query parameter occurs twice."""
    authority: bytes = b""
    """The host of a target in absolute form; it takes precedence over the field Host (RFC 9112, 3.2.2)."""


class MetadataRequest(msgspec.Struct, frozen=True, gc=False):
    """One interpreted request."""

    ending: int
    is_last: bool
    """The connection closes after it."""
    is_plain: bool
    """A valid GET of the document without waiting, with one tag at most, as almost every request is."""
    version: int
    """The index of the api-version of the document."""
    tags: tuple[bytes, ...] | None
    """The tags of If-None-Match without quotes; ``*`` matches any."""
    wait: int
    """Seconds the caller is willing to wait for a change."""
    refusal: ErrorResponse | None
    """The first error that is not an error of HTTP, caller or rate."""
    target: RequestTarget
    is_post: bool
    is_head: bool


def interpret_head(head: RequestHead) -> MetadataRequest:
    """Interpret the head, and find the first error in it."""
    method, fields = head.method, head.fields
    is_form_of_its_own = method == b"CONNECT" or (method == b"OPTIONS" and head.target == b"*")
    target = _UNKNOWN_TARGET if is_form_of_its_own else read_target(head.target)
    refusal = _refusal(head, target)
    tags = _tags(fields) if b"if-none-match" in fields else None
    # Without a tag it is unknown which document the client has, so there is nothing to wait for.
    wait = _wait(fields) if tags is not None and b"prefer" in fields else 0
    version = versions.BY_NAME.get(target.api_version, versions.NEWEST)
    staying = OPEN if head.is_modern else KEEP_ALIVE
    ending = staying if head.keeps_alive else CLOSE
    is_plain = refusal is None and target.route is EVENTS and method == b"GET" and not wait and len(tags or ()) < 2
    make = MetadataRequest if tags else _shared_request
    return make(
        ending,
        ending == CLOSE,
        is_plain,
        version.index,
        tags,
        wait,
        refusal,
        target,
        method == b"POST",
        method == b"HEAD",
    )


_shared_request = lru_cache(maxsize=4096)(MetadataRequest)
"""Makes equal requests one object: callers' headers differ more than their meaning."""


@lru_cache(maxsize=4096)
def read_target(target: bytes) -> RequestTarget:
    found = _TARGET.fullmatch(target)
    if not found:
        raise Refusal(error_responses.MALFORMED)
    path = unquote(found[2].decode())
    parameters: dict[str, str] = {}
    repeats_itself = False
    for pair in (found[3] or b"").decode().replace("+", " ").split("&"):
        name, _, value = pair.partition("=")
        key = unquote(name).lower()
        repeats_itself |= key in parameters and pair != ""
        parameters[key] = unquote(value)
    route, part = _route(path)
    version, format_ = parameters.get("api-version", ""), parameters.get("format", "json")
    return RequestTarget(route, part, version, format_, repeats_itself, found[1] or b"")


_UNKNOWN_TARGET = RequestTarget(UNKNOWN_ROUTE)


def _route(path: str) -> tuple[MetadataRoute, str]:
    lower = path.lower().removesuffix("/")
    for route in _ROUTES:
        if lower == route.path or (route.has_parts and lower.startswith(route.path + "/")):
            return route, path[len(route.path) :]
    return UNKNOWN_ROUTE, ""


def _refusal(head: RequestHead, target: RequestTarget) -> ErrorResponse | None:
    """Make the checks that follow those of caller and rate, in Azure's order."""
    fields, route = head.fields, target.route
    if fields.get(b"metadata", b"").lower() != b"true" and not _is_headerless(head, target):
        return error_responses.METADATA_HEADER_MISSING
    if b"x-forwarded-for" in fields:
        return error_responses.FORWARDED
    if target.repeats_itself:
        return error_responses.DUPLICATE_PARAMETER
    if route.versions is not None and target.api_version not in route.versions.known:
        return _VERSION_INVALID[route]
    if route is UNKNOWN_ROUTE or route is PREVIEW:
        return error_responses.NOT_FOUND
    if head.method not in route.methods:
        return error_responses.METHOD_NOT_ALLOWED
    return None


def _is_headerless(head: RequestHead, target: RequestTarget) -> bool:
    # Azure: the preview of 2017 accepted approvals without the header, and clients of that time send none.
    version = versions.BY_NAME.get(target.api_version)
    return head.method == b"POST" and version is not None and not version.header_required_on_post


def _tags(fields: dict[bytes, bytes]) -> tuple[bytes, ...]:
    return tuple([quoted or bare for quoted, bare in _TAG.findall(fields[b"if-none-match"])])


def _wait(fields: dict[bytes, bytes]) -> int:
    given = _WAIT.search(fields[b"prefer"])
    return min(int(given[1].lstrip(b"0")[:4] or b"0"), LONGEST_WAIT) if given else 0


class RequestCache:
    """Cache of interpreted requests by their exact bytes: GETs without a body and heads of POSTs, to allowed hosts.

    It has two halves: when the young one is full it becomes the old one, and a request used again moves back. So the
    cache is bounded, and unusual requests of one caller cannot evict the requests of all others.
    """

    def __init__(self, hosts: AllowedHosts | None = None, half: int = 24_576, longest: int = 1_024) -> None:
        self._hosts = hosts or AllowedHosts()
        self._half = half
        self._longest = longest
        self.young: dict[bytes, MetadataRequest] = {}
        """The only half that the fast path reads."""
        self._old: dict[bytes, MetadataRequest] = {}
        self._posts: dict[bytes, tuple[MetadataRequest, int]] = {}
        """Heads of POSTs, with the length of the body."""

    def __len__(self) -> int:
        return len(self.young) + len(self._old) + len(self._posts)

    def set_hosts(self, hosts: AllowedHosts) -> None:
        """Apply other allowed hosts from now on, also to cached requests."""
        self._hosts = hosts
        self.young.clear()
        self._old.clear()
        self._posts.clear()

    def read(self, block: bytes) -> tuple[MetadataRequest, RequestHead | None]:
        """Return the interpreted request of a complete head, and the head itself if a body may follow."""
        request = self.young.get(block) or self._old.get(block)
        if request is None:
            head = read_head(block)
            request = interpret_head(head)
            if not self._hosts.allows(request.target.authority or head.fields.get(b"host", b"")):
                raise Refusal(error_responses.HOST_NOT_ALLOWED)
            if head.length != NO_BODY or head.method != b"GET":
                return request, head
        if len(block) <= self._longest:
            if len(self.young) >= self._half:
                # Keep the same dictionary object: the fast path holds a reference to it.
                self._old = self.young.copy()
                self.young.clear()
            self.young[block] = request
        return request, None

    def read_post(self, received: bytes) -> tuple[MetadataRequest, bytes] | None:
        """Return the interpreted request and its body if the bytes are exactly one complete POST."""
        end = received.find(b"\r\n\r\n") + 4
        if not received.startswith(b"POST ") or end < 4:
            return None
        block = received[:end]
        found = self._posts.get(block)
        if found is None:
            try:
                request, head = self.read(block)
            except Refusal:
                return None  # ``HttpConnection`` parses it again and reports the error
            if head is None or head.expects_continue:
                return None
            found = request, head.length
            if len(block) <= self._longest:
                if len(self._posts) >= self._half:
                    self._posts.clear()
                self._posts[block] = found
        request, length = found
        return (request, received[end:]) if length == len(received) - end else None

    def read_single(self, received: bytes) -> MetadataRequest | None:
        """Return the interpreted request if the bytes are exactly one complete request without a body."""
        size = len(received)
        if size > self._longest or received.find(b"\r\n\r\n") != size - 4:
            return None
        try:
            request, head = self.read(received)
        except Refusal:
            return None  # ``HttpConnection`` parses it again and reports the error
        return request if head is None else None
