"""All connections together: how many there are, whose they are, and how they end when the service stops."""

import asyncio
import contextlib

from forewarn.metadata.limits import Limits
from forewarn.metadata.protocol import Conversation
from forewarn.metadata.request import Memo
from forewarn.metadata.service import Service
from forewarn.wire import problems
from forewarn.wire.problems import Problem

_BEAT = 1.0


class Edge:
    """Where conversations begin and end."""

    def __init__(self, service: Service, limits: Limits) -> None:
        self.service = service
        self.limits = limits
        self.memo = Memo()
        # One object each for all conversations: what all of them use stays in the processor's cache.
        self.answer = service.answer
        self.read_alone = self.memo.read_alone
        self.is_closing = False
        self._conversations: set[Conversation] = set()
        self._open_of: dict[str, int] = {}
        self._is_empty = asyncio.Event()
        self._beating: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._conversations)

    def objection(self, address: str) -> Problem | None:
        """Return why this caller may not have another connection, if so."""
        limits = self.limits
        if limits.connections and len(self._conversations) >= limits.connections:
            return problems.UNAVAILABLE
        if limits.connections_per_caller and self._open_of.get(address, 0) >= limits.connections_per_caller:
            return problems.TOO_MANY_REQUESTS
        return None

    def begin(
        self,
        address: str,
        received: bytes = b"",
        unsent: bytes = b"",
        is_last: bool = False,  # noqa: FBT001, FBT002
    ) -> Conversation:
        """Begin a conversation in which some bytes have arrived already, and some are still to be sent."""
        conversation = Conversation(self, address, received, unsent, is_last=is_last)
        self._conversations.add(conversation)
        self._open_of[address] = self._open_of.get(address, 0) + 1
        self._is_empty.clear()
        return conversation

    def left(self, conversation: Conversation) -> None:
        """Its connection is closed."""
        if conversation not in self._conversations:
            return
        self._conversations.discard(conversation)
        address = conversation.address
        self._open_of[address] -= 1
        if not self._open_of[address]:
            del self._open_of[address]
        if not self._conversations:
            self._is_empty.set()

    def start(self) -> None:
        """Begin to count the seconds."""
        self.service.beat()
        self._beating = asyncio.get_running_loop().call_later(_BEAT, self.start)

    async def stop(self, grace: float = 5.0) -> None:
        """Finish the answers that are owed, release those who wait, and close every connection."""
        self.is_closing = True
        self.service.close()
        for conversation in list(self._conversations):
            conversation.wind_up()
        if self._conversations:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_empty.wait(), grace)
        for conversation in list(self._conversations):
            conversation.abort()
        if self._beating:
            self._beating.cancel()
