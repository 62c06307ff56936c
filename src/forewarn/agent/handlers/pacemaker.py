"""Handler ``pacemaker``: puts this node of a Pacemaker cluster into standby, and ends the standby again.

The handler ends only its own standby. The node is in the undo log before the standby begins, so this also holds after
a crash. A node that an administrator put into standby stays there.
"""

from datetime import timedelta
from pathlib import Path
from typing import Self

import msgspec

from forewarn.agent.handler import HandlerDone, HandlerFailed, HandlerNotBegun, HandlerOutcome, HandlerResult, Task
from forewarn.agent.handlers import pacemaker_tools as tools
from forewarn.agent.handlers.polling import polls
from forewarn.agent.handlers.undo_log import UndoLog
from forewarn.config.tables import read_table
from forewarn.core.errors import BadInput


class PacemakerSettings(msgspec.Struct, frozen=True):
    """The cluster node of this VM."""

    node: str = ""
    """The node's name in the cluster; requested from the cluster when empty."""
    poll: timedelta = timedelta(seconds=1)


class PacemakerHandler:
    """Makes the cluster move all resources off this node."""

    repeats = True
    shared = True

    def __init__(self, settings: PacemakerSettings, directory: Path) -> None:
        self._settings = settings
        self._undo_log = UndoLog(directory)

    @classmethod
    def from_settings(cls, settings: dict[str, object], directory: Path) -> Self:
        read = read_table("handler 'pacemaker'", settings, PacemakerSettings)
        if read.node.startswith("-") or any(character.isspace() for character in read.node):
            raise BadInput(
                f"setting 'node' of handler 'pacemaker': {read.node!r} is not a node name; see 'crm_node --list'"
            )
        if read.poll < timedelta(seconds=0.05):
            raise BadInput("setting 'poll' of handler 'pacemaker' is too short; give 0.05s or more")
        return cls(read, directory)

    def do(self, task: Task) -> HandlerResult:
        try:
            node = self._settings.node or tools.own_node(task)
            claimed = self._undo_log.read()
            if not tools.is_standby(node, task):
                claimed |= {node: "off"}
                self._undo_log.write(claimed)
                tools.set_standby(node, task)
            return self._wait(node, claimed, task)
        except tools.PacemakerToolFailed as error:
            return HandlerFailed(str(error))

    def undo(self, task: Task) -> HandlerResult:
        def end(node: str) -> bool:
            if is_standby := tools.is_standby(node, task):
                tools.end_standby(node, task)
            return is_standby

        try:
            ended = self._undo_log.undo(task, self._settings.poll, end, tools.PacemakerToolFailed)
        except tools.PacemakerToolFailed as error:
            return HandlerFailed(str(error))
        return HandlerDone(detail=f"standby ended: {', '.join(ended)}" if ended else "")

    def outcome_of(self, task: Task) -> HandlerOutcome:
        return HandlerNotBegun()

    def close(self) -> None:
        pass

    def _wait(self, node: str, claimed: dict[str, str], task: Task) -> HandlerResult:
        """Wait until no resource runs on the node, and none is moving."""
        here: list[tools.ClusterResource] = []
        moving: list[tools.ClusterResource] = []
        was_settled = False
        for _ in polls(task, self._settings.poll):
            known = tools.resources(task)
            here = [each for each in known if each.may_be_on(node)]
            moving = [each for each in known if each.is_moving()]
            is_settled = not here and not moving
            # Between its stop here and its start elsewhere a resource looks settled for an instant: check twice.
            if is_settled and was_settled:
                return HandlerDone(claimed, f"nothing runs on {node}")
            was_settled = is_settled
        if not here:
            return HandlerDone(
                claimed, f"nothing runs on {node}" + (f"; elsewhere {_show(moving)}" if moving else "")
            )
        if task.stopping.is_set():
            return HandlerFailed(f"the agent stopped while it waited for {_show(here)} to leave {node}")
        return HandlerFailed(f"the deadline passed before all resources had left {node}: {_show(here)}")


def _show(resources: list[tools.ClusterResource]) -> str:
    return ", ".join(
        f"{each.id} {each.role.lower()}" + ("" if each.is_managed else " (not managed)") for each in resources
    )
