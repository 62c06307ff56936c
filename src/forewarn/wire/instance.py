"""The document of ``/metadata/instance``: what a VM reads about itself, whole or by path, as JSON or text."""

from collections.abc import Callable
from typing import TypeAlias
from uuid import UUID, uuid5

import msgspec

from forewarn.core.model import Group, GroupKind, Vm
from forewarn.wire.bodies import JSON, TEXT
from forewarn.wire.error_responses import FORMAT_UNKNOWN, LEAF_AS_JSON, NOT_FOUND, ErrorResponse

JsonNode: TypeAlias = "str | list[JsonNode] | dict[str, JsonNode]"

_VM_IDS = UUID("6f1f7f3e-5d0e-4c55-9d0b-0b6c6a6f9a5e")
"""The namespace of the ids of VMs that were declared without one."""


class _ComputeField(msgspec.Struct, frozen=True):
    name: str
    since: str
    """The first api-version that has it; empty where all have."""
    of: Callable[[Vm, Group], JsonNode]


# Azure: keys in the order of the alphabet, and every value is text, numbers too.
_COMPUTE = (
    _ComputeField("location", "", lambda vm, _: vm.instance.location),
    _ComputeField("name", "", lambda vm, _: vm.name),
    _ComputeField("osType", "", lambda vm, _: vm.instance.os_type),
    _ComputeField("platformFaultDomain", "", lambda vm, _: str(vm.fault_domain)),
    _ComputeField("platformUpdateDomain", "", lambda vm, _: str(vm.update_domain)),
    _ComputeField("resourceGroupName", "2017-08-01", lambda vm, _: vm.instance.resource_group_name),
    _ComputeField("subscriptionId", "2017-08-01", lambda vm, _: vm.instance.subscription_id),
    _ComputeField(
        "tags", "2017-08-01", lambda vm, _: ";".join(f"{key}:{value}" for key, value in vm.instance.tags.items())
    ),
    _ComputeField(
        "tagsList",
        "2019-06-04",
        lambda vm, _: [{"name": key, "value": value} for key, value in vm.instance.tags.items()],
    ),
    _ComputeField("vmId", "", lambda vm, _: vm.instance.vm_id or str(uuid5(_VM_IDS, vm.name))),
    _ComputeField(
        "vmScaleSetName", "2017-12-01", lambda _, group: group.name if group.terms.kind is GroupKind.SCALE_SET else ""
    ),
    _ComputeField("vmSize", "", lambda vm, _: vm.instance.vm_size),
    _ComputeField("zone", "2017-12-01", lambda vm, _: vm.zone),
)


def instance_document(vm: Vm, group: Group, version: str) -> dict[str, JsonNode]:
    compute = {field.name: field.of(vm, group) for field in _COMPUTE if field.since <= version}
    return {"compute": compute, "network": {"interface": interfaces_of(vm, version)}}


class InstanceContent(msgspec.Struct, frozen=True):
    """A part of the document, ready to be sent."""

    body: bytes
    type: str


def read_instance(document: JsonNode, path: str = "", format: str = "json") -> InstanceContent | ErrorResponse:
    """Render the part of the document at ``path``, which is what follows ``/metadata/instance``.

    JSON is for everything but single values; text is the value itself, or the names of what is below.
    """
    node = document
    for segment in path.strip("/").lower().split("/") if path.strip("/") else ():
        children = {name.lower(): child for name, child in _children(node).items()}
        if segment not in children:
            return NOT_FOUND
        node = children[segment]
    match format.lower(), node:
        case "json", str():
            # Azure: a single value has no JSON form, and JSON is also what leaving the format out asks for.
            return LEAF_AS_JSON
        case "json", _:
            return InstanceContent(msgspec.json.encode(node), JSON)
        case "text", str(value):
            return InstanceContent(value.encode(), TEXT)
        case "text", _:
            return InstanceContent("\n".join(_listing(node)).encode(), TEXT)
        case _:
            return FORMAT_UNKNOWN


def _children(node: JsonNode) -> dict[str, JsonNode]:
    match node:
        case dict():
            return node
        case list():
            return {str(index): child for index, child in enumerate(node)}
        case _:
            return {}


def _listing(node: JsonNode) -> list[str]:
    return [name if isinstance(child, str) else f"{name}/" for name, child in _children(node).items()]


class _InterfaceKeys(msgspec.Struct, frozen=True):
    addresses: str
    private: str
    public: str
    mac: str


_FIRST_VERSION = "2017-03-01"
_EARLY = _InterfaceKeys("ipaddress", "ipaddress", "publicip", "mac")
"""What the first api-version called them, and no other."""
_WORDS = _InterfaceKeys("ipAddress", "privateIpAddress", "publicIpAddress", "macAddress")


def interfaces_of(vm: Vm, version: str) -> list[JsonNode]:
    """Return the VM's interface, if anything is known of it."""
    interface = vm.interface
    addresses = [address for address in (vm.address, interface.ipv6_address) if address]
    if not (addresses or interface.mac_address or interface.public_ip_address):
        return []
    words = _EARLY if version == _FIRST_VERSION else _WORDS
    private = [address for address in addresses if ":" not in address]
    ipv4: list[JsonNode] = [
        {words.private: address, words.public: interface.public_ip_address}
        for address in private or [""] * bool(interface.public_ip_address)
    ]
    ipv6: list[JsonNode] = [{words.private: address} for address in addresses if ":" in address]
    return [
        {
            "ipv4": {words.addresses: ipv4, "subnet": _subnets(interface.subnet, version)},
            "ipv6": {words.addresses: ipv6},
            # Azure: twelve digits, without anything between them
            words.mac: interface.mac_address.replace(":", "").upper(),
        }
    ]


def _subnets(subnet: str, version: str) -> list[JsonNode]:
    if not subnet:
        return []
    address, _, prefix = subnet.partition("/")
    if version == _FIRST_VERSION:
        return [{"address": address, "dnsservers": [], "prefix": prefix}]
    return [{"address": address, "prefix": prefix}]
