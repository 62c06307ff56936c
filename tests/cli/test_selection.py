"""Options that select VMs and hosts."""

import pytest

from tests.cli.conftest import Forewarn


@pytest.mark.parametrize(
    ("command", "names"),
    [
        (("vm", "freeze"), {"web-0", "web-1", "pool_0", "db"}),
        (("host", "cordon"), {"h1", "h2"}),
    ],
)
@pytest.mark.usefixtures("harness")
def test_all_is_a_flag_that_selects_all(forewarn: Forewarn, command: tuple[str, ...], names: set[str]) -> None:
    """It takes no value."""
    result = forewarn(*command, "--all", "--json")

    assert result.code == 0, result.err
    assert {each.get("vm") or each.get("host") for each in result.json} == names


def test_options_are_explained(forewarn: Forewarn) -> None:
    """A sentence each."""
    shown = " ".join(forewarn("vm", "list", "--help").out.split())

    assert "--group NAME Only VMs of this group." in shown
    assert "--host NAME Only VMs on this host." in shown
