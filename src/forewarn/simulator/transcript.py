"""The transcript of a simulation, in the language of tests/scenarios: what was done, and what came of it.

    08:00:12.5 ann asks for restart of web-0 with key k1
    ----
    E1 is announced: Reboot of web-0 (user), not before 08:15:12.5
    POST /v1/vms/web-0/operations: 202

Times before sentences are true times; times in facts are those of the service's clock. Everything stands in the order
in which it happened. Events are labelled by the order of their announcement. Requests that show nothing new are left
out.
"""

import re
from datetime import timedelta

import msgspec

from forewarn.core.facts import Asked, Enrolled, Entry
from forewarn.core.fleet import Fleet
from forewarn.core.model import CallerKind
from forewarn.simulator.environment.clock import EPOCH
from forewarn.simulator.exchanges import (
    AgentStep,
    ClockChange,
    ControlExchange,
    Exchange,
    HostCommandRun,
    MachineOperation,
    ProcessState,
    VmExchange,
)
from forewarn.simulator.words import Labels, say, say_time

_LINE = "----"
_TOGETHER = 1.0
"""Seconds within which what comes of something is told below it."""
_ID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_ID_BYTES = re.compile(_ID.pattern.encode())
_SECONDS = re.compile(r"^(\d+\.\d+) s: ")
_LONGEST = 200
"""Characters of a response that are told."""


class _TranscribedEvent(msgspec.Struct, rename="pascal"):
    event_id: str
    event_type: str
    event_status: str
    resources: list[str]


class _TranscribedDocument(msgspec.Struct, rename="pascal"):
    document_incarnation: int
    events: list[_TranscribedEvent]


def tell_time(at: float) -> str:
    """Tell the time of day of so many seconds after the beginning."""
    return say_time(EPOCH + timedelta(milliseconds=round(at * 1000)))


