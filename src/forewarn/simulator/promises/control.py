"""The promises about the control API: nothing acknowledged is lost, no tenant learns of another, every wait ends."""

import re
from datetime import datetime
from functools import lru_cache

import msgspec

from forewarn.simulator.exchanges import ControlExchange
from forewarn.simulator.promises.documents import DocumentPromises
from forewarn.simulator.promises.event_memory import GivenApproval, RecordedTimeline
from forewarn.simulator.promises.events import EventPromises, ShownEvent
from forewarn.simulator.promises.memory import CheckerMemory, EndOfVms, wall_second, words_of
from forewarn.simulator.promises.terms import TermPromises

LONGEST_REQUEST = 60.0
"""Seconds in which a request to the control API ends."""
PASSING_ON = 15.0
"""Seconds more, where a node asks another one that does not answer."""
_ID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_EVENT = re.compile(rf"/v1/events/({_ID})(?:/(\w+))?")
_GROUP = re.compile(r"/v1/groups/([^/?]+)")
_VM_OPERATION = re.compile(r"/v1/vms/([^/?]+)/operations")
_OPERATION = re.compile(rf"/v1/operations/({_ID})")
_IDS = re.compile(_ID)
_ANY_ANSWER = (0, 401, 403, 429, 503)
"""The responses that tell nothing of what was done."""


class _Event(msgspec.Struct):
    id: str
    type: str
    status: str
    resources: tuple[str, ...]
    not_before: datetime | None = None


class _Announcement(msgspec.Struct):
    event: _Event
    group: str
    without_notice: str = ""


class _Result(msgspec.Struct):
    operation: str = ""
    dry_run: bool = False
    announcements: tuple[_Announcement, ...] = ()
    canceled: tuple[str, ...] = ()
    changed: dict[str, int] = {}
    selected: tuple[str, ...] = ()
    refused: dict[str, str] | int = {}
    """Of a bulk operation; a subscription has a number under this name."""


class _Vm(msgspec.Struct):
    name: str
    group: str
    update_domain: int = 0
    fault_domain: int = 0


class _Vms(msgspec.Struct):
    items: tuple[_Vm, ...] = ()
    vms: tuple[_Vm, ...] = ()


class _Events(msgspec.Struct):
    items: tuple[_Event, ...]
    next: str | None = None


class _Group(msgspec.Struct):
    name: str
    incarnation: int
    members: tuple[str, ...]
    upcoming: tuple[_Event, ...]


class _Problem(msgspec.Struct):
    type: str
    title: str
    status: int
    detail: str


_read_result = msgspec.json.Decoder(_Result).decode
_read_problem = msgspec.json.Decoder(_Problem).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)


class _Acknowledged(msgspec.Struct, frozen=True):
    """A request with its key, and the result that it was given."""

    exchange: ControlExchange
    result: tuple[object, ...]


class _Operation(msgspec.Struct, frozen=True):
    """An operation that was acknowledged."""

    asker: str
    key: str
    ended_at: float
    events: frozenset[str]


