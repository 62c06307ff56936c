"""What a VM can read about itself."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.core.model import Group, GroupKind, GroupTerms, InstanceFacts, Interface, Vm
from forewarn.wire import error_responses
from forewarn.wire.bodies import JSON, TEXT
from forewarn.wire.instance import InstanceContent, JsonNode, instance_document, interfaces_of, read_instance
from forewarn.wire.versions import INSTANCE

VM = Vm(
    name="set_3",
    group="set",
    update_domain=2,
    fault_domain=1,
    zone="3",
    instance=InstanceFacts(
        vm_id="02aab8a4-74ef-476e-8182-f6d2ba4166a6",
        vm_size="Standard_B1s",
        location="west",
        resource_group_name="shop",
        subscription_id="301375df-789c-46b5-a567-29da356bd735",
        tags={"env": "prod", "owner": "sre:web"},
    ),
)
GROUP = Group(GroupTerms("set", GroupKind.SCALE_SET))
LATER = [version for version in INSTANCE.names if version != "2017-03-01"]
NEWEST = INSTANCE.newest[0]
WHOLE: dict[str, JsonNode] = {
    "compute": {
        "location": "west",
        "name": "set_3",
        "osType": "Linux",
        "platformFaultDomain": "1",
        "platformUpdateDomain": "2",
        "resourceGroupName": "shop",
        "subscriptionId": "301375df-789c-46b5-a567-29da356bd735",
        "tags": "env:prod;owner:sre:web",
        "tagsList": [{"name": "env", "value": "prod"}, {"name": "owner", "value": "sre:web"}],
        "vmId": "02aab8a4-74ef-476e-8182-f6d2ba4166a6",
        "vmScaleSetName": "set",
        "vmSize": "Standard_B1s",
        "zone": "3",
    },
    "network": {"interface": []},
}


def compute(vm: Vm, group: Group = GROUP, version: str = NEWEST) -> dict[str, JsonNode]:
    part = instance_document(vm, group, version)["compute"]
    assert isinstance(part, dict)
    return part


def text(path: str) -> str:
    content = read_instance(WHOLE, path, "text")
    assert isinstance(content, InstanceContent)
    assert content.type == TEXT
    return content.body.decode()


def test_the_newest_version_shows_everything() -> None:
    """Every value is text, and keys are in alphabetical order, as on Azure."""
    document = instance_document(VM, GROUP, NEWEST)
    assert document == WHOLE
    assert list(compute(VM)) == sorted(compute(VM), key=str.lower)


@pytest.mark.parametrize(
    ("since", "names"),
    [
        ("2017-08-01", {"resourceGroupName", "subscriptionId", "tags"}),
        ("2017-12-01", {"vmScaleSetName", "zone"}),
        ("2019-06-04", {"tagsList"}),
    ],
)
def test_a_field_is_there_from_its_first_version_on(since: str, names: set[str]) -> None:
    """And not before."""
    for version in INSTANCE.names:
        assert (names <= set(compute(VM, version=version))) is (version >= since)
        assert (not names & set(compute(VM, version=version))) is (version < since)


def test_the_other_fields_are_in_every_version() -> None:
    """The name above all: it is how a VM finds itself among Resources."""
    always = {"location", "name", "osType", "platformFaultDomain", "platformUpdateDomain", "vmId", "vmSize"}
    assert all(always <= set(compute(VM, version=version)) for version in INSTANCE.names)


@pytest.mark.parametrize("kind", [kind for kind in GroupKind if kind is not GroupKind.SCALE_SET])
def test_only_a_scale_set_gives_its_name(kind: GroupKind) -> None:
    """For others the key is there and empty."""
    assert compute(VM, Group(GroupTerms("set", kind)))["vmScaleSetName"] == ""


def test_a_vm_without_an_id_has_one_from_its_name() -> None:
    """The same after every restart, and another for every VM."""
    ids = [compute(Vm(name=name, group="set"))["vmId"] for name in ("web-0", "web-0", "web-1")]
    assert ids[0] == ids[1] != ids[2]
    assert ids[0] == "cb0ec043-c274-5509-b60c-2625c161fa0d"


def test_the_whole_document_is_json() -> None:
    """Compact, and also when a slash ends the path."""
    expected = InstanceContent(msgspec.json.encode(WHOLE), JSON)
    assert read_instance(WHOLE) == read_instance(WHOLE, "/") == read_instance(WHOLE, "", "JSON") == expected


@pytest.mark.parametrize("path", ["compute", "/compute", "/Compute/", "COMPUTE"])
def test_a_part_is_found_by_its_path_in_any_case(path: str) -> None:
    """With or without slashes around it."""
    assert read_instance(WHOLE, path) == InstanceContent(msgspec.json.encode(WHOLE["compute"]), JSON)


def test_a_member_of_a_list_is_found_by_its_number() -> None:
    """As in ``tagsList/1``."""
    assert read_instance(WHOLE, "compute/tagsList/1") == InstanceContent(b'{"name":"owner","value":"sre:web"}', JSON)
    assert text("compute/tagslist/1/VALUE") == "sre:web"


def test_a_value_is_given_as_text() -> None:
    """As it is, without quotes and without a line's end."""
    assert text("compute/name") == "set_3"
    assert text("compute/platformUpdateDomain") == "2"


