"""Sets up the workers of a service: shared memory, settings, the port, and the processes."""

import sys
from collections.abc import Sequence
from functools import partial
from socket import socket

from forewarn.config.settings import Settings
from forewarn.core.errors import BadInput
from forewarn.journal.port import SupportsFollowers
from forewarn.metadata.identity import Identity
from forewarn.metadata.listener import bind
from forewarn.wiring import Assembly, limits_of
from forewarn.workers import locks
from forewarn.workers.messages import WorkerSettings
from forewarn.workers.pool import WorkerPool
from forewarn.workers.process import ChildProcesses
from forewarn.workers.shared_memory import SharedMemory


def make_pool(assembly: Assembly, sockets: Sequence[socket] = ()) -> WorkerPool:
    """Return the workers of a service that is loaded; from now on its commits are published to them."""
    settings = assembly.settings
    if sys.platform != "linux":
        raise BadInput("workers need Linux; set workers to 0")
    if not isinstance(assembly.journal, SupportsFollowers):
        raise BadInput(f"workers need a journal that they can follow, such as sqlite:; it is {settings.journal!r}")
    directory = settings.journal_directory
    port = _reserve(settings, sockets, is_taken_over=bool(locks.holders(directory)))
    memory = SharedMemory.create(settings.workers)
    pool = WorkerPool(
        assembly.node,
        assembly.records,
        memory,
        worker_settings(settings, port),
        ChildProcesses(memory, sockets).start,
        end_others=partial(locks.end_others, directory),
    )
    assembly.node.writer.publisher = pool.publication
    assembly.before_leading = pool.prepare
    assembly.on_reconfigured = lambda changed: pool.configure(worker_settings(changed, port))
    return pool


def worker_settings(settings: Settings, port: int) -> WorkerSettings:
    return WorkerSettings(
        journal=settings.journal_name,
        journal_location=settings.journal_location,
        journal_directory=str(settings.journal_directory.absolute()),
        history=settings.kept_history.total_seconds(),
        host=settings.metadata.host,
        port=port,
        identity=settings.identity,
        default_vm=settings.default_vm,
        answer_ttl=settings.answer_ttl,
        hosts=(*settings.allowed_hosts, settings.metadata.host),
        limits=limits_of(settings),
        log_level=settings.log_level,
        log_format=settings.log_format,
        leader_timeout=settings.leader_timeout.total_seconds(),
    )


def _reserve(settings: Settings, sockets: Sequence[socket], *, is_taken_over: bool) -> int:
    """Return the port that the workers share; refuse one that another program listens on."""
    if sockets:
        return int(sockets[0].getsockname()[1])
    host, port = settings.metadata.host, settings.metadata.port
    if Identity(settings.identity) is Identity.TAP:
        return port
    if not is_taken_over:
        # Bound alone: workers of another service of this user would let themselves be joined.
        found = bind(host, port)
        port = port or int(found[0].getsockname()[1])
        for each in found:
            each.close()
    return port
