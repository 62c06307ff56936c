"""Guests that move between two real libvirt daemons while they run, and what happens when they cannot."""

from concurrent.futures import ThreadPoolExecutor

import libvirt
import pytest

from forewarn.core.model import EventType, Host
from forewarn.node.driver import CandidateHost, Impact, ImpactDone, ImpactFailed, ImpactUnderway
from tests.drivers.impacts import carried_out
from tests.drivers.libvirt.daemons import Daemons
from tests.drivers.libvirt.hypervisor import Guest
from tests.drivers.libvirt.machines import when_ended

pytestmark = pytest.mark.end_to_end


def to_h2(guest: Guest) -> Impact:
    return guest.impact(EventType.REDEPLOY, candidates=(CandidateHost(Host("h2")),))


def test_a_guest_moves_while_it_runs(daemons: Daemons) -> None:
    """Its new host is told, its boot id stays, and the old host forgets it."""
    guest = daemons.boot()
    driver, asked = daemons.driver(), to_h2(guest)

    assert carried_out(driver, asked) == ImpactDone({guest.name: "h2"})
    assert daemons.where(guest) == ["h2"]
    assert guest.still_runs
    assert carried_out(driver, asked) == ImpactDone({guest.name: "h2"})


def test_a_guest_moves_when_the_hosts_speak_to_each_other(daemons: Daemons) -> None:
    """Peer to peer: the old host's libvirt opens the other's URI by itself."""
    guest = daemons.boot()

    assert carried_out(daemons.driver(peer_to_peer=True), to_h2(guest)) == ImpactDone({guest.name: "h2"})
    assert daemons.where(guest) == ["h2"]
    assert guest.still_runs


def test_a_move_that_a_crash_hid_is_found(daemons: Daemons) -> None:
    """Both hosts are asked where the guest runs; it does not move twice."""
    guest = daemons.boot()
    asked = to_h2(guest)
    with daemons.driver()._executor._progress_store.held(asked.event.id) as progress_file:
        progress_file.begin(asked)
        progress_file.note("moving", guest.name, to="h2")
    flags = libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_PERSIST_DEST | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
    parameters: dict[str, str] = {libvirt.VIR_MIGRATE_PARAM_URI: "tcp://h2"}
    guest.domain.migrate3(daemons.connections["h2"], parameters, flags)  # type: ignore[arg-type]

    assert when_ended(daemons.driver(), asked) == ImpactDone({guest.name: "h2"})
    assert guest.still_runs


def test_a_target_that_is_too_small_is_not_tried(daemons: Daemons) -> None:
    """The event fails with that sentence, and the guest runs where it was."""
    guest = daemons.boot()
    failed = carried_out(daemons.driver(spare_memory=1 << 30), to_h2(guest))

    assert isinstance(failed, ImpactFailed)
    assert failed.reason.startswith(f"no host has the 96 MiB that {guest.name} needs: h2 has 0 MiB free")
    assert daemons.where(guest) == ["h1"]
    assert guest.still_runs


def test_a_move_that_fails_leaves_nothing_behind(daemons: Daemons) -> None:
    """The reason is libvirt's, the guest runs on, and the other host knows nothing of it."""
    guest = daemons.boot()
    failed = carried_out(daemons.driver(migration_uri="tcp://10.99.0.77:1"), to_h2(guest))

    assert isinstance(failed, ImpactFailed)
    assert failed.reason.startswith(f"{guest.name}: migration to h2: libvirt on h1 says: ")
    assert daemons.where(guest) == ["h1"]
    assert guest.still_runs


def test_a_move_that_takes_too_long_is_given_up(daemons: Daemons) -> None:
    """Nothing is under way for ever; and while it is, one hears how far it is."""
    guest = daemons.boot()
    guest.domain.migrateSetMaxSpeed(1)
    driver, asked, result = daemons.driver(longest="4s"), to_h2(guest), set()
    failed = driver.perform(asked)
    while isinstance(failed, ImpactUnderway):
        result.add(failed.progress)
        failed = driver.outcome_of(asked)

    assert isinstance(failed, ImpactFailed)
    assert any(words.endswith(" % of its memory is moved") for words in result)
    assert "canceled by client" in failed.reason
    assert daemons.where(guest) == ["h1"]
    assert guest.still_runs


def test_a_host_that_does_not_answer_is_named(daemons: Daemons) -> None:
    """Where the only other host is silent, that is the reason."""
    guest = daemons.boot()
    driver = daemons.driver(hosts={"h1": daemons.uris["h1"], "h2": "qemu+unix:///system?socket=/no/such"})
    failed = carried_out(driver, to_h2(guest))

    assert isinstance(failed, ImpactFailed)
    assert "libvirt on h2 (qemu+unix:///system?socket=/no/such) cannot be reached" in failed.reason
    assert not isinstance(driver.outcome_of(to_h2(guest)), ImpactUnderway)
    assert guest.still_runs


def test_two_migrations_at_once_do_not_take_the_same_room(daemons: Daemons) -> None:
    """Room is reserved while a migration is under way: the host may have one more CPU, and only one guest moves."""
    guests = [daemons.boot(), daemons.boot()]
    cpus = int(daemons.connections["h2"].getInfo()[2])
    driver = daemons.driver(cpu_ratio=1.01 / cpus, bandwidth=30)
    with ThreadPoolExecutor(2) as threads:
        ended = list(threads.map(lambda guest: carried_out(driver, to_h2(guest)), guests))

    (failed,) = [outcome for outcome in ended if isinstance(outcome, ImpactFailed)]
    assert failed.reason.endswith("needs: h2 has room for 0 more; free some, or raise cpu_ratio")
    assert sorted(host for guest in guests for host in daemons.running(guest)) == ["h1", "h2"]
