"""The key bindings of ``forewarn emulate``."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec

from forewarn.cli.times import span
from forewarn.core.errors import ForewarnError, Refused
from forewarn.core.model import Event, EventStatus, EventType
from forewarn.emulator.emulation import Emulation
from forewarn.emulator.verbs import Verb, verb_announcing
from forewarn.wire.azure_names import TYPES


class KeyBinding(msgspec.Struct, frozen=True):
    """Action and label of a key."""

    label: str
    do: "Callable[[Controls], Awaitable[None]]"


class Controls:
    """Applies the keys to the selected VM."""

    def __init__(self, emulation: Emulation) -> None:
        self.emulation = emulation
        self.chosen = emulation.vms[0]
        self.message = ""
        """Message about the last key."""
        self.is_leaving = False

    async def press(self, key: str) -> None:
        """Apply a key; a refusal becomes the message."""
        self.message = ""
        found = KEYS.get(key)
        if found is None:
            return
        try:
            await found.do(self)
        except ForewarnError as error:
            self.message = str(error)

    async def on_vm(self, verb: Verb) -> None:
        await self.emulation.do(verb, vm=self.chosen)

    async def on_host(self, verb: Verb) -> None:
        vm = self.emulation.node.replica.fleet.vms.get(self.chosen)
        if vm is None or not vm.standing_on:
            raise Refused(f"{self.chosen} stands on no host")
        await self.emulation.do(verb, host=vm.standing_on)

    async def approve(self) -> None:
        await self.emulation.approve(self._scheduled().id, self.chosen)

    async def cancel(self) -> None:
        await self.emulation.cancel(self._scheduled().id)

    async def jump(self, step: timedelta) -> None:
        await self.emulation.advance(step / self.emulation.hurry)
        self.message = f"the clock went ahead by {span((step / self.emulation.hurry).total_seconds())}"

    async def choose_next(self) -> None:
        vms = self.emulation.vms
        self.chosen = vms[(vms.index(self.chosen) + 1) % len(vms)]

    async def leave(self) -> None:
        self.is_leaving = True

    def _scheduled(self) -> Event:
        """Return the event to approve or cancel: that of the selected VM before others of its group."""
        fleet = self.emulation.node.replica.fleet
        group = self.emulation.setup.fleet.vms[self.chosen].group
        events = [event for event in fleet.events_of(group) if event.status is EventStatus.SCHEDULED]
        events.sort(key=lambda event: self.chosen not in event.resources)
        if not events:
            raise Refused(f"no event of {self.chosen}'s group is Scheduled")
        return events[0]


def _vm(label: str, verb: Verb) -> KeyBinding:
    return KeyBinding(label, lambda controls: controls.on_vm(verb))


def _event(type_: EventType) -> KeyBinding:
    return _vm(TYPES[type_], verb_announcing(type_))


def _host(label: str, verb: Verb) -> KeyBinding:
    return KeyBinding(label, lambda controls: controls.on_host(verb))


def _jump(label: str, step: timedelta) -> KeyBinding:
    return KeyBinding(label, lambda controls: controls.jump(step))


KEYS = {
    "f": _event(EventType.FREEZE),
    "m": _vm("live migration", Verb.MIGRATE),
    "r": _event(EventType.REBOOT),
    "d": _event(EventType.REDEPLOY),
    "p": _event(EventType.PREEMPT),
    "t": _event(EventType.TERMINATE),
    "g": _host("degraded host", Verb.DEGRADE),
    "h": _host("host failure", Verb.FAIL),
    "s": _vm("start again", Verb.START),
    "a": KeyBinding("approve", Controls.approve),
    "c": KeyBinding("cancel", Controls.cancel),
    "j": _jump("jump 1 min", timedelta(minutes=1)),
    "J": _jump("jump 15 min", timedelta(minutes=15)),
    "\t": KeyBinding("next VM", Controls.choose_next),
    "q": KeyBinding("leave", Controls.leave),
}
