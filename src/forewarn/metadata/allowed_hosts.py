"""Allow-list of host names in requests: protection against DNS rebinding.

A web page in a guest's browser can point its own domain at the service's address and then read the responses. Such
requests still carry that domain, which has a dot. Addresses and names without a dot cannot be misused in this way.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

ANY = "*"
_PORT = re.compile(rb":[0-9]*\Z")
# As in URLs: a host that ends in a number is an IPv4 address, not a name.
_ADDRESS = re.compile(rb"\[.*\]|(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")


class AllowedHosts:
    """Allow addresses, names without a dot, and the given names; ``*`` allows every name."""

    def __init__(self, names: Iterable[str] = (ANY,)) -> None:
        self._names = frozenset(_plain(name.encode()) for name in names)
        self._allows_all = ANY.encode() in self._names
        self.allows = lru_cache(maxsize=1024)(self._allows)
        """Return whether a request may name this host, given as in ``Host``; empty if the request names none."""

    def _allows(self, host: bytes) -> bool:
        name = _plain(_PORT.sub(b"", host))
        return (
            self._allows_all
            or (b"." not in name and b"%" not in name)
            or name in self._names
            or bool(_ADDRESS.fullmatch(name))
        )


def _plain(name: bytes) -> bytes:
    return name.lower().removesuffix(b".")
