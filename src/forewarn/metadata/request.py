"""A request, understood: all that follows from its bytes alone is worked out once, when they are read.

Who is asking and how often is not in the bytes; everything else is. So a request that was understood once can be
kept and used again for every caller that sends the same bytes (``Memo``).
"""

import re
from enum import IntEnum
from urllib.parse import unquote

import msgspec

from forewarn.metadata.heads import NO_BODY, Head, Refusal, find_end, read_head
from forewarn.wire import problems, versions
from forewarn.wire.problems import Problem
from forewarn.wire.versions import ApiVersion, VersionSet

LONGEST_WAIT = 300

_SEGMENT = rb"(?:[0-9A-Za-z\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})"
_TARGET = re.compile(
    rb"(?:(?i:http)://(?:\[[0-9A-Fa-f:.]++\]|[0-9A-Za-z\-._~%%!$&'()*+,;=]++)(?::[0-9]*+)?(?=[/?]|\Z)|(?=/))"
    rb"((?:/%b*+)?)(?:\?((?:%b|\?)*+))?" % (_SEGMENT, _SEGMENT)
)
_AUTHORITY = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z\-._~%!$&'()*+,;=]+):[0-9]+")
_TAG = re.compile(rb'(?:W/)?"([^"]*)"|(?:W/)?([^\s,"]+)')
_WAIT = re.compile(rb'(?i)(?:^|,)[ \t]*wait[ \t]*=[ \t]*"?([0-9]+)"?[ \t]*(?=[,;]|$)')


class Ending(IntEnum):
    """What an answer says of its connection: nothing, that it closes, or (to HTTP/1.0) that it stays."""

    OPEN = 0
    CLOSE = 1
    KEEP_ALIVE = 2


class Route(IntEnum):
    """What can be asked for."""

    EVENTS = 0
    INSTANCE = 1
    VERSIONS = 2
    NONE = 3


_ALLOWED = {
    Route.EVENTS: (b"GET", b"HEAD", b"POST"),
    Route.INSTANCE: (b"GET", b"HEAD"),
    Route.VERSIONS: (b"GET", b"HEAD"),
}
_VERSIONS = {Route.EVENTS: versions.SCHEDULED_EVENTS, Route.INSTANCE: versions.INSTANCE}
_VERSION_INVALID = {
    names: problems.version_invalid(names.newest)
    for names in (versions.SCHEDULED_EVENTS, versions.INSTANCE, versions.ALL)
}


class Request(msgspec.Struct, frozen=True, gc=False):
    """One request, as far as its bytes tell."""

    ending: Ending
    is_plain: bool
    """A GET of the document, at once, that nothing is wrong with: what nearly every request is."""
    version: int = 0
    """The index of the api-version of the document."""
    tags: frozenset[bytes] | None = None
    """What If-None-Match names, bare of quotes; ``*`` stands for any."""
    wait: int = 0
    """How many seconds the caller would wait for a change."""
    refusal: Problem | None = None
    """The first thing wrong with it that is not for HTTP, the caller or the rate to say."""
    route: Route = Route.EVENTS
    is_post: bool = False
    is_head: bool = False
    api_version: str = ""
    path: str = ""
    """What follows the route's own path."""
    format: str = "json"
    allow: bytes = b""
    """The methods of the route, where the one used is none of them."""


def understand(head: Head) -> Request:
    """Work out what the head asks for, and the first thing that is wrong with it."""
    path, query = _split_target(head)
    route, rest = _route(path)
    parameters = _parameters(query)
    api_version = parameters.get("api-version", "") if parameters is not None else ""
    refusal = _refusal(head, route, parameters, api_version)
    is_read = head.method in (b"GET", b"HEAD")
    wait = _wait(head.fields)
    return Request(
        ending=_ending(head),
        is_plain=refusal is None and route is Route.EVENTS and head.method == b"GET" and not wait,
        version=versions.BY_NAME[api_version].index if api_version in versions.BY_NAME else 0,
        tags=_tags(head.fields) if is_read and route is Route.EVENTS else None,
        wait=wait,
        refusal=refusal,
        route=route,
        is_post=head.method == b"POST",
        is_head=head.method == b"HEAD",
        api_version=api_version,
        path=rest,
        format=parameters.get("format", "json") if parameters is not None else "json",
        allow=b", ".join(_ALLOWED[route]) if refusal is problems.METHOD_NOT_ALLOWED else b"",
    )


def _ending(head: Head) -> Ending:
    if not head.keeps_alive:
        return Ending.CLOSE
    return Ending.OPEN if head.is_modern else Ending.KEEP_ALIVE


