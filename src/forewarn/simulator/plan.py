"""A plan of a simulation: the fleet, the guests, the settings, and what happens when. Made from a seed.

The text of a plan is what a failing seed prints, and what a saved failure is read from:

    # seed 4711
    hurry 60
    host h1
    group web availability-set
    vm web-0 in web on h1 ud=0 fd=0 address=10.0.0.1 agent=prompt

    12.5 ann asks for restart of web-0 with key k1
"""

import msgspec

from forewarn.simulator.actions import Action


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
    actions: tuple[Action, ...]
    """In the order of their times."""
    ends_at: float
    """Second from which no fault happens any more; what is due then is given time to complete."""
    has_sqlite: bool = False
    """Whether the journal is a real one of SQLite."""
