"""A real sshd on loopback that leads to one of the daemons, with keys that the test made."""

import subprocess
from pathlib import Path

from tests.cleaning import closed_on_failure
from tests.drivers.libvirt.daemons import Daemons
from tests.drivers.libvirt.hypervisor import wait_for
from tests.ports import free_port

SETTINGS = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {place}/host
AuthorizedKeysFile {place}/authorized
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PidFile none
"""


class SshServer:
    """The way to h1 from elsewhere."""

    def __init__(self, daemons: Daemons, place: Path) -> None:
        self._daemons = daemons
        self._place = place
        self._port = free_port()
        for name in ("host", "ours", "strange"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / name], check=True)
        (place / "authorized").write_bytes((place / "ours.pub").read_bytes())
        (place / "known").write_text(f"[127.0.0.1]:{self._port} {(place / 'host.pub').read_text()}")
        (place / "nobody").touch()
        for known in ("known", "nobody"):
            # What an operator has in ~/.ssh, which no test may touch.
            program = self._place / f"ssh-{known}"
            program.write_text(f'#!/bin/sh\nexec ssh -F none -o UserKnownHostsFile={place / known} "$@"\n')
            program.chmod(0o755)
        (place / "sshd_config").write_text(SETTINGS.format(port=self._port, place=place))
        # On that host libvirt's socket is where everybody looks for it.
        daemons.inside("h1", "mkdir", "-p", "/run/sshd", "/run/libvirt")
        daemons.inside("h1", "ln", "-sfn", str(daemons.root / "h1" / "libvirt-sock"), "/run/libvirt/libvirt-sock")
        self.open()

    def uri(self, key: str = "ours", known: str = "known") -> str:
        words = f"keyfile={self._place / key}&command={self._place / f'ssh-{known}'}&no_tty=1"
        return f"qemu+ssh://root@127.0.0.1:{self._port}/system?{words}"

    def open(self) -> None:
        """Let in who has the key."""
        with (self._place / "log").open("wb") as log:
            self._sshd = subprocess.Popen(
                self._daemons.words_inside(
                    "h1", "/usr/sbin/sshd", "-D", "-e", "-f", str(self._place / "sshd_config")
                ),
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        with closed_on_failure(self.close):
            wait_for(lambda: b"listening on" in (self._place / "log").read_bytes(), "sshd")

    def cut(self) -> None:
        """End every conversation that goes on, and the server itself."""
        inside = _descendants(str(self._sshd.pid))
        self.close()
        for pid in inside:
            subprocess.run(["kill", "-9", pid], check=False, capture_output=True)

    def close(self) -> None:
        self._sshd.terminate()
        self._sshd.wait(20)


def _descendants(pid: str) -> list[str]:
    """Return the processes below one: newer versions of sshd hand a conversation on to a child of a child."""
    result = subprocess.run(["pgrep", "-P", pid], capture_output=True, text=True, check=False)
    children = result.stdout.split()
    return [*children, *(below for child in children for below in _descendants(child))]
