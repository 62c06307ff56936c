"""Connections of an event loop, as ``wires`` has them for threads."""

import asyncio
from math import inf

from forewarn.client.http import Garbled, Line
from forewarn.client.places import Place
from forewarn.client.steps import CONNECT, REST, Answer, Send, Silence
from forewarn.client.wires import late, reason

_CHUNK = 65_536


class AsyncWire:
    """A connection to wherever the last request went, as ``Wire`` is one for threads."""

    def __init__(self) -> None:
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._line = Line()
        self._place: Place | None = None
        self._is_ended = False

    async def exchange(self, request: Send) -> Answer | Silence:
        """Send a request and wait for its whole answer."""
        reused = self._streams is not None and self._place == request.place and self._line.is_open
        reply = await self._exchange(request)
        if reused and isinstance(reply, Silence) and reply.in_time and not self._line.has_heard:
            reply = await self._exchange(request)
        return reply

    def end(self) -> None:
        """Close, and open no more; a request that waits in another task ends."""
        self._is_ended = True
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()

    async def _exchange(self, request: Send) -> Answer | Silence:
        if self._streams is None or self._place != request.place or not self._line.is_open:
            silence = await self._connect(request.place)
            if silence:
                return silence
        try:
            async with asyncio.timeout(request.seconds) as limit:
                answer = await self._talk(request, limit)
        except TimeoutError:
            self.close()
            return late(request, self._line)
        except Garbled as error:
            self.close()
            return Silence(str(error), garbled=True)
        except OSError as error:
            self.close()
            return Silence(f"broke the connection ({reason(error)})")
        except asyncio.CancelledError:
            # Half an answer may still come; the next request must not take it for its own.
            self.close()
            raise
        if not self._line.is_open or isinstance(answer, Silence):
            self.close()
        return answer

    async def _connect(self, place: Place) -> Silence | None:
        self.close()
        if self._is_ended:
            return Silence("was let go of", connected=False)
        try:
            async with asyncio.timeout(CONNECT):
                streams = await asyncio.open_connection(place.host, place.port)
        except TimeoutError:
            return Silence("cannot be reached (timed out)", connected=False)
        except (OSError, UnicodeError) as error:
            return Silence(f"cannot be reached ({reason(error)})", connected=False)
        self._streams, self._line, self._place = streams, Line(), place
        self._close_if_ended()
        return None

    def _close_if_ended(self) -> None:
        if self._is_ended:
            self.close()

    async def _talk(self, request: Send, limit: asyncio.Timeout) -> Answer | Silence:
        if self._streams is None:
            return Silence("was let go of")
        reader, writer = self._streams
        line = self._line
        writer.write(line.say(request))
        await writer.drain()
        while True:
            data = await reader.read(_CHUNK)
            if not line.has_heard:
                limit.reschedule(min(limit.when() or inf, asyncio.get_running_loop().time() + REST))
            answer = line.hear(data)
            if answer is not None:
                return answer
            if not data:
                return Silence("closed the connection before its answer was whole")
