"""Disks of machines in libvirt storage pools: deletes them, or recreates them empty."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from xml.etree import ElementTree as ET

import libvirt
import msgspec

from forewarn.drivers.libvirt.hosts import LibvirtHosts
from forewarn.drivers.libvirt.problems import LibvirtProblem, describe, problem_of

_OF_THE_OLD = ("key", "physical", "target/path", "target/timestamps")


class EmptyVolume(msgspec.Struct, frozen=True):
    """A disk to be recreated empty."""

    host: str
    path: str
    pool: str
    written: str
    """Its volume description (XML)."""


def delete(hosts: LibvirtHosts, host: str, path: str) -> None:
    with _translate_errors(host, path):
        hosts.connection(host).storageVolLookupByPath(path).delete()


def find(hosts: LibvirtHosts, host: str, path: str) -> EmptyVolume:
    """Return the description of a disk for recreation; raise LibvirtProblem if no storage pool has it."""
    with _translate_errors(host, path):
        volume = hosts.connection(host).storageVolLookupByPath(path)
        return EmptyVolume(host, path, volume.storagePoolLookupByVolume().name(), _blank(volume.XMLDesc()))


def make_anew(hosts: LibvirtHosts, blank: EmptyVolume) -> str:
    """Recreate a disk empty, with the same name, size and format; return a remark.

    If its space has been used otherwise meanwhile, it is allocated on demand, so that the machine can start at all.
    """
    with _translate_errors(blank.host, blank.path):
        connection = hosts.connection(blank.host)
        pool = connection.storagePoolLookupByName(blank.pool)
        with suppress(libvirt.libvirtError):
            connection.storageVolLookupByPath(blank.path).delete()
        try:
            pool.createXML(blank.written)
        except libvirt.libvirtError as error:
            root = ET.fromstring(blank.written)  # noqa: S314 libvirt's own words
            if not _shrink(root):
                raise
            pool.createXML(ET.tostring(root, encoding="unicode"))
            return describe(blank.host, error, f"disk {blank.path} is now allocated on demand")
    return ""


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
        _shrink(root)  # a disk that was allocated on demand is so again
    return ET.tostring(root, encoding="unicode")


def _shrink(root: ET.Element) -> bool:
    """Allocate no space in advance; return whether that is a change."""
    allocation = root.find("allocation")
    if allocation is None or allocation.text == "0":
        return False
    allocation.text = "0"
    return True


@contextmanager
def _translate_errors(host: str, path: str) -> Iterator[None]:
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_STORAGE_VOL:
            raise LibvirtProblem(
                f"disk {path} is in no storage pool of {host}; define one for its directory"
            ) from None
        raise problem_of(host, error, f"disk {path}") from None
