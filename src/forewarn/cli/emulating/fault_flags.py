"""Parses the flag --fault: ``500``, or ``delay,seconds=2,probability=0.5,from=1m,until=5m,vm=web-0``."""

from collections.abc import Iterable

from forewarn.core.errors import BadInput, nearest
from forewarn.emulator.faults import Fault
from forewarn.emulator.scenario import fault_of
from forewarn.emulator.scenario_tables import FAULT_KEYS, read_value


def read_faults(given: Iterable[str], vms: Iterable[str]) -> tuple[Fault, ...]:
    """Return the faults; raise BadInput with the flag and the remedy."""
    known = tuple(vms)
    return tuple(_read_fault(text, known) for text in given)


def _read_fault(text: str, vms: tuple[str, ...]) -> Fault:
    kind, *pairs = (part.strip() for part in text.split(","))
    values = {"kind": read_value(FAULT_KEYS["kind"].kind, kind, "flag --fault")}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if key not in FAULT_KEYS or not sign:
            remedy = nearest(key, FAULT_KEYS) or "; known are " + ", ".join(FAULT_KEYS)
            raise BadInput(f"flag --fault {text!r}: {pair!r} is not of the form key=value{remedy}")
        values[key] = read_value(FAULT_KEYS[key].kind, value, f"flag --fault {text!r}: {key}")
    fault = fault_of(values)
    if fault.vm and fault.vm not in vms:
        raise BadInput(f"flag --fault {text!r}: there is no VM {fault.vm!r}{nearest(fault.vm, vms)}")
    return fault
