"""The disks of machines as libvirt's storage pools have them: deleted, or made anew and empty."""

from collections.abc import Iterator
from contextlib import contextmanager
from xml.etree import ElementTree as ET

import libvirt

from forewarn.drivers.libvirt.hosts import Hosts
from forewarn.drivers.libvirt.problems import Trouble, trouble

_OF_THE_OLD = ("key", "physical", "target/path", "target/timestamps")


def delete(hosts: Hosts, host: str, path: str) -> None:
    with _heard(host, path):
        hosts.connection(host).storageVolLookupByPath(path).delete()


def make_anew(hosts: Hosts, host: str, path: str) -> None:
    """Replace a disk by an empty one of the same name, size and format."""
    with _heard(host, path):
        volume = hosts.connection(host).storageVolLookupByPath(path)
        pool = volume.storagePoolLookupByVolume()
        written = _blank(volume.XMLDesc())
        volume.delete()
        pool.createXML(written)


def _blank(described: str) -> str:
    root = ET.fromstring(described)  # noqa: S314 libvirt's own words
    for place in _OF_THE_OLD:
        parent, _, name = place.rpartition("/")
        holder = root.find(parent) if parent else root
        found = holder.find(name) if holder is not None else None
        if holder is not None and found is not None:
            holder.remove(found)
    capacity, allocation = root.find("capacity"), root.find("allocation")
    if capacity is not None and allocation is not None and allocation.text != capacity.text:
        allocation.text = "0"  # what grew as it was written begins small again
    return ET.tostring(root, encoding="unicode")


@contextmanager
def _heard(host: str, path: str) -> Iterator[None]:
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_STORAGE_VOL:
            raise Trouble(f"disk {path} is in no storage pool of {host}; define one for its directory") from None
        raise trouble(host, error, f"disk {path}") from None
