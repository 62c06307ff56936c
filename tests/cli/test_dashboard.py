"""``forewarn dashboard`` prints a link that logs a browser in."""

from forewarn.control.bodies import ListenerView
from tests.cli.conftest import Forewarn
from tests.harness import ApiHarness


def test_it_prints_a_link_to_the_control_port(harness: ApiHarness, forewarn: Forewarn) -> None:
    """With a code that is good for one login, and nothing else of the token."""
    port = harness.control_plane.port
    harness.context.listeners = lambda: (ListenerView(part="control", address=f"127.0.0.1:{port}", inode=1),)

    said = forewarn("dashboard", "--no-browser", "--json").json["url"]

    assert said.startswith(f"http://127.0.0.1:{port}/login#code=")
    assert "fw_" not in said
    assert harness.context.links.redeem(said.partition("#code=")[2]).startswith("fw_")


def test_a_service_without_a_control_port_is_told_so(harness: ApiHarness, forewarn: Forewarn) -> None:
    """A browser cannot use the unix socket."""
    harness.context.listeners = lambda: ()

    refused = forewarn("dashboard", "--no-browser")

    assert (refused.code, "--control" in refused.err) == (1, True)
