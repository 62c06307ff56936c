"""Settings of the QEMU driver: monitor paths, and commands that start machines."""

import os
import re
import shutil
from pathlib import Path
from typing import Annotated

import msgspec

from forewarn.config.tables import read_table
from forewarn.core.errors import BadInput
from forewarn.drivers.migration_limits import MIGRATIONS, Bandwidth, Migrations
from forewarn.drivers.qemu.monitors import MonitorProblem

_PLACE = "driver 'qemu'"


class QemuSettings(msgspec.Struct, frozen=True):
    """Monitor paths and commands. ``{vm}`` and ``{host}`` stand for names."""

    qmp: str
    """The path of a machine's monitor socket, such as ``/run/forewarn/{vm}.qmp``."""
    start: list[str] = []
    """The command that starts a machine; it returns when the machine runs, or soon will."""
    receive: list[str] = []
    """The command that starts a machine waiting at ``{incoming}`` for a migration; it enables live migration."""
    incoming: str = "unix:/run/forewarn/{vm}.{host}.incoming"
    """Where that machine waits."""
    delete: list[str] = []
    """The command that removes what a deleted machine leaves, such as its disks."""
    grace: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 30.0
    """Seconds that a guest has to shut down by itself before it is reset."""
    timeout: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 300.0
    """Timeout in seconds of a migration, and of a command."""

    migrations: Migrations = MIGRATIONS
    """How many migrations run at once."""
    bandwidth: Bandwidth = 0
    """Bandwidth limit of each migration in MiB per second; QEMU's default when 0."""
    records: str = ""
    """A directory on this host that all nodes of a cluster on it share, for records and the highest term."""

    host_program: str | list[str] = ""
    """A program that runs commands on hosts for rollouts: ``host_program HOST COMMAND``."""

    def path(self, vm: str, host: str) -> Path:
        return Path(self.filled(self.qmp, vm, host))

    def filled(self, pattern: str, vm: str, host: str) -> str:
        if "{host}" in pattern and not host:
            raise MonitorProblem(f"{vm} has no host, but {pattern} needs one; declare its host in the fleet file")
        words = {"{vm}": vm, "{host}": host}
        return re.sub(r"\{vm\}|\{host\}", lambda found: words[found[0]], pattern)

    def command(self, words: list[str], vm: str, host: str) -> list[str]:
        """Return a command with the names of one machine filled in."""
        incoming = self.filled(self.incoming, vm, host) if any("{incoming}" in word for word in words) else ""
        return [self.filled(word, vm, host).replace("{incoming}", incoming) for word in words]

    def vm_at(self, path: Path) -> str:
        """Return the VM of a monitor path; empty if the path matches none."""
        found = self._pattern.fullmatch(str(path))
        return found["vm"] if found else ""

    @property
    def everywhere(self) -> str:
        """The glob pattern of all monitors."""
        return re.sub(r"\{vm\}|\{host\}", "*", self.qmp)

    @property
    def _pattern(self) -> re.Pattern[str]:
        parts = re.split(r"(\{vm\}|\{host\})", self.qmp)
        seen: set[str] = set()
        expression = ""
        for part in parts:
            if part in {"{vm}", "{host}"}:
                name = part[1:-1]
                expression += f"(?P={name})" if name in seen else f"(?P<{name}>[^/]+)"
                seen.add(name)
            else:
                expression += re.escape(part)
        return re.compile(expression)


def read(settings: dict[str, object]) -> QemuSettings:
    """Read and check the settings; raise BadInput that names the wrong one."""
    given = read_table(_PLACE, settings, QemuSettings)
    if "{vm}" not in given.qmp or not Path(given.qmp).is_absolute():
        raise BadInput(
            f"setting 'qmp' of {_PLACE} is {given.qmp!r}; write the whole path of a machine's monitor socket, "
            "with {vm} for its name, such as /run/forewarn/{vm}.qmp"
        )
    if given.records and not Path(given.records).is_absolute():
        raise BadInput(f"setting 'records' of {_PLACE} is {given.records!r}; write the whole path of a directory")
    for name in ("start", "receive", "delete"):
        _check_command(name, getattr(given, name))
    if given.receive and not any("{incoming}" in word for word in given.receive):
        raise BadInput(f"setting 'receive' of {_PLACE} has no {{incoming}}; pass it to QEMU's -incoming option")
    return given


def _check_command(name: str, words: list[str]) -> None:
    if not words:
        return
    found = shutil.which(words[0]) if not Path(words[0]).parent.parts else words[0]
    if "{" in words[0] or found is None or not Path(found).is_file():
        raise BadInput(f"setting '{name}' of {_PLACE}: there is no program {words[0]}; give its full path")
    if not os.access(found, os.X_OK):
        raise BadInput(f"setting '{name}' of {_PLACE}: {found} is not executable; run 'chmod +x' on it")
