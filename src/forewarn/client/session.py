"""The session of a client with a service: all rules, without I/O.

Every method is a generator of steps (``steps.py``), so that ``Client`` and ``AsyncClient`` share each rule:

    discover ─▶ negotiate the version ─▶ request ─▶ response
                                            ▲          │ problem
                                            └── pause ─┘    until patience is over
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from socket import gethostname
from time import monotonic
from typing import TypeVar

import msgspec

from forewarn.client.backoff import backoff_seconds
from forewarn.client.discovery import GIVEN, FoundEndpoint, find_endpoint
from forewarn.client.endpoint_problem import (
    EndpointProblem,
    newest_versions,
    problem_of_body,
    problem_of_no_response,
    problem_of_response,
)
from forewarn.client.endpoint_url import EndpointUrl, read_endpoint_url, read_version
from forewarn.client.errors import (
    NoAnswer,
    NotAService,
    NotKnown,
    NotPostponed,
    NotThere,
    UnknownEvent,
    VersionRefused,
)
from forewarn.client.problem_log import ProblemLog
from forewarn.client.steps import CallBlocking, NoResponse, Pause, SendRequest, Steps
from forewarn.client.versions import VersionNegotiation
from forewarn.core.errors import BadInput, Refused
from forewarn.http.codec import HttpResponse
from forewarn.randomness import random_fraction
from forewarn.wire.azure_names import read_id
from forewarn.wire.bodies import BadBody
from forewarn.wire.document import Document, ScheduledEvent, parse
from forewarn.wire.versions import SCHEDULED_EVENTS

_Result = TypeVar("_Result")
_FIRST, _SLACK = 120.0, 5.0
"""Azure: the first response may take two minutes; the time limit is a little longer."""
_HOLDING = 3.0
"""Seconds after which a long poll of one second is known to be supported."""
_NAME_VERSION = "2017-08-01"
_LONGEST_NAME = 256
_NO_EVENT = "00000000-0000-0000-0000-000000000000"
"""An id that no event has: used to find out whether unknown ids are refused."""


class FetchedDocument(msgspec.Struct, frozen=True):
    """The result of one request for the document."""

    document: Document | None
    """None if it is unchanged."""
    body: bytes
    tag: str
    version: str
    was_held: bool
    """The service supports long polling."""


class ClientSession:
    """The state of a session: address, api-version, problems."""

    def __init__(
        self,
        url: str | None,
        api_version: str | None,
        patience: timedelta,
        unreachable_patience: timedelta | None,
        environment: Mapping[str, str],
        *,
        seconds: Callable[[], float] = monotonic,
        chance: Callable[[], float] = random_fraction,
        host_name: Callable[[], str] | None = None,
    ) -> None:
        self.seconds = seconds
        self.chance = chance
        self.found = FoundEndpoint(read_endpoint_url(url), GIVEN, is_discovered=False) if url else None
        self.versions = VersionNegotiation(api_version or (url and read_version(url)) or None, seconds)
        self.log = ProblemLog(seconds)
        self.heard_date: Callable[[str], None] = lambda _: None
        """Called with the Date header of every response; empty if there is none."""
        self._environment = environment
        self._host_name = host_name or gethostname
        self._patience = seconds_of(patience, "patience")
        self._unreachable = self._patience
        if unreachable_patience is not None:
            self._unreachable = seconds_of(unreachable_patience, "unreachable_patience")
        self.later_limit = 10.0
        """Time limit in seconds of a response, after the first one."""
        self._has_answered = False
        self._shown: dict[str, str] = {}
        """The ids of the latest document: lower case to original case."""
        self._name = ""
        self.is_name_guessed = False
        """The service does not provide this VM's name; the host name is used."""

    def find(self) -> Steps[FoundEndpoint]:
        """Discover the service, unless it is known."""
        if self.found is None:
            self.found = yield from find_endpoint(self._environment, self._first_answer)
        return self.found

    def forget(self) -> None:
        """Repeat discovery before the next request, unless an address is configured."""
        if self.found and self.found.is_discovered:
            self.found = None

    def document(self) -> Steps[Document]:
        """Return the current document; raise the problem when patience is over."""
        fetched = yield from self._patiently(self.fetch)
        assert fetched.document is not None  # noqa: S101 - without a tag there is no 304
        return fetched.document

    def ask(self) -> Steps[FetchedDocument]:
        """Request the document once; raise any problem immediately."""
        try:
            return (yield from self.fetch())
        except EndpointProblem as trouble:
            raise trouble.error from None

    def fetch(self, tag: str = "", wait: int = 0, limit: float = 0.0) -> Steps[FetchedDocument]:
        """Send one request; with a tag for a changed document only, by long poll if supported."""
        limit = limit or self._limit + wait
        found = yield from self.find()
        headers = tuple(
            each for each in (("If-None-Match", tag), ("Prefer", f"wait={wait}" if wait else "")) if each[1]
        )
        while True:
            version = self.versions.version
            target = f"{found.endpoint.path}?api-version={version}"
            reply = yield SendRequest(endpoint=found.endpoint, target=target, headers=headers, seconds=limit)
            answer = _response_of(found.endpoint, reply)
            if not self.versions.refused(answer):
                break
        if answer.status == 400:
            raise self._refusal(found.endpoint, answer)
        if answer.status != 200 and not (answer.status == 304 and tag):
            raise problem_of_response(found.endpoint.url, answer)
        document = self._read(found.endpoint, answer) if answer.status == 200 else None
        self.heard_date(answer.headers.get("date", ""))
        self._has_answered = True
        self.versions.accepted()
        held = answer.headers.get("preference-applied", "").lower().startswith("wait")
        return FetchedDocument(document, answer.body, answer.headers.get("etag", tag), version, held)

    def approve(self, events: tuple[ScheduledEvent | str, ...]) -> Steps[None]:
        """Approve events; raise UnknownEvent if one no longer exists, and then none was approved."""
        from forewarn.wire.approval import encode  # noqa: PLC0415 - not needed by clients that only read

        shown = yield from self._as_shown(events)
        if shown:
            yield from self._patiently(lambda: self._post(encode(shown.values()), shown))

    def refuses_unknown(self) -> Steps[bool]:
        """Return whether the service refuses unknown event ids; the request changes nothing."""
        from forewarn.wire.approval import encode  # noqa: PLC0415 - as in approve

        try:
            yield from self._patiently(lambda: self._post(encode((_NO_EVENT,)), {_NO_EVENT: _NO_EVENT}))
        except Refused:
            return True
        return False

    def postpone(self, event: ScheduledEvent | str, by: timedelta, reason: str) -> Steps[None]:
        """Postpone an event, then check NotBefore: a service without this feature may return 200 too."""
        from forewarn.core.commands import Postponement  # noqa: PLC0415 - as in approve
        from forewarn.wire.approval import encode  # noqa: PLC0415

        before = _event(event, (yield from self.document()))
        shown = before.shown_id
        body = encode((), (Postponement(shown, round(seconds_of(by, "by")), reason),))
        try:
            yield from self._patiently(lambda: self._post(body, {before.id: shown}))
        except (UnknownEvent, NotKnown):
            raise
        except Refused as error:
            raise NotPostponed(f"event {shown} is not postponed: {error}") from None
        after = _event(before, (yield from self.document()))
        if before.not_before is None or after.not_before is None or after.not_before <= before.not_before:
            raise NotPostponed(
                f"event {shown} is not postponed: the service accepted the request, but NotBefore is unchanged"
            )

    def own_name(self) -> Steps[str]:
        """Return this VM's name: from the service, else from events, else its host name."""
        if not self._name:
            known = yield from self._patiently(self._reported_name)
            self._name = known or (yield from self._guessed_name())
            self.is_name_guessed = not known
        return self._name

    def does_hold(self) -> Steps[bool]:
        """Return whether the service supports long polling, with a long poll of one second."""
        known = yield from self._patiently(self.fetch)
        if not known.tag:
            return False
        try:
            return (yield from self.fetch(known.tag, 1, _HOLDING)).was_held
        except EndpointProblem as trouble:
            # A service with a stopped clock (in tests) never ends a long poll.
            return isinstance(trouble.error, NoAnswer)

    def _reported_name(self) -> Steps[str]:
        found = yield from self.find()
        target = f"{found.endpoint.name_path}?api-version={_NAME_VERSION}&format=text"
        answer = _response_of(
            found.endpoint, (yield SendRequest(endpoint=found.endpoint, target=target, seconds=self._limit))
        )
        if answer.status in (403, 410, 429) or answer.status >= 500:
            raise problem_of_response(found.endpoint.url, answer)
        name = answer.body.decode(errors="replace").strip() if answer.status == 200 else ""
        return name if name.isprintable() and len(name) <= _LONGEST_NAME and name[:1] not in "<{[" else ""

    def _guessed_name(self) -> Steps[str]:
        from forewarn.client.names import find_name  # noqa: PLC0415 - most services provide the name

        host_name = str((yield CallBlocking(self._host_name)))
        document = yield from self.document()
        resources = [name for event in document.events for name in event.resources]
        return find_name(host_name, resources) or host_name.partition(".")[0]

    def _as_shown(self, events: Iterable[ScheduledEvent | str]) -> Steps[dict[str, str]]:
        """Return each id in lower case and in the case of the document: some services compare exactly."""
        wanted = {id_of(event): event if isinstance(event, str) else event.shown_id for event in events}
        if any(isinstance(event, str) and id_of(event) not in self._shown for event in events):
            yield from self.document()
        return {id_: self._shown.get(id_, given) for id_, given in wanted.items()}

    def _post(self, body: bytes, ids: Mapping[str, str]) -> Steps[None]:
        found = yield from self.find()
        while True:
            version = self.versions.version
            target = f"{found.endpoint.path}?api-version={version}"
            reply = yield SendRequest(
                endpoint=found.endpoint, method="POST", target=target, body=body, seconds=self._limit
            )
            answer = _response_of(found.endpoint, reply)
            if answer.status == 200:
                return
            if answer.status != 400:
                raise problem_of_response(found.endpoint.url, answer)
            if newest_versions(answer) is not None and self.versions.refused(answer):
                continue
            # The document settles the version, and shows whether the events still exist.
            fetched = yield from self.fetch()
            if self.versions.version == version:
                break
        there = {event.id for event in fetched.document.events} if fetched.document else set()
        gone = {id_: shown for id_, shown in ids.items() if id_ not in there}
        if gone:
            raise _gone(gone)
        raise self._refusal(found.endpoint, answer)

    def _read(self, endpoint: EndpointUrl, answer: HttpResponse) -> Document:
        try:
            document = parse(answer.body)
        except BadBody as error:
            raise problem_of_body(endpoint.url, answer, error) from None
        self._shown = {event.id: event.shown_id for event in document.events}
        return _without_underscores(document) if self.versions.has_underscores else document

    def _refusal(self, endpoint: EndpointUrl, answer: HttpResponse) -> EndpointProblem:
        trouble = problem_of_response(endpoint.url, answer)
        if newest_versions(answer) is None:
            return trouble
        known = ", ".join(SCHEDULED_EVENTS.names)
        refused = VersionRefused(f"{trouble.error}; api-version {self.versions.version} was asked, there are {known}")
        return EndpointProblem(trouble.kind, refused, patience=0.0)

    @property
    def _first_answer(self) -> float:
        return min(self._patience, _FIRST) + _SLACK

    @property
    def _limit(self) -> float:
        return self.later_limit if self._has_answered else self._first_answer

    def _patiently(self, attempt: Callable[[], Steps[_Result]]) -> Steps[_Result]:
        began = self.seconds()
        failures = 0
        while True:
            try:
                result = yield from attempt()
            except EndpointProblem as trouble:
                wait = backoff_seconds(failures, trouble.retry_after, self.chance())
                if self.seconds() - began + wait > self._hope(trouble):
                    raise trouble.error from None
                self.log.begin(trouble.kind, str(trouble))
                failures += 1
                yield Pause(wait, self.log.recovery())
            else:
                self.log.over()
                return result

    def _hope(self, trouble: EndpointProblem) -> float:
        at_most = self._unreachable if isinstance(trouble.error, NotThere | NotAService) else self._patience
        return min(at_most, trouble.patience)


