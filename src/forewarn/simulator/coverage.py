"""What simulations reached: commands, faults, states, transitions, events, and pairs of them; and what none reached.

A run counts what it reached by name, such as ``action RequestVmOperation restart`` or ``append refused``.
``EXPECTED`` has every name that there is, by part; what is expected and never reached is a gap in the simulator.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from textwrap import wrap
from typing import Self, get_args

import msgspec

from forewarn.core.event_types import ANNOUNCEMENTS, LIVE_MIGRATION
from forewarn.core.facts import AnyFact, EventCreated
from forewarn.core.lifecycle import TRANSITIONS
from forewarn.core.model import EventStatus, EventType, GroupKind, Operation
from forewarn.files import write_atomically
from forewarn.simulator.actions.cluster_faults import FailDatabase, LoseDatabaseNotifications, LoseHeartbeats
from forewarn.simulator.actions.environment_faults import DamageDriverRecord, FailDriver, FailGate
from forewarn.simulator.actions.kinds import COMMANDS, FAULTS, NODE_FAULTS
from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.actions.service_faults import FailAppends, FillDisk, HideDisk, KillServiceDuring
from forewarn.simulator.actors.guests import KINDS
from forewarn.simulator.environment.database import DatabaseFault
from forewarn.simulator.environment.journal import AppendFault
from forewarn.simulator.plan import Plan


def of_plan(plan: Plan) -> Iterator[str]:
    """Name what a plan has from the beginning: its kinds of groups and guests, its driver and its workers."""
    yield from (f"kind {group.kind}" for group in plan.groups)
    yield from (f"guest {vm.guest}" for vm in plan.vms)
    yield f"driver {plan.driver}"
    yield f"workers {plan.workers}"
    yield f"nodes {plan.nodes}"


def of_action(action: PlannedAction) -> Iterator[str]:
    """Name what an action reaches: its kind, and its choice."""
    kind = type(action)
    yield f"action {kind.__name__}"
    if kind.chosen:
        yield f"action {kind.__name__} {getattr(action, kind.chosen)}"


def of_facts(facts: Iterable[AnyFact]) -> Iterator[str]:
    """Name what committed facts reach: their kinds, the transitions and statuses of events, and the events."""
    for fact in facts:
        yield f"fact {type(fact).__name__}"
        if transition := _TRANSITIONS.get(type(fact)):
            yield from transition
        if isinstance(fact, EventCreated):
            yield f"event {fact.event.type} by {fact.event.operation}"


def _of_kinds(kinds: Iterable[type[PlannedAction]]) -> Iterator[str]:
    for kind in kinds:
        yield f"action {kind.__name__}"
        yield from (f"action {kind.__name__} {choice}" for choice in kind.choices)


def _of_events() -> Iterator[str]:
    for operation, announcement in ANNOUNCEMENTS.items():
        yield f"event {announcement.type} by {operation}"
        if operation in _MOVES_LIVE:
            yield f"event {LIVE_MIGRATION.type} by {operation}"


_MOVES_LIVE = (Operation.HOST_REDEPLOY, Operation.HOST_DRAIN, Operation.VM_MOVE)
_TRANSITIONS: dict[type, tuple[str, str]] = {
    fact: (f"transition {before or 'new'} by {fact.__name__}", f"status {after}")
    for (before, fact), after in TRANSITIONS.items()
}
_PREPARED = (
    KillServiceDuring,
    FailAppends,
    FillDisk,
    HideDisk,
    DamageDriverRecord,
    FailDriver,
    FailGate,
    FailDatabase,
    LoseHeartbeats,
    LoseDatabaseNotifications,
)
"""Faults that happen later than their actions, and only to what is done then; they are counted when they happen."""
_EFFECTS = (
    *(f"killed during {phase}" for phase in KillServiceDuring.choices),
    *(f"append {fault}" for fault in AppendFault),
    "disk full",
    "disk unreadable",
    *(f"gate {state}" for state in FailGate.choices),
    *(f"driver {fault}" for fault in FailDriver.choices),
    "driver record torn",
    "control request lost",
)
_NODE_EFFECTS = (
    *(f"database append {fault}" for fault in DatabaseFault),
    "database unreachable",
    "heartbeat lost",
    "heartbeat slow",
    "notification lost",
    "message repeated",
    "leader changed",
    "entries lost",
    "journal loaded again",
)
_PAIRED = (
    *(f"action {kind.__name__}" for kind in (*COMMANDS, *FAULTS) if kind not in _PREPARED),
    *_EFFECTS,
)
"""What is counted in pairs: the kinds of commands, and the faults that happened."""
_PAIRED_WITH_NODES = (
    *(f"action {kind.__name__}" for kind in NODE_FAULTS if kind not in _PREPARED),
    *_NODE_EFFECTS,
)
"""What happens to nodes, which is counted in pairs with each other and with commands."""
_ALL_PAIRED = (*_PAIRED, *_PAIRED_WITH_NODES)

EXPECTED: dict[str, tuple[str, ...]] = {
    "commands": tuple(_of_kinds(COMMANDS)),
    "faults": (*_of_kinds(FAULTS), *_EFFECTS),
    "kinds": tuple(f"kind {kind}" for kind in GroupKind),
    "drivers": tuple(f"driver {driver}" for driver in ("machines", "immediate", "unfenced", "command", "webhook")),
    "nodes": (*(f"nodes {number}" for number in (0, 2, 3)), *_of_kinds(NODE_FAULTS), *_NODE_EFFECTS),
    "workers": (*(f"workers {number}" for number in (0, 2, 3)), "worker killed", "worker lagging"),
    "guests": tuple(f"guest {kind}" for kind in KINDS),
    "machines": tuple(f"machine {what}" for what in (*EventType, "start", "stop", "host command")),
    "statuses": tuple(f"status {status}" for status in EventStatus),
    "transitions": tuple(transition for transition, _ in _TRANSITIONS.values()),
    "events": tuple(_of_events()),
    "facts": tuple(f"fact {kind.__name__}" for kind in get_args(AnyFact)),
    "pairs": tuple(f"pair {first} + {second}" for first, second in combinations(_PAIRED, 2)),
    "node pairs": tuple(
        f"pair {first} + {second}"
        for first, second in combinations((*(f"action {kind.__name__}" for kind in COMMANDS), *_PAIRED_WITH_NODES), 2)
        if second in _PAIRED_WITH_NODES
    ),
}
"""All names, by part."""


class Coverage:
    """What all runs so far reached, and how many of them did."""

    def __init__(self, runs: int = 0, reached: Iterable[tuple[str, int]] = ()) -> None:
        self.runs = runs
        self.reached: Counter[str] = Counter(dict(reached))

    def add(self, reached: Counter[str]) -> None:
        """Add one run, and the pairs that it reached."""
        self.runs += 1
        self.reached.update(reached)
        paired = [name for name in _ALL_PAIRED if reached[name]]
        self.reached.update(f"pair {first} + {second}" for first, second in combinations(paired, 2))

    def merge(self, other: "Coverage") -> None:
        """Add the runs of another one."""
        self.runs += other.runs
        self.reached.update(other.reached)

    def save(self, path: Path) -> None:
        """Write everything as JSON, in the order of names."""
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = _Kept(self.runs, dict(sorted(self.reached.items())))
        with write_atomically(path, 0o644) as file:
            file.write(msgspec.json.format(msgspec.json.encode(kept)) + b"\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what was saved; where there is no file, nothing was reached yet."""
        if not path.exists():
            return cls()
        kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
        return cls(kept.runs, kept.reached.items())

    def never(self, part: str) -> list[str]:
        """Return the names of a part that no run reached."""
        return [name for name in EXPECTED[part] if not self.reached[name]]

    def report(self, longest: int | None = 12) -> str:
        """Return a table of the parts, then what was never reached: at most ``longest`` names of each part."""
        lines = [f"reached by {self.runs} runs", f"{'':12} {'reached':>8} {'of':>6}"]
        for part, names in EXPECTED.items():
            lines.append(f"{part:12} {len(names) - len(self.never(part)):8} {len(names):6}")
        for part in EXPECTED:
            if never := self.never(part):
                listed = [name.removeprefix("pair ").replace("action ", "") for name in never[:longest]]
                more = len(never) - len(listed)
                text = "; ".join(listed) + (f"; and {more} more" if more else "")
                indent = "  "
                wrapped = wrap(text, 116, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
                lines += [f"{part} never reached:", *wrapped]
        return "\n".join(lines)


class _Kept(msgspec.Struct):
    runs: int
    reached: dict[str, int]
