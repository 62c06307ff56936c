"""Errors of the client, by cause: network, service, caller."""

from forewarn.core.errors import BadInput, NotAllowed, Refused, Unavailable, Unknown


class NotFound(Unavailable):
    """No Scheduled Events service was found."""


class NotThere(Unavailable):
    """The address of the service cannot be reached."""


class NoAnswer(Unavailable):
    """The service does not respond."""


class NotReady(Unavailable):
    """The service asks for a later retry."""


class NotAService(Unavailable):
    """The server is not a Scheduled Events service."""


class Closed(Unavailable):
    """The client is closed."""


class WrongLoop(BadInput):
    """An AsyncClient works in the event loop of its first call only; make one in each (asyncio.run starts one)."""


class NotKnown(NotAllowed):
    """The service does not know this VM."""


class VersionRefused(Refused):
    """The service does not know the api-version."""


class UnknownEvent(Unknown):
    """The event no longer exists."""

    def __init__(self, message: str | None = None, events: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.events = events
        """The ids of events that no longer exist."""


class NotPostponed(Refused):
    """The service does not postpone the event."""
