"""The agent's memory on disk: it survives the agent, the reboot it was made for, and being cut off at any byte.

    9a3c51f0 {"format":1,"memory":{...}}          what was known when the file was begun
    07be44d1 {"type":"begun","event":...}         what has happened since, one fact a line, each with its CRC-32

A line that is not whole ends the file: it was being written when the power failed, and nothing had been done for it
yet. The file is begun anew, as a new file put in the place of the old one, at each start and when it has grown.
"""

import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from forewarn.agent.facts import Fact
from forewarn.agent.memory import Memory
from forewarn.core.errors import Unavailable
from forewarn.files import sync_directory, written

_GROWN = 1 << 20
"""Bytes after which the file is begun anew."""


_FORMAT = 1


class _Format(msgspec.Struct):
    format: int


class _Beginning(_Format):
    memory: Memory


_read_format = msgspec.json.Decoder(_Format).decode
_read_beginning = msgspec.json.Decoder(_Beginning).decode
_read_fact = msgspec.json.Decoder(Fact).decode
_encode = msgspec.json.Encoder().encode


class MemoryFile:
    """Keeps a memory: facts are durable when ``append`` returns."""

    def __init__(self, path: Path, *, is_kept: bool = True) -> None:
        self.memory = Memory()
        self.damage = ""
        """What was lost of the file that was found, in one sentence; empty if nothing."""
        self._path = path
        self._is_kept = is_kept
        self._file: BinaryIO | None = None
        self._length = 0
        self._began_with = 0

    def open(self) -> None:
        """Read what is there, and begin the file anew; raise Unavailable when that cannot be, or is not for us.

        A memory that is not kept begins empty, and touches no file.
        """
        if not self._is_kept:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            content = self._path.read_bytes() if self._path.exists() else b""
        except OSError as error:
            raise self._trouble(error) from None
        self._load(content)
        self._begin_anew()

    def append(self, facts: Iterable[Fact]) -> None:
        """Keep facts; on Unavailable none of them is kept, and the memory is as before."""
        facts = tuple(facts)
        if self._is_kept:
            self._write(b"".join(_line(_encode(fact)) for fact in facts))
        for fact in facts:
            self.memory.evolve(fact)

    def close(self) -> None:
        self._close()

    def _write(self, lines: bytes) -> None:
        # A memory that is large itself is not written whole for every few facts.
        if self._file is None or self._length > max(_GROWN, 2 * self._began_with):
            self._begin_anew()
        assert self._file is not None  # noqa: S101 begun above
        try:
            self._file.write(lines)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            # Half a line may stand there now, so the next append begins the file anew.
            self._close()
            raise self._trouble(error) from None
        self._length += len(lines)

    def _close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _begin_anew(self) -> None:
        self._close()
        beginning = _line(_encode(_Beginning(_FORMAT, self.memory)))
        new = self._path.with_name(self._path.name + ".new")
        try:
            with written(new) as file:
                file.write(beginning)
            new.replace(self._path)
            sync_directory(self._path.parent)
            self._file = self._path.open("ab")
        except OSError as error:
            raise self._trouble(error) from None
        self._length = self._began_with = len(beginning)

    def _load(self, content: bytes) -> None:
        lines = _lines(content)
        read = 0
        try:
            for number, (line, end) in enumerate(lines):
                if number == 0:
                    self._check(_read_format(line).format)
                    self.memory = _read_beginning(line).memory
                else:
                    self.memory.evolve(_read_fact(line))
                read = end
        except msgspec.MsgspecError as error:
            self.damage = f"{self._path} was written by another version, and is read up to there: {error}"
        else:
            if read < len(content):
                self.damage = (
                    f"{self._path} ends in the middle of a line; its last {len(content) - read} bytes are lost"
                )
        if self.damage and read < len(content):
            self._set_aside(content)

    def _check(self, format_: int) -> None:
        if format_ != _FORMAT:
            raise Unavailable(
                f"the agent's memory {self._path} is of format {format_}, and this version knows {_FORMAT}: run the"
                " version that wrote it, or move the file away and put back by hand what its handlers did"
            )

    def _set_aside(self, content: bytes) -> None:
        aside = self._path.with_name(self._path.name + ".damaged")
        with suppress(OSError):  # it is for somebody who wants to look; nothing depends on it
            aside.write_bytes(content)

    def _trouble(self, error: OSError) -> Unavailable:
        return Unavailable(f"the agent's memory {self._path} cannot be kept: {error.strerror or error}")


def _line(said: bytes) -> bytes:
    return b"%08x %b\n" % (zlib.crc32(said), said)


def _lines(content: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the lines that are whole, each with where it ends, up to the first that is not."""
    at = 0
    while (end := content.find(b"\n", at)) >= 0:
        checksum, _, said = content[at:end].partition(b" ")
        if checksum != b"%08x" % zlib.crc32(said):
            return
        at = end + 1
        yield said, at
