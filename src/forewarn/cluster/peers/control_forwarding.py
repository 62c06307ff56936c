"""Requests of the control API on their way to the leader: passed on whole, with the principal that asks.

operator ──▶ follower: authenticates ──▶ POST /control/v1/... ──▶ leader: the same application, that principal
operator ◀── follower: holds revision r ◀── the response, r ───────┘
"""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from forewarn.cluster.leadership import KnownLeader, Leadership
from forewarn.cluster.peers.client import NotLeader, PeerClient, PeerResponse
from forewarn.cluster.peers.messages import CONTROL, PRINCIPAL_HEADER, REVISION_HEADER
from forewarn.cluster.revisions import RevisionWaiter
from forewarn.control.api.context import FORWARDED, ForwardedPrincipal
from forewarn.core.access import Principal
from forewarn.core.errors import OutcomeUnknown, Unavailable
from forewarn.http.codec import HttpRequest

_KEPT = 64 * 1024
"""Bytes of a body that are kept, so that it can be sent again."""
_WHOLE = 1024 * 1024
"""Bytes of a response that are awaited before the first of them is passed on."""
_PAUSE = 0.1
_READ_TIME, _CHANGE_TIME, _LARGE_TIME = 3.0, 60.0, 3_600.0
_REPLICA = 5.0
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "proxy-connection"}
)
_NOT_SENT = _HOP_BY_HOP | {"authorization", "content-length", "cookie", "expect", "host", PRINCIPAL_HEADER}
_NOT_PASSED_BACK = _HOP_BY_HOP | {"date", REVISION_HEADER}
Receive = Callable[[], Awaitable[Any]]
_decode_principal = msgspec.msgpack.Decoder(ForwardedPrincipal).decode


class _CallerGone(Exception):
    """The caller hung up before its request was whole."""


class ControlForwarding:
    """Passes requests on to the leader, and its responses back once this node holds what they tell of.

    A request that was not carried out waits some seconds for a leader. One that may have been carried out is sent
    again only with its ``Idempotency-Key``.
    """

    def __init__(
        self, client: PeerClient, leadership: Leadership, revisions: RevisionWaiter, timeout: float = 5.0
    ) -> None:
        """``timeout``: seconds for which a request that changes something waits for a leader that answers."""
        self._client = client
        self._leadership = leadership
        self._revisions = revisions
        self._timeout = timeout

    @property
    def is_leading(self) -> bool:
        """Whether this node answers itself."""
        return self._leadership.is_leading

    async def forward(self, scope: Any, receive: Any, send: Any, principal: Principal) -> Receive | None:
        """Have a request answered by the leader. Raise Unavailable or OutcomeUnknown where that was not possible.

        Where this node leads meanwhile, return what the application here is to receive.
        """
        until = asyncio.get_running_loop().time() + (0.0 if scope["method"] == "GET" else self._timeout)
        try:
            request = await _ForwardedRequest.read(scope, receive, principal)
            while not (self.is_leading and request.is_whole):
                if await self._try(request, send, is_last=asyncio.get_running_loop().time() >= until):
                    return None
                await asyncio.sleep(_PAUSE)
        except _CallerGone:
            return None
        return request.replay

    async def _try(self, request: "_ForwardedRequest", send: Any, *, is_last: bool) -> bool:
        """Return whether the request was answered; raise where it is not to be tried again."""
        try:
            await self._ask(self._leadership.leader, request, send)
        except OutcomeUnknown:
            if is_last or not (request.is_whole and request.has_key):
                raise
            return False
        except Unavailable:
            if is_last or not request.is_whole:
                raise
            return False
        return True

    async def _ask(self, leader: KnownLeader | None, request: "_ForwardedRequest", send: Any) -> None:
        if leader is None:
            raise Unavailable("no node leads at present; send it again")
        try:
            async with (
                self._client.within(leader, request.time_limit),
                self._client.begin(leader, request.to(leader), request.rest) as response,
            ):
                await self._pass_back(response, send)
        except TimeoutError:
            raise OutcomeUnknown(
                f"node {leader.name} did not answer in time; send it again with the same key"
            ) from None
        except NotLeader as error:
            if error.leader is None or error.leader.term <= leader.term or not request.is_whole:
                raise
            await self._ask(error.leader, request, send)

    async def _pass_back(self, response: PeerResponse, send: Any) -> None:
        body = data = b""
        while len(body) < _WHOLE and (data := await response.read()):
            body += data
        revision = next((value for name, value in response.headers if name.lower() == REVISION_HEADER), "0")
        await self._revisions.wait(int(revision), _REPLICA)
        headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in response.headers
            if name.lower() not in _NOT_PASSED_BACK
        ]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        while data:
            await send({"type": "http.response.body", "body": body, "more_body": True})
            try:
                body = data = await response.read()
            except OutcomeUnknown:
                return  # the server closes the connection: the response is not whole
        await send({"type": "http.response.body", "body": body})


