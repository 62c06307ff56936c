"""Pacemaker's command line tools: a node's standby, and where resources run."""

import subprocess
from xml.etree.ElementTree import ParseError, fromstring

import msgspec

from forewarn.core.errors import ForewarnError

# Pacemaker's exit code for a cluster that runs not here, or does not let this user in.
_NOT_CONNECTED = 102
_MOVING = frozenset({"Starting", "Stopping", "Promoting", "Demoting", "Migrating"})


class ToolFailed(ForewarnError):
    """A tool of Pacemaker's did not do what it was asked for."""


class Resource(msgspec.Struct, frozen=True):
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


def own_node(patience: float) -> str:
    """Return what the cluster calls this machine."""
    return _run(["crm_node", "--name"], patience)


def is_standby(node: str, patience: float) -> bool:
    asked = ["crm_attribute", "--node", node, "--name", "standby", "--query", "--quiet", "--default", "off"]
    return _run(asked, patience).lower() in ("on", "true", "yes", "y", "1")


def set_standby(node: str, patience: float) -> None:
    """Have the cluster move everything off a node, over its restarts too."""
    _run(
        ["crm_attribute", "--node", node, "--name", "standby", "--update", "on", "--lifetime", "forever"],
        patience,
    )


def end_standby(node: str, patience: float) -> None:
    _run(["crm_attribute", "--node", node, "--name", "standby", "--delete", "--lifetime", "forever"], patience)


def resources(patience: float) -> list[Resource]:
    return read_resources(_run(["crm_mon", "--one-shot", "--output-as=xml"], patience))


def read_resources(xml: str) -> list[Resource]:
    """Return every instance in what ``crm_mon`` wrote, those in groups, clones and bundles too."""
    try:
        found = fromstring(xml).find("resources")  # noqa: S314 a tool of this machine wrote it
    except ParseError as error:
        raise ToolFailed(f"what crm_mon wrote cannot be read: {error}; see that it knows --output-as=xml") from None
    if found is None:
        return []
    return [
        Resource(
            id=each.get("id", ""),
            role=each.get("role", ""),
            nodes=tuple(node.get("name", "") for node in each.iterfind("node")),
            is_managed=each.get("managed") != "false",
        )
        for each in found.iter("resource")
    ]


def _run(argv: list[str], patience: float) -> str:
    """Return what a tool printed; raise ToolFailed with its last words if it failed, or took too long."""
    try:
        ended = subprocess.run(  # noqa: S603 a tool that we name
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=patience,
            check=False,
        )
    except FileNotFoundError:
        raise ToolFailed(
            f"there is no {argv[0]} on this machine; install Pacemaker's command line tools (pacemaker-cli-utils)"
        ) from None
    except subprocess.TimeoutExpired:
        raise ToolFailed(f"{argv[0]} did not end within {patience:.1f} s") from None
    except OSError as error:
        raise ToolFailed(f"{argv[0]} could not be started: {error.strerror}") from None
    if ended.returncode == 0:
        return ended.stdout.decode(errors="replace").strip()
    words = ended.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {ended.returncode}"]
    if ended.returncode == _NOT_CONNECTED:
        raise ToolFailed(
            f"Pacemaker does not answer on this machine ({words[-1]});"
            " see that it runs, and that the agent is root or in the group haclient"
        )
    raise ToolFailed(f"{argv[0]} failed: {words[-1]}")
