"""Faults of the agent and of the client: decision, memory, changes."""

from planted.fault import Fault

_REACTION = "tests/agent/decision/test_reaction.py"
_CALLS = "tests/agent/decision/test_handler_calls.py"
_INVARIANTS = "tests/agent/test_invariants.py"
_ONCE = "A handler that has succeeded is not run again for that event."
_UNDONE = "No event is forgotten before its handlers are undone."
_SHARED = "A shared handler is undone after the last event that needs it."
_READY = "An approval that waits for handlers is not given while one is pending or running."

FAULTS = (
    Fault(
        name="The agent approves although a handler with hold has failed",
        promise="An approval is not given while a handler with on_failure = hold has not succeeded.",
        file="src/forewarn/agent/decision/reaction.py",
        old="is_done = step is not None and step.do is not None and step.do.is_done",
        new="is_done = step is not None and step.do is not None and step.do.ended_at is not None",
        found_by=(_REACTION, _INVARIANTS),
    ),
    Fault(
        name="The agent approves while handlers run",
        promise=_READY,
        file="src/forewarn/agent/decision/reaction.py",
        old="            if is_prepared or rule.approval is ApprovalMode.AT_ONCE:\n",
        new="            if is_prepared or rule.approval is not ApprovalMode.NEVER:\n",
        found_by=(_REACTION, _INVARIANTS),
    ),
    Fault(
        name="The agent approves while a program holds",
        promise="Programs on a VM can hold approvals.",
        file="src/forewarn/agent/decision/reaction.py",
        old="held_until = max(known.holds.values(), default=self._now)",
        new="held_until = min(known.holds.values(), default=self._now)",
        found_by=(_REACTION, "tests/agent/decision/test_holds.py"),
    ),
    Fault(
        name="The agent approves after NotBefore",
        promise="After NotBefore no approval is sent.",
        file="src/forewarn/agent/decision/reaction.py",
        old="        if approval_turn.is_due(known.event, self._now):\n            return\n",
        new="",
        found_by=(_REACTION, _INVARIANTS),
    ),
    Fault(
        name="A call that was cut off is repeated although its handler does not repeat",
        promise="The agent calls a handler that repeats again, and asks any other for the result.",
        file="src/forewarn/agent/decision/handler_calls.py",
        old="        elif not traits.repeats and (call.is_unclear if call else",
        new="        elif traits.repeats and (call.is_unclear if call else",
        found_by=(_CALLS, "tests/agent/test_cycle.py"),
    ),
    Fault(
        name="A shared handler is undone while another event needs it",
        promise=_SHARED,
        file="src/forewarn/agent/decision/handler_calls.py",
        old="        if call is None and traits.shared and (other :=",
        new="        if direction is Direction.DO and call is None and traits.shared and (other :=",
        found_by=(_CALLS, _INVARIANTS),
    ),
    Fault(
        name="An undo that failed is repeated while another event needs the handler",
        promise=_SHARED,
        file="src/forewarn/agent/decision/handler_calls.py",
        old="        self.depends_on_others = True\n        return True",
        new="        self.depends_on_others = True\n        return False",
        found_by=(_CALLS, _INVARIANTS),
    ),
    Fault(
        name="An event is forgotten before its last handler is undone",
        promise=_UNDONE,
        file="src/forewarn/agent/decision/reaction.py",
        old="            if step.do is None or is_over(step.undo, terms or HandlerTerms()):\n",
        new="            if step.do is None or step.undo is not None:\n",
        found_by=(_REACTION, _INVARIANTS),
    ),
    Fault(
        name="Two calls of a handler are under way",
        promise="No handler has two calls under way.",
        file="src/forewarn/agent/decision/handler_calls.py",
        old="        if name in self.busy:\n            self.waits_for.add(name)\n            return",
        new="        if name in self.busy and known.steps:\n            self.waits_for.add(name)\n            return",
        found_by=(_CALLS, _INVARIANTS),
    ),
    Fault(
        name="A handler that succeeded is called again when the event is postponed",
        promise=_ONCE,
        file="src/forewarn/agent/decision/memory.py",
        old="    known.steps = {handler: step for handler, step in known.steps.items() if step.do or step.undo}\n",
        new="    known.steps = {handler: step for handler, step in known.steps.items() if step.undo}\n",
        found_by=("tests/agent/decision/test_memory.py", _REACTION, _INVARIANTS),
    ),
    Fault(
        name="A revived event keeps its approval",
        promise="The VM must prepare again before it approves again.",
        file="src/forewarn/agent/decision/memory.py",
        old="    known.approved_at = None\n    known.consulted = None\n",
        new="    known.consulted = None\n",
        found_by=("tests/agent/decision/test_memory.py", _REACTION),
    ),
    Fault(
        name="The agent acts on facts that are not on the disk",
        promise="The start of a call is on disk before the handler is called.",
        file="src/forewarn/agent/runtime/memory_file.py",
        old="            os.fsync(self._file.fileno())\n",
        new="",
        found_by=("tests/agent/runtime/test_memory_file.py",),
    ),
    Fault(
        name="A damaged line of the memory is read",
        promise="The agent's memory may end at any byte: every fact before it is read.",
        file="src/forewarn/agent/runtime/memory_file.py",
        old='    return line[:_PREFIX_LENGTH] == b"%08x " % zlib.crc32(line[_PREFIX_LENGTH:])',
        new="    return len(line) > _PREFIX_LENGTH and zlib.crc32(line) >= 0",
        found_by=("tests/agent/runtime/test_memory_file.py",),
    ),
    Fault(
        name="After a restart, calls that were cut off count as running",
        promise="The agent may be killed between any two steps: every handler is called, and every handler undone.",
        file="src/forewarn/agent/decision/memory.py",
        old="                    if call and call.is_running:\n                        call.is_cut_off = True",
        new="                    if call and call.is_running and call is step.undo:\n"
        "                        call.is_cut_off = True",
        found_by=("tests/agent/decision/test_memory.py",),
    ),
    Fault(
        name="A client is told that an event was canceled that had its impact",
        promise="No event that had its impact is reported canceled.",
        file="src/forewarn/client/changes.py",
        old="none_started = all_was_read and 1 <= rise <= len(gone) + len(others)",
        new="none_started = all_was_read and 1 <= rise <= len(gone) + len(others) + 1",
        found_by=("tests/client/test_changes.py",),
    ),
)
