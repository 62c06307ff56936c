"""A disk that is really full: callers hear the truth, descriptors stay few, and room is all it takes to go on."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from forewarn.core.commands import ChangeFleet
from forewarn.core.errors import OutcomeUnknown, Unavailable
from forewarn.core.model import Host
from forewarn.journal.sqlite.journal import SqliteJournal
from tests.node.harness import OPERATOR, NodeHarness, run

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system with room for two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_full_disk_is_survived(small_disk: Path) -> None:
    """What was acknowledged is there, what was refused is not, and each load keeps no further descriptor."""
    directory, ballast = small_disk / "data", small_disk / "ballast"

    async def story(harness: NodeHarness) -> None:
        async def add(name: str) -> bool:
            hosts = tuple(Host(f"{name}-{number}") for number in range(100))
            try:
                await harness.node.submit(ChangeFleet(id=uuid4().hex, by=OPERATOR, hosts=hosts))
            except OutcomeUnknown:
                raise
            except Unavailable:
                harness.clock.advance(harness.node.writer.retry_after)
                return False
            return True

        with ballast.open("wb") as file:
            file.write(bytes(1_300_000))
        kept = {name for number in range(200) if await add(name := f"h{number}")}
        assert 0 < len(kept) < 200
        before = open_files()
        for _ in range(20):
            assert not await add("none")
        assert open_files() == before
        ballast.unlink()

        assert await add("last")
        assert {name.partition("-")[0] for name in harness.node.replica.fleet.hosts} == kept | {"last"}

    journal = SqliteJournal(directory)
    run(story, journal)
    journal.close()
