"""The host that accepted writes last is tried first."""

from types import SimpleNamespace
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

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
        ("host=a,b,c port=1,2,3 dbname=f", ("b", 2), ["host=b port=2", "host=a port=1", "host=c port=3"]),
        ("host=a,b port=5 dbname=f", ("b", 5), ["host=b port=5", "host=a port=5"]),
        ("host=a,b dbname=f", ("b", 5432), ["host=b", "host=a"]),
        ("host=a,b port=, dbname=f", ("b", 5432), ["host=b", "host=a"]),  # as libpq reads a URL without ports
        ("hostaddr=10.0.0.1,10.0.0.2 dbname=f", ("10.0.0.2", 5432), ["hostaddr=10.0.0.2", "hostaddr=10.0.0.1"]),
        ("host=a dbname=f", ("a", 5432), ["host=a"]),
        ("service=journal dbname=f", ("b", 5432), ["service=journal"]),
    ],
)
def test_the_last_host_comes_first(conninfo: str, host: tuple[str, int], arranged: list[str]) -> None:
    """Each host has an address of its own. The others keep their order, and each keeps its port."""
    order: Any = HostOrder()
    expected = [conninfo_to_dict(each, dbname="f") for each in arranged]
    before = [*map(conninfo_to_dict, order.arrange(conninfo))]
    assert all(each in expected for each in before)
    assert len(before) == len(expected)
    order.note(conninfo, FakeSession(*host))

    assert [*map(conninfo_to_dict, order.arrange(conninfo))] == expected


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
