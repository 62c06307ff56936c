"""The promises about what VMs are shown, and about what VMs may do."""

import re
from functools import lru_cache

import msgspec

from forewarn.simulator.exchanges import VmExchange
from forewarn.simulator.promises.event_memory import EventMemory, GivenApproval, HighWater
from forewarn.simulator.promises.events import EventPromises, ShownEvent
from forewarn.simulator.promises.memory import CheckerMemory, read_not_before

LONGEST_POLL = 330.0
"""Seconds in which a GET ends; one with ``Prefer: wait`` waits for up to 300 s."""
PROMPT = 2.0
"""Seconds in which a response follows a change that it waits for."""
LONGEST_POST = 60.0
"""Seconds in which any other request of a VM ends."""
_ROUTE = "/metadata/scheduledevents"
_VERSION = re.compile(r"api-version=([0-9-]+)", re.IGNORECASE)
_TAG = re.compile(r'(?:W/)?"?(.+)-([0-9]+)"?')
_SHOWN_SINCE = {"Preempt": "2017-11-01", "Terminate": "2019-01-01"}
_UNDERSCORES = "2017-03-01"


class _DocumentEvent(msgspec.Struct, rename="pascal"):
    event_id: str
    event_status: str
    event_type: str
    resources: tuple[str, ...]
    not_before: str = ""
    description: str | None = None
    event_source: str | None = None
    duration_in_seconds: int | None = None


class _ShownDocument(msgspec.Struct, rename="pascal"):
    document_incarnation: int
    events: tuple[_DocumentEvent, ...]


class _ById(msgspec.Struct, rename="pascal"):
    event_id: str


class _Approvals(msgspec.Struct, rename="pascal"):
    start_requests: tuple[_ById, ...] = ()
    postpone_requests: tuple[_ById, ...] = ()


_read_document = lru_cache(maxsize=512)(msgspec.json.Decoder(_ShownDocument).decode)
_read_approvals = msgspec.json.Decoder(_Approvals).decode


@lru_cache(maxsize=256)
def _version_of(target: str) -> str:
    """Return the api-version of a request for the document; empty where it is none."""
    path, _, query = target.partition("?")
    found = _VERSION.search(query)
    return found[1] if found and path.lower().rstrip("/") == _ROUTE else ""


