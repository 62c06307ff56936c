"""A small data centre in a network namespace of its own: a bridge with 169.254.169.254 on it, and machines on that.

Nothing of it touches the machine's own network, and nothing of it is left when it is over.
"""

import ctypes
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Self

from demo.initramfs import initramfs
from demo.kernel import kernel
from demo.ticks import kilohertz

BRIDGE = "guests"
METADATA = "169.254.169.254"
_MAC = "02:00:a9:fe:a9:fe"
_GATEWAY = "10.0.0.1/24"
_PATIENCE = 60.0
_NAMESPACES = Path("/run/netns")
"""Where ``ip`` keeps them; it makes the directory, and a mount of it, with the first."""


class Site:
    """The namespace and the directory in which guests live, until it is left."""

    def __init__(self, directory: Path, name: str = "") -> None:
        self.name = name or f"forewarn-{os.getpid()}-{token_hex(3)}"
        self.directory = directory
        self.start = directory / "start.sh"
        """Starts a machine: ``start.sh VM HOST [INCOMING]``."""
        self.reboot = directory / "reboot.sh"
        """Reboots a host: ``reboot.sh HOST COMMAND``."""
        self._is_first = bool(name)
        """Whether the machine had no namespace before; of a site that was left behind, nobody knows."""

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def command(self, *words: str | Path) -> list[str]:
        """Return the command that runs the given one in the site's network."""
        return ["ip", "netns", "exec", self.name, *map(str, words)]

    def run(self, *words: str | Path) -> str:
        """Run a command in the site's network; return what it says."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, check=False, timeout=60)
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip() or done.returncode}")
        return done.stdout

    def begin(self, *words: str | Path, **more: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401 Popen's own
        """Start a process in the site's network; ``ip`` gives way to it, so that its id is the process's own."""
        return subprocess.Popen(self.command(*words), **more)

    def place(self, vm: str, host: str, kind: str) -> Path:
        """Return where a machine's file or socket of that kind is."""
        return self.directory / host / f"{vm}.{kind}"

    def describe(self, vm: str, number: int, *, approve: str = "never", memory: int = 96) -> str:
        """Lay down what a machine is made of; return its address."""
        address = f"10.0.0.{10 + number}"
        made_of = {
            "ADDRESS": f"{address}/24",
            "APPROVE": approve,
            "MAC": f"52:54:00:00:00:{10 + number:02x}",
            "MEMORY": str(memory),
            "TAP": f"tap{number}",
        }
        folder = self.directory / "vms"
        folder.mkdir(exist_ok=True)
        (folder / vm).write_text("".join(f"{key}={value}\n" for key, value in made_of.items()), encoding="utf-8")
        return address

    def close(self) -> None:
        """End every process in the site's network, and take the network away."""
        ending = monotonic() + _PATIENCE
        while processes := self._processes():
            for process in processes:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            if monotonic() > ending:
                break
            sleep(0.05)
        subprocess.run(["ip", "netns", "delete", self.name], capture_output=True, check=False)
        if self._is_first:
            self._remove_folder()

    def _remove_folder(self) -> None:
        """Remove what the first namespace of a machine brings with it, unless others have come to use it."""
        # The command of that name would leave a directory of its own behind.
        ctypes.CDLL(None).umount2(bytes(_NAMESPACES), 0)
        with suppress(OSError):
            _NAMESPACES.rmdir()

    def _processes(self) -> list[int]:
        result = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True, check=False)
        return [int(word) for word in result.stdout.split()]

    def _build(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        system = kernel()
        made_of = {
            "BRIDGE": BRIDGE,
            "KERNEL": system.image,
            "INITRAMFS": initramfs(system),
            "TICKS": kilohertz(),
        }
        words = "".join(f"{key}={value}\n" for key, value in made_of.items())
        (self.directory / "site").write_text(words, encoding="utf-8")
        for script in (self.start, self.reboot):
            shutil.copy(Path(__file__).with_name(script.name), script)
        self._is_first = not _NAMESPACES.exists()
        subprocess.run(["ip", "netns", "add", self.name], check=True, capture_output=True)
        self.run("ip", "link", "set", "lo", "up")
        # Without a MAC of its own a bridge takes that of its lowest port, and saved guests remember the last one.
        self.run("ip", "link", "add", BRIDGE, "address", _MAC, "type", "bridge", "forward_delay", "0")
        self.run("ip", "address", "add", _GATEWAY, "dev", BRIDGE)
        self.run("ip", "address", "add", f"{METADATA}/32", "dev", BRIDGE)
        self.run("ip", "link", "set", BRIDGE, "up")
