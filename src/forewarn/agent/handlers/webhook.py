"""A handler that tells a web service of the event, and again when it is over; signed after Standard Webhooks.

Every attempt of one call bears the same ``webhook-id``, so that a receiver can drop what it has had already.
"""

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self
from urllib.parse import urlsplit
from uuid import UUID, uuid5

import msgspec

from forewarn import __version__
from forewarn.agent.handler import (
    Direction,
    HandlerDone,
    HandlerFailed,
    HandlerOutcome,
    HandlerResult,
    HandlerUnknown,
    Task,
)
from forewarn.agent.handlers import template
from forewarn.config.tables import read_table
from forewarn.core.errors import BadInput
from forewarn.core.web_addresses import split_web_address
from forewarn.http.web_requests import NoWebResponse, WebRequest, WebResponse, send
from forewarn.signature import FORMAT, sign
from forewarn.wire.event_json import make_event_json

if TYPE_CHECKING:
    import ssl

_OWNER = "handler 'webhook'"
_IDS = UUID("0b0a9c5c-5d5f-4b07-9a0e-3f3f6a0f6c1d")
"""The name space of our message ids."""
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = frozenset({"connection", "content-length", "host", "transfer-encoding"})
_MARGIN = 0.2
"""Seconds before the deadline at which the wait for an answer ends, so that the result is reported in time."""
_WORTH_ANOTHER_TRY = frozenset({408, 425, 429})


class WebhookHandlerSettings(msgspec.Struct, frozen=True):
    """The receiver, and what is sent to it."""

    url: str
    undo_url: str = ""
    """Where the end is reported; ``url`` when empty."""
    undo: bool = True
    """Whether the end is reported."""
    method: Annotated[str, msgspec.Meta(pattern="^[A-Z]{3,10}$")] = "POST"
    headers: dict[str, str] = {}
    body: str = ""
    """A template; our own JSON when empty."""
    undo_body: str = ""
    """A template for the end; ``body`` when empty."""
    secret_file: str = ""
    """The file that holds the secret to sign with, ``whsec_…``, and nothing else."""
    secret_variable: str = ""
    """The environment variable that holds it instead."""
    ca_file: str = ""
    shared: bool = False


