"""Whether the end that SQLite found in its write-ahead log is the end of what was written.

SQLite reads the log up to the first frame that is not whole, and takes the rest for what a power failure left of
the last commit. Damage in the middle of the log looks the same to it, and would silently take every later commit
away. But a commit is begun only after the one before it is on the disk: where several whole-looking commits
stand behind the end, it is not the end.

The layout of log and shared memory is part of SQLite's published file format.
"""

import os
import struct
from pathlib import Path

from forewarn.journal.port import DamagedJournal
from forewarn.journal.sqlite.errors import describe_damage

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_END = struct.Struct("=I")
_END_AT = 16
"""Where the shared memory holds the number of the last frame that counts."""
_KEPT_OPEN: dict[Path, int] = {}
"""One descriptor per shared memory, kept open while the path has that file. Closing any descriptor of the file would
release every lock that SQLite holds on it in this process, and the next process to open the journal would truncate
the file while it is in use."""
_LEFT_OVER = 2
"""A torn last commit, and one that a crash kept from being acknowledged, may stand behind the end."""


def check(path: Path, page_size: int) -> int:
    """Refuse a journal whose log is damaged before its end; some connection must have read from it.

    Return how many whole commits stand behind the end: they were not acknowledged, and a crash could bring them back.
    """
    log, memory = path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")
    if not log.exists() or not memory.exists():
        return 0
    found = os.pread(_descriptor_of(memory.absolute()), _END_AT + _END.size, 0)
    (end,) = _END.unpack_from(found.ljust(_END_AT + _END.size, b"\0"), _END_AT)
    behind, whole = _commits_behind(log, end, page_size)
    if behind > _LEFT_OVER:
        raise DamagedJournal(describe_damage(log, f"{behind} commits stand behind a damaged one"))
    return whole


def _descriptor_of(memory: Path) -> int:
    """Return the descriptor of a shared memory; close those of files that no longer have their path."""
    for path, descriptor in list(_KEPT_OPEN.items()):
        if not _is_at(path, descriptor):
            os.close(_KEPT_OPEN.pop(path))
    if memory not in _KEPT_OPEN:
        _KEPT_OPEN[memory] = os.open(memory, os.O_RDONLY)
    return _KEPT_OPEN[memory]


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError:
        return False


def _commits_behind(log: Path, end: int, page_size: int) -> tuple[int, int]:
    """Count the commits of the log's present round behind frame ``end``, and those that the file does not cut off."""
    step = _FRAME.size + page_size
    commits = whole = 0
    with log.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return 0, 0
        # Frames of an earlier round carry another salt. A damaged header tells none, so every frame is suspect.
        salt = _HEADER.unpack(header)[4:6] if _is_whole(header) else None
        file.seek(end * step, 1)
        while len(frame := file.read(_FRAME.size)) == _FRAME.size:
            _, pages_after_commit, *frame_salt = _FRAME.unpack(frame)[:4]
            if pages_after_commit and salt in (None, tuple(frame_salt)):
                commits += 1
                whole += file.tell() + page_size <= size  # a full disk cuts the last one off
            file.seek(page_size, 1)
    return commits, whole


def _is_whole(header: bytes) -> bool:
    """Compare the checksum of a log's header, which is made of words in the order that its magic number tells."""
    words = struct.unpack(">6I" if header[3] & 1 else "<6I", header[:24])
    one = two = 0
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return (one, two) == _HEADER.unpack(header)[6:8]
