"""A backup's file: a tar archive that begins with a manifest, and is read only where every checksum is right."""

import hashlib
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import IO

import msgspec

from forewarn import __version__
from forewarn.core.errors import BadInput
from forewarn.files import PRIVATE, write_atomically
from forewarn.journal.port import DamagedJournal
from forewarn.journal.sqlite import database
from forewarn.journal.sqlite.errors import translate_errors

DRIVER = "driver"
"""The directory in which drivers keep their records, beside the journal."""
_FORMAT = 1
_MANIFEST = "manifest.json"
_LARGEST_MANIFEST = 64 * 1024 * 1024
_EVENT = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_MEMBER = re.compile(rf"{re.escape(database.NAME)}|snapshot-[0-9]+|{DRIVER}/{_EVENT}")
_CHUNK = 1 << 20

Member = tuple[str, Iterator[bytes]]
"""The name of a file in a backup, and its content."""


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds."""

    format: int = _FORMAT
    version: str = __version__
    """The release that made it."""
    made_at: datetime
    revision: int
    first_revision: int
    entries: int
    snapshots: int
    last_at: datetime
    """When its last entry was recorded."""
    unfinished: int
    """How many events were Scheduled or Started."""
    under_way: int
    """How many of them a driver had been called for."""
    files: dict[str, str]
    """The SHA-256 of each file."""


def checksums(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a directory that belongs into a backup, by its name."""
    names = (path.relative_to(directory).as_posix() for path in sorted(directory.rglob("*")) if path.is_file())
    return {name: _sum(directory / name) for name in names if _MEMBER.fullmatch(name)}


def pack(directory: Path, target: Path, manifest: BackupManifest) -> None:
    """Write the files that a manifest names into an archive, durably."""
    with write_atomically(target) as out, tarfile.open(fileobj=out, mode="w") as tar:
        said = msgspec.json.encode(manifest)
        tar.addfile(_info(_MANIFEST, len(said), manifest), BytesIO(said))
        for name in manifest.files:
            with (directory / name).open("rb") as content:
                tar.addfile(_info(name, (directory / name).stat().st_size, manifest), content)


def check(archive: Path) -> BackupManifest:
    """Compare every file in an archive with its checksum; raise what is wrong with it."""
    with open_archive(archive) as (manifest, members):
        for _, content in members:
            for _ in content:
                pass
    return manifest


@contextmanager
def open_archive(archive: Path) -> Iterator[tuple[BackupManifest, Iterator[Member]]]:
    """Yield what a backup holds, and its files, each of which is checked once all of it was read."""
    if not archive.is_file():
        raise BadInput(f"there is no file {archive}; name a file that 'forewarn backup' made")
    with _reading(archive):
        tar = tarfile.open(archive, "r:")  # noqa: SIM115 - closed below, after errors of its reader
    with tar:
        with _reading(archive):
            manifest = _manifest(archive, tar)
        yield manifest, _members(archive, tar, manifest)


@contextmanager
def _reading(archive: Path) -> Iterator[None]:
    """Turn what can go wrong with the archive itself into an error about it."""
    with translate_errors(archive):
        try:
            yield
        except (tarfile.TarError, EOFError) as error:
            raise _no_backup(archive) from error


def _manifest(archive: Path, tar: tarfile.TarFile) -> BackupManifest:
    first = tar.next()
    content = tar.extractfile(first) if first and first.isreg() and first.size <= _LARGEST_MANIFEST else None
    if first is None or first.name != _MANIFEST or content is None:
        raise _no_backup(archive)
    said = content.read()
    try:
        format_ = msgspec.json.decode(said, type=dict[str, object]).get("format")
        if isinstance(format_, int) and format_ > _FORMAT:
            raise BadInput(f"{archive} has format {format_} of a newer release; restore it with that release")
        return msgspec.json.decode(said, type=BackupManifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(archive, _MANIFEST) from error


def _members(archive: Path, tar: tarfile.TarFile, manifest: BackupManifest) -> Iterator[Member]:
    missing = dict(manifest.files)
    while member := _next(archive, tar):
        content = tar.extractfile(member) if member.isreg() else None
        if content is None or member.name not in missing or not _MEMBER.fullmatch(member.name):
            raise _damaged(archive, member.name)
        yield member.name, _checked(content, archive, member.name, missing)
    if missing:
        raise _damaged(archive, next(iter(missing)))


def _next(archive: Path, tar: tarfile.TarFile) -> tarfile.TarInfo | None:
    with _reading(archive):
        return tar.next()


def _checked(content: IO[bytes], archive: Path, name: str, missing: dict[str, str]) -> Iterator[bytes]:
    summed = hashlib.sha256()
    while True:
        with _reading(archive):
            chunk = content.read(_CHUNK)
        if not chunk:
            break
        summed.update(chunk)
        yield chunk
    if summed.hexdigest() != missing.pop(name):
        raise _damaged(archive, name)


def _sum(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _info(name: str, size: int, manifest: BackupManifest) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, PRIVATE, int(manifest.made_at.timestamp())
    return info


def _damaged(archive: Path, name: str) -> DamagedJournal:
    return DamagedJournal(f"{archive} is damaged at {name}: take another backup; nothing was changed")


def _no_backup(archive: Path) -> BadInput:
    return BadInput(f"{archive} is not a complete backup of Forewarn: name a file that 'forewarn backup' made")
