"""Client of HAProxy's admin socket: one command and one response per connection."""

import csv
import socket
from enum import StrEnum
from typing import NoReturn

from forewarn.core.errors import BadInput, ForewarnError, nearest

LONGEST_ANSWER = 64 * 1024 * 1024
# Bits of the column srv_admin_state.
_FORCED_MAINTENANCE = 0x01
_FORCED_DRAIN = 0x08


class HaproxyUnreachable(ForewarnError):
    """HAProxy cannot be reached."""


class HaproxyRefused(ForewarnError):
    """HAProxy refuses the command."""


class HaproxyServerMissing(HaproxyRefused):
    """HAProxy has no such backend or server."""


class HaproxyServerState(StrEnum):
    """Administrative state of a server, independent of its health."""

    READY = "ready"
    DRAIN = "drain"
    MAINTENANCE = "maint"


class HaproxyAdminSocket:
    """Sends commands to HAProxy, over a new connection each time."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._peer: str | tuple[str, int] = address if "/" in address else _host_and_port(address)

    def state(self, server: str, timeout: float) -> HaproxyServerState:
        """Return the state of ``backend/server``."""
        backend, _, name = server.partition("/")
        answer = self._ask(f"show servers state {backend}", timeout)
        lines = answer.splitlines()
        if len(lines) < 2 or not lines[1].startswith("#"):
            self._raise_refusal(server, answer)
        columns = lines[1].lstrip("# ").split()
        rows = [dict(zip(columns, line.split(), strict=False)) for line in lines[2:] if line]
        found = {row["srv_name"]: int(row["srv_admin_state"]) for row in rows}
        if name not in found:
            raise HaproxyServerMissing(
                f"HAProxy at {self._address} has no server {name!r} in backend {backend!r}"
                f" (it has {', '.join(found)}){nearest(name, found)}"
            )
        if found[name] & _FORCED_MAINTENANCE:
            return HaproxyServerState.MAINTENANCE
        return HaproxyServerState.DRAIN if found[name] & _FORCED_DRAIN else HaproxyServerState.READY

    def set_state(self, server: str, state: HaproxyServerState, timeout: float) -> None:
        if answer := self._ask(f"set server {server} state {state}", timeout):
            self._raise_refusal(server, answer)

    def sessions(self, timeout: float) -> dict[str, int]:
        """Return the number of current and queued sessions of each ``backend/server``."""
        lines = self._ask("show stat -1 4 -1", timeout).lstrip("# ").splitlines()
        return {
            f"{row['pxname']}/{row['svname']}": int(row["scur"] or 0) + int(row["qcur"] or 0)
            for row in csv.DictReader(lines)
        }

    def _ask(self, command: str, timeout: float) -> str:
        """Return the response without the blank line at its end; raise HaproxyUnreachable if none comes in time."""
        try:
            with self._connect(timeout) as connection:
                connection.sendall(f"{command}\n".encode())
                answer = b""
                while (more := connection.recv(65_536)) and len(answer) < LONGEST_ANSWER:
                    answer += more
        except FileNotFoundError:
            raise HaproxyUnreachable(
                f"there is no admin socket {self._address}; start HAProxy, or set 'socket' to the path of its"
                " 'stats socket'"
            ) from None
        except PermissionError:
            raise HaproxyUnreachable(
                f"no permission to open the admin socket {self._address};"
                " give the agent's user access with 'user', 'group' or 'mode' of HAProxy's 'stats socket'"
            ) from None
        except TimeoutError:
            raise HaproxyUnreachable(f"HAProxy at {self._address} did not answer within {timeout:.1f} s") from None
        except OSError as error:
            raise HaproxyUnreachable(
                f"HAProxy at {self._address} cannot be reached: {error.strerror or error}; check that it runs"
            ) from None
        if not answer:
            raise HaproxyUnreachable(f"HAProxy at {self._address} closed the connection without a response")
        return answer.decode(errors="replace").strip()

    def _connect(self, timeout: float) -> socket.socket:
        if isinstance(self._peer, tuple):
            return socket.create_connection(self._peer, timeout=timeout)
        if not hasattr(socket, "AF_UNIX"):
            raise OSError("this system has no Unix sockets; give host:port")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout)
            connection.connect(self._peer)
        except BaseException:
            connection.close()
            raise
        return connection

    def _raise_refusal(self, server: str, answer: str) -> NoReturn:
        said = answer.partition("\n")[0].strip().rstrip(".")
        if said == "Permission denied":
            raise HaproxyRefused(
                f"HAProxy at {self._address} says {said!r} about {server};"
                " its 'stats socket' needs 'level admin' to change servers"
            )
        if said in ("Can't find backend", "No such backend", "No such server"):
            raise HaproxyServerMissing(
                f"HAProxy at {self._address} says \"{said}\" about {server}; check the name with 'show stat'"
            )
        raise HaproxyRefused(f'HAProxy at {self._address} says "{said}" about {server}')


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise BadInput(
            f"setting 'socket' of handler 'haproxy': {address!r} is neither a path with a slash nor host:port;"
            " give for example /run/haproxy/admin.sock or 127.0.0.1:9999"
        )
    return host.strip("[]"), int(port)