def _response_of(endpoint: EndpointUrl, reply: object) -> HttpResponse:
    match reply:
        case HttpResponse():
            return reply
        case NoResponse():
            raise problem_of_no_response(endpoint.url, reply)
        case _:
            raise TypeError(f"a request is replied to with an Answer or Silence, not {reply!r}")


class SessionState:
    """Properties of the session that both clients have."""

    session: ClientSession

    @property
    def found_by(self) -> str:
        """How the service was discovered; empty until then."""
        return self.session.found.how if self.session.found else ""

    @property
    def api_version(self) -> str:
        return self.session.versions.version

    @property
    def is_name_guessed(self) -> bool:
        """Whether own_name is the host name, because the service does not provide a name."""
        return self.session.is_name_guessed

    @property
    def trouble(self) -> str:
        """The current problem; empty if there is none."""
        return self.session.log.present


def id_of(event: ScheduledEvent | str) -> str:
    """Return the id of an event in lower case; the event or its id is given."""
    if isinstance(event, str):
        return read_id(event)
    if isinstance(event, ScheduledEvent):
        return event.id
    raise BadInput(
        f"an event is given as such or by its id, not as {event!r:.100}; write approve(*events) for several"
    )


def seconds_of(given: timedelta, what: str) -> float:
    """Return the seconds of a duration; BadInput shows the form."""
    if isinstance(given, timedelta):
        return given.total_seconds()
    raise BadInput(f"{what} is {given!r}, expected a timedelta such as timedelta(minutes=2)")


def _event(wanted: ScheduledEvent | str, document: Document) -> ScheduledEvent:
    id_ = id_of(wanted)
    for event in document.events:
        if event.id == id_:
            return event
    raise _gone({id_: wanted if isinstance(wanted, str) else wanted.shown_id})


def _gone(ids: Mapping[str, str]) -> UnknownEvent:
    named = ", ".join(ids.values())
    return UnknownEvent(f"no longer there: {named}; it is over or was canceled, and nothing was changed", tuple(ids))


def _without_underscores(document: Document) -> Document:
    # Azure: in the first version, and only there, names of VMs begin with an underscore.
    events = (
        msgspec.structs.replace(event, resources=tuple(name.removeprefix("_") for name in event.resources))
        for event in document.events
    )
    return msgspec.structs.replace(document, events=tuple(events))
