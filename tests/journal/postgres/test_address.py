"""Addresses are read as PostgreSQL's library reads them; what is shown of them holds no secret."""

import pytest

from forewarn.core.errors import BadInput
from forewarn.journal.postgres.address import DatabaseAddress


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("//one/forewarn", "postgresql://one/forewarn"),
        ("//ada@one:5433,two:5434/forewarn?sslmode=verify-full", "postgresql://one:5433,two:5434/forewarn"),
        ("//one,two/forewarn", "postgresql://one,two/forewarn"),
        ("//one,two/forewarn?port=6000", "postgresql://one:6000,two:6000/forewarn"),
        ("host=one dbname=forewarn", "postgresql://one/forewarn"),
        ("service=journal", "postgresql:service=journal"),
        ("///forewarn", "postgresql:///forewarn"),
        ("//[::1]:5433/forewarn", "postgresql://[::1]:5433/forewarn"),
    ],
)
def test_an_address_is_shown_by_its_hosts_and_its_database(location: str, place: str) -> None:
    """Whoever reads a message finds the server."""
    assert DatabaseAddress.parse(location).place == place


def test_an_address_gets_what_a_node_needs() -> None:
    """Only servers that accept writes, and timeouts; what is given goes before."""
    plain = DatabaseAddress.parse("//one/forewarn").conninfo
    assert "target_session_attrs=read-write" in plain
    assert "connect_timeout=3" in plain
    assert "application_name=forewarn" in plain

    assert "connect_timeout=2" in DatabaseAddress.parse("//one,two/forewarn").conninfo
    given = DatabaseAddress.parse("//one/forewarn?connect_timeout=7&target_session_attrs=primary&sslmode=require")
    assert "connect_timeout=7" in given.conninfo
    assert "target_session_attrs=primary" in given.conninfo
    assert "sslmode=require" in given.conninfo


@pytest.mark.parametrize(
    "location", ["//one/forewarn?colour=red", "nonsense", "//one:port/forewarn%", "//ada:s3cret%zz@one/forewarn"]
)
def test_what_is_no_address_is_refused(location: str) -> None:
    """The message shows how one looks, and repeats nothing that may be secret."""
    with pytest.raises(BadInput, match="write postgresql://HOST/DATABASE") as caught:
        DatabaseAddress.parse(location)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "location", ["//ada:s3cret@one/forewarn", "//one/forewarn?password=s3cret", "password=s3cret"]
)
def test_a_password_is_refused(location: str) -> None:
    """It belongs into the environment, or into a file that only the service can read."""
    with pytest.raises(BadInput, match="set PGPASSWORD or use") as caught:
        DatabaseAddress.parse(location)
    assert "s3cret" not in str(caught.value)


def test_a_standby_cannot_be_asked_for() -> None:
    """A node writes heartbeats even if it does not lead."""
    with pytest.raises(BadInput, match="leave it out, or write read-write"):
        DatabaseAddress.parse("//one/forewarn?target_session_attrs=standby")
