"""What a simulation does at which second: one record each, and one sentence that a person writes and reads.

A plan is a list of actions. It is data: it can be printed, shortened, saved and run again. The sentence of an action
holds all of its fields, so that a saved plan is read back from its text.
"""

import re
from functools import cache
from typing import Any, ClassVar, Self, get_type_hints

import msgspec


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happens in a simulation."""

    sentence: ClassVar[str] = ""
    """Its words, with its fields in braces; a field that may be empty stands last, after a blank."""

    at: float
    """Seconds after the beginning."""

    def __str__(self) -> str:
        words = re.sub(r"\{(\w+)\}", lambda found: str(getattr(self, found[1])), self.sentence)
        return words.strip()

    @classmethod
    def parse(cls, at: float, words: str) -> Self | None:
        """Return the action that such a sentence describes; None where it is not one of this kind."""
        found = _pattern(cls).fullmatch(words)
        if found is None:
            return None
        types = get_type_hints(cls)
        fields: dict[str, Any] = {name: types[name](value or "") for name, value in found.groupdict().items()}
        return cls(at=at, **fields)


@cache
def _pattern(kind: type[Action]) -> re.Pattern[str]:
    def group(found: re.Match[str]) -> str:
        lead, name = found[1], found[2]
        if name == "rest":
            return rf"(?:{lead}(?P<{name}>.*))?"
        return rf"{lead}(?P<{name}>\S+)"

    return re.compile(re.sub(r"( ?)\{(\w+)\}", group, kind.sentence))


class OperateVm(Action, frozen=True, kw_only=True):
    """Operation: restart, redeploy, freeze, evict, delete, start or deallocate. ``key``: its idempotency key."""

    sentence = "{who} asks for {operation} of {vm} with key {key}"
    who: str
    operation: str
    vm: str
    key: str


class MoveVm(Action, frozen=True, kw_only=True):
    sentence = "{who} moves {vm} to {host} with key {key}"
    who: str
    vm: str
    host: str
    key: str


class OperateHost(Action, frozen=True, kw_only=True):
    """Operation: freeze, reboot, redeploy, drain, degrade, fail, repaired, cordon or uncordon."""

    sentence = "{who} asks for {operation} of host {host} with key {key}"
    who: str
    operation: str
    host: str
    key: str


class ChangeEvent(Action, frozen=True, kw_only=True):
    """Verb: approve, cancel or postpone. ``event`` is a label such as E2, by the order in which events were seen."""

    sentence = "{who} asks to {verb} {event} with key {key}"
    who: str
    verb: str
    event: str
    key: str


class SetTerms(Action, frozen=True, kw_only=True):
    """The terms as JSON, without blanks."""

    sentence = "{who} sets the terms of {group} to {terms} with key {key}"
    who: str
    group: str
    terms: str
    key: str


class ReclaimSpot(Action, frozen=True, kw_only=True):
    sentence = "{who} reclaims {count} spot VMs with key {key}"
    who: str
    count: int
    key: str


class ScaleIn(Action, frozen=True, kw_only=True):
    sentence = "{who} scales in {group} by {count} with key {key}"
    who: str
    group: str
    count: int
    key: str


class PatchFleet(Action, frozen=True, kw_only=True):
    """A change of the fleet through the control API; the change as JSON, without blanks."""

    sentence = "{who} patches the fleet with {change} with key {key}"
    who: str
    change: str
    key: str


class EditFleetFile(Action, frozen=True, kw_only=True):
    """Edit: see ``fleet_files.edit``. The service reads the file at its next start."""

    sentence = "the fleet file is edited: {edit} {subject} {value}"
    edit: str
    subject: str
    value: str


class ApplyFleetFile(Action, frozen=True, kw_only=True):
    """Have the running service apply its fleet file, as a reload does."""

    sentence = "the fleet file is applied"


class CreateToken(Action, frozen=True, kw_only=True):
    """Give an owner another token, or an operator."""

    sentence = "ann creates a token for {owner} of {group} with key {key}"
    owner: str
    group: str
    key: str


class RevokeToken(Action, frozen=True, kw_only=True):
    sentence = "ann revokes the token of {owner} with key {key}"
    owner: str
    key: str


class ReadEverything(Action, frozen=True, kw_only=True):
    """Read every list of the control API."""

    sentence = "{who} reads everything"
    who: str


class KillService(Action, frozen=True, kw_only=True):
    """Kill the service after so many more callbacks of it."""

    sentence = "the service is killed after {callbacks} callbacks"
    callbacks: int


class RestartService(Action, frozen=True, kw_only=True):
    """Stop the service in order, and start it again."""

    sentence = "the service is restarted"


class FailAppends(Action, frozen=True, kw_only=True):
    """The next appends; ``fault`` is an ``AppendFault`` with hyphens."""

    sentence = "the next {count} appends are {fault}"
    count: int
    fault: str


class FillDisk(Action, frozen=True, kw_only=True):
    sentence = "the disk is full for {seconds} s"
    seconds: float


class HideDisk(Action, frozen=True, kw_only=True):
    sentence = "the disk is unreadable for {seconds} s"
    seconds: float


class DamageDriverRecord(Action, frozen=True, kw_only=True):
    """Append half a line to the newest progress file of the driver, as a power failure leaves it."""

    sentence = "a progress file of the driver is torn"


class FailDriver(Action, frozen=True, kw_only=True):
    """Fault: fails, raises, hangs or late."""

    sentence = "the next {count} driver calls: {fault}"
    count: int
    fault: str


class BefallMachine(Action, frozen=True, kw_only=True):
    """What: crashed, rebooted, stopped, started, gone or moved; ``host`` is where it was moved, or ``-``."""

    sentence = "machine {vm} {what} by itself, host {host}"
    vm: str
    what: str
    host: str


class StepClock(Action, frozen=True, kw_only=True):
    sentence = "the clock of the service steps by {seconds} s"
    seconds: float


class DriftClock(Action, frozen=True, kw_only=True):
    sentence = "the clock of the service drifts by {rate}"
    rate: float


class LoseRequests(Action, frozen=True, kw_only=True):
    sentence = "the network loses {chance} of what is sent for {seconds} s"
    chance: float
    seconds: float


class DelayRequests(Action, frozen=True, kw_only=True):
    sentence = "the network delays by up to {delay} s for {seconds} s"
    delay: float
    seconds: float


class RebootGuest(Action, frozen=True, kw_only=True):
    """End the programs of a guest at once and start them again after so many seconds."""

    sentence = "guest {vm} is killed and back after {seconds} s"
    vm: str
    seconds: float


class DamageMemory(Action, frozen=True, kw_only=True):
    """How: torn (half a line more at the end) or flipped (one byte in the middle)."""

    sentence = "the memory of the agent in {vm} is {how}, and the agent restarts"
    vm: str
    how: str


KINDS: tuple[type[Action], ...] = (
    OperateVm,
    MoveVm,
    OperateHost,
    ChangeEvent,
    SetTerms,
    ReclaimSpot,
    ScaleIn,
    PatchFleet,
    EditFleetFile,
    ApplyFleetFile,
    CreateToken,
    RevokeToken,
    ReadEverything,
    KillService,
    RestartService,
    FailAppends,
    FillDisk,
    HideDisk,
    DamageDriverRecord,
    FailDriver,
    BefallMachine,
    StepClock,
    DriftClock,
    LoseRequests,
    DelayRequests,
    RebootGuest,
    DamageMemory,
)


def parse_action(at: float, words: str) -> Action:
    """Return the action that a sentence describes; raise ValueError where there is none."""
    for kind in KINDS:
        if action := kind.parse(at, words):
            return action
    raise ValueError(f"{words!r} describes no action of a simulation")
