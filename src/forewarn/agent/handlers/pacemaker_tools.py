"""Runs Pacemaker's command-line tools: sets a node's standby and lists resources."""

from datetime import UTC, datetime, timedelta
from shutil import which
from xml.etree.ElementTree import ParseError, fromstring

import msgspec

from forewarn.agent.handler import Task
from forewarn.agent.handlers.polling import question_timeout
from forewarn.agent.handlers.program import ProgramNotStarted, run_program
from forewarn.child_process import last_line
from forewarn.core.errors import ForewarnError

# Pacemaker's exit code if the cluster does not run here, or refuses this user.
_NOT_CONNECTED = 102
_LONGEST_ANSWER = 10.0
"""Timeout of one tool in seconds."""
_GRACE = 0.2
_MOST = 64 << 20
"""Bytes of output that are read; the output of a large cluster is long."""
_MOVING = frozenset({"Starting", "Stopping", "Promoting", "Demoting", "Migrating"})


class PacemakerToolFailed(ForewarnError):
    """A Pacemaker tool failed."""


class ClusterResource(msgspec.Struct, frozen=True):
    """Current state of one instance of a resource."""

    id: str
    role: str
    nodes: tuple[str, ...] = ()
    is_managed: bool = True

    def is_moving(self) -> bool:
        return self.role in _MOVING

    def may_be_on(self, node: str) -> bool:
        # Pacemaker reports no node for a resource that is being stopped.
        return node in self.nodes or (not self.nodes and self.is_moving())


def own_node(task: Task) -> str:
    """Return the cluster's name of this machine."""
    return _run(["crm_node", "--name"], task)


def is_standby(node: str, task: Task) -> bool:
    asked = ["crm_attribute", "--node", node, "--name", "standby", "--query", "--quiet", "--default", "off"]
    return _run(asked, task).lower() in ("on", "true", "yes", "y", "1")


def set_standby(node: str, task: Task) -> None:
    """Make the cluster move all resources off a node; the setting survives restarts."""
    _run(["crm_attribute", "--node", node, "--name", "standby", "--update", "on", "--lifetime", "forever"], task)


def end_standby(node: str, task: Task) -> None:
    _run(["crm_attribute", "--node", node, "--name", "standby", "--delete", "--lifetime", "forever"], task)


def resources(task: Task) -> list[ClusterResource]:
    return read_resources(_run(["crm_mon", "--one-shot", "--output-as=xml"], task))


def read_resources(xml: str) -> list[ClusterResource]:
    """Return all instances in the output of ``crm_mon``, also those in groups, clones and bundles."""
    try:
        found = fromstring(xml).find("resources")  # noqa: S314 a tool of this machine wrote it
    except ParseError as error:
        raise PacemakerToolFailed(
            f"the output of crm_mon cannot be read: {error}; check that it supports --output-as=xml"
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
    """Return a tool's output; raise PacemakerToolFailed with its error if it failed or took too long."""
    if which(argv[0]) is None:
        raise PacemakerToolFailed(
            f"{argv[0]} is not installed; install Pacemaker's command-line tools (pacemaker-cli-utils)"
        )
    # Stopping the tool takes time too.
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
            " check that it runs, and that the agent is root or in the group haclient"
        )
    raise PacemakerToolFailed(f"{argv[0]} {ended.problem}")
