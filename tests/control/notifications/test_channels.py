"""Posting to a web address."""

import socket
import ssl
import threading
from contextlib import suppress

import pytest

from forewarn.control.notifications.channels import NotDelivered, post
from forewarn.http.web_requests import USER_AGENT
from tests.control.notifications.receivers import Receiver, ReceiverResponse


def test_a_body_arrives_as_it_was_sent(trusting: ssl.SSLContext) -> None:
    """With its headers and the whole path, and the answer is told."""
    with Receiver() as receiver:
        said = post(receiver.url, b"{}", {"Content-Type": "x/y"}, 5.0, trusting)
    (received,) = receiver.taken

    assert said.endswith(" answered 204 No Content")
    assert (received.path, received.body) == ("/hook?key=1", b"{}")
    assert received.headers["content-type"] == "x/y"
    assert received.headers["user-agent"] == USER_AGENT


def test_only_certificates_that_are_trusted_are_accepted(served: ssl.SSLContext, trusting: ssl.SSLContext) -> None:
    """Otherwise anybody between could listen."""
    with Receiver(served) as receiver:
        with pytest.raises(NotDelivered, match="its certificate is not trusted"):
            post(receiver.url, b"{}", {}, 5.0, ssl.create_default_context())
        assert receiver.tried == []

        post(receiver.url, b"{}", {}, 5.0, trusting)
        assert len(receiver.taken) == 1


def test_a_redirect_is_not_followed(trusting: ssl.SSLContext) -> None:
    """An operator chose this address, and no other."""
    with Receiver() as elsewhere, Receiver() as receiver:
        receiver.answer = lambda _: ReceiverResponse(307, {"Location": elsewhere.url})
        with pytest.raises(NotDelivered, match=r"answered 307 .*; redirects are not followed"):
            post(receiver.url, b"{}", {}, 5.0, trusting)

    assert elsewhere.tried == []


@pytest.mark.parametrize(
    ("answer", "flags", "said"),
    [
        (ReceiverResponse(400, body=b"invalid_payload"), (False, 0), "answered 400 Bad Request: invalid_payload"),
        (ReceiverResponse(410), (True, 0), "answered 410 Gone"),
        (ReceiverResponse(429, {"Retry-After": "30"}), (False, 30), "answered 429 Too Many Requests"),
        (ReceiverResponse(503, {"Retry-After": "999999"}), (False, 3600), "answered 503"),
        (ReceiverResponse(503, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}), (False, 0), "answered 503"),
    ],
)
def test_a_refusal_is_told_with_what_it_says(
    answer: ReceiverResponse, flags: tuple[bool, int], said: str, trusting: ssl.SSLContext
) -> None:
    """How long to wait, whether for ever, and the receiver's own words."""
    with Receiver() as receiver:
        receiver.answer = lambda _: answer
        with pytest.raises(NotDelivered, match=said) as refused:
            post(receiver.url, b"{}", {}, 5.0, trusting)

    assert (refused.value.is_gone, refused.value.wait) == flags
    assert "key=1" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:1/secret", "127.0.0.1:1 cannot be reached: connection refused"),
        ("http://user:secret@127.0.0.1:1/", "127.0.0.1:1 cannot be reached"),
        (f"http://{'x' * 64}.invalid/secret", "cannot be reached"),
        ("http://127.0.0.1:99999/secret", "cannot be reached"),
    ],
)
def test_an_address_that_leads_nowhere_is_one_sentence_without_secrets(
    url: str, said: str, trusting: ssl.SSLContext
) -> None:
    """The host is named; the rest of the address may be a secret."""
    with pytest.raises(NotDelivered, match=said) as refused:
        post(url, b"{}", {}, 5.0, trusting)

    assert "secret" not in str(refused.value)


@pytest.mark.end_to_end
def test_an_answer_that_never_ends_is_cut_off(trusting: ssl.SSLContext) -> None:
    """The whole takes no longer than it may, however lively a receiver is."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)

        def drip() -> None:
            with suppress(OSError), server.accept()[0] as connection:
                while True:
                    connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

        dripping = threading.Thread(target=drip)
        dripping.start()
        with pytest.raises(NotDelivered, match=r"cannot be reached: no answer within 0\.5 s"):
            post(f"http://127.0.0.1:{server.getsockname()[1]}/", b"{}", {}, 0.5, trusting)
        dripping.join(30)

    assert not dripping.is_alive()
