"""One connection to the emulator: records requests, injects faults, and passes requests to the real service.

    caller ══ EmulatedConnection ── faults before ──▶ HttpConnection of the service ──▶ faults after ══▶ caller

The service gets a complete head, and then the body as it arrives; one request at a time, so that each response
belongs to a known request. A request with a fault before the service is buffered until it is complete.
"""

import asyncio
import os
import socket
import struct
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from forewarn.clocks import Timer
from forewarn.emulator.faults import Fault, FaultContext, FaultKind
from forewarn.emulator.requests import SentRequest, read_headers
from forewarn.emulator.response_faults import ServiceResponse, apply_response_fault
from forewarn.metadata.http_connection import HttpConnection
from forewarn.metadata.http_grammar import NO_BODY, Refusal, RequestBody, RequestHead, body_of, find_end, read_head
from forewarn.metadata.request import CLOSE, KEEP_ALIVE, OPEN
from forewarn.metadata.responses import CONTINUE, without_body
from forewarn.wire import error_responses

if TYPE_CHECKING:
    from forewarn.emulator.vm_ports import VmPorts

_INSTEAD = {
    FaultKind.NOT_FOUND: error_responses.NOT_FOUND,
    FaultKind.GONE: error_responses.GONE,
    FaultKind.TOO_MANY_REQUESTS: error_responses.TOO_MANY_REQUESTS,
    FaultKind.INTERNAL_ERROR: error_responses.INTERNAL_ERROR,
}
_FATAL = {FaultKind.STALL, FaultKind.RESET, *_INSTEAD}
"""The faults after which the service does not get the request."""
_RETRY_AFTER = b"Retry-After: 1\r\n"
_AHEAD = 256 * 1024
"""Bytes of later requests that are buffered while an earlier one is being answered."""


