"""Where the service keeps its data: whether it may write there, has room, and finds a journal that is whole."""

import os
import shutil
import stat
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from forewarn.cli.doctoring.finding import DoctorReport

_LEAST = 1 << 30
_GIBIBYTE = 1 << 30
_AHEAD = timedelta(minutes=1)


def examine_storage(directory: Path, findings: DoctorReport) -> None:
    with findings.looking("data"):
        _examine_directory(directory, findings)
    with findings.looking("journal"):
        _examine_journal(directory, findings)


def _examine_directory(directory: Path, findings: DoctorReport) -> None:
    there = next(each for each in (directory.absolute(), *directory.absolute().parents) if each.exists())
    if not there.is_dir():
        findings.wrong("data", f"{there} is no directory; set data to one")
        return
    if os.name == "posix" and os.statvfs(there).f_flag & os.ST_RDONLY:
        findings.wrong(
            "data", f"the file system of {there} is read-only; mount it for writing, or set data elsewhere"
        )
        return
    if not os.access(there, os.W_OK | os.X_OK):
        findings.wrong(
            "data", f"this user may not write to {there}; run the service as its owner, or set data elsewhere"
        )
        return
    free = shutil.disk_usage(there).free
    is_sound = True
    if free < _LEAST:
        is_sound = False
        findings.wrong(
            "data",
            f"only {free / _GIBIBYTE:.1f} GiB are free where {there} is, and a full disk stops every change;"
            " free some, or set data elsewhere",
        )
    if os.name == "posix" and there == directory.absolute() and stat.S_IMODE(there.stat().st_mode) & 0o077:
        findings.unsure("data", f"others may look into {directory}, which holds secrets; chmod 700 it")
        is_sound = False
    if is_sound:
        made = "" if there == directory.absolute() else ", made at the first start"
        findings.ok("data", f"{directory}{made}; {free / _GIBIBYTE:.0f} GiB are free")


def _examine_journal(directory: Path, findings: DoctorReport) -> None:
    from forewarn.journal.codec import unpack
    from forewarn.journal.sqlite import database

    place = directory / database.NAME
    if not place.exists():
        findings.ok("journal", "none yet, made at the first start")
        return
    database.recognise(place)
    with database.reading(place) as connection:
        database.check(connection, place)
        _, last = database.bounds(connection)
        newest = [entry.at for entry in unpack(database.rows(connection, last - 1, 1), place, last - 1)]
    _examine_times(newest, findings)
    findings.ok("journal", f"whole up to revision {last}; 'forewarn journal verify' looks at every entry")


def _examine_times(newest: Iterable[datetime], findings: DoctorReport) -> None:
    for at in newest:
        if at > datetime.now(UTC) + _AHEAD:
            findings.wrong(
                "clock",
                f"the newest entry of the journal is from {at:%Y-%m-%d %H:%M} UTC, which is yet to come;"
                " set the clock",
            )
