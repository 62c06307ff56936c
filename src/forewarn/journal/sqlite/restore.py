"""A data directory made from a backup: verified first, then changed at once, or not at all.

    restore.partial    the backup's files, being written and verified; it counts for nothing
    restore.ready      verified: from here on the directory is the backup's; what stands there is set aside in it
    restore.moving     the backup's files move in
    replaced-N         what was set aside

A service that starts, or the next restore, finishes what was cut off after ``restore.ready``. Records of drivers that
are there already are kept: they know what was done after the backup was made.
"""

import os
import shutil
from pathlib import Path

from forewarn.core.errors import Refused
from forewarn.files import FileLock, private_directory, sync_directory, write_atomically
from forewarn.journal.port import DamagedJournal
from forewarn.journal.sqlite import backup_archive, database, index
from forewarn.journal.sqlite.backup_archive import DRIVER, BackupManifest
from forewarn.journal.sqlite.errors import translate_errors
from forewarn.journal.sqlite.verification import verify

_PARTIAL, _READY, _MOVING = "restore.partial", "restore.ready", "restore.moving"
_ASIDE = "replaced"
_REPLACED = (f"{database.NAME}*", f"{index.NAME}*", "snapshot-*")


def restore(directory: Path, backup: Path, *, replace: bool = False) -> BackupManifest:
    """Make a directory what a backup holds; return what that is. It is refused while a service uses the directory."""
    with backup_archive.open_archive(backup):
        pass  # what is no backup is refused before a directory is made
    with translate_errors(directory):
        is_new = not directory.exists()
        private_directory(directory, parents=True)
        locks = [FileLock(directory / name) for name in ("lock", "fold-lock")]
        try:
            for lock in locks:
                lock.acquire()
            finish(directory)
            if not replace and any(path for pattern in _REPLACED for path in directory.glob(pattern)):
                raise Refused(
                    f"{directory} holds a journal; name another directory with --data,"
                    " or set that journal aside with --replace"
                )
            try:
                manifest = _unpack(backup, directory / _PARTIAL)
            except BaseException:
                if is_new:
                    shutil.rmtree(directory, ignore_errors=True)
                raise
            (directory / _PARTIAL).rename(directory / _READY)
            sync_directory(directory)
            finish(directory)
            for lock in locks:
                _give_to_owner(lock.path, directory)
        finally:
            for lock in locks:
                lock.release()
    return manifest


def finish(directory: Path) -> None:
    """Finish a restore that was cut off after its files were verified; the caller holds the lock."""
    moving = directory / _MOVING
    shutil.rmtree(directory / _PARTIAL, ignore_errors=True)
    if (directory / _READY).exists():
        for pattern in _REPLACED:
            for path in directory.glob(pattern):
                path.rename(directory / _READY / _ASIDE / path.name)
        sync_directory(directory / _READY / _ASIDE)
        (directory / _READY).rename(moving)
        sync_directory(directory)
    if not moving.exists():
        return
    if (moving / DRIVER).exists():
        private_directory(directory / DRIVER)
        _give_to_owner(directory / DRIVER, directory)
        for record in (moving / DRIVER).iterdir():
            if not (directory / DRIVER / record.name).exists():
                record.rename(directory / DRIVER / record.name)
        sync_directory(directory / DRIVER)
    for path in moving.iterdir():
        if path.is_file():
            path.rename(directory / path.name)
    if any((moving / _ASIDE).glob("*")):  # it may have left before this was cut off
        (moving / _ASIDE).rename(directory / f"replaced-{_next_number(directory)}")
    sync_directory(directory)
    shutil.rmtree(moving)


def _unpack(backup: Path, into: Path) -> BackupManifest:
    """Write a backup's files into a new directory, durably, and verify them."""
    try:
        for made in (into, into / _ASIDE):
            private_directory(made)
        with backup_archive.open_archive(backup) as (manifest, members):
            for name, content in members:
                private_directory((into / name).parent)
                with write_atomically(into / name) as out:
                    out.writelines(content)
        _verify(backup, into, manifest)
        for path in (into, *into.rglob("*")):
            _give_to_owner(path, into.parent)
            if path.is_dir():
                sync_directory(path)
    except BaseException:
        shutil.rmtree(into, ignore_errors=True)
        raise
    return manifest


def _verify(backup: Path, into: Path, manifest: BackupManifest) -> None:
    report = verify(into)
    if not report.ok or report.last_revision != manifest.revision:
        why = next(iter(report.problems), f"it ends at revision {report.last_revision}")
        raise DamagedJournal(f"{backup} holds a journal that is damaged: take another backup ({why})")
    for suffix in ("-wal", "-shm"):
        into.joinpath(database.NAME + suffix).unlink(missing_ok=True)


def _next_number(directory: Path) -> int:
    numbers = (path.name.removeprefix("replaced-") for path in directory.glob("replaced-*"))
    return 1 + max((int(number) for number in numbers if number.isdigit()), default=0)


def _give_to_owner(path: Path, directory: Path) -> None:
    """Let root's files be those of the user whose directory it is."""
    if hasattr(os, "chown") and os.geteuid() == 0:
        owner = directory.stat()
        os.chown(path, owner.st_uid, owner.st_gid)
