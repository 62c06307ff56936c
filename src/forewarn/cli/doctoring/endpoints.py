"""Checks the listening addresses: whether the address exists, and whether the port is free or used by the service."""

import errno
import os
import socket
import sys
from ipaddress import ip_address
from pathlib import Path

from forewarn.cli.doctoring.finding import DoctorReport
from forewarn.cli.doctoring.machines import ServiceState
from forewarn.config.values import ListenAddress

_MENDED_BY_SETUP = "169.254."
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTEN = "0A"


def examine_endpoint(
    what: str, endpoint: ListenAddress, found: ServiceState, findings: DoctorReport, *, by_tap: bool = False
) -> None:
    """Check whether the service can listen there, or already does; with ``by_tap`` only on the taps of VMs."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM
        )[0]
    except OSError:
        findings.wrong(what, f"{endpoint.host!r} is not a valid address; set {what} to one of this machine")
        return
    with socket.socket(family, kind, protocol) as trial:
        if os.name == "posix":
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(address)
            trial.listen(1)
        except OSError as error:
            if by_tap and error.errno == errno.EADDRNOTAVAIL:
                findings.ok(
                    what, f"no tap has {endpoint.host} now; 'forewarn network setup' gives it to those there are"
                )
            else:
                _tell(what, endpoint, error, found, findings)
            return
    if found.is_running and not by_tap:
        findings.wrong(
            what,
            f"a service runs, but does not listen on {endpoint}; restart it with these settings, or set {what} to the"
            " address in its .socket unit, if it has one",
        )
    else:
        findings.ok(what, f"{endpoint} is free")


def _tell(what: str, endpoint: ListenAddress, error: OSError, found: ServiceState, findings: DoctorReport) -> None:
    match error.errno:
        case errno.EADDRINUSE if found.is_running:
            _tell_owner(what, endpoint, found, findings)
        case errno.EADDRINUSE:
            findings.wrong(
                what,
                f"{_shown(_owners(endpoint))} listens on {endpoint}; stop it, or set {what} elsewhere. If it is"
                " systemd, by a .socket unit of the service, all is well",
            )
        case errno.EADDRNOTAVAIL:
            remedy = "run 'forewarn network setup'" if endpoint.host.startswith(_MENDED_BY_SETUP) else "add it to one"
            findings.wrong(what, f"no interface of this machine has the address {endpoint.host}; {remedy}")
        case errno.EACCES:
            findings.unsure(what, f"only a privileged user can tell whether {endpoint} is free; look as root")
        case _:
            findings.wrong(what, f"{endpoint}: {error.strerror or error}")


def _tell_owner(what: str, endpoint: ListenAddress, found: ServiceState, findings: DoctorReport) -> None:
    """Compare what the service says it listens on with what the kernel knows of the address."""
    if found.listeners is None:
        findings.unsure(
            what,
            f"some program listens on {endpoint}; the service cannot say whether that program is the service itself",
        )
        return
    own = {each.inode: each.address for each in found.listeners if each.part == what}
    there = _owners(endpoint)
    if there.keys() & own.keys() or (not there and str(endpoint) in own.values()):
        findings.ok(what, f"the service listens on {endpoint}")
        return
    elsewhere = f"listens on {', '.join(sorted(set(own.values())))}" if own else "listens nowhere for it"
    findings.wrong(
        what,
        f"{_shown(there)} listens on {endpoint}, and the service {elsewhere}; stop that program, then restart the"
        " service with these settings",
    )


def _shown(owners: dict[int, str]) -> str:
    return ", ".join(sorted(filter(None, owners.values()))) or "another program"


def _owners(endpoint: ListenAddress) -> dict[int, str]:
    """Return the sockets that listen at an endpoint, by the kernel's number, and the process of each if one may see.

    Empty where the system does not tell.
    """
    found: dict[int, str] = {}
    for file in _TABLES:
        if file.exists():
            for line in file.read_text("ascii").splitlines()[1:]:
                _, local, _, state, *_ = fields = line.split()
                address, _, port = local.partition(":")
                if (
                    state == _LISTEN
                    and int(port, 16) == endpoint.port
                    and _address(address) in _listening_addresses(endpoint.host)
                ):
                    found[int(fields[9])] = ""
    for link in Path("/proc").glob("[0-9]*/fd/*") if found else ():
        try:
            inode = int(str(link.readlink()).removeprefix("socket:[").removesuffix("]"))
            if inode in found:
                found[inode] = f"process {link.parts[2]} ({(link.parents[1] / 'comm').read_text().strip()})"
        except (OSError, ValueError):
            continue
    return found


def _address(written: str) -> str:
    """Return an address of the kernel's tables, which has its words in the order of this machine."""
    raw = b"".join(
        bytes.fromhex(written[at : at + 8])[:: -1 if sys.byteorder == "little" else 1]
        for at in range(0, len(written), 8)
    )
    found = ip_address(raw)
    return str(getattr(found, "ipv4_mapped", None) or found)


def _listening_addresses(host: str) -> set[str]:
    """Return the addresses that a listener may be bound to which hears this one."""
    return {str(each[4][0]) for each in socket.getaddrinfo(host, None)} | {"0.0.0.0", "::"}  # noqa: S104
