"""Restarts that wait for approval, how a VM approves one, and the approvals that are durable."""

import socket
import subprocess
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from time import perf_counter
from uuid import UUID

import msgspec

from bench import fleets
from bench.wrk import TARGET
from forewarn.core.commands import OperateVm, VmOperation
from forewarn.core.decide import enact
from forewarn.core.facts import Announced, Approved, Entry
from forewarn.core.model import Caller, CallerKind
from forewarn.core.notice import Rules
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.wire import approval

_OPERATOR = Caller(CallerKind.OPERATOR, "bench")


class Restart(msgspec.Struct, frozen=True):
    """An event that the VM at an address may approve."""

    address: str
    event: str


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


def approve_one(port: int, restart: Restart) -> float:
    """Approve one of them; return the seconds until the answer."""
    with socket.create_connection(("127.0.0.1", port), 60, (restart.address, 0)) as connection:
        began = perf_counter()
        connection.send(approval_request(restart.event))
        answer = connection.recv(65536)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"An approval was refused: {answer.decode(errors='replace')}")
        return perf_counter() - began


def approval_request(event: str, target: str = TARGET) -> bytes:
    """Return the request by which a VM approves an event."""
    body = approval.encode([event])
    head = f"POST {target} HTTP/1.1\r\nHost: 169.254.169.254\r\nMetadata: true\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def durable_approvals(data: Path, acknowledged: int) -> list[Entry]:
    """Return the entries of a journal that hold an approval; each acknowledged one must be there."""
    journal = SqliteJournal(data)
    journal.load()
    found = [entry for entry in journal.entries() if any(isinstance(fact, Approved) for fact in entry.facts)]
    journal.close()
    if len(found) != acknowledged:
        raise SystemExit(f"{acknowledged} approvals were acknowledged, {len(found)} are in the journal.")
    return found
