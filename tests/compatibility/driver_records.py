"""What drivers keep of events: records of every driver that keeps some, for an event of every operation."""

import shutil
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from forewarn.clocks import ManualClock
from forewarn.core.facts import Announced, StartedAtOnce
from forewarn.core.model import EventStatus, Host, Vm
from forewarn.drivers.command import CommandDriver
from forewarn.drivers.libvirt.driver import LibvirtDriver
from forewarn.drivers.progress_store import ProgressFile, ProgressStore
from forewarn.drivers.qemu.driver import QemuDriver
from forewarn.drivers.webhook import WebhookDriver
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.node.driver import CandidateHost, Driver, Impact, ImpactDone, ImpactFailed, ImpactUnknown
from tests.drivers.impacts import carried_out

DRIVERS: dict[str, Callable[..., Driver]] = {
    "command": CommandDriver.from_settings,
    "webhook": WebhookDriver.from_settings,
    "qemu": QemuDriver.from_settings,
    "libvirt": LibvirtDriver.from_settings,
}
_PROGRAM = """\
#!/bin/sh
cat > /dev/null
case "$FOREWARN_OPERATION" in
"vm restart") echo '{"detail": "restarted", "hosts": {}}' ;;
"vm move") echo '{"hosts": {"web-0": "h4"}}'; echo 'a warning: größe' >&2 ;;
"host fail") echo 'no such machine' >&2; exit 3 ;;
"vm freeze") exec sleep 60 ;;
"vm fail") kill -9 $$ ;;
esac
"""


class Kept(msgspec.Struct):
    """One record: what was asked, and what the driver makes of it."""

    impact: Impact
    kind: dict[str, bool]
    """What the operation means to a driver."""
    outcome: Any = None
    """None where the driver would go on with the work to find out."""


def kind_of(impact: Impact) -> dict[str, bool]:
    """Return what a driver asks of an impact to know what to do."""
    return {"moves": impact.moves, "leaves_off": impact.leaves_off, "is_failure": impact.is_failure}


def clock_of(impact: Impact) -> ManualClock:
    return ManualClock(impact.attempted_at + timedelta(minutes=5))


def settings(name: str, place: Path) -> dict[str, object]:
    """Return settings with which a driver of that name can be made anywhere."""
    match name:
        case "command":
            program = place / "program"
            program.write_text(_PROGRAM)
            program.chmod(0o755)
            return {"program": str(program), "timeout": 0.5, "grace": 0.1}
        case "webhook":
            secret = place / "secret"
            secret.write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
            secret.chmod(0o600)
            return {"url": "http://127.0.0.1:9/", "secret_file": str(secret)}
        case "qemu":
            return {"qmp": f"{place}/{{vm}}.qmp"}
        case _:
            return {"uri": "test:///{host}"}


def write(directory: Path, journal: Path) -> dict[str, list[Kept]]:
    """Write the records of all drivers; return what they hold."""
    directory.mkdir()
    impacts = _impacts(journal)
    kept: dict[str, list[Kept]] = {
        "command": _write_command(directory / "command", impacts),
        "webhook": _write_ledger(directory / "webhook", impacts, _webhook_pages()),
        "qemu": _write_ledger(directory / "qemu", impacts, _qemu_pages()),
        "libvirt": _write_ledger(directory / "libvirt", impacts, _libvirt_pages()),
    }
    kept["qemu"].append(_write_left_off(directory / "qemu", impacts["host redeploy"]))
    for name, records in kept.items():
        for each in records:
            if name == "command" or ProgressFile((directory / name / each.impact.event.id).read_bytes()).ending:
                each.outcome = outcome(name, directory / name, each.impact)
    return kept


def outcome(name: str, directory: Path, impact: Impact) -> Any:
    """Return what a driver says of a record, as plain values."""
    with TemporaryDirectory() as place:
        driver = DRIVERS[name](settings(name, Path(place)), clock_of(impact), 1.0, directory)
        with closing(driver):
            found = driver.outcome_of(impact)
    kind = type(found).__name__.removeprefix("Impact").replace("Unknown", "Unknowable")  # as 0.1.0 named the classes
    return {"outcome": kind, **msgspec.to_builtins(found)}


