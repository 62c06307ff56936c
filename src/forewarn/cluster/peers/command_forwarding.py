"""Commands of VMs on their way to the leader: those that wait together go in one request.

VM ──▶ begin ──▶ waits ──▶ POST /commands ──▶ results, revision r ──▶ the replica holds r ──▶ VM is answered
                   ▲                │ no leader, another leader, lost
                   └────────────────┘ for some seconds
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence

import msgspec

from forewarn.cluster.leadership import Leadership
from forewarn.cluster.peers.client import NotLeader, PeerClient
from forewarn.cluster.peers.messages import (
    COMMANDS,
    CommandBatch,
    CommandResults,
    decode_batch,
    decode_results,
    encode,
)
from forewarn.cluster.revisions import RevisionWaiter
from forewarn.core.commands import Approve, Command, Enrol
from forewarn.core.errors import OutcomeUnknown, Unavailable
from forewarn.node.command_errors import ErrorRecord, read_error, record_error

BeginCommand = Callable[[Command], Awaitable[object]]
"""Submits a command on this node."""

_LARGEST_BATCH = 1_000
_MOST_WAITING = 50_000
_MOST_REQUESTS = 4
_SLOW = 0.02
"""Seconds after which commands do not wait any longer for the request before them."""
_PAUSE = 0.1
_ANSWER = 10.0
"""Seconds that the leader may take."""
_REPLICA = 5.0
"""Seconds that the replica of this node may take to hold what the leader did."""


class _Waiting(msgspec.Struct, gc=False):
    """A command, and who waits for it."""

    command: Approve | Enrol
    reply: "asyncio.Future[None]"
    until: float
    """When it is given up."""

    def may_repeat(self, error: Unavailable) -> bool:
        """Whether it is harmless to send it again."""
        is_postponement = isinstance(self.command, Approve) and self.command.postponements
        return not (is_postponement and isinstance(error, OutcomeUnknown))


class CommandForwarding:
    """Passes commands of VMs on to the leader.

    A command whose response was lost is sent again, to whichever node then leads: approving and enrolling twice is
    harmless. A postponement is not; its outcome is then unknown.
    """

    def __init__(
        self,
        client: PeerClient,
        leadership: Leadership,
        revisions: RevisionWaiter,
        begin_here: BeginCommand,
        timeout: float = 5.0,
    ) -> None:
        """``begin_here`` submits a command where this node has become the leader meanwhile.

        ``timeout``: seconds for which a command waits for a leader that answers.
        """
        self._client = client
        self._leadership = leadership
        self._revisions = revisions
        self._begin_here = begin_here
        self._timeout = timeout
        self._waiting: deque[_Waiting] = deque()
        self._requests = 0
        """Requests under way."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, command: Command) -> "asyncio.Future[None]":
        """Pass a command on; the future is done when it is durable and held here, or raises the refusal."""
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[None] = loop.create_future()
        if not isinstance(command, Approve | Enrol):
            reply.set_exception(Unavailable("this node does not lead; ask again"))
        elif len(self._waiting) >= _MOST_WAITING:
            reply.set_exception(Unavailable("too many commands wait for the leader; ask again"))
        else:
            self._waiting.append(_Waiting(command, reply, asyncio.get_running_loop().time() + self._timeout))
            if not self._requests:
                self._send_waiting()
            elif self._timer is None:
                self._timer = loop.call_later(_SLOW, self._pass_by)
        return reply

    async def stop(self) -> None:
        """Wait for the commands that are under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._timer:
            self._timer.cancel()

    def _pass_by(self) -> None:
        """Send what waits beside a request that takes long."""
        self._timer = None
        if self._waiting and self._requests < _MOST_REQUESTS:
            self._send_waiting()

    def _send_waiting(self) -> None:
        self._requests += 1
        self._do(self._send_all())

    def _do(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                count = min(len(self._waiting), _LARGEST_BATCH)
                batch = [self._waiting.popleft() for _ in range(count)]
                await self._send(batch)
        finally:
            self._requests -= 1

    async def _send(self, batch: Sequence[_Waiting]) -> None:
        try:
            results = await self._ask(tuple(each.command for each in batch))
        except Unavailable as error:
            results = CommandResults(0, (record_error(error),) * len(batch))
        if not self._revisions.holds(results.revision):
            self._do(self._answer_later(batch, results))  # the next request need not wait for it
        elif again := _answer(batch, results):
            self._waiting.extendleft(reversed(again))
            await asyncio.sleep(_PAUSE)

    async def _answer_later(self, batch: Sequence[_Waiting], results: CommandResults) -> None:
        if not await self._revisions.wait(results.revision, _REPLICA):
            behind = OutcomeUnknown("the leader has answered, but this node is behind it; ask again")
            results = CommandResults(0, (record_error(behind),) * len(batch))
        for each in _answer(batch, results):
            self._waiting.append(each)
        if self._waiting and not self._requests:
            self._send_waiting()

    async def _ask(self, commands: tuple[Approve | Enrol, ...]) -> CommandResults:
        """Return what came of the commands, from the node that leads; follow one that knows a later leader."""
        if self._leadership.is_leading:
            return CommandResults(0, await submit_all(commands, self._begin_here))
        leader = self._leadership.leader
        body = encode(CommandBatch(commands))
        while leader is not None:
            try:
                results = decode_results(await self._client.post(leader, COMMANDS, body, _ANSWER))
            except NotLeader as error:
                if error.leader is None or error.leader.term <= leader.term:
                    raise
                leader = error.leader
            except msgspec.DecodeError as error:
                raise OutcomeUnknown(f"node {leader.name} answered what cannot be read: {error}") from None
            else:
                if len(results.errors) == len(commands):
                    return results
                raise OutcomeUnknown(
                    f"node {leader.name} answered {len(results.errors)} of {len(commands)} commands: look at its log"
                )
        raise Unavailable("no node leads at present; ask again")


async def submit_all(commands: Sequence[Command], begin: BeginCommand) -> tuple[ErrorRecord | None, ...]:
    """Submit commands on this node; return why each of them failed."""
    replies = await asyncio.gather(*map(begin, commands), return_exceptions=True)
    return tuple(record_error(each) if isinstance(each, BaseException) else None for each in replies)


class CommandReceiver:
    """Submits the commands that other nodes pass on to this one, which leads."""

    def __init__(self, begin: BeginCommand, revision: Callable[[], int]) -> None:
        """``revision`` returns the revision that the replica of this node holds."""
        self._begin = begin
        self._revision = revision

    async def answer(self, body: bytes) -> bytes:
        errors = await submit_all(decode_batch(body).commands, self._begin)
        return encode(CommandResults(self._revision(), errors))


def _answer(batch: Sequence[_Waiting], results: CommandResults) -> list[_Waiting]:
    """Answer the callers; return the commands that are to be sent again."""
    again: list[_Waiting] = []
    now = asyncio.get_running_loop().time()
    for each, record in zip(batch, results.errors, strict=True):
        if each.reply.done():
            continue
        if record is None:
            each.reply.set_result(None)
        elif isinstance(error := read_error(record), Unavailable) and now < each.until and each.may_repeat(error):
            again.append(each)
        else:
            each.reply.set_exception(error)
    return again
