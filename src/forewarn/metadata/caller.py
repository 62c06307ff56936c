"""Identify the calling VM by source address, packet mark or tap device."""

import logging
from ipaddress import ip_address

from forewarn.metadata.document_cache import DocumentCache, VmEntry
from forewarn.metadata.identity import Identity
from forewarn.wire import error_responses
from forewarn.wire.error_responses import ErrorResponse

log = logging.getLogger(__name__)

_REMEMBERED = 10_000


def plain_address(address: str) -> str:
    """Return the canonical spelling of an address, as the fleet stores it: IPv4 as such, IPv6 without its zone."""
    if ":" not in address:
        return address
    found = ip_address(address.partition("%")[0])
    return str(getattr(found, "ipv4_mapped", None) or found)


def is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


class CallerResolver:
    """Finds the VM entry of a caller; logs each unknown caller once."""

    def __init__(
        self,
        document_cache: DocumentCache,
        default_vm: str = "",
        identity: Identity = Identity.ADDRESS,
        remembered: int = _REMEMBERED,
    ) -> None:
        self._document_cache = document_cache
        self.default_vm = default_vm
        """VM that answers for loopback callers that match no VM."""
        self._identity = identity
        self._remembered = remembered
        self._unknown: set[tuple[str, str]] = set()
        """Refused callers that were logged, each with the name of its deallocated VM, if any."""

    def entry_of(self, address: str) -> VmEntry | None:
        """Return the entry of the VM with this address, mark or tap, or None if no VM of the fleet has it."""
        vm_entry = self._document_cache.vm_entries.get(address)
        if vm_entry is None and self.default_vm and is_loopback(address):
            vm_entry = self._document_cache.entry_of_vm(self.default_vm)
        if vm_entry is None:
            self._log_once(address)
        return vm_entry

    def refusal_of(self, address: str) -> ErrorResponse:
        """Return the error response for a caller without an entry."""
        return error_responses.DEALLOCATED if self._deallocated(address) else error_responses.FORBIDDEN

    def _deallocated(self, address: str) -> str:
        """Return the name of the deallocated VM with this address, mark or tap; empty if there is none."""
        name = self._document_cache.deallocated.get(address, "")
        if not name and self.default_vm and is_loopback(address):
            name = self.default_vm if self._document_cache.is_deallocated(self.default_vm) else ""
        return name

    def _log_once(self, address: str) -> None:
        name = self._deallocated(address)
        if (address, name) in self._unknown or len(self._unknown) >= self._remembered:
            return
        self._unknown.add((address, name))
        log.warning("refused a caller", extra={"fields": self._fields(address, name)})
        if len(self._unknown) == self._remembered:
            fields = {"callers": self._remembered}
            log.warning("too many different callers refused; further ones are not logged", extra={"fields": fields})

    def _fields(self, key: str, deallocated: str) -> dict[str, str]:
        """Return log fields: caller, reason and remedy."""
        who = {self._identity.value: key}
        if deallocated:
            remedy = f"start it with 'forewarn vm start {deallocated}'"
            return {**who, "vm": deallocated, "reason": "the VM is deallocated", "remedy": remedy}
        reason, remedy = self._why(key)
        return {**who, "reason": reason, "remedy": remedy}

    def _why(self, key: str) -> tuple[str, str]:
        match self._identity, key:
            case Identity.MARK, "0":
                return "its packets carry no mark", "run 'forewarn network check' to check its tap"
            case Identity.MARK | Identity.TAP, _:
                return f"no VM of the fleet has this {self._identity}", "assign it to a VM in the fleet file"
        if self._document_cache.is_shared(key):
            return "several VMs have this address", 'distinguish them with identity = "mark" or "tap"'
        remedy = "assign the address to a VM in the fleet file"
        if is_loopback(key):
            remedy += ", or name a VM with --default-vm"
        return "no VM of the fleet has this address", remedy
