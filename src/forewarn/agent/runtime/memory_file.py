"""Stores the agent's memory on disk; it survives crashes at any byte, restarts and reboots.

    9a3c51f0 {"format":1,"memory":{...}}          the memory when the file was written
    07be44d1 {"type":"begun","event":...}         the facts since then, one per line, each with its CRC-32

An incomplete last line was being written when the power failed; the agent had not acted on it yet, and it is dropped.
A line with a wrong checksum inside the file was damaged later. It is skipped, the others are read, and the results of
calls that were under way before it are unknown: such a call is not repeated. Nor is one that the line may have
recorded: a handler that does not repeat is asked before its first call for an event that was known by then.
The file is rewritten atomically at each start and when it has grown.
"""

import os
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from forewarn.agent.decision.facts import AgentFact
from forewarn.agent.decision.memory import AgentMemory
from forewarn.core.errors import Unavailable
from forewarn.files import sync_directory, write_atomically

_GROWN = 1 << 20
"""Bytes after which the file is rewritten."""


_FORMAT = 1
_PREFIX_LENGTH = 9
"""Length of the checksum and the blank before the record."""


class _MemoryFormat(msgspec.Struct):
    format: int


class _MemoryHeader(_MemoryFormat):
    memory: AgentMemory


_read_format = msgspec.json.Decoder(_MemoryFormat).decode
_read_beginning = msgspec.json.Decoder(_MemoryHeader).decode
_read_fact = msgspec.json.Decoder(AgentFact).decode
_encode = msgspec.json.Encoder().encode


class MemoryFile:
    """A memory with its file: facts are durable when ``append`` returns."""

    def __init__(self, path: Path, *, is_kept: bool = True, grown: int = _GROWN) -> None:
        self.memory = AgentMemory()
        self.torn = ""
        """What ``open`` dropped from the end of the file, in one sentence; empty if nothing."""
        self.damage = ""
        """What ``open`` could not read inside the file, and the remedy; empty if nothing."""
        self._path = path
        self._is_kept = is_kept
        self._grown = grown
        self._file: BinaryIO | None = None
        self._length = 0
        self._began_with = 0

    def open(self) -> None:
        """Read the file and rewrite it; raise Unavailable if that fails or the format is unknown.

        A memory that is not kept starts empty and touches no file.
        """
        if not self._is_kept:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            content = self._path.read_bytes() if self._path.exists() else b""
        except OSError as error:
            raise self._unavailable(error) from None
        self._load(content)
        self._rewrite()

    def append(self, facts: Iterable[AgentFact]) -> None:
        """Store and apply facts; on Unavailable none of them is stored, and the memory is unchanged."""
        facts = tuple(facts)
        if self._is_kept:
            self._write(b"".join(_line(_encode(fact)) for fact in facts))
        for fact in facts:
            self.memory.evolve(fact)

    def close(self) -> None:
        self._close()

    def _write(self, lines: bytes) -> None:
        # A large memory is not rewritten for every few facts.
        if self._file is None or self._length > max(self._grown, 2 * self._began_with):
            self._rewrite()
        assert self._file is not None  # noqa: S101 opened above
        try:
            self._file.write(lines)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            # The file may end in half a line now, so the next append rewrites it.
            self._close()
            raise self._unavailable(error) from None
        self._length += len(lines)

    def _close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _rewrite(self) -> None:
        self._close()
        beginning = _line(_encode(_MemoryHeader(_FORMAT, self.memory)))
        new = self._path.with_name(self._path.name + ".new")
        try:
            with write_atomically(new) as file:
                file.write(beginning)
            new.replace(self._path)
            sync_directory(self._path.parent)
            self._file = self._path.open("ab")
        except OSError as error:
            raise self._unavailable(error) from None
        self._length = self._began_with = len(beginning)

    def _load(self, content: bytes) -> None:
        lines = content.split(b"\n")
        rest = lines.pop()
        if _is_whole(rest[:-1]):  # not incomplete: its last byte was a newline
            lines.append(rest)
            rest = b""
        # After a power failure a file system may also leave a run of zeros.
        while lines and lines[-1].endswith(b"\0") and not _is_whole(lines[-1]):
            rest = lines.pop() + b"\n" + rest
        damaged: dict[int, str] = {}
        for number, line in enumerate(lines, 1):
            try:
                if not _is_whole(line):
                    raise ValueError("its checksum is wrong")  # noqa: TRY301 - reported like a decoding error
                self._apply_line(line[_PREFIX_LENGTH:], is_first=number == 1)
            except ValueError as error:
                damaged[number] = str(error)
                self.memory.mark_doubtful(f"{self._path} is damaged in line {number}")
        if rest and not lines:
            damaged[1] = "it is incomplete"  # not a crash: the first line is replaced atomically
            self.memory.mark_doubtful(f"{self._path} is incomplete")
        elif rest:
            self.torn = f"{self._path} ended in the middle of a line; its last {len(rest)} bytes are dropped"
        if damaged:
            aside = self._path.with_name(self._path.name + ".damaged")
            self.damage = (
                f"{self._path}, {_list(damaged)}: {next(iter(damaged.values()))}."
                f" All other lines were read; the original file is in {aside}."
                " Handler calls that were under way are not repeated: see 'forewarn agent status' for the failed"
                " ones, complete or undo them by hand, and check the disk"
            )
            self._set_aside(aside, content)

    def _apply_line(self, said: bytes, *, is_first: bool) -> None:
        if is_first:
            self._check(_read_format(said).format)
            self.memory = _read_beginning(said).memory
        else:
            self.memory.evolve(_read_fact(said))

    def _check(self, format_: int) -> None:
        if format_ != _FORMAT:
            raise Unavailable(
                f"the agent's memory {self._path} has format {format_}, and this version reads format {_FORMAT}:"
                " run the version that wrote it, or move the file away and undo by hand what the handlers did"
            )

    def _set_aside(self, aside: Path, content: bytes) -> None:
        # The copy is for inspection; nothing depends on it.
        with suppress(OSError), write_atomically(aside) as file:
            file.write(content)

    def _unavailable(self, error: OSError) -> Unavailable:
        return Unavailable(f"the agent's memory {self._path} cannot be written: {error.strerror or error}")


def _line(said: bytes) -> bytes:
    return b"%08x %b\n" % (zlib.crc32(said), said)


def _is_whole(line: bytes) -> bool:
    return line[:_PREFIX_LENGTH] == b"%08x " % zlib.crc32(line[_PREFIX_LENGTH:])


def _list(damaged: Iterable[int]) -> str:
    numbers = [str(number) for number in damaged]
    shown = ", ".join(numbers[:10]) + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")
    return f"line {shown}" if len(numbers) == 1 else f"lines {shown}"
