"""Hosts whose disks are full: the event says so, nothing is left half-done, and it is plain where the guest is."""

from collections.abc import Iterator
from contextlib import suppress
from subprocess import CalledProcessError

import libvirt
import pytest

from forewarn.core.model import EventType, Host, Vm
from forewarn.node.driver import CandidateHost, ImpactDone, ImpactFailed
from tests.drivers.impacts import carried_out
from tests.drivers.libvirt.daemons import NAMES, Daemons
from tests.drivers.libvirt.hypervisor import Guest

pytestmark = pytest.mark.end_to_end

SAVED, IMAGES = "/var/lib/libvirt/qemu/save", "/var/lib/libvirt/images"
POOL = f"<pool type='dir'><name>images</name><target><path>{IMAGES}</path></target></pool>"
VOLUME = "<volume><name>swap.img</name><capacity unit='MiB'>8</capacity></volume>"
DISK = f"""\
<disk type='file' device='disk'>
  <driver name='qemu' type='raw'/><source file='{IMAGES}/swap.img'/><target dev='vdb' bus='virtio'/>
</disk>"""
LIVE_AND_LASTING = libvirt.VIR_DOMAIN_AFFECT_LIVE | libvirt.VIR_DOMAIN_AFFECT_CONFIG


@pytest.fixture
def storage(daemons: Daemons) -> Iterator[Daemons]:
    """A storage pool on each host: with room on h1, too small for a disk on h2."""
    for name, size in zip(NAMES, (16, 4), strict=True):
        daemons.mount(name, IMAGES, size)
        daemons.connections[name].storagePoolCreateXML(POOL)
    yield daemons
    daemons.clear()
    for name in NAMES:
        daemons.connections[name].storagePoolLookupByName("images").destroy()
        daemons.inside(name, "umount", IMAGES)


def with_a_disk(daemons: Daemons) -> Guest:
    guest = daemons.boot()
    daemons.connections["h1"].storagePoolLookupByName("images").createXML(VOLUME)
    guest.domain.attachDeviceFlags(DISK, LIVE_AND_LASTING)
    return guest


def fill(daemons: Daemons, name: str) -> None:
    with suppress(CalledProcessError):
        daemons.inside(name, "dd", "if=/dev/zero", f"of={IMAGES}/neighbour", "bs=64k")


def to_h2(daemons: Daemons, guest: Guest, **settings: object) -> object:
    return carried_out(
        daemons.driver(**settings), guest.impact(EventType.REDEPLOY, candidates=(CandidateHost(Host("h2")),))
    )


def test_a_guest_that_cannot_be_saved_runs_on(daemons: Daemons) -> None:
    """What was to be kept is not destroyed instead; nothing of the attempt is left."""
    guest = daemons.boot()
    daemons.mount("h1", SAVED, 1)
    failed = carried_out(daemons.driver(evict="save"), guest.impact(EventType.PREEMPT))
    left = daemons.inside("h1", "ls", SAVED)
    daemons.inside("h1", "umount", SAVED)

    assert isinstance(failed, ImpactFailed)
    assert failed.reason.startswith(f"{guest.name}: save: libvirt on h1 says: ")
    assert failed.reason.endswith(f"No space left on device; free some space there; {guest.name} runs on")
    assert left == ""
    assert not guest.domain.hasManagedSaveImage()
    assert guest.still_runs


def test_a_guest_starts_though_others_took_the_space_of_its_disk(
    storage: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ephemeral disk then takes space as it is written, and the detail says why."""
    guest = with_a_disk(storage)
    boots, delete = guest.boots, libvirt.virStorageVol.delete

    def delete_and_fill(volume: libvirt.virStorageVol) -> None:
        delete(volume)
        fill(storage, "h1")

    monkeypatch.setattr(libvirt.virStorageVol, "delete", delete_and_fill)
    driver = storage.driver(redeploy="restart", ephemeral_disks=["vdb"])
    done = carried_out(driver, guest.impact(EventType.REDEPLOY))

    assert isinstance(done, ImpactDone)
    assert done.detail.startswith(f"disk {IMAGES}/swap.img is now allocated on demand: libvirt on h1 says")
    assert done.detail.endswith("No space left on device; free some space there")
    assert storage.inside("h1", "stat", "-c", "%s %b", f"{IMAGES}/swap.img") == f"{8 << 20} 0\n"
    guest.wait_for_another_boot(boots)


def test_a_guest_whose_disks_stay_behind_does_not_move(storage: Daemons) -> None:
    """The sentence has the remedy, and the other host knows nothing of the guest."""
    guest = with_a_disk(storage)
    failed = to_h2(storage, guest)

    assert isinstance(failed, ImpactFailed)
    assert failed.reason.endswith("; put its disks where both hosts have them, or set copy_disks")
    assert storage.where(guest) == ["h1"]
    assert guest.still_runs


def test_a_guest_moves_with_its_disks_only_where_they_fit(storage: Daemons) -> None:
    """Where they do not fit the guest stays, and nothing is left there; once there is room it moves."""
    guest = with_a_disk(storage)
    failed = to_h2(storage, guest, copy_disks=True)

    assert isinstance(failed, ImpactFailed)
    assert failed.reason.startswith(f"{guest.name}: migration to h2: libvirt on h1 says: ")
    assert failed.reason.endswith("No space left on device; free some space there")
    assert storage.where(guest) == ["h1"]
    assert storage.inside("h2", "ls", IMAGES) == ""

    storage.inside("h2", "mount", "-o", "remount,size=16m", IMAGES)
    storage.connections["h2"].storagePoolLookupByName("images").refresh()
    assert to_h2(storage, guest, copy_disks=True) == ImpactDone({guest.name: "h2"})
    assert storage.where(guest) == ["h2"]
    assert guest.still_runs


def test_a_full_storage_pool_is_told_beforehand(storage: Daemons) -> None:
    """By its name and its host, before anybody needs it."""
    fill(storage, "h1")
    _, result = storage.driver().check((Vm("web-0", "web", "h1"),))

    assert result.startswith("storage pool images on h1 is full: 0 of 16 MiB are free; free some space there")
