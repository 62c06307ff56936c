"""Discovery of the service, when no address is configured.

SCHEDULED_EVENTS_URL      is used without a check
SCHEDULEDEVENTSIP         ┐
169.254.169.254           │
leases, registry          ├ the first that answers like a service
DHCP request, as root     ┘
"""

import sys
from collections.abc import Callable, Mapping

import msgspec

from forewarn.client.endpoint_problem import is_service_like
from forewarn.client.endpoint_url import EndpointUrl, read_endpoint_url
from forewarn.client.errors import NotFound
from forewarn.client.steps import CallBlocking, NoResponse, SendRequest, Steps
from forewarn.http.codec import HttpResponse
from forewarn.wire.versions import NEWEST

GIVEN = "given"
URL_VARIABLE = "SCHEDULED_EVENTS_URL"
ADDRESS_VARIABLE = "SCHEDULEDEVENTSIP"
LINK_LOCAL = "169.254.169.254"
# Azure: the samples use port 80 in one language and port 8080 in another.
_PORTS = (80, 8080)
_REMEDY = f"--url on the command line, Client(url) in Python, or {URL_VARIABLE} in the environment"


class FoundEndpoint(msgspec.Struct, frozen=True):
    """A service and how it was discovered."""

    endpoint: EndpointUrl
    how: str
    is_discovered: bool = True
    """Whether the address was discovered, not configured: it may change."""


class AddressSource(msgspec.Struct, frozen=True):
    """A source of addresses."""

    how: str
    nothing: str
    """The message if there is no address."""
    look: Callable[[], tuple[str, ...]]
    """Return the addresses; it may take seconds."""


def find_endpoint(
    environment: Mapping[str, str], seconds: float, sources: Callable[[], tuple[AddressSource, ...]] | None = None
) -> Steps[FoundEndpoint]:
    """Try every source in order; raise NotFound, which lists all sources.

    ``seconds`` is the time limit of a response: the first one can be slow.
    """
    if named := environment.get(URL_VARIABLE):
        return FoundEndpoint(read_endpoint_url(named), f"the environment ({URL_VARIABLE})", is_discovered=False)
    tried: list[str] = []
    if named := environment.get(ADDRESS_VARIABLE):
        found = yield from _first_of(_places(named), f"the environment ({ADDRESS_VARIABLE})", seconds, tried)
        if found:
            return found
    found = yield from _first_of((EndpointUrl(LINK_LOCAL),), "its usual address", seconds, tried)
    if found:
        return found
    for source in (sources or _sources)():
        addresses = yield CallBlocking(source.look)
        places = tuple(endpoint for each in _texts(addresses) for endpoint in _places(each))
        found = yield from _first_of(places, source.how, seconds, tried)
        if found:
            return found
        if not places:
            tried.append(source.nothing)
    raise NotFound(f"no Scheduled Events service was found: {'; '.join(tried)}. Give its address: {_REMEDY}")


def _first_of(
    places: tuple[EndpointUrl, ...], how: str, seconds: float, tried: list[str]
) -> Steps[FoundEndpoint | None]:
    for endpoint in places:
        reply = yield SendRequest(
            endpoint=endpoint, target=f"{endpoint.path}?api-version={NEWEST.name}", seconds=seconds
        )
        if is_service_like(reply):
            return FoundEndpoint(endpoint, how)
        tried.append(f"http://{endpoint.authority} {_seen(reply)}")
    return None


def _seen(reply: object) -> str:
    match reply:
        case NoResponse(why=why):
            return why
        case HttpResponse(status=200):
            return "answers with no document"
        case HttpResponse(status=status):
            return f"answers {status}"
        case _:
            return "does not answer"


def _places(address: str) -> tuple[EndpointUrl, ...]:
    endpoint = read_endpoint_url(address)
    if endpoint.port != _PORTS[0]:
        return (endpoint,)
    return tuple(msgspec.structs.replace(endpoint, port=port) for port in _PORTS)


def _texts(addresses: object) -> tuple[str, ...]:
    return tuple(map(str, addresses)) if isinstance(addresses, tuple) else ()


def _sources() -> tuple[AddressSource, ...]:
    # Not imported if the service is at its usual address.
    from forewarn.client.dhcp_discovery import offered_endpoints  # noqa: PLC0415
    from forewarn.client.leases import leased_endpoints, registered_endpoints  # noqa: PLC0415

    lease = AddressSource("a DHCP lease (option 245)", "no DHCP lease names one", leased_endpoints)
    registry = AddressSource("the registry", "the registry names none", registered_endpoints)
    asking = AddressSource("asking by DHCP (option 245)", "no DHCP server names one to root", offered_endpoints)
    return (lease, registry, asking) if sys.platform == "win32" else (lease, asking)
