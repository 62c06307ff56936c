"""Checks the journal in PostgreSQL: rights, durability, standbys, clock."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from forewarn.cli.doctoring.finding import DoctorReport
from forewarn.config.settings import Settings

if TYPE_CHECKING:
    from forewarn.journal.postgres.examination import DatabaseExamination


def examine_database(settings: Settings, findings: DoctorReport) -> None:
    from forewarn.extras import advice, missing

    if lacking := missing("postgres"):
        findings.wrong("journal", f"a journal in PostgreSQL needs packages that are {advice('postgres', lacking)}")
        return
    from forewarn.journal.postgres.address import DatabaseAddress
    from forewarn.journal.postgres.examination import examine
    from forewarn.journal.shared import LONGEST_SKEW

    found = examine(DatabaseAddress.parse(settings.journal_location))
    _examine_durability(found, findings)
    _examine_rights(found, findings)
    skew = abs(datetime.now(UTC) - found.clock)
    if skew > LONGEST_SKEW:
        findings.wrong(
            "clock",
            f"the clocks of this machine and of {found.place} differ by {skew.total_seconds():.0f} s, and this node"
            " would not lead; synchronize both",
        )
    findings.ok("journal", f"{found.place}: PostgreSQL {found.version}, revision {found.revision}")


def _examine_durability(found: "DatabaseExamination", findings: DoctorReport) -> None:
    place = found.place
    for name, is_on in (("fsync", found.fsync), ("full_page_writes", found.full_page_writes)):
        if not is_on:
            findings.wrong("journal", f"{name} is off in {place}, and a power failure may destroy it; set it on")
    if found.synchronous_commit in ("off", "local"):
        findings.unsure(
            "journal",
            f"synchronous_commit is {found.synchronous_commit} in {place}, and a failover may lose what was"
            " acknowledged; set it to on",
        )
    if not found.synchronous_standbys:
        findings.unsure(
            "journal",
            f"{place} has no synchronous standby, and a failover may lose what was acknowledged; set"
            " synchronous_standby_names, with two standbys or more",
        )
    elif found.standbys_in_step == 0:
        findings.wrong(
            "journal",
            f"no standby of {place} is in step, and every change waits for one; start it, or check"
            " synchronous_standby_names",
        )


def _examine_rights(found: "DatabaseExamination", findings: DoctorReport) -> None:
    place, role = found.place, found.role
    if found.lacking_rights:
        findings.wrong(
            "journal",
            f"role {role} lacks rights in {place} ({', '.join(found.lacking_rights)}); run 'forewarn journal migrate'"
            " as the role that the service uses, or grant it all on these tables",
        )
    if not found.owns_entries:
        findings.unsure(
            "journal",
            f"role {role} does not own the tables in {place}, and cannot make the partitions of the months to come;"
            f" make it their owner with: REASSIGN OWNED BY ... TO {role}",
        )
    if found.default_entries:
        findings.unsure(
            "journal",
            f"{found.default_entries} entries in {place} have no partition of their month, and go one by one when"
            " they are old; make partitions with 'forewarn journal migrate'",
        )
