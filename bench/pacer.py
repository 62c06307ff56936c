"""GETs at a fixed rate, whatever the answers take, as a program of its own: ``python -m bench.pacer``.

A request's time counts from when it should have been sent, so that a pause of the server is felt by all requests
that fall into it and not only by the one that was under way.
"""

import select
import socket
import sys
from collections import deque
from pathlib import Path
from time import perf_counter

import msgspec

from bench.fleets import address_of
from bench.processes import python, run_on
from bench.requests import request

_CONNECTIONS = 50


class Pace(msgspec.Struct, frozen=True):
    """How many GETs per second, for how long."""

    port: int
    rate: int
    seconds: float
    """At most so long, if it ends with something else."""
    until: str = ""
    """A file; the pace ends when there is one."""
    begun: str = ""
    """A file that is made when the pace begins."""


def run(core: int, pace: Pace) -> list[float]:
    """Keep the pace in a process of its own; return what each request took, in milliseconds."""
    printed = run_on(core, python("bench.pacer"), pace.seconds + 120, given=msgspec.json.encode(pace))
    return msgspec.json.decode(printed, type=list[float])


def keep(pace: Pace) -> list[float]:
    """Send every request when its time has come, or as soon afterwards as a connection is free."""
    idle: deque[tuple[socket.socket, bytes]] = deque()
    with select.epoll() as poll:
        for number in range(_CONNECTIONS):
            connection = socket.create_connection(("127.0.0.1", pace.port), 60, (address_of(number), 0))
            poll.register(connection, select.EPOLLIN)
            idle.append((connection, request(number)))
        due: deque[float] = deque()
        waiting: dict[int, tuple[socket.socket, bytes, float]] = {}
        took: list[float] = []
        number, total, began = 0, int(pace.rate * pace.seconds), perf_counter()
        until = Path(pace.until) if pace.until else None
        if pace.begun:
            Path(pace.begun).touch()
        while len(took) < total:
            now = perf_counter() - began
            if until and total > number and until.exists():
                total = number
                if len(took) >= total:
                    break
            while number < total and number / pace.rate <= now:
                due.append(number / pace.rate)
                number += 1
            while due and idle:
                connection, asked = idle.popleft()
                connection.send(asked)
                waiting[connection.fileno()] = connection, asked, due.popleft()
            left = max(0.0, number / pace.rate - (perf_counter() - began)) if number < total else 60.0
            for descriptor, _ in poll.poll(60.0 if due else left):
                if descriptor not in waiting:
                    raise SystemExit("The server closed a connection that it should have kept.")
                connection, asked, should = waiting.pop(descriptor)
                answer = connection.recv(65536)
                if not answer.startswith(b"HTTP/1.1 200"):
                    raise SystemExit(f"A GET was refused: {answer[:200].decode(errors='replace')}")
                took.append((perf_counter() - began - should) * 1e3)
                idle.append((connection, asked))
        for connection, _ in idle:
            connection.close()
    return took


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(keep(msgspec.json.decode(sys.stdin.buffer.read(), type=Pace))))
