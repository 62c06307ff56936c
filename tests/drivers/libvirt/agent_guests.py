"""Guests in which Debian's own guest agent runs, so that libvirt hears from within which addresses they have."""

import hashlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from demo.initramfs import initramfs
from demo.kernel import Kernel, cache

AGENT = Path("/usr/sbin/qemu-ga")
DEVICES = """\
<interface type="user"><mac address="{mac}"/><model type="virtio"/></interface>
<channel type="unix"><target type="virtio" name="org.qemu.guest_agent.0"/></channel>
"""
WORDS = "rdinit=/agent guest.address={address}"
_MODULES = (
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_ring.ko",
    "drivers/virtio/virtio_pci_legacy_dev.ko",
    "drivers/virtio/virtio_pci_modern_dev.ko",
    "drivers/virtio/virtio_pci.ko",
    "drivers/char/virtio_console.ko",
    "net/core/failover.ko",
    "drivers/net/net_failover.ko",
    "drivers/net/virtio_net.ko",
)
"""Newer kernels have some built in."""
_INIT = """\
#!/bin/busybox sh
# Load what the agent and the network need, start the agent where its port is, and go on as every guest does.
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
for module in /agent-modules/*.ko; do /bin/busybox insmod "$module"; done
for port in /sys/class/virtio-ports/*; do
    if /bin/busybox grep -q guest_agent "$port/name"; then
        /usr/sbin/qemu-ga --daemonize --method virtio-serial --path "/dev/${port##*/}" -t /run -f /run/agent
    fi
done
exec /init
"""


def with_agent(kernel: Kernel) -> Path:
    """Return the guests' system with the agent in it: two archives, one behind the other; the kernel reads both."""
    assert AGENT.exists(), f"there is no {AGENT}; on Debian: apt-get install qemu-guest-agent"
    plain = initramfs(kernel)
    parts = {f"agent-modules/{number:02}.ko": module for number, module in enumerate(kernel.load_order(_MODULES))}
    parts |= {str(path).removeprefix("/"): path for path in (AGENT, *_libraries())}
    digest = hashlib.sha256(_INIT.encode() + plain.name.encode())
    for path in parts.values():
        digest.update(path.read_bytes())
    kept = cache() / f"with-agent-{digest.hexdigest()[:16]}.cpio"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=cache()) as name:
            packed = Path(name) / "packed"
            packed.write_bytes(plain.read_bytes() + _pack(Path(name) / "root", parts))
            packed.rename(kept)
    return kept


def _libraries() -> list[Path]:
    result = subprocess.run(["ldd", AGENT], capture_output=True, text=True, check=True).stdout
    return [Path(found) for found in re.findall(r"(/\S+) \(0x", result)]


def _pack(root: Path, parts: dict[str, Path]) -> bytes:
    for inside, path in parts.items():
        (root / inside).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / inside)
    (root / "agent").write_text(_INIT)
    (root / "agent").chmod(0o755)
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
    return subprocess.run(
        ["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"],
        cwd=root,
        input="\n".join(names).encode(),
        capture_output=True,
        check=True,
    ).stdout
