"""Request handling: checks in Azure's order, then the response.

    HTTP, Host (403) -> caller (403) -> rate (429) -> header -> X-Forwarded-For -> api-version -> 404 -> 405 -> body
    http_grammar        `----------- here ---------'  `------- request.refusal, found when it was read -----'   here

A GET reads memory only. Exceptions: the first GET of a group that is switched off waits until its enrolment is
durable; a GET of a caller that has seen a newer document waits until this node holds that, or asks the leader.
"""

import asyncio
import logging
from collections import ChainMap
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from forewarn.core.errors import ForewarnError, Refused
from forewarn.core.model import Group
from forewarn.metadata.caller import CallerResolver
from forewarn.metadata.document_cache import DocumentCache, GroupDocuments, VmEntry
from forewarn.metadata.limits import Limits, RateLimiter
from forewarn.metadata.long_poll import NO_RECEIVER, LongPoll, LongPolls, ResponseReceiver
from forewarn.metadata.monotonic_reads import LONGEST_WAIT, AwaitedChanges, LeaderDocument, LeaderDocuments, is_behind
from forewarn.metadata.request import INSTANCE, VERSIONS, MetadataRequest
from forewarn.metadata.request_records import RequestRecords
from forewarn.metadata.responses import CommonHeaders, ThrottledResponse, without_body
from forewarn.metadata.timer_wheel import TimerWheel
from forewarn.node.histogram import Histogram
from forewarn.wire import approval, error_responses
from forewarn.wire.approval import Approval
from forewarn.wire.bodies import JSON, BadBody
from forewarn.wire.error_responses import ErrorResponse
from forewarn.wire.instance import InstanceContent, instance_document, read_instance
from forewarn.wire.versions import API_VERSIONS, VERSIONS_BODY

log = logging.getLogger(__name__)

EnrolGroup = Callable[[str, str], Awaitable[None]]
ApproveEvents = Callable[[str, Approval], Awaitable[object]]

_WAITED = b"Preference-Applied: wait\r\n"
_RETRY = b"Retry-After: 1\r\n"
_ANY = b"*"
_DELAYS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


def make_delays() -> Histogram:
    """Make a histogram of how long requests wait."""
    return Histogram(*_DELAYS)


