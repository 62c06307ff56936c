"""Rows of ``docs/reference/azure.md``: what a VM knows of itself."""

from tests.conformance.cloud import Cloud

KEYS = [
    "location", "name", "osType", "platformFaultDomain", "platformUpdateDomain", "resourceGroupName",
    "subscriptionId", "tags", "tagsList", "vmId", "vmScaleSetName", "vmSize", "zone",
]  # fmt: skip


def compute(cloud: Cloud, vm: str = "web-0", version: str = "2021-02-01") -> dict[str, object]:
    """Return what a VM reads about itself."""
    found: dict[str, object] = cloud.get(f"/metadata/instance/compute?api-version={version}", vm).json
    return found


def text(cloud: Cloud, path: str, vm: str = "web-0") -> str:
    """Return a part as text."""
    reply = cloud.get(f"/metadata/instance/{path}?api-version=2021-02-01&format=text", vm)
    assert reply.header("Content-Type") == "text/plain; charset=utf-8"
    return reply.body.decode()


def test_instance_whole(cloud: Cloud) -> None:
    """Every key is there, in the order of the alphabet."""
    whole = cloud.get("/metadata/instance?api-version=2021-02-01").json

    assert whole == {"compute": compute(cloud), "network": {"interface": []}}
    assert list(compute(cloud)) == KEYS
    assert compute(cloud, "workers_0")["vmScaleSetName"] == "workers"


def test_instance_values_are_text(cloud: Cloud) -> None:
    """Domains are numbers written as text; tags are one text, and a list beside it."""
    found = compute(cloud)

    assert found.pop("tagsList") == [{"name": "role", "value": "web"}, {"name": "tier", "value": "1"}]
    assert {type(value) for value in found.values()} == {str}
    assert (found["platformUpdateDomain"], found["tags"]) == ("0", "role:web;tier:1")


def test_instance_by_path(cloud: Cloud) -> None:
    """A path leads to a part, in any case."""
    tags = cloud.get("/metadata/Instance/COMPUTE/tagslist?api-version=2021-02-01").json

    assert tags[1] == {"name": "tier", "value": "1"}


def test_instance_as_text(cloud: Cloud) -> None:
    """A value as it is, else a list of names."""
    assert text(cloud, "compute/name") == "web-0"
    assert text(cloud, "compute/zone") == "2"
    assert text(cloud, "") == "compute/\nnetwork/"
    assert text(cloud, "compute").split("\n") == [key + "/" * (key == "tagsList") for key in KEYS]


def test_instance_by_version(cloud: Cloud) -> None:
    """Older versions show fewer keys."""
    assert not {"resourceGroupName", "subscriptionId", "tags"} & compute(cloud, version="2017-04-02").keys()
    assert {"resourceGroupName", "subscriptionId", "tags"} <= compute(cloud, version="2017-08-01").keys()
    assert not {"zone", "vmScaleSetName"} & compute(cloud, version="2017-10-01").keys()
    assert {"zone", "vmScaleSetName"} <= compute(cloud, version="2017-12-01").keys()
    assert "tagsList" not in compute(cloud, version="2019-06-01")
    assert "tagsList" in compute(cloud, version="2019-06-04")


def test_instance_id_of_its_own(cloud: Cloud) -> None:
    """Whoever was given no id has one all the same, and always the same."""
    ids = {text(cloud, "compute/vmId", vm) for vm in ("web-0", "web-1", "web-0")}

    assert len(ids) == 2
    assert all(len(each) == 36 for each in ids)