class DocumentPromises:
    """Checks the exchanges of VMs."""

    def __init__(self, memory: CheckerMemory, events: EventPromises) -> None:
        self._memory = memory
        self._report = memory.report
        self._events = events
        self._incarnations: dict[str, HighWater] = {}
        self._incarnations_of_vm: dict[str, HighWater] = {}
        self._shown: dict[tuple[str, int, str], bytes] = {}
        self._stood: dict[tuple[str, int], dict[str, tuple[str, str]]] = {}
        self._last_sent: dict[tuple[str, str], float] = {}
        self._displayed: set[str] = set()
        self._neighbours: set[tuple[str, str]] = set()
        """Events that a document showed one after the other."""
        self._refused: list[tuple[VmExchange, tuple[str, ...]]] = []
        """Approvals that were refused, with the events that they named."""
        self._foreign: list[tuple[VmExchange, str]] = []
        self._failed: list[VmExchange] = []

    def see(self, exchange: VmExchange, waited: float) -> None:
        """Check an exchange; ``waited`` is how long it took, also where it counts as sent earlier."""
        version = _version_of(exchange.target)
        if exchange.status >= 500 or (exchange.status >= 400 and exchange.method != "HEAD"):
            self._is_refused_properly(exchange)
        if not version:
            return
        if exchange.method == "POST":
            self._see_approval(exchange)
        elif exchange.status in (200, 304):
            self._see_document(exchange, version, waited)

    def see_incarnation(self, group: str, incarnation: int, sent_at: float, ended_at: float, where: str) -> None:
        """Check that a group's incarnation never falls."""
        seen = self._incarnations.setdefault(group, HighWater())
        if incarnation < (known := seen.before(sent_at)):
            self._report(ended_at, f"incarnation of {group} fell from {known} to {incarnation}, seen by {where}")
        seen.add(ended_at, incarnation)

    def _see_document(self, exchange: VmExchange, version: str, waited: float) -> None:
        vm, sent_at, ended_at = exchange.vm, exchange.sent_at, exchange.ended_at
        tag = _TAG.fullmatch(exchange.headers.get("etag") or exchange.headers.get("ETag") or "")
        group = tag[1] if tag else self._memory.members.group_of(vm)
        document = None
        if exchange.status == 200 and exchange.method == "GET":
            try:
                document = _read_document(exchange.response)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                self._report(ended_at, f"{vm} was shown a document that cannot be read: {error}")
                return
        incarnation = document.document_incarnation if document else int(tag[2]) if tag else None
        if incarnation is None:
            return
        if document and tag and incarnation != int(tag[2]):
            self._report(ended_at, f"{vm} was shown incarnation {incarnation} with the tag {tag[0]}")
        self._never_falls_for_a_vm(vm, incarnation, sent_at, ended_at)
        self._is_as_new_as_its_tag(exchange, incarnation)
        if not group:
            return
        self._hears_of_changes(exchange, group, incarnation, waited)
        if not self._memory.members.may_be_in(vm, group):
            self._report(ended_at, f"{vm} was shown the document of {group}, to which it never belonged")
        self.see_incarnation(group, incarnation, sent_at, ended_at, vm)
        self._memory.asked.setdefault(group, []).append(ended_at)
        if document is None:
            return
        self._shows_the_same(exchange, group, document, version)
        self._see_events(exchange, group, document, version)

    # A VM that waits is answered when something has changed; one that has left a group is not shown its document.

    def _hears_of_changes(self, exchange: VmExchange, group: str, incarnation: int, waited: float) -> None:
        vm, slack = exchange.vm, PROMPT + self._memory.network_delay + exchange.behind
        seen = self._incarnations.get(group)
        if exchange.waits and seen and incarnation < (known := seen.before(exchange.ended_at - slack)):
            text = f"{vm} waited for a change of {group} and was shown {incarnation}"
            self._report(exchange.ended_at, f"{text}, when {known} had been shown for {slack:.0f} s")
        has_waited = exchange.waits and exchange.status == 200 and waited > slack
        is_settled = self._memory.members.group_of(vm) == group  # else it may have joined the group meanwhile
        is_late = has_waited and is_settled and seen and seen.before(exchange.ended_at - slack) >= incarnation
        if is_late and not self._memory.may_stall(exchange.ended_at - waited, exchange.ended_at):
            text = f"{vm} waited for a change of {group} and was shown {incarnation} late"
            self._report(exchange.ended_at, f"{text}, which others had been shown for {slack:.0f} s")
        since = exchange.ended_at - slack
        joined = self._memory.joined.known(vm, since, exchange.ended_at)
        if joined not in (None, group) and vm not in self._memory.members.refiled:
            text = f"{vm} was shown the document of {group}, and has joined {joined}"
            self._memory.suspect(self._memory.joined, vm, since, exchange.ended_at, text)

    # What a VM sees never falls, whichever group it joins.

    def _never_falls_for_a_vm(self, vm: str, incarnation: int, sent_at: float, ended_at: float) -> None:
        seen = self._incarnations_of_vm.setdefault(vm, HighWater())
        if incarnation < (known := seen.before(sent_at)):
            self._report(ended_at, f"the incarnation that {vm} is shown fell from {known} to {incarnation}")
        seen.add(ended_at, incarnation)

    # A VM that tells what it has seen is never shown anything older, whichever node it asks.

    def _is_as_new_as_its_tag(self, exchange: VmExchange, incarnation: int) -> None:
        tag = _TAG.fullmatch(exchange.tag)
        if tag and incarnation < int(tag[2]):
            self._report(exchange.ended_at, f"{exchange.vm} has seen {tag[0]}, and was shown {incarnation}")

    # The same incarnation shows the same events; every api-version shows the same of those that it shows.

    def _shows_the_same(self, exchange: VmExchange, group: str, document: _ShownDocument, version: str) -> None:
        incarnation = document.document_incarnation
        known = self._shown.setdefault((group, incarnation, version), exchange.response)
        if known is exchange.response:
            stood = self._stood.setdefault((group, incarnation), {})
            for event in document.events:
                shown = (event.event_status, event.not_before)
                if stood.setdefault(event.event_id, shown) != shown:
                    text = f"{group} shows {event.event_id} as {shown} and {stood[event.event_id]}"
                    self._report(exchange.ended_at, f"{text} in incarnation {incarnation}")
        elif known != exchange.response:
            text = f"{group} has two documents of incarnation {incarnation} in {version}"
            self._report(exchange.ended_at, f"{text}: {known.decode()} and {exchange.response.decode()}")

    def _see_events(self, exchange: VmExchange, group: str, document: _ShownDocument, version: str) -> None:
        vm, sent_at, ended_at = exchange.vm, exchange.sent_at, exchange.ended_at
        started: list[EventMemory] = []
        shown: set[str] = set()
        previous: EventMemory | None = None
        for wire in document.events:
            id_ = wire.event_id.lower()
            shown.add(id_)
            fields = _fields_of(wire, version)
            self._is_of_the_group(exchange, group, wire, fields)
            is_scheduled = wire.event_status == "Scheduled"
            event = self._events.see(
                ShownEvent(
                    id_, wire.event_status, fields, sent_at, ended_at, f"the document of {vm}", group,
                    read_not_before(wire.not_before) if is_scheduled and wire.not_before else None,
                )
            )  # fmt: skip
            if is_scheduled != bool(wire.not_before):
                self._report(ended_at, f"{event} is {wire.event_status} with NotBefore {wire.not_before!r}")
            if version < _SHOWN_SINCE.get(wire.event_type, ""):
                self._report(ended_at, f"{vm} was shown {event} in {version}, which has no {wire.event_type}")
            if wire.event_status not in ("Scheduled", "Started"):
                self._report(ended_at, f"{vm} was shown {event} with the status {wire.event_status}")
            if id_ not in self._displayed:
                self._displayed.add(id_)
                event.absent_at = self._absent_at(group, wire.event_type)
                self._is_of_one_domain(event, ended_at)
            if previous is not None:
                self._come_in_order(previous, event, ended_at)
            previous = event
            if wire.event_status == "Started":
                started.append(event)
        for id_, event in list(self._memory.unfinished.get(group, {}).items()):
            is_visible = _SHOWN_SINCE.get(event.type, "") <= version
            if id_ not in shown and event.type and is_visible and event.first_seen_at <= sent_at:
                self._events.see_gone(event, ended_at)
        service = self._memory.service
        if service.state in ("", "serving") and service.is_unchanged(sent_at, ended_at):
            # Else a worker without a leader may have answered, and does not know what was recorded last.
            key = (group, version)
            self._last_sent[key] = max(self._last_sent.get(key, 0.0), sent_at)
        if len(started) > 1:
            self._goes_in_turns(group, started, ended_at)

    def _absent_at(self, group: str, type_: str) -> float:
        """Return the last second at which a document that shows such events was asked for, and lacked the event."""
        since = _SHOWN_SINCE.get(type_, "")
        return max(
            (at for (each, version), at in self._last_sent.items() if each == group and version >= since), default=0.0
        )

    # Events are shown in the order of their announcement.

    def _come_in_order(self, one: EventMemory, other: EventMemory, at: float) -> None:
        if (one.id, other.id) in self._neighbours:
            return
        self._neighbours.add((one.id, other.id))
        if (other.id, one.id) in self._neighbours or other.first_seen_at < one.announced_after:
            self._report(at, f"{one} is shown before {other}, which was announced before it")

    # The VMs of an event share their update domain and their host.

    def _is_of_one_domain(self, event: EventMemory, at: float) -> None:
        domains = self._memory.members.domains_of(event.resources) or ()
        if len({update for update, _ in domains}) > 1:
            self._report(at, f"{event} is about VMs of the domains {sorted(domains)}")
        hosts = self._memory.members.hosts_of(event.resources) or ()
        if len(hosts) > 1:
            self._report(at, f"{event} is about VMs on the hosts {', '.join(sorted(hosts))}")

    # Maintenance of a group is not Started together, unless it shares its domains; no VM is under two Started events.

    def _goes_in_turns(self, group: str, started: list[EventMemory], at: float) -> None:
        members = self._memory.members
        for number, one in enumerate(started):
            for other in started[:number]:
                both = set(one.resources) & set(other.resources) - members.maybe_gone
                if both:
                    self._report(at, f"{', '.join(sorted(both))} of {group} is under {one} and {other} at once")
                if not (one.takes_turns and other.takes_turns):
                    continue
                domains = members.domains_of((*one.resources, *other.resources))
                if domains is not None and len(domains) > 1:
                    self._report(at, f"{one} and {other} are Started together, in the domains {sorted(domains)}")

    # A VM is shown events of its own group only, about VMs of that group, and can approve no others.

    def _is_of_the_group(
        self, exchange: VmExchange, group: str, wire: _DocumentEvent, fields: dict[str, object]
    ) -> None:
        resources = fields["resources"]
        assert isinstance(resources, tuple)  # noqa: S101 - as read
        strangers = [vm for vm in resources if not self._memory.members.may_be_in(vm, group)]
        if strangers:
            text = f"{exchange.vm} of {group} was shown {wire.event_id[:8]} about {', '.join(strangers)}"
            self._report(exchange.ended_at, f"{text}, which never belonged to that group")
        if not resources or list(resources) != sorted(set(resources)):
            self._report(
                exchange.ended_at, f"{wire.event_id[:8]} of {group} has the resources {resources}, not sorted names"
            )

    def _see_approval(self, exchange: VmExchange) -> None:
        try:
            said = _read_approvals(exchange.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            if 200 <= exchange.status < 300:
                self._report(exchange.ended_at, f"an approval of {exchange.vm} that cannot be read was accepted")
            return
        is_taken = 200 <= exchange.status < 300
        approval = GivenApproval(exchange.vm, exchange.sent_at, is_taken, of_vm=True, ended_at=exchange.ended_at)
        if is_taken or exchange.status == 0 or exchange.status >= 500:
            for each in said.start_requests:
                self._memory.event(each.event_id, exchange.ended_at).approvals.append(approval)
            for each in said.postpone_requests:
                self._memory.event(each.event_id, exchange.ended_at).postponements.append(approval)
        elif exchange.status == 400 and exchange.guest != "hostile" and not said.postpone_requests:
            self._refused.append((exchange, tuple(each.event_id.lower() for each in said.start_requests)))
        if is_taken:
            for each in (*said.start_requests, *said.postpone_requests):
                self._foreign.append((exchange, each.event_id.lower()))

    # Every refusal is JSON with an error; the service fails only while its disk does or it stops.

    def _is_refused_properly(self, exchange: VmExchange) -> None:
        try:
            error = msgspec.json.decode(exchange.response, type=dict[str, object]).get("error")
        except (msgspec.DecodeError, UnicodeDecodeError):
            error = None
        if not error:
            shown = exchange.response[:80].decode(errors="replace")
            self._report(
                exchange.ended_at, f"{exchange.vm} was answered {exchange.status} without an error: {shown!r}"
            )
        if exchange.status >= 500 and not self._memory.disk.may_fail(exchange.sent_at, exchange.ended_at):
            self._failed.append(exchange)

    # Every wait has an end.

    def ends_in_time(self, exchange: VmExchange) -> None:
        limit = LONGEST_POLL if exchange.method == "GET" else LONGEST_POST
        lasted = exchange.ended_at - exchange.sent_at - self._memory.network_delay
        if lasted > limit and self._memory.service.is_unchanged(exchange.sent_at, exchange.ended_at):
            self._report(exchange.ended_at, f"{exchange.method} of {exchange.vm} took {lasted:.0f} s")

    # A VM may approve every event of its group that is there.

    def _may_be_approved(self, id_: str, exchange: VmExchange) -> bool:
        """Return whether an event of the VM's group was there before and after it approved."""
        event, members = self._memory.events.get(id_), self._memory.members
        if event is None or not event.group or event.group != members.group_of(exchange.vm):
            return False
        if exchange.vm in members.maybe_gone:
            return False
        return event.first_seen_at <= exchange.sent_at and event.scheduled_at >= exchange.ended_at

    def settle(self, now: float) -> None:
        for exchange, ids in self._refused:
            if all(self._may_be_approved(id_, exchange) for id_ in ids):
                events = ", ".join(str(self._memory.events[id_]) for id_ in ids)
                self._report(exchange.ended_at, f"{exchange.vm} was not let approve {events}: {exchange.response!r}")
        for exchange, id_ in self._foreign:
            event = self._memory.events[id_]
            if event.group and not self._memory.members.may_be_in(exchange.vm, event.group):
                self._report(exchange.ended_at, f"{exchange.vm} approved {event}, which is not of its group")
            elif not event.group and event.timeline is None and not event.fields:
                self._report(exchange.ended_at, f"{exchange.vm} approved {id_}, which nothing else tells of")
        for exchange in self._failed:
            if self._memory.service.is_unchanged(exchange.sent_at - 30.0, exchange.ended_at + 30.0):
                what = f"{exchange.method} of {exchange.vm}"
                self._report(exchange.ended_at, f"{what} was answered {exchange.status} although the disk worked")


def _fields_of(wire: _DocumentEvent, version: str) -> dict[str, object]:
    """Return what an event keeps for life, as far as the api-version shows it."""
    resources = wire.resources
    if version == _UNDERSCORES:
        resources = tuple(name.removeprefix("_") for name in resources)
    fields: dict[str, object] = {"type": wire.event_type, "resources": resources}
    if wire.description is not None:
        fields["description"] = wire.description
    if wire.event_source is not None:
        fields["source"] = wire.event_source
    if wire.duration_in_seconds is not None:
        fields["duration"] = wire.duration_in_seconds
    return fields
