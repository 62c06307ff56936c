"""A copy of a data directory in one file, made beside a running service and verified before it counts.

    manifest.json      what is in the file, with the SHA-256 of each member
    journal.sqlite3    the journal as it stood at one revision
    snapshot-REVISION  those that belong to it: where old entries were deleted, the fleet begins from one
    driver/EVENT       what a driver remembers of the events that are under way

The file is a tar archive for its owner alone, because a journal holds secrets. It gets its name when it is whole.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from forewarn.core.errors import BadInput, Refused
from forewarn.files import FileLock, InUse, private_directory, restrict_files, sync_directory
from forewarn.journal.port import DamagedJournal
from forewarn.journal.sqlite import backup_archive, database, snapshot_files, write_ahead_log
from forewarn.journal.sqlite.backup_archive import DRIVER, BackupManifest
from forewarn.journal.sqlite.errors import translate_errors
from forewarn.journal.sqlite.recovery import recover
from forewarn.journal.sqlite.verification import VerifyReport, verify

_ATTEMPTS = 5
"""How often everything is copied again because the service replaced its snapshots meanwhile."""


def back_up(directory: Path, target: Path, now: datetime, *, overwrite: bool = False) -> BackupManifest:
    """Write a verified copy of a directory's journal to a file; return what it holds.

    A service may run on the directory. If it is interrupted, there is either no file of that name or a complete one.
    """
    place = directory / database.NAME
    database.recognise(place)
    with translate_errors(target):
        if target.is_dir():
            raise BadInput(f"{target} is a directory; name a file")
        if target.exists() and not target.is_file():  # to replace a device would harm the whole machine
            raise BadInput(f"{target} is not a regular file; name another")
        if target.exists() and not overwrite:
            raise Refused(f"{target} exists; name another file, or replace it with --overwrite")
        with _staging_directory(target) as staging:
            report = _copy(directory, staging)
            manifest = _describe(directory, staging, report, now)
            packed = target.with_name(f"{staging.name}.tar")
            backup_archive.pack(staging, packed, manifest)
            try:
                backup_archive.check(packed)
                _publish(packed, target, overwrite=overwrite)
            finally:
                packed.unlink(missing_ok=True)
    return manifest


@contextmanager
def _staging_directory(target: Path) -> Iterator[Path]:
    """Yield an empty directory beside the target, for one process; what a killed one left there is removed."""
    staging = target.with_name(f".{target.name}.partial")
    lock = FileLock(target.with_name(f"{staging.name}.lock"))
    lock.acquire()
    try:
        shutil.rmtree(staging, ignore_errors=True)
        private_directory(staging)
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        lock.path.unlink(missing_ok=True)
        lock.release()


def _copy(directory: Path, staging: Path) -> VerifyReport:
    """Copy snapshots, then the journal, and verify that they are one; again where the service replaced a snapshot."""
    _check_log(directory)
    for _ in range(_ATTEMPTS):
        found = snapshot_files.list_snapshots(directory)
        for _, path in found:
            with suppress(FileNotFoundError):  # a newer one has just replaced it
                shutil.copyfile(path, staging / path.name)
        _copy_journal(directory / database.NAME, staging / database.NAME)
        restrict_files(staging.iterdir())
        report = verify(staging)
        if report.ok:
            return report
        if snapshot_files.list_snapshots(directory) == found:
            break
        for path in staging.iterdir():
            path.unlink()
    raise DamagedJournal(f"the journal in {directory} is damaged, and no backup was written: {report.problems[0]}")


def _copy_journal(source: Path, target: Path) -> None:
    with database.reading(source) as connection, closing(sqlite3.connect(target)) as copy:
        try:
            connection.backup(copy)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL:  # which is the copy: the source is only read
                with translate_errors(target):
                    raise
            raise


def _check_log(directory: Path) -> None:
    """Refuse a journal whose log lost commits; beside a running service, which has looked, nothing can be said."""
    lock = FileLock(directory / "lock")
    place = directory / database.NAME
    if not lock.path.exists():
        return
    try:
        lock.acquire()
    except InUse:
        return
    try:
        with database.reading(place) as connection:
            ((page_size,),) = connection.execute("PRAGMA page_size")
            database.bounds(connection)
            write_ahead_log.check(place, page_size)
    finally:
        lock.release()


def _describe(directory: Path, staging: Path, report: VerifyReport, now: datetime) -> BackupManifest:
    """Copy the records of what is under way, and say what was copied."""
    with database.reading(staging / database.NAME) as connection:
        fleet = recover(connection, staging).fleet
    under_way = [event.id for event in fleet.events.values() if event.attempted_at]
    for id_ in under_way:
        if (record := directory / DRIVER / id_).is_file():
            private_directory(staging / DRIVER)
            shutil.copyfile(record, staging / DRIVER / id_)
    for suffix in ("-wal", "-shm"):
        staging.joinpath(database.NAME + suffix).unlink(missing_ok=True)
    return BackupManifest(
        made_at=now,
        revision=report.last_revision,
        first_revision=report.first_revision,
        entries=report.entries,
        snapshots=report.snapshots,
        last_at=fleet.last_at,
        unfinished=len(fleet.events),
        under_way=len(under_way),
        files=backup_archive.checksums(staging),
    )


def _publish(packed: Path, target: Path, *, overwrite: bool) -> None:
    if overwrite:
        packed.replace(target)
    else:
        try:
            os.link(packed, target)
        except FileExistsError:
            raise Refused(f"{target} was made meanwhile; name another file, or replace it with --overwrite") from None
        except OSError:  # this file system has no links
            packed.rename(target)
    sync_directory(target.absolute().parent)
