"""Where the service is, when nobody says so.

SCHEDULED_EVENTS_URL      is believed
SCHEDULEDEVENTSIP         ┐
169.254.169.254           │
leases, registry          ├ the first that answers like a service
asking by DHCP, as root   ┘
"""

import sys
from collections.abc import Callable, Mapping

import msgspec

from forewarn.client.errors import NotFound
from forewarn.client.places import Place, read_place
from forewarn.client.steps import Answer, Look, Send, Silence, Steps
from forewarn.client.trouble import is_service_like
from forewarn.wire.versions import NEWEST

GIVEN = "given"
URL_VARIABLE = "SCHEDULED_EVENTS_URL"
ADDRESS_VARIABLE = "SCHEDULEDEVENTSIP"
LINK_LOCAL = "169.254.169.254"
# Azure: its samples speak to port 80 in one language and to 8080 in another.
_PORTS = (80, 8080)
_REMEDY = f"--url on the command line, Client(url) in Python, or {URL_VARIABLE} in the environment"


class Found(msgspec.Struct, frozen=True):
    """A service, and how it was found."""

    place: Place
    how: str
    is_discovered: bool = True
    """Nobody said so: it may be elsewhere tomorrow."""


class Source(msgspec.Struct, frozen=True):
    """A place where addresses may stand that nobody gave."""

    how: str
    nothing: str
    """What is said when it names none."""
    look: Callable[[], tuple[str, ...]]
    """Return addresses; it may take seconds."""


def find(
    environment: Mapping[str, str], seconds: float, sources: Callable[[], tuple[Source, ...]] | None = None
) -> Steps[Found]:
    """Look everywhere in turn; raise NotFound, which names all that was tried.

    ``seconds`` is how long an answer may take: the first one can be slow.
    """
    if named := environment.get(URL_VARIABLE):
        return Found(read_place(named), f"the environment ({URL_VARIABLE})", is_discovered=False)
    tried: list[str] = []
    if named := environment.get(ADDRESS_VARIABLE):
        found = yield from _first_of(_places(named), f"the environment ({ADDRESS_VARIABLE})", seconds, tried)
        if found:
            return found
    found = yield from _first_of((Place(LINK_LOCAL),), "its usual address", seconds, tried)
    if found:
        return found
    for source in (sources or _sources)():
        addresses = yield Look(source.look)
        places = tuple(place for each in _texts(addresses) for place in _places(each))
        found = yield from _first_of(places, source.how, seconds, tried)
        if found:
            return found
        if not places:
            tried.append(source.nothing)
    raise NotFound(f"no Scheduled Events service was found: {'; '.join(tried)}. Give its address: {_REMEDY}")


def _first_of(places: tuple[Place, ...], how: str, seconds: float, tried: list[str]) -> Steps[Found | None]:
    for place in places:
        reply = yield Send(place=place, target=f"{place.path}?api-version={NEWEST.name}", seconds=seconds)
        if is_service_like(reply):
            return Found(place, how)
        tried.append(f"http://{place.authority} {_seen(reply)}")
    return None


def _seen(reply: object) -> str:
    match reply:
        case Silence(why=why):
            return why
        case Answer(status=200):
            return "answers with no document"
        case Answer(status=status):
            return f"answers {status}"
        case _:
            return "does not answer"


def _places(address: str) -> tuple[Place, ...]:
    place = read_place(address)
    if place.port != _PORTS[0]:
        return (place,)
    return tuple(msgspec.structs.replace(place, port=port) for port in _PORTS)


def _texts(addresses: object) -> tuple[str, ...]:
    return tuple(map(str, addresses)) if isinstance(addresses, tuple) else ()


def _sources() -> tuple[Source, ...]:
    # Whoever finds the service at its usual address does not pay for these.
    from forewarn.client.leases import leased_endpoints, registered_endpoints  # noqa: PLC0415
    from forewarn.client.shouting import offered_endpoints  # noqa: PLC0415

    lease = Source("a DHCP lease (option 245)", "no DHCP lease names one", leased_endpoints)
    registry = Source("the registry", "the registry names none", registered_endpoints)
    asking = Source("asking by DHCP (option 245)", "no DHCP server names one to root", offered_endpoints)
    return (lease, registry, asking) if sys.platform == "win32" else (lease, asking)
