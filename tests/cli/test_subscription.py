"""Commands on subscriptions."""

import pytest

from forewarn.control.bodies import DeliveryReceipt
from forewarn.control.notifications.worker import DeliveryStatus
from forewarn.core.model import Subscription
from tests.cli.conftest import Forewarn
from tests.harness import ApiHarness


class Deliveries:
    """Delivers everything."""

    def check(self, subscription: Subscription) -> None:
        pass

    def delivery_of(self, subscription: str) -> DeliveryStatus:
        return DeliveryStatus()

    async def send_test(self, subscription: Subscription) -> DeliveryReceipt:
        return DeliveryReceipt(detail=f"delivered to {subscription.name}")


@pytest.fixture
def pager(harness: ApiHarness, forewarn: Forewarn) -> str:
    """A subscription to which everything is delivered."""
    harness.context.deliveries = Deliveries()
    forewarn("subscription", "add", "pager", "https://example.org/hook")
    return "pager"


def test_a_test_message_says_what_became_of_it(forewarn: Forewarn, pager: str) -> None:
    """In a sentence, or as JSON."""
    assert forewarn("subscription", "test", pager).out == "delivered to pager\n"
    assert forewarn("subscription", "test", pager, "--json").json == {"detail": "delivered to pager"}


@pytest.mark.usefixtures("pager")
def test_a_narrow_terminal_is_shown_name_and_state(forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch) -> None:
    """All other columns are left out, those of least worth first."""
    monkeypatch.setattr("forewarn.cli.output._is_at_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "12")

    listed = " ".join(forewarn("subscription", "list").out.split())

    assert "left out: TYPES, GROUPS, KIND, WAITING, TARGET;" in listed
