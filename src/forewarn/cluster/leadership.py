"""Who leads, as the rest of a node needs to know it."""

from typing import Protocol

import msgspec


class KnownLeader(msgspec.Struct, frozen=True):
    """The node that leads, as far as this one knows."""

    name: str
    address: str
    """HOST:PORT where other nodes reach it."""
    term: int


class Leadership(Protocol):
    """What this node knows of the leader."""

    @property
    def is_leading(self) -> bool:
        """Whether this node leads, and takes commands."""

    @property
    def leader(self) -> KnownLeader | None:
        """The node that leads; None while there is none, or it is not known."""
