"""Where the service listens: whether the address is there, and the port free or its own."""

import errno
import os
import socket

from forewarn.cli.doctoring.finding import Findings
from forewarn.config.values import Endpoint

_MENDED_BY_SETUP = "169.254."


def examine_endpoint(
    what: str, endpoint: Endpoint, findings: Findings, *, is_running: bool, by_tap: bool = False
) -> None:
    """Find out whether the service can listen there, or does already; ``by_tap`` only where a VM's tap is."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM
        )[0]
    except OSError:
        findings.wrong(what, f"{endpoint.host!r} is no address; set {what} to one of this machine")
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
                _tell(what, endpoint, error, findings, is_running=is_running)
            return
    if is_running and not by_tap:
        findings.wrong(what, f"a service runs, but does not listen on {endpoint}; restart it with these settings")
    else:
        findings.ok(what, f"{endpoint} is free")


def _tell(what: str, endpoint: Endpoint, error: OSError, findings: Findings, *, is_running: bool) -> None:
    match error.errno:
        case errno.EADDRINUSE if is_running:
            findings.ok(what, f"the service listens on {endpoint}")
        case errno.EADDRINUSE:
            findings.wrong(what, f"another program listens on {endpoint}; stop it, or set {what} elsewhere")
        case errno.EADDRNOTAVAIL:
            remedy = "run 'forewarn network setup'" if endpoint.host.startswith(_MENDED_BY_SETUP) else "add it to one"
            findings.wrong(what, f"no interface of this machine has the address {endpoint.host}; {remedy}")
        case errno.EACCES:
            findings.unsure(what, f"only a privileged user can tell whether {endpoint} is free; look as root")
        case _:
            findings.wrong(what, f"{endpoint}: {error.strerror or error}")
