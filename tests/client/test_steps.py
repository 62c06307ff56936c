"""What a client's request looks like."""

from forewarn.client.endpoint_url import EndpointUrl
from forewarn.client.steps import SendRequest
from forewarn.http.codec import HttpCodec


def test_a_question_is_spelled_out() -> None:
    """With the header that every service wants, and no more than it needs."""
    get = SendRequest(endpoint=EndpointUrl("::1", 8254), target="/x?api-version=2020-07-01", seconds=1)

    assert HttpCodec().encode(get.http_request) == (
        b"GET /x?api-version=2020-07-01 HTTP/1.1\r\n"
        b"Host: [::1]:8254\r\nMetadata: true\r\nUser-Agent: forewarn\r\n\r\n"
    )


def test_an_approval_has_its_length() -> None:
    """And says that it is JSON, which every service ignores."""
    post = SendRequest(endpoint=EndpointUrl("a"), method="POST", target="/x", body=b"{}", seconds=1)

    assert (
        HttpCodec()
        .encode(post.http_request)
        .endswith(b"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
    )
