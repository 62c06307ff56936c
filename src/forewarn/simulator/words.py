"""Facts, refusals and times in words, as the transcripts of scenarios and of simulations tell them."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from forewarn.core.declared_keys import HeldChange, HoldReason
from forewarn.core.facts import (
    Announced,
    AnyFact,
    Approved,
    Asked,
    Attempted,
    BroughtForward,
    Canceled,
    ChangesHeld,
    ClockStepped,
    Completed,
    Delivered,
    Enrolled,
    Failed,
    Fetched,
    FleetChanged,
    FleetDeclared,
    GroupSet,
    HostCordonSet,
    HostStateSet,
    IncarnationsRaised,
    ObservationRecorded,
    Postponed,
    Selected,
    Started,
    StartedAtOnce,
    SubscriptionRemoved,
    SubscriptionSet,
    SwitchedOff,
    TokenCreated,
    TokenRevoked,
    VmDeallocated,
    VmMoved,
    VmRemoved,
    VmStarted,
    VmSwitched,
    Waiting,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import ApprovalRule, Event, EventStatus, EvictionPolicy, GroupTerms, Policy, Vm
from forewarn.core.rollouts.sentences import describe

MONDAY = datetime(2024, 1, 1, tzinfo=UTC)
"""Every transcript begins on a Monday."""

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_TIME = re.compile(r"(?:(\d{4}-\d\d-\d\d) )?(?:(Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?(\d\d):(\d\d):(\d\d(?:\.\d+)?)")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def read_time(words: str) -> datetime:
    """Return the time that ``12:00:00``, ``Tue 12:00:00`` or ``2034-01-01 12:00:00`` names."""
    match = _TIME.fullmatch(words)
    if match is None:
        raise ValueError(f"{words!r} is no time; write 12:00:00, Tue 12:00:00 or 2034-01-01 12:00:00")
    date, day, hours, minutes, seconds = match.groups()
    since_midnight = timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds))
    if date:
        return datetime.fromisoformat(date).replace(tzinfo=UTC) + since_midnight
    return MONDAY + timedelta(days=_DAYS.index(day) if day else 0) + since_midnight


def say_time(time: datetime) -> str:
    day = (time - MONDAY).days
    words = f"{time:%H:%M:%S}" + (f".{time.microsecond:06}".rstrip("0") if time.microsecond else "")
    if day not in range(7):
        return f"{time:%Y-%m-%d} {words}"
    return words if day == 0 else f"{_DAYS[day]} {words}"


class Labels:
    """Short names for events, E1 being the first that was announced, and the names of subscriptions."""

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}
        self._subscriptions: dict[str, str] = {}

    def give(self, fact: AnyFact) -> None:
        """Name the event that this fact announces, or the subscription that it sets."""
        if isinstance(fact, Announced | StartedAtOnce):
            self.give_event(fact.event.id)
        elif isinstance(fact, SubscriptionSet):
            self._subscriptions[fact.subscription.id] = f"subscription {fact.subscription.name}"

    def give_event(self, id_: str) -> None:
        """Name an event, if it has no name yet."""
        self._labels.setdefault(id_, f"E{len(self._labels) + 1}")

    def of(self, id_: str) -> str:
        return self._labels.get(id_) or self._subscriptions.get(id_, id_)

    def id_of(self, label: str) -> str:
        """Return the id behind a label; a word that is no label stands for an id of no event."""
        return next((id_ for id_, given in self._labels.items() if given == label), label)

    def put_into(self, words: str) -> str:
        """Write labels where ``words`` has ids."""
        return _ID.sub(lambda match: self.of(match[0]), words)


def say(fact: AnyFact, labels: Labels) -> str:
    """Tell one fact in one line."""
    match fact:
        case Announced(event=event):
            return f"{labels.of(event.id)} is announced: {_impact(event)}, {_notice(event)}"
        case StartedAtOnce(event=event):
            return f"{labels.of(event.id)} is born Started ({event.without_notice}): {_impact(event)}"
        case Approved(by=by, counts=counts):
            return f"{labels.of(fact.event)} is approved by {by}" + ("" if counts else ", which does not count")
        case Waiting(until=datetime() as until):
            return f"{labels.of(fact.event)} waits for the end of quiet hours, {say_time(until)}"
        case Postponed(by=by):
            later = say_time(fact.not_before)
            return f"{labels.of(fact.event)} is postponed by {by}, not before {later}: {fact.reason or 'no reason'}"
        case BroughtForward():
            return f"{labels.of(fact.event)} is brought forward, not before {say_time(fact.not_before)}"
        case TokenCreated(token=token):
            return f"token {token.name} ({token.role}) is created"
        case TokenRevoked(token=id_):
            return f"token {id_} is revoked"
        case SubscriptionSet(subscription=subscription):
            return f"{labels.of(subscription.id)}: {subscription.target} is told ({subscription.kind})"
        case SubscriptionRemoved(subscription=id_):
            return f"{labels.of(id_)} is removed"
        case Delivered(revisions=revisions):
            return ", ".join(f"{labels.of(id_)} was told up to {revision}" for id_, revision in revisions.items())
        case Waiting():
            return f"{labels.of(fact.event)} waits for {labels.of(fact.behind) or 'nothing any more'}"
        case Started():
            return f"{labels.of(fact.event)} starts: {fact.because}"
        case Attempted():
            return f"{labels.of(fact.event)} is attempted"
        case Completed():
            return f"{labels.of(fact.event)} is completed" + (f": {fact.detail}" if fact.detail else "")
        case Failed():
            return f"{labels.of(fact.event)} fails: {fact.reason}"
        case Canceled():
            return f"{labels.of(fact.event)} is canceled: {fact.because}"
        case VmRemoved() | VmDeallocated():
            verb = "removed" if isinstance(fact, VmRemoved) else "deallocated"
            return f"{fact.vm} is {verb}: {fact.because}" + _asks_driver(fact)
        case VmStarted():
            return f"{fact.vm} runs again" + _asks_driver(fact)
        case VmMoved():
            return f"{fact.vm} stands on {fact.host}"
        case VmSwitched(on=on, failure=failure):
            if failure:
                return f"the driver cannot {'start' if on else 'stop'} {fact.vm}: {failure}"
            return f"the driver {'started' if on else 'stopped'} {fact.vm}"
        case HostCordonSet(left=left):
            stay = "".join(f"; {vm} stays: {why}" for vm, why in left.items())
            stay += "".join(f"; {labels.of(id_)} may still move VMs there" for id_ in fact.arriving)
            return f"host {fact.host} is {'cordoned' if fact.is_cordoned else 'uncordoned'}{stay}"
        case HostStateSet():
            return f"host {fact.host} is {fact.state}"
        case IncarnationsRaised(groups=groups, retired=retired):
            raised = [f"the incarnation of {name} is raised to {number}" for name, number in groups.items()]
            return ", ".join([*raised, *([f"removed VMs have seen incarnation {retired}"] if retired else [])])
        case Selected(operation=operation, names=names, refused=refused):
            spared = "".join(f"; not to {name}: {why}" for name, why in refused.items())
            return labels.put_into(f"{operation} is done to {', '.join(names)}{spared}")
        case ClockStepped(at=at, expected=expected):
            return f"the clock steps from {say_time(expected)} to {say_time(at)}"
        case ObservationRecorded(observation=observation):
            return f"{observation.vm} was seen {observation.what}" + (
                f": {observation.detail}" if observation.detail else ""
            )
        case Enrolled():
            return f"{fact.group} is switched on by {fact.by}"
        case SwitchedOff():
            return f"{fact.group} is switched off"
        case Asked(marks=marks):
            return ", ".join(f"{mark.by} of {mark.group} asked at {say_time(mark.at)}" for mark in marks)
        case Fetched(fetches=fetches):
            return ", ".join(f"{fetch.vm} was shown {labels.of(fetch.event)}" for fetch in fetches)
        case GroupSet(terms=terms):
            return f"the terms are now: {_terms(terms)}"
        case FleetChanged():
            return "the fleet has: " + "; ".join(_changes(fact))
        case FleetDeclared():
            said = ["the file is recorded", *_changes(fact)]
            said += [f"{each.name} {each.key} was {each.value}" for each in fact.replaced]
            said += [f"left out: {each.said}" for each in fact.left_out]
            return "; ".join(said)
        case ChangesHeld(changes=changes, ended=ended):
            held = [_held(each, labels) for each in changes]
            return "; ".join([*held, *(f"no change of {each.kind} {each.name} is held any more" for each in ended)])
        case _:
            return describe(fact)


def _asks_driver(fact: VmRemoved | VmDeallocated | VmStarted) -> str:
    return "; the driver is asked" if getattr(fact, "request", "") else ""


def show(fleet: Fleet, name: str, labels: Labels) -> Iterator[str]:
    """Tell what a group is shown, and where its VMs are."""
    if name not in fleet.groups:
        yield f"there is no group {name}"
        return
    group = fleet.groups[name]
    yield f"incarnation {group.incarnation}, {'on' if group.enrolled_at else 'off'}"
    for event in fleet.events_of(name):
        status = "Started" if event.status is EventStatus.STARTED else f"Scheduled, {_notice(event)}"
        waits = f", waits for {labels.of(event.waits_for)}" if event.waits_for else ""
        yield f"{labels.of(event.id)} {_impact(event)}: {status}{waits}"
    for vm in group.vms:
        yield _vm(fleet.vms[vm])


def _impact(event: Event) -> str:
    duration = f" for {event.duration} s" if event.duration >= 0 else ""
    chosen = f", {event.reason}" if event.reason else ""
    placed = ", ".join(f"{vm} to {host}" for vm, host in event.placements.items())
    target = f" to {event.target}" if event.target else f" ({placed})" if placed else ""
    return f"{event.type.capitalize()}{duration} of {', '.join(event.resources)}{target} ({event.source}{chosen})"


def _notice(event: Event) -> str:
    if event.without_notice:
        return f"no notice owed ({event.without_notice})"
    return f"not before {say_time(event.not_before)}"


def _held(change: HeldChange, labels: Labels) -> str:
    what = f"the change of {', '.join(change.keys)}" if change.keys else "the coming or going"
    why = labels.of(change.because) if change.reason is HoldReason.EVENT else f"{change.reason}: {change.because}"
    return f"{what} of {change.kind} {change.name} is held by {why}"


def _changes(fact: FleetChanged | FleetDeclared) -> Iterator[str]:
    yield from (f"host {host.name}" for host in fact.hosts)
    yield from (_terms(terms) for terms in fact.groups)
    yield from (_vm(vm) for vm in fact.vms)
    yield from (f"no host {name}" for name in fact.removed_hosts)
    yield from (f"no group {name}" for name in fact.removed_groups)
    yield from (f"no vm {name}" for name in fact.removed_vms)


def _terms(terms: GroupTerms) -> str:
    words = [f"group {terms.name} {terms.kind}"]
    if terms.approval is not ApprovalRule.ANY:
        words.append(f"approval={terms.approval}")
    if terms.terminate_notice is not None:
        words.append(f"terminate_notice={terms.terminate_notice}")
    if terms.eviction is not EvictionPolicy.DEALLOCATE:
        words.append(f"eviction={terms.eviction}")
    for key in Policy.__struct_fields__:
        value = getattr(terms.policy, key)
        if value != getattr(Policy(), key):
            words.append(f"{key}={','.join(value).replace(' ', '_') if key == 'quiet_hours' else value}")
    return " ".join(words)


def _vm(vm: Vm) -> str:
    words = [f"vm {vm.name} in {vm.group}"]
    if vm.host:
        words.append(f"on {vm.host}")
    if vm.moved_to:
        words.append(f"moved to {vm.moved_to}")
    words.append(f"ud={vm.update_domain} fd={vm.fault_domain}")
    if vm.address:
        words.append(f"address={vm.address}")
    words += [word for word, holds in (("spot", vm.spot), ("deallocated", vm.deallocated)) if holds]
    return " ".join(words)
