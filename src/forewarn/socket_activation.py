"""Socket activation: listening sockets that a service manager passed to this process (sd_listen_fds).

    LISTEN_FDS=3 LISTEN_FDNAMES=metadata:control:control-socket LISTEN_PID=4711

The descriptors begin at 3. A name may occur more than once: one unit may listen on several addresses.
"""

import os
import socket
import stat
from collections.abc import MutableMapping, Sequence
from contextlib import ExitStack

import msgspec

from forewarn.core.errors import BadInput

METADATA = "metadata"
CONTROL = "control"
CONTROL_SOCKET = "control-socket"
NAMES = (METADATA, CONTROL, CONTROL_SOCKET)
_FIRST = 3
_REMEDY = f"set FileDescriptorName= of the .socket unit to one of {', '.join(NAMES)}"


class PassedSockets(msgspec.Struct, frozen=True):
    """The passed sockets by purpose. Empty if the process opens its own."""

    metadata: tuple[socket.socket, ...] = ()
    control: tuple[socket.socket, ...] = ()
    control_socket: tuple[socket.socket, ...] = ()

    def close(self) -> None:
        """Close every descriptor; the service manager keeps its own, so that callers wait for the next start."""
        for each in (*self.metadata, *self.control, *self.control_socket):
            each.close()


def from_environment(environment: MutableMapping[str, str], first: int = _FIRST) -> PassedSockets:
    """Take over the passed sockets; remove the variables from ``environment``: child processes must not use them.

    Raise BadInput that names a descriptor of the wrong kind.
    """
    given = {name: environment.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES")}
    if not given["FDS"] or given["PID"] not in ("", str(os.getpid())):
        return PassedSockets()
    if not given["FDS"].isdecimal():
        raise BadInput(
            f"LISTEN_FDS is {given['FDS']!r}, expected a number of descriptors; start the service with a .socket unit"
        )
    names = given["FDNAMES"].split(":") if given["FDNAMES"] else []
    count = int(given["FDS"])
    found: dict[str, list[socket.socket]] = {name: [] for name in NAMES}
    with ExitStack() as opened:
        for number in range(first, first + count):
            name = names[number - first] if number - first < len(names) else ""
            if name not in found:
                shown = f"the name {name!r}" if name else "no name"
                raise BadInput(f"the passed descriptor {number} has {shown}; {_REMEDY}")
            where = f"the passed descriptor {number} ({name})"
            found[name].append(opened.enter_context(_open(number, where)))
            _check(found[name][-1], name, where)
        opened.pop_all()
    return PassedSockets(*(tuple(found[name]) for name in NAMES))


def _open(number: int, where: str) -> socket.socket:
    try:
        os.set_inheritable(number, False)
        return socket.socket(fileno=number)
    except OSError as error:
        raise BadInput(f"{where} is not a socket: {error.strerror or error}; {_REMEDY}") from None


def _check(given: socket.socket, name: str, where: str) -> None:
    families = _families(name)
    if given.family not in families or given.type != socket.SOCK_STREAM:
        wanted = " or ".join(family.name for family in families)
        raise BadInput(
            f"{where} is {_name(given.family)}, {_name(given.type)}; a ListenStream= of {wanted} is needed"
        )
    if not given.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise BadInput(f"{where} does not listen; set Accept=no in its .socket unit")
    if name == CONTROL_SOCKET and _may_every_user_connect(path := os.fsdecode(given.getsockname())):
        raise BadInput(
            f"{where} at {path!r} lets every user give commands; set SocketMode=0600 in its .socket unit,"
            " or 0660 and SocketGroup= for a group of operators"
        )
    given.setblocking(False)


def _may_every_user_connect(path: str) -> bool:
    """Return whether every user may connect: to connect, a user needs permission to write to the file."""
    if not path.startswith("/"):
        return True  # an abstract address has no permissions
    try:
        return bool(os.stat(path).st_mode & stat.S_IWOTH)  # noqa: PTH116
    except OSError:
        return False  # it was removed, or its directory keeps users out, as it does this one


def _families(name: str) -> Sequence[socket.AddressFamily]:
    return (socket.AF_UNIX,) if name == CONTROL_SOCKET else (socket.AF_INET, socket.AF_INET6)


def _name(number: int) -> str:
    """Return the name of a constant; an unknown number stays a number."""
    return getattr(number, "name", str(number))
