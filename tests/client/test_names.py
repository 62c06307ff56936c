"""One VM, many names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.client.names import find_name, host_name_of, is_same
from forewarn.core.errors import BadInput


@pytest.mark.parametrize(
    ("resource", "host_name"),
    [
        ("vmss_18", "vmss00000i"),
        ("aks-nodepool1-21922338-vmss_39", "aks-nodepool1-21922338-vmss000013"),
        ("_vmss_0", "vmss000000"),
        ("web-0", "web-0"),
        ("Web-0", "web-0"),
        ("FrontEnd_IN_0", "frontend_in_0"),
    ],
)
def test_a_resource_has_a_host_name(resource: str, host_name: str) -> None:
    """Uniform scale sets count in base 36, six wide; node names of Kubernetes are the same, in small letters."""
    assert host_name_of(resource) == host_name


@given(st.integers(0, 9_999_999))
def test_host_names_of_scale_sets_read_back(number: int) -> None:
    """Whatever the instance's number."""
    assert find_name(host_name_of(f"vmss_{number}"), ["vmss_12345678", f"vmss_{number}"]) == f"vmss_{number}"


def test_names_of_flexible_scale_sets_cannot_be_computed() -> None:
    """Their host names are drawn by chance, and the error says so."""
    with pytest.raises(BadInput, match="Flexible scale set"):
        host_name_of("vmss_a1b2c3d4")


@pytest.mark.parametrize(
    ("resource", "name"), [("myspotvm", "mySpotVM"), ("_web-0", "web-0"), ("WEB-0", "web-0"), ("web-0", "_web-0")]
)
def test_names_are_the_same_in_any_case_and_with_the_old_underscore(resource: str, name: str) -> None:
    """Azure shows a VM named mySpotVM as myspotvm."""
    assert is_same(resource, name)
    assert not is_same(resource, f"{name}0")


@pytest.mark.parametrize(
    ("host_name", "found"),
    [
        ("web-0.internal.example.org", "web-0"),
        ("vmss00000i", "vmss_18"),
        ("VMSS00000I", "vmss_18"),
        ("elsewhere", ""),
    ],
)
def test_a_host_name_is_found_among_resources(host_name: str, found: str) -> None:
    """By itself or as a scale set's; with its domain or without."""
    assert find_name(host_name, ["vmss_a1b2c3d4", "vmss_18", "web-0"]) == found