class MetadataService:
    """Answers requests; responses that are not available immediately are delivered later."""

    def __init__(
        self,
        document_cache: DocumentCache,
        callers: CallerResolver,
        records: RequestRecords,
        limits: Limits,
        *,
        enrol: EnrolGroup,
        approve: ApproveEvents,
        seconds: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self.timer_wheel = TimerWheel(seconds())
        self.common_headers = CommonHeaders(now())
        self.long_polls = LongPolls(self.timer_wheel, self._answer_long_poll)
        self._document_cache = document_cache
        self.vm_entries = document_cache.vm_entries
        self._callers = callers
        self._records = records
        self.make_rate_limiter: Callable[[float, int], RateLimiter] = RateLimiter
        """Makes the rate limiter; what replaces it then calls ``set_limits``."""
        self.set_limits(limits)
        self._enrol = enrol
        self._approve = approve
        self._seconds = seconds
        self._now = now
        self._enrolling: dict[str, asyncio.Future[None]] = {}
        self._pending: set[asyncio.Future[Any]] = set()
        """What responses wait for that are delivered later, other than long polls."""
        self.leader_documents: LeaderDocuments | None = None
        """The way to newer documents; None where no other node shows documents."""
        self.longest_wait = LONGEST_WAIT
        self._awaited_changes = AwaitedChanges()
        document_cache.changed = self._note_changed
        document_cache.left = self._note_left
        awaited: tuple[Any, Any] = self.long_polls.groups, self._awaited_changes.groups
        document_cache.awaited = ChainMap(*awaited)
        document_cache.replaced = self._use_entries
        self.delays = make_delays()
        """How long requests wait before they are read, sampled each second; the answer itself takes microseconds."""
        self._served = [0] * len(API_VERSIONS)
        self._unchanged = [0] * len(API_VERSIONS)

    def set_limits(self, limits: Limits) -> None:
        self._rate = self.make_rate_limiter(limits.rate, limits.burst)

    def _use_entries(self, vm_entries: dict[str, VmEntry]) -> None:
        self.vm_entries = vm_entries

    @property
    def is_idle(self) -> bool:
        """Return whether no response is pending, other than long polls."""
        return not self._pending

    def documents(self) -> Iterator[tuple[str, int, int]]:
        """Yield the number of documents served since the start, by api-version and status."""
        for version, served, unchanged in zip(API_VERSIONS, self._served, self._unchanged, strict=True):
            yield version.name, 200, served
            yield version.name, 304, unchanged

    def tick(self) -> None:
        """Process a new second: update the Date header and expire timers."""
        self.common_headers.stamp(self._now())
        self.timer_wheel.advance(self._seconds())

    def close(self) -> None:
        """Answer all long polls, and send ``Connection: close`` in every response from now on."""
        self.common_headers.close_all(self._now())
        self.long_polls.release_all()

    def answer(
        self, request: MetadataRequest, body: bytes, address: str, receiver: ResponseReceiver
    ) -> bytes | LongPoll | None:
        """Return the response; or None or a long poll if the response is delivered later."""
        vm_entry = self.vm_entries.get(address) or self._callers.entry_of(address)
        if vm_entry is None:
            return ThrottledResponse(self._refuse(self._callers.refusal_of(address), request))
        seconds = self._seconds
        now = seconds()
        if vm_entry.spent_until <= now:
            vm_entry.spent_until = now + self._rate.interval
        elif pause := self._rate.admit(vm_entry, now):
            return ThrottledResponse(
                self._refuse(error_responses.TOO_MANY_REQUESTS, request, b"Retry-After: %d\r\n" % pause)
            )
        documents = vm_entry.documents
        if request.is_plain and documents.is_enrolled:
            documents.asked = now
            if documents.asked_by is not (name := vm_entry.vm.name):
                documents.asked_by = name
            return self._document(request, vm_entry, documents) or self._await_document(
                request, address, vm_entry, receiver
            )
        return self._answer_rarely(request, body, address, vm_entry, receiver)

    def _document(self, request: MetadataRequest, vm_entry: VmEntry, documents: GroupDocuments) -> bytes:
        """Return the response; nothing if the caller has seen a newer document."""
        rendered = documents.rendered
        if rendered is None:
            rendered = self._document_cache.prepare(documents)
        version = request.version
        rendered_response = rendered[version] or self._document_cache.render(documents, version)
        tags = request.tags
        if tags is not None:
            if documents.tag in tags or _ANY in tags:
                self._unchanged[version] += 1
                return self.common_headers.not_modified[request.ending] + documents.tag + b'"\r\n\r\n'
            leader = self.leader_documents
            if leader is not None and is_behind(documents, tags):
                return b""
        if documents.events and not (vm_entry.shown == documents.incarnation and vm_entry.shown_in >> version & 1):
            self._records.note_shown(vm_entry, documents, version)
        self._served[version] += 1
        return self.common_headers.documents[request.ending] + documents.tag + rendered_response

    def _answer_rarely(
        self, request: MetadataRequest, body: bytes, address: str, vm_entry: VmEntry, receiver: ResponseReceiver
    ) -> bytes | LongPoll | None:
        """Answer a request that is not a plain GET of the document."""
        if request.refusal is not None:
            return self._refuse(request.refusal, request, _allow(request))
        target = request.target
        if target.route is VERSIONS:
            return self._send(InstanceContent(VERSIONS_BODY, JSON), request)
        if target.route is INSTANCE:
            document = instance_document(vm_entry.vm, Group(vm_entry.documents.terms), target.api_version)
            return self._send(read_instance(document, target.part, target.format), request)
        if request.is_post:
            return self._begin_approval(request, body, vm_entry, receiver)
        if not vm_entry.documents.is_enrolled:
            self._start(self._enrol_first(request, address, vm_entry), request, receiver)
            return None
        return self._show(request, address, vm_entry, receiver)

    def _show(
        self, request: MetadataRequest, address: str, vm_entry: VmEntry, receiver: ResponseReceiver
    ) -> bytes | LongPoll | None:
        """Return the document, or a long poll that waits for its change."""
        documents = vm_entry.documents
        documents.asked = self._seconds()
        documents.asked_by = vm_entry.vm.name
        if documents.rendered is None:
            self._document_cache.prepare(documents)
        if request.wait and not self.common_headers.is_closing:
            tags = request.tags or ()
            if (documents.tag in tags or _ANY in tags) and not self._is_behind(request, documents):
                return self.long_polls.enter(documents.terms.name, request, address, receiver)
        return self._finish(request, vm_entry) or self._await_document(request, address, vm_entry, receiver)

    def _finish(self, request: MetadataRequest, vm_entry: VmEntry) -> bytes:
        """Return the response; nothing if the caller has seen a newer document."""
        if self._is_behind(request, vm_entry.documents):
            return b""
        return self._complete(request, self._document(request, vm_entry, vm_entry.documents))

    def _is_behind(self, request: MetadataRequest, documents: GroupDocuments) -> bool:
        """Return whether the caller has seen a newer document, also if it names this one beside it."""
        return self.leader_documents is not None and is_behind(documents, request.tags or ())

    def _complete(self, request: MetadataRequest, answer: bytes) -> bytes:
        if request.wait:
            answer = answer.replace(b"ETag:", _WAITED + b"ETag:", 1)
        return without_body(answer) if request.is_head and answer else answer

    def _await_document(
        self, request: MetadataRequest, address: str, vm_entry: VmEntry, receiver: ResponseReceiver
    ) -> bytes | None:
        """Answer later: when this node holds what the caller has seen, or with the leader's document."""
        if receiver is NO_RECEIVER:
            vm_entry.spent_until -= self._rate.step  # it is asked again with a receiver
        else:
            self._start(self._newer_document(request, address), request, receiver)
        return None

    async def _newer_document(self, request: MetadataRequest, address: str) -> bytes:
        leader = self.leader_documents
        if leader and leader.is_leading:
            return await self._certain_document(leader, request, address)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.longest_wait):
                while (vm_entry := self._callers.entry_of(address)) and not (
                    answer := self._finish(request, vm_entry)
                ):
                    await self._awaited_changes.wait(vm_entry.documents.terms.name)
        if vm_entry is None:
            return self._refuse(self._callers.refusal_of(address), request)
        return answer or await self._leader_document(request, vm_entry)

    async def _certain_document(self, leader: LeaderDocuments, request: MetadataRequest, address: str) -> bytes:
        """Answer on the leader: others may have shown what it has appended before it knows that."""
        if not await leader.confirm():
            return self._refuse(error_responses.UNAVAILABLE, request, _RETRY)
        vm_entry = self._callers.entry_of(address)
        if vm_entry is None:
            return self._refuse(self._callers.refusal_of(address), request)
        # A standby without the last entries may hold less than the caller has seen: there is nothing newer.
        return self._finish(request, vm_entry) or self._finish(msgspec.structs.replace(request, tags=None), vm_entry)

    async def _leader_document(self, request: MetadataRequest, vm_entry: VmEntry) -> bytes:
        leader, version = self.leader_documents, request.version
        found = await leader.fetch(vm_entry.vm.name, version) if leader else None
        if found is None:
            return self._refuse(error_responses.UNAVAILABLE, request, _RETRY)
        tags = request.tags or ()
        if found.tag in tags or _ANY in tags:
            self._unchanged[version] += 1
            answer = self.common_headers.not_modified[request.ending] + found.tag + b'"\r\n\r\n'
        else:
            self._served[version] += 1
            answer = self.common_headers.documents[request.ending] + found.tag + found.rendered
        return self._complete(request, answer)

    def document_for_peer(self, vm: str, version: int) -> LeaderDocument | None:
        """Return the document of a VM that asked another node; None if the VM may not call."""
        if (vm_entry := self._document_cache.entry_of_vm(vm)) is None:
            return None
        documents = vm_entry.documents
        documents.asked, documents.asked_by = self._seconds(), vm
        rendered = documents.rendered or self._document_cache.prepare(documents)
        if documents.events:
            self._records.note_shown(vm_entry, documents, version)
        return LeaderDocument(documents.tag, rendered[version] or self._document_cache.render(documents, version))

    def _note_changed(self, group: str) -> None:
        self.long_polls.release_group(group)
        self._awaited_changes.note(group)

    def _note_left(self, group: str) -> None:
        self._release_moved(group)
        self._awaited_changes.note(group)

    def _release_moved(self, group: str) -> None:
        """Answer long polls of VMs that have left the group."""
        for long_poll in self.long_polls.of(group):
            vm_entry = self._callers.entry_of(long_poll.address)
            if vm_entry is None or vm_entry.documents.terms.name != group:
                long_poll.release()

    def _answer_long_poll(self, long_poll: LongPoll) -> bytes:
        vm_entry = self._callers.entry_of(long_poll.address)
        if vm_entry is None:
            return self._refuse(self._callers.refusal_of(long_poll.address), long_poll.request)
        request = long_poll.request
        # A journal that was loaded again may hold less than before: there is nothing to wait for any more.
        return self._finish(request, vm_entry) or self._finish(msgspec.structs.replace(request, tags=None), vm_entry)

    async def _enrol_first(self, request: MetadataRequest, address: str, vm_entry: VmEntry) -> bytes:
        """Enrol the group, then answer; requests that arrive meanwhile share the same enrolment."""
        group = vm_entry.documents.terms.name
        enrolling = self._enrolling.get(group)
        if enrolling is None:
            enrolling = asyncio.ensure_future(self._enrol(group, vm_entry.vm.name))
            enrolling.add_done_callback(lambda _: self._enrolling.pop(group))
            self._enrolling[group] = enrolling
        try:
            await asyncio.shield(enrolling)
        except ForewarnError as error:
            # A document would suggest that the group will be warned, which is not so: let the caller repeat the
            # request.
            log.warning("group was not enrolled", extra={"fields": {"group": group, "reason": str(error)}})
            return self._refuse_enrolment(request)
        present_entry = self._callers.entry_of(address)
        if present_entry is None:
            return self._refuse(self._callers.refusal_of(address), request)
        return self._finish(request, present_entry) or await self._newer_document(request, address)

    def _refuse_enrolment(self, request: MetadataRequest) -> bytes:
        return self._refuse(error_responses.INTERNAL_ERROR, request)

    def _begin_approval(
        self, request: MetadataRequest, body: bytes, vm_entry: VmEntry, receiver: ResponseReceiver
    ) -> bytes | None:
        try:
            said = approval.parse(body)
        except BadBody as error:
            return self._refuse(error_responses.bad_request(str(error)), request)
        if not (said.events or said.postponements):
            return self._approved(request)
        vm = vm_entry.vm.name
        recorded = asyncio.ensure_future(self._approve(vm, said))
        self._pending.add(recorded)
        recorded.add_done_callback(partial(self._finish_approval, request, vm, receiver))
        return None

    def _finish_approval(
        self, request: MetadataRequest, vm: str, receiver: ResponseReceiver, recorded: "asyncio.Future[Any]"
    ) -> None:
        self._pending.discard(recorded)
        if recorded.cancelled() or (error := recorded.exception()) is not None:
            answer = self._refuse_approval(request, vm, None if recorded.cancelled() else error)
        else:
            answer = self._approved(request)
        receiver.deliver(answer)

    def _refuse_approval(self, request: MetadataRequest, vm: str, error: BaseException | None) -> bytes:
        if isinstance(error, Refused):
            return self._refuse(error_responses.bad_request(str(error)), request)
        if isinstance(error, ForewarnError):
            log.warning("approval was not recorded", extra={"fields": {"vm": vm, "reason": str(error)}})
        elif error:
            log.error("request failed", exc_info=error)
        return self._refuse(error_responses.INTERNAL_ERROR, request)

    def _approved(self, request: MetadataRequest) -> bytes:
        return self.common_headers.answer(200, b"", request.ending)

    def _start(
        self, work: Coroutine[None, None, bytes], request: MetadataRequest, receiver: ResponseReceiver
    ) -> None:
        """Run the work as a task, and deliver its result."""

        def finish(task: asyncio.Task[bytes]) -> None:
            self._pending.discard(task)
            if task.cancelled() or task.exception() is not None:
                if not task.cancelled():
                    log.error("request failed", exc_info=task.exception())
                receiver.deliver(self._refuse(error_responses.INTERNAL_ERROR, request))
            else:
                receiver.deliver(task.result())

        task = asyncio.ensure_future(work)
        self._pending.add(task)
        task.add_done_callback(finish)

    def _send(self, content: InstanceContent | ErrorResponse, request: MetadataRequest) -> bytes:
        if isinstance(content, ErrorResponse):
            return self._refuse(content, request)
        answer = self.common_headers.answer(200, content.body, request.ending, content.type)
        return without_body(answer) if request.is_head else answer

    def _refuse(self, problem: ErrorResponse, request: MetadataRequest, extra: bytes = b"") -> bytes:
        answer = self.common_headers.refusal(problem, request.ending, extra)
        return without_body(answer) if request.is_head else answer


def _allow(request: MetadataRequest) -> bytes:
    if request.refusal is not error_responses.METHOD_NOT_ALLOWED:
        return b""
    return b"Allow: %b\r\n" % b", ".join(request.target.route.methods)
