"""A hypervisor and its guests as network namespaces: veth pairs for taps, everything else real."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.cleaning import closed_on_failure

PATIENCE = 60.0
PATIENT = ("--connect-timeout", "3", "--max-time", "30")
"""What cannot be reached does not let anybody connect; whoever was let in is waited for, however busy the machine."""
SERVICE = "169.254.169.254"


class Namespace:
    """A network of its own, for as long as its process lives."""

    def __init__(self) -> None:
        own = Path("/proc/self/ns/net").readlink()
        self._keeper = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        with closed_on_failure(self.close):
            deadline = time.monotonic() + PATIENCE
            while Path(f"/proc/{self.pid}/ns/net").readlink() == own:
                assert time.monotonic() < deadline
                time.sleep(0.005)
            self.run("ip", "link", "set", "lo", "up")

    @property
    def pid(self) -> int:
        return self._keeper.pid

    def inside(self, *words: str) -> list[str]:
        return ["nsenter", "--net", "--target", str(self.pid), *words]

    def run(self, *words: str, is_sure: bool = True, cwd: Path | None = None) -> str:
        """Run a command inside and return what it prints."""
        done = subprocess.run(
            self.inside(*words), capture_output=True, text=True, check=False, cwd=cwd, timeout=PATIENCE
        )
        assert not is_sure or done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    @contextmanager
    def running(self, *words: str) -> Iterator[None]:
        """Let a program run inside meanwhile."""
        with subprocess.Popen(self.inside(*words), stderr=subprocess.DEVNULL) as program:
            try:
                yield
            finally:
                program.terminate()

    def ask(self, *options: str, at: str = SERVICE) -> str:
        """Return the name that the service knows it by, or the status it is refused with; nothing without answer."""
        target = f"http://{at}/metadata/instance/compute/name?api-version=2021-02-01&format=text"
        form = "\n%{http_code}"
        said = self.run(
            *("curl", "-gs", *PATIENT, "-H", "Metadata: true", "-w", form, *options, target), is_sure=False
        )
        body, _, status = said.rpartition("\n")
        return body if status == "200" else status.replace("000", "")

    def close(self) -> None:
        self._keeper.kill()
        self._keeper.wait()


class Guest(Namespace):
    """A VM: one wire, on which it may claim to be anybody."""

    def __init__(self, hypervisor: "Hypervisor", tap: str, address: str, mac: str) -> None:
        self.address = address
        self._inner: list[Namespace] = []
        super().__init__()
        with closed_on_failure(self.close):
            hypervisor.run("ip", "link", "add", tap, "type", "veth", "peer", "name", "eth0", "netns", str(self.pid))
            hypervisor.run("ip", "link", "set", tap, "up")
            self.run("ip", "link", "set", "eth0", "address", mac)
            self.run("ip", "link", "set", "eth0", "up")
            self.take(address)
            self.run("ip", "route", "add", SERVICE, "dev", "eth0")

    def take(self, address: str) -> None:
        """Use an address, its own or not."""
        self.run("ip", "address", "add", f"{address}/32", "dev", "eth0")

    def send(self, frame: bytes) -> None:
        """Send a frame, whatever is in it."""
        program = f"import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW).sendto({frame!r}, ('eth0', 0))"
        self.run(sys.executable, "-c", program)
        time.sleep(0.05)  # a busy kernel takes it in a moment later

    def container(self) -> Namespace:
        """Give its own address to somebody inside, and only pass on what goes to and fro."""
        inner = Namespace()
        self._inner.append(inner)
        self.run("ip", "link", "add", "inside", "type", "veth", "peer", "name", "eth0", "netns", str(inner.pid))
        self.run("ip", "link", "set", "inside", "up")
        inner.run("ip", "link", "set", "eth0", "up")
        # With its last address a device loses its routes and neighbours.
        self.take("198.51.100.1")
        self.run("ip", "neigh", "change", SERVICE, "dev", "eth0", "nud", "permanent")
        self.run("ip", "address", "delete", f"{self.address}/32", "dev", "eth0")
        self.run("ip", "address", "add", "192.0.2.1/32", "dev", "inside")
        self.run("ip", "route", "add", self.address, "dev", "inside")
        self.run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.ipv4.conf.eth0.proxy_arp=1")
        inner.run("ip", "address", "add", f"{self.address}/32", "dev", "eth0")
        inner.run("ip", "route", "add", "192.0.2.1", "dev", "eth0")
        inner.run("ip", "route", "add", "default", "via", "192.0.2.1")
        return inner

    def close(self) -> None:
        for inner in self._inner:
            inner.close()
        super().close()


class Tap:
    """A tap of the kernel's, and a process that holds its other end."""

    _PROGRAM = """
import fcntl, os, struct, sys
device = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(device, 0x400454CA, struct.pack("16sH22x", sys.argv[1].encode(), 0x1002))
print("here", flush=True)
for line in sys.stdin:
    os.write(device, bytes.fromhex(line))
    print("sent", flush=True)
"""

    def __init__(self, hypervisor: "Hypervisor", name: str) -> None:
        self._process = subprocess.Popen(
            hypervisor.inside(sys.executable, "-c", self._PROGRAM, name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with closed_on_failure(self.close):
            self._expect("here")

    def send(self, frame: bytes) -> None:
        """Send a frame, whatever is in it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{frame.hex()}\n")
        self._process.stdin.flush()
        self._expect("sent")
        time.sleep(0.05)  # a busy kernel takes it in a moment later

    def _expect(self, word: str) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == word

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Hypervisor(Namespace):
    """The machine that guests stand on, with the service and its data directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory
        self._lock = Path(f"/run/forewarn-network-{Path(f'/proc/{self.pid}/ns/net').stat().st_ino}.lock")
        self._parts = ExitStack()

    def settings(self, fleet: str, text: str) -> None:
        """Write down what the service is to be."""
        (self.directory / "fleet.toml").write_text(fleet)
        always = f'metadata = "{SERVICE}:80"\nfleet = "fleet.toml"\ndata = "data"\n'
        (self.directory / "forewarn.toml").write_text(always + text)

    def forewarn(self, *words: str, is_sure: bool = True) -> str:
        return self.run(sys.executable, "-m", "forewarn", *words, is_sure=is_sure, cwd=self.directory)

    def complaint(self, *words: str, under: tuple[str, ...] = ()) -> str:
        """Return what a command says that is refused."""
        done = subprocess.run(
            self.inside(*under, sys.executable, "-m", "forewarn", *words),
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
            timeout=PATIENCE,
        )
        assert done.returncode in (2, 3), (done.stdout, done.stderr)
        return " ".join(done.stderr.split())

    def guest(self, number: int, address: str = "", bridge: str = "forewarn0") -> Guest:
        """Plug in a guest whose tap is tapN."""
        guest = Guest(self, f"tap{number}", address or f"10.0.0.{number}", f"52:54:00:00:00:{number:02x}")
        self._parts.callback(guest.close)
        if bridge:
            self.run("ip", "link", "set", f"tap{number}", "master", bridge)
        return guest

    def tap(self, name: str, bridge: str = "") -> "Tap":
        """Plug in a real tap, as QEMU makes one, with a guest behind it that only sends frames."""
        tap = Tap(self, name)
        self._parts.callback(tap.close)
        self.run("ip", "link", "set", name, "up", *(("master", bridge) if bridge else ()))
        return tap

    def serve(self) -> None:
        """Start the service for as long as the machine is there; return once it answers."""
        self._parts.enter_context(self.serving())

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Run the service, from when it answers."""
        log = self.directory / "log"
        with log.open("w") as errors:
            service = subprocess.Popen(
                self.inside(sys.executable, "-m", "forewarn", "serve"), cwd=self.directory, stderr=errors
            )
        try:
            deadline = time.monotonic() + PATIENCE
            while " serving metadata=" not in log.read_text():
                assert service.poll() is None, log.read_text()
                assert time.monotonic() < deadline
                time.sleep(0.02)
            yield
        finally:
            service.terminate()
            service.wait()

    def state(self) -> dict[str, Any]:
        """Return all that setup could have changed."""
        addresses = json.loads(self.run("ip", "-json", "address", "show"))
        switches = self.run("sysctl", "-a", "-r", r"rp_filter|tcp_fwmark_accept")
        return {
            "addresses": sorted(
                (each["ifname"], sorted(set(each["flags"]) & {"UP"}), sorted(
                    known["local"] for known in each["addr_info"] if known["family"] == "inet"
                ))
                for each in addresses
            ),
            "routes": sorted(self.run("ip", "route", "show", "table", "all", "type", "unicast").splitlines()),
            "rules": self.run("nft", "list", "ruleset"),
            "switches": sorted(switches.splitlines()),
        }  # fmt: skip

    def close(self) -> None:
        self._parts.close()
        super().close()
        self._lock.unlink(missing_ok=True)


@contextmanager
def hypervisor(directory: Path) -> Iterator[Hypervisor]:
    machine = Hypervisor(directory)
    try:
        yield machine
    finally:
        machine.close()
