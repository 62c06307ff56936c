"""Answers requests: who is asking, how often, what is wrong, and if nothing is, the document.

    HTTP, Host (403) -> caller (403) -> rate (429) -> header -> X-Forwarded-For -> api-version -> 404 -> 405 -> body
    heads, request      `----------- here ---------'  `------- request.refusal, found when it was read -----'   here

A GET touches memory only, but for the first one of a group that is off: that one waits until the enrolment is
durable.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from datetime import datetime

from forewarn.core.errors import ForewarnError, Refused
from forewarn.core.model import Group
from forewarn.metadata.answers import Letterhead, Rebuff, without_body
from forewarn.metadata.caller import Callers
from forewarn.metadata.desk import Board, Desk, Seat
from forewarn.metadata.limits import Limits, Rate
from forewarn.metadata.records import Records
from forewarn.metadata.request import INSTANCE, VERSIONS, Request
from forewarn.metadata.waiting import Asker, Waiter, WaitingRoom
from forewarn.metadata.wheel import Wheel
from forewarn.wire import approval, problems
from forewarn.wire.approval import Approval
from forewarn.wire.bodies import JSON, BadBody
from forewarn.wire.instance import Content, instance_document, read_instance
from forewarn.wire.problems import Problem
from forewarn.wire.versions import API_VERSIONS, VERSIONS_BODY

log = logging.getLogger(__name__)

Enrol = Callable[[str, str], Awaitable[None]]
Approve = Callable[[str, Approval], Awaitable[None]]

_WAITED = b"Preference-Applied: wait\r\n"
_ANY = b"*"


class Service:
    """Turns requests into answers; what cannot be answered at once is delivered later."""

    def __init__(
        self,
        desk: Desk,
        callers: Callers,
        records: Records,
        limits: Limits,
        *,
        enrol: Enrol,
        approve: Approve,
        seconds: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self.wheel = Wheel(seconds())
        self.letterhead = Letterhead(now())
        self.waiting = WaitingRoom(self.wheel, self._answer_waiter)
        self._desk = desk
        self.seats = desk.seats
        self._callers = callers
        self._records = records
        self.set_limits(limits)
        self._enrol = enrol
        self._approve = approve
        self._seconds = seconds
        self._now = now
        self._enrolling: dict[str, asyncio.Future[None]] = {}
        self._tasks: set[asyncio.Task[bytes]] = set()
        desk.changed = self.waiting.release_group
        desk.left = self._release_moved
        self._served = [0] * len(API_VERSIONS)
        self._unchanged = [0] * len(API_VERSIONS)

    def set_limits(self, limits: Limits) -> None:
        """Count requests by other limits from now on."""
        self._rate = Rate(limits.rate, limits.burst)

    @property
    def is_idle(self) -> bool:
        """Tell whether nobody is owed an answer but those who wait for a change."""
        return not self._tasks

    def documents(self) -> Iterator[tuple[str, int, int]]:
        """Yield how many documents were served since the start, by api-version and status."""
        for version, served, unchanged in zip(API_VERSIONS, self._served, self._unchanged, strict=True):
            yield version.name, 200, served
            yield version.name, 304, unchanged

    def beat(self) -> None:
        """Begin another second: date answers by it, and end what is due."""
        self.letterhead.stamp(self._now())
        self.wheel.turn(self._seconds())

    def close(self) -> None:
        """Give everybody who waits the present document, and say from now on that connections close."""
        self.letterhead.close_all(self._now())
        self.waiting.release_all()

    def answer(self, request: Request, body: bytes, address: str, asker: Asker) -> bytes | Waiter | None:
        """Return the answer; or None, or the place in the waiting room, when it will be delivered later."""
        seat = self.seats.get(address) or self._callers.seat_of(address)
        if seat is None:
            return Rebuff(self._refuse(self._callers.refusal_of(address), request))
        seconds = self._seconds
        now = seconds()
        if seat.spent_until <= now:
            seat.spent_until = now + self._rate.interval
        elif pause := self._rate.admit(seat, now):
            return Rebuff(self._refuse(problems.TOO_MANY_REQUESTS, request, b"Retry-After: %d\r\n" % pause))
        board = seat.board
        if request.is_plain and board.is_enrolled:
            board.asked = now
            if board.asked_by is not (name := seat.vm.name):
                board.asked_by = name
            return self._document(request, seat, board)
        return self._answer_rarely(request, body, address, seat, asker)

    def _document(self, request: Request, seat: Seat, board: Board) -> bytes:
        tails = board.tails
        if tails is None:
            tails = self._desk.prepare(board)
        version = request.version
        tail = tails[version] or self._desk.render(board, version)
        tags = request.tags
        if tags is not None and (board.tag in tags or _ANY in tags):
            self._unchanged[version] += 1
            return self.letterhead.not_modified[request.ending] + board.tag + b'"\r\n\r\n'
        if board.events and not (seat.shown == board.incarnation and seat.shown_in >> version & 1):
            self._records.note_shown(seat, board, version)
        self._served[version] += 1
        return self.letterhead.documents[request.ending] + board.tag + tail

    def _answer_rarely(
        self, request: Request, body: bytes, address: str, seat: Seat, asker: Asker
    ) -> bytes | Waiter | None:
        """Answer what is not a plain GET of the document."""
        if request.refusal is not None:
            return self._refuse(request.refusal, request, _allow(request))
        target = request.target
        if target.route is VERSIONS:
            return self._send(Content(VERSIONS_BODY, JSON), request)
        if target.route is INSTANCE:
            document = instance_document(seat.vm, Group(seat.board.terms), target.api_version)
            return self._send(read_instance(document, target.part, target.format), request)
        if request.is_post:
            return self._begin_approval(request, body, seat, asker)
        if not seat.board.is_enrolled:
            self._start(self._enrol_first(request, address, seat), request, asker)
            return None
        return self._show(request, address, seat, asker)

    def _show(self, request: Request, address: str, seat: Seat, asker: Asker) -> bytes | Waiter:
        """Show the document, or let the caller wait for another one."""
        board = seat.board
        board.asked = self._seconds()
        board.asked_by = seat.vm.name
        if board.tails is None:
            self._desk.prepare(board)
        if request.wait and not self.letterhead.is_closing:
            tags = request.tags or ()
            if board.tag in tags or _ANY in tags:
                return self.waiting.enter(board.terms.name, request, address, asker)
        return self._finish(request, seat)

    def _finish(self, request: Request, seat: Seat) -> bytes:
        answer = self._document(request, seat, seat.board)
        if request.wait:
            answer = answer.replace(b"ETag:", _WAITED + b"ETag:", 1)
        return without_body(answer) if request.is_head else answer

    def _release_moved(self, group: str) -> None:
        """Answer those who wait for a group's document and may no longer see it."""
        for waiter in self.waiting.of(group):
            seat = self._callers.seat_of(waiter.address)
            if seat is None or seat.board.terms.name != group:
                waiter.release()

    def _answer_waiter(self, waiter: Waiter) -> bytes:
        seat = self._callers.seat_of(waiter.address)
        if seat is None:
            return self._refuse(self._callers.refusal_of(waiter.address), waiter.request)
        return self._finish(waiter.request, seat)

    async def _enrol_first(self, request: Request, address: str, seat: Seat) -> bytes:
        """Switch the group on, then answer; whoever asks meanwhile shares the one enrolment."""
        group = seat.board.terms.name
        enrolling = self._enrolling.get(group)
        if enrolling is None:
            enrolling = asyncio.ensure_future(self._enrol(group, seat.vm.name))
            enrolling.add_done_callback(lambda _: self._enrolling.pop(group))
            self._enrolling[group] = enrolling
        try:
            await asyncio.shield(enrolling)
        except ForewarnError as error:
            # Were it shown a document, the group would believe itself warned of what it is not: let it ask again.
            log.warning("a group was not switched on", extra={"fields": {"group": group, "reason": str(error)}})
            return self._refuse(problems.INTERNAL_ERROR, request)
        now_seated = self._callers.seat_of(address)
        if now_seated is None:
            return self._refuse(self._callers.refusal_of(address), request)
        return self._finish(request, now_seated)

    def _begin_approval(self, request: Request, body: bytes, seat: Seat, asker: Asker) -> bytes | None:
        try:
            said = approval.parse(body)
        except BadBody as error:
            return self._refuse(problems.bad_request(str(error)), request)
        if not (said.events or said.postponements):
            return self._approved(request)
        self._start(self._approve_all(request, seat.vm.name, said), request, asker)
        return None

    async def _approve_all(self, request: Request, vm: str, said: Approval) -> bytes:
        try:
            await self._approve(vm, said)
        except Refused as error:
            return self._refuse(problems.bad_request(str(error)), request)
        except ForewarnError as error:
            log.warning("an approval was not recorded", extra={"fields": {"vm": vm, "reason": str(error)}})
            return self._refuse(problems.INTERNAL_ERROR, request)
        return self._approved(request)

    def _approved(self, request: Request) -> bytes:
        return self.letterhead.answer(200, b"", request.ending)

    def _start(self, work: Coroutine[None, None, bytes], request: Request, asker: Asker) -> None:
        """Let the work go on beside other requests, and deliver what it returns."""

        def finish(task: asyncio.Task[bytes]) -> None:
            self._tasks.discard(task)
            if task.cancelled() or task.exception() is not None:
                if not task.cancelled():
                    log.error("a request could not be answered", exc_info=task.exception())
                asker.deliver(self._refuse(problems.INTERNAL_ERROR, request))
            else:
                asker.deliver(task.result())

        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(finish)

    def _send(self, content: Content | Problem, request: Request) -> bytes:
        if isinstance(content, Problem):
            return self._refuse(content, request)
        answer = self.letterhead.answer(200, content.body, request.ending, content.type)
        return without_body(answer) if request.is_head else answer

    def _refuse(self, problem: Problem, request: Request, extra: bytes = b"") -> bytes:
        answer = self.letterhead.refusal(problem, request.ending, extra)
        return without_body(answer) if request.is_head else answer


def _allow(request: Request) -> bytes:
    if request.refusal is not problems.METHOD_NOT_ALLOWED:
        return b""
    return b"Allow: %b\r\n" % b", ".join(request.target.route.methods)
