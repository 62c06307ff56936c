"""Receivers of notifications: they take each message, or refuse while they are down."""

from collections.abc import Callable

from forewarn.control.notifications.channels import NotDelivered
from forewarn.control.notifications.notification import Notification
from forewarn.core.model import Subscription
from forewarn.simulator.environment.loop import SimulatedLoop
from forewarn.simulator.exchanges import ReceivedNotification


class Receivers:
    """Stands where a service has its channels; what is received outlives the service."""

    sends_mail = True

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.is_down = False
        self.on_received: Callable[[ReceivedNotification], None] = lambda _: None

    def channel_for(self, subscription: Subscription) -> "SimulatedChannel":
        return SimulatedChannel(self, subscription.name)

    def set_mail(self, mail: object) -> None:
        """Mail needs no server here."""

    def take(self, subscription: str, message: Notification) -> str:
        """Receive a message; raise NotDelivered while the receiver is down."""
        if self.is_down:
            raise NotDelivered("the simulated receiver is down")
        event = message.event.id if message.event else ""
        group = message.event.group if message.event else message.group
        self.on_received(
            ReceivedNotification(
                subscription, message.id, message.type, event, group, message.revision, self._loop.time()
            )
        )
        return "taken"


class SimulatedChannel:
    """Delivers to one receiver."""

    def __init__(self, receivers: Receivers, subscription: str) -> None:
        self._receivers = receivers
        self._subscription = subscription

    def deliver(self, message: Notification) -> str:
        return self._receivers.take(self._subscription, message)
