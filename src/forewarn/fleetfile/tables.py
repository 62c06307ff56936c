"""Keys and value types of the tables in a fleet file."""

from collections.abc import Callable, Mapping
from ipaddress import IPv4Network, ip_address
from typing import NoReturn

import msgspec
from msgspec.structs import replace

from forewarn.config.durations import read_duration
from forewarn.core.addresses import IPV4, LONGEST_DEVICE, MAC, MARKS, TAP
from forewarn.core.errors import Refused, nearest
from forewarn.core.label_selectors import check_labels
from forewarn.core.model import (
    NO_LABELS,
    ApprovalRule,
    EvictionPolicy,
    GroupKind,
    GroupTerms,
    Host,
    InstanceFacts,
    Interface,
    Vm,
)
from forewarn.core.terms import (
    DOMAINS,
    LONGEST_NAME,
    NAME,
    TERMINATE_NOTICE,
    TERMINATE_NOTICES,
    check_terms,
)

_LONGEST_TEXT = 512
_SUBNET = 'a subnet such as "10.0.0.0/24", with no bits set behind the prefix'


class InvalidTable(Exception):
    """A table is invalid; ``key`` locates the error."""

    def __init__(self, key: str, said: str) -> None:
        super().__init__(said)
        self.key = key


def name(given: object) -> str:
    """Return a valid name; checked here too, because this error can name the line."""
    if not isinstance(given, str) or not NAME.fullmatch(given):
        _expect(given, f"a name of up to {LONGEST_NAME} letters, digits, '.', '_' and '-', no '.' or '-' first")
    return given


def text(given: object) -> str:
    if not isinstance(given, str) or len(given) > _LONGEST_TEXT or not given.isprintable():
        _expect(given, 'a text in quotes such as "1", on one line')
    return given


