"""The coordinator: an external command that decides whether a shared event may be approved."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from forewarn.agent.handler import Direction, Stopping, Task
from forewarn.agent.handlers.program import ProgramNotStarted, run_program
from forewarn.child_process import last_line
from forewarn.wire.document import ScheduledEvent
from forewarn.wire.event_json import make_event_json

_LONGEST = timedelta(minutes=1)


class CoordinatorReply(msgspec.Struct, frozen=True):
    """What the coordinator said."""

    agreed: bool
    detail: str = ""


def consult(
    command: Sequence[str], event: ScheduledEvent, vm: str, stopping: Stopping, longest: timedelta = _LONGEST
) -> CoordinatorReply:
    """Ask with the event as JSON on stdin: exit code 0 agrees, any other does not yet.

    Blocks for ``longest`` at most, and not when the agent stops; what cannot be run, or takes longer, does not agree.
    """
    deadline = datetime.now(UTC) + longest
    task = Task(event=event, vm=vm, direction=Direction.DO, deadline=deadline, stopping=stopping)
    try:
        ended = run_program(command, task, said=msgspec.json.encode(make_event_json(event)))
    except ProgramNotStarted as error:
        return CoordinatorReply(agreed=False, detail=str(error))
    if ended.cut_off or ended.exit not in (0, 1):
        return CoordinatorReply(agreed=False, detail=f"{command[0]} {ended.problem}")
    return CoordinatorReply(ended.exit == 0, last_line(ended.stderr) or last_line(ended.stdout))
