"""Checks of what a VM is told of itself."""

import re
from collections.abc import Iterator
from typing import Any

from forewarn.conformance.looks import Look, NotSeen
from forewarn.conformance.server import INSTANCE, Reply
from forewarn.conformance.visit import CHECKS, Visit

_VERSION = "2021-02-01"
_MAC = re.compile(r"(?:[0-9A-F]{12})?")
_KEYS = (
    *("location", "name", "osType", "platformFaultDomain", "platformUpdateDomain", "resourceGroupName"),
    *("subscriptionId", "tags", "tagsList", "vmId", "vmScaleSetName", "vmSize", "zone"),
)
_SINCE = {
    "tags": ("2017-04-02", "2017-08-01"),
    "zone": ("2017-10-01", "2017-12-01"),
    "tagsList": ("2019-06-01", "2019-06-04"),
}
"""The last version without a key, and the first that has it."""


def _whole(visit: Visit, version: str = _VERSION) -> Reply:
    reply = visit.server.get(INSTANCE, version)
    if reply.status == 404:
        raise NotSeen(f"it has no {INSTANCE}")
    return reply


def _compute(reply: Reply) -> dict[str, object]:
    document = reply.json
    compute = document.get("compute") if isinstance(document, dict) else None
    return compute if isinstance(compute, dict) else {}


@CHECKS.add()
def instance_whole(visit: Visit) -> Iterator[Look]:
    reply = visit.server.get(INSTANCE, _VERSION)
    yield reply.has_status(200, INSTANCE)
    missing = [key for key in _KEYS if key not in _compute(reply)]
    yield Look("every key in compute", f"without {', '.join(missing)}" if missing else "all", not missing)
    yield Look("network", ", ".join(reply.json), "network" in reply.json)


@CHECKS.add()
def instance_values_are_text(visit: Visit) -> Iterator[Look]:
    compute = _compute(_whole(visit))
    others = [key for key in _KEYS if key in compute and key != "tagsList" and not isinstance(compute[key], str)]
    yield Look("texts", f"{', '.join(others)}: no text" if others else "texts", not others)
    tags = compute.get("tagsList")
    yield Look("tagsList is a list", repr(tags), isinstance(tags, list))


@CHECKS.add()
def instance_by_path(visit: Visit) -> Iterator[Look]:
    compute = _compute(_whole(visit))
    reply = visit.server.get(f"{INSTANCE}/Compute/TAGSLIST", _VERSION)
    yield reply.has_status(200, "compute/tagsList in another case")
    yield Look(str(compute.get("tagsList")), str(reply.json), reply.json == compute.get("tagsList"))


@CHECKS.add()
def instance_as_text(visit: Visit) -> Iterator[Look]:
    name = str(_compute(_whole(visit)).get("name"))
    reply = visit.server.get(f"{INSTANCE}/compute/name?format=text", _VERSION)
    yield Look(name, reply.body.decode(errors="replace"), reply.body.decode(errors="replace") == name)
    parts = visit.server.get(f"{INSTANCE}?format=text", _VERSION).body.decode(errors="replace").split()
    yield Look("compute/ and network/", ", ".join(parts), parts == ["compute/", "network/"])


@CHECKS.add()
def instance_by_version(visit: Visit) -> Iterator[Look]:
    for key, (before, since) in _SINCE.items():
        yield Look(f"no {key} in {before}", key, key not in _compute(_whole(visit, before)))
        yield Look(f"{key} in {since}", key, key in _compute(_whole(visit, since)))


def _interface(visit: Visit, version: str) -> dict[str, Any]:
    network = _whole(visit, version).json.get("network")
    found = network.get("interface") if isinstance(network, dict) else None
    if not isinstance(found, list) or not found or not isinstance(found[0], dict):
        raise NotSeen("it tells of no interface")
    return found[0]


@CHECKS.add()
def instance_network(visit: Visit) -> Iterator[Look]:
    first = _interface(visit, _VERSION)
    yield Look("ipv4, ipv6 and macAddress", ", ".join(first), set(first) == {"ipv4", "ipv6", "macAddress"})
    ipv4, ipv6 = first.get("ipv4", {}), first.get("ipv6", {})
    yield Look("ipAddress and subnet", ", ".join(ipv4), {"ipAddress", "subnet"} <= set(ipv4))
    yield Look("ipAddress in ipv6", ", ".join(ipv6), "ipAddress" in ipv6)
    for address in ipv4.get("ipAddress", ()):
        words = {"privateIpAddress", "publicIpAddress"}
        yield Look("privateIpAddress and publicIpAddress", ", ".join(address), set(address) == words)
    for subnet in ipv4.get("subnet", ()):
        yield Look("address and prefix", ", ".join(subnet), {"address", "prefix"} <= set(subnet))
    mac = first.get("macAddress")
    yield Look("twelve digits, or none", repr(mac), isinstance(mac, str) and bool(_MAC.fullmatch(mac)))


@CHECKS.add()
def instance_network_first_version(visit: Visit) -> Iterator[Look]:
    first = _interface(visit, "2017-03-01")
    yield Look("ipv4, ipv6 and mac", ", ".join(first), set(first) == {"ipv4", "ipv6", "mac"})
    for address in first.get("ipv4", {}).get("ipaddress", ()):
        yield Look("ipaddress and publicip", ", ".join(address), set(address) == {"ipaddress", "publicip"})
