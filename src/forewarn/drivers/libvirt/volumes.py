"""The disks of machines as libvirt's storage pools have them: deleted, or made anew and empty."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from xml.etree import ElementTree as ET

import libvirt
import msgspec

from forewarn.drivers.libvirt.hosts import LibvirtHosts
from forewarn.drivers.libvirt.problems import LibvirtProblem, describe, problem_of

_OF_THE_OLD = ("key", "physical", "target/path", "target/timestamps")


class EmptyVolume(msgspec.Struct, frozen=True):
    """A disk as it is to be made anew."""

    host: str
    path: str
    pool: str
    written: str
    """Its description, in libvirt's words."""


def delete(hosts: LibvirtHosts, host: str, path: str) -> None:
    with _heard(host, path):
        hosts.connection(host).storageVolLookupByPath(path).delete()


def find(hosts: LibvirtHosts, host: str, path: str) -> EmptyVolume:
    """Return what a disk is to be like when it is made anew; raise Trouble where no storage pool has it."""
    with _heard(host, path):
        volume = hosts.connection(host).storageVolLookupByPath(path)
        return EmptyVolume(host, path, volume.storagePoolLookupByVolume().name(), _blank(volume.XMLDesc()))


def make_anew(hosts: LibvirtHosts, blank: EmptyVolume) -> str:
    """Replace a disk by an empty one of the same name, size and format, or put one where it was; return a remark.

    Where its space was taken by others meanwhile, it grows as it is written, so that the machine can start at all.
    """
    with _heard(blank.host, blank.path):
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
            return describe(blank.host, error, f"disk {blank.path} now takes space only as it is written")
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
        _shrink(root)  # what grew as it was written begins small again
    return ET.tostring(root, encoding="unicode")


def _shrink(root: ET.Element) -> bool:
    """Let a disk take no space before it is written; tell whether it would have taken some."""
    allocation = root.find("allocation")
    if allocation is None or allocation.text == "0":
        return False
    allocation.text = "0"
    return True


@contextmanager
def _heard(host: str, path: str) -> Iterator[None]:
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_STORAGE_VOL:
            raise LibvirtProblem(
                f"disk {path} is in no storage pool of {host}; define one for its directory"
            ) from None
        raise problem_of(host, error, f"disk {path}") from None
