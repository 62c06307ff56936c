"""The host that accepted writes last is tried first."""

from types import SimpleNamespace
from typing import Any

import pytest

from forewarn.journal.postgres.host_order import HostOrder


class FakeSession:
    """A session on a server; it notes that it was ended."""

    def __init__(self, host: str, port: int) -> None:
        self.info = SimpleNamespace(host=host, port=port)
        self.is_ended = False

    def interrupt(self) -> None:
        self.is_ended = True


@pytest.mark.parametrize(
    ("conninfo", "host", "arranged"),
    [
        ("host=a,b,c port=1,2,3 dbname=f", ("b", 2), "host=b,a,c port=2,1,3 dbname=f"),
        ("host=a,b port=5 dbname=f", ("b", 5), "host=b,a port=5,5 dbname=f"),
        ("host=a,b dbname=f", ("b", 5432), "host=b,a dbname=f"),
        ("host=a,b port=, dbname=f", ("b", 5432), "host=b,a port=, dbname=f"),  # as libpq reads a URL without ports
        ("hostaddr=10.0.0.1,10.0.0.2", ("10.0.0.2", 5432), "hostaddr=10.0.0.2,10.0.0.1"),
        ("host=a dbname=f", ("a", 5432), "host=a dbname=f"),
        ("service=journal", ("b", 5432), "service=journal"),
    ],
)
def test_the_last_host_comes_first(conninfo: str, host: tuple[str, int], arranged: str) -> None:
    """The others keep their order, and each keeps its port."""
    order: Any = HostOrder()
    assert order.arrange(conninfo) == conninfo
    order.note(conninfo, FakeSession(*host))

    assert sorted(order.arrange(conninfo).split()) == sorted(arranged.split())


def test_sessions_on_another_host_are_ended() -> None:
    """Those of the same address only."""
    order: Any = HostOrder()
    before, same, elsewhere = FakeSession("a", 1), FakeSession("a", 1), FakeSession("a", 1)
    order.note("host=a,b", before)
    order.note("host=a,b", same)
    order.note("host=a,c", elsewhere)
    assert not before.is_ended
    order.note("host=a,b", FakeSession("b", 1))

    assert (before.is_ended, same.is_ended, elsewhere.is_ended) == (True, True, False)