class WebhookHandler:
    """Tells a web service."""

    prepares = False
    repeats = True

    def __init__(self, settings: WebhookHandlerSettings, name: str) -> None:
        self.shared = settings.shared
        self._settings = settings
        self._name = name
        self._headers = {"User-Agent": f"Forewarn/{__version__}", "Content-Type": template.JSON}
        for key, value in settings.headers.items():
            self._headers = {old: kept for old, kept in self._headers.items() if old.lower() != key.lower()}
            self._headers[key] = value

    @classmethod
    def from_settings(cls, settings: dict[str, object], directory: Path) -> Self:
        read = read_table(_OWNER, settings, WebhookHandlerSettings)
        _check(read)
        # The directory is the handler's own, and bears its name: two that tell the same receiver differ in it.
        made = cls(read, directory.name)
        for name in ("body", "undo_body"):
            try:
                if text := getattr(read, name):
                    template.fill(text, {}, made.content_type)
            except ValueError as error:
                raise BadInput(f"setting {name!r} of {_OWNER}: {error}") from None
        return made

    @property
    def content_type(self) -> str:
        return next(value for key, value in self._headers.items() if key.lower() == "content-type")

    def do(self, task: Task) -> HandlerResult:
        return self._tell(task, self._settings.url, self._settings.body)

    def undo(self, task: Task) -> HandlerResult:
        if not self._settings.undo:
            return HandlerDone()
        settings = self._settings
        return self._tell(task, settings.undo_url or settings.url, settings.undo_body or settings.body)

    def outcome_of(self, task: Task) -> HandlerOutcome:
        return HandlerUnknown("a message is simply sent again")

    def close(self) -> None:
        pass

    def _tell(self, task: Task, url: str, text: str) -> HandlerResult:
        place = urlsplit(url).netloc
        try:
            body = self._body(task, text)
            headers = self._headers | self._signature(task, body)
            left = (task.deadline - datetime.now(UTC)).total_seconds() - _MARGIN
            message = WebRequest(url, body, headers, self._settings.method)
            reply = send(message, left, self._trust(url), task.stopping.is_set)
        except NoWebResponse as error:
            return HandlerFailed(f"{place} gave no answer: {error}")
        except (BadInput, ValueError) as error:
            return HandlerFailed(str(error), final=True)
        return _judge(place, reply)

    def _trust(self, url: str) -> "ssl.SSLContext | None":
        """Return the trusted certificates; None for the system's."""
        if not self._settings.ca_file or not url.startswith("https:"):
            return None
        from forewarn.http.tls import make_client_context  # noqa: PLC0415 - it is heavy, and most need it never

        try:
            return make_client_context(self._settings.ca_file)
        except OSError as error:
            unread = f"the certificates in {self._settings.ca_file} cannot be read ({error.strerror})"
            raise NoWebResponse(unread, may_have_arrived=False) from None

    def _body(self, task: Task, text: str) -> bytes:
        if text:
            return template.fill(text, template.words_of(task), self.content_type).encode()
        return msgspec.json.encode({"direction": task.direction, "vm": task.vm, "event": make_event_json(task.event)})

    def _signature(self, task: Task, body: bytes) -> dict[str, str]:
        id_ = message_id(self._name, task.vm, task.event.id, task.direction)
        place = self._settings.secret_file or self._settings.secret_variable
        if not place:
            return {"webhook-id": id_}
        try:
            return sign(self._secret(), id_, datetime.now(UTC), body)
        except BadInput:
            raise BadInput(f"{place} holds no secret; write {FORMAT} random bytes") from None
        except OSError as error:
            raise BadInput(f"the secret {place} cannot be read: {error.strerror}") from None

    def _secret(self) -> str:
        """Return the secret as it is now: it may be replaced while the agent runs."""
        if variable := self._settings.secret_variable:
            return os.environ.get(variable, "")
        return Path(self._settings.secret_file).read_text(encoding="ascii", errors="replace").strip()


def message_id(handler: str, vm: str, event_id: str, direction: Direction) -> str:
    """Return the id of a message: the same on each retry."""
    return f"msg_{uuid5(_IDS, f'{handler}/{vm}/{event_id}/{direction}').hex}"


def _judge(place: str, reply: WebResponse) -> HandlerResult:
    answered = f"{place} answered {reply.status} {reply.reason}".rstrip()
    if reply.is_success:
        return HandlerDone(detail=answered)
    if reply.is_redirect:
        return HandlerFailed(f"{answered}; redirects are not followed: set the address that it leads to", final=True)
    is_final = 400 <= reply.status < 500 and reply.status not in _WORTH_ANOTHER_TRY
    return HandlerFailed(f"{answered}: {reply.said}" if reply.said else answered, final=is_final)


def _check(settings: WebhookHandlerSettings) -> None:
    for name in ("url", "undo_url"):
        url: str = getattr(settings, name)
        if url or name == "url":
            _check_url(name, url)
    for name, value in settings.headers.items():
        if not _TOKEN.fullmatch(name) or name.lower() in _OURS or name.lower().startswith("webhook-"):
            raise BadInput(f"setting 'headers' of {_OWNER}: {name!r} is not a header that can be set; take it out")
        if not value.isascii() or not value.isprintable():
            raise BadInput(f"setting 'headers' of {_OWNER}: the value of {name} must be one line of ASCII")
    if settings.secret_file and settings.secret_variable:
        raise BadInput(f"setting 'secret_variable' of {_OWNER}: 'secret_file' is given too; drop one")


def _check_url(name: str, url: str) -> None:
    parts = split_web_address(url)
    if parts is None or not url.isascii() or not url.isprintable() or " " in url:
        raise BadInput(f"setting {name!r} of {_OWNER}: this is not a valid address; write https://host/path")
    if "@" in parts.netloc:
        raise BadInput(f"setting {name!r} of {_OWNER}: a password does not belong there; give it in 'headers'")
