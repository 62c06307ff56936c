"""Daemons that die while a guest moves: it runs on one host, and is defined on no other."""

from collections.abc import Callable, Iterator

import libvirt
import pytest

from forewarn.core.model import EventType, Host
from forewarn.node.driver import CandidateHost, ImpactDone, ImpactFailed, ImpactOutcome, ImpactUnderway
from tests.drivers.libvirt.daemons import Daemons
from tests.drivers.libvirt.hypervisor import Guest, wait_for

pytestmark = pytest.mark.end_to_end

LIFECYCLE = libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE


@pytest.fixture
def guest(daemons: Daemons) -> Iterator[Guest]:
    guest = daemons.boot()
    yield guest
    assert len(daemons.running(guest)) <= 1, "it runs twice"


def moved(daemons: Daemons, guest: Guest, then: Callable[[], bool], die: str, **settings: object) -> ImpactOutcome:
    """Move a guest to h2, kill a daemon once something has happened, start it again; return how it ended."""
    driver, asked = (
        daemons.driver(**settings),
        guest.impact(EventType.REDEPLOY, candidates=(CandidateHost(Host("h2")),)),
    )
    outcome = driver.perform(asked)
    killed = False
    while isinstance(outcome, ImpactUnderway) or not killed:
        if not killed and then():
            daemons.kill(die)
            daemons.start(die)
            killed = True
        outcome = driver.outcome_of(asked)
    return outcome


def heard(daemons: Daemons, host: str, event: int, die: str) -> Callable[[], bool]:
    """Kill a daemon within the very event; tell whether that has happened."""
    found: list[int] = []

    def hear(_: object, __: object, what: int, ___: int, ____: object) -> None:
        if what == event and not found:
            daemons.kill(die)
            found.append(what)

    connection = libvirt.open(daemons.uris[host])
    connection.domainEventRegisterAny(None, LIFECYCLE, hear, None)
    return lambda: bool(found) and bool(connection)


STARTED, SUSPENDED = libvirt.VIR_DOMAIN_EVENT_STARTED, libvirt.VIR_DOMAIN_EVENT_SUSPENDED
RESUMED = libvirt.VIR_DOMAIN_EVENT_RESUMED


@pytest.mark.parametrize(
    ("host", "event", "die", "peer_to_peer"),
    [
        ("h2", STARTED, "h1", False),
        ("h1", SUSPENDED, "h1", False),
        ("h2", SUSPENDED, "h1", False),
        ("h2", SUSPENDED, "h1", True),
        ("h2", RESUMED, "h1", False),
        ("h1", SUSPENDED, "h2", False),
        ("h2", SUSPENDED, "h2", False),
        ("h2", SUSPENDED, "h2", True),
        ("h2", RESUMED, "h2", False),
    ],
)
def test_a_daemon_that_dies_leaves_the_guest_on_one_host(
    daemons: Daemons, guest: Guest, host: str, event: int, die: str, *, peer_to_peer: bool
) -> None:
    """Wherever it was: the guest runs there and goes on, only that host defines it, and the outcome names it."""
    then = heard(daemons, host, event, die)
    outcome = moved(daemons, guest, then, die, peer_to_peer=peer_to_peer)

    wait_for(lambda: bool(daemons.running(guest)), "the guest to run")
    (place,) = daemons.running(guest)
    assert daemons.where(guest) == [place]
    assert outcome == ImpactDone({guest.name: "h2"}) if place == "h2" else isinstance(outcome, ImpactFailed)
    assert guest.still_runs
