"""Which names a request may use for the service: protection against DNS rebinding.

A web page in a guest's browser can point a domain of its own at the service's address, and then read the answers. The
requests still carry that name, which has a dot. Addresses and names without a dot cannot be misused like this.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

ANY = "*"
_PORT = re.compile(rb":[0-9]*\Z")
# As in URLs: a host that ends in a number is an IPv4 address, and no name.
_ADDRESS = re.compile(rb"\[.*\]|(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")


class AllowedHosts:
    """Addresses, names without a dot, and these names; all where ``*`` is one of them."""

    def __init__(self, names: Iterable[str] = (ANY,)) -> None:
        self._names = frozenset(_plain(name.encode()) for name in names)
        self._allows_all = ANY.encode() in self._names
        self.allows = lru_cache(maxsize=1024)(self._allows)
        """Tell whether a request may name this host, given as in ``Host``; empty where it names none."""

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
