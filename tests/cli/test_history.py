"""``forewarn history``: the record as a table."""

from pathlib import Path

import pytest

from forewarn.cli.history import _shown
from tests.cli.conftest import Forewarn

FLEET = """
[[host]]
name = "h1"
[[group]]
name = "web"
kind = "availability-set"
approval = "APPROVAL"
[[vm]]
name = "web-0"
group = "web"
host = "h1"
address = "10.0.0.1"
tags = { role = "ROLE" }
"""


@pytest.mark.usefixtures("harness")
def test_details_are_words(forewarn: Forewarn, tmp_path: Path) -> None:
    """Keys and values of records, truths and what is empty are written as people do, not as Python does."""
    file = tmp_path / "fleet.toml"
    for role in ("front", "back"):
        file.write_text(FLEET.replace("ROLE", role).replace("APPROVAL", "any"))
        assert forewarn("fleet", "apply", "fleet.toml", "--exact").code == 0, role
    forewarn("group", "set", "web", "approval=all", "approve_user_reboot=true")
    file.write_text(FLEET.replace("ROLE", "back").replace("APPROVAL", "all"))
    forewarn("fleet", "apply", "fleet.toml", "--exact")

    result = forewarn("history").out

    assert "web-0.instance.tags: role=front → role=back" in result
    assert "policy.approve_user_reboot: false → true" in result
    assert "kind=group name=web key=approve_user_reboot value=true" in result
    assert "{'" not in result


@pytest.mark.usefixtures("harness")
def test_a_host_is_named_where_no_event_is(forewarn: Forewarn) -> None:
    """Of a move, and of a host's state."""
    forewarn("vm", "move", "web-0", "h2")
    forewarn("host", "fail", "h1", "--yes")

    result = forewarn("history").out

    assert "host: h2, from:" in result
    assert "host: h1, state: failed" in result


@pytest.mark.usefixtures("harness")
def test_a_narrow_terminal_is_shown_the_vms(forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch) -> None:
    """At least one by name, and how many more; who did what is worth little without to which VM."""
    names = [f"payments-database-{number}" for number in range(3)]
    for name in names:
        forewarn("vm", "add", name, "--group", "web", "--host", "h1")
    forewarn("host", "freeze", "h1")
    monkeypatch.setattr("forewarn.cli.output._is_at_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")

    result = forewarn("history", "--limit", "2").out

    assert "payments-database-0 and 3 more" in result
    assert ", ".join(names) in forewarn("history", "--limit", "2", "--wide").out


@pytest.mark.parametrize(
    ("value", "text"), [("", "-"), (None, "-"), ([], "-"), ({}, "-"), (False, "false"), (["a", ""], "a -"), (0, "0")]
)
def test_what_is_empty_is_a_dash(value: object, text: str) -> None:
    """Also within a list; a number or a truth is never empty."""
    assert _shown(value) == text
