"""The agent's memory on disk: durable, readable after being cut off anywhere, and never grown without end."""

import os
import zlib
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.agent.decision.facts import AgentFact, ApprovalGiven, CallBegun, CallEnded, DocumentShown, HoldPlaced
from forewarn.agent.decision.memory import AgentMemory
from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed
from forewarn.agent.runtime.memory_file import MemoryFile
from forewarn.core.errors import Unavailable
from forewarn.wire.document import Document
from tests.agent.harness import START, event

FACTS: tuple[AgentFact, ...] = (
    DocumentShown(Document(7, (event(), event("e2", type="Wombat", source=None, not_before=None))), START, "boot"),
    CallBegun("e1", "drain", Direction.DO, 1, START),
    CallEnded("e1", "drain", Direction.DO, HandlerDone({"was": "réady"}, "drained"), START),
    HoldPlaced("e1", "database", START),
    ApprovalGiven("e1", START),
)


def opened(path: Path, grown: int = 1 << 20) -> MemoryFile:
    file = MemoryFile(path, grown=grown)
    file.open()
    return file


def fold(facts: tuple[AgentFact, ...]) -> AgentMemory:
    memory = AgentMemory()
    for fact in facts:
        memory.evolve(fact)
    return memory


def sure(memory: AgentMemory) -> AgentMemory:
    """Return a memory without its doubts."""
    memory.is_doubtful = False
    for known in memory.events.values():
        known.is_doubtful = False
    return memory


def write(path: Path) -> bytes:
    file = opened(path)
    for fact in FACTS:
        file.append([fact])
    file.close()
    return path.read_bytes()


def test_what_was_appended_is_there_again(tmp_path: Path) -> None:
    """Every record comes back as it was, words that nobody knows included."""
    write(tmp_path / "memory")

    file = opened(tmp_path / "memory")

    assert file.memory == fold(FACTS)
    assert file.damage == ""
    file.close()


@pytest.mark.end_to_end  # thorough, and slow for it
def test_a_file_cut_off_at_any_byte_gives_what_was_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fact whose line is whole is there, none that is not, and the agent can go on writing."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # what a disk keeps is not tried here, and it takes its time
    whole = write(tmp_path / "memory")
    ends = [number + 1 for number, byte in enumerate(whole) if byte == ord("\n")]
    for length in range(len(whole) + 1):
        path = tmp_path / "cut"
        path.write_bytes(whole[:length])
        file = opened(path)
        lines = sum(end <= length for end in ends)

        assert file.memory.is_doubtful == bool(file.damage)
        assert sure(file.memory) == fold(FACTS[: max(lines - 1, 0)])
        assert bool(file.torn or file.damage) == (length not in (0, *ends))
        assert bool(file.damage) == (0 < length < ends[0])  # the first line is never written in part
        file.append(FACTS[max(lines - 1, 0) :])
        assert file.memory == fold(FACTS)
        file.close()
        again = opened(path)
        assert sure(again.memory) == fold(FACTS)
        again.close()


@given(at=st.integers(0, 2_000), bit=st.integers(0, 7))
def test_a_flipped_bit_is_noticed_and_repeats_nothing(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int
) -> None:
    """It is told, what was found is set aside, and a handler that was done is done or unknown, never to be called."""
    directory = tmp_path_factory.mktemp("memory")
    whole = bytearray(write(directory / "memory"))
    whole[at % (len(whole) - 1)] ^= 1 << bit
    (directory / "memory").write_bytes(whole)

    with closing(opened(directory / "memory")) as file:
        assert file.damage
        assert (directory / "memory.damaged").read_bytes() == whole
        file.memory.mark_calls_interrupted()
        call = file.memory.events["e1"].steps["drain"].do
        assert call
        assert isinstance(call.result, HandlerDone | HandlerFailed)


@pytest.mark.parametrize("line", range(1, len(FACTS) + 2))
def test_damage_in_a_line_is_an_error_that_names_it_and_loses_no_other_line(tmp_path: Path, line: int) -> None:
    """Also when it is the document that is lost: what was done for its events is known, and put back later."""
    lines = write(tmp_path / "memory").splitlines(keepends=True)
    lines[line - 1] = lines[line - 1].replace(b'"', b"'", 1)
    (tmp_path / "memory").write_bytes(b"".join(lines))

    with closing(opened(tmp_path / "memory")) as file:
        assert f"{tmp_path}/memory, line {line}: its checksum is wrong." in file.damage
        assert "memory.damaged" in file.damage
        assert not file.torn
        known = file.memory.events["e1"]
        assert bool(known.approved_at) == (line != 6)
        assert list(known.holds) == ([] if line == 5 else ["database"])
        do = known.steps["drain"].do
        assert do
        assert isinstance(do.result, HandlerFailed if line == 4 else HandlerDone)
        file.append([DocumentShown(Document(9, ()), START)])
        assert file.memory.events["e1"].is_gone
    again = opened(tmp_path / "memory")
    assert not again.damage
    again.close()


