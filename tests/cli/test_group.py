"""Commands on groups."""

from tests.cli.conftest import Forewarn
from tests.harness import ApiHarness


def test_a_removed_group_is_named_for_programs(harness: ApiHarness, forewarn: Forewarn) -> None:
    """As JSON."""
    forewarn("group", "add", "empty", "--kind", "scale-set")

    assert forewarn("group", "remove", "empty", "--yes", "--json").json == {"removed": "empty"}
    assert "empty" not in harness.node.replica.fleet.groups


def test_a_group_is_not_removed_without_a_confirmation(harness: ApiHarness, forewarn: Forewarn) -> None:
    """Where there is no terminal to ask, --yes is needed."""
    forewarn("group", "add", "empty", "--kind", "scale-set")
    refused = forewarn("group", "remove", "empty")

    assert refused.code == 2
    assert "remove group empty: this cannot be undone" in refused.err
    assert "empty" in harness.node.replica.fleet.groups
