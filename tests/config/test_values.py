"""What a setting may be: each kind, as a file or a flag gives it."""

from datetime import timedelta
from pathlib import Path

import pytest

from forewarn.config.values import (
    BOOLEAN,
    DURATION,
    ENDPOINT,
    ENDPOINT_OR_OFF,
    FILE,
    INTEGER,
    JOURNAL,
    NUMBER,
    RATE,
    TEXT,
    ListenAddress,
    ValueType,
    choice,
)

COLOUR = choice("red", "green")


@pytest.mark.parametrize(
    ("kind", "given", "read"),
    [
        (TEXT, "", ""),
        (FILE, "/etc/x", Path("/etc/x")),
        (JOURNAL, "memory:", "memory:"),
        (JOURNAL, "postgresql://h1,h2/forewarn", "postgresql://h1,h2/forewarn"),
        (NUMBER, 0, 0.0),
        (NUMBER, "2.5", 2.5),
        (RATE, "0.001", 0.001),
        (INTEGER, 0, 0),
        (INTEGER, str(2**31 - 1), 2**31 - 1),
        (DURATION, "1m30s", timedelta(seconds=90)),
        (DURATION, 90, timedelta(seconds=90)),
        (DURATION, "36500d", timedelta(days=36_500)),
        (ENDPOINT, "127.0.0.1:0", ListenAddress("127.0.0.1", 0)),
        (ENDPOINT, "web.example.org:65535", ListenAddress("web.example.org", 65_535)),
        (ENDPOINT, "[::1]:8254", ListenAddress("::1", 8254)),
        (ENDPOINT_OR_OFF, "127.0.0.1:80", ListenAddress("127.0.0.1", 80)),
        (ENDPOINT_OR_OFF, "off", None),
        (ENDPOINT_OR_OFF, "", None),
        (BOOLEAN, True, True),
        (BOOLEAN, False, False),
        (COLOUR, "green", "green"),
    ],
)
def test_what_fits_is_read(kind: ValueType, given: object, read: object) -> None:
    """From a file as it is, from a flag or the environment as a text."""
    assert kind.read(given) == read


@pytest.mark.parametrize("word", ["true", "Yes", "1"])
def test_a_yes_has_three_spellings(word: str) -> None:
    """In any case; a variable has no other way to say it."""
    assert BOOLEAN.read(word) is True


@pytest.mark.parametrize("word", ["false", "NO", "0"])
def test_a_no_has_three_spellings(word: str) -> None:
    """In any case."""
    assert BOOLEAN.read(word) is False


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (TEXT, 7),
        (TEXT, "a\0b"),
        (FILE, ""),
        (JOURNAL, "sqlite"),
        (JOURNAL, "/srv/data:"),
        (JOURNAL, 7),
        (NUMBER, -0.1),
        (NUMBER, "inf"),
        (NUMBER, "nan"),
        (NUMBER, True),
        (RATE, 0),
        (INTEGER, -1),
        (INTEGER, 2**31),
        (INTEGER, 1.5),
        (INTEGER, True),
        (DURATION, "soon"),
        (DURATION, True),
        (DURATION, "36501d"),
        (ENDPOINT, "127.0.0.1"),
        (ENDPOINT, ":80"),
        (ENDPOINT, "127.0.0.1:65536"),
        (ENDPOINT, "127.0.0.1:-1"),
        (ENDPOINT, "::1:80"),
        (ENDPOINT, "[::1:80"),
        (ENDPOINT, "::1]:80"),
        (ENDPOINT, "[web]:80"),
        (ENDPOINT, "off"),
        (BOOLEAN, "maybe"),
        (BOOLEAN, 1),
        (COLOUR, "blue"),
    ],
)
def test_what_does_not_fit_is_one_error(kind: ValueType, given: object) -> None:
    """Whoever reads it says where it stands, and what was expected."""
    with pytest.raises(ValueError):  # noqa: PT011 - it says nothing
        kind.read(given)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("169.254.169.254", False),
        ("localhost.example.org", False),
    ],
)
def test_loopback_is_what_only_this_machine_can_reach(host: str, *, is_loopback: bool) -> None:
    """What is allowed there without a certificate, or in a VM's name, is allowed nowhere else."""
    assert ListenAddress(host, 80).is_loopback is is_loopback


@pytest.mark.parametrize("written", ["127.0.0.1:80", "[::1]:80"])
def test_an_endpoint_is_shown_as_it_is_written(written: str) -> None:
    """So that it can be copied."""
    assert str(ENDPOINT.read(written)) == written
