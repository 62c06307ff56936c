"""Conformance checks of the instance metadata."""

import re
from collections.abc import Iterator
from typing import Any

from forewarn.conformance.checks import CheckResult, NotObserved
from forewarn.conformance.inspection_context import CHECKS, Inspection
from forewarn.conformance.server import INSTANCE, ServerReply

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


def _whole(inspection: Inspection, version: str = _VERSION) -> ServerReply:
    reply = inspection.server.get(INSTANCE, version)
    if reply.status == 404:
        raise NotObserved(f"it has no {INSTANCE}")
    return reply


def _compute(reply: ServerReply) -> dict[str, object]:
    document = reply.json
    compute = document.get("compute") if isinstance(document, dict) else None
    return compute if isinstance(compute, dict) else {}


@CHECKS.add()
def instance_whole(inspection: Inspection) -> Iterator[CheckResult]:
    reply = inspection.server.get(INSTANCE, _VERSION)
    yield reply.has_status(200, INSTANCE)
    missing = [key for key in _KEYS if key not in _compute(reply)]
    yield CheckResult("every key in compute", f"without {', '.join(missing)}" if missing else "all", not missing)
    yield CheckResult("network", ", ".join(reply.json), "network" in reply.json)


@CHECKS.add()
def instance_values_are_text(inspection: Inspection) -> Iterator[CheckResult]:
    compute = _compute(_whole(inspection))
    others = [key for key in _KEYS if key in compute and key != "tagsList" and not isinstance(compute[key], str)]
    yield CheckResult("texts", f"{', '.join(others)}: no text" if others else "texts", not others)
    tags = compute.get("tagsList")
    yield CheckResult("tagsList is a list", repr(tags), isinstance(tags, list))


@CHECKS.add()
def instance_by_path(inspection: Inspection) -> Iterator[CheckResult]:
    compute = _compute(_whole(inspection))
    reply = inspection.server.get(f"{INSTANCE}/Compute/TAGSLIST", _VERSION)
    yield reply.has_status(200, "compute/tagsList in another case")
    yield CheckResult(str(compute.get("tagsList")), str(reply.json), reply.json == compute.get("tagsList"))


@CHECKS.add()
def instance_as_text(inspection: Inspection) -> Iterator[CheckResult]:
    name = str(_compute(_whole(inspection)).get("name"))
    reply = inspection.server.get(f"{INSTANCE}/compute/name?format=text", _VERSION)
    yield CheckResult(name, reply.body.decode(errors="replace"), reply.body.decode(errors="replace") == name)
    parts = inspection.server.get(f"{INSTANCE}?format=text", _VERSION).body.decode(errors="replace").split()
    yield CheckResult("compute/ and network/", ", ".join(parts), parts == ["compute/", "network/"])


@CHECKS.add()
def instance_by_version(inspection: Inspection) -> Iterator[CheckResult]:
    for key, (before, since) in _SINCE.items():
        yield CheckResult(f"no {key} in {before}", key, key not in _compute(_whole(inspection, before)))
        yield CheckResult(f"{key} in {since}", key, key in _compute(_whole(inspection, since)))


def _interface(inspection: Inspection, version: str) -> dict[str, Any]:
    network = _whole(inspection, version).json.get("network")
    found = network.get("interface") if isinstance(network, dict) else None
    if not isinstance(found, list) or not found or not isinstance(found[0], dict):
        raise NotObserved("it tells of no interface")
    return found[0]


@CHECKS.add()
def instance_network(inspection: Inspection) -> Iterator[CheckResult]:
    first = _interface(inspection, _VERSION)
    yield CheckResult("ipv4, ipv6 and macAddress", ", ".join(first), set(first) == {"ipv4", "ipv6", "macAddress"})
    ipv4, ipv6 = first.get("ipv4", {}), first.get("ipv6", {})
    yield CheckResult("ipAddress and subnet", ", ".join(ipv4), {"ipAddress", "subnet"} <= set(ipv4))
    yield CheckResult("ipAddress in ipv6", ", ".join(ipv6), "ipAddress" in ipv6)
    for address in ipv4.get("ipAddress", ()):
        words = {"privateIpAddress", "publicIpAddress"}
        yield CheckResult("privateIpAddress and publicIpAddress", ", ".join(address), set(address) == words)
    for subnet in ipv4.get("subnet", ()):
        yield CheckResult("address and prefix", ", ".join(subnet), {"address", "prefix"} <= set(subnet))
    mac = first.get("macAddress")
    yield CheckResult("twelve digits, or none", repr(mac), isinstance(mac, str) and bool(_MAC.fullmatch(mac)))


@CHECKS.add()
def instance_network_first_version(inspection: Inspection) -> Iterator[CheckResult]:
    first = _interface(inspection, "2017-03-01")
    yield CheckResult("ipv4, ipv6 and mac", ", ".join(first), set(first) == {"ipv4", "ipv6", "mac"})
    for address in first.get("ipv4", {}).get("ipaddress", ()):
        yield CheckResult("ipaddress and publicip", ", ".join(address), set(address) == {"ipaddress", "publicip"})
