"""What an operator tells of plain QEMU machines: where their monitors are, and how to start them."""

import os
import re
import shutil
from pathlib import Path
from typing import Annotated

import msgspec

from forewarn.config.tables import read_table
from forewarn.core.errors import BadInput
from forewarn.drivers.qemu.monitors import MonitorProblem

_PLACE = "driver 'qemu'"


class QemuSettings(msgspec.Struct, frozen=True):
    """Where machines are spoken to, and how they are started. ``{vm}`` and ``{host}`` stand for names."""

    qmp: str
    """The path of a machine's monitor socket, such as ``/run/forewarn/{vm}.qmp``."""
    start: list[str] = []
    """The command that starts a machine anew; it returns when the machine runs, or soon will."""
    receive: list[str] = []
    """The command that starts a machine which waits at ``{incoming}`` for another's memory; guests then move live."""
    incoming: str = "unix:/run/forewarn/{vm}.{host}.incoming"
    """Where it waits."""
    delete: list[str] = []
    """The command that removes what a deleted machine leaves, such as its disks."""
    grace: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 30.0
    """Seconds that a guest has to shut down by itself before it is reset."""
    timeout: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 300.0
    """Seconds for a migration, and for a command."""

    migrations: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 4
    """How many migrations run at once."""
    bandwidth: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    """MiB per second that each migration may take; QEMU's own limit when 0."""

    def path(self, vm: str, host: str) -> Path:
        """Return where the monitor of a machine is."""
        return Path(self.filled(self.qmp, vm, host))

    def filled(self, pattern: str, vm: str, host: str) -> str:
        if "{host}" in pattern and not host:
            raise MonitorProblem(f"{vm} stands on no host, but {pattern} needs one; declare it in the fleet file")
        words = {"{vm}": vm, "{host}": host}
        return re.sub(r"\{vm\}|\{host\}", lambda found: words[found[0]], pattern)

    def command(self, words: list[str], vm: str, host: str) -> list[str]:
        """Return a command for one machine."""
        incoming = self.filled(self.incoming, vm, host) if any("{incoming}" in word for word in words) else ""
        return [self.filled(word, vm, host).replace("{incoming}", incoming) for word in words]

    def vm_at(self, path: Path) -> str:
        """Return whose monitor a path is; empty when it is nobody's."""
        found = self._pattern.fullmatch(str(path))
        return found["vm"] if found else ""

    @property
    def everywhere(self) -> str:
        """The pattern that finds all monitors in the file system."""
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
    """Read and check the settings; BadInput names the one that is wrong."""
    given = read_table(_PLACE, settings, QemuSettings)
    if "{vm}" not in given.qmp or not Path(given.qmp).is_absolute():
        raise BadInput(
            f"setting 'qmp' of {_PLACE} is {given.qmp!r}; write the whole path of a machine's monitor socket, "
            "with {vm} for its name, such as /run/forewarn/{vm}.qmp"
        )
    for name in ("start", "receive", "delete"):
        _check_command(name, getattr(given, name))
    if given.receive and not any("{incoming}" in word for word in given.receive):
        raise BadInput(
            f"setting 'receive' of {_PLACE} has no {{incoming}}; hand it to QEMU's -incoming, so that it waits there"
        )
    return given


def _check_command(name: str, words: list[str]) -> None:
    if not words:
        return
    found = shutil.which(words[0]) if not Path(words[0]).parent.parts else words[0]
    if "{" in words[0] or found is None or not Path(found).is_file():
        raise BadInput(f"setting '{name}' of {_PLACE}: there is no program {words[0]}; give its full path")
    if not os.access(found, os.X_OK):
        raise BadInput(f"setting '{name}' of {_PLACE}: {found} may not be executed; chmod +x it")
