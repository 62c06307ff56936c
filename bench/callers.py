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


class Done(msgspec.Struct, frozen=True):
    """What was asked, what it cost the server, and the ETags in the order of the callers."""

    requests: int
    failed: int
    seconds: float
    cpu: float
    """Seconds of the server's CPU, the making of kept connections left out."""
    etags: list[str] = []

    @property
    def cost(self) -> float:
        """Microseconds of the server's CPU per request."""
        return self.cpu / self.requests * 1e6


def run(core: int, plan: Plan) -> Done:
    """Carry out a plan in a process of its own, on its own core."""
    printed = run_on(core, python("bench.callers"), 600, given=msgspec.json.encode(plan))
    done = msgspec.json.decode(printed, type=Done)
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


def ask(plan: Plan) -> Done:
    """Carry out a plan."""
    etags = plan.etags or [""] * len(plan.callers)
    askers = [_Asker(caller, etag, plan) for caller, etag in zip(plan.callers, etags, strict=True)]
    draw = random.Random(7).random  # noqa: S311 - the same load for every server
    waiting: dict[int, _Asker] = {}
    requests = failed = 0
    with select.epoll() as poll:
        if not plan.closing:
            for asker in askers:
                poll.register(asker.connect(plan.port), select.EPOLLIN)
        before, began = cpu_seconds(plan.pid), perf_counter()
        turns = _turns(askers, plan.seconds)
        is_over = False
        while not is_over or waiting:
            while not is_over and len(waiting) < plan.in_flight:
                turn = next(turns, None)
                if turn is None:
                    is_over = True
                    break
                connection = turn.connection
                if connection is None:
                    connection = turn.connect(plan.port)
                    poll.register(connection, select.EPOLLIN)
                elif connection.fileno() in waiting:
                    continue  # it has not been answered yet
                connection.send(turn.conditional if draw() < plan.conditional else turn.plain)
                waiting[connection.fileno()] = turn
            for descriptor, _ in poll.poll(10):
                asker = waiting.pop(descriptor)
                assert asker.connection
                answer = asker.connection.recv(65536)
                requests += 1
                failed += not _is_good(answer)
                if plan.wants_etags:
                    asker.etag = _etag(answer)
                if plan.closing:
                    asker.close()
        seconds, cpu = perf_counter() - began, cpu_seconds(plan.pid) - before
    for asker in askers:
        asker.close()
    return Done(requests, failed, seconds, cpu, [asker.etag for asker in askers] if plan.wants_etags else [])


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(ask(msgspec.json.decode(sys.stdin.buffer.read(), type=Plan))))
