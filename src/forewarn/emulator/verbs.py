"""What can be done to the emulated fleet, by name: the same words in Python, in scenarios and on the screen."""

from datetime import datetime
from enum import StrEnum
from uuid import uuid4

from forewarn.core.commands import (
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
from forewarn.core.event_types import LIVE_MIGRATION
from forewarn.core.model import Caller, CallerKind

EMULATOR = Caller(CallerKind.OPERATOR, "emulator")


class Verb(StrEnum):
    """What is done to a VM or a host."""

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


def command_on_vm(
    verb: Verb,
    vm: str,
    *,
    not_before: datetime | None = None,
    duration: int | None = None,
    description: str | None = None,
) -> Command:
    """Return the command that does this to a VM."""
    if verb is Verb.DEALLOCATE:
        return DeallocateVm(id=uuid4().hex, by=EMULATOR, vm=vm, can_switch=True)
    if verb is Verb.START:
        return StartVm(id=uuid4().hex, by=EMULATOR, vm=vm, can_switch=True)
    if verb not in _ON_VM:
        raise BadInput(f"{verb} is done to a host, not to a VM; name a host, or do one of {', '.join(VM_VERBS)}")
    if verb is Verb.MIGRATE:
        # A VM that is moved live is felt as a freeze; the rules know that word for whole hosts only.
        description = LIVE_MIGRATION.description if description is None else description
        duration = LIVE_MIGRATION.duration if duration is None else duration
    return OperateVm(
        id=uuid4().hex,
        by=EMULATOR,
        operation=_ON_VM[verb],
        vm=vm,
        not_before=not_before,
        duration=duration,
        description=description,
    )


def command_on_host(
    verb: Verb,
    host: str,
    *,
    not_before: datetime | None = None,
    duration: int | None = None,
    description: str | None = None,
    placements: dict[str, str] | None = None,
) -> Command:
    """Return the command that does this to all VMs of a host; a drain, to the hosts in ``placements``."""
    if verb is Verb.DRAIN:
        return DrainHost(
            id=str(uuid4()),
            by=EMULATOR,
            host=host,
            placements=placements or {},
            not_before=not_before,
            duration=duration,
            description=description,
            live=True,
        )
    if verb not in _ON_HOST:
        raise BadInput(f"{verb} is done to a VM, not to a host; name a VM, or do one of {', '.join(HOST_VERBS)}")
    return OperateHost(
        id=uuid4().hex,
        by=EMULATOR,
        operation=_ON_HOST[verb],
        host=host,
        not_before=not_before,
        duration=duration,
        description=description,
        live=verb is Verb.MIGRATE,
    )
