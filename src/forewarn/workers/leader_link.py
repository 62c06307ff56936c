"""What a worker knows of its leader: whether there is one, and what came of the commands that it was passed."""

import asyncio
from collections.abc import Callable
from itertools import count

from forewarn.core.commands import Approve, Enrol
from forewarn.core.errors import OutcomeUnknown, Unavailable
from forewarn.workers.messages import Answer, Message, Submit, error_of

_SILENCE = 5.0
"""Seconds without a sign of life after which a leader takes no commands; it may be stopped, or its machine busy."""


class LeaderLink:
    """Passes commands on to the leader, and waits for its answers."""

    def __init__(
        self, send: Callable[[Message], None], seconds: Callable[[], float], alive_at: Callable[[], float]
    ) -> None:
        """``alive_at`` returns when the leader gave its last sign of life."""
        self._send = send
        self._seconds = seconds
        self._alive_at = alive_at
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._is_lost = False

    @property
    def age(self) -> float:
        """Seconds since the leader was last known to be well."""
        return max(0.0, self._seconds() - self._alive_at())

    @property
    def is_there(self) -> bool:
        """Whether a leader takes commands."""
        return not self._is_lost and self.age < _SILENCE

    @property
    def is_lost(self) -> bool:
        """Whether the leader's process has ended."""
        return self._is_lost

    def submit(self, command: Approve | Enrol) -> "asyncio.Future[None]":
        """Pass a command on; the future is done when it is durable, and raises what it was refused for."""
        reply: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_lost:
            reply.set_exception(Unavailable("the service is being started again; ask again"))
            return reply
        id_ = next(self._ids)
        self._waiting[id_] = reply
        self._send(Submit(id_, command))
        return reply

    def take(self, answer: Answer) -> None:
        """Pass an answer of the leader on."""
        reply = self._waiting.pop(answer.id, None)
        if reply is None or reply.done():
            return
        if error := error_of(answer):
            reply.set_exception(error)
        else:
            reply.set_result(None)

    def lose(self) -> None:
        """Fail what waits for an answer: the leader's process has ended."""
        self._is_lost = True
        self._fail_waiting("the leader ended before it answered; ask again")

    def give_up(self) -> None:
        """Fail what waits for a leader that gives no sign of life; call it from time to time."""
        if self.age >= _SILENCE:
            self._fail_waiting("the leader did not answer in time; ask again")

    def _fail_waiting(self, reason: str) -> None:
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(OutcomeUnknown(reason))
        self._waiting.clear()