def _split_target(head: Head) -> tuple[str, bytes]:
    target = _TARGET.fullmatch(head.target)
    if target:
        path, query = target.groups()
        return unquote(path.decode(), errors="replace") or "/", query or b""
    is_form_of_its_own = (
        head.target == b"*" if head.method == b"OPTIONS" else _AUTHORITY.fullmatch(head.target) is not None
    )
    if head.method in (b"OPTIONS", b"CONNECT") and is_form_of_its_own:
        return "", b""
    raise Refusal(problems.MALFORMED)


def _route(path: str) -> tuple[Route, str]:
    lower = path.lower().removesuffix("/")
    if lower == "/metadata/scheduledevents":
        return Route.EVENTS, ""
    if lower == "/metadata/versions":
        return Route.VERSIONS, ""
    if lower == "/metadata/instance" or lower.startswith("/metadata/instance/"):
        return Route.INSTANCE, path[len("/metadata/instance") :]
    return Route.NONE, ""


def _parameters(query: bytes) -> dict[str, str] | None:
    """Return the query's parameters by name in lower case, or None when one is there twice."""
    parameters: dict[str, str] = {}
    for pair in query.decode().split("&"):
        if not pair:
            continue
        name, _, value = pair.replace("+", " ").partition("=")
        key = unquote(name).lower()
        if key in parameters:
            return None
        parameters[key] = unquote(value)
    return parameters


def _refusal(head: Head, route: Route, parameters: dict[str, str] | None, api_version: str) -> Problem | None:
    """Make the checks that follow the caller's and the rate's, in the order that Azure makes them."""
    fields = head.fields
    if fields.get(b"metadata", b"").lower() != b"true" and not _is_headerless(head, api_version):
        return problems.METADATA_HEADER_MISSING
    if b"x-forwarded-for" in fields:
        return problems.FORWARDED
    if parameters is None:
        return problems.DUPLICATE_PARAMETER
    names: VersionSet = _VERSIONS.get(route, versions.ALL)
    if route is not Route.VERSIONS and api_version not in names.known:
        return _VERSION_INVALID[names]
    if route is Route.NONE:
        return problems.NOT_FOUND
    if head.method not in _ALLOWED[route]:
        return problems.METHOD_NOT_ALLOWED
    return None


def _is_headerless(head: Head, api_version: str) -> bool:
    # Azure: the preview of 2017 took approvals without the header, and clients of that day send none.
    version: ApiVersion | None = versions.BY_NAME.get(api_version)
    return head.method == b"POST" and version is not None and not version.header_required_on_post


def _tags(fields: dict[bytes, bytes]) -> frozenset[bytes] | None:
    told = fields.get(b"if-none-match")
    if told is None:
        return None
    return frozenset(quoted or bare for quoted, bare in _TAG.findall(told))


def _wait(fields: dict[bytes, bytes]) -> int:
    # Without a tag there is nothing whose change could be waited for.
    if b"if-none-match" not in fields or b"prefer" not in fields:
        return 0
    told = _WAIT.search(fields[b"prefer"])
    return min(int(told[1].lstrip(b"0")[:4] or b"0"), LONGEST_WAIT) if told else 0


class Memo:
    """Requests already understood, by their exact bytes: GETs without a body, and never an answer.

    Two halves: when the young one is full it becomes the old one, and what is asked for again moves back. So it is
    bounded, and one caller's odd requests cannot push out what all the others keep sending.
    """

    def __init__(self, half: int = 16_384, longest: int = 1_024) -> None:
        self._half = half
        self._longest = longest
        self.young: dict[bytes, Request] = {}
        """What the hot path looks into, first and only."""
        self._old: dict[bytes, Request] = {}

    def __len__(self) -> int:
        return len(self.young) + len(self._old)

    def read(self, block: bytes) -> tuple[Request, Head | None]:
        """Return what a whole head asks for, and the head itself where a body may follow."""
        request = self.young.get(block) or self._old.get(block)
        head = None
        if request is None:
            head = read_head(block)
            request = understand(head)
            if head.length != NO_BODY or head.method != b"GET":
                return request, head
        if len(block) <= self._longest:
            if len(self.young) >= self._half:
                # The dictionary stays the same object: the hot path holds on to it.
                self._old = self.young.copy()
                self.young.clear()
            self.young[block] = request
        return request, None

    def read_alone(self, received: bytes) -> Request | None:
        """Return what the bytes ask for if they are one whole request without a body, and nothing else."""
        try:
            if find_end(received) != len(received):
                return None
            request, head = self.read(received)
        except Refusal:
            return None
        return request if head is None else None