class ControlPromises:
    """Checks the exchanges of operators and owners."""

    def __init__(
        self, memory: CheckerMemory, events: EventPromises, documents: DocumentPromises, terms: TermPromises
    ) -> None:
        self._memory = memory
        self._report = memory.report
        self._events = events
        self._documents = documents
        self._terms = terms
        self._by_key: dict[tuple[str, str, str], _Acknowledged] = {}
        self._first_sent: dict[tuple[str, str, str], float] = {}
        self._operations: dict[str, _Operation] = {}
        self._unexplained: list[tuple[float, float, str]] = []
        self._announced_by: dict[str, tuple[str, str, str]] = {}
        self._requests: dict[tuple[str, str], set[tuple[str, str, bytes]]] = {}
        """All that each caller asked for with a key."""
        self._conflicts: list[ControlExchange] = []
        self._tried: dict[str, float] = {}
        """The events that dry runs would have announced."""

    @property
    def acknowledged(self) -> list[ControlExchange]:
        """The requests with a key that were acknowledged; a repetition is answered in the same way."""
        return [each.exchange for each in self._by_key.values()]

    # A dry run changes nothing, and says so: its events are never shown, unless it is about one that exists.

    def _see_trial(self, exchange: ControlExchange) -> None:
        if not 200 <= exchange.status < 300:
            return
        result = _read_result(exchange.response)
        if not result.dry_run and not exchange.path.endswith("/plan"):
            self._report(exchange.ended_at, f"{exchange.method} {exchange.path} does not say that it is a dry run")
        if exchange.path.startswith("/v1/events/") or b"degrade" in exchange.body:
            return
        for each in result.announcements:
            self._tried[each.event.id.lower()] = exchange.ended_at

    def see(self, exchange: ControlExchange) -> None:
        self._see_key(exchange)
        if exchange.status >= 400:
            self._is_refused_properly(exchange)
        if exchange.groups is not None:
            self._tells_an_owner_nothing_of_others(exchange, exchange.groups)
        if exchange.is_trial:
            self._see_trial(exchange)
        elif exchange.method == "GET":
            self._see_read(exchange)
        else:
            self._see_write(exchange)

    # A key is refused only to who used it for something else.

    def _see_key(self, exchange: ControlExchange) -> None:
        if exchange.key:
            self._requests.setdefault((exchange.who, exchange.key), set()).add(_request(exchange))
            is_single = _VM_OPERATION.fullmatch(exchange.path)
            if is_single and b"too many user-initiated events are Scheduled" in exchange.response:
                self._memory.limited.append((exchange.sent_at, exchange.ended_at))
            if exchange.status == 409 and b"Idempotency-Key was used for another request" in exchange.response:
                self._conflicts.append(exchange)

    # No tenant learns of another: no VM, group or event of others is named to an owner.

    def _tells_an_owner_nothing_of_others(self, exchange: ControlExchange, groups: tuple[str, ...]) -> None:
        if not exchange.response:
            return
        members, events = self._memory.members, self._memory.events
        text = exchange.response.decode(errors="replace")
        asked = f"{exchange.path} {exchange.body.decode(errors='replace')}"
        disclosed = sorted({*_names_in(text, tuple(members.names_hidden_from(groups)))}.difference(words_of(asked)))
        ids = (id_.lower() for id_ in set(_IDS.findall(text)) - set(_IDS.findall(asked)))
        disclosed += [str(events[id_]) for id_ in sorted(ids) if id_ in events and events[id_].is_hidden_from(groups)]
        owner = f"{exchange.who} of {', '.join(groups)}"
        for name in disclosed:
            self._report(exchange.ended_at, f"{owner} was told of {name} by {exchange.method} {exchange.path}")
        named = _EVENT.match(exchange.path)
        event = events.get(named[1].lower()) if named else None
        if event and event.is_hidden_from(groups) and 200 <= exchange.status < 300:
            self._report(exchange.ended_at, f"{owner} was let at {event}")

    # What is read: every event that was acknowledged or shown is found ever after.

    def _see_read(self, exchange: ControlExchange) -> None:
        path, _, query = exchange.path.partition("?")
        path = path.rstrip("/")
        named = _EVENT.fullmatch(path)
        if named and exchange.status == 404:
            self._is_found(exchange, named[1].lower())
        if exchange.status == 404 and (operation := _OPERATION.fullmatch(path)):
            self._is_operation_found(exchange, operation[1])
        if exchange.status != 200:
            return
        try:
            if named:
                timeline = msgspec.json.decode(exchange.response, type=RecordedTimeline)
                self._events.see_timeline(timeline, exchange.sent_at, exchange.ended_at)
            elif path == "/v1/events":
                self._see_events(exchange, query)
            elif path in ("/v1/vms", "/v1/fleet") and exchange.groups is None:
                vms = msgspec.json.decode(exchange.response, type=_Vms)
                for vm in (*vms.items, *vms.vms):
                    self._memory.members.learn(vm.name, vm.group, (vm.update_domain, vm.fault_domain))
            elif operation := _OPERATION.fullmatch(path):
                self._see_operation(exchange, operation[1])
            elif found := _GROUP.fullmatch(path):
                self._see_group(exchange, found[1])
        except _UNREADABLE as error:
            self._report(exchange.ended_at, f"GET {exchange.path} of {exchange.who} cannot be read: {error}")

    def _is_found(self, exchange: ControlExchange, id_: str) -> None:
        event = self._memory.events.get(id_)
        if event is None or not event.fields or event.first_seen_at > exchange.sent_at:
            return
        if exchange.groups is None or event.group in exchange.groups:
            self._report(exchange.ended_at, f"{event} was shown at {event.first_seen_at:.3f} s, and is not found")

    # An operation that was acknowledged is found by its id ever after, with the same events, by who may see it.

    def _is_operation_found(self, exchange: ControlExchange, id_: str) -> None:
        known = self._operations.get(id_)
        if known and known.ended_at < exchange.sent_at and exchange.groups is None:
            self._report(exchange.ended_at, f"operation {id_} of {known.asker} was acknowledged, and is not found")

    def _see_operation(self, exchange: ControlExchange, id_: str) -> None:
        result, known = _read_result(exchange.response), self._operations.get(id_)
        events = {each.event.id for each in result.announcements}
        if known and exchange.groups is not None and known.asker != exchange.who:
            self._report(exchange.ended_at, f"{exchange.who} was shown the operation {id_} of {known.asker}")
        if known and events != known.events:
            self._report(exchange.ended_at, f"operation {id_} had {known.events}, and is shown with {events}")

    def _see_events(self, exchange: ControlExchange, query: str) -> None:
        page = msgspec.json.decode(exchange.response, type=_Events)
        words = {part.partition("=")[0] for part in query.split("&") if part}
        shown: set[str] = set()
        for event in page.items:
            shown.add(event.id.lower())
            self._events.see(_shown_event(event, exchange))
        if page.next or not words <= {"limit", "finished"}:
            return
        for group, events in self._memory.unfinished.items():
            if exchange.groups is not None and group not in exchange.groups:
                continue
            for known in list(events.values()):
                if known.id not in shown and known.first_seen_at <= exchange.sent_at:
                    self._events.see_gone(known, exchange.ended_at)

    def _see_group(self, exchange: ControlExchange, name: str) -> None:
        group = msgspec.json.decode(exchange.response, type=_Group)
        where = f"GET {exchange.path} of {exchange.who}"
        self._documents.see_incarnation(name, group.incarnation, exchange.sent_at, exchange.ended_at, where)
        if exchange.groups is None:
            for vm in group.members:
                self._memory.members.learn(vm, name)
        for event in group.upcoming:
            self._events.see(_shown_event(event, exchange, name))

    # What is asked for: a key stands for one request, and its result is the same ever after.

    def _see_write(self, exchange: ControlExchange) -> None:
        is_done = 200 <= exchange.status < 300
        may_be_done = is_done or exchange.status == 0 or exchange.status >= 500
        principal = (exchange.who, exchange.token, exchange.key)
        if exchange.key:
            sent = self._first_sent.get(principal, exchange.sent_at)
            self._first_sent[principal] = min(sent, exchange.sent_at)
        if may_be_done:
            self._foresee(exchange, principal, is_done=is_done)
        if not is_done:
            if exchange.key:
                self._is_not_forgotten(exchange, principal)
            return
        result = _Result()
        if exchange.response and not exchange.path.startswith("/v1/rollouts"):
            try:
                result = _read_result(exchange.response)
            except _UNREADABLE as error:
                self._report(exchange.ended_at, f"{exchange.method} {exchange.path} cannot be read: {error}")
                return
        self._see_result(exchange, result, principal)

    def _see_result(self, exchange: ControlExchange, result: _Result, principal: tuple[str, str, str]) -> None:
        for each in result.announcements:
            is_own = exchange.groups is None or each.group in exchange.groups
            event = self._events.see(_shown_event(each.event, exchange, each.group if is_own else "", is_past=True))
            event.without_notice = each.without_notice
            # What is asked of events, and what degrades a host, names events that exist already.
            if not (exchange.path.startswith("/v1/events/") or b"degrade" in exchange.body):
                self._announced_by.setdefault(event.id, principal if exchange.key else (exchange.who, "", ""))
                event.asked_at = self._first_sent[principal] if exchange.key else exchange.sent_at
        for id_ in result.canceled:
            self._events.see(
                ShownEvent(id_, "Canceled", {}, exchange.sent_at, exchange.ended_at, exchange.path, is_past=True)
            )
        if result.operation:
            asker = "the operators" if exchange.groups is None else exchange.who
            events = frozenset(each.event.id for each in result.announcements)
            known = self._operations.setdefault(
                result.operation, _Operation(asker, exchange.key, exchange.ended_at, events)
            )
            if (known.asker, known.key) != (asker, exchange.key):
                text = (
                    f"{exchange.who} (key {exchange.key!r}) was given the result of {known.asker} (key {known.key!r})"
                )
                self._report(exchange.ended_at, text)
        if principal not in self._by_key:
            self._note_what_it_ends(exchange, result, self._first_sent.get(principal, exchange.sent_at))
        if exchange.key:
            self._is_answered_alike(exchange, principal, _essence(exchange, result))

    def _note_what_it_ends(self, exchange: ControlExchange, result: _Result, sent_at: float) -> None:
        """Note whose events a request ended that was acknowledged for the first time."""
        path = exchange.path.partition("?")[0]
        is_fail = path.startswith("/v1/hosts") and b'"fail"' in exchange.body
        ends = ("Redeploy",) if is_fail else ("Preempt", "Terminate")
        vms = tuple(vm for each in result.announcements if each.event.type in ends for vm in each.event.resources)
        what = "host fail" if is_fail else "evict or delete"
        if b'"deallocate"' in exchange.body and path.startswith("/v1/vms/"):
            named = _VM_OPERATION.fullmatch(path)
            selected = result.refused if isinstance(result.refused, dict) else ()
            vms, what = (
                (named[1],) if named else tuple(vm for vm in result.selected if vm not in selected),
                "deallocate",
            )
        if vms and not path.startswith("/v1/events/"):
            self._memory.ends_of_vms.append(EndOfVms(what, vms, sent_at, exchange.ended_at))

    def _is_answered_alike(
        self, exchange: ControlExchange, principal: tuple[str, str, str], result: tuple[object, ...]
    ) -> None:
        known = self._by_key.setdefault(principal, _Acknowledged(exchange, result))
        first = known.exchange
        where = f"{exchange.method} {exchange.path} of {exchange.who} with key {exchange.key}"
        if _request(first) != _request(exchange):
            self._report(exchange.ended_at, f"{where} was done, although the key was used for {first.path}")
        elif known.result != result:
            self._report(exchange.ended_at, f"{where} had the result {known.result}, and when repeated {result}")

    def _is_not_forgotten(self, exchange: ControlExchange, principal: tuple[str, str, str]) -> None:
        known = self._by_key.get(principal)
        if known is None or exchange.status in _ANY_ANSWER or exchange.sent_at < known.exchange.ended_at:
            return
        is_token = exchange.path.startswith("/v1/tokens") and exchange.status == 409
        if _request(known.exchange) == _request(exchange) and not is_token:
            where = f"{exchange.method} {exchange.path} of {exchange.who} with key {exchange.key}"
            self._report(exchange.ended_at, f"{where} was done, and when repeated answered {exchange.status}")

    def _foresee(self, exchange: ControlExchange, principal: tuple[str, str, str], *, is_done: bool) -> None:
        """Note what a request may have brought about."""
        members, path = self._memory.members, exchange.path.partition("?")[0].rstrip("/")
        if named := _EVENT.fullmatch(path):
            event = self._memory.event(named[1], exchange.ended_at)
            approval = GivenApproval(exchange.who, exchange.sent_at, is_done, of_vm=False, ended_at=exchange.ended_at)
            if named[2] == "approve":
                event.approvals.append(approval)
            elif named[2] == "postpone":
                event.postponements.append(approval)
        elif named := _VM_OPERATION.fullmatch(path):
            if b"evict" in exchange.body or b"deallocate" in exchange.body:
                members.maybe_down.add(named[1])
            if b"evict" in exchange.body or b"delete" in exchange.body:
                members.maybe_gone.add(named[1])
        elif path == "/v1/vms/operations":
            vms = members.matching(exchange.body)
            if is_done:
                result = _read_result(exchange.response)
                vms = set(result.selected).difference(result.refused if isinstance(result.refused, dict) else ())
            if b"evict" in exchange.body or b"deallocate" in exchange.body:
                members.maybe_down |= vms
            if b"evict" in exchange.body or b"delete" in exchange.body:
                members.maybe_gone |= vms
        elif path == "/v1/spot/reclaim":
            evicted = {vm.name for vm in self._memory.plan.vms if vm.spot} | members.may_be_spot
            members.maybe_down |= evicted
            members.maybe_gone |= evicted
        elif named := _GROUP.match(path):
            members.maybe_gone.update(members.vms_of(named[1]) if path.endswith("scale-in") else ())
            if exchange.method == "PATCH" and principal not in self._by_key:  # a repetition changes nothing
                at = self._first_sent.get(principal, exchange.sent_at), exchange.ended_at
                self._terms.change(named[1], exchange.body, *at, is_acknowledged=is_done)

    # Every refusal is problem details; the service fails only while its disk does or it stops, and never by mistake.

    def _is_refused_properly(self, exchange: ControlExchange) -> None:
        where = f"{exchange.method} {exchange.path} of {exchange.who}"
        try:
            problem = _read_problem(exchange.response)
        except _UNREADABLE:
            shown = exchange.response[:80].decode(errors="replace")
            self._report(
                exchange.ended_at, f"{where} was answered {exchange.status} without problem details: {shown!r}"
            )
            return
        if problem.status != exchange.status or not problem.detail:
            self._report(exchange.ended_at, f"{where} was answered {exchange.status} with {problem}")
        if exchange.status == 500 or "internal error" in problem.detail:
            self._report(exchange.ended_at, f"{where} was answered {exchange.status}: {problem.detail}")
        elif exchange.status >= 500 and not self._memory.disk.may_fail(exchange.sent_at, exchange.ended_at):
            text = f"{where} was answered {exchange.status} although the disk worked: {problem.detail}"
            self._unexplained.append((exchange.sent_at - 30.0, exchange.ended_at + 30.0, text))

    # Every wait has an end.

    def ends_in_time(self, exchange: ControlExchange) -> None:
        where = f"{exchange.method} {exchange.path} of {exchange.who}"
        lasted = exchange.ended_at - exchange.sent_at - self._memory.network_delay
        longest = LONGEST_REQUEST + (PASSING_ON if self._memory.plan.nodes else 0.0)
        if lasted > longest and self._memory.service.is_unchanged(exchange.sent_at, exchange.ended_at):
            self._report(exchange.ended_at, f"{where} took {lasted:.0f} s")
        may_be_lost = self._memory.may_stall(exchange.sent_at, exchange.ended_at)
        if exchange.status == 0 and self._memory.service.state == "serving" and not may_be_lost:
            text = f"{where} had no response although the service was there"
            self._unexplained.append((exchange.sent_at - 1.0, exchange.ended_at + 1.0, text))

    def settle(self, now: float) -> None:
        for id_, at in self._tried.items():
            if id_ in self._memory.events:
                self._report(at, f"{self._memory.events[id_]} was announced by a dry run")
        for begin, end, text in self._unexplained:
            if self._memory.service.is_unchanged(begin, end):
                self._report(end, text)
        for exchange in self._conflicts:
            if len(self._requests[exchange.who, exchange.key]) == 1:
                where = f"{exchange.method} {exchange.path} of {exchange.who} with key {exchange.key}"
                self._report(exchange.ended_at, f"{where} was refused for the key of somebody else")
        for id_, principal in self._announced_by.items():
            if principal[2]:
                self._memory.events[id_].asked_at = self._first_sent.get(principal)


