"""Checks the data directory: permissions, free space, and an intact journal."""

import os
import shutil
import stat
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from forewarn import plugin_loader
from forewarn.cli.doctoring.finding import DoctorReport
from forewarn.config.settings import POSTGRESQL, SQLITE, Settings

_LEAST = 1 << 30
_GIBIBYTE = 1 << 30
_AHEAD = timedelta(minutes=1)


def examine_storage(settings: Settings, findings: DoctorReport) -> None:
    with findings.looking("data"):
        _examine_directory("data", settings.data, findings)
    with findings.looking("journal"):
        if settings.journal_name == POSTGRESQL:
            from forewarn.cli.doctoring.database import examine_database

            examine_database(settings, findings)
            return
        if settings.journal_name != SQLITE:
            name = settings.journal_name
            plugin_loader.load("forewarn.journals", name)
            findings.unsure("journal", f"{name!r} is installed, but not checked: only our own can be")
            return
        if settings.journal_directory != settings.data:
            _examine_directory("journal", settings.journal_directory, findings)
        _examine_journal(settings.journal_directory, findings)


def _examine_directory(setting: str, directory: Path, findings: DoctorReport) -> None:
    there = next(each for each in (directory.absolute(), *directory.absolute().parents) if each.exists())
    if not there.is_dir():
        findings.wrong(setting, f"{there} is not a directory; set {setting} to one")
        return
    if os.name == "posix" and os.statvfs(there).f_flag & os.ST_RDONLY:
        findings.wrong(
            setting, f"the file system of {there} is read-only; mount it for writing, or set {setting} elsewhere"
        )
        return
    if not os.access(there, os.W_OK | os.X_OK):
        findings.wrong(
            setting, f"this user may not write to {there}; run the service as its owner, or set {setting} elsewhere"
        )
        return
    free = shutil.disk_usage(there).free
    is_sound = True
    if free < _LEAST:
        is_sound = False
        findings.wrong(
            setting,
            f"only {free / _GIBIBYTE:.1f} GiB are free where {there} is, and a full disk stops every change;"
            f" free some, or set {setting} elsewhere",
        )
    if os.name == "posix" and there == directory.absolute() and stat.S_IMODE(there.stat().st_mode) & 0o077:
        findings.unsure(setting, f"others may look into {directory}, which holds secrets; chmod 700 it")
        is_sound = False
    if is_sound:
        made = "" if there == directory.absolute() else ", made at the first start"
        findings.ok(setting, f"{directory}{made}; {free / _GIBIBYTE:.0f} GiB are free")


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
