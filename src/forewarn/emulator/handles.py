"""Handles of the emulator's Python API: a VM, a host, an event of the emulated fleet."""

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
        """Its approvers, in order."""
        return tuple(self.life.approved)

    @property
    def fetched_by(self) -> tuple[str, ...]:
        """The VMs that fetched it, in order."""
        return tuple(self.life.fetched)

    @property
    def is_over(self) -> bool:
        return self.life.is_over

    def approve(self, by: str = "") -> None:
        """Approve it as a VM, by default as the operator."""
        self._emulator.approve(self.id, by)

    def cancel(self) -> None:
        """Cancel it; possible until it has started."""
        self._emulator.cancel(self.id)


class VmHandle:
    """One VM of the emulated fleet."""

    def __init__(self, emulator: "Emulator", name: str) -> None:
        self._emulator = emulator
        self.name = name

    @property
    def url(self) -> str:
        """URL of this VM's endpoint: callers of it are treated as this VM."""
        return self._emulator.url_of(self.name)

    def events_url(self, api_version: str = NEWEST.name) -> str:
        """Return the URL of its document."""
        return f"{self.url}/metadata/scheduledevents?api-version={api_version}"

    def document(self, api_version: str = "") -> dict[str, object]:
        """Return its present document, without a request."""
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
        """Migrate it live to another host, announced as a freeze of five seconds."""
        return self._announce(Verb.MIGRATE, notice, description)

    def evict(self, *, notice: Duration | None = None) -> EventHandle:
        """Evict it; it becomes a spot VM if it is not one, and is deallocated afterwards."""
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
        self, verb: Verb, notice: Duration | None = None, description: str | None = None, duration: int | None = None
    ) -> EventHandle:
        return self._emulator.do(verb, vm=self.name, notice=notice, description=description, duration=duration)[0]


class HostHandle:
    """One host of the emulated fleet; an operation creates one event for each group and update domain on it."""

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
        """Redeploy its VMs to other hosts."""
        return self._announce(Verb.REDEPLOY, notice, description)

    def migrate(self, *, notice: Duration | None = None, description: str | None = None) -> list[EventHandle]:
        """Migrate its VMs live."""
        return self._announce(Verb.MIGRATE, notice, description)

    def drain(self, *, notice: Duration | None = None, description: str | None = None) -> list[EventHandle]:
        """Cordon it, and migrate its running VMs live to hosts that are planned first."""
        return self._announce(Verb.DRAIN, notice, description)

    def degrade(self, *, notice: Duration | None = None) -> list[EventHandle]:
        """Predict a hardware failure: its VMs will be redeployed, typically days from now."""
        return self._announce(Verb.DEGRADE, notice)

    def fail(self) -> list[EventHandle]:
        """Simulate a hardware failure without notice."""
        return self._announce(Verb.FAIL)

    def _announce(
        self, verb: Verb, notice: Duration | None = None, description: str | None = None, duration: int | None = None
    ) -> list[EventHandle]:
        return self._emulator.do(verb, host=self.name, notice=notice, description=description, duration=duration)


def copied(life: EventLife) -> EventLife:
    """Return a copy; the original changes in another thread."""
    return msgspec.structs.replace(life, fetched=dict(life.fetched), approved=dict(life.approved))
