"""The promises of Forewarn, stated from outside and checked after every exchange.

This model knows the plan and the bytes that VMs and operators exchange with the service, and nothing of how the
service keeps its promises. The parts: what VMs are shown (``documents``), the control API (``control``), its tokens
(``tokens``), single events (``events``), the order of events (``turns``), what ends with a VM or its host
(``cancellations``), terms of groups (``terms``), how groups are shown (``groups``), what operators set for hosts and
VMs (``hosts_and_vms``), starts and stops of machines (``switches``), fleet files (``fleet_files``), rollouts
(``rollouts``), notifications (``notifications``); here the service itself and the agents.

A promise that requests under way may explain is judged by ``settle``. Before that the simulation asks what
``questions`` lists, the record of every event that was shown and every group, and repeats every request that was
acknowledged with a key.
"""

from msgspec.structs import replace

from forewarn.simulator.actions.environment_faults import BefallMachine, DamageMemory
from forewarn.simulator.exchanges import (
    AgentStep,
    ClockChange,
    ControlExchange,
    DiskFault,
    Exchange,
    HostCommandRun,
    MachineOperation,
    MachineState,
    ProcessState,
    ReceivedNotification,
    VmExchange,
)
from forewarn.simulator.plan import Plan
from forewarn.simulator.promises.cancellations import CancellationPromises
from forewarn.simulator.promises.control import ControlPromises
from forewarn.simulator.promises.documents import DocumentPromises
from forewarn.simulator.promises.event_memory import GivenApproval
from forewarn.simulator.promises.events import EventPromises
from forewarn.simulator.promises.fleet_files import FleetFilePromises
from forewarn.simulator.promises.groups import GroupPromises
from forewarn.simulator.promises.hosts_and_vms import HostAndVmPromises
from forewarn.simulator.promises.memory import CheckerMemory
from forewarn.simulator.promises.notifications import NotificationPromises
from forewarn.simulator.promises.rollouts import RolloutPromises
from forewarn.simulator.promises.switches import SwitchPromises
from forewarn.simulator.promises.terms import TermPromises
from forewarn.simulator.promises.tokens import TokenPromises
from forewarn.simulator.promises.turns import TurnPromises

LONGEST_START = 60.0
"""Seconds in which a start ends."""
UNDO_SECONDS = 120.0
"""An agent undoes its preparations within so many seconds of the end of the event."""


def _as_of_its_node(exchange: VmExchange | ControlExchange) -> VmExchange | ControlExchange:
    """Let what is read count as asked for when the node that answered held everything: it may be behind others."""
    is_read = exchange.method in ("GET", "HEAD") or exchange.status == 401
    if not is_read or exchange.as_of is None:
        return exchange
    return replace(exchange, sent_at=min(exchange.sent_at, exchange.as_of))


