"""The fleet file: what it may say, and what is said of its mistakes."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forewarn.config import toml
from forewarn.core.errors import BadInput
from forewarn.core.model import (
    ApprovalRule,
    EvictionPolicy,
    GroupKind,
    GroupTerms,
    Host,
    InstanceFacts,
    Interface,
    Policy,
    Vm,
)
from forewarn.fleetfile.parser import DesiredFleet, parse_fleet, read_fleet_file
from forewarn.fleetfile.tables import GROUP_KEYS, VM_KEYS


def desired(text: str) -> DesiredFleet:
    return parse_fleet(toml.parse(text, "fleet.toml"))


def test_a_fleet_file_says_everything_there_is_to_say() -> None:
    """Every key of every table arrives where it belongs."""
    found = desired("""
        [[host]]
        name = "h1"
        [[group]]
        name = "pool"
        kind = "scale-set"
        approval = "quorum"
        terminate_notice = "PT10M"
        eviction = "delete"
        quorum = 1
        approve_user_reboot = true
        approve_user_redeploy = true
        approve_all_down = false
        restart_after_crash = false
        postpone_limit = "30m"
        quiet_hours = ["22:00-06:00"]
        [[vm]]
        name = "pool_0"
        group = "pool"
        host = "h1"
        update_domain = 1
        fault_domain = 2
        zone = "3"
        address = "10.0.0.4"
        spot = true
        tap = "tap0"
        mark = 7
        mac_address = "52-54-00-12-34-AB"
        subnet = "10.0.0.0/24"
        public_ip_address = "203.0.113.4"
        ipv6_address = "2001:DB8::4"
        vm_id = "id"
        vm_size = "size"
        os_type = "Windows"
        location = "here"
        resource_group_name = "rg"
        subscription_id = "sub"
        tags = { role = "web" }
        """)

    instance = InstanceFacts("id", "size", "Windows", "here", "rg", "sub", {"role": "web"})
    interface = Interface("tap0", 7, "52:54:00:12:34:ab", "10.0.0.0/24", "203.0.113.4", "2001:db8::4")
    policy = Policy(1, True, True, False, 1_800, ("22:00-06:00",), False)
    assert found == DesiredFleet(
        {"h1": Host("h1")},
        {"pool": GroupTerms("pool", GroupKind.SCALE_SET, ApprovalRule.QUORUM, 600, EvictionPolicy.DELETE, policy)},
        {"pool_0": Vm("pool_0", "pool", "h1", 1, 2, "3", "10.0.0.4", True, instance, interface)},
    )


def test_vms_on_wires_of_their_own_may_share_an_address() -> None:
    """A tap, or a mark, is enough to tell who is who."""
    found = desired("""
        [[vm]]
        name = "blue"
        address = "10.0.0.4"
        tap = "tap0"
        [[vm]]
        name = "green"
        address = "10.0.0.4"
        mark = 7
        """)

    assert {vm.address for vm in found.vms.values()} == {"10.0.0.4"}


def test_a_vm_without_a_group_stands_alone() -> None:
    """Its group goes without saying, and bears its name."""
    found = desired('[[vm]]\nname = "db"\n')

    assert found.groups == {"db": GroupTerms("db", GroupKind.STANDALONE)}
    assert found.vms["db"] == Vm("db", "db")


def test_a_standalone_group_may_be_written_down() -> None:
    """With terms of its own."""
    found = desired('[[group]]\nname = "db"\nkind = "standalone"\napproval = "all"\n[[vm]]\nname = "db"\n')

    assert found.groups["db"].approval is ApprovalRule.ALL


def test_an_address_has_one_spelling() -> None:
    """The one in which a socket names its peer."""
    found = desired('[[vm]]\nname = "a"\naddress = "FE80:0::1"\n[[vm]]\nname = "b"\naddress = "::ffff:10.0.0.4"\n')

    assert [vm.address for vm in found.vms.values()] == ["fe80::1", "10.0.0.4"]


VM = '[[vm]]\nname = "web-0"\n'
SET = '[[group]]\nname = "web"\nkind = "availability-set"\n'

ALONE = '[[group]]\nname = "g"\nkind = "standalone"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("vms = 1", "fleet.toml, line 1: there is no table 'vms'; did you mean 'vm'?"),
        ("colour = 1", "there is no table 'colour'; a fleet file holds [[host]], [[group]] and [[vm]]"),
        ('[vm]\nname = "a"', "line 1: vm is a list of tables; write [[vm]], with two brackets"),
        ("vm = [1]", "line 1: vm is a list of tables; write each as [[vm]]"),
        (VM + 'adress = "10.0.0.1"', "line 3: [[vm]] 1 'web-0': there is no key 'adress'; did you mean 'address'?"),
        (VM + "x = 1", "there is no key 'x'; known are name, group, host"),
        ("[[vm]]\nspot = true", "line 1: [[vm]] 1: name is missing"),
        ("[[vm]]\nname = 3", "line 2: [[vm]] 1: name is 3, expected a name of up to 80 letters"),
        ('[[vm]]\nname = "a b"', "name is 'a b', expected a name"),
        (VM + "zone = 1", "line 3: [[vm]] 1 'web-0': zone is 1, expected a text in quotes"),
        (VM + 'update_domain = "1"', "update_domain is '1', expected a whole number from 0 to 9999"),
        (VM + "fault_domain = -1", "fault_domain is -1, expected a whole number from 0 to 9999"),
        (VM + "update_domain = 10000", "update_domain is 10000, expected a whole number from 0 to 9999"),
        (VM + "update_domain = true", "update_domain is True, expected a whole number"),
        (VM + "spot = 1", "spot is 1, expected true or false"),
        (VM + 'address = "10.0.0.300"', "address is '10.0.0.300', expected an IPv4 or IPv6 address"),
        (VM + 'address = "0.0.0.0"', "expected an IPv4 or IPv6 address"),
        (VM + 'tags = "a:b"', "tags is 'a:b', expected a table of texts"),
        (VM + VM, "line 4: [[vm]] 2 'web-0': [[vm]] 1 has that name already; names are unique"),
        (SET + VM + 'group = "wep"', "line 6: [[vm]] 1 'web-0': there is no group 'wep'; did you mean 'web'?"),
        (VM + 'group = "web"', "there is no group 'web'; declare it as [[group]]"),
        (VM + 'host = "h1"', "line 3: [[vm]] 1 'web-0': there is no host 'h1'; declare it as [[host]]"),
        (
            SET + VM + 'group = "web"\n[[vm]]\nname = "WEB-0"\ngroup = "web"',
            "line 8: [[vm]] 2 'WEB-0': 'web-0' of the same group differs only in upper and lower case",
        ),
        (
            SET + VM + 'group = "web"\n[[vm]]\nname = "_Web-0"\ngroup = "web"',
            "line 8: [[vm]] 2 '_Web-0': 'web-0' of the same group differs only in a leading underscore or in case",
        ),
        (
            '[[vm]]\nname = "a"\naddress = "10.0.0.1"\n[[vm]]\nname = "b"\naddress = "10.0.0.1"',
            "line 6: [[vm]] 2 'b': address 10.0.0.1 already belongs to 'a'",
        ),
        (
            '[[vm]]\nname = "a"\ntap = "tap0"\n[[vm]]\nname = "b"\ntap = "tap0"',
            "line 6: [[vm]] 2 'b': tap tap0 already belongs to 'a'; taps and marks are unique",
        ),
        (
            '[[vm]]\nname = "a"\nmark = 1\n[[vm]]\nname = "b"\nmark = 1',
            "line 6: [[vm]] 2 'b': mark 1 already belongs to 'a'",
        ),
        (VM + 'tap = "a name of 16 ch"', "tap is 'a name of 16 ch', expected the name of a device"),
        (VM + "mark = 0", "mark is 0, expected a whole number from 1 to 4294967295"),
        (VM + 'mac_address = "52:54"', "mac_address is '52:54', expected a MAC address"),
        (VM + 'subnet = "10.0.0.1/24"', "subnet is '10.0.0.1/24', expected a subnet such as"),
        (VM + 'subnet = "10.0.0.0"', "subnet is '10.0.0.0', expected a subnet such as"),
        (VM + 'public_ip_address = "::1"', "public_ip_address is '::1', expected an IPv4 address"),
        (VM + 'ipv6_address = "10.0.0.1"', "ipv6_address is '10.0.0.1', expected an IPv6 address"),
        (ALONE, "line 3: [[group]] 1 'g': it is standalone and has no VM"),
        (
            ALONE + '[[vm]]\nname = "a"\ngroup = "g"\n[[vm]]\nname = "b"\ngroup = "g"',
            "line 9: [[vm]] 2 'b': group 'g' is standalone and has 'a' already",
        ),
        ('[[group]]\nname = "g"', "line 1: [[group]] 1 'g': kind is missing"),
        (
            '[[group]]\nname = "g"\nkind = "scaleset"',
            "expected one of standalone, availability-set, scale-set, cloud-service; did you mean 'scale-set'?",
        ),
        (SET + 'approval = "some"', "approval is 'some', expected one of any, all, quorum"),
        (SET + 'terminate_notice = "PT5M"', "line 4: [[group]] 1 'web': terminate_notice is for scale-set groups"),
        (SET + "quorum = 2", "line 4: [[group]] 1 'web': approval = quorum and quorum = N (1 or more) go together"),
        (SET + 'approval = "quorum"\nquorum = 2', "line 5: [[group]] 1 'web': a quorum of 2 is more than its 0 VMs"),
        (
            SET + 'quiet_hours = "22:00-06:00"',
            "line 4: [[group]] 1 'web': quiet_hours is '22:00-06:00', expected a list",
        ),
        (SET + 'quiet_hours = ["all day"]', "[[group]] 1 'web': "),
        (SET + "postpone_limit = 5", "postpone_limit is 5, expected a duration in whole seconds"),
        (
            '[[group]]\nname = "g"\nkind = "scale-set"\nterminate_notice = "PT4M"',
            "line 4: [[group]] 1 'g': terminate_notice is 'PT4M', expected a duration from PT5M to PT15M",
        ),
    ],
)
def test_a_mistake_names_line_table_key_and_remedy(text: str, said: str) -> None:
    """One sentence, with which the mistake is found and mended."""
    with pytest.raises(BadInput) as refused:
        desired(text)

    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_is_read_from_disk(tmp_path: Path) -> None:
    """The path is what mistakes are named by."""
    path = tmp_path / "fleet.toml"
    path.write_text('[[vm]]\nname = ""\n', encoding="utf-8")

    with pytest.raises(BadInput, match=f"{path}, line 2"):
        read_fleet_file(path)


NAMES = st.sampled_from(["web-0", "web-1", "web", "h1", "", "a b", "WEB-0"])
TEXTS = st.sampled_from(["web", "standalone", "scale-set", "any", "PT5M", "10.0.0.1", "::1", "", "delete", "x\n"])
VALUES = st.one_of(NAMES, TEXTS, st.integers(-1, 2), st.booleans(), st.just([]), st.just({"a": "b"}), st.just(1.5))
KEYS = st.sampled_from([*VM_KEYS, *GROUP_KEYS, "typo", "deallocated"])
TABLES = st.dictionaries(KEYS, VALUES, max_size=5).flatmap(
    lambda table: st.builds(lambda name: {"name": name, **table}, NAMES)
)
FILES = st.dictionaries(
    st.sampled_from(["vm", "host", "group", "vms"]),
    st.one_of(st.lists(TABLES, max_size=3), TABLES, VALUES),
    max_size=3,
)


def shown(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{shown(key)} = {shown(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(shown(each) for each in value) + "]"
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + value.replace("\n", "\\n") + '"'
        case _:
            return repr(value)


@given(FILES)
@example({"vm": [{"name": "web-0", "group": "web-1"}]})
def test_any_toml_is_a_wish_or_one_clear_error(file: dict[str, Any]) -> None:
    """Nothing else comes out of a fleet file, whatever is in it."""
    text = "\n".join(f"{key} = {shown(value)}" for key, value in file.items())
    assert tomllib.loads(text) == file
    said = "fleet.toml"

    try:
        found = desired(text)
    except BadInput as error:
        said = str(error)
    else:
        assert all(vm.group in found.groups and (not vm.host or vm.host in found.hosts) for vm in found.vms.values())

    assert said.startswith("fleet.toml")
    assert "\n" not in said


@given(st.text(max_size=80))
def test_any_text_is_a_wish_or_one_clear_error(text: str) -> None:
    """Nor does what is no TOML at all."""
    said = "fleet.toml"
    try:
        desired(text)
    except BadInput as error:
        said = str(error)

    assert said.startswith("fleet.toml")
    assert "\n" not in said
