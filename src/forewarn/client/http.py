"""HTTP/1.1 as bytes, over any connection: what to send for a request, and when its answer is whole."""

import h11

from forewarn.client.steps import Answer, Send

_BODY = 1 << 20
_HEAD = 1 << 14
"""Bytes that a body and a head may have; more is no document."""


class Garbled(Exception):
    """What was heard is no HTTP, or too much of it."""


class Line:
    """One connection's side of the talk: one request, one answer, and the next if the service keeps the line."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD)
        self._head: h11.Response | None = None
        self._body = bytearray()
        self._heard = 0

    @property
    def is_open(self) -> bool:
        """Tell whether another request may follow."""
        return self._http.our_state is h11.IDLE and self._http.their_state is h11.IDLE

    @property
    def has_heard(self) -> bool:
        """Tell whether any byte of the present answer has come."""
        return self._heard > 0

    def say(self, request: Send) -> bytes:
        """Return the bytes of a request."""
        headers = [("Host", request.place.authority), ("Metadata", "true"), ("User-Agent", "forewarn")]
        headers += request.headers
        if request.method == "POST":
            headers += [("Content-Type", "application/json"), ("Content-Length", str(len(request.body)))]
        self._head, self._heard = None, 0
        self._body.clear()
        events = (
            h11.Request(method=request.method, target=request.target, headers=headers),
            *([h11.Data(data=request.body)] if request.body else []),
            h11.EndOfMessage(),
        )
        return b"".join(self._http.send(event) or b"" for event in events)

    def hear(self, data: bytes) -> Answer | None:
        """Take bytes, none when the connection ended; return the answer once it is whole, and None until then."""
        self._heard += len(data)
        if self._heard > _BODY + _HEAD:
            raise Garbled(f"sends more than {_BODY >> 20} MiB")
        try:
            self._http.receive_data(data)
            return self._next()
        except h11.RemoteProtocolError as error:
            if not data:
                return None
            raise Garbled(f"does not speak HTTP ({error})") from None

    def _next(self) -> Answer | None:
        while True:
            event = self._http.next_event()
            match event:
                case h11.Response():
                    self._head = event
                case h11.Data(data=data):
                    self._body += data
                case h11.EndOfMessage():
                    return self._answer()
                case h11.NEED_DATA | h11.PAUSED | h11.ConnectionClosed():
                    return None
                case _:
                    continue

    def _answer(self) -> Answer:
        assert self._head is not None  # noqa: S101 - h11 hands out no end without a beginning
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self._head.headers}
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        return Answer(self._head.status_code, headers, bytes(self._body))
