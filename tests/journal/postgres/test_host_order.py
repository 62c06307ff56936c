"""The host that accepted writes last is tried first."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from forewarn.journal.postgres.host_order import HostOrder

STARTED = datetime(2026, 3, 1, tzinfo=UTC)


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
        ("host=a,b dbname=f", ("b", 5432), ["host=b port=5432", "host=a port=5432"]),
        ("host=a,b port=, dbname=f", ("b", 5432), ["host=b", "host=a"]),  # as libpq reads a URL without ports
        (
            "hostaddr=10.0.0.1,10.0.0.2 dbname=f",
            ("10.0.0.2", 5432),
            ["hostaddr=10.0.0.2 port=5432", "hostaddr=10.0.0.1 port=5432"],
        ),
        ("host=a dbname=f", ("a", 5432), ["host=a"]),
        ("host=a,b,c port=1,2 dbname=f", ("b", 2), ["host=a,b,c port=1,2"]),  # which libpq refuses
        ("service=unknown dbname=f", ("b", 5432), ["service=unknown"]),
    ],
)
def test_the_last_host_comes_first(conninfo: str, host: tuple[str, int], arranged: list[str]) -> None:
    """Each host has an address of its own. The others keep their order, and each keeps its port."""
    order: Any = HostOrder()
    expected = [conninfo_to_dict(each, dbname="f") for each in arranged]
    before = arrange(order, conninfo)
    assert all(each in expected for each in before)
    assert len(before) == len(expected)
    order.note(conninfo, FakeSession(*host), STARTED)

    assert arrange(order, conninfo) == expected


def arrange(order: HostOrder, conninfo: str) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in conninfo_to_dict(each).items() if value} for each in order.arrange(conninfo)
    ]


@pytest.fixture(autouse=True)
def service_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pg_service.conf"
    file.write_text(
        "[journal]\nhost=a,b\nport=1,2\ndbname=f\npassword=secret\n[addresses]\nhost=a,b\nhostaddr=10.0.0.1,\n"
        "[alone]\nhost=a\n"
    )
    for key in ("PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("PGSERVICEFILE", str(file))


@pytest.mark.parametrize(
    ("conninfo", "arranged"),
    [
        ("service=journal", ["service=journal host=a port=1", "service=journal host=b port=2"]),
        ("service=journal port=7", ["service=journal host=a port=7", "service=journal host=b port=7"]),
        (
            "service=addresses",
            [
                "service=addresses host=a hostaddr=10.0.0.1 port=5432",
                "service=addresses host=b hostaddr='' port=5432",
            ],
        ),
        ("service=alone", ["service=alone"]),
        ("service=journal host=c,d", ["service=journal host=c port=1", "service=journal host=d port=2"]),
    ],
)
def test_hosts_of_a_service_file_have_addresses_of_their_own(conninfo: str, arranged: list[str]) -> None:
    """What an address says itself comes first; its password stays in the file."""
    assert [conninfo_to_dict(each) for each in HostOrder().arrange(conninfo)] == [*map(conninfo_to_dict, arranged)]


@pytest.mark.parametrize(("variable", "value"), [("PGSERVICE", "journal"), ("PGHOST", "a,b")])
def test_hosts_of_the_environment_have_addresses_of_their_own(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """A service can be named there, too."""
    monkeypatch.setenv(variable, value)
    assert [conninfo_to_dict(each)["host"] for each in HostOrder().arrange("dbname=f")] == ["a", "b"]


def test_sessions_on_another_host_are_ended() -> None:
    """Those of the same address only."""
    order: Any = HostOrder()
    before, same, elsewhere = FakeSession("a", 1), FakeSession("a", 1), FakeSession("a", 1)
    order.note("host=a,b", before, STARTED)
    order.note("host=a,b", same, STARTED)
    order.note("host=a,c", elsewhere, STARTED)
    assert not before.is_ended
    order.note("host=a,b", FakeSession("b", 1), STARTED)

    assert (before.is_ended, same.is_ended, elsewhere.is_ended) == (True, True, False)


def test_sessions_on_the_server_before_behind_one_address_are_ended() -> None:
    """A virtual address has moved to a standby, which was started at another time."""
    order: Any = HostOrder()
    before, after = FakeSession("a", 1), FakeSession("a", 1)
    order.note("host=a", before, STARTED)
    order.note("host=a", after, STARTED + timedelta(seconds=1))

    assert (before.is_ended, after.is_ended) == (True, False)