class Promises:
    """Checks every exchange; ``problems`` holds the broken promises, one line each."""

    def __init__(self, plan: Plan) -> None:
        self._memory = CheckerMemory(plan)
        terms = TermPromises(self._memory)
        self._events = EventPromises(self._memory, terms)
        self._hosts_and_vms = HostAndVmPromises(self._memory, terms)
        self._turns = TurnPromises(self._memory, terms)
        self._documents = DocumentPromises(self._memory, self._events)
        self._control = ControlPromises(self._memory, self._events, self._documents, terms)
        self._groups = GroupPromises(self._memory, terms)
        self._switches = SwitchPromises(self._memory)
        self._cancellations = CancellationPromises(self._memory)
        self._tokens = TokenPromises(self._memory)
        self._notifications = NotificationPromises(self._memory)
        self._rollouts = RolloutPromises(self._memory)
        self._fleet_files = FleetFilePromises(self._memory)
        self._steps: dict[tuple[str, str], list[AgentStep]] = {}
        self.checked = 0
        """Number of exchanges that were checked."""

    @property
    def problems(self) -> list[str]:
        return self._memory.report.problems

    def see(self, exchange: Exchange) -> None:
        """Check an exchange; they come in the order in which they ended."""
        self.checked += 1
        waited = 0.0
        match exchange:
            case VmExchange():
                waited = exchange.ended_at - exchange.sent_at
                self._documents.ends_in_time(exchange)
                exchange = _as_of_its_node(exchange)
            case ControlExchange():
                self._control.ends_in_time(exchange)
                exchange = _as_of_its_node(exchange)
        match exchange:
            case VmExchange():
                self._documents.see(exchange, waited)
                self._hosts_and_vms.see_vm(exchange)
            case ControlExchange():
                self._tokens.see(exchange)
                self._control.see(exchange)
                self._groups.see_control(exchange)
                self._notifications.see_control(exchange)
                self._hosts_and_vms.see_control(exchange)
                self._rollouts.see_control(exchange)
                self._fleet_files.see_control(exchange)
            case MachineOperation():
                self._events.see_operation(exchange)
                self._hosts_and_vms.see_operation(exchange)
                self._switches.see_operation(exchange)
            case HostCommandRun():
                self._rollouts.see_host_command(exchange)
            case MachineState():
                self._hosts_and_vms.see_state(exchange)
            case ProcessState():
                self._starts_always(exchange)
            case ReceivedNotification():
                self._notifications.see(exchange)
            case DiskFault():
                self._memory.disk.see(exchange)
            case ClockChange():
                self._memory.clock.change(exchange)
            case AgentStep():
                self._prepares_before_it_approves(exchange)

    def questions(self) -> list[str]:
        """Return the paths to GET before the end: the record of every event that was shown, and every group."""
        shown = (event for event in self._memory.events.values() if event.fields or event.operated)
        return [*(f"/v1/events/{event.id}" for event in shown), *self._groups.questions()]

    def repetitions(self) -> list[ControlExchange]:
        """Return the requests that were acknowledged with a key: when repeated, each must be answered alike."""
        return self._control.acknowledged

    def seconds_to_settle(self) -> float:
        """Return how long the simulation must go on without faults before ``settle`` may expect all to be done."""
        groups = {event.group for event in self._memory.events.values()} | {""}
        return max(self._events.patience(group) for group in groups) + self._rollouts.seconds_to_settle() + 10.0

    def settle(self, now: float) -> None:
        """Judge what could not be judged before: faults have stopped, and everything due had its time."""
        self._serves_at_the_end(now)
        self._rollouts.settle(now)
        self._control.settle(now)
        self._tokens.settle()
        self._documents.settle(now)
        for event in list(self._memory.events.values()):
            if event.fields or event.operated:
                self._events.settle(event, now)
        self._turns.settle(now)
        self._cancellations.settle(now)
        self._groups.settle(now)
        self._hosts_and_vms.settle(now)
        self._switches.settle()
        self._fleet_files.settle(now)
        self._memory.judge_suspicions()
        self._undoes_after_the_event(now)
        self._notifications.settle(now)

    # A start always succeeds, unless the disk cannot be read, or nothing is recorded and the fleet file is wrong.

    def _starts_always(self, state: ProcessState) -> None:
        self._memory.service.change(state)
        if state.state != "failed to start":
            return
        is_first = not self._memory.service.has_served and "fleet" in state.reason
        if not (is_first or self._memory.disk.may_fail(state.at, state.at)):
            self._memory.report(state.at, f"the service did not start: {state.reason}")

    def _serves_at_the_end(self, now: float) -> None:
        """Check the only service: it serves, and each of its starts ended soon."""
        service = self._memory.service
        if self._memory.plan.nodes or not service.has_served:
            return
        if now > self._memory.plan.ends_at and service.state != "serving":
            self._memory.report(now, f"the service does not serve: {service.state}")
        for begin, end in service.starts:
            if end - begin > LONGEST_START:
                self._memory.report(end, f"the service took {end - begin:.0f} s to start")

    # An agent that approves has prepared, and undoes its preparations after the event is gone.

    def _prepares_before_it_approves(self, step: AgentStep) -> None:
        event = self._memory.event(step.event, step.at)
        steps = self._steps.setdefault((step.vm, event.id), [])
        if step.what == "approved":
            event.approvals.append(GivenApproval(step.vm, step.at, is_acknowledged=False, of_vm=True))
            is_prepared = any(each.what == "prepared" for each in steps)
            if not is_prepared and step.vm in event.resources:
                self._memory.report(step.at, f"the agent of {step.vm} approved {event} before it had prepared")
        steps.append(step)

    def _undoes_after_the_event(self, now: float) -> None:
        members = self._memory.members
        forgetful = {action.vm for action in self._memory.plan.actions if isinstance(action, DamageMemory)}
        stopped = {action.vm for action in self._memory.plan.actions if isinstance(action, BefallMachine)}
        excused = forgetful | stopped | members.maybe_gone | members.maybe_down
        # What a shared handler did for one event stays while another event of the VM needs it.
        needing = {vm for vm, id_ in self._steps if not self._memory.events[id_].is_over_since(now - UNDO_SECONDS)}
        for (vm, id_), steps in self._steps.items():
            event = self._memory.events[id_]
            prepared = [step.at for step in steps if step.what == "prepared"]
            undone = [step.at for step in steps if step.what == "undone"]
            has_approved = any(step.what == "approved" for step in steps)
            if has_approved and prepared and undone and prepared[-1] < undone[-1] < event.scheduled_at:
                self._memory.report(
                    undone[-1], f"the agent of {vm} undid its preparations for {event}, which was shown after"
                )
            is_left = bool(prepared) and (not undone or undone[-1] < prepared[-1])
            if is_left and vm not in excused | needing:
                self._memory.report(
                    now, f"the agent of {vm} did not undo its preparations for {event}, which is gone"
                )
