"""Follows the document: returns each changed one, by long poll if the service supports it."""

from forewarn.client.backoff import add_jitter, backoff_seconds
from forewarn.client.endpoint_problem import EndpointProblem
from forewarn.client.errors import NotThere
from forewarn.client.session import ClientSession, FetchedDocument
from forewarn.client.steps import Pause, Steps
from forewarn.core.errors import ForewarnError
from forewarn.wire.document import Document, keep_unreadable

_WAIT = 55
"""Seconds of a long poll: less than the idle timeout of usual routers and proxies."""
_POLL = 1.0
"""Azure: one request per second is recommended."""
_LEAST = 0.2
"""Minimum seconds between two requests: Azure allows five a second."""
_OFTEN = 5
_SELDOM = 60.0
"""Consecutive failures, and then the seconds until discovery is repeated."""
_TRUST = 3_600.0
"""Seconds after which long polling is tried again with a service that did not support it."""


class DocumentFollower:
    """Follows one service; several followers may share it."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._last: Document | None = None
        self._tag = ""
        self._tag_version = ""
        self._due = 0.0
        self._does_wait: bool | None = None
        self._tried_at = 0.0

    @property
    def is_held(self) -> bool:
        """Return whether the service supports long polling."""
        return bool(self._does_wait)

    def next(self) -> Steps[Document]:
        """Return the next changed document; problems are retried."""
        talk = self._session
        failures = 0
        while True:
            left = self._due - talk.seconds()
            if left > 0:
                yield Pause(left, talk.log.recovery() if failures else None)
            asked_at = talk.seconds()
            tag = self._tag if self._tag_version == talk.versions.version else ""
            wait = _WAIT if tag and self._may_wait(asked_at) else 0
            try:
                fetched = yield from talk.fetch(tag, wait)
            except EndpointProblem as trouble:
                talk.log.begin(trouble.kind, str(trouble))
                if isinstance(trouble.error, NotThere) and failures >= _OFTEN:
                    talk.forget()
                self._wait_out(failures, trouble.retry_after)
                failures += 1
                continue
            except ForewarnError as error:
                # Discovery may send broadcasts, so it is repeated rarely.
                talk.log.begin(f"{type(error).__name__} {error}", str(error))
                self._wait_out(failures, _SELDOM if failures >= _OFTEN else 0.0)
                failures += 1
                continue
            talk.log.over()
            failures = 0
            document = fetched.document and keep_unreadable(self._last, fetched.document)
            is_news = document is not None and document != self._last
            self._learn(fetched, asked_at, asked=wait > 0, is_news=is_news)
            if is_news and document is not None:
                self._last = document
                talk.log.ignored(document.unreadable)
                return document

    def _wait_out(self, failures: int, least: float) -> None:
        talk = self._session
        # The next response may come from another service.
        self._does_wait = None
        self._due = talk.seconds() + backoff_seconds(failures, least, talk.chance())

    def _may_wait(self, now: float) -> bool:
        return self._does_wait is not False or now - self._tried_at > _TRUST

    def _learn(self, fetched: FetchedDocument, asked_at: float, *, asked: bool, is_news: bool) -> None:
        """Decide when to send the next request."""
        talk = self._session
        self._tag, self._tag_version = fetched.tag, fetched.version
        if asked and (fetched.was_held or not is_news):
            # A change is returned at once also by a service that supports long polling, so it proves nothing.
            self._does_wait, self._tried_at = fetched.was_held, asked_at
        if self._tag and self._may_wait(asked_at):
            # A service that claims to have waited, and returns the same document at once, must not cause a busy loop.
            self._due = asked_at + (_LEAST if is_news else add_jitter(_POLL, talk.chance()))
        else:
            self._due = talk.seconds() + add_jitter(_POLL, talk.chance())
