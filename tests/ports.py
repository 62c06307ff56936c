"""Ports for services that must be told theirs before they start."""

import itertools
import os
import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_WORKERS = 8
"""Sessions of tests that may run at the same time without ever trying the same port."""


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nobody listens on, and that is nobody else's before it is used.

    The system hands out ports of its own range to whoever connects somewhere; so ours is from below that range.
    """
    return next(port for port in _ports if _is_free(host, port))


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _candidates() -> range:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    theirs = int(_RANGE.read_text(encoding="ascii").split()[0])
    return range(12_000 + worker % _WORKERS, max(theirs, 20_000), _WORKERS)


_all = _candidates()
_ports = itertools.islice(itertools.cycle(_all), random.SystemRandom().randrange(len(_all)), None)