def _request(exchange: ControlExchange) -> tuple[str, str, bytes]:
    return exchange.method, exchange.path.partition("?")[0], exchange.body


def _essence(exchange: ControlExchange, result: _Result) -> tuple[object, ...]:
    """Return what a repetition repeats: the operation and its events, not how these stand."""
    ids = tuple(each.event.id for each in result.announcements)
    each = result.selected, str(result.refused)
    return exchange.status, result.operation, ids, result.canceled, tuple(sorted(result.changed.items())), each


def _shown_event(event: _Event, exchange: ControlExchange, group: str = "", *, is_past: bool = False) -> ShownEvent:
    return ShownEvent(
        id=event.id,
        status=event.status,
        fields={"type": event.type, "resources": event.resources},
        sent_at=exchange.sent_at,
        ended_at=exchange.ended_at,
        where=f"{exchange.method} {exchange.path} of {exchange.who}",
        group=group,
        not_before=wall_second(event.not_before) if event.not_before and event.status == "Scheduled" else None,
        is_past=is_past,
    )


def _names_in(text: str, names: tuple[str, ...]) -> list[str]:
    """Return which names stand in a response, as whole words and not as keys."""
    return _pattern_of(names).findall(text) if names else []


@lru_cache(maxsize=64)
def _pattern_of(names: tuple[str, ...]) -> re.Pattern[str]:
    any_name = "|".join(map(re.escape, names))
    return re.compile(rf'(?<![A-Za-z0-9._-])(?:{any_name})(?![A-Za-z0-9_-]|\.[A-Za-z0-9]|":)')
