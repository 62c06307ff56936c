"""Pacemaker's command line tools: a node's standby, and where resources run."""

from datetime import UTC, datetime, timedelta
from shutil import which
from xml.etree.ElementTree import ParseError, fromstring

import msgspec

from forewarn.agent.handler import Task
from forewarn.agent.handlers.polling import question_timeout
from forewarn.agent.handlers.program import ProgramNotStarted, run_program
from forewarn.child_process import last_line
from forewarn.core.errors import ForewarnError

# Pacemaker's exit code for a cluster that runs not here, or does not let this user in.
_NOT_CONNECTED = 102
_LONGEST_ANSWER = 10.0
"""Seconds that a tool may take."""
_GRACE = 0.2
_MOST = 64 << 20
"""Bytes of an answer that are read: a large cluster has much to tell."""
_MOVING = frozenset({"Starting", "Stopping", "Promoting", "Demoting", "Migrating"})


class PacemakerToolFailed(ForewarnError):
    """A tool of Pacemaker's did not do what it was asked for."""


class ClusterResource(msgspec.Struct, frozen=True):
    """One instance of a resource, as the cluster sees it now."""

    id: str
    role: str
    nodes: tuple[str, ...] = ()
    is_managed: bool = True

    def is_moving(self) -> bool:
        return self.role in _MOVING

    def may_be_on(self, node: str) -> bool:
        # Pacemaker names no node for what is being stopped.
        return node in self.nodes or (not self.nodes and self.is_moving())


def own_node(task: Task) -> str:
    """Return what the cluster calls this machine."""
    return _run(["crm_node", "--name"], task)


def is_standby(node: str, task: Task) -> bool:
    asked = ["crm_attribute", "--node", node, "--name", "standby", "--query", "--quiet", "--default", "off"]
    return _run(asked, task).lower() in ("on", "true", "yes", "y", "1")


def set_standby(node: str, task: Task) -> None:
    """Have the cluster move everything off a node, over its restarts too."""
    _run(
        ["crm_attribute", "--node", node, "--name", "standby", "--update", "on", "--lifetime", "forever"],
        task,
    )


def end_standby(node: str, task: Task) -> None:
    _run(["crm_attribute", "--node", node, "--name", "standby", "--delete", "--lifetime", "forever"], task)


def resources(task: Task) -> list[ClusterResource]:
    return read_resources(_run(["crm_mon", "--one-shot", "--output-as=xml"], task))


def read_resources(xml: str) -> list[ClusterResource]:
    """Return every instance in what ``crm_mon`` wrote, those in groups, clones and bundles too."""
    try:
        found = fromstring(xml).find("resources")  # noqa: S314 a tool of this machine wrote it
    except ParseError as error:
        raise PacemakerToolFailed(
            f"what crm_mon wrote cannot be read: {error}; see that it knows --output-as=xml"
        ) from None
    if found is None:
        return []
    return [
        ClusterResource(
            id=each.get("id", ""),
            role=each.get("role", ""),
            nodes=tuple(node.get("name", "") for node in each.iterfind("node")),
            is_managed=each.get("managed") != "false",
        )
        for each in found.iter("resource")
    ]


def _run(argv: list[str], task: Task) -> str:
    """Return what a tool printed; raise ToolFailed with its last words if it failed, or took too long."""
    if which(argv[0]) is None:
        raise PacemakerToolFailed(
            f"there is no {argv[0]} on this machine; install Pacemaker's command line tools (pacemaker-cli-utils)"
        )
    # What ends it in time takes its share of the time too.
    seconds = question_timeout(task, _LONGEST_ANSWER) + 2 * _GRACE
    soon = msgspec.structs.replace(task, deadline=datetime.now(UTC) + timedelta(seconds=seconds))
    try:
        ended = run_program(argv, soon, grace=_GRACE, most=_MOST)
    except ProgramNotStarted as error:
        raise PacemakerToolFailed(str(error)) from None
    if not ended.problem:
        return ended.stdout.strip()
    if ended.exit == _NOT_CONNECTED:
        raise PacemakerToolFailed(
            f"Pacemaker does not answer on this machine ({last_line(ended.stderr)});"
            " see that it runs, and that the agent is root or in the group haclient"
        )
    raise PacemakerToolFailed(f"{argv[0]} {ended.problem}")
