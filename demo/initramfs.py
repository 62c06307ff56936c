"""The guests' whole system: busybox, a few kernel modules and one script, packed into an initramfs."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from demo.kernel import Kernel, cache

_BUSYBOX = Path("/bin/busybox")
_INIT = Path(__file__).with_name("init.sh")
_MODULES = (
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_ring.ko",
    "drivers/virtio/virtio_mmio.ko",
    "net/core/failover.ko",
    "drivers/net/net_failover.ko",
    "drivers/net/virtio_net.ko",
    "drivers/acpi/button.ko",
    "drivers/input/evdev.ko",
)
"""Newer kernels have some built in."""


class NoInitramfs(Exception):
    """The guests' system could not be built."""


def initramfs(kernel: Kernel) -> Path:
    """Return the packed system; it is built anew when anything in it has changed."""
    if not _BUSYBOX.exists():
        raise NoInitramfs(f"there is no {_BUSYBOX}; on Debian: apt-get install busybox-static")
    parts = {f"modules/{number:02}.ko": module for number, module in enumerate(kernel.load_order(_MODULES))}
    parts |= {"bin/busybox": _BUSYBOX, "init": _INIT}
    kept = cache() / f"initramfs-{_digest(parts)}.cpio"
    if not kept.exists():
        _build(parts, kept)
    return kept


def _digest(parts: dict[str, Path]) -> str:
    digest = hashlib.sha256()
    for name, path in sorted(parts.items()):
        digest.update(name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _build(parts: dict[str, Path], kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as name:
        root = Path(name) / "root"
        for folder in ("bin", "dev", "modules", "proc", "run", "sys"):
            (root / folder).mkdir(parents=True)
        for inside, path in parts.items():
            shutil.copy(path, root / inside)
            (root / inside).chmod(0o755)
        names = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
        done = subprocess.run(
            ["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"],
            cwd=root,
            input="\n".join(names).encode(),
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise NoInitramfs(f"cpio could not pack the guests' system: {done.stderr.decode().strip()}")
        packed = Path(name) / "packed"
        packed.write_bytes(done.stdout)
        packed.rename(kept)
