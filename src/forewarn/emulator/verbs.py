"""The operations on the emulated fleet by name, for the Python API, scenarios and the terminal UI."""

from enum import StrEnum
from typing import Unpack

from forewarn.core.commands import (
    AnnouncementTerms,
    Command,
    DeallocateVm,
    DrainHost,
    HostOperation,
    OperateHost,
    OperateVm,
    StartVm,
    VmOperation,
)
from forewarn.core.errors import BadInput
from forewarn.core.event_types import ANNOUNCEMENTS, LIVE_MIGRATION
from forewarn.core.model import Caller, CallerKind, EventType, Operation, OperationScope
from forewarn.randomness import new_id, new_uuid

EMULATOR = Caller(CallerKind.OPERATOR, "emulator")


class Verb(StrEnum):
    """An operation on a VM or a host."""

    REBOOT = "reboot"
    REDEPLOY = "redeploy"
    FREEZE = "freeze"
    MIGRATE = "migrate"
    EVICT = "evict"
    DELETE = "delete"
    DEGRADE = "degrade"
    FAIL = "fail"
    DRAIN = "drain"
    DEALLOCATE = "deallocate"
    START = "start"


_ON_VM = {
    Verb.REBOOT: VmOperation.RESTART,
    Verb.REDEPLOY: VmOperation.REDEPLOY,
    Verb.FREEZE: VmOperation.FREEZE,
    Verb.MIGRATE: VmOperation.FREEZE,
    Verb.EVICT: VmOperation.EVICT,
    Verb.DELETE: VmOperation.DELETE,
}
_ON_HOST = {
    Verb.REBOOT: HostOperation.REBOOT,
    Verb.REDEPLOY: HostOperation.REDEPLOY,
    Verb.FREEZE: HostOperation.FREEZE,
    Verb.MIGRATE: HostOperation.REDEPLOY,
    Verb.DEGRADE: HostOperation.DEGRADE,
    Verb.FAIL: HostOperation.FAIL,
}
VM_VERBS = (*_ON_VM, Verb.DEALLOCATE, Verb.START)
HOST_VERBS = (*_ON_HOST, Verb.DRAIN)


def verb_announcing(type_: EventType) -> Verb:
    """Return the operation on a VM that announces events of a type."""
    announced = {verb: ANNOUNCEMENTS[Operation.of(OperationScope.VM, each)].type for verb, each in _ON_VM.items()}
    return next(verb for verb, each in announced.items() if each is type_)


def command_on_vm(verb: Verb, vm: str, **terms: Unpack[AnnouncementTerms]) -> Command:
    """Return the command for an operation on a VM."""
    if verb is Verb.DEALLOCATE:
        return DeallocateVm(id=new_id(), by=EMULATOR, vm=vm, can_switch=True)
    if verb is Verb.START:
        return StartVm(id=new_id(), by=EMULATOR, vm=vm, can_switch=True)
    if verb not in _ON_VM:
        raise BadInput(
            f"{verb} is an operation on a host, not on a VM; give a host, or use one of {', '.join(VM_VERBS)}"
        )
    if verb is Verb.MIGRATE:
        # The core has live migration for whole hosts only; for a VM it is announced as a freeze.
        if terms.get("description") is None:
            terms["description"] = LIVE_MIGRATION.description
        if terms.get("duration") is None:
            terms["duration"] = LIVE_MIGRATION.duration
    return OperateVm(id=new_id(), by=EMULATOR, operation=_ON_VM[verb], vm=vm, **terms)


def command_on_host(verb: Verb, host: str, placements: dict[str, str], **terms: Unpack[AnnouncementTerms]) -> Command:
    """Return the command for an operation on all VMs of a host; a drain moves them to the hosts in ``placements``."""
    if verb is Verb.DRAIN:
        return DrainHost(id=new_uuid(), by=EMULATOR, host=host, placements=placements, live=True, **terms)
    if verb not in _ON_HOST:
        raise BadInput(
            f"{verb} is an operation on a VM, not on a host; give a VM, or use one of {', '.join(HOST_VERBS)}"
        )
    live = verb is Verb.MIGRATE
    return OperateHost(id=new_id(), by=EMULATOR, operation=_ON_HOST[verb], host=host, live=live, **terms)
