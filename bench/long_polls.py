"""Long polls that wait, and one change that all of them wait for: ``python -m bench.long_polls``, plan as its input.

The fleet has scale sets of 100 VMs, and its first hosts have one VM of each: an operation on one host changes the
documents of all VMs. Every VM asks from its own address on its own connection.
"""

import select
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from threading import Thread
from time import perf_counter

import msgspec

from bench import fleets, service
from bench.figures import Figure, spread_of
from bench.machine import cores
from bench.processes import allow_open_files, memory_of, python, run_on, wait_until_idle
from bench.server import Server, field
from bench.wrk import TARGET
from forewarn.control.bodies import HostOperationBody
from forewarn.control.client import ControlClient
from forewarn.core.model import GroupKind, GroupTerms, Vm
from forewarn.metadata.request import LONGEST_WAIT

_NUMBER = 20_000
_QUICK_NUMBER = 2_000
_GROUP = 100
_SPARE = 200
"""Files that the service and the load need beside their connections."""
_PATIENCE = 60.0


class _Plan(msgspec.Struct, frozen=True):
    data: str
    port: int
    pid: int
    polls: int
    changes: int


class _Found(msgspec.Struct, frozen=True):
    growth: int
    """Bytes that the service holds more with all long polls waiting."""
    seconds: list[float]
    """From the sending of each change to the last answer."""


def member(number: int) -> tuple[Vm, GroupTerms]:
    """Return one VM of the fleet, and its group."""
    group, place = divmod(number, _GROUP)
    name = f"workers-{group}"
    vm = Vm(
        name=f"{name}_{place}",
        group=name,
        host=f"host-{place}",
        update_domain=place % 5,
        fault_domain=place % 3,
        address=fleets.address_of(number),
    )
    return vm, GroupTerms(name, GroupKind.SCALE_SET)


def long_polls(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Let 20,000 VMs wait for a change, and make one that concerns all of them."""
    core, load = cores()
    wanted = _QUICK_NUMBER if quick else _NUMBER
    files = allow_open_files(_NUMBER + _SPARE)
    number = min(wanted, files - _SPARE) // _GROUP * _GROUP
    reduced = "" if number == wanted else f"; {wanted:,} do not fit, as a process may open {files:,} files here"
    data = fleets.make_journal(directory / "data", number, member)
    with service.serving(data, core, more=["--connections", "0"]) as ours:
        plan = _Plan(str(data), ours.port, ours.pid, number, 3 if quick else 10)
        printed = run_on(load, python("bench.long_polls"), 900, given=msgspec.json.encode(plan))
    found = msgspec.json.decode(printed, type=_Found)
    yield Figure(
        name=f"memory of a waiting long poll, {number:,} of them",
        asked="at most 4 KiB",
        limit=4.0,
        is_at_least=False,
        measured=found.growth / number / 1024,
        unit="KiB",
        detail=f"the service's proportional set size grew by {found.growth / 2**20:.1f} MiB; what the kernel keeps"
        f" for a connection is not in it{reduced}",
    )
    yield Figure(
        name=f"one change answers all of {number:,} long polls",
        asked="within 2 s",
        limit=2.0,
        is_at_least=False,
        measured=max(found.seconds),
        unit="s",
        spread=spread_of(found.seconds),
        detail=f"the worst of {len(found.seconds)} changes (median {median(found.seconds):.2f} s), from the sending"
        f" of the change to the last answer; each gives an event to {number // _GROUP} groups",
    )


class _Crowd:
    """The waiting VMs: a connection for each, and the ETag that its group's document had last."""

    def __init__(self, plan: _Plan, etags: list[str]) -> None:
        self._plan = plan
        self._etags = etags
        self._poll = select.epoll()
        self._connections: dict[int, socket.socket] = {}
        self._groups: dict[int, int] = {}

    def connect(self) -> None:
        """Connect all VMs; each begins to wait at once, as a connection without a request is closed."""
        for number in range(self._plan.polls):
            source = fleets.address_of(number), 0
            connection = socket.create_connection(("127.0.0.1", self._plan.port), _PATIENCE, source)
            self._connections[connection.fileno()] = connection
            self._groups[connection.fileno()] = number // _GROUP
            self._poll.register(connection, select.EPOLLIN)
            connection.send(poll_request(self._etags[number // _GROUP]))

    def wait(self) -> None:
        """Let every VM wait again, for a document that is newer than the last."""
        for descriptor, connection in self._connections.items():
            connection.send(poll_request(self._etags[self._groups[descriptor]]))

    def receive(self) -> float:
        """Read the answers of all; return when the last came. Nothing is kept but ETags."""
        answers = self._plan.polls
        while answers:
            ready = self._poll.poll(_PATIENCE)
            if not ready:
                raise SystemExit(f"{answers:,} long polls were not answered within {_PATIENCE:.0f} s.")
            for descriptor, _ in ready:
                answer = self._connections[descriptor].recv(65_536)
                if not answer.startswith(b"HTTP/1.1 200"):
                    raise SystemExit(f"A long poll was refused: {answer[:200].decode(errors='replace')}")
                self._etags[self._groups[descriptor]] = field(answer, "ETag")
            answers -= len(ready)
        return perf_counter()

    def check_waiting(self) -> None:
        """Refuse to go on when a VM has an answer already."""
        if early := len(self._poll.poll(0)):
            raise SystemExit(f"{early:,} long polls were answered before there was a change.")

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._poll.close()


def poll_request(etag: str) -> bytes:
    """Return a GET that waits until the document has another ETag."""
    return (
        f"GET {TARGET} HTTP/1.1\r\nHost: 169.254.169.254\r\nMetadata: true\r\n"
        f"If-None-Match: {etag}\r\nPrefer: wait={LONGEST_WAIT}\r\n\r\n"
    ).encode()


def _measure(plan: _Plan) -> _Found:
    server = Server("forewarn", plan.port, plan.pid)
    first = [fleets.address_of(number) for number in range(0, plan.polls, _GROUP)]
    crowd = _Crowd(plan, [field(server.ask(address), "ETag") for address in first])
    wait_until_idle(plan.pid)
    before = memory_of(plan.pid).proportional
    crowd.connect()
    wait_until_idle(plan.pid)
    growth = memory_of(plan.pid).proportional - before
    seconds: list[float] = []
    with ControlClient.local(Path(plan.data)) as client:
        client.me()
        for change in range(plan.changes):
            crowd.check_waiting()
            body = HostOperationBody(operation="freeze")
            changing = Thread(target=client.operate_host, args=(f"host-{change}", body))
            began = perf_counter()
            changing.start()
            seconds.append(crowd.receive() - began)
            changing.join()
            crowd.wait()
            wait_until_idle(plan.pid)
    crowd.close()
    return _Found(growth, seconds)


def _main() -> None:
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=_Plan)
    sys.stdout.buffer.write(msgspec.json.encode(_measure(plan)))


if __name__ == "__main__":
    _main()
