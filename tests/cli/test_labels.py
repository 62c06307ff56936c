"""Commands that set labels and select by them."""

import pytest

from tests.cli.conftest import Forewarn

pytestmark = pytest.mark.usefixtures("harness")


def names(listed: object) -> list[str]:
    assert isinstance(listed, list)
    return [each["name"] for each in listed]


def test_labels_are_set_shown_and_selected_by(forewarn: Forewarn) -> None:
    """Of VMs and hosts alike; labels that are not named stay."""
    assert forewarn("vm", "set", "web-0", "--label", "rack=r1", "--label", "version=1.9").code == 0
    assert forewarn("vm", "set", "web-0", "--unlabel", "rack", "--json").json["labels"] == {"version": "1.9"}
    assert names(forewarn("vm", "list", "--label", "version<1.10", "--json").json) == ["web-0"]
    assert forewarn("vm", "list", "--label", "version>2").out == "no VM matches\n"
    assert "version=1.9" in forewarn("vm", "show", "web-0").out
    assert forewarn("host", "set", "h1", "--label", "rack=r1").out == "h1: rack=r1\n"
    assert names(forewarn("host", "list", "--label", "!rack", "--json").json) == ["h2"]
    assert "rack=r1" in forewarn("host", "show", "h1").out


def test_lists_take_names_globs_and_options(forewarn: Forewarn) -> None:
    """All of them must hold."""
    everything = names(forewarn("vm", "list", "--json").json)
    assert names(forewarn("vm", "list", "web-*", "--json").json) == [x for x in everything if x.startswith("web-")]
    assert names(forewarn("vm", "list", "web-1", "web-0", "--json").json) == ["web-0", "web-1"]
    assert names(forewarn("vm", "list", "--group", "web", "--host", "h1", "--json").json) == ["web-0"]
    assert names(forewarn("vm", "list", "--state", "deallocated", "--json").json) == []
    assert names(forewarn("vm", "list", "--no-spot", "--state", "running", "web-?", "--json").json)
    assert names(forewarn("host", "list", "h[2-9]", "--json").json) == ["h2"]
    assert names(forewarn("host", "list", "--cordoned", "--json").json) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["vm", "set", "web-0"], "nothing is to be changed"),
        (["vm", "set", "web-0", "--label", "rack"], "is not of the form KEY=VALUE"),
        (["vm", "set", "web-0", "--label", "a=1", "--unlabel", "a"], "label 'a' is given twice"),
        (["host", "set", "h1"], "nothing is to be changed"),
        (["vm", "list", "--label", "rack=="], "character 7: expected a value"),
        (["vm", "set", "web-0", "--label", "rack=r 1"], "not a valid value of label 'rack'"),
    ],
)
def test_wrong_usage_is_named(forewarn: Forewarn, given: list[str], said: str) -> None:
    """With exit code 2, before anything is changed."""
    result = forewarn(*given)

    assert said in " ".join(result.err.split())
    assert result.code == 2


def test_other_keys_are_set_too(forewarn: Forewarn) -> None:
    """As a fleet file could; what is not given stays."""
    assert forewarn("vm", "set", "web-0", "--zone", "2", "--tag", "role=web").code == 0
    shown = forewarn("vm", "set", "web-0", "--spot", "--json").json

    assert (shown["zone"], shown["spot"], shown["instance"]["tags"]) == ("2", True, {"role": "web"})
    assert forewarn("vm", "set", "web-0", "--address", "nowhere").code == 2
    assert forewarn("vm", "set", "nobody", "--zone", "2").code == 1


def test_a_vm_is_added_with_labels(forewarn: Forewarn) -> None:
    """And the fleet shown as a file has them."""
    assert forewarn("vm", "add", "new", "--label", "rack=r7").code == 0
    assert 'labels = { "rack" = "r7" }' in forewarn("fleet", "show").out
