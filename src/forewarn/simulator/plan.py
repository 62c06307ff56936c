"""A plan of a simulation: the fleet, the guests, the settings, and what happens when. Made from a seed.

The text of a plan is what a failing seed prints, and what a saved failure is read from:

    # Lines like this one are for the reader.
    seed 4711
    hurry 60
    ends 120
    journal sqlite
    moves cold
    changes large
    limit 2
    slowness 6
    driver webhook
    workers 2
    nodes 3
    host h1
    group web availability-set {"approval":"all"}
    vm web-0 in web on h1 ud=0 fd=0 address=10.0.0.1 spot guest=prompt
    owner bob of web

    12.5 ann asks for restart of web-0 with key k1

The terms of a group, ``spot``, and the lines from ``journal`` to ``nodes`` are left out where there are none.
"""

import re
from typing import Any

import msgspec

from forewarn.simulator.actions.kinds import parse_action
from forewarn.simulator.actions.planned_action import PlannedAction


class PlannedVm(msgspec.Struct, frozen=True):
    """A VM at the beginning, and the program that runs in it."""

    name: str
    group: str
    host: str
    update_domain: int
    fault_domain: int
    address: str
    spot: bool = False
    guest: str = "agent"
    """The kind of its guest: one of ``guests.KINDS``."""


class PlannedGroup(msgspec.Struct, frozen=True):
    """A group at the beginning."""

    name: str
    kind: str
    terms: str = "{}"
    """Terms as JSON, set by the operator at the beginning."""


class Plan(msgspec.Struct, frozen=True):
    """All that a simulation depends on, beside the code."""

    seed: int
    hurry: float
    hosts: tuple[str, ...]
    groups: tuple[PlannedGroup, ...]
    vms: tuple[PlannedVm, ...]
    owners: dict[str, tuple[str, ...]]
    """The groups of each owner, by the owner's name."""
    actions: tuple[PlannedAction, ...]
    """In the order of their times."""
    ends_at: float
    """Second from which no fault happens any more; what is due then is given time to complete."""
    has_sqlite: bool = False
    """Whether the journal is a real one of SQLite."""
    moves_live: bool = True
    """Whether the driver moves running guests."""
    large_changes: bool = False
    """Whether every change of the fleet is decided aside, as one of thousands of VMs is."""
    user_limit: int = 0
    """How many operations of users may be Scheduled at a time; 0 where there is no limit."""
    slowness: float = 1.0
    """By which machines take longer for everything."""
    driver: str = "machines"
    """``command`` or ``webhook``: that driver, on a simulated program; else one for simulated machines.

    The one for simulated machines that is ``immediate`` says of itself that it never waits; the one that is
    ``unfenced`` keeps its records on its node, and does not refuse a leader that was replaced.
    """
    workers: int = 0
    """How many processes answer guests, where the journal is a simulated one; 0 where the service does."""
    nodes: int = 0
    """How many nodes share a simulated database; 0 where there is one service with a journal of its own."""


_VM = re.compile(
    r"(?P<name>\S+) in (?P<group>\S+)(?: on (?P<host>\S+))? ud=(?P<update_domain>\d+) fd=(?P<fault_domain>\d+)"
    r" address=(?P<address>\S*)(?P<spot> spot)? guest=(?P<guest>\S+)"
)


def format_plan(plan: Plan) -> str:
    """Return the text of a plan; ``parse_plan`` reads all of it back."""
    lines = [f"seed {plan.seed}", f"hurry {_number(plan.hurry)}", f"ends {_number(plan.ends_at)}"]
    lines += ["journal sqlite"] if plan.has_sqlite else []
    lines += [] if plan.moves_live else ["moves cold"]
    lines += ["changes large"] if plan.large_changes else []
    lines += [f"limit {plan.user_limit}"] if plan.user_limit else []
    lines += [f"slowness {_number(plan.slowness)}"] if plan.slowness != 1.0 else []
    lines += [f"driver {plan.driver}"] if plan.driver != "machines" else []
    lines += [f"workers {plan.workers}"] if plan.workers else []
    lines += [f"nodes {plan.nodes}"] if plan.nodes else []
    lines += [f"host {host}" for host in plan.hosts]
    lines += [
        f"group {group.name} {group.kind}" + (f" {group.terms}" if group.terms != "{}" else "")
        for group in plan.groups
    ]
    lines += [
        f"vm {vm.name} in {vm.group}{f' on {vm.host}' if vm.host else ''} ud={vm.update_domain} fd={vm.fault_domain}"
        f" address={vm.address}{' spot' if vm.spot else ''} guest={vm.guest}"
        for vm in plan.vms
    ]
    lines += [" ".join(("owner", owner, "of", *groups)) for owner, groups in plan.owners.items()]
    lines += ["", *(f"{_number(action.at)} {action}" for action in plan.actions)]
    return "\n".join(lines) + "\n"


def parse_plan(text: str) -> Plan:
    """Return the plan that a text describes; raise ValueError that names the first line that is none of a plan."""
    values: dict[str, Any] = {
        "hurry": 1.0,
        "ends_at": 0.0,
        "has_sqlite": False,
        "moves_live": True,
        "large_changes": False,
        "user_limit": 0,
        "slowness": 1.0,
        "driver": "machines",
        "workers": 0,
        "nodes": 0,
    }
    hosts: list[str] = []
    groups: list[PlannedGroup] = []
    vms: list[PlannedVm] = []
    owners: dict[str, tuple[str, ...]] = {}
    actions: list[PlannedAction] = []
    for number, line in enumerate(text.splitlines(), start=1):
        word, _, rest = line.strip().partition(" ")
        try:
            match word:
                case "":
                    pass
                case _ if word.startswith("#"):
                    pass
                case "seed":
                    values["seed"] = int(rest)
                case "hurry":
                    values["hurry"] = float(rest)
                case "ends":
                    values["ends_at"] = float(rest)
                case "journal":
                    values["has_sqlite"] = rest == "sqlite"
                case "moves":
                    values["moves_live"] = rest == "live"
                case "changes":
                    values["large_changes"] = rest == "large"
                case "limit":
                    values["user_limit"] = int(rest)
                case "slowness":
                    values["slowness"] = float(rest)
                case "driver":
                    values["driver"] = rest
                case "workers" | "nodes":
                    values[word] = int(rest)
                case "host":
                    hosts.append(rest)
                case "group":
                    groups.append(PlannedGroup(*rest.split(maxsplit=2)))
                case "vm":
                    vms.append(_parse_vm(rest))
                case "owner":
                    owner, _, *owned = rest.split()
                    owners[owner] = tuple(owned)
                case _:
                    actions.append(parse_action(float(word), rest))
        except (TypeError, ValueError) as error:
            raise ValueError(f"line {number} of the plan cannot be read: {line!r} ({error})") from None
    if "seed" not in values:
        raise ValueError("the plan names no seed; write it as its first line: seed 1")
    return Plan(
        hosts=tuple(hosts), groups=tuple(groups), vms=tuple(vms), owners=owners, actions=tuple(actions), **values
    )


def _parse_vm(words: str) -> PlannedVm:
    found = _VM.fullmatch(words)
    if found is None:
        raise ValueError("a VM is written as: vm web-0 in web on h1 ud=0 fd=0 address=10.0.0.1 guest=prompt")
    return PlannedVm(
        found["name"],
        found["group"],
        found["host"] or "",
        int(found["update_domain"]),
        int(found["fault_domain"]),
        found["address"],
        spot=found["spot"] is not None,
        guest=found["guest"],
    )


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")
