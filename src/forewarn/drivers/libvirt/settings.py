"""Settings of the libvirt driver."""

from datetime import timedelta
from typing import Annotated, Literal

import msgspec

from forewarn.core.errors import BadInput
from forewarn.drivers.migration_limits import MIGRATIONS, Bandwidth, Migrations


class LibvirtSettings(msgspec.Struct, frozen=True):
    """Hosts, and how machines are treated."""

    hosts: dict[str, str] = {}
    """The URI of each host, such as ``qemu+ssh://root@h1/system``."""
    uri: str = ""
    """The URI of every host that is not in ``hosts``; ``{host}`` stands for its name."""
    redeploy: Literal["migrate", "restart"] = "migrate"
    """Whether a redeploy migrates the running machine to another host, or restarts it on its host."""
    grace: timedelta = timedelta(seconds=60)
    """How long a machine may take to shut down by itself before it is reset."""
    longest: timedelta = timedelta(minutes=30)
    """How long a migration or a save may take before it is aborted."""
    peer_to_peer: bool = False
    """Whether the hosts connect to each other's libvirt during a migration, instead of Forewarn to both."""
    migration_uri: str = ""
    """Migration endpoint of a host, such as ``tcp://{host}``; chosen by libvirt when empty."""
    copy_disks: bool = False
    """Whether a migration copies disks that the hosts do not share."""
    spare_memory: Annotated[int, msgspec.Meta(ge=0)] = 256
    """MiB of memory that stay free on a target host."""
    memory_ratio: Annotated[float, msgspec.Meta(gt=0, le=100)] = 1.0
    """The share of a host's memory that all its machines together may use; above 1 it may run out."""
    cpu_ratio: Annotated[float, msgspec.Meta(gt=0, le=1_000)] = 16.0
    """How many virtual CPUs a host may run for each of its own."""
    migrations: Migrations = MIGRATIONS
    """How many migrations run at once."""
    bandwidth: Bandwidth = 0
    """Bandwidth limit of each migration in MiB per second; unlimited when 0."""
    post_copy: timedelta | None = None
    """After how long a migration that has not ended is switched to post-copy: it then ends soon, but the machine is
    lost if a host or the network fails before it has ended. Never when left out."""
    evict: Literal["stop", "save"] = "stop"
    """Whether an evicted machine loses its memory, or libvirt saves it for the next start."""
    ephemeral_disks: list[str] = []
    """Disks that a redeploy on the same host recreates empty, by target name, such as ``vdb``."""
    delete_disks: bool = False
    """Whether the disks of a deleted machine are deleted too."""

    host_program: str | list[str] = ""
    """A program that runs commands on hosts for rollouts: ``host_program HOST COMMAND``."""

    def __post_init__(self) -> None:
        if not self.hosts and not self.uri:
            raise BadInput("driver 'libvirt' has no host; set 'hosts', such as { h1 = \"qemu:///system\" }, or 'uri'")
        for key, value in (("uri", self.uri), *((f"hosts.{host}", uri) for host, uri in self.hosts.items())):
            if value and ":" not in value:
                raise BadInput(
                    f"setting {key!r} of driver 'libvirt': {value!r} is not a valid URI; write it like "
                    "qemu+ssh://root@h1/system"
                )
        if self.uri and "{host}" not in self.uri:
            raise BadInput("setting 'uri' of driver 'libvirt' has no {host}; write it in place of the name")
