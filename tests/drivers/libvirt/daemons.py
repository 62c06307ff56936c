"""Two libvirt daemons, each as on a machine of its own, with a wire between them."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import libvirt

from demo.initramfs import initramfs
from demo.kernel import Kernel
from forewarn.clocks import SystemClock
from forewarn.drivers.libvirt.driver import LibvirtDriver
from forewarn.drivers.libvirt.hosts import run_event_loop
from tests.cleaning import closed_on_failure
from tests.drivers.libvirt.hypervisor import QEMU_CONF, Guest, boot, wait_for

NAMES = ("h1", "h2")


class Daemons:
    """h1 and h2, and drivers that reach both."""

    def __init__(self) -> None:
        run_event_loop()
        self.root = Path(tempfile.mkdtemp(prefix="lv-"))
        self.records = self.root / "records"
        self.uris = {name: f"qemu+unix:///system?socket={self.root / name}/libvirt-sock" for name in NAMES}
        self.connections: dict[str, libvirt.virConnect] = {}
        self._made: list[LibvirtDriver] = []
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        """What holds the namespaces of each host."""
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        with closed_on_failure(self.close):
            for name in NAMES:
                self._processes[name] = self._make(name)
            self._join()
            for name in NAMES:
                self.start(name)

    def start(self, name: str) -> None:
        """Start the daemon of a host, and connect to it."""
        directory = self.root / name
        (directory / "libvirt-sock").unlink(missing_ok=True)
        with (directory / "stderr").open("ab") as stderr:
            self._daemons[name] = subprocess.Popen(
                [
                    *("nsenter", "--target", str(self._processes[name].pid), "--net", "--mount", "--uts"),
                    *("/usr/sbin/libvirtd", "--pid-file", str(directory / "libvirtd.pid")),
                ],
                stdin=subprocess.DEVNULL,
                stderr=stderr,
            )
        wait_for((directory / "libvirt-sock").exists, f"libvirt on {name}")
        self.connections[name] = libvirt.open(self.uris[name])

    def kill(self, name: str) -> None:
        """Let the daemon of a host die; its guests live on."""
        self._daemons[name].kill()
        self._daemons[name].wait(20)

    def _make(self, name: str) -> subprocess.Popen[bytes]:
        directory = self.root / name
        directory.mkdir()
        (directory / "qemu.conf").write_text(QEMU_CONF)
        script = Path(__file__).with_name("host.sh")
        with (directory / "stderr").open("wb") as stderr:
            return subprocess.Popen(
                ["unshare", "--net", "--mount", "--uts", "sh", script, directory, name, str(uuid4())],
                stdin=subprocess.DEVNULL,
                stderr=stderr,
            )

    def _join(self) -> None:
        """Lay a wire from one to the other; this machine's own network never sees it."""
        for name in NAMES:
            wait_for((self.root / name / "ready").exists, f"the namespaces of {name}")
        one, other = (str(process.pid) for process in self._processes.values())
        _run("ip", "link", "add", "wire", "netns", one, "type", "veth", "peer", "name", "wire", "netns", other)
        for number, pid in enumerate((one, other), start=1):
            inside = ("nsenter", "--target", pid, "--net", "ip")
            _run(*inside, "address", "add", f"10.99.0.{number}/24", "dev", "wire")
            _run(*inside, "link", "set", "wire", "up")

    def driver(self, **more: object) -> LibvirtDriver:
        settings = {"hosts": self.uris, "migration_uri": "tcp://{host}", "grace": "5m", **more}
        self._made.append(LibvirtDriver.from_settings(settings, SystemClock(), 1.0, self.records))
        return self._made[-1]

    def boot(
        self, words: str = "", devices: str = "", system: Callable[[Kernel], Path] = initramfs, host: str = "h1"
    ) -> Guest:
        return boot(self.connections[host], self.root, words, devices, system)

    def inside(self, name: str, *words: str) -> str:
        """Run a command with the files of a host before its eyes; return what it says."""
        return _run(*self.words_inside(name, *words))

    def words_inside(self, name: str, *words: str) -> list[str]:
        return ["nsenter", "--target", str(self._processes[name].pid), "--mount", *words]

    def mount(self, name: str, place: str, mebibytes: int) -> None:
        """Give a host a small file system of its own."""
        self.inside(name, "mkdir", "-p", place)
        self.inside(name, "mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", place)

    def where(self, guest: Guest) -> list[str]:
        """Return the hosts that know a guest."""
        return [
            name
            for name, connection in self.connections.items()
            if guest.name in [domain.name() for domain in connection.listAllDomains()]
        ]

    def running(self, guest: Guest) -> list[str]:
        """Return the hosts on which a guest runs, by what the daemons say; never more than one."""
        found: list[str] = []
        for name, connection in self.connections.items():
            with suppress(libvirt.libvirtError):
                domain = connection.lookupByName(guest.name)
                found += [name] if int(domain.info()[0]) == libvirt.VIR_DOMAIN_RUNNING else []
        return found

    def migrate(self, guest: Guest, to: str = "h2", *, undefine: bool = True, bandwidth: int = 0) -> None:
        """Move a guest as somebody else would, behind Forewarn's back; ``bandwidth`` is in MiB/s."""
        # Unsafe: libvirt cannot know that both hosts see the disks, which are on no network file system.
        flags = libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_PERSIST_DEST | libvirt.VIR_MIGRATE_UNSAFE
        flags |= libvirt.VIR_MIGRATE_UNDEFINE_SOURCE if undefine else 0
        source = next(name for name in NAMES if name != to)
        parameters: dict[str, str | int] = {libvirt.VIR_MIGRATE_PARAM_URI: f"tcp://{to}"}
        if bandwidth:
            parameters[libvirt.VIR_MIGRATE_PARAM_BANDWIDTH] = bandwidth
        domain = self.connections[source].lookupByName(guest.name)
        domain.migrate3(self.connections[to], parameters, flags)  # type: ignore[arg-type]

    def clear(self) -> None:
        """Leave no driver and no guest, and both daemons alive."""
        while self._made:
            self._made.pop().close()
        for name, daemon in self._daemons.items():
            if daemon.poll() is not None:
                self.start(name)
        for connection in self.connections.values():
            for domain in connection.listAllDomains():
                with suppress(libvirt.libvirtError):
                    domain.destroy()
                with suppress(libvirt.libvirtError):
                    domain.undefine()

    def close(self) -> None:
        self.clear()
        for connection in self.connections.values():
            connection.close()
        for process in (*self._daemons.values(), *self._processes.values()):
            process.terminate()
            process.wait(60)
        shutil.rmtree(self.root, ignore_errors=True)


def _run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout
