"""Faults of applying a fleet file."""

from planted.fault import Fault

_TRANSCRIPTS = "tests/core/test_scenarios.py"
_INVARIANTS = "tests/core/test_invariants.py"
_DECLARATION = "tests/core/test_fleet_declaration.py"
_START = (
    "A start with a fleet file is never refused because of the recorded fleet, and changes only keys that changed in "
    "the file."
)

FAULTS = (
    Fault(
        name="A start is refused for ever because of what is recorded",
        promise=_START,
        file="src/forewarn/core/fleet_declaration.py",
        old="    if not command.is_start:\n        _refuse(made)",
        new="    _refuse(made)",
        found_by=(_TRANSCRIPTS, _INVARIANTS),
    ),
    Fault(
        name="A start removes any number of VMs",
        promise="A start never removes more than 20 % of the VMs.",
        file="src/forewarn/core/reconcile.py",
        old="if len(removals) * _GUARD > len(self._fleet.vms):",
        new="if len(removals) > len(self._fleet.vms):",
        found_by=(_TRANSCRIPTS, _INVARIANTS),
    ),
    Fault(
        name="A file undoes changes that were made at run time",
        promise=_START,
        file="src/forewarn/core/reconcile.py",
        old="found[key] = None if before is None or record is None else differing_keys(before, record)",
        new="found[key] = None",
        found_by=(_TRANSCRIPTS, _INVARIANTS),
    ),
    Fault(
        name="A restart from a snapshot forgets held changes",
        promise="A change that an unfinished event blocks is held until the event ends.",
        file="src/forewarn/core/last_applied.py",
        old="        self.hold(part.held)\n",
        new="        self.hold(part.held[:0])\n",
        found_by=(_DECLARATION, _INVARIANTS),
    ),
    Fault(
        name="A held change is not carried out when the event ends",
        promise="A change that an unfinished event blocks is held until the event ends.",
        file="src/forewarn/core/decide.py",
        old="        case _ if isinstance(fact, EventEnded):\n            return True",
        new="        case _ if isinstance(fact, EventEnded):\n            return False",
        found_by=(_TRANSCRIPTS,),
    ),
    Fault(
        name="A held change is not carried out when its host is uncordoned",
        promise="Held additions happen when their host is uncordoned.",
        file="src/forewarn/core/decide.py",
        old="VmRemoved() | VmMoved() | HostStateSet() | HostCordonSet():\n            return True",
        new="VmRemoved() | VmMoved() | HostStateSet():\n            return True\n"
        "        case HostCordonSet():\n            return False",
        found_by=(_TRANSCRIPTS,),
    ),
    Fault(
        name="A file moves a VM under its unfinished event to another group",
        promise="An event holds VMs of one group, of one update domain, on one host.",
        file="src/forewarn/core/reconcile.py",
        old='_LOCATION_KEYS = frozenset({"group", "update_domain", "fault_domain"})',
        new='_LOCATION_KEYS = frozenset({"update_domain", "fault_domain"})',
        found_by=(_TRANSCRIPTS, _INVARIANTS),
    ),
    Fault(
        name="A file that was made from an older declaration is applied",
        promise="Of two operators who apply a file at once, the second is told.",
        file="src/forewarn/core/fleet_declaration.py",
        old="    if command.seen != revision:\n",
        new="    if command.seen > revision:\n",
        found_by=(_DECLARATION, _TRANSCRIPTS),
    ),
    Fault(
        name="A file places a new VM on a failed host",
        promise="Nothing is moved to a failed host, and no VM can be added there.",
        file="src/forewarn/core/proposal.py",
        old="if is_placed and fleet.state_of(vm.standing_on) is HostState.FAILED:",
        new="if old and is_placed and fleet.state_of(vm.standing_on) is HostState.FAILED:",
        found_by=(_TRANSCRIPTS, _INVARIANTS),
    ),
)
