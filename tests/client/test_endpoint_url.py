"""Addresses of a service as people write them."""

import pytest

from forewarn.client.endpoint_url import EndpointUrl, read_endpoint_url, read_version
from forewarn.core.errors import BadInput


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("169.254.169.254", EndpointUrl("169.254.169.254")),
        ("127.0.0.1:8254", EndpointUrl("127.0.0.1", 8254)),
        ("http://localhost:8254/", EndpointUrl("localhost", 8254)),
        ("HTTP://[::1]:8254", EndpointUrl("::1", 8254)),
        ("http://127.0.0.1:1/metadata/scheduledEvents", EndpointUrl("127.0.0.1", 1, "/metadata/scheduledEvents")),
        (
            "http://a/b/metadata/scheduledevents?api-version=2017-08-01",
            EndpointUrl("a", 80, "/b/metadata/scheduledevents"),
        ),
    ],
)
def test_an_address_is_read(text: str, endpoint: EndpointUrl) -> None:
    """A host will do; so will the whole address of the document."""
    assert read_endpoint_url(text) == endpoint
    assert read_endpoint_url(endpoint.url) == endpoint


@pytest.mark.parametrize(
    "text", ["", "https://a", "ftp://a", "a:0", "a:70000", "http://", "a b", "a/?x=1", "http://user@a", "::1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    """With an example of one."""
    with pytest.raises(BadInput, match=r"is not a valid service address; write it like http://169\.254\.169\.254"):
        read_endpoint_url(text)


def test_a_name_is_asked_beside_the_document() -> None:
    """Below the same path, if the document stands below one."""
    assert read_endpoint_url("a").name_path == "/metadata/instance/compute/name"
    assert read_endpoint_url("a/vm-0/metadata/scheduledEvents").name_path == "/vm-0/metadata/instance/compute/name"
    assert read_endpoint_url("a/events").name_path == "/metadata/instance/compute/name"


def test_a_version_in_the_address_counts() -> None:
    """As who copies an address from a document's page expects."""
    assert read_version("http://a/metadata/scheduledevents?api-version=2017-08-01") == "2017-08-01"
    assert read_version("http://a") == ""