class EmulatedConnection(asyncio.Protocol):
    """One connection of one caller."""

    def __init__(self, vm_ports: "VmPorts", vm: str, address: str) -> None:
        self._vm_ports = vm_ports
        self._vm = vm
        self._address = address
        self._received = bytearray()
        self._held = bytearray()
        """Bytes that the service does not get yet."""
        self._head: RequestHead | None = None
        self._body: RequestBody | None = None
        """The body that is arriving."""
        self._request: SentRequest | None = None
        """The request that is arriving, or being answered."""
        self._faults: list[Fault] = []
        self._timer: Timer | None = None
        self._is_lost = False
        """The input can no longer be split into requests."""
        self._http_connection: HttpConnection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        objection = self._vm_ports.registry.objection(self._address)
        if objection is not None:
            self._transport.write(self._vm_ports.service.common_headers.refusal(objection, CLOSE, _RETRY_AFTER))
            self._transport.close()
            return
        self._http_connection = HttpConnection(self._vm_ports.registry, self._address)
        self._http_connection.connection_made(_ServiceTransport(self, self._transport))

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._proceed()
        if len(self._received) > _AHEAD:
            self._transport.pause_reading()

    def _proceed(self) -> None:
        """Process received requests one after another, each after the response to the previous one."""
        try:
            while self._received and not self._is_lost:
                if self._body is not None:
                    if not self._receive_body(self._body):
                        return
                elif self._request is not None or not self._receive_head():
                    return
        except Refusal:
            self._is_lost = True
        if self._is_lost and self._received:
            self._give_up()

    def _give_up(self) -> None:
        """Pass malformed input to the service, which answers with the error."""
        raw = bytes(self._received)
        self._received.clear()
        if self._request is None:
            self._request = self._sent(method="", target="", headers={}, body=raw)
            self._vm_ports.requests.arrived(self._request)
        self._hand_over(bytes(self._held) + raw)

    def _receive_head(self) -> bool:
        while self._received.startswith(b"\r\n"):
            del self._received[:2]
        end = find_end(self._received)
        if not end:
            return False
        block = bytes(self._received[:end])
        self._head = head = read_head(block)
        del self._received[:end]
        context = FaultContext(self._vm, head.method.decode(), self._switches_on(head))
        self._faults = self._vm_ports.faults.active_for(context)
        kinds = tuple(fault.kind for fault in self._faults)
        self._request = self._sent(
            method=context.method, target=head.target.decode(), headers=read_headers(block), faults=kinds
        )
        if head.length == NO_BODY:
            self._take(block, b"")
            return True
        self._body = body_of(head.length)
        if self._is_held_back and head.expects_continue and not self._received:
            self._transport.write(CONTINUE)
        self._pass_on(block)
        return True

    def _receive_body(self, reader: RequestBody) -> bool:
        before = bytes(self._received)
        body = reader.take(self._received)
        taken = before[: len(before) - len(self._received)]
        if body is None:
            self._pass_on(taken)
            return False
        self._body = None
        self._take(taken, body)
        return True

    def _take(self, last: bytes, body: bytes) -> None:
        """Record a complete request, and apply the faults before the service."""
        if self._request is None:
            return  # the service answered before the body was complete
        self._request.body = body
        self._vm_ports.requests.arrived(self._request)
        self._pass_on(last)
        if self._is_held_back:
            wait = sum(fault.amount for fault in self._faults if fault.is_before) / self._vm_ports.faults.hurry
            if wait:
                when = self._vm_ports.clock.now() + timedelta(seconds=wait)
                self._timer = self._vm_ports.clock.call_at(when, self._end_hold)
            else:
                self._end_hold()

    @property
    def _is_held_back(self) -> bool:
        return any(fault.is_before for fault in self._faults)

    def _pass_on(self, raw: bytes) -> None:
        if self._is_held_back:
            self._held += raw
        else:
            self._hand_over(raw)

    def _hand_over(self, raw: bytes) -> None:
        if self._http_connection and raw and not self._transport.is_closing():
            self._http_connection.data_received(raw)

    def _end_hold(self) -> None:
        """Apply the first fault that replaces the response; without one, pass the request to the service."""
        self._timer = None
        raw = bytes(self._held)
        self._held.clear()
        match next((fault.kind for fault in self._faults if fault.kind in _FATAL), None):
            case None:
                self._hand_over(raw)
            case FaultKind.STALL:
                return
            case FaultKind.RESET:
                self._reset()
            case kind:
                self._refuse(kind)
        self._proceed()

    def _refuse(self, kind: FaultKind) -> None:
        assert self._head is not None  # noqa: S101 - it was read before the faults
        head = self._head
        staying = OPEN if head.is_modern else KEEP_ALIVE
        extra = _RETRY_AFTER if kind is FaultKind.TOO_MANY_REQUESTS else b""
        ending = staying if head.keeps_alive else CLOSE
        answer = self._vm_ports.service.common_headers.refusal(_INSTEAD[kind], ending, extra)
        self.answer(without_body(answer) if head.method == b"HEAD" else answer)
        if not head.keeps_alive:
            self._transport.close()

    def _reset(self) -> None:
        if opened := self._transport.get_extra_info("socket"):
            # With SO_LINGER 0 close resets the connection; Windows packs the option differently.
            at_once = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        self._transport.abort()

    def answer(self, answer: bytes) -> None:
        """Apply faults to a response and send it; then continue with the next request."""
        if answer == CONTINUE:
            self._transport.write(answer)
            return
        reply = ServiceResponse.read(answer)
        for fault in self._faults:
            reply = apply_response_fault(reply, fault, self._group, self._vm_ports.incarnations)
        is_half = len(reply.body) > 1 and any(fault.kind is FaultKind.HALF_BODY for fault in self._faults)
        self._transport.write(reply.head + reply.body[: len(reply.body) // 2] if is_half else reply.encode())
        if is_half:
            self._transport.close()
        request, self._request = self._request, None
        if request is not None:
            if self._body is not None:
                self._vm_ports.requests.arrived(request)  # it is answered before it is complete
            self._vm_ports.requests.answered(request, reply.status)
        self._faults = []
        self._transport.resume_reading()
        if self._received:
            asyncio.get_running_loop().call_soon(self._proceed)

    def _sent(self, **known: Any) -> SentRequest:  # noqa: ANN401 - the record's own fields
        return SentRequest(at=self._vm_ports.clock.now(), vm=self._vm, **known)

    @property
    def _group(self) -> str:
        vm_entry = self._vm_ports.service.vm_entries.get(self._address)
        return vm_entry.documents.terms.name if vm_entry else ""

    def _switches_on(self, head: RequestHead) -> bool:
        vm_entry = self._vm_ports.service.vm_entries.get(self._address)
        is_document = b"/metadata/scheduledevents" in head.target.lower()
        return vm_entry is not None and not vm_entry.documents.is_enrolled and head.method == b"GET" and is_document

    def pause_writing(self) -> None:
        if self._http_connection:
            self._http_connection.pause_writing()

    def resume_writing(self) -> None:
        if self._http_connection:
            self._http_connection.resume_writing()

    def eof_received(self) -> bool:
        is_owed = bool(self._http_connection and self._http_connection.eof_received())
        return is_owed or self._timer is not None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()
        if self._http_connection:
            self._http_connection.connection_lost(exc)


class _ServiceTransport(asyncio.Transport):
    """The transport that the service writes to."""

    def __init__(self, connection: EmulatedConnection, transport: asyncio.Transport) -> None:
        super().__init__()
        self._connection = connection
        self._transport = transport

    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        self._connection.answer(bytes(data))

    def write_eof(self) -> None:
        self._transport.write_eof()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Do nothing: the service gets one request at a time."""

    def resume_reading(self) -> None:
        """Do nothing, as above."""
