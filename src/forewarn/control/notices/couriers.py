"""How each kind of subscriber is reached. A courier works in a thread, and one call of it delivers one message."""

import smtplib
import ssl
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol
from urllib.parse import quote

from forewarn.config.settings import Mail
from forewarn.control.notices.mail import MailServer, mail_of
from forewarn.control.notices.messages import CLOUD_EVENTS, Message, cloud_event
from forewarn.control.notices.posting import NotDelivered, post
from forewarn.control.notices.slack import slack_body
from forewarn.control.notices.teams import teams_body
from forewarn.core.errors import ForewarnError
from forewarn.core.outsiders import Subscription, SubscriptionKind
from forewarn.signature import sign

_JSON = "application/json; charset=utf-8"


class Courier(Protocol):
    """Delivers to one subscriber."""

    def deliver(self, message: Message) -> str:
        """Return what the receiver said once it has taken the message; raise NotDelivered otherwise.

        It takes a bounded time. A message may be delivered again, and is then the same.
        """


class Couriers:
    """Finds the courier of a subscription."""

    def __init__(
        self,
        mail: Mail,
        origin: str,
        now: Callable[[], datetime],
        timeout: float = 10.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._origin = origin
        """The name of this service: what its messages come from."""
        self._now = now
        self._web = _Web(timeout, tls or ssl.create_default_context())
        self._timeout = timeout
        self.set_mail(mail)

    def set_mail(self, mail: Mail) -> None:
        """Send mail by another server; couriers that were handed out keep theirs."""
        self._mail_server = MailServer(mail, self._timeout, self._web.tls)

    @property
    def sends_mail(self) -> bool:
        return bool(self._mail_server.host)

    def courier_for(self, subscription: Subscription) -> Courier:
        target = subscription.target
        match subscription.kind:
            case SubscriptionKind.WEBHOOK:
                return _Webhook(self._web, target, subscription.secret, f"urn:forewarn:{self._name}", self._now)
            case SubscriptionKind.SLACK:
                return _Channel(self._web, target, slack_body)
            case SubscriptionKind.TEAMS:
                return _Channel(self._web, target, teams_body)
            case SubscriptionKind.MAIL:
                return _Mail(self._mail_server, target, self._name)

    @property
    def _name(self) -> str:
        return quote(self._origin, safe="") or "localhost"


class _Web:
    """How the web is reached."""

    def __init__(self, timeout: float, tls: ssl.SSLContext) -> None:
        self.tls = tls
        self._timeout = timeout

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> str:
        return post(url, body, headers, self._timeout, self.tls)


class _Webhook:
    """Posts CloudEvents, signed."""

    def __init__(self, web: _Web, url: str, secret: str, source: str, now: Callable[[], datetime]) -> None:
        self._web = web
        self._url = url
        self._secret = secret
        self._source = source
        self._now = now

    def deliver(self, message: Message) -> str:
        body = cloud_event(message, self._source)
        headers = {"Content-Type": CLOUD_EVENTS}
        if self._secret:
            try:
                headers |= sign(self._secret, message.id, self._now(), body)
            except ForewarnError as error:
                raise NotDelivered(str(error)) from None
        return self._web.post(self._url, body, headers)


class _Channel:
    """Posts to a channel where people read."""

    def __init__(self, web: _Web, url: str, body: Callable[[Message], bytes]) -> None:
        self._web = web
        self._url = url
        self._body = body

    def deliver(self, message: Message) -> str:
        return self._web.post(self._url, self._body(message), {"Content-Type": _JSON})


class _Mail:
    """Sends mail to one person."""

    def __init__(self, server: MailServer, recipient: str, origin: str) -> None:
        self._server = server
        self._recipient = recipient
        self._origin = origin

    def deliver(self, message: Message) -> str:
        try:
            self._server.send(mail_of(message, self._server.sender, self._recipient, self._origin))
        except smtplib.SMTPRecipientsRefused as error:
            code, said = next(iter(error.recipients.values()), (0, b""))
            raise NotDelivered(f"the mail server refused {self._recipient}: {code} {_text(said)}") from None
        except smtplib.SMTPResponseException as error:
            raise NotDelivered(f"the mail server answered {error.smtp_code} {_text(error.smtp_error)}") from None
        except (OSError, smtplib.SMTPException, ValueError) as error:
            raise NotDelivered(f"no mail could be sent: {error}") from None
        except ForewarnError as error:
            raise NotDelivered(str(error)) from None
        return "the mail server took the mail"


def _text(said: bytes | str) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else said