def test_a_part_as_text_is_the_list_of_its_names() -> None:
    """One a line; what has more below it ends in a slash."""
    assert text("") == "compute/\nnetwork/"
    assert text("compute").splitlines()[:2] == ["location", "name"]
    assert "tagsList/" in text("compute").splitlines()
    assert text("compute/tagsList") == "0/\n1/"
    assert text("network/interface") == ""


def test_a_value_has_no_json_form() -> None:
    """Azure answers 400, also when the format is left out."""
    assert read_instance(WHOLE, "compute/name") is error_responses.LEAF_AS_JSON
    assert read_instance(WHOLE, "compute/name", "json") is error_responses.LEAF_AS_JSON


def test_another_format_is_refused() -> None:
    """There are two."""
    assert read_instance(WHOLE, "compute", "xml") is error_responses.FORMAT_UNKNOWN


@pytest.mark.parametrize(
    "path",
    [
        "storage",
        "compute/shoeSize",
        "compute/name/first",
        "compute//name",
        "network/interface/0",
        "compute/tagsList/2",
        "compute/tagsList/-1",
        "compute/tagsList/01",
        pytest.param("compute/tagsList/" + "9" * 5000, id="compute/tagsList/999..."),
    ],
)
def test_what_is_not_there_is_not_found(path: str) -> None:
    """Whatever the format."""
    assert read_instance(WHOLE, path) is error_responses.NOT_FOUND
    assert read_instance(WHOLE, path, "text") is error_responses.NOT_FOUND


@given(st.text(), st.text())
def test_every_path_and_format_has_an_answer(path: str, format: str) -> None:
    """Content or a refusal, never an exception."""
    assert isinstance(read_instance(WHOLE, path, format), InstanceContent | error_responses.ErrorResponse)


def test_who_has_no_address_has_no_interface() -> None:
    """A tap and a mark are the host's business."""
    vm = Vm("db", "db", interface=Interface(tap="tap0", mark=7))

    assert interfaces_of(vm, LATER[0]) == []


@pytest.mark.parametrize("version", LATER)
def test_what_is_not_declared_is_empty_and_not_absent(version: str) -> None:
    """Clients look values up without asking whether they are there."""
    shown: list[JsonNode] = [
        {
            "ipv4": {"ipAddress": [{"privateIpAddress": "10.0.0.4", "publicIpAddress": ""}], "subnet": []},
            "ipv6": {"ipAddress": []},
            "macAddress": "",
        }
    ]

    assert interfaces_of(Vm("db", "db", address="10.0.0.4"), version) == shown


def test_an_address_stands_in_the_part_of_its_kind() -> None:
    """Also where the VM asks from an IPv6 address."""
    (shown,) = interfaces_of(Vm("db", "db", address="2001:db8::4"), LATER[0])

    assert isinstance(shown, dict)
    assert shown["ipv4"] == {"ipAddress": [], "subnet": []}
    assert shown["ipv6"] == {"ipAddress": [{"privateIpAddress": "2001:db8::4"}]}


def test_a_public_address_alone_is_shown_too() -> None:
    """Beside a private one that nobody declared."""
    (shown,) = interfaces_of(Vm("db", "db", interface=Interface(public_ip_address="203.0.113.4")), LATER[0])

    assert isinstance(shown, dict)
    assert shown["ipv4"] == {"ipAddress": [{"privateIpAddress": "", "publicIpAddress": "203.0.113.4"}], "subnet": []}


@pytest.mark.parametrize(
    ("version", "subnet"),
    [
        ("2017-03-01", {"address": "10.0.0.0", "dnsservers": [], "prefix": "24"}),
        (LATER[0], {"address": "10.0.0.0", "prefix": "24"}),
    ],
)
def test_only_the_first_version_shows_the_name_servers_of_a_subnet(version: str, subnet: JsonNode) -> None:
    """They are not declared, so there are none."""
    (shown,) = interfaces_of(Vm("db", "db", address="10.0.0.4", interface=Interface(subnet="10.0.0.0/24")), version)

    assert isinstance(shown, dict)
    assert isinstance(shown["ipv4"], dict)
    assert shown["ipv4"]["subnet"] == [subnet]


def test_an_address_of_each_kind_is_shown() -> None:
    """And a MAC address without any."""
    (both,) = interfaces_of(
        Vm("db", "db", address="10.0.0.4", interface=Interface(ipv6_address="2001:db8::4")), LATER[0]
    )
    (mac,) = interfaces_of(Vm("db", "db", interface=Interface(mac_address="52:54:00:12:34:56")), LATER[0])

    assert isinstance(both, dict)
    assert isinstance(mac, dict)
    assert both["ipv6"] == {"ipAddress": [{"privateIpAddress": "2001:db8::4"}]}
    assert mac["macAddress"] == "525400123456"
