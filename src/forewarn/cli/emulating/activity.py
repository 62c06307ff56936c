"""Log of the emulator's activity as sentences: answered requests and status changes of events."""

from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import assert_never

import msgspec

from forewarn.cli.times import span
from forewarn.core import facts
from forewarn.core.facts import AnyFact
from forewarn.core.fleet import Fleet
from forewarn.core.model import CallerKind, Event, HostState
from forewarn.core.rollouts import facts as rollout_facts
from forewarn.core.rollouts.sentences import describe
from forewarn.emulator.faults import FaultKind
from forewarn.emulator.requests import SentRequest
from forewarn.node.feed import Commit
from forewarn.wire.azure_names import TYPES

_KEPT = 200


class ActivityLine(msgspec.Struct):
    """One sentence; repetitions are counted."""

    at: datetime
    text: str
    style: str = ""
    key: str = ""
    count: int = 1


class ActivityLog:
    """The latest sentences."""

    def __init__(self, tell: Callable[[ActivityLine], None] = lambda _: None) -> None:
        self.lines: deque[ActivityLine] = deque(maxlen=_KEPT)
        self._tell = tell
        self._events: dict[str, Event] = {}
        self._last_of: dict[str, str] = {}

    def load(self, fleet: Fleet) -> None:
        """Do nothing: the journal begins empty."""

    def publish(self, commit: Commit) -> None:
        for entry in commit.entries:
            for fact in entry.facts:
                for text, style in self._sentences(fact):
                    self._add(ActivityLine(entry.at, text, style))

    def note(self, sent: SentRequest) -> None:
        """Add a request once it is answered, or never will be; repeated requests are counted."""
        if not sent.status and not {FaultKind.STALL, FaultKind.RESET} & set(sent.faults):
            return
        query = sent.api_version or "no api-version"
        what = "approves" if sent.method == "POST" else f"asks ({query})" if "scheduledevents" in sent.path else ""
        faults = f", fault {', '.join(sent.faults)}" if sent.faults else ""
        text = f"{sent.vm} {what or f'{sent.method} {sent.path}'}: {sent.status or 'no answer'}{faults}"
        style = "red" if sent.status >= 400 or not sent.status else "dim"
        if self._last_of.get(sent.vm) == text and sent.method == "GET":
            for line in reversed(self.lines):
                if line.key == text:
                    line.count += 1
                    line.at = sent.at
                    self.lines.remove(line)
                    self.lines.append(line)
                    return
        self._last_of[sent.vm] = text
        self._add(ActivityLine(sent.at, text, style, key=text))

    def _add(self, line: ActivityLine) -> None:
        self.lines.append(line)
        self._tell(line)

    def _sentences(self, fact: AnyFact) -> Iterator[tuple[str, str]]:
        match fact:
            case facts.Announced(event=event):
                self._events[event.id] = event
                notice = span((event.not_before - event.announced_at).total_seconds())
                yield f"{self._name(event.id)} is announced, {notice} ahead", "yellow"
            case facts.StartedAtOnce(event=event):
                self._events[event.id] = event
                yield f"{self._name(event.id)} starts at once: {event.without_notice}", "magenta"
            case facts.Approved(event=id_, by=by):
                who = by.name if by.kind is CallerKind.VM else "the operator"
                yield f"{who} approves the {self._name(id_)}", "cyan"
            case facts.Waiting(event=id_, behind=behind) if behind:
                yield f"{self._name(id_)} waits its turn behind the {self._name(behind)}", "yellow"
            case facts.Started(event=id_, because=because):
                yield f"{self._name(id_)} starts: {because}", "magenta"
            case facts.Completed(event=id_):
                yield f"{self._name(id_)} is over", "green"
            case facts.Failed(event=id_, reason=reason):
                yield f"{self._name(id_)} failed: {reason}", "red"
            case facts.Canceled(event=id_, because=because):
                yield f"{self._name(id_)} is canceled: {because}", "green"
            case facts.Enrolled(group=group, by=by):
                yield f"group {group} is on: {by} asked", "dim"
            case facts.SwitchedOff(group=group):
                yield f"group {group} is off: no VM asked for a day", "yellow"
            case facts.HostStateSet(host=host, state=state):
                yield f"host {host} is {state}", "dim" if state is HostState.UP else "red"
            case facts.HostCordonSet(host=host, is_cordoned=is_cordoned):
                yield f"host {host} receives {'no VMs any more' if is_cordoned else 'VMs again'}", "dim"
            case facts.VmRemoved(vm=vm):
                yield f"{vm} is gone", "dim"
            case facts.VmDeallocated(vm=vm):
                yield f"{vm} is deallocated", "dim"
            case facts.VmStarted(vm=vm):
                yield f"{vm} runs again", "dim"
            case (
                facts.FleetChanged()
                | facts.FleetDeclared()
                | facts.ChangesHeld()
                | facts.GroupSet()
                | facts.IncarnationsRaised()
            ):
                pass
            case facts.Waiting() | facts.Postponed() | facts.BroughtForward() | facts.Attempted():
                pass
            case (
                facts.VmSwitched()
                | facts.VmMoved()
                | facts.Asked()
                | facts.Fetched()
                | facts.ObservationRecorded()
                | facts.ClockStepped()
                | facts.Selected()
            ):
                pass
            case _ if isinstance(fact, rollout_facts.RolloutFact):
                yield describe(fact), "dim"
            case _ if isinstance(fact, facts.AccessFact):
                pass
            case _:
                assert_never(fact)

    def _name(self, id: str) -> str:
        event = self._events[id]
        return f"{TYPES[event.type]} of {', '.join(event.resources)}"
