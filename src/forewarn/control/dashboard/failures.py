"""VMs with an event that failed lately: they stay marked until a later event of theirs is completed."""

from datetime import datetime

from forewarn.control.api.context import ApiContext
from forewarn.core.access import Principal
from forewarn.core.model import EventStatus

_MOST = 5_000
"""Ended events among which a completed one is looked for."""


async def failed_vms(context: ApiContext, principal: Principal) -> frozenset[str]:
    """Return the visible VMs with an event that failed in the last hours, and with none completed since."""
    failed: dict[str, datetime] = {}
    for each in await context.recent.failures(principal):  # the latest first
        for vm in each.event.vms or each.event.resources:
            failed.setdefault(vm, each.at)
    if not failed:
        return frozenset()
    for each in await context.recent.ended(principal, _MOST):
        if each.event.status is EventStatus.COMPLETED:
            for vm in each.event.vms or each.event.resources:
                if vm in failed and failed[vm] < each.at:
                    del failed[vm]
    return frozenset(failed)
