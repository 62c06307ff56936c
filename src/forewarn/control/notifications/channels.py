"""Channels: deliver notifications by webhook, Slack, Teams or mail. They run in threads."""

import smtplib
import ssl
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol
from urllib.parse import quote

from forewarn.config.settings import MailSettings
from forewarn.control.notifications.formats import slack_body, teams_body
from forewarn.control.notifications.mail import MailServer, mail_of
from forewarn.control.notifications.notification import CLOUD_EVENTS, Notification, cloud_event
from forewarn.core.errors import ForewarnError
from forewarn.core.model import Subscription, SubscriptionKind
from forewarn.http.tls import make_client_context
from forewarn.http.web_requests import NoWebResponse, WebRequest, send
from forewarn.signature import sign

_JSON = "application/json; charset=utf-8"


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


class Channel(Protocol):
    """Delivers notifications to one subscription."""

    def deliver(self, message: Notification) -> str:
        """Deliver one notification and return the receiver's reply; raise NotDelivered if it was not accepted.

        It takes a bounded time. A notification may be delivered again, and is then identical.
        """


class ChannelFactory(Protocol):
    """Creates the channel of a subscription."""

    @property
    def sends_mail(self) -> bool:
        """Whether mail can be sent."""

    def set_mail(self, mail: MailSettings) -> None:
        """Use another mail server; existing channels keep theirs."""

    def channel_for(self, subscription: Subscription) -> Channel:
        """Return what delivers to a subscription."""


class Channels:
    """Creates channels over the web and mail."""

    def __init__(
        self,
        mail: MailSettings,
        origin: str,
        now: Callable[[], datetime],
        timeout: float = 10.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._origin = origin
        """The name of this service, as the source of notifications."""
        self._now = now
        self._web = _HttpSender(timeout, tls or make_client_context())
        self._timeout = timeout
        self.set_mail(mail)

    def set_mail(self, mail: MailSettings) -> None:
        """Use another mail server; existing channels keep theirs."""
        self._mail_server = MailServer(mail, self._timeout, self._web.tls)

    @property
    def sends_mail(self) -> bool:
        return bool(self._mail_server.host)

    def channel_for(self, subscription: Subscription) -> Channel:
        target = subscription.target
        match subscription.kind:
            case SubscriptionKind.WEBHOOK:
                return _WebhookChannel(
                    self._web, target, subscription.secret, f"urn:forewarn:{self._name}", self._now
                )
            case SubscriptionKind.SLACK:
                return _ChatChannel(self._web, target, slack_body)
            case SubscriptionKind.TEAMS:
                return _ChatChannel(self._web, target, teams_body)
            case SubscriptionKind.MAIL:
                return _MailChannel(self._mail_server, target, self._name)

    @property
    def _name(self) -> str:
        return quote(self._origin, safe="") or "localhost"


class _HttpSender:
    """HTTP POST with a timeout and a TLS context."""

    def __init__(self, timeout: float, tls: ssl.SSLContext) -> None:
        self.tls = tls
        self._timeout = timeout

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> str:
        return post(url, body, headers, self._timeout, self.tls)


class _WebhookChannel:
    """Posts signed CloudEvents."""

    def __init__(self, web: _HttpSender, url: str, secret: str, source: str, now: Callable[[], datetime]) -> None:
        self._web = web
        self._url = url
        self._secret = secret
        self._source = source
        self._now = now

    def deliver(self, message: Notification) -> str:
        body = cloud_event(message, self._source)
        headers = {"Content-Type": CLOUD_EVENTS}
        if self._secret:
            try:
                headers |= sign(self._secret, message.id, self._now(), body)
            except ForewarnError as error:
                raise NotDelivered(str(error)) from None
        return self._web.post(self._url, body, headers)


class _ChatChannel:
    """Posts chat messages."""

    def __init__(self, web: _HttpSender, url: str, body: Callable[[Notification], bytes]) -> None:
        self._web = web
        self._url = url
        self._body = body

    def deliver(self, message: Notification) -> str:
        return self._web.post(self._url, self._body(message), {"Content-Type": _JSON})


class _MailChannel:
    """Sends mail to one recipient."""

    def __init__(self, server: MailServer, recipient: str, origin: str) -> None:
        self._server = server
        self._recipient = recipient
        self._origin = origin

    def deliver(self, message: Notification) -> str:
        try:
            self._server.send(mail_of(message, self._server.sender, self._recipient, self._origin))
        except smtplib.SMTPRecipientsRefused as error:
            code, said = next(iter(error.recipients.values()), (0, b""))
            raise NotDelivered(f"the mail server refused {self._recipient}: {code} {_text(said)}") from None
        except smtplib.SMTPResponseException as error:
            raise NotDelivered(f"the mail server answered {error.smtp_code} {_text(error.smtp_error)}") from None
        except (OSError, smtplib.SMTPException, ValueError) as error:
            raise NotDelivered(f"cannot send mail: {error}") from None
        except ForewarnError as error:
            raise NotDelivered(str(error)) from None
        return "the mail server accepted the mail"


def _text(said: bytes | str) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else said
