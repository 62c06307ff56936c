"""What requests and responses about hosts and VMs contain, as far as promises depend on it."""

import msgspec

NO_LABEL = "none"


class ChangedKeys(msgspec.Struct):
    """Keys of a VM or a host that are to be set."""

    labels: dict[str, str | None] = {}
    group: str = ""
    update_domain: int | None = None
    fault_domain: int | None = None
    spot: bool | None = None

    @property
    def label(self) -> str:
        return self.labels["tier"] or NO_LABEL


class AskedOperation(msgspec.Struct):
    """An operation on one VM or host, or on several."""

    operation: str = ""
    host: str = ""
    to: str = ""
    record: bool = False
    set: ChangedKeys = msgspec.field(default_factory=ChangedKeys)


class AppliedFile(msgspec.Struct):
    """A fleet file that is applied."""

    exact: bool = False


class ToldHost(msgspec.Struct):
    """A host in a list."""

    name: str
    state: str
    cordoned: bool
    labels: dict[str, str] = {}


class ToldGroup(msgspec.Struct):
    """A group in a list."""

    name: str


class ListedVm(msgspec.Struct):
    """A VM in a list."""

    name: str
    host: str
    deallocated: bool
    update_domain: int = 0
    fault_domain: int = 0
    spot: bool = False
    labels: dict[str, str] = {}


class BulkResult(msgspec.Struct):
    """What was done to several VMs or hosts, and what a fleet file holds."""

    selected: tuple[str, ...] = ()
    refused: dict[str, str] = {}
    held: tuple[str, ...] = ()


class ToldList(msgspec.Struct):
    """A list."""

    items: tuple[msgspec.Raw, ...]
    next: str | None = None


class NewVm(msgspec.Struct):
    """A VM that is added or changed."""

    name: str
    group: str = ""
    host: str = ""


class AddedVms(msgspec.Struct):
    """The VMs of a change of the fleet."""

    vms: tuple[NewVm, ...] = ()
    removed_vms: tuple[str, ...] = ()