def _impacts(journal: Path) -> dict[str, Impact]:
    """Return an impact for every operation that the journal tells of."""
    with TemporaryDirectory() as place:
        recorded = SqliteJournal(shutil.copytree(journal, Path(place) / "journal"))
        facts = [fact for entry in recorded.entries() for fact in entry.facts]
    found: dict[str, Impact] = {}
    for fact in facts:
        if isinstance(fact, Announced | StartedAtOnce) and fact.event.operation not in found:
            at = fact.event.not_before + timedelta(seconds=1)
            event = msgspec.structs.replace(fact.event, status=EventStatus.STARTED, started_at=at, attempts=1)
            vms = tuple(Vm(name, event.group, event.host, event.update_domain) for name in event.resources)
            berths = (
                (CandidateHost(Host("h4"), vms[:1]),)
                if event.operation.endswith(("move", "drain", "redeploy"))
                else ()
            )
            deletes = event.operation == "vm delete"
            found[event.operation] = Impact(event, vms, at, deletes=deletes, candidates=berths)
    return found


def _write_command(directory: Path, impacts: dict[str, Impact]) -> list[Kept]:
    run = ("vm restart", "vm move", "host fail", "vm freeze", "vm fail")
    with TemporaryDirectory() as place:
        for operation in run:
            impact = impacts[operation]
            given = settings("command", Path(place))
            driver = CommandDriver.from_settings(given, clock_of(impact), 1.0, directory)
            with closing(driver):
                carried_out(driver, impact)
    whole = (directory / impacts[run[0]].event.id).read_bytes()
    contents = {
        "host freeze": b"begun\n",  # the runner was lost
        "host reboot": whole[:-12],  # the end was cut off
        "host drain": b"",  # nothing was begun
        "vm delete": b'begun\n[0, false, "the program could not be started: [Errno 8] Exec format error", "", ""]\n',
    }
    for operation, content in contents.items():
        (directory / impacts[operation].event.id).write_bytes(content)
    return [_kept(impacts[operation]) for operation in (*run, *contents)]


_Writing = Callable[[ProgressFile, Impact], object]


def _write_ledger(directory: Path, impacts: dict[str, Impact], pages: dict[str, _Writing]) -> list[Kept]:
    for operation, fill in pages.items():
        impact = impacts[operation]
        with ProgressStore(directory, clock_of(impact)).held(impact.event.id) as page:
            page.begin(impact)
            fill(page, impact)
    torn = impacts[next(iter(pages))]
    with (directory / torn.event.id).open("ab") as file:
        file.write(b'\n{"line":"ended","resu')
    return [_kept(impacts[operation]) for operation in pages]


def _write_left_off(directory: Path, impact: Impact) -> Kept:
    """Let the driver itself write: machines that do not run stay off."""
    with TemporaryDirectory() as place:
        driver = QemuDriver.from_settings(settings("qemu", Path(place)), clock_of(impact), 1.0, directory)
        with closing(driver):
            assert isinstance(carried_out(driver, impact), ImpactDone)
    return _kept(impact)


def _kept(impact: Impact) -> Kept:
    return Kept(impact, kind_of(impact))


def _vm(impact: Impact) -> str:
    return impact.vms[0].name


def _at(impact: Impact) -> str:
    return impact.attempted_at.isoformat()


def _webhook_pages() -> dict[str, _Writing]:
    return {
        "vm fail": lambda page, _: page.note("taken"),
        "host reboot": lambda page, _: page.note("taken"),
        "vm restart": lambda page, _: (page.note("taken"), page.end(ImpactDone(detail="restarted"))),
        "vm move": lambda page, impact: page.end(ImpactDone({_vm(impact): "h4"})),
        "vm delete": lambda page, _: page.end(ImpactFailed("the receiver did not begin")),
        "vm evict": lambda page, impact: page.end(ImpactFailed("not all", {_vm(impact): "h5"})),
        "host freeze": lambda page, _: page.end(ImpactUnknown("http://127.0.0.1:9/ gives no answer: refused")),
    }


