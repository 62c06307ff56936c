"""What can go wrong between a VM and the service, by whose fault it is."""

from forewarn.core.errors import BadInput, NotAllowed, Refused, Unavailable, Unknown


class NotFound(Unavailable):
    """No Scheduled Events service was found from here."""


class NotThere(Unavailable):
    """Nothing can be reached at the address of the service."""


class NoAnswer(Unavailable):
    """The service was reached, and does not answer."""


class NotReady(Unavailable):
    """The service asks to be asked later."""


class NotAService(Unavailable):
    """What answers is no Scheduled Events service."""


class Closed(Unavailable):
    """The client is closed."""


class WrongLoop(BadInput):
    """An AsyncClient works in the event loop of its first call only; make one in each (asyncio.run starts one)."""


class NotKnown(NotAllowed):
    """The service does not know this VM."""


class VersionRefused(Refused):
    """The service does not know the api-version."""


class UnknownEvent(Unknown):
    """The event is no longer there."""

    def __init__(self, message: str | None = None, events: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.events = events
        """The ids that are no longer there."""


class NotPostponed(Refused):
    """The service does not give more time."""
