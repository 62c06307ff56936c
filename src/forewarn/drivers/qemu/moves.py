"""How a machine gets to another host: its memory is sent to a second QEMU, or it is ended and started there.

    move      moving ─ receive ─ migrating ─ migrate ─ … ─ quit here ─ moved
    rebuild   rebuilding ─ quit here ─ starting ─ start there

Whichever end a crash leaves is found out from QEMU: a machine that sent its memory away is ``postmigrate``, one that
could not goes on. If it fails the guest runs where it ran, and nothing is left at the other end.
"""

from collections.abc import Sequence

from forewarn.drivers.berths import by_preference, say_no_berth
from forewarn.drivers.qemu.deeds import Deed, start
from forewarn.drivers.qemu.machines import GONE, Machine
from forewarn.drivers.qemu.monitors import Trouble
from forewarn.drivers.qemu.sights import Sights
from forewarn.node.driver import Berth

_SENT = "completed"
_NOT_SENT = {"failed", "cancelled", "cancelling"}
_SENDING = {"setup", "active", "device", "pre-switchover", "postcopy-active", "wait-unplug"}
_LONGEST_LANDING = 15.0
_MIB = 1024 * 1024


def choose_host(deed: Deed, berths: Sequence[Berth]) -> str:
    """Return the host on which a machine that is off is to start one day; end what is left of it here."""
    host = _chosen(deed, "moving", berths, "")
    deed.here.quit()
    return host


def move(deed: Deed, berths: Sequence[Berth], sights: Sights) -> str:
    """Move a running guest to the best berth; return the host it stands on then."""
    there = deed.at(_chosen(deed, "moving", berths, ""))
    sights.expect_landing(there.path)
    try:
        return _move(deed, there)
    finally:
        sights.landed(there.path)


def _move(deed: Deed, there: Machine) -> str:
    if deed.here.status() == GONE:
        return _arrived_before(deed, there)
    try:
        if deed.here.status() != "postmigrate":
            _send(deed, there)
        _land(deed, there)
    except Trouble as trouble:
        _stay(deed, there)
        said = f"{deed.vm.name} could not be moved to {there.host}: {trouble}"
        raise Trouble(f"{said}; it is {deed.here.status()} on {deed.here.host}") from None
    deed.here.quit()
    deed.note("moved")
    return there.host


def _land(deed: Deed, there: Machine) -> None:
    if not deed.wait_until(lambda: there.status() == "running", _LONGEST_LANDING):
        raise Trouble(f"it does not run there, but is {there.status()}")


def rebuild(deed: Deed, berths: Sequence[Berth], *, may_stay: bool) -> str:
    """End the machine if it is still there, and start it anew on another host; return that host."""
    host = _chosen(deed, "rebuilding", () if may_stay else berths, deed.here.host if may_stay else "")
    there = deed.at(host)
    if deed.noted("starting") is None and deed.here.status() != GONE:
        deed.here.quit()
    start(deed, there)
    return host


def _chosen(deed: Deed, step: str, berths: Sequence[Berth], own: str) -> str:
    """Return the host that was chosen when the move began; choose it now if it only begins."""
    noted = deed.noted(step)
    if noted is not None:
        return noted["host"]
    best = next((berth.host.name for berth in by_preference(deed.vm, berths)), own)
    if not best:
        raise Trouble(say_no_berth(deed.vm, deed.event))
    deed.note(step, host=best)
    return best


def _arrived_before(deed: Deed, there: Machine) -> str:
    if deed.noted("migrating") is not None and there.status() == "running":
        deed.note("moved")
        return there.host
    raise Trouble(f"{deed.vm.name} is neither at {deed.here.path} nor does it run at {there.path}; start it again")


def _send(deed: Deed, there: Machine) -> None:
    here = deed.here
    is_new = deed.noted("migrating") is None
    if is_new:
        here.must_be("running")
        if there.status() == GONE:
            there.run("receive", deed.settings.receive)
        if not deed.wait_until(lambda: there.status() == "inmigrate", _LONGEST_LANDING):
            raise Trouble(f"the machine that 'receive' started there does not wait for it, but is {there.status()}")
        _check_room(here, there)
        deed.note("migrating")
    # What QEMU says of an earlier move stays until the next one begins.
    if is_new or (here.status() == "running" and here.sending().status not in _SENDING):
        here.send_to(deed.settings.filled(deed.settings.incoming, deed.vm.name, there.host), deed.settings.bandwidth)
    deed.tell(f"moving to {there.host}")
    status = ""

    def is_over() -> bool:
        nonlocal status
        sending = here.sending()
        status = sending.status
        if sending.total:
            deed.tell(f"moving to {there.host}, {100 * sending.sent // sending.total} % of its memory is there")
        return status == _SENT or status in _NOT_SENT

    if not deed.wait_until(is_over, deed.settings.timeout):
        here.stop_sending()
        raise Trouble(f"it took longer than {deed.settings.timeout:.0f} s")
    if status != _SENT:
        raise Trouble(here.sending().reason or "QEMU gives no reason")


def _check_room(here: Machine, there: Machine) -> None:
    """Refuse a machine of another size; QEMU itself would only say that the line broke."""
    ours, theirs = here.memory(), there.memory()
    if ours != theirs:
        raise Trouble(f"the machine there has {theirs // _MIB} MiB of memory, and the guest needs {ours // _MIB} MiB")


def _stay(deed: Deed, there: Machine) -> None:
    """Leave nothing at the other end, then let the guest go on where it is: it must never run twice."""
    there.quit()
    if deed.here.status() not in {"running", GONE}:
        deed.here.go_on()
