"""Posts a message to a subscriber, and says what it means for the message if it is not taken."""

import ssl
from collections.abc import Mapping

from forewarn.core.errors import ForewarnError
from forewarn.http.web_requests import NoWebResponse, WebRequest, send


class NotDelivered(ForewarnError):
    """A message was not delivered."""

    def __init__(self, why: str, *, is_gone: bool = False, wait: int = 0) -> None:
        super().__init__(why)
        self.is_gone = is_gone
        """The receiver wants nothing more, ever."""
        self.wait = wait
        """For how many seconds the receiver wants to be left alone."""


def post(url: str, body: bytes, headers: Mapping[str, str], timeout: float, tls: ssl.SSLContext) -> str:
    """Return what the receiver answered, once it has taken the body; raise NotDelivered otherwise.

    Errors name the receiver's host only: the rest of an address may be a secret.
    """
    message = WebRequest(url, body, headers)
    try:
        reply = send(message, timeout, tls)
    except NoWebResponse as error:
        raise NotDelivered(f"{message.place} cannot be reached: {error}") from None
    answered = f"{message.place} answered {reply.status} {reply.reason}".rstrip()
    if reply.is_success:
        return answered
    if reply.is_redirect:
        raise NotDelivered(f"{answered}; redirects are not followed: set the address that it leads to")
    detail = f": {reply.said}" if reply.said else ""
    raise NotDelivered(answered + detail, is_gone=reply.status == 410, wait=reply.wait)
