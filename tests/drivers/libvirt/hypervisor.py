"""QEMU under libvirt without a daemon, in this process: real guests that boot within seconds."""

import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from uuid import uuid4

import libvirt

from demo.initramfs import initramfs
from demo.kernel import Kernel, kernel
from forewarn.clocks import SystemClock
from forewarn.core.model import Event, EventSource, EventStatus, EventType, Operation, Vm
from forewarn.drivers.libvirt.driver import LibvirtDriver
from forewarn.drivers.libvirt.hosts import run_event_loop
from forewarn.node.driver import CandidateHost, Impact

QEMU_CONF = """\
security_driver = "none"
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
"""

DOMAIN = """\
<domain type="qemu">
  <name>{name}</name>
  <memory unit="MiB">96</memory>
  <os>
    <type arch="x86_64" machine="pc">hvm</type>
    <kernel>{kernel}</kernel>
    <initrd>{initramfs}</initrd>
    <cmdline>console=ttyS0 quiet tsc_early_khz=1000000 lpj=2000000 no_timer_check nokaslr panic=-1
      initcall_blacklist=i8042_init guest.name={name} guest.poll=200000 {words}</cmdline>
  </os>
  <features><acpi/></features>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <serial type="file"><source path="{log}" append="on"/></serial>
    <memballoon model="none"/>
    <controller type="usb" model="none"/>
    {devices}
  </devices>
</domain>
"""


class Hypervisor:
    """One for each process; every guest is of a name of its own."""

    def __init__(self) -> None:
        # Sockets need a short path.
        self.root = Path(tempfile.mkdtemp(prefix="lv-"))
        (self.root / "etc").mkdir()
        (self.root / "etc" / "qemu.conf").write_text(QEMU_CONF)
        self.uri = f"qemu:///embed?root={self.root}"
        run_event_loop()
        self.connection = libvirt.open(self.uri)
        self._seen: list[tuple[str, int, float]] = []
        self.connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._see, None)
        self._made: list[LibvirtDriver] = []
        self._guests: list[Guest] = []

    def _see(self, _: object, domain: libvirt.virDomain, event: int, __: int, ___: object) -> None:
        self._seen.append((domain.name(), event, monotonic()))

    def driver(self, **more: object) -> LibvirtDriver:
        settings = {"hosts": {"h1": self.uri}, "grace": "5m", **more}
        self._made.append(LibvirtDriver.from_settings(settings, SystemClock(), 1.0, self.root / "records"))
        return self._made[-1]

    def guest(self) -> "Guest":
        """Return a guest that has booted: the one that is left of the last test, for a boot takes seconds."""
        for guest in self._guests:
            if guest.is_known and guest.state == libvirt.VIR_DOMAIN_RUNNING:
                return guest
        return self.new_guest()

    def new_guest(self, words: str = "") -> "Guest":
        """Define a guest, start it, and wait until it has booted."""
        guest = boot(self.connection, self.root, words)
        if not words:
            self._guests.append(guest)
        return guest

    def happened(self, guest: "Guest", event: int) -> list[float]:
        """Return when it happened, by a clock of seconds."""
        return [at for name, seen, at in self._seen if (name, seen) == (guest.name, event)]

    def kill(self, guest: "Guest") -> None:
        """Let a guest's process die."""
        os.kill(int((self.root / "run" / "qemu" / f"{guest.name}.pid").read_text()), signal.SIGKILL)

    def close_drivers(self) -> None:
        while self._made:
            self._made.pop().close()

    def close(self) -> None:
        self.close_drivers()
        for domain in self.connection.listAllDomains():
            with suppress(libvirt.libvirtError):
                domain.destroy()
        self.connection.close()
        shutil.rmtree(self.root, ignore_errors=True)


class Guest:
    """A guest, and what it says."""

    def __init__(self, connection: libvirt.virConnect, name: str, log: Path) -> None:
        self.vm = Vm(name, name, host="h1")
        self.name = name
        self.connection = connection
        self._log = log

    @property
    def domain(self) -> libvirt.virDomain:
        return self.connection.lookupByName(self.name)

    @property
    def state(self) -> int:
        return int(self.domain.info()[0])

    @property
    def is_known(self) -> bool:
        return self.name in [domain.name() for domain in self.connection.listAllDomains()]

    @property
    def boots(self) -> list[str]:
        """The ids of its boots, the oldest first."""
        return list(dict.fromkeys(line.split()[1] for line in self.said("clock") if " " in line))

    def said(self, word: str) -> list[str]:
        """Return what it has said under a word; what it is just saying is not said yet."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return [found.strip() for found in re.findall(rf"^.*?@ {word}\b(.*)\n", text, re.MULTILINE)]

    def wait_for_another_boot(self, before: list[str]) -> None:
        """Wait until it has booted once more than it had before, and not oftener."""
        wait_for(lambda: len(self.boots) > len(before), f"another boot of {self.name}")
        assert len(self.boots) == len(before) + 1

    @property
    def still_runs(self) -> bool:
        """Whether it says something new, and has booted once only."""
        ticks = len(self.said("clock"))
        wait_for(lambda: len(self.said("clock")) > ticks, f"{self.name} to say something")
        return len(self.boots) == 1

    def impact(
        self,
        type: EventType,
        *,
        duration: int = -1,
        deletes: bool = False,
        candidates: tuple[CandidateHost, ...] = (),
    ) -> Impact:
        now = datetime.now(UTC)
        event = Event(
            id=str(uuid4()),
            type=type,
            source=EventSource.PLATFORM,
            group=self.name,
            resources=(self.name,),
            status=EventStatus.STARTED,
            not_before=now,
            announced_at=now,
            operation=Operation(f"vm {type}"),
            duration=duration,
        )
        return Impact(event, (self.vm,), now, deletes=deletes, candidates=candidates)


def boot(
    connection: libvirt.virConnect,
    directory: Path,
    words: str = "",
    devices: str = "",
    system: Callable[[Kernel], Path] = initramfs,
) -> Guest:
    """Define a guest that writes to a directory, start it, and wait until it has booted."""
    made = kernel()
    name = f"g-{uuid4().hex[:8]}"
    log = directory / f"{name}.log"
    text = DOMAIN.format(name=name, kernel=made.image, initramfs=system(made), log=log, words=words, devices=devices)
    connection.defineXML(text).create()
    guest = Guest(connection, name, log)
    wait_for(lambda: bool(guest.boots), f"{name} to boot")
    return guest


def wait_for(is_so: Callable[[], bool], what: str, seconds: float = 180.0) -> None:
    until = monotonic() + seconds
    while not is_so():
        assert monotonic() < until, f"waited {seconds:g} s for {what}"
        sleep(0.02)
