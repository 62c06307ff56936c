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
from forewarn.drivers.libvirt import loop
from forewarn.drivers.libvirt.driver import LibvirtDriver
from tests.drivers.libvirt.hypervisor import QEMU_CONF, Guest, boot, wait_for

NAMES = ("h1", "h2")


class Daemons:
    """h1 and h2, and drivers that reach both."""

    def __init__(self) -> None:
        loop.run()
        self.root = Path(tempfile.mkdtemp(prefix="lv-"))
        self.records = self.root / "records"
        self._processes = {name: self._start(name) for name in NAMES}
        self._join()
        self.uris = {name: f"qemu+unix:///system?socket={self.root / name}/libvirt-sock" for name in NAMES}
        for name in NAMES:
            wait_for((self.root / name / "libvirt-sock").exists, f"libvirt on {name}")
        self.connections = {name: libvirt.open(uri) for name, uri in self.uris.items()}
        self._made: list[LibvirtDriver] = []

    def _start(self, name: str) -> subprocess.Popen[bytes]:
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
            wait_for((self.root / name / "hosts").exists, f"the namespaces of {name}")
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

    def boot(self, words: str = "", devices: str = "", system: Callable[[Kernel], Path] = initramfs) -> Guest:
        return boot(self.connections["h1"], self.root, words, devices, system)

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

    def clear(self) -> None:
        """Leave no driver and no guest."""
        while self._made:
            self._made.pop().close()
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
        for process in self._processes.values():
            process.terminate()
            process.wait(60)
        shutil.rmtree(self.root, ignore_errors=True)


def _run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout
