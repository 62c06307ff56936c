"""A past to look back on, made by the rules on a memory journal, an hour between one command and the next."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from forewarn.audit.history import HistoryPage, HistoryQuery, read_history_page
from forewarn.core.access import Principal
from forewarn.core.commands import (
    Approve,
    ChangeFleet,
    Command,
    ImpactResult,
    OperateVm,
    RecordAttempt,
    ReportImpact,
    VmOperation,
)
from forewarn.core.decide import enact
from forewarn.core.facts import Announced, AnyFact, Entry, StartedAtOnce
from forewarn.core.model import NODE, Caller, CallerKind, GroupKind, GroupTerms, Host, Role, Vm
from forewarn.core.notice import Rules
from forewarn.journal.memory import MemoryJournal

START = datetime(2026, 3, 1, tzinfo=UTC)
ADA = Caller(CallerKind.OPERATOR, "ada", "control.sock")
OPERATOR = Principal(ADA, Role.OPERATOR)
VIEWER = Principal(Caller(CallerKind.OPERATOR, "eve", "10.9.9.9"), Role.VIEWER)
FLEET = ChangeFleet(
    id="declared",
    by=ADA,
    hosts=(Host("h1"), Host("h2")),
    groups=(GroupTerms("web", GroupKind.AVAILABILITY_SET), GroupTerms("db", GroupKind.AVAILABILITY_SET)),
    vms=(
        Vm("web-0", "web", "h1", address="10.0.0.1"),
        Vm("web-1", "web", "h2", update_domain=1, fault_domain=1, address="10.0.0.2"),
        Vm("db-0", "db", "h1", address="10.0.0.3"),
    ),
)


class HistoryHarness:
    """What has happened so far."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()
        self.fleet = self.journal.load().fleet
        self.revision = 0
        self.do(FLEET)

    @property
    def now(self) -> datetime:
        """The time of the next command."""
        return START + timedelta(hours=self.revision)

    def do(self, command: Command) -> tuple[AnyFact, ...]:
        facts = enact(self.fleet, command, self.now, Rules())
        entry = Entry(self.revision + 1, self.now, command.id, command.by, facts)
        self.journal.append(self.revision, [entry])
        self.revision += 1
        return facts

    def id(self) -> str:
        """Draw the id of the next command."""
        return str(UUID(int=self.revision + 1))

    def restart(self, vm: str, by: Caller = ADA) -> str:
        """Announce a restart and return the event's id; as the group is off, it is born Started."""
        facts = self.do(OperateVm(id=self.id(), by=by, operation=VmOperation.RESTART, vm=vm))
        return _born(facts)

    def freeze(self, vm: str) -> str:
        """Announce a freeze and return the event's id."""
        facts = self.do(OperateVm(id=self.id(), by=ADA, operation=VmOperation.FREEZE, vm=vm))
        return _born(facts)

    def approve(self, event: str, by: str) -> None:
        caller = Caller(CallerKind.VM, by, self.fleet.vms[by].address)
        self.do(Approve(id=self.id(), by=caller, events=(event,)))

    def finish(self, event: str) -> None:
        """Let the driver be called, and succeed."""
        self.do(RecordAttempt(id=self.id(), by=NODE, event=event))
        self.do(ReportImpact(id=self.id(), by=NODE, event=event, result=ImpactResult.DONE))

    def ask(self, query: HistoryQuery, principal: Principal = OPERATOR) -> HistoryPage:
        return read_history_page(self.journal, self.fleet, self.revision, query, principal)

    def facts(self, query: HistoryQuery, principal: Principal = OPERATOR) -> list[str]:
        """Return the words of the facts that answer a question."""
        return [line.fact for line in self.ask(query, principal).lines]


def _born(facts: tuple[AnyFact, ...]) -> str:
    (event,) = (fact.event.id for fact in facts if isinstance(fact, Announced | StartedAtOnce))
    return event


def owner(*groups: str) -> Principal:
    return Principal(Caller(CallerKind.OWNER, "olga", "10.9.9.9"), Role.OWNER, frozenset(groups))
