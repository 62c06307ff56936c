"""Blocking connections: one at a time, kept open, opened anew when the service let go of it."""

import os
import socket
from contextlib import suppress
from time import monotonic

from forewarn.client.endpoint_url import EndpointUrl
from forewarn.client.http import HttpCodec, MalformedResponse
from forewarn.client.steps import CONNECT, REST, HttpResponse, NoResponse, SendRequest

_CHUNK = 65_536


class BlockingConnection:
    """A connection to wherever the last request went. Never a proxy: a VM's service is next to it."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._codec = HttpCodec()
        self._endpoint: EndpointUrl | None = None
        self._is_ended = False

    def exchange(self, request: SendRequest) -> HttpResponse | NoResponse:
        """Send a request and wait for its whole answer."""
        reused = self._socket is not None and self._endpoint == request.endpoint and self._codec.is_open
        reply = self._exchange(request)
        if reused and isinstance(reply, NoResponse) and reply.in_time and not self._codec.has_heard:
            # The service had closed the idle connection. What we send may be sent twice: it is the same again.
            reply = self._exchange(request)
        return reply

    def end(self) -> None:
        """Close, and open no more; a request that waits in another thread ends."""
        self._is_ended = True
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        wire, self._socket = self._socket, None
        if wire is not None:
            with suppress(OSError):
                # Closing alone would leave another thread waiting.
                wire.shutdown(socket.SHUT_RDWR)
            wire.close()

    def _exchange(self, request: SendRequest) -> HttpResponse | NoResponse:
        if self._socket is None or self._endpoint != request.endpoint or not self._codec.is_open:
            silence = self._connect(request.endpoint)
            if silence:
                return silence
        try:
            answer = self._talk(request)
        except TimeoutError:
            self.close()
            return timed_out(request, self._codec)
        except MalformedResponse as error:
            self.close()
            return NoResponse(str(error), garbled=True)
        except OSError as error:
            self.close()
            return NoResponse(f"broke the connection ({reason_of(error)})")
        if not self._codec.is_open or isinstance(answer, NoResponse):
            self.close()
        return answer

    def _connect(self, endpoint: EndpointUrl) -> NoResponse | None:
        self.close()
        if self._is_ended:
            return NoResponse("was let go of", connected=False)
        try:
            # As bytes, because Python would load the tables of international names for a text.
            address = (endpoint.host.encode("ascii"), endpoint.port)
            wire = socket.create_connection(address, CONNECT)  # type: ignore[arg-type]
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (OSError, UnicodeError) as error:
            return NoResponse(f"cannot be reached ({reason_of(error)})", connected=False)
        self._socket, self._codec, self._endpoint = wire, HttpCodec(), endpoint
        self._close_if_ended()
        return None

    def _close_if_ended(self) -> None:
        # Another thread may have ended the wire while it was opened.
        if self._is_ended:
            self.close()

    def _talk(self, request: SendRequest) -> HttpResponse | NoResponse:
        wire, line = self._socket, self._codec
        if wire is None:
            return NoResponse("was let go of")
        # The whole answer counts, not each byte of it: who sends one a second is no service.
        end = monotonic() + request.seconds
        wire.settimeout(request.seconds)
        wire.sendall(line.say(request))
        while True:
            left = end - monotonic()
            if left <= 0:
                raise TimeoutError
            wire.settimeout(left)
            data = wire.recv(_CHUNK)
            if not line.has_heard:
                end = min(end, monotonic() + REST)
            answer = line.hear(data)
            if answer is not None:
                return answer
            if not data:
                return NoResponse("closed the connection before its answer was whole")


def timed_out(request: SendRequest, line: HttpCodec) -> NoResponse:
    """Say that time ran out."""
    if line.has_heard:
        return NoResponse(f"has not finished its answer within {min(REST, request.seconds):g} s", in_time=False)
    return NoResponse(f"has not answered within {request.seconds:g} s", in_time=False)


def reason_of(error: Exception) -> str:
    """Say what the system says of it, in small letters."""
    if isinstance(error, ConnectionError) and error.errno:
        # Some of them carry a text of asyncio's own.
        return os.strerror(error.errno).lower()
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return said[:1].lower() + said[1:]