def domain(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given not in DOMAINS:
        _expect(given, f"a whole number from 0 to {DOMAINS[-1]}")
    return given


def boolean(given: object) -> bool:
    if not isinstance(given, bool):
        _expect(given, "true or false")
    return given


def address(given: object) -> str:
    """Return an address as a socket names its peer, so that one machine has one spelling."""
    if isinstance(given, str) and IPV4.fullmatch(given):
        found = given
    else:
        try:
            parsed = ip_address(given) if isinstance(given, str) and "%" not in given else ""
        except ValueError:
            parsed = ""
        found = str(getattr(parsed, "ipv4_mapped", None) or parsed)
    if not found or found in ("0.0.0.0", "::"):  # noqa: S104 - refused here
        _expect(given, "an IPv4 or IPv6 address such as 10.0.0.4")
    return found


def tap(given: object) -> str:
    if not isinstance(given, str) or not TAP.fullmatch(given):
        _expect(given, f'the name of a device such as "tap-web-0", of up to {LONGEST_DEVICE} characters')
    return given


def mark(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given not in MARKS[1:]:
        _expect(given, f"a whole number from 1 to {MARKS[-1]}")
    return given


def mac_address(given: object) -> str:
    """Return the address in the spelling that packet filters print."""
    plain = given.lower().replace("-", ":") if isinstance(given, str) else ""
    if not MAC.fullmatch(plain):
        _expect(given, 'a MAC address such as "52:54:00:12:34:56"')
    return plain


def subnet(given: object) -> str:
    try:
        return str(IPv4Network(given)) if isinstance(given, str) and "/" in given else _expect(given, _SUBNET)
    except ValueError:
        _expect(given, _SUBNET)


def public_ip_address(given: object) -> str:
    found = address(given)
    if ":" in found:
        _expect(given, 'an IPv4 address such as "203.0.113.4"')
    return found


def ipv6_address(given: object) -> str:
    found = address(given)
    if ":" not in found:
        _expect(given, 'an IPv6 address such as "2001:db8::4"')
    return found


def tags(given: object) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        _expect(given, 'a table of texts such as { role = "web" }')
    return {text(key): text(value) for key, value in given.items()}


def labels(given: object) -> dict[str, str]:
    """Return labels in the order of their keys, so that their order in a file does not count as a change."""
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        _expect(given, 'a table of texts such as { rack = "r1" }')
    if not given:
        return NO_LABELS
    try:
        check_labels("the table", given)
    except Refused as refused:
        raise ValueError(f"is wrong: {refused}") from None
    return dict(sorted(given.items()))


def terminate_notice(given: object) -> int:
    """Return seconds; Azure: five to fifteen minutes."""
    try:
        seconds = read_duration(given).total_seconds() if isinstance(given, str) else -1
    except ValueError:
        seconds = -1
    if seconds not in TERMINATE_NOTICE:
        _expect(given, f"a duration from {' to '.join(TERMINATE_NOTICES)}, in whole seconds")
    return int(seconds)


def quorum(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        _expect(given, "a whole number, 1 or more")
    return given


def postpone_limit(given: object) -> int:
    """Return seconds; the maximum is checked with the group's terms."""
    try:
        seconds = read_duration(given).total_seconds() if isinstance(given, str) else -1
    except ValueError:
        seconds = -1
    if seconds < 0 or seconds != int(seconds):
        _expect(given, 'a duration in whole seconds such as "30m"')
    return int(seconds)


def quiet_hours(given: object) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
        _expect(given, 'a list of texts such as ["22:00-06:00"]')
    return tuple(given)


def kind(given: object) -> GroupKind:
    return GroupKind(_one_of(given, GroupKind))


def approval(given: object) -> ApprovalRule:
    return ApprovalRule(_one_of(given, ApprovalRule))


def eviction(given: object) -> EvictionPolicy:
    return EvictionPolicy(_one_of(given, EvictionPolicy))


def _one_of(given: object, words: type[GroupKind] | type[ApprovalRule] | type[EvictionPolicy]) -> str:
    if given not in list(words):
        _expect(given, f"one of {', '.join(words)}", nearest(str(given), [str(word) for word in words]))
    return str(given)


def _expect(given: object, expected: str, remedy: str = "") -> NoReturn:
    shown = repr(given)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    raise ValueError(f"is {shown}, expected {expected}{remedy}")


Reader = Callable[[object], object]

HOST_KEYS: dict[str, Reader] = {"name": name, "labels": labels}
_TERM_KEYS: dict[str, Reader] = {
    "name": name,
    "kind": kind,
    "approval": approval,
    "terminate_notice": terminate_notice,
    "eviction": eviction,
}
POLICY_KEYS: dict[str, Reader] = {
    "quorum": quorum,
    "approve_user_reboot": boolean,
    "approve_user_redeploy": boolean,
    "approve_all_down": boolean,
    "restart_after_crash": boolean,
    "postpone_limit": postpone_limit,
    "quiet_hours": quiet_hours,
}
GROUP_KEYS = _TERM_KEYS | POLICY_KEYS
_PLACE_KEYS: dict[str, Reader] = {
    "name": name,
    "group": name,
    "host": name,
    "update_domain": domain,
    "fault_domain": domain,
    "zone": text,
    "address": address,
    "spot": boolean,
    "labels": labels,
}
INSTANCE_KEYS: dict[str, Reader] = {
    "vm_id": text,
    "vm_size": text,
    "os_type": text,
    "location": text,
    "resource_group_name": text,
    "subscription_id": text,
    "tags": tags,
}
INTERFACE_KEYS: dict[str, Reader] = {
    "tap": tap,
    "mark": mark,
    "mac_address": mac_address,
    "subnet": subnet,
    "public_ip_address": public_ip_address,
    "ipv6_address": ipv6_address,
}
VM_KEYS = _PLACE_KEYS | INTERFACE_KEYS | INSTANCE_KEYS


def read_host(table: Mapping[str, object]) -> Host:
    return Host(**_read(table, HOST_KEYS, ("name",)))  # type: ignore[arg-type]  # the values are checked already


def read_group(table: Mapping[str, object]) -> GroupTerms:
    read = _read(table, GROUP_KEYS, ("name", "kind"))
    terms = msgspec.convert({key: value for key, value in read.items() if key in _TERM_KEYS}, GroupTerms)
    policy = {key: value for key, value in read.items() if key in POLICY_KEYS}
    terms = replace(terms, policy=replace(terms.policy, **policy)) if policy else terms
    try:
        check_terms(terms)
    except Refused as refused:
        said = str(refused).removeprefix(f"group {terms.name!r}: ")
        raise InvalidTable(next((key for key in read if key in said), ""), said) from None
    return terms


def read_vm(table: Mapping[str, object]) -> Vm:
    """Return the VM; without a group it is standalone, in a group of its own name."""
    read = _read(table, VM_KEYS, ("name",))
    place: dict[str, object] = {}
    instance: dict[str, object] = {}
    interface: dict[str, object] = {}
    for key, value in read.items():
        (place if key in _PLACE_KEYS else interface if key in INTERFACE_KEYS else instance)[key] = value
    place.setdefault("group", place["name"])
    # The values are checked already; avoid a second conversion, because a fleet file may hold a million of them.
    if instance:
        place["instance"] = InstanceFacts(**instance)  # type: ignore[arg-type]
    if interface:
        place["interface"] = Interface(**interface)  # type: ignore[arg-type]
    return Vm(**place)  # type: ignore[arg-type]


def _read(table: Mapping[str, object], keys: Mapping[str, Reader], needed: tuple[str, ...]) -> dict[str, object]:
    read: dict[str, object] = {}
    for key, given in table.items():
        reader = keys.get(key)
        if reader is None:
            raise InvalidTable(
                key, f"there is no key {key!r}{nearest(key, keys) or '; known are ' + ', '.join(keys)}"
            )
        try:
            read[key] = reader(given)
        except ValueError as error:
            raise InvalidTable(key, f"{key} {error}") from None
    for key in needed:
        if key not in read:
            raise InvalidTable("", f"{key} is missing; every table of this kind needs it")
    return read
