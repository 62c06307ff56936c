"""Tonight: the start page for the person on call."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.params import FromQuery

from forewarn.control.api.context import ApiContext, ContextDependency, PrincipalDependency
from forewarn.control.api.subscriptions import view_subscription
from forewarn.control.bodies import SubscriptionView
from forewarn.control.dashboard.events import EventRow, event_row
from forewarn.control.dashboard.recent_history import recent_lines
from forewarn.control.dashboard.routing import html, page
from forewarn.control.notifications.worker import DeliveryState
from forewarn.control.rollout_views import RolloutView, view_rollout
from forewarn.control.server.recent_events import FAILURES_FOR
from forewarn.core.access import Action, Principal
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, EventStatus, HostState
from forewarn.core.rollouts.model import HostRun, HostStep, RolloutState

_AHEAD = timedelta(hours=12)
_BROKEN = (HostState.FAILED, HostState.DEGRADED)
_SHOWN = 100
"""Rows of one list; the rest is counted."""


class Attention(StrEnum):
    """Why an event is listed, the most urgent first."""

    FAILED = "failed"
    LATE = "late"
    """Scheduled past NotBefore: it waits for a turn, quiet hours, or a clock."""
    STARTED = "started"
    UNFETCHED = "unfetched"
    """Not all of its VMs have fetched it."""
    UNAPPROVED = "unapproved"
    """Its approvals do not satisfy the rule of its group yet."""
    COMING = "coming"


_URGENCY = {reason: number for number, reason in enumerate(Attention)}


class Overview(msgspec.Struct, frozen=True):
    """Unfinished events of the next hours, the most urgent first."""

    rows: list[EventRow]
    later: int
    """Events beyond the next hours."""
    scheduled: int
    """Events that have not started, also those beyond the next hours."""


class FleetTroubles(msgspec.Struct, frozen=True):
    """What needs attention beside events."""

    running: list[RolloutView]
    paused: list[RolloutView]
    stopped: list[RolloutView]
    """Rollouts that are paused, or behind schedule."""
    failed_hosts: list[HostRun]
    """Hosts that failed in rollouts that have not ended."""
    hosts: dict[str, HostState]
    """Hosts that are failed or degraded."""
    crashed: list[str]
    subscriptions: list[SubscriptionView]
    """Those with deliveries that fail."""

    @property
    def is_any(self) -> bool:
        return bool(self.stopped or self.failed_hosts or self.hosts or self.crashed or self.subscriptions)


def overview(fleet: Fleet, events: Iterable[Event], now: datetime) -> Overview:
    """Sort unfinished events by what the person on call has to know."""
    rows = [event_row(fleet, event, now) for event in events]
    soon = [row for row in rows if not row.is_scheduled or row.not_before <= now + _AHEAD]
    soon.sort(key=lambda row: (_URGENCY[reasons_of(row)[0]], row.not_before, row.id))
    return Overview(soon, len(rows) - len(soon), sum(row.is_scheduled for row in rows))


def reasons_of(row: EventRow) -> tuple[Attention, ...]:
    """Return every reason that applies, the most urgent first: a late event may be neither fetched nor approved."""
    if row.status is EventStatus.FAILED:
        return (Attention.FAILED,)
    if row.status is EventStatus.STARTED:
        is_untold = row.unfetched and row.is_owed_notice
        return (Attention.STARTED, *((Attention.UNFETCHED,) if is_untold else ()))
    applies = {Attention.LATE: row.is_late, Attention.UNFETCHED: row.unfetched, Attention.UNAPPROVED: row.needed}
    return tuple(reason for reason, is_so in applies.items() if is_so) or (Attention.COMING,)


def troubles(context: ApiContext, principal: Principal) -> FleetTroubles:
    """Return what needs attention beside events, as far as the principal may see it."""
    fleet, now = context.fleet, context.now()
    sees_hosts = principal.may(Action.READ_HOSTS)
    rollouts = [view_rollout(fleet, each, now) for each in fleet.rollouts.values()] if sees_hosts else []
    failed = (run for run in fleet.rollout_hosts.values() if sees_hosts and run.step is HostStep.FAILED)
    crashed = (name for name in fleet.crashed if name in fleet.vms and principal.sees(fleet.vms[name].group))
    mine = fleet.subscriptions.values() if principal.may(Action.KEEP_SUBSCRIPTIONS) else ()
    subscriptions = [view_subscription(context, each) for each in mine]
    return FleetTroubles(
        running=[each for each in rollouts if each.state == RolloutState.RUNNING],
        paused=[each for each in rollouts if each.state == RolloutState.PAUSED],
        stopped=[each for each in rollouts if each.state == RolloutState.PAUSED or each.is_late or each.blocked],
        failed_hosts=list(failed),
        hosts={name: state for name, state in fleet.host_states.items() if sees_hosts and state in _BROKEN},
        crashed=sorted(crashed),
        subscriptions=[each for each in subscriptions if each.state not in ("", DeliveryState.HEALTHY)],
    )


async def attention(context: ApiContext, principal: Principal) -> Overview:
    """Return the events that failed lately, and the unfinished ones of the next hours, the most urgent first."""
    failures = await context.recent.failures(principal)
    now, fleet = context.now(), context.fleet
    failed = [event_row(fleet, each.event, now, each.at, each.reason) for each in failures]
    found = overview(fleet, principal.known_events(fleet), now)
    return msgspec.structs.replace(found, rows=[*failed, *found.rows])


@page("/", Action.READ_VMS)
async def tonight(
    request: Request[Any, Any, Any],
    context: ContextDependency,
    principal: PrincipalDependency,
    only: FromQuery[str] = "",
) -> Response[bytes]:
    """Show what happens in the next hours, what is late, and what failed; or only events with one of the reasons."""
    last = await recent_lines(context, principal, limit=8)
    found = await attention(context, principal)
    rows = [(reasons_of(row), row) for row in found.rows]
    counts = Counter(str(reason) for reasons, _ in rows for reason in reasons)
    only = only if only in _URGENCY else ""
    return html(
        request,
        "tonight.html",
        section="tonight",
        rows=[(reasons, row) for reasons, row in rows if not only or only in reasons],
        reasons={str(reason): counts[reason] for reason in Attention if counts[reason] or reason == only},
        only=only,
        later=found.later,
        scheduled=found.scheduled,
        troubles=troubles(context, principal),
        warnings=tuple(context.node.warnings.values()) if principal.may(Action.READ_HEALTH) else (),
        hours=int(FAILURES_FOR.total_seconds() // 3600),
        most=_SHOWN,
        last=last,
    )
