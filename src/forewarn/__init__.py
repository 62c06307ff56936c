"""Maintenance that asks first: an open, Azure-compatible Scheduled Events service.

What a program in a VM needs can be imported from here, and costs nothing until it is::

    from forewarn import Client
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forewarn.client.async_client import AsyncClient
    from forewarn.client.changes import Change, ChangeKind, Ending
    from forewarn.client.client import Client
    from forewarn.client.effects import Effect
    from forewarn.client.errors import (
        Closed,
        NoAnswer,
        NotAService,
        NotFound,
        NotKnown,
        NotPostponed,
        NotReady,
        NotThere,
        UnknownEvent,
        VersionRefused,
        WrongLoop,
    )
    from forewarn.core.errors import ForewarnError, Refused, Unavailable
    from forewarn.wire.document import Document, ScheduledEvent

__version__ = "0.1.0"
__all__ = [
    "AsyncClient",
    "Change",
    "ChangeKind",
    "Client",
    "Closed",
    "Document",
    "Effect",
    "Ending",
    "ForewarnError",
    "NoAnswer",
    "NotAService",
    "NotFound",
    "NotKnown",
    "NotPostponed",
    "NotReady",
    "NotThere",
    "Refused",
    "ScheduledEvent",
    "Unavailable",
    "UnknownEvent",
    "VersionRefused",
    "WrongLoop",
]

_PLACES = {
    "forewarn.client.async_client": ("AsyncClient",),
    "forewarn.client.changes": ("Change", "ChangeKind", "Ending"),
    "forewarn.client.client": ("Client",),
    "forewarn.client.effects": ("Effect",),
    "forewarn.core.errors": ("ForewarnError", "Refused", "Unavailable"),
    "forewarn.wire.document": ("Document", "ScheduledEvent"),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'forewarn' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - importing the package imports nothing

    places = (place for place, names in _PLACES.items() if name in names)
    return getattr(import_module(next(places, "forewarn.client.errors")), name)
