"""What a test holds in its hand: a VM, a host, an event of the emulated fleet."""

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from forewarn.core.model import EventStatus, EventType
from forewarn.emulator.arguments import Duration
from forewarn.emulator.event_log import EventLife
from forewarn.emulator.verbs import Verb
from forewarn.wire.azure_names import show_id
from forewarn.wire.versions import NEWEST

if TYPE_CHECKING:
    from forewarn.emulator.emulator import Emulator


class EventHandle:
    """An event, from its announcement to its end and after."""

    def __init__(self, emulator: "Emulator", id: str) -> None:
        self._emulator = emulator
        self.id = id

    def __repr__(self) -> str:
        life = self.life
        return f"<{life.event.type} of {', '.join(life.event.resources)}: {life.status}>"

    @property
    def life(self) -> EventLife:
        """All that is known of it at this moment."""
        return self._emulator.life_of(self.id)

    @property
    def shown_id(self) -> str:
        """Its id as the document shows it."""
        return show_id(self.id)

    @property
    def status(self) -> EventStatus:
        return self.life.status

    @property
    def type(self) -> EventType:
        return self.life.event.type

    @property
    def resources(self) -> tuple[str, ...]:
        return self.life.event.resources

    @property
    def not_before(self) -> datetime:
        return self.life.event.not_before

    @property
    def approved_by(self) -> tuple[str, ...]:
        """Who approved it, in the order they did."""
        return tuple(self.life.approved)

    @property
    def fetched_by(self) -> tuple[str, ...]:
        """The VMs that were shown it, in the order they were."""
        return tuple(self.life.fetched)

    @property
    def is_over(self) -> bool:
        return self.life.is_over

    def approve(self, by: str = "") -> None:
        """Approve it in the name of a VM; of the operator when none is named."""
        self._emulator.approve(self.id, by)

    def cancel(self) -> None:
        """Take it back, while it has not started."""
        self._emulator.cancel(self.id)


class VmHandle:
    """One VM of the emulated fleet."""

    def __init__(self, emulator: "Emulator", name: str) -> None:
        self._emulator = emulator
        self.name = name

    @property
    def url(self) -> str:
        """Where this VM asks: whoever calls here is taken for it."""
        return self._emulator.url_of(self.name)

    def events_url(self, api_version: str = NEWEST.name) -> str:
        """Return the whole address of its document."""
        return f"{self.url}/metadata/scheduledevents?api-version={api_version}"

    def document(self, api_version: str = "") -> dict[str, object]:
        """Return what it would be shown now, without its having asked."""
        return self._emulator.document(self.name, api_version)

    def reboot(self, *, notice: Duration | None = None, description: str | None = None) -> EventHandle:
        """Restart it, as its user would."""
        return self._announce(Verb.REBOOT, notice, description)

    def redeploy(self, *, notice: Duration | None = None, description: str | None = None) -> EventHandle:
        """Redeploy it, as its user would."""
        return self._announce(Verb.REDEPLOY, notice, description)

    def freeze(
        self, seconds: int | None = None, *, notice: Duration | None = None, description: str | None = None
    ) -> EventHandle:
        """Freeze it for maintenance of its host; ``seconds`` is the interruption that is announced."""
        return self._announce(Verb.FREEZE, notice, description, seconds)

    def migrate(self, *, notice: Duration | None = None, description: str | None = None) -> EventHandle:
        """Move it live to another host, which is felt as a freeze of five seconds."""
        return self._announce(Verb.MIGRATE, notice, description)

    def evict(self, *, notice: Duration | None = None) -> EventHandle:
        """Evict it; it becomes a spot VM if it is none, and is deallocated afterwards."""
        return self._announce(Verb.EVICT, notice)

    def delete(self) -> EventHandle:
        """Delete it, as a scale-in does; announced where its group has terminate notice."""
        return self._announce(Verb.DELETE)

    def deallocate(self) -> None:
        """Deallocate it at once; nothing is announced."""
        self._emulator.do(Verb.DEALLOCATE, vm=self.name)

    def start(self) -> None:
        """Start it after it was deallocated."""
        self._emulator.do(Verb.START, vm=self.name)

    def _announce(
        self,
        verb: Verb,
        notice: Duration | None = None,
        description: str | None = None,
        duration: int | None = None,
    ) -> EventHandle:
        return self._emulator.do(verb, vm=self.name, notice=notice, description=description, duration=duration)[0]


class HostHandle:
    """One host of the emulated fleet; each of its groups and update domains gets an event of its own."""

    def __init__(self, emulator: "Emulator", name: str) -> None:
        self._emulator = emulator
        self.name = name

    def freeze(
        self, seconds: int | None = None, *, notice: Duration | None = None, description: str | None = None
    ) -> list[EventHandle]:
        """Freeze its VMs for maintenance; ``seconds`` is the interruption that is announced."""
        return self._announce(Verb.FREEZE, notice, description, seconds)

    def reboot(self, *, notice: Duration | None = None, description: str | None = None) -> list[EventHandle]:
        """Reboot it, and its VMs with it."""
        return self._announce(Verb.REBOOT, notice, description)

    def redeploy(self, *, notice: Duration | None = None, description: str | None = None) -> list[EventHandle]:
        """Have its VMs redeployed elsewhere."""
        return self._announce(Verb.REDEPLOY, notice, description)

    def migrate(self, *, notice: Duration | None = None, description: str | None = None) -> list[EventHandle]:
        """Have its VMs moved live."""
        return self._announce(Verb.MIGRATE, notice, description)

    def drain(self, *, notice: Duration | None = None, description: str | None = None) -> list[EventHandle]:
        """Cordon it, and have its running VMs moved live, each to a host that is planned first."""
        return self._announce(Verb.DRAIN, notice, description)

    def degrade(self, *, notice: Duration | None = None) -> list[EventHandle]:
        """Predict that its hardware will fail: its VMs are to be redeployed, typically days from now."""
        return self._announce(Verb.DEGRADE, notice)

    def fail(self) -> list[EventHandle]:
        """Let its hardware fail, without notice."""
        return self._announce(Verb.FAIL)

    def _announce(
        self,
        verb: Verb,
        notice: Duration | None = None,
        description: str | None = None,
        duration: int | None = None,
    ) -> list[EventHandle]:
        return self._emulator.do(verb, host=self.name, notice=notice, description=description, duration=duration)


def copied(life: EventLife) -> EventLife:
    """Return the life as it is now; the original goes on in another thread."""
    return msgspec.structs.replace(life, fetched=dict(life.fetched), approved=dict(life.approved))
