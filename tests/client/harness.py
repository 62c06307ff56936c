"""A made-up world for conversations: replies in their order, and time that passes only as they wish."""

from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import msgspec

from forewarn.client.session import ClientSession
from forewarn.client.steps import CallBlocking, NoResponse, Pause, SendRequest, Steps
from forewarn.http.codec import HttpResponse

_Result = TypeVar("_Result")
URL = "http://127.0.0.1:8254"
ID = "e9d4fee9-4dc4-525b-89c3-dbf925a521bc"
REFUSED = NoResponse("cannot be reached (connection refused)", connected=False)
TIMED_OUT = NoResponse("has not answered", in_time=False)
RESET = NoResponse("broke the connection (connection reset by peer)")


def document(incarnation: int = 1, *events: dict[str, object], tag: str = "", held: bool = False) -> HttpResponse:
    """Return a service's answer with these events."""
    body = msgspec.json.encode({"DocumentIncarnation": incarnation, "Events": events})
    return HttpResponse(200, _headers(tag, held=held), body)


def unchanged(tag: str = "", *, held: bool = False) -> HttpResponse:
    return HttpResponse(304, _headers(tag, held=held))


def event(id: str = ID, status: str = "Scheduled", **more: object) -> dict[str, object]:
    not_before = "" if status == "Started" else "Mon, 16 Nov 2026 13:32:15 GMT"
    usual = {"EventId": id.upper(), "EventStatus": status, "EventType": "Reboot", "Resources": ["web-0"]}
    return {**usual, "NotBefore": not_before, **more}


def problem(status: int, error: str = "no", **headers: str) -> HttpResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpResponse(status, {"content-type": "application/json", **named}, msgspec.json.encode({"error": error}))


def version_problem(*newest: str) -> HttpResponse:
    return HttpResponse(400, {}, msgspec.json.encode({"error": "api-version is invalid", "newest-versions": newest}))


def _headers(tag: str, *, held: bool) -> dict[str, str]:
    return {**({"etag": tag} if tag else {}), **({"preference-applied": "wait"} if held else {})}


class SessionHarness:
    """Plays conversations, and keeps what they did."""

    def __init__(self, *replies: HttpResponse | NoResponse, chance: float = 0.5) -> None:
        self.now = 1_000.0
        self.sent: list[SendRequest] = []
        self.asked_at: list[float] = []
        self.pauses: list[float] = []
        self.looked: list[Callable[[], object]] = []
        self.replies = deque(replies)
        self.found: object = "web-0"
        """What a look finds: the host name, or addresses."""
        self._chance = chance

    def session(
        self,
        url: str | None = URL,
        *,
        api_version: str | None = None,
        patience: float = 120,
        unreachable: float | None = None,
        environment: dict[str, str] | None = None,
    ) -> ClientSession:
        return ClientSession(
            url,
            api_version,
            timedelta(seconds=patience),
            None if unreachable is None else timedelta(seconds=unreachable),
            environment or {},
            seconds=lambda: self.now,
            chance=lambda: self._chance,
        )

    def play(self, steps: Steps[_Result]) -> _Result:
        """Do what the steps say until they are through."""
        reply: object = None
        try:
            while True:
                reply = self._do(steps.send(reply))
        except StopIteration as end:
            result: _Result = end.value
            return result

    def _do(self, step: SendRequest | Pause | CallBlocking) -> object:
        match step:
            case SendRequest():
                self.sent.append(step)
                self.asked_at.append(self.now)
                reply = self.replies.popleft() if len(self.replies) > 1 else self.replies[0]
                if isinstance(reply, NoResponse) and not reply.in_time:
                    self.now += step.seconds
                return reply
            case Pause(seconds):
                assert seconds > 0
                self.pauses.append(seconds)
                self.now += seconds
                return None
            case CallBlocking(call):
                self.looked.append(call)
                return self.found

    @property
    def versions(self) -> list[str]:
        """The api-versions that were asked in, in order."""
        return [each.target.partition("api-version=")[2] for each in self.sent]
