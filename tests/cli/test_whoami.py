"""``forewarn whoami`` in a VM."""

import pytest

from forewarn.emulator import Emulator
from tests.cli.conftest import Forewarn


def test_a_vm_learns_its_name_and_its_service(forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch) -> None:
    """How it was found, in which version it is asked, whether it holds questions, whom else events name."""
    # The emulator's clock stands still, so it holds a question until nobody waits for the answer.
    monkeypatch.setattr("forewarn.client.conversation._HOLDING", 0.05)
    with Emulator("web-0", "web-1") as emulator:
        monkeypatch.setenv("SCHEDULED_EVENTS_URL", emulator.url)
        emulator.vm("web-1").reboot()
        told = forewarn("whoami", "--json").json
        shown = forewarn("whoami").out

        assert told == {
            "name": "web-0",
            "url": f"{emulator.url}/metadata/scheduledevents",
            "found_by": "the environment (SCHEDULED_EVENTS_URL)",
            "api_version": "2020-07-01",
            "long_poll": True,
            "incarnation": 2,
            "events": 1,
            "neighbours": ["web-1"],
        }
        assert shown.splitlines()[0] == "name         web-0"
        assert "changes      told at once (long poll)\n" in shown
