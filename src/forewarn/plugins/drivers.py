"""What a driver is written with; its class is an entry point of the group ``forewarn.drivers``."""

from forewarn.clocks import Clock, SystemClock
from forewarn.config.tables import read_table
from forewarn.core.errors import BadInput
from forewarn.core.model import Event, EventSource, EventType, Host, Observation, ObservationKind, Vm
from forewarn.core.placement import Capacity, HostCapacity, VmDemand
from forewarn.files import private_directory, sync_directory, write_atomically
from forewarn.node.driver import (
    CandidateHost,
    Driver,
    DriverType,
    Impact,
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
    ImpactUnknown,
    SupportsCapacity,
    SupportsCheck,
    SupportsLocation,
    SupportsObservation,
    SupportsPower,
    SupportsSettingsCheck,
)

__all__ = [
    "BadInput",
    "CandidateHost",
    "Capacity",
    "Clock",
    "Driver",
    "DriverType",
    "Event",
    "EventSource",
    "EventType",
    "Host",
    "HostCapacity",
    "Impact",
    "ImpactDone",
    "ImpactFailed",
    "ImpactNotBegun",
    "ImpactOutcome",
    "ImpactUnderway",
    "ImpactUnknown",
    "Observation",
    "ObservationKind",
    "SupportsCapacity",
    "SupportsCheck",
    "SupportsLocation",
    "SupportsObservation",
    "SupportsPower",
    "SupportsSettingsCheck",
    "SystemClock",
    "Vm",
    "VmDemand",
    "private_directory",
    "read_table",
    "sync_directory",
    "write_atomically",
]