def _qemu_pages() -> dict[str, _Writing]:
    def note(page: ProgressFile, impact: Impact, *steps: str, **seen: str) -> None:
        for step in steps:
            page.note(step, _vm(impact), **seen)

    def freeze(page: ProgressFile, impact: Impact) -> None:
        note(page, impact, "freezing")
        note(page, impact, "frozen", at=_at(impact))

    def reboot(page: ProgressFile, impact: Impact) -> None:
        note(page, impact, "powering-down", at=_at(impact))
        note(page, impact, "resetting", "reset")
        page.end(ImpactDone(detail="it did not shut down by itself, and was reset"))

    def move(page: ProgressFile, impact: Impact) -> None:
        note(page, impact, "moving", host="h4")
        note(page, impact, "migrating", "moved")
        page.end(ImpactDone({_vm(impact): "h4"}, "moved while it ran"))

    def rebuild(page: ProgressFile, impact: Impact) -> None:
        note(page, impact, "rebuilding", "starting", host="h4")
        page.end(ImpactFailed(f"nobody said how {_vm(impact)} is started; set 'start' of driver 'qemu'"))

    return {
        "host freeze": freeze,
        "host reboot": lambda page, impact: note(page, impact, "left off"),
        "vm restart": reboot,
        "vm move": move,
        "vm fail": rebuild,
        "vm evict": lambda page, _: page.end(ImpactDone(detail="it was not running")),
    }


def _libvirt_pages() -> dict[str, _Writing]:
    uuid = "6f1c2e5a-0000-4000-8000-000000000010"

    def found(page: ProgressFile, impact: Impact) -> None:
        for vm in impact.vms:
            page.note("found", vm.name, host="h1", uuid=uuid)

    def freeze(page: ProgressFile, impact: Impact) -> None:
        found(page, impact)
        page.note("freezing", _vm(impact), id="7", uuid=uuid, host="h1")
        page.note("frozen", at=_at(impact))

    def thaw(page: ProgressFile, impact: Impact) -> None:
        freeze(page, impact)
        page.note("thawed")
        page.end(ImpactDone())

    def ask(page: ProgressFile, impact: Impact) -> None:
        found(page, impact)
        page.note("asking", _vm(impact), id="7", ear="1", reboots="0", in_place="", definition="<domain/>")
        page.note("asked", _vm(impact), at=_at(impact))

    def restart(page: ProgressFile, impact: Impact) -> None:
        ask(page, impact)
        page.note("starting", _vm(impact))
        page.note("started", _vm(impact))
        page.end(ImpactDone())

    def reset(page: ProgressFile, impact: Impact) -> None:
        ask(page, impact)
        page.note("halting", _vm(impact), id="7")
        page.note("resetting", _vm(impact), is_halted="yes")
        page.note("reset", _vm(impact))
        page.end(ImpactDone(detail="it did not go down by itself, and was reset"))

    def left_off(page: ProgressFile, impact: Impact) -> None:
        found(page, impact)
        page.note("left off", _vm(impact))

    def move(page: ProgressFile, impact: Impact) -> None:
        found(page, impact)
        page.note("moving", _vm(impact), to="h4", uuid=uuid, had="", off="", may_run="yes")
        page.note("resuming", _vm(impact))
        page.note("moved", _vm(impact))
        page.end(ImpactDone({_vm(impact): "h4"}))

    def refuse(page: ProgressFile, impact: Impact) -> None:
        found(page, impact)
        page.note("moving", _vm(impact), to="h4", uuid=uuid, had="yes", off="yes", may_run="")
        page.note("refused", _vm(impact), reason="unable to connect to server at 'h4:49152'")
        page.end(ImpactFailed("unable to connect to server at 'h4:49152'"))

    def rebuild(page: ProgressFile, impact: Impact) -> None:
        found(page, impact)
        page.note("stopping", _vm(impact), id="7")
        page.note("emptying /var/lib/vdb.img", _vm(impact), pool="default", written="<volume/>")
        page.note("emptied", _vm(impact))
        page.note("started", _vm(impact))
        page.end(ImpactDone(detail="disk /var/lib/vdb.img now takes space only as it is written"))

    def delete(page: ProgressFile, impact: Impact) -> None:
        found(page, impact)
        page.note("stopping", _vm(impact), id="7")
        page.note("deleting", _vm(impact), vda="/var/lib/vda.img")

    return {
        "host freeze": freeze,
        "vm freeze": thaw,
        "host reboot": ask,
        "vm restart": restart,
        "vm fail": reset,
        "host redeploy": left_off,
        "vm move": move,
        "host drain": refuse,
        "vm redeploy": rebuild,
        "vm delete": delete,
    }