@pytest.mark.parametrize("line", [1, 3])
def test_an_event_with_lost_facts_is_doubtful(tmp_path: Path, line: int) -> None:
    """Its handlers may have been called: the memory of an earlier agent is lost, or that a call was begun."""
    lines = write(tmp_path / "memory").splitlines(keepends=True)[:3]
    if line == 1:
        opened(tmp_path / "memory").close()  # it writes the memory into one line
        lines = [(tmp_path / "memory").read_bytes()]
    lines[line - 1] = lines[line - 1].replace(b'"', b"'", 1)
    (tmp_path / "memory").write_bytes(b"".join(lines))

    with closing(opened(tmp_path / "memory")) as file:
        file.append([DocumentShown(Document(9, (event(),)), START)])
        file.append([DocumentShown(Document(10, (event(), event("e3"))), START)])
        assert not file.memory.events["e1"].steps
        assert {name: known.is_doubtful for name, known in file.memory.events.items() if not known.is_gone} == {
            "e1": True,
            "e3": False,
        }


@pytest.mark.parametrize(("before", "after"), [(b"\n", b"\x0b"), (b" ", b"\0")])
def test_a_bit_that_flips_in_the_last_line_is_damage(tmp_path: Path, before: bytes, after: bytes) -> None:
    """The line was written to its end, so that the agent may have acted on it."""
    whole = write(tmp_path / "memory")
    start, _, end = whole.rpartition(before)
    (tmp_path / "memory").write_bytes(start + after + end)

    with closing(opened(tmp_path / "memory")) as file:
        assert file.damage
        assert not file.torn
        assert file.memory.is_doubtful


@pytest.mark.parametrize("end", [b"0", b"9a3c51f0 {", b"\0" * 40, b"\0" * 9 + b"\n" + b"\0" * 9, b"12\0\n"])
def test_a_torn_end_is_dropped(tmp_path: Path, end: bytes) -> None:
    """What was being written when the power failed, zeros included, is no damage."""
    whole = write(tmp_path / "memory")
    (tmp_path / "memory").write_bytes(whole + end)

    with closing(opened(tmp_path / "memory")) as file:
        assert file.memory == fold(FACTS)
        assert f"its last {len(end)} bytes are dropped" in file.torn
        assert not file.damage
    assert not (tmp_path / "memory.damaged").exists()


def test_the_file_is_begun_anew_when_it_has_grown(tmp_path: Path) -> None:
    """What is known stays, and what led to it goes."""
    file = opened(tmp_path / "memory", grown=2_000)
    file.append(FACTS)
    for _ in range(200):
        file.append([HoldPlaced("e1", "database", START)])

    assert (tmp_path / "memory").stat().st_size < 4_000
    assert file.memory == fold(FACTS)
    file.close()


def test_what_cannot_be_kept_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """The memory is as before, and the next append that can be kept is."""
    place = tmp_path / "state"
    file = opened(place / "memory")
    file.append(FACTS[:1])
    file.close()
    (place / "memory").unlink()
    place.rmdir()
    place.write_text("in the way")

    with pytest.raises(Unavailable, match=r"memory .* cannot be written: Not a directory"):
        file.append(FACTS[1:])
    assert file.memory == fold(FACTS[:1])
    place.unlink()
    place.mkdir()
    file.append(FACTS[1:])
    file.close()

    again = opened(place / "memory")
    assert again.memory == fold(FACTS)
    again.close()


def test_a_dry_run_touches_no_file(tmp_path: Path) -> None:
    """It remembers for itself alone."""
    file = MemoryFile(tmp_path / "memory", is_kept=False)
    file.open()
    file.append(FACTS)

    assert file.memory == fold(FACTS)
    assert list(tmp_path.iterdir()) == []


def test_a_memory_of_another_format_is_left_alone(tmp_path: Path) -> None:
    """Whoever went back to an older version is told, and nothing of it is lost."""
    said = b'{"format":2,"memory":"told otherwise"}'
    content = b"%08x %b\n" % (zlib.crc32(said), said)
    (tmp_path / "memory").write_bytes(content)

    with pytest.raises(
        Unavailable, match=r"has format 2, and this version reads format 1: run the version that wrote it"
    ):
        opened(tmp_path / "memory")
    assert (tmp_path / "memory").read_bytes() == content


def test_a_large_memory_is_not_written_whole_with_every_fact(tmp_path: Path) -> None:
    """It is begun anew when the facts outgrow it, however large it is."""
    file = opened(tmp_path / "memory", grown=100)
    file.append(FACTS)
    file.append([ApprovalGiven("e1", START)])
    before = (tmp_path / "memory").stat().st_ino
    file.append([ApprovalGiven("e1", START)])

    assert (tmp_path / "memory").stat().st_ino == before
    file.close()


def test_facts_are_on_the_disk_before_the_agent_acts_on_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut must not forget a call that was begun."""
    synced: list[int] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        sync(descriptor)
        synced.append(os.fstat(descriptor).st_size)

    path = tmp_path / "memory"
    with closing(opened(path)) as file:
        monkeypatch.setattr(os, "fsync", noted)
        sizes = []
        for fact in FACTS:
            file.append([fact])
            sizes.append(path.stat().st_size)

    assert synced == sizes
