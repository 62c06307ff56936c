"""Where the service is, when nobody says so."""

from collections.abc import Mapping

import msgspec

from forewarn.client.errors import NotFound
from forewarn.client.places import Place, read_place
from forewarn.client.steps import Send, Steps
from forewarn.client.trouble import is_service_like
from forewarn.wire.versions import NEWEST

GIVEN = "given"
URL_VARIABLE = "SCHEDULED_EVENTS_URL"
ADDRESS_VARIABLE = "SCHEDULEDEVENTSIP"
LINK_LOCAL = "169.254.169.254"


class Found(msgspec.Struct, frozen=True):
    """A service, and how it was found."""

    place: Place
    how: str


def find(environment: Mapping[str, str], seconds: float) -> Steps[Found]:
    """Look everywhere in turn; raise NotFound, which names all that was tried."""
    if named := environment.get(URL_VARIABLE):
        return Found(read_place(named), URL_VARIABLE)
    tried = []
    for place, how in ((Place(LINK_LOCAL), "link-local"),):
        reply = yield Send(place=place, target=f"{place.path}?api-version={NEWEST.name}", seconds=seconds)
        if is_service_like(reply):
            return Found(place, how)
        tried.append(place.url)
    raise NotFound(f"no service was found; tried {', '.join(tried)}")
