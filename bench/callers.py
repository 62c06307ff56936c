"""Many callers, each from its own address in 127.0.0.0/8, as a program of its own: ``python -m bench.callers``.

It reads a plan from its standard input and prints what it did and what that cost the server. At most
``in_flight`` requests are under way at any time, and the callers take turns. Only the server's CPU is measured,
so the program need not be faster than the server.
"""

import random
import select
import socket
import sys
from collections.abc import Iterator
from itertools import count
from time import perf_counter

import msgspec

from bench.fleets import address_of
from bench.processes import cpu_seconds, python, run_on
from bench.requests import request

_SETTLING = 2
"""Requests on each kept connection before anything is measured: the cost of a new connection is excluded."""
_NO_PORT_YET = 24
"""IP_BIND_ADDRESS_NO_PORT: the port is chosen when the destination is known, so many addresses cost nothing."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be asked, by whom, of which server."""

    port: int
    pid: int
    callers: list[int]
    """The numbers of the VMs that ask."""
    etags: list[str] = []
    """What each caller sends as If-None-Match; none when it is empty."""
    conditional: float = 0.2
    """The share of requests that have one."""
    seconds: float = 0.0
    """How long to ask; 0 means that each caller asks once."""
    closing: bool = False
    """Make a connection for each request."""
    in_flight: int = 64
    wants_etags: bool = False


class CallersResult(msgspec.Struct, frozen=True):
    """What was asked, what it cost the server, and the ETags in the order of the callers."""

    requests: int
    failed: int
    seconds: float
    cpu: float
    """Seconds of the server's CPU; what kept connections cost once is left out."""
    etags: list[str] = []

    @property
    def cost(self) -> float:
        """Microseconds of the server's CPU per request."""
        return self.cpu / self.requests * 1e6


def run(core: int, plan: Plan) -> CallersResult:
    """Carry out a plan in a process of its own, on its own core."""
    printed = run_on(core, python("bench.callers"), 600, given=msgspec.json.encode(plan))
    done = msgspec.json.decode(printed, type=CallersResult)
    if done.failed:
        raise SystemExit(f"{done.failed} of {done.requests} requests were answered wrongly.")
    return done


class _Asker:
    """One caller: where it asks from, what it sends, and the connection it keeps."""

    def __init__(self, caller: int, etag: str, plan: Plan) -> None:
        self.source = address_of(caller)
        self.plain = request(caller, closing=plan.closing)
        self.conditional = request(caller, etag, closing=plan.closing) if etag else self.plain
        self.connection: socket.socket | None = None
        self.etag = ""

    def connect(self, port: int) -> socket.socket:
        self.connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.connection.setsockopt(socket.IPPROTO_IP, _NO_PORT_YET, 1)
        self.connection.bind((self.source, 0))
        self.connection.connect(("127.0.0.1", port))
        return self.connection

    def close(self) -> None:
        if self.connection:
            self.connection.close()
            self.connection = None


def _turns(askers: list[_Asker], seconds: float) -> Iterator[_Asker]:
    """Yield who is to ask next: everybody once, or everybody in turn until the time is over."""
    if not seconds:
        yield from askers
        return
    until = perf_counter() + seconds
    for number in count():
        if number % 64 == 0 and perf_counter() >= until:
            return
        yield askers[number % len(askers)]


def _is_good(answer: bytes) -> bool:
    if answer.startswith(b"HTTP/1.1 200"):
        return answer.endswith(b"}")
    return answer.startswith(b"HTTP/1.1 304") and answer.endswith(b"\r\n\r\n")


def _etag(answer: bytes) -> str:
    return answer.partition(b"\r\nETag: ")[2].partition(b"\r\n")[0].decode()


class _Crowd:
    """All callers of a plan, and those among them that wait for an answer."""

    def __init__(self, plan: Plan, poll: select.epoll) -> None:
        etags = plan.etags or [""] * len(plan.callers)
        self.askers = [_Asker(caller, etag, plan) for caller, etag in zip(plan.callers, etags, strict=True)]
        self._plan = plan
        self._poll = poll
        self._draw = random.Random(7).random  # noqa: S311 - the same load for every server
        self._waiting: dict[int, _Asker] = {}

    def connect(self) -> None:
        """Make the connections that are kept, and use them until the server has settled down with them."""
        for asker in self.askers:
            self._poll.register(asker.connect(self._plan.port), select.EPOLLIN)
        for _ in range(_SETTLING):
            self.ask(iter(self.askers))

    def ask(self, turns: Iterator[_Asker]) -> tuple[int, int]:
        """Let each ask in turn; return how many requests there were, and how many of them failed."""
        requests = failed = 0
        turn = next(turns, None)
        while turn or self._waiting:
            while turn and len(self._waiting) < self._plan.in_flight:
                self._send(turn)
                turn = next(turns, None)
            for descriptor, _ in self._poll.poll(10):
                requests += 1
                failed += not self._receive(self._waiting.pop(descriptor))
        return requests, failed

    def _send(self, asker: _Asker) -> None:
        connection = asker.connection
        if connection is None:
            connection = asker.connect(self._plan.port)
            self._poll.register(connection, select.EPOLLIN)
        elif connection.fileno() in self._waiting:
            return  # it has not been answered yet
        connection.send(asker.conditional if self._draw() < self._plan.conditional else asker.plain)
        self._waiting[connection.fileno()] = asker

    def _receive(self, asker: _Asker) -> bool:
        assert asker.connection
        answer = asker.connection.recv(65536)
        if self._plan.wants_etags:
            asker.etag = _etag(answer)
        if self._plan.closing:
            asker.close()
        return _is_good(answer)


def ask(plan: Plan) -> CallersResult:
    """Carry out a plan."""
    with select.epoll() as poll:
        crowd = _Crowd(plan, poll)
        if not plan.closing:
            crowd.connect()
        before, began = cpu_seconds(plan.pid), perf_counter()
        requests, failed = crowd.ask(_turns(crowd.askers, plan.seconds))
        seconds, cpu = perf_counter() - began, cpu_seconds(plan.pid) - before
    etags = [asker.etag for asker in crowd.askers] if plan.wants_etags else []
    for asker in crowd.askers:
        asker.close()
    return CallersResult(requests, failed, seconds, cpu, etags)


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(ask(msgspec.json.decode(sys.stdin.buffer.read(), type=Plan))))
