"""Who is asking: the VM that the source address belongs to."""

import logging
from ipaddress import ip_address

from forewarn.metadata.desk import Desk, Seat

log = logging.getLogger(__name__)

_REMEMBERED = 10_000


def plain_address(address: str) -> str:
    """Return the address in the one spelling the fleet is searched by: IPv4 as such, IPv6 without its zone."""
    if ":" not in address:
        return address
    found = ip_address(address.partition("%")[0])
    return str(getattr(found, "ipv4_mapped", None) or found)


def is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


class Callers:
    """Finds the seat of a caller; remembers whom it did not know, so that each is logged once."""

    def __init__(self, desk: Desk, default_vm: str = "") -> None:
        self._desk = desk
        self._default_vm = default_vm
        self._unknown: set[str] = set()

    def seat_of(self, address: str) -> Seat | None:
        """Return the seat of whoever asks from this address, or None if that is no VM of the fleet."""
        seat = self._desk.seats.get(address)
        if seat is None and self._default_vm and is_loopback(address):
            seat = self._desk.seat_of_vm(self._default_vm)
        if seat is None:
            self._log_once(address)
        return seat

    def _log_once(self, address: str) -> None:
        if address in self._unknown or len(self._unknown) >= _REMEMBERED:
            return
        self._unknown.add(address)
        remedy = "give a VM that address in the fleet file"
        if is_loopback(address):
            remedy += ", or name one with --default-vm"
        log.warning("refused %s: no running VM of the fleet has this address; %s", address, remedy)
        if len(self._unknown) == _REMEMBERED:
            log.warning("refused callers from %d addresses; further ones are not logged", _REMEMBERED)
