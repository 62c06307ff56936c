"""Who is asking: the VM that the source address belongs to, or the wire that the request came from."""

import logging
from ipaddress import ip_address

from forewarn.metadata.desk import Desk, Seat
from forewarn.metadata.identity import Identity

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

    def __init__(self, desk: Desk, default_vm: str = "", identity: Identity = Identity.ADDRESS) -> None:
        self._desk = desk
        self._default_vm = default_vm
        self._identity = identity
        self._unknown: set[str] = set()

    def seat_of(self, address: str) -> Seat | None:
        """Return the seat of whoever asks from this address, mark or tap, or None if that is no VM of the fleet."""
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
        log.warning("refused %s: %s; %s", *self._why(address))
        if len(self._unknown) == _REMEMBERED:
            log.warning("refused %d different callers; further ones are not logged", _REMEMBERED)

    def _why(self, key: str) -> tuple[str, str, str]:
        """Return who was refused, why, and what to do."""
        match self._identity, key:
            case Identity.MARK, "0":
                return "a caller", "its packets bear no mark", "see what 'forewarn network check' says of its tap"
            case Identity.MARK | Identity.TAP, _:
                who = f"{self._identity} {key}"
                return who, "no running VM of the fleet has it", "give it to one in the fleet file"
        if self._desk.is_shared(key):
            return key, "several VMs have this address", 'tell them apart with identity = "mark" or "tap"'
        remedy = "give a VM that address in the fleet file"
        if is_loopback(key):
            remedy += ", or name one with --default-vm"
        return key, "no running VM of the fleet has this address", remedy
