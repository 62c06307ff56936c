"""Restarts that wait for approval, and the VMs that approve them: ``python -m bench.approvals``."""

import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from time import perf_counter
from uuid import UUID

import msgspec

from bench import fleets
from bench.processes import python, run_on
from forewarn.core.commands import OperateVm, VmOperation
from forewarn.core.decide import enact
from forewarn.core.facts import Announced, Entry
from forewarn.core.model import Caller, CallerKind
from forewarn.core.notice import Rules
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.wire import approval

_IN_FLIGHT = 64
_OPERATOR = Caller(CallerKind.OPERATOR, "bench")


class Restart(msgspec.Struct, frozen=True):
    """An event that the VM at an address may approve."""

    address: str
    event: str


class _Plan(msgspec.Struct, frozen=True):
    port: int
    restarts: list[Restart]


def announce_restarts(data: Path, number: int) -> list[Restart]:
    """Put the restarts of the first so many VMs into a journal."""
    journal = SqliteJournal(data)
    recovered = journal.load()
    fleet, revision = recovered.fleet, recovered.revision
    now = datetime.now(UTC)
    found: list[Restart] = []
    entries: list[Entry] = []
    for vm in islice(list(fleet.vms.values()), number):
        id_ = str(UUID(int=revision + len(entries), version=4))
        command = OperateVm(id=id_, by=_OPERATOR, operation=VmOperation.RESTART, vm=vm.name)
        facts = enact(fleet, command, now, Rules())
        entries.append(Entry(revision + len(entries) + 1, now, id_, _OPERATOR, facts))
        found += [Restart(vm.address, fact.event.id) for fact in facts if isinstance(fact, Announced)]
    journal.append(revision, entries)
    journal.close()
    subprocess.run(fleets.fold_command(data), check=True, stdout=subprocess.DEVNULL)
    return found


def post_approvals(core: int, port: int, restarts: list[Restart]) -> float:
    """Approve all of them, 64 at a time, on a core of its own; return approvals per second."""
    plan = msgspec.json.encode(_Plan(port, restarts))
    return float(run_on(core, python("bench.approvals"), 300, given=plan))


def approve_one(port: int, restart: Restart) -> float:
    """Approve one of them; return the seconds until the answer."""
    with _connect(restart, port) as connection:
        began = perf_counter()
        connection.send(_post(restart))
        answer = connection.recv(65536)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"An approval was refused: {answer.decode(errors='replace')}")
        return perf_counter() - began


def _connect(restart: Restart, port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 60, (restart.address, 0))


def _post(restart: Restart) -> bytes:
    body = approval.encode([restart.event])
    return (
        b"POST /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: 169.254.169.254\r\n"
        b"Metadata: true\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )


def _approve(plan: _Plan) -> float:
    """Keep 64 connections busy, each of a VM that approves its own restart; connections are made beforehand."""
    ready: Iterator[tuple[socket.socket, bytes]] = iter(
        [(_connect(restart, plan.port), _post(restart)) for restart in plan.restarts]
    )
    waiting: dict[int, socket.socket] = {}
    with select.epoll() as poll:
        began = perf_counter()
        for _ in range(len(plan.restarts) + _IN_FLIGHT):
            if following := next(ready, None):
                connection, request = following
                poll.register(connection, select.EPOLLIN)
                connection.send(request)
                waiting[connection.fileno()] = connection
            while waiting and (len(waiting) >= _IN_FLIGHT or following is None):
                for descriptor, _ in poll.poll(60):
                    connection = waiting.pop(descriptor)
                    answer = connection.recv(65536)
                    connection.close()
                    if not answer.startswith(b"HTTP/1.1 200"):
                        raise SystemExit(f"An approval was refused: {answer.decode(errors='replace')}")
        return len(plan.restarts) / (perf_counter() - began)


if __name__ == "__main__":
    print(_approve(msgspec.json.decode(sys.stdin.buffer.read(), type=_Plan)))
