"""Rows of ``docs/reference/azure.md``: what a VM knows of itself."""

from tests.conformance.harness import ServiceHarness

KEYS = [
    "location", "name", "osType", "platformFaultDomain", "platformUpdateDomain", "resourceGroupName",
    "subscriptionId", "tags", "tagsList", "vmId", "vmScaleSetName", "vmSize", "zone",
]  # fmt: skip


def compute(harness: ServiceHarness, vm: str = "web-0", version: str = "2021-02-01") -> dict[str, object]:
    """Return what a VM reads about itself."""
    found: dict[str, object] = harness.get(f"/metadata/instance/compute?api-version={version}", vm).json
    return found


def text(harness: ServiceHarness, path: str, vm: str = "web-0") -> str:
    """Return a part as text."""
    reply = harness.get(f"/metadata/instance/{path}?api-version=2021-02-01&format=text", vm)
    assert reply.header("Content-Type") == "text/plain; charset=utf-8"
    return reply.body.decode()


def test_instance_whole(harness: ServiceHarness) -> None:
    """Every key is there, in the order of the alphabet."""
    whole = harness.get("/metadata/instance?api-version=2021-02-01").json

    assert list(whole) == ["compute", "network"]
    assert whole["compute"] == compute(harness)
    assert list(compute(harness)) == KEYS
    assert compute(harness, "workers_0")["vmScaleSetName"] == "workers"


def test_instance_values_are_text(harness: ServiceHarness) -> None:
    """Domains are numbers written as text; tags are one text, and a list beside it."""
    found = compute(harness)

    assert found.pop("tagsList") == [{"name": "role", "value": "web"}, {"name": "tier", "value": "1"}]
    assert {type(value) for value in found.values()} == {str}
    assert (found["platformUpdateDomain"], found["tags"]) == ("0", "role:web;tier:1")


def test_instance_by_path(harness: ServiceHarness) -> None:
    """A path leads to a part, in any case."""
    tags = harness.get("/metadata/Instance/COMPUTE/tagslist?api-version=2021-02-01").json

    assert tags[1] == {"name": "tier", "value": "1"}


def test_instance_as_text(harness: ServiceHarness) -> None:
    """A value as it is, else a list of names."""
    assert text(harness, "compute/name") == "web-0"
    assert text(harness, "compute/zone") == "2"
    assert text(harness, "") == "compute/\nnetwork/"
    assert text(harness, "compute").split("\n") == [key + "/" * (key == "tagsList") for key in KEYS]


def test_instance_by_version(harness: ServiceHarness) -> None:
    """Older versions show fewer keys."""
    assert not {"resourceGroupName", "subscriptionId", "tags"} & compute(harness, version="2017-04-02").keys()
    assert {"resourceGroupName", "subscriptionId", "tags"} <= compute(harness, version="2017-08-01").keys()
    assert not {"zone", "vmScaleSetName"} & compute(harness, version="2017-10-01").keys()
    assert {"zone", "vmScaleSetName"} <= compute(harness, version="2017-12-01").keys()
    assert "tagsList" not in compute(harness, version="2019-06-01")
    assert "tagsList" in compute(harness, version="2019-06-04")


def test_instance_id_of_its_own(harness: ServiceHarness) -> None:
    """Whoever was given no id has one all the same, and always the same."""
    ids = {text(harness, "compute/vmId", vm) for vm in ("web-0", "web-1", "web-0")}

    assert len(ids) == 2
    assert all(len(each) == 36 for each in ids)


def test_instance_network(harness: ServiceHarness) -> None:
    """The addresses of its interface, as far as they are declared."""
    shown = harness.get("/metadata/instance/network?api-version=2021-02-01").json
    subnet = {"address": "127.0.1.0", "prefix": "24"}

    assert shown == {
        "interface": [
            {
                "ipv4": {
                    "ipAddress": [{"privateIpAddress": "127.0.1.10", "publicIpAddress": "203.0.113.10"}],
                    "subnet": [subnet],
                },
                "ipv6": {"ipAddress": [{"privateIpAddress": "2001:db8::10"}]},
                "macAddress": "52540000AB10",
            }
        ]
    }
    assert text(harness, "network/interface/0/ipv4/ipAddress/0/privateIpAddress") == "127.0.1.10"
    assert text(harness, "network/interface/0/ipv4/ipAddress/0/privateIpAddress", "web-1") == "127.0.1.11"
    assert text(harness, "network/interface/0/macAddress", "web-1") == ""


def test_instance_network_first_version(harness: ServiceHarness) -> None:
    """Its words are others, and were soon given up."""
    shown = harness.get("/metadata/instance/network/interface/0?api-version=2017-03-01").json

    assert shown == {
        "ipv4": {
            "ipaddress": [{"ipaddress": "127.0.1.10", "publicip": "203.0.113.10"}],
            "subnet": [{"address": "127.0.1.0", "dnsservers": [], "prefix": "24"}],
        },
        "ipv6": {"ipaddress": [{"ipaddress": "2001:db8::10"}]},
        "mac": "52540000AB10",
    }
