"""Mail: what it says, and how it gets to the mail server."""

import ssl
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

import pytest

from forewarn.config.settings import MailSettings
from forewarn.control.notifications.channels import Channels, NotDelivered
from forewarn.control.notifications.mail import mail_of
from forewarn.control.notifications.notification import make_test_notification
from forewarn.core.model import Subscription, SubscriptionKind
from tests.control.notifications.receivers import mail_sink
from tests.control.notifications.samples import AT, message

OPS = Subscription("1", "ops", SubscriptionKind.MAIL, "ops@example.org")


def settings(port: int, **given: object) -> MailSettings:
    usual = {"host": "localhost", "port": port, "tls": "none", "sender": "forewarn@example.org"}
    return MailSettings(**{**usual, **given})  # type: ignore[arg-type]


def test_mails_about_one_event_belong_together() -> None:
    """One conversation for each event, one id for each message, and no answer from an absentee."""
    first, second = (mail_of(message(revision), "a@x.org", "b@x.org", "site") for revision in (7, 8))

    assert (first["Message-ID"], second["Message-ID"]) == ("<7-0@site>", "<8-0@site>")
    assert first["References"] == second["References"] == "<f020ba2e-3bc0-4c40-a10b-86575a9eabd5@site>"
    assert first["Auto-Submitted"] == "auto-generated"
    assert mail_of(make_test_notification("x", AT, "ops"), "a@x.org", "b@x.org", "site")["References"] is None


def test_no_text_becomes_a_header() -> None:
    """Whatever a name or a reason holds."""
    mail = mail_of(message(resources=("web\r\nBcc: all@example.org",), reason="a\nb"), "a@x.org", "b@x.org", "site")

    assert mail["Bcc"] is None
    assert "Freeze of web Bcc: all@example.org is scheduled" in mail["Subject"]
    assert "Reason:      a b\n" in mail.get_content()


def test_a_mail_arrives(trusting: ssl.SSLContext) -> None:
    """From the sender of the settings to the subscriber's address."""
    with mail_sink() as sink:
        channel = Channels(settings(sink.port), "site", lambda: AT, 5.0, trusting).channel_for(OPS)
        said = channel.deliver(message(by="root"))
    (content,) = sink.mails
    mail = message_from_bytes(content, policy=SMTP)

    assert said == "the mail server accepted the mail"
    assert isinstance(mail, EmailMessage)
    assert (mail["From"], mail["To"]) == ("forewarn@example.org", "ops@example.org")
    assert mail["Subject"] == "[Forewarn] Freeze of web-0 is scheduled: not before 2026-03-05 07:08:09 UTC"
    assert "Group:       web" in mail.get_content()


@pytest.mark.parametrize("tls", ["tls", "starttls"])
def test_who_logs_in_does_so_encrypted(
    tls: str, served: ssl.SSLContext, trusting: ssl.SSLContext, tmp_path: Path
) -> None:
    """The password is that of the file, and nothing of it is said before the connection is encrypted."""
    password = tmp_path / "password"
    password.write_text("geheim\n", encoding="utf-8")
    with mail_sink(served, tls) as sink:
        given = settings(sink.port, tls=tls, user="me", password_file=password)
        Channels(given, "site", lambda: AT, 5.0, trusting).channel_for(OPS).deliver(message())

    assert len(sink.mails) == 1
    assert sink.logins == ["\0me\0geheim"]


@pytest.mark.parametrize("tls", ["tls", "starttls"])
def test_a_mail_server_that_is_not_trusted_gets_nothing(tls: str, served: ssl.SSLContext) -> None:
    """Neither the mail nor a password."""
    with mail_sink(served, tls) as sink:
        channel = Channels(settings(sink.port, tls=tls), "site", lambda: AT, 5.0).channel_for(OPS)
        with pytest.raises(NotDelivered, match=r"cannot send mail: .*certificate"):
            channel.deliver(message())

    assert sink.mails == []


def test_a_server_without_encryption_is_not_spoken_to_in_the_clear(trusting: ssl.SSLContext) -> None:
    """Where the settings ask for encryption."""
    with mail_sink() as sink:
        given = settings(sink.port, tls="starttls")
        with pytest.raises(NotDelivered, match="STARTTLS"):
            Channels(given, "site", lambda: AT, 5.0, trusting).channel_for(OPS).deliver(message())

    assert sink.mails == []


def test_a_recipient_that_is_refused_is_told_with_the_servers_words(trusting: ssl.SSLContext) -> None:
    """So that a typing error in an address is found."""
    with mail_sink() as sink:
        sink.refuses = "ops@"
        channel = Channels(settings(sink.port), "site", lambda: AT, 5.0, trusting).channel_for(OPS)
        with pytest.raises(NotDelivered, match=r"refused ops@example\.org: 550 no such user here"):
            channel.deliver(message())


def test_a_password_that_cannot_be_read_is_one_sentence(
    served: ssl.SSLContext, trusting: ssl.SSLContext, tmp_path: Path
) -> None:
    """It names the file."""
    with mail_sink(served, "tls") as sink:
        given = settings(sink.port, tls="tls", user="me", password_file=tmp_path / "absent")
        with pytest.raises(NotDelivered, match=r"cannot send mail: .*absent"):
            Channels(given, "site", lambda: AT, 5.0, trusting).channel_for(OPS).deliver(message())
