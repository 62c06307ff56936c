"""How the workers of a service are set up: what is refused before anything is started."""

import asyncio
import socket
from datetime import timedelta
from pathlib import Path

import pytest

from forewarn.clocks import ManualClock
from forewarn.config.settings import Settings
from forewarn.config.values import ListenAddress
from forewarn.core.errors import BadInput, Unavailable
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import Journal
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.metadata.limits import Limits
from forewarn.wiring import Assembly
from forewarn.workers.pool_setup import make_pool, worker_settings


def assembly_of(settings: Settings, journal: Journal) -> Assembly:
    clock = ManualClock()
    return Assembly(settings, clock, journal, SimulatedDriver.from_settings({}, clock, 1.0, settings.data))


def test_a_port_that_another_program_has_is_refused_before_a_worker_starts(tmp_path: Path) -> None:
    """Workers share the port with each other, and with nobody else."""

    async def story() -> None:
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            other.bind(("127.0.0.1", 0))
            other.listen()
            at = ListenAddress("127.0.0.1", other.getsockname()[1])
            settings = Settings(data=tmp_path, workers=2, metadata=at)
            with pytest.raises(Unavailable, match="another program listens there"):
                make_pool(assembly_of(settings, SqliteJournal(tmp_path)))

    asyncio.run(story())


def test_a_journal_that_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    """Each worker loads it while the leader writes."""

    async def story() -> None:
        settings = Settings(data=tmp_path, workers=2)
        with pytest.raises(BadInput, match="workers need a journal that they can follow"):
            make_pool(assembly_of(settings, MemoryJournal()))

    asyncio.run(story())


def test_a_port_that_is_not_chosen_is_the_same_for_all_workers(tmp_path: Path) -> None:
    """Port 0 is any free one; the pool publishes what the writer commits from then on."""

    async def story() -> None:
        settings = Settings(data=tmp_path, workers=2, metadata=ListenAddress("127.0.0.1", 0))
        assembly = assembly_of(settings, SqliteJournal(tmp_path))
        pool = make_pool(assembly)
        assert pool.port > 0
        assert assembly.node.writer.publisher is pool.publication
        assert assembly.before_leading == pool.prepare
        assert len(pool.views()) == 2

    asyncio.run(story())


def test_a_worker_gets_the_settings_that_concern_it(tmp_path: Path) -> None:
    """Names in Host include the address it listens on; paths are absolute."""
    settings = Settings(
        data=tmp_path,
        metadata=ListenAddress("::1", 80),
        allowed_hosts=("meta.example.org",),
        rate_limit=2.0,
        connections=7,
        leader_timeout=timedelta(minutes=2),
    )
    found = worker_settings(settings, 8080)

    assert (found.host, found.port, found.hosts) == ("::1", 8080, ("meta.example.org", "::1"))
    assert (found.journal, found.journal_directory) == ("sqlite", str(tmp_path))
    assert found.limits == Limits(rate=2.0, connections=7)
    assert found.leader_timeout == 120.0
