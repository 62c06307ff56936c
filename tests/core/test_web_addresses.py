"""Web addresses: http or https, with a host, and with a port that can be connected to."""

import pytest

from forewarn.core.web_addresses import split_web_address


@pytest.mark.parametrize("url", ["http://a", "https://a.example:8443/hook?key=1", "https://ada:secret@[::1]:1/"])
def test_a_web_address_is_taken_apart(url: str) -> None:
    """Its parts make the same address again."""
    parts = split_web_address(url)

    assert parts is not None
    assert parts.geturl() == url


@pytest.mark.parametrize(
    "url",
    ["", "a.example", "ftp://a", "http://", "http:///hook", "http://:80", "http://a:0", "http://a:x", "http://[a"],
)
def test_anything_else_is_none(url: str) -> None:
    """Another scheme, no host, or a port that is no port."""
    assert split_web_address(url) is None
