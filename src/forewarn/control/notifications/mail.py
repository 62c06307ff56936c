"""Formats notifications as mail, and sends them to the mail server."""

import smtplib
import ssl
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import format_datetime

from forewarn.config.settings import MailSettings
from forewarn.control.notifications.formats import headline, particulars
from forewarn.control.notifications.notification import Notification
from forewarn.core.errors import BadInput

_POLICY = EmailPolicy(max_line_length=200)
"""Longer lines than usual, within the limit of RFC 5322: a subject stays on one line."""


def mail_of(message: Notification, sender: str, recipient: str, origin: str) -> EmailMessage:
    """Format the mail; mails about one event form a thread, and a repeated mail has the same id."""
    mail = EmailMessage(_POLICY)
    mail["From"] = sender
    mail["To"] = recipient
    mail["Subject"] = f"[Forewarn] {_line(headline(message))}"
    mail["Date"] = format_datetime(message.at)
    mail["Message-ID"] = f"<{message.id}@{origin}>"
    if message.event:
        mail["References"] = f"<{message.event.id}@{origin}>"
    mail["Auto-Submitted"] = "auto-generated"  # suppresses automatic replies
    lines = (f"{name + ':':<13}{_line(said)}" for name, said in particulars(message))
    mail.set_content(f"{headline(message)}.\n\n" + "\n".join(lines) + "\n")
    return mail


class MailServer:
    """The configured SMTP server."""

    def __init__(self, settings: MailSettings, timeout: float, tls: ssl.SSLContext) -> None:
        self._settings = settings
        self._timeout = timeout
        self._tls = tls

    @property
    def host(self) -> str:
        return self._settings.host

    @property
    def sender(self) -> str:
        return self._settings.sender

    def send(self, mail: EmailMessage) -> None:
        """Send one mail; raise errors of smtplib or the network."""
        settings = self._settings
        if not settings.host:
            raise BadInput("no mail server is configured; set host and sender in [mail] of forewarn.toml")
        with self._connect() as server:
            if settings.tls == "starttls":
                server.starttls(context=self._tls)
            if settings.user and settings.password_file:
                server.login(settings.user, settings.password_file.read_text(encoding="utf-8").strip())
            server.send_message(mail)

    def _connect(self) -> smtplib.SMTP:
        host, port = self._settings.host, self._settings.port
        if self._settings.tls == "tls":
            return smtplib.SMTP_SSL(host, port, timeout=self._timeout, context=self._tls)
        return smtplib.SMTP(host, port, timeout=self._timeout)


def _line(text: str) -> str:
    """Join a text into one line, so that it cannot add headers."""
    return " ".join(text.split())