class Transcript:
    """What happened in a simulation, for a reader. Where it is not wanted, it only counts."""

    def __init__(self, *, is_wanted: bool = True) -> None:
        self._is_wanted = is_wanted
        self.count = 0
        """All that happened, told or not."""
        self.lines: list[str] = []
        self._labels = Labels()
        self._actor = ""
        """Who or what the last heading is about; empty where nothing may stand below it."""
        self._began_at = 0.0
        self._is_heading = False
        self._shown: dict[tuple[str, str], str] = {}
        """What a VM was shown last, by VM and path."""
        self._clock = 0.0, 0.0
        """The error and the drift of the clock of the service, as they were told last."""
        self._process_state = ""
        """The state of the service; empty where there are several nodes."""
        self._process_changed_at = 0.0
        self._last_read = "", "", 0
        """Who read last without success, the response, and the number of lines then."""

    def action(self, at: float, words: str) -> None:
        """Tell that something is done; what comes of it follows."""
        self.count += 1
        if self._is_wanted:
            self._begin(at, words, words.partition(" ")[0])

    def note(self, at: float, words: str) -> None:
        """Tell what happens by itself, in one line."""
        self.count += 1
        if self._is_wanted:
            self._begin(at, words, "")

    def problem(self, at: float, words: str) -> None:
        """Tell that a promise was found broken."""
        self.note(at, f"PROBLEM: {_SECONDS.sub('', words)}")

    def facts(self, at: float, entry: Entry, fleet: Fleet) -> None:
        """Tell what was committed; ``fleet`` has the entry in it."""
        self.count += 1
        if not self._is_wanted:
            return
        for id_ in fleet.events:  # also of commits whose reports were lost in a crash
            self._labels.give_event(id_)
        for fact in entry.facts:
            self._labels.give(fact)
            if isinstance(fact, Asked):
                continue  # it notes the polling of a VM
            if entry.by.kind is CallerKind.NODE:
                self._add(at, say(fact, self._labels), "the service", "the service acts")
            else:
                does = "reads for the first time" if isinstance(fact, Enrolled) else "sends a request"
                self._add(at, say(fact, self._labels), entry.by.name, f"{entry.by.name} {does}")

    def see(self, exchange: Exchange) -> None:
        """Tell of an exchange, unless it shows nothing new."""
        match exchange:
            case VmExchange():
                self.vm(exchange)
            case ControlExchange():
                self.control(exchange)
            case MachineOperation(vm=vm, what=what, event=event, at=at):
                self.note(at, f"machine {vm}: {what}" + (f" for {event}" if event else ""))
            case HostCommandRun(host=host, at=at):
                self.note(at, f"host {host}: the command begins")
            case ProcessState(state=state, at=at, reason=reason, node=node):
                who = f"node {node}" if node else "the service"
                self._process_state, self._process_changed_at = ("" if node else state), at
                self.note(at, f"{who}: {state}" + (f": {reason}" if reason else ""))
            case ClockChange():
                self._clock_change(exchange)
            case AgentStep(vm=vm, what=what, event=event, at=at):
                self.note(at, f"the agent in {vm} {'undid' if what == 'undone' else what} {event}".rstrip())

    def _clock_change(self, change: ClockChange) -> None:
        """Tell how wrong the clock of the service is; that it is right is told only where it was not."""
        before, self._clock = self._clock, (round(change.error, 6), change.drift)
        if self._clock == before:
            self.count += 1
            return
        error, drift = self._clock
        is_wrong = f"{abs(error):g} s {'ahead' if error > 0 else 'behind'}" if error else "right"
        self.note(
            change.at, f"the clock of the service is {is_wrong}" + (f" and drifts by {drift:g}" if drift else "")
        )

    def control(self, exchange: ControlExchange) -> None:
        """Tell the response to an operator or owner; a successful read is left out."""
        self.count += 1
        if not self._is_wanted or (exchange.method == "GET" and exchange.status == 200):
            return
        response = self._with_labels(_response(exchange.status, exchange.response) + self._why_none(exchange))
        if exchange.method == "GET" and self._last_read == (exchange.who, response, len(self.lines)):
            paths = self.lines[-1].removesuffix(f": {response}")
            self.lines[-1] = self._with_labels(f"{paths}, {exchange.path}: {response}")
            return
        words = f"{exchange.method} {exchange.path}: {response}"
        self._add(exchange.ended_at, words, exchange.who, f"{exchange.who} is answered")
        if exchange.method == "GET":
            self._last_read = exchange.who, response, len(self.lines)

    def _why_none(self, exchange: ControlExchange) -> str:
        """Tell why there is no response, as far as it is known: of one service, but not of several nodes."""
        if exchange.status or not self._process_state:
            return ""
        if self._process_state != "serving":
            return ": the service does not serve"
        return ": the service was started again" if self._process_changed_at > exchange.sent_at else ": it was lost"

    def vm(self, exchange: VmExchange) -> None:
        """Tell what a VM approves, and what it is shown; what it was shown before is left out."""
        self.count += 1
        if not self._is_wanted:
            return
        response = _response(exchange.status, exchange.response)
        if exchange.method == "POST":
            words = f"{exchange.vm} {_approval(exchange.body)}"
            self._add(exchange.ended_at, f"{words}: {response}", exchange.vm, f"{exchange.vm} is answered")
            return
        if exchange.status == 304:
            return  # nothing is new
        path = exchange.target.partition("?")[0]
        shown = (_document(exchange.response) if exchange.status == 200 else "") or response
        if self._shown.get((exchange.vm, path)) != shown:
            self._shown[exchange.vm, path] = shown
            self._begin(exchange.ended_at, f"{exchange.vm} reads {path}", exchange.vm)
            self._add(exchange.ended_at, shown, exchange.vm, "")

    def _begin(self, at: float, words: str, actor: str) -> None:
        self.lines += [*([""] if self.lines else []), f"{tell_time(at)} {self._with_labels(words)}"]
        self._actor, self._began_at, self._is_heading = actor, at, True

    def _add(self, at: float, words: str, actor: str, heading: str) -> None:
        """Tell what came of something: below the last heading, if that is about the actor and new, else its own."""
        is_same = actor == self._actor or (self._actor and actor.startswith(f"{self._actor}-"))
        if not is_same or at - self._began_at > _TOGETHER:
            self._begin(at, heading, actor)
        if self._is_heading:
            self.lines.append(_LINE)
            self._is_heading = False
        self.lines.append(self._with_labels(words))

    def tell_problem(self, problem: str) -> str:
        """Tell a problem in the words of the transcript: with the time of day, and labels of events."""
        return self._with_labels(_SECONDS.sub(lambda found: f"{tell_time(float(found[1]))} ", problem))

    def _with_labels(self, words: str) -> str:
        return _ID.sub(lambda found: self._labels.of(found[0].lower()), words)


def _response(status: int, body: bytes) -> str:
    """Tell a response in few words."""
    if status == 0:
        return "no response"
    if status < 400:
        return str(status)
    try:
        problem = msgspec.json.decode(body)
    except msgspec.DecodeError:
        problem = None
    if not isinstance(problem, dict):
        return f"{status} {body[:_LONGEST].decode(errors='replace')}".rstrip()
    detail = (
        f"{problem.get('title', '')}: {problem.get('detail', '')}" if "title" in problem else problem.get("error", "")
    )
    return f"{status} {detail}"[:_LONGEST].rstrip(": ")


def _approval(body: bytes) -> str:
    """Tell which events a VM approves or postpones, or what else it sends."""
    ids = [found.decode() for found in _ID_BYTES.findall(body)]
    verb = "postpones" if b"PostponeRequests" in body else "approves"
    return f"{verb} {', '.join(ids)}" if ids else f"sends {body[:_LONGEST].decode(errors='replace')!r}"


def _document(body: bytes) -> str:
    """Tell a document in one line; nothing where it is none."""
    try:
        document = msgspec.json.decode(body, type=_TranscribedDocument)
    except msgspec.DecodeError:
        return ""
    events = [
        f"{each.event_id} {each.event_type} of {', '.join(each.resources)} {each.event_status}"
        for each in document.events
    ]
    return f"incarnation {document.document_incarnation}: " + ("; ".join(events) or "no events")