class _ForwardedRequest:
    """A request of an operator, and its body: the beginning, and what is still to come of a large one."""

    def __init__(self, scope: Any, receive: Receive, principal: Principal, body: bytes, *, is_whole: bool) -> None:
        query = scope["query_string"].decode("latin-1")
        self._method: str = scope["method"]
        self._target = CONTROL + scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        given = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        self._headers = [(name, value) for name, value in given if name not in _NOT_SENT]
        self._headers.append((PRINCIPAL_HEADER, _encode_principal(principal)))
        self._receive = receive
        self._body = body
        self._is_replayed = False
        self.rest = None if is_whole else _rest(body, receive)
        self.has_key = any(name == "idempotency-key" for name, _ in given)
        if not is_whole:
            lengths = [(name, value) for name, value in given if name == "content-length"]
            self._headers += lengths or [("transfer-encoding", "chunked")]

    @classmethod
    async def read(cls, scope: Any, receive: Any, principal: Principal) -> "_ForwardedRequest":
        """Take a request, and as much of its body as is kept."""
        body = b""
        is_more = True
        while is_more and len(body) <= _KEPT:
            data, is_more = await _receive(receive)
            body += data
        return cls(scope, receive, principal, body, is_whole=not is_more)

    @property
    def is_whole(self) -> bool:
        """Whether it can be sent again."""
        return self.rest is None

    @property
    def time_limit(self) -> float:
        """Seconds that the leader may take: reads can be answered without it, and a large body takes long to send."""
        return _LARGE_TIME if self.rest else _READ_TIME if self._method == "GET" else _CHANGE_TIME

    async def replay(self) -> Any:
        """Return the body as it was received, then what the caller does."""
        if self._is_replayed:
            return await self._receive()
        self._is_replayed = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    def to(self, leader: KnownLeader) -> HttpRequest:
        body = self._body if self.is_whole and self._method != "GET" else None
        headers = tuple(self._headers)
        return HttpRequest(method=self._method, target=self._target, host=leader.address, headers=headers, body=body)


async def _receive(receive: Any) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise _CallerGone
    return message.get("body", b""), message.get("more_body", False)


async def _rest(body: bytes, receive: Any) -> AsyncIterator[bytes]:
    yield body
    is_more = True
    while is_more:
        data, is_more = await _receive(receive)
        yield data


def _encode_principal(principal: Principal) -> str:
    forwarded = ForwardedPrincipal(principal.caller, principal.token, principal.uid)
    return urlsafe_b64encode(msgspec.msgpack.encode(forwarded)).decode("ascii")


class ControlReceiver:
    """Answers requests that other nodes pass on, with the application of the control API."""

    def __init__(self, app: Callable[..., Any], revision: Callable[[], int]) -> None:
        """``revision`` returns the revision that the replica of this node holds."""
        self._app = app
        self._revision = revision

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def send_with_revision(message: Any) -> None:
            if message["type"] == "http.response.start":
                revision = REVISION_HEADER.encode(), b"%d" % self._revision()
                message["headers"] = [*message["headers"], revision]
            await send(message)

        name = PRINCIPAL_HEADER.encode()
        written = next((value for key, value in scope["headers"] if key == name), b"")
        try:
            principal = _decode_principal(urlsafe_b64decode(written))
        except (ValueError, msgspec.DecodeError):
            await send({"type": "http.response.start", "status": 400, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body"})
            return
        inner = dict(scope)
        inner["path"] = scope["path"].removeprefix(CONTROL)
        inner["raw_path"] = scope["raw_path"].removeprefix(CONTROL.encode())
        inner["headers"] = [(key, value) for key, value in scope["headers"] if key != name]
        inner["state"] = {**scope["state"], FORWARDED: principal}
        await self._app(inner, receive, send_with_revision)
