"""The document of ``/metadata/scheduledevents`` in every api-version: rendered for VMs, parsed by clients."""

import json
from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import force_setattr

from forewarn.core.model import Event, EventStatus, GroupKind
from forewarn.wire.azure_names import SOURCES, STATUSES, TYPES, read_id, read_source, read_status, read_type, show_id
from forewarn.wire.bodies import BadBody, read_body
from forewarn.wire.dates import read_time, show_time
from forewarn.wire.versions import ApiVersion


class _WireEvent(msgspec.Struct, kw_only=True, rename="pascal"):
    """One event as JSON has it, its keys in the order observed on Azure; unset is what a version lacks."""

    event_id: str
    event_status: str
    event_type: str
    resource_type: str | None = "VirtualMachine"
    resources: tuple[str, ...]
    not_before: str | None = None
    description: str | UnsetType | None = UNSET
    event_source: str | UnsetType | None = UNSET
    duration_in_seconds: int | UnsetType | None = UNSET


class _WireDocument(msgspec.Struct, rename="pascal"):
    document_incarnation: int | str
    events: tuple[_WireEvent, ...]


class _RawDocument(msgspec.Struct, rename="pascal"):
    """A document as it is read: one event that is wrong must not hide the others."""

    document_incarnation: int | str
    events: tuple[msgspec.Raw, ...]


class ScheduledEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event as a client sees it.

    Its words are members of ``EventType``, ``EventStatus`` and ``EventSource``, however they were spelled; words that
    the core does not know are kept as they came.
    """

    id: str
    """In lower case, to compare by: services spell it in any case."""
    type: str
    status: str
    resources: tuple[str, ...]
    not_before: datetime | None = None
    """None once it has started: it may happen at any moment."""
    description: str = ""
    source: str | None = None
    """None where the api-version does not tell."""
    duration: int = -1
    """Expected seconds of interruption; -1 when not known, or not shown."""
    shown_id: str = ""
    """The id as the service spells it, to send back: some services compare it exactly."""

    def __post_init__(self) -> None:
        if not self.shown_id:
            force_setattr(self, "shown_id", show_id(self.id))
        force_setattr(self, "type", read_type(self.type))
        force_setattr(self, "status", read_status(self.status))
        if self.source is not None:
            force_setattr(self, "source", read_source(self.source))


class UnreadableEvent(msgspec.Struct, frozen=True):
    """An entry of the document that cannot be read as an event."""

    id: str
    """Empty where it has none."""
    reason: str


class Document(msgspec.Struct, frozen=True):
    """All that a client is shown. Incarnations may skip and start anew: compare them for equality only."""

    incarnation: int
    events: tuple[ScheduledEvent, ...]
    unreadable: tuple[UnreadableEvent, ...] = ()


_read_document = msgspec.json.Decoder(_RawDocument)
_read_event = msgspec.json.Decoder(_WireEvent)
_read_keys = msgspec.json.Decoder(dict[str, msgspec.Raw])
_read_text = msgspec.json.Decoder(str)
_encoder = msgspec.json.Encoder()


def render(events: Sequence[Event], incarnation: int, version: ApiVersion, kind: GroupKind) -> bytes:
    """Write what the VMs of a group of this kind are shown."""
    prefix = "_" if version.underscore_names and kind is not GroupKind.CLOUD_SERVICE else ""
    shown = tuple(_show(event, version, prefix) for event in events if event.type in version.types)
    return _encoder.encode(_WireDocument(incarnation, shown))


def _show(event: Event, version: ApiVersion, prefix: str) -> _WireEvent:
    return _WireEvent(
        event_id=show_id(event.id),
        event_status=STATUSES[event.status],
        event_type=TYPES[event.type],
        resources=tuple(prefix + name for name in event.resources),
        # Azure: the key stays once the event has started, and its value is empty.
        not_before="" if event.status is EventStatus.STARTED else show_time(event.not_before),
        description=event.description if version.has_description else UNSET,
        event_source=SOURCES[event.source] if version.has_source else UNSET,
        duration_in_seconds=event.duration if version.has_duration else UNSET,
    )


def shown_fields(version: ApiVersion) -> tuple[str, ...]:
    """Return the keys that an event has in this version, in their order."""
    hidden = {
        "Description": not version.has_description,
        "EventSource": not version.has_source,
        "DurationInSeconds": not version.has_duration,
    }
    return tuple(
        field.encode_name for field in msgspec.structs.fields(_WireEvent) if not hidden.get(field.encode_name)
    )


def parse(body: bytes) -> Document:
    """Read a document of any api-version, from Azure, Forewarn or a mock; raise BadBody if it is none.

    Each event is judged for itself: one that cannot be read is in ``unreadable``.
    """
    try:
        wire = read_body(_read_document, body, "document")
    except BadBody:
        lenient = _read_leniently(body)
        if lenient is None:
            raise
        wire = lenient
    try:
        incarnation = int(wire.document_incarnation)
    except ValueError:
        raise BadBody(f"DocumentIncarnation is not a number: {wire.document_incarnation!r}") from None
    read = [_read(raw) for raw in wire.events]
    return Document(
        incarnation,
        tuple(event for event in read if isinstance(event, ScheduledEvent)),
        tuple(event for event in read if isinstance(event, UnreadableEvent)),
    )


def _read_leniently(body: bytes) -> _RawDocument | None:
    """Read a document in which a text or a number is none, as half a surrogate pair or NaN; None if it is none.

    What is wrong stays so: it is found again where the event that holds it is read.
    """
    try:
        document = json.loads(body.decode("utf-8-sig", errors="replace"), strict=False)
        events = tuple(msgspec.Raw(json.dumps(event).encode()) for event in document["Events"])
        return msgspec.convert({**document, "Events": events}, _RawDocument)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def keep_unreadable(before: Document | None, after: Document) -> Document:
    """Return ``after`` with the events that it holds but that cannot be read as ``before`` had them.

    An event that can no longer be read is not gone: nothing that was done for it may be undone yet.
    """
    if before is None:
        return after
    lost = {event.id for event in after.unreadable} - {event.id for event in after.events}
    kept = tuple(event for event in before.events if event.id in lost)
    return msgspec.structs.replace(after, events=(*after.events, *kept)) if kept else after


def _read(raw: msgspec.Raw) -> ScheduledEvent | UnreadableEvent:
    try:
        event = _read_event.decode(raw)
    except (ValueError, msgspec.DecodeError) as error:
        return UnreadableEvent(_id_of(raw), str(error))
    try:
        not_before = read_time(event.not_before) if event.not_before else None
    except ValueError:
        return UnreadableEvent(read_id(event.event_id), f"NotBefore is not a valid time: {event.not_before!r:.100}")
    if not event.event_id:
        return UnreadableEvent("", "EventId is empty")
    return ScheduledEvent(
        id=read_id(event.event_id),
        type=event.event_type,
        status=event.event_status,
        resources=event.resources,
        not_before=not_before,
        description=event.description or "",
        source=event.event_source or None,
        duration=-1 if event.duration_in_seconds in (None, UNSET) else event.duration_in_seconds,
        shown_id=event.event_id,
    )


def _id_of(raw: msgspec.Raw) -> str:
    try:
        return read_id(_read_text.decode(_read_keys.decode(raw)["EventId"]))
    except (KeyError, ValueError, msgspec.DecodeError):
        pass
    try:
        found = json.loads(bytes(raw).decode(errors="replace"))["EventId"]
        return read_id(found.encode(errors="replace").decode())
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return ""
