"""``forewarn whoami`` in a VM."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.emulator import Emulator
from tests.cli.conftest import Forewarn
from tests.conformance.kit.mock import Mock


def test_a_vm_learns_its_name_and_its_service(forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch) -> None:
    """How it was found, in which version it is asked, whether it holds questions, whom else events name."""
    # The emulator's clock stands still, so it holds a question until nobody waits for the answer.
    monkeypatch.setattr("forewarn.client.session._HOLDING", 0.05)
    with Emulator("web-0", "web-1") as emulator:
        monkeypatch.setenv("SCHEDULED_EVENTS_URL", emulator.url)
        emulator.vm("web-1").reboot()
        result = forewarn("whoami", "--json").json
        shown = forewarn("whoami").out

        assert result == {
            "name": "web-0",
            "name_evidence": "instance metadata",
            "name_is_guess": False,
            "url": f"{emulator.url}/metadata/scheduledevents",
            "found_by": "the environment (SCHEDULED_EVENTS_URL)",
            "api_version": "2020-07-01",
            "long_poll": True,
            "incarnation": 2,
            "events": 1,
            "neighbours": ["web-1"],
        }
        assert shown.splitlines()[:2] == ["name         web-0", "name from    instance metadata"]
        assert "changes      reported at once (long poll)\n" in shown


@pytest.fixture
def mock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mock]:
    """A service that tells no names, asked by a VM with the host name app-7."""
    monkeypatch.setattr("forewarn.client.session.gethostname", lambda: "app-7.example.org")
    with Mock() as mock:
        monkeypatch.setenv("SCHEDULED_EVENTS_URL", mock.url)
        yield mock


@pytest.mark.usefixtures("mock")
def test_a_name_from_the_host_name_is_called_a_guess(forewarn: Forewarn) -> None:
    """With what it goes by, and how to give the right one; events and approve say so too."""
    result = forewarn("whoami", "--json").json
    shown = forewarn("whoami").out
    note = "note: this VM's name app-7 is a guess: the host name, and no event names it; the service does not tell it"

    assert (result["name"], result["name_is_guess"]) == ("app-7", True)
    assert result["name_evidence"] == "the host name, and no event names it"
    assert shown.splitlines()[0] == "name         app-7 (a guess)"
    assert "FOREWARN_AGENT_NAME" in shown
    assert forewarn("events", "--json").err.startswith(note)
    assert forewarn("approve", "--all").err.startswith(note)


@pytest.mark.usefixtures("mock")
def test_an_event_that_names_the_host_is_evidence(forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays a guess: another VM may have that name."""
    monkeypatch.setattr("forewarn.client.session.gethostname", lambda: "WEB-0")
    result = forewarn("whoami", "--json").json

    assert (result["name"], result["name_is_guess"]) == ("web-0", True)
    assert result["name_evidence"] == "the host name, and an event names it"


@pytest.mark.usefixtures("mock")
def test_a_configured_name_is_no_guess(forewarn: Forewarn) -> None:
    """That which the agent goes by."""
    Path("agent.toml").write_text('name = "web-9"\n', encoding="utf-8")
    result = forewarn("whoami", "--json").json

    assert (result["name"], result["name_evidence"]) == ("web-9", "the agent's configuration")
    assert not result["name_is_guess"]
    Path("agent.toml").write_text("nonsense", encoding="utf-8")
    assert forewarn("whoami", "--json").json["name"] == "app-7"
